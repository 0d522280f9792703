//! Bitmaps of validity and of BOOLEAN columns: one bit for each row, least significant bit first.
//!
//! Bits behind the last row are unspecified in arguments and zero in results.

use lode_base::{PageBuf, PageBufMut};

pub(crate) fn get(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 == 1
}

pub(crate) fn set(bits: &mut [u8], row: usize) {
    bits[row / 8] |= 1 << (row % 8);
}

/// Rows of the first `rows` whose bit is set.
pub(crate) fn count(bits: &[u8], rows: usize) -> usize {
    let whole: usize = bits[..rows / 8].iter().map(|b| b.count_ones() as usize).sum();
    match rows % 8 {
        0 => whole,
        tail => whole + (bits[rows / 8] & ((1 << tail) - 1)).count_ones() as usize,
    }
}

/// Calls `each` with every row whose bit is clear.
pub(crate) fn for_each_clear(bits: &[u8], rows: usize, mut each: impl FnMut(usize)) {
    for (at, &byte) in bits[..rows.div_ceil(8)].iter().enumerate() {
        let mut clear = !byte;
        while clear != 0 {
            let row = at * 8 + clear.trailing_zeros() as usize;
            if row < rows {
                each(row);
            }
            clear &= clear - 1;
        }
    }
}

/// Copies `rows` bits from the start of `from` to bit `at` of `to`, whose bits there are still clear.
pub(crate) fn copy(to: &mut [u8], at: usize, from: &[u8], rows: usize) {
    let (shift, first) = (at % 8, at / 8);
    for i in 0..rows.div_ceil(8) {
        let left = rows - i * 8;
        let byte = if left < 8 { from[i] & ((1 << left) - 1) } else { from[i] };
        to[first + i] |= byte << shift;
        let carried = (u16::from(byte) << shift) >> 8;
        if carried != 0 {
            to[first + i + 1] |= carried as u8;
        }
    }
}

/// Sets `rows` bits from bit `at` on.
pub(crate) fn fill(to: &mut [u8], at: usize, rows: usize) {
    let end = at + rows;
    let mut row = at;
    while row < end && !row.is_multiple_of(8) {
        set(to, row);
        row += 1;
    }
    if row < end {
        to[row / 8..end / 8].fill(0xff);
        for row in (end / 8 * 8).max(row)..end {
            set(to, row);
        }
    }
}

/// The bits of `rows` rows, with zeros behind them. The bytes are shared if these are zero already.
pub(crate) fn trimmed(bits: &PageBuf, rows: usize) -> PageBuf {
    let cut = bits.slice(..rows.div_ceil(8));
    let tail = rows % 8;
    if tail == 0 || cut[rows / 8] >> tail == 0 {
        return cut;
    }
    let mut out = PageBufMut::zeroed(cut.len());
    out.copy_from_slice(&cut);
    out[rows / 8] &= (1 << tail) - 1;
    out.freeze()
}

/// Bits `offset..offset + rows`. The bytes are shared if `offset` is a multiple of 8.
pub(crate) fn slice(bits: &PageBuf, offset: usize, rows: usize) -> PageBuf {
    let from = bits.slice(offset / 8..(offset + rows).div_ceil(8));
    let shift = offset % 8;
    if shift == 0 {
        return from;
    }
    let mut out = PageBufMut::zeroed(rows.div_ceil(8));
    for (i, byte) in out.iter_mut().enumerate() {
        let next = from.get(i + 1).copied().unwrap_or(0);
        *byte = from[i] >> shift | next << (8 - shift);
    }
    out.freeze()
}

/// `validity`, or `None` if it marks no NULL among `rows` rows.
pub(crate) fn with_nulls(validity: PageBuf, rows: usize) -> Option<PageBuf> {
    (count(&validity, rows) < rows).then_some(validity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_land_where_they_should() {
        let source = PageBuf::copy_from(&[0b1011_0101, 0b0110_1001, 0b1111_0000, 0xff]);
        for offset in 0..12 {
            for rows in 0..16 {
                let part = slice(&source, offset, rows);
                let mut back = vec![0u8; 5];
                copy(&mut back, offset, &part, rows);
                for row in 0..40 {
                    let inside = (offset..offset + rows).contains(&row);
                    assert_eq!(
                        get(&back, row),
                        inside && get(&source, row),
                        "row {row}, {rows} from {offset}"
                    );
                }
                let mut full = vec![0u8; 5];
                fill(&mut full, offset, rows);
                assert_eq!(count(&full, 40), rows);
                assert!(rows == 0 || get(&full, offset) && get(&full, offset + rows - 1));
            }
        }
    }

    #[test]
    fn clear_bits_are_visited_once() {
        let mut seen = Vec::new();
        for_each_clear(&[0b1111_1010, 0b0000_0001], 11, |row| seen.push(row));
        assert_eq!(seen, [0, 2, 9, 10]);
        assert_eq!(count(&[0b1111_1010, 0b0000_0001], 11), 7);
        assert_eq!(&*trimmed(&PageBuf::copy_from(&[0xff, 0xff]), 11), &[0xff, 0b111]);
    }
}
