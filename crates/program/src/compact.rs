//! `compact`: makes a column of the selected rows of a column.
//!
//! Adjacent selected rows are copied together. Packed numbers are unpacked one block at a time. If all rows of a page
//! are selected, the column keeps its layout. A dictionary is kept and shared, unless the plain values are smaller.
//! The goal is few bytes on the link.

use lode_base::{PageBuf, PageBufMut};
use lode_page::packed::{BLOCK_ROWS, Number, Packed, Scratch};
use lode_page::symbols::Symbols;
use lode_page::{Column, DataType, Values};

use crate::bits;
use crate::lanes::Codes;
use crate::{RowMask, Selection};

/// Returns a column of the rows of `c` that `s` selects.
///
/// # Panics
/// When `s` is a mask of another number of rows.
pub fn compact(c: &Column, s: &Selection) -> Column {
    let mask = match s {
        Selection::All => return c.clone(),
        Selection::None => return empty(c.data_type()),
        Selection::Some(mask) => mask,
    };
    assert_eq!(mask.rows(), c.rows(), "a mask for another page");
    let values = match c.values() {
        Values::Bits(b) => Values::Bits(copy_bits(b, mask)),
        Values::Fixed { width, data } => {
            Values::Fixed { width: *width, data: copy_fixed(data, *width, mask) }
        }
        Values::Var { offsets, data } => {
            let offsets: &[u32] = offsets.try_values().expect("offsets were checked to be aligned");
            copy_strings(offsets, data, mask)
        }
        Values::Dict { code_width, codes, dictionary } => {
            let codes = copy_fixed(codes, *code_width, mask);
            looked_up(*code_width, &codes, dictionary, mask.count()).unwrap_or_else(|| Values::Dict {
                code_width: *code_width,
                codes,
                dictionary: dictionary.clone(),
            })
        }
        Values::Packed(p) => Values::Fixed { width: p.width(), data: copy_packed(p, mask) },
        Values::Symbols(s) => copy_symbols(s, mask),
    };
    let validity = c.validity().map(|v| copy_bits(v, mask));
    Column::new(c.data_type(), mask.count(), validity, values).expect("rows of a checked column")
}

/// Returns a column without rows.
fn empty(t: DataType) -> Column {
    let values = match t {
        DataType::Boolean => Values::Bits(PageBuf::empty()),
        DataType::Decimal { .. } => Values::Fixed { width: 4, data: PageBuf::empty() },
        t => match t.fixed_bytes() {
            Some(width) => Values::Fixed { width: width as u8, data: PageBuf::empty() },
            None => Values::Var { offsets: PageBuf::from_values(&[0u32]), data: PageBuf::empty() },
        },
    };
    Column::new(t, 0, None, values).expect("no rows")
}

fn copy_fixed(data: &PageBuf, width: u8, mask: &RowMask) -> PageBuf {
    fn copy<T: bytemuck::Pod>(data: &PageBuf, mask: &RowMask) -> PageBuf {
        let values: &[T] = data.try_values().expect("data was checked to be aligned");
        let mut out = PageBufMut::scratch(mask.count() * size_of::<T>());
        pick(values, mask.words(), bytemuck::cast_slice_mut(&mut out));
        out.freeze()
    }
    match width {
        1 => copy::<u8>(data, mask),
        2 => copy::<u16>(data, mask),
        4 => copy::<u32>(data, mask),
        8 => copy::<u64>(data, mask),
        _ => copy::<u128>(data, mask),
    }
}

/// The most selected numbers of a block that are read one by one. If more are selected, the block is unpacked.
const LOOKED_UP_MAX: usize = 16;

fn copy_packed(p: &Packed, mask: &RowMask) -> PageBuf {
    fn copy<T: Number>(p: &Packed, mask: &RowMask) -> PageBuf {
        let mut out = PageBufMut::scratch(mask.count() * size_of::<T>());
        let mut to: &mut [T] = bytemuck::cast_slice_mut(&mut out);
        let (mut room, scratch) = (vec![T::zeroed(); BLOCK_ROWS], &mut Scratch::default());
        for (b, words) in mask.words().chunks(BLOCK_ROWS / 64).enumerate() {
            let first = b * BLOCK_ROWS;
            let rows = (p.rows() - first).min(BLOCK_ROWS);
            let selected = words.iter().map(|w| w.count_ones() as usize).sum();
            let (here, rest) = std::mem::take(&mut to).split_at_mut(selected);
            to = rest;
            if selected == rows {
                p.read(first, here, scratch);
            } else if selected > LOOKED_UP_MAX || selected > 0 && p.is_runs() {
                p.read(first, &mut room[..rows], scratch);
                pick(&room[..rows], words, here);
            } else if selected > 0 {
                let block = p.block(b);
                let low = T::of(block.low());
                let mut at = 0;
                for (i, &word) in words.iter().enumerate() {
                    bits::each(word, |bit| {
                        here[at] = low.plus(block.get(i * 64 + bit));
                        at += 1;
                    });
                }
            }
        }
        out.freeze()
    }
    match p.width() {
        2 => copy::<i16>(p, mask),
        4 => copy::<i32>(p, mask),
        8 => copy::<i64>(p, mask),
        _ => copy::<i128>(p, mask),
    }
}

fn copy_symbols(s: &Symbols, mask: &RowMask) -> Values {
    let mut ends = Vec::with_capacity(mask.count() + 1);
    let mut data = Vec::new();
    ends.push(0u32);
    for (b, words) in mask.words().chunks(BLOCK_ROWS / 64).enumerate() {
        if words.iter().any(|&w| w != 0) {
            let first = b * BLOCK_ROWS;
            s.each(first..(first + BLOCK_ROWS).min(s.rows()), |row, codes| {
                if mask.contains(row) {
                    s.append(codes, &mut data);
                    ends.push(data.len() as u32);
                }
            });
        }
    }
    Values::Var { offsets: PageBuf::from_values(&ends), data: PageBuf::copy_from(&data) }
}

/// Copies the values whose bits in `words` are set. The length of `to` is the number of set bits.
fn pick<T: Copy>(from: &[T], words: &[u64], to: &mut [T]) {
    let mut at = 0;
    for (i, &word) in words.iter().enumerate() {
        let n = word.count_ones() as usize;
        let rest = &from[i * 64..];
        match (n, rest.first_chunk::<64>()) {
            (0, _) => {}
            (64, Some(all)) => to[at..at + 64].copy_from_slice(all),
            // At most four values are not selected. The code copies all 64 values. For each value that is not
            // selected, it copies the values after it again, one position lower.
            (60..64, _) if rest.len() >= 128 && at + 64 <= to.len() => {
                let (mut missing, mut end) = (!word, at);
                let mut next = 0;
                loop {
                    if let (Some(to), Some(from)) =
                        (to[end..].first_chunk_mut::<64>(), rest[next..].first_chunk::<64>())
                    {
                        *to = *from;
                    } else {
                        let left = (64 - next).min(to.len() - end);
                        to[end..end + left].copy_from_slice(&rest[next..next + left]);
                    }
                    if missing == 0 {
                        break;
                    }
                    let gap = missing.trailing_zeros() as usize;
                    missing &= missing - 1;
                    end += gap - next;
                    next = gap + 1;
                }
            }
            // Each value is written to the position of the next selected value, so no branch depends on the bits.
            (17.., Some(all)) if at + n < to.len() => {
                let mut end = at;
                for (i, v) in all.iter().enumerate() {
                    to[end] = *v;
                    end += (word >> i & 1) as usize;
                }
            }
            _ => {
                let mut left = word;
                for to in &mut to[at..at + n] {
                    *to = rest[left.trailing_zeros() as usize];
                    left &= left - 1;
                }
            }
        }
        at += n;
    }
}

fn copy_strings(offsets: &[u32], data: &[u8], mask: &RowMask) -> Values {
    let bytes: usize = mask.runs().map(|r| (offsets[r.end] - offsets[r.start]) as usize).sum();
    let mut ends = PageBufMut::zeroed((mask.count() + 1) * 4);
    let mut out = PageBufMut::zeroed(bytes);
    let to: &mut [u32] = bytemuck::cast_slice_mut(&mut ends);
    let (mut row, mut end) = (0, 0u32);
    for run in mask.runs() {
        let (from, start) = (offsets[run.start], end);
        for &o in &offsets[run.start + 1..=run.end] {
            row += 1;
            end = start + (o - from);
            to[row] = end;
        }
        out[start as usize..end as usize].copy_from_slice(&data[from as usize..offsets[run.end] as usize]);
    }
    Values::Var { offsets: ends.freeze(), data: out.freeze() }
}

fn copy_bits(data: &[u8], mask: &RowMask) -> PageBuf {
    let mut out = PageBufMut::zeroed(mask.count().div_ceil(64) * 8);
    let to: &mut [u64] = bytemuck::cast_slice_mut(&mut out);
    let mut at = 0;
    for (i, &wanted) in mask.words().iter().enumerate() {
        let from = bits::word(data, i);
        if wanted == !0 && at % 64 == 0 {
            to[at / 64] = from;
            at += 64;
            continue;
        }
        bits::each(wanted, |bit| {
            to[at / 64] |= (from >> bit & 1) << (at % 64);
            at += 1;
        });
    }
    out.freeze().slice(..mask.count().div_ceil(8))
}

/// Returns the plain values if they take fewer bytes than codes and dictionary.
fn looked_up(code_width: u8, codes: &PageBuf, dictionary: &Column, rows: usize) -> Option<Values> {
    let limit = codes.len() + dictionary.link_bytes();
    let codes = Codes::new(code_width, codes, 0..rows);
    match dictionary.values() {
        Values::Fixed { width, data } => {
            let w = usize::from(*width);
            if rows * w > limit {
                return None;
            }
            let mut out = PageBufMut::zeroed(rows * w);
            for (row, to) in out.chunks_exact_mut(w).enumerate() {
                let code = codes.get(row);
                to.copy_from_slice(&data[code * w..(code + 1) * w]);
            }
            Some(Values::Fixed { width: *width, data: out.freeze() })
        }
        Values::Var { offsets, data } => {
            let offsets: &[u32] = offsets.try_values().expect("offsets were checked to be aligned");
            // The offsets alone may already take more bytes. Then no code needs to be read.
            let mut bytes = (rows + 1) * 4;
            for row in 0..rows {
                if bytes > limit {
                    return None;
                }
                let code = codes.get(row);
                bytes += (offsets[code + 1] - offsets[code]) as usize;
            }
            if bytes > limit {
                return None;
            }
            let mut ends = Vec::with_capacity(rows + 1);
            let mut out = PageBufMut::zeroed(bytes - (rows + 1) * 4);
            let mut end = 0;
            ends.push(0);
            for row in 0..rows {
                let code = codes.get(row);
                let value = &data[offsets[code] as usize..offsets[code + 1] as usize];
                out[end..end + value.len()].copy_from_slice(value);
                end += value.len();
                ends.push(end as u32);
            }
            Some(Values::Var { offsets: PageBuf::from_values(&ends), data: out.freeze() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn dictionary_column(rows: usize) -> Column {
        let offsets = [0u32, 5, 10];
        let words =
            Values::Var { offsets: PageBuf::from_values(&offsets), data: PageBuf::copy_from(b"AIR  TRUCK") };
        let dictionary = Arc::new(Column::new(DataType::Text, 2, None, words).unwrap());
        let codes: Vec<u8> = (0..rows).map(|r| (r % 2) as u8).collect();
        let values = Values::Dict { code_width: 1, codes: PageBuf::copy_from(&codes), dictionary };
        Column::new(DataType::Text, rows, None, values).unwrap()
    }

    #[test]
    fn a_dictionary_crosses_the_link_only_where_it_saves_bytes() {
        let c = dictionary_column(1000);
        let check = |selected: usize, kept: bool| {
            let words =
                (0..16).map(|i| if i * 64 < selected { !0 >> (64 - (selected - i * 64).min(64)) } else { 0 });
            let mask = RowMask::new(words.collect(), 1000);
            assert_eq!(mask.count(), selected);
            let got = compact(&c, &Selection::Some(mask));
            assert_eq!(matches!(got.values(), Values::Dict { .. }), kept, "{selected} rows");
            assert!(got.link_bytes() <= selected + 22);
            assert!((0..selected).all(|r| got.value(r) == c.value(r)));
        };
        check(2, false);
        check(3, true);
        check(500, true);
        assert_eq!(compact(&c, &Selection::None).rows(), 0);
        assert_eq!(compact(&c, &Selection::All).link_bytes(), c.link_bytes());
    }
}
