//! Operations on whole columns: concatenate, slice, gather, replace rows, remove a dictionary.
//!
//! ```text
//!   concat [a b] + [c] = [a b c]          take [a b c] (2 0) = [c a]        slice [a b c] 1..2 = [b]
//!   scatter [a b c] (1) [x] = [a x c]     plain: codes into a dictionary become the values themselves
//! ```
//!
//! Results share buffers with their sources where they can. The sources were checked when they were made, so
//! results are not checked again. A dictionary survives wherever all sources share it.

use std::sync::Arc;

use bytemuck::Pod;
use lode_base::{PageBuf, PageBufMut};

use crate::packed::Packed;
use crate::symbols::Symbols;
use crate::{Column, DataType, Values, bits};

/// The rows of `parts`, end to end. Decimals take the widest of the parts' widths.
///
/// # Panics
/// When a part has another type, or all have more than `u32::MAX` rows or bytes of strings.
pub fn concat(data_type: DataType, parts: &[Column]) -> Column {
    assert!(parts.iter().all(|p| p.data_type() == data_type), "parts of one column have one type");
    let parts: Vec<&Column> = parts.iter().filter(|p| p.rows() > 0).collect();
    if let [only] = parts[..] {
        return only.clone();
    }
    let rows: usize = parts.iter().map(|p| p.rows()).sum();
    assert!(u32::try_from(rows).is_ok(), "{rows} rows in one column");
    let validity = parts.iter().any(|p| p.validity().is_some()).then(|| {
        let mut out = PageBufMut::zeroed(rows.div_ceil(8));
        let mut at = 0;
        for p in &parts {
            match p.validity() {
                Some(v) => bits::copy(&mut out, at, v, p.rows()),
                None => bits::fill(&mut out, at, p.rows()),
            }
            at += p.rows();
        }
        out.freeze()
    });
    let values = concat_codes(&parts, rows).unwrap_or_else(|| match data_type {
        DataType::Boolean => concat_bits(&parts, rows),
        t if t.is_variable() => concat_var(&parts, rows),
        t => concat_fixed(t, &parts, rows),
    });
    Column::trusted(data_type, rows, validity.and_then(|v| bits::with_nulls(v, rows)), values)
}

/// The rows of `c` with these numbers, in this order; a row may come several times.
///
/// # Panics
/// When a number is not below the column's rows.
pub fn take(c: &Column, rows: &[u32]) -> Column {
    let gather_bits = |from: &[u8]| {
        let mut out = PageBufMut::zeroed(rows.len().div_ceil(8));
        let to: &mut [u8] = &mut out;
        for (i, &row) in rows.iter().enumerate() {
            assert!((row as usize) < c.rows(), "row {row} of {}", c.rows());
            to[i / 8] |= u8::from(bits::get(from, row as usize)) << (i % 8);
        }
        out.freeze()
    };
    let validity = c.validity().and_then(|v| bits::with_nulls(gather_bits(v), rows.len()));
    let values = match c.values() {
        Values::Bits(b) => Values::Bits(gather_bits(b)),
        Values::Fixed { width, data } => {
            Values::Fixed { width: *width, data: gather_fixed(*width, data, rows) }
        }
        Values::Var { offsets, data } => gather_var(offsets, data, rows),
        Values::Dict { code_width: 1, codes, dictionary } => Values::Dict {
            code_width: 1,
            codes: gather::<u8, u32>(codes, rows),
            dictionary: dictionary.clone(),
        },
        Values::Dict { code_width, codes, dictionary } => Values::Dict {
            code_width: *code_width,
            codes: gather_fixed(2, codes, rows),
            dictionary: dictionary.clone(),
        },
        Values::Packed(p) => Values::Fixed { width: p.width(), data: gather_packed(p, rows) },
        Values::Symbols(s) => gather_symbols(s, rows),
    };
    Column::trusted(c.data_type(), rows.len(), validity, values)
}

/// Rows `offset..offset + rows` of `c`. Copies at most offsets and bitmaps, and unpacks what is packed.
///
/// # Panics
/// When the column has fewer rows.
pub fn slice(c: &Column, offset: usize, rows: usize) -> Column {
    assert!(offset + rows <= c.rows(), "rows {offset}..{} of {}", offset + rows, c.rows());
    let validity = c.validity().and_then(|v| bits::with_nulls(bits::slice(v, offset, rows), rows));
    let cut = |data: &PageBuf, width: u8| {
        let width = usize::from(width);
        data.slice(offset * width..(offset + rows) * width)
    };
    let values = match c.values() {
        Values::Bits(b) => Values::Bits(bits::slice(b, offset, rows)),
        Values::Fixed { width, data } => Values::Fixed { width: *width, data: cut(data, *width) },
        Values::Var { offsets, data } => {
            let o = &numbers::<u32>(offsets)[offset..=offset + rows];
            let (from, to) = (o[0], o[rows]);
            let offsets = if from == 0 {
                offsets.slice(offset * 4..(offset + rows + 1) * 4)
            } else {
                fill::<u32>(rows + 1, |out| out.iter_mut().zip(o).for_each(|(out, &o)| *out = o - from))
            };
            Values::Var { offsets, data: data.slice(from as usize..to as usize) }
        }
        Values::Dict { code_width, codes, dictionary } => Values::Dict {
            code_width: *code_width,
            codes: cut(codes, *code_width),
            dictionary: dictionary.clone(),
        },
        Values::Packed(p) => Values::Fixed { width: p.width(), data: p.unpack(offset..offset + rows) },
        Values::Symbols(s) => s.expand(offset..offset + rows),
    };
    Column::trusted(c.data_type(), rows, validity, values)
}

/// `base` with row `rows[i]` replaced by row `i` of `replacement`, for each `i`. If a row occurs several times, the
/// last one wins.
///
/// # Panics
/// When the types differ, `replacement` has not as many rows as `rows`, or a number is not below the base's rows.
pub fn scatter(base: &Column, rows: &[u32], replacement: &Column) -> Column {
    assert_eq!(replacement.rows(), rows.len(), "one replacement a row");
    let both = concat(base.data_type(), &[base.clone(), replacement.clone()]);
    let mut from: Vec<u32> = (0..base.rows() as u32).collect();
    for (i, &row) in rows.iter().enumerate() {
        from[row as usize] = (base.rows() + i) as u32;
    }
    take(&both, &from)
}

/// `c` with its values themselves: without a dictionary, and unpacked.
pub fn plain(c: &Column) -> Column {
    let Values::Dict { code_width, codes, dictionary } = c.values() else { return unpacked(c) };
    let values = match (dictionary.values(), code_width) {
        (Values::Fixed { width, data }, 1) => {
            Values::Fixed { width: *width, data: gather_fixed::<u8>(*width, data, codes) }
        }
        (Values::Fixed { width, data }, _) => {
            Values::Fixed { width: *width, data: gather_fixed::<u16>(*width, data, numbers(codes)) }
        }
        (Values::Var { offsets, data }, 1) => gather_var::<u8>(offsets, data, codes),
        (Values::Var { offsets, data }, _) => gather_var::<u16>(offsets, data, numbers(codes)),
        _ => unreachable!("dictionaries were checked to be fixed or variable"),
    };
    Column::trusted(c.data_type(), c.rows(), c.validity().cloned(), values)
}

/// `c` unpacked; a dictionary stays.
pub fn unpacked(c: &Column) -> Column {
    let values = match c.values() {
        Values::Packed(p) => Values::Fixed { width: p.width(), data: p.unpack(0..c.rows()) },
        Values::Symbols(s) => s.expand(0..c.rows()),
        _ => return c.clone(),
    };
    Column::trusted(c.data_type(), c.rows(), c.validity().cloned(), values)
}

/// A row number or code to gather by.
trait Index: Copy {
    fn at(self) -> usize;
}

macro_rules! index {
    ($($t:ty)*) => { $(impl Index for $t {
        #[inline]
        fn at(self) -> usize {
            self as usize
        }
    })* };
}
index!(u8 u16 u32);

/// The numbers in a buffer that was checked to be aligned.
pub(crate) fn numbers<T: Pod>(b: &PageBuf) -> &[T] {
    b.try_values().expect("buffers of columns were checked to be aligned")
}

/// A buffer of `count` numbers. `write` fills it; it begins as zeroes.
pub(crate) fn fill<T: Pod>(count: usize, write: impl FnOnce(&mut [T])) -> PageBuf {
    let mut out = PageBufMut::zeroed(count * size_of::<T>());
    write(bytemuck::cast_slice_mut(&mut out));
    out.freeze()
}

fn gather<T: Pod, I: Index>(from: &PageBuf, rows: &[I]) -> PageBuf {
    let from: &[T] = numbers(from);
    fill(rows.len(), |out: &mut [T]| out.iter_mut().zip(rows).for_each(|(out, row)| *out = from[row.at()]))
}

fn gather_fixed<I: Index>(width: u8, data: &PageBuf, rows: &[I]) -> PageBuf {
    match width {
        2 => gather::<u16, I>(data, rows),
        4 => gather::<u32, I>(data, rows),
        8 => gather::<u64, I>(data, rows),
        _ => gather::<u128, I>(data, rows),
    }
}

/// So many rows are cheaper looked up one by one than unpacked with all others: a row of so many.
const LOOKED_UP_OF: usize = 256;

/// Numbers of some rows.
fn gather_packed(p: &Packed, rows: &[u32]) -> PageBuf {
    if rows.len() < p.rows() / LOOKED_UP_OF {
        let mut out = PageBufMut::with_capacity(rows.len() * usize::from(p.width()));
        for &row in rows {
            out.extend_from_slice(&p.get(row as usize).to_le_bytes()[..p.width().into()]);
        }
        return out.freeze();
    }
    gather_fixed(p.width(), &p.unpack(0..p.rows()), rows)
}

/// Strings of some rows.
fn gather_symbols(s: &Symbols, rows: &[u32]) -> Values {
    if rows.len() < s.rows() / LOOKED_UP_OF {
        let mut data = PageBufMut::with_capacity(0);
        let mut offsets = vec![0u32];
        for &row in rows {
            data.extend_from_slice(&s.get(row as usize));
            offsets.push(data.len() as u32);
        }
        return Values::Var { offsets: PageBuf::from_values(&offsets), data: data.freeze() };
    }
    let Values::Var { offsets, data } = s.expand(0..s.rows()) else { unreachable!("expanded strings") };
    gather_var(&offsets, &data, rows)
}

fn gather_var<I: Index>(offsets: &PageBuf, data: &PageBuf, rows: &[I]) -> Values {
    let o: &[u32] = numbers(offsets);
    let mut total = 0u64;
    let new_offsets = fill(rows.len() + 1, |out: &mut [u32]| {
        for (out, row) in out[1..].iter_mut().zip(rows) {
            total += u64::from(o[row.at() + 1] - o[row.at()]);
            *out = total as u32;
        }
    });
    assert!(u32::try_from(total).is_ok(), "{total} bytes of strings in one column");
    let new_data = fill(total as usize, |mut out: &mut [u8]| {
        for row in rows {
            let from = &data[o[row.at()] as usize..o[row.at() + 1] as usize];
            let (here, rest) = out.split_at_mut(from.len());
            here.copy_from_slice(from);
            out = rest;
        }
    });
    Values::Var { offsets: new_offsets, data: new_data }
}

/// The codes of all parts, concatenated, if all parts share one dictionary.
fn concat_codes(parts: &[&Column], rows: usize) -> Option<Values> {
    let Values::Dict { code_width, dictionary, .. } = parts.first()?.values() else { return None };
    let mut all = PageBufMut::with_capacity(rows * usize::from(*code_width));
    for p in parts {
        match p.values() {
            Values::Dict { code_width: w, codes, dictionary: d }
                if w == code_width && Arc::ptr_eq(d, dictionary) =>
            {
                all.extend_from_slice(codes);
            }
            _ => return None,
        }
    }
    Some(Values::Dict { code_width: *code_width, codes: all.freeze(), dictionary: dictionary.clone() })
}

fn concat_bits(parts: &[&Column], rows: usize) -> Values {
    let mut out = PageBufMut::zeroed(rows.div_ceil(8));
    let mut at = 0;
    for p in parts {
        let Values::Bits(b) = p.values() else { unreachable!("BOOLEAN columns are bits") };
        bits::copy(&mut out, at, b, p.rows());
        at += p.rows();
    }
    Values::Bits(out.freeze())
}

fn concat_fixed(data_type: DataType, parts: &[&Column], rows: usize) -> Values {
    let width_of = |c: &Column| match c.values() {
        Values::Fixed { width, .. } => *width,
        _ => unreachable!("plain columns of fixed types are fixed"),
    };
    let parts: Vec<Column> = parts.iter().map(|p| plain(p)).collect();
    let own = data_type.fixed_bytes().expect("a fixed type") as u8;
    let width = parts.iter().map(width_of).max().unwrap_or(own);
    let mut all = PageBufMut::with_capacity(rows * usize::from(width));
    for p in &parts {
        let Values::Fixed { width: w, data } = p.values() else { unreachable!("matched above") };
        all.extend_from_slice(&widened(data, *w, width));
    }
    Values::Fixed { width, data: all.freeze() }
}

fn concat_var(parts: &[&Column], rows: usize) -> Values {
    let parts: Vec<Column> = parts.iter().map(|p| plain(p)).collect();
    let mut total = 0usize;
    let offsets = fill(rows + 1, |mut out: &mut [u32]| {
        for p in &parts {
            let Values::Var { offsets, .. } = p.values() else { unreachable!("plain strings have offsets") };
            let o: &[u32] = numbers(offsets);
            out.iter_mut().zip(o).for_each(|(out, &o)| *out = total as u32 + o);
            total += o[p.rows()] as usize;
            assert!(u32::try_from(total).is_ok(), "{total} bytes of strings in one column");
            out = &mut out[p.rows()..];
        }
    });
    let mut all = PageBufMut::with_capacity(total);
    for p in &parts {
        let Values::Var { offsets, data } = p.values() else { unreachable!("matched above") };
        all.extend_from_slice(&data[..numbers::<u32>(offsets)[p.rows()] as usize]);
    }
    Values::Var { offsets, data: all.freeze() }
}

/// Decimals of `from` bytes, sign-extended to `to` bytes.
fn widened(data: &PageBuf, from: u8, to: u8) -> PageBuf {
    fn extend<A: Pod, B: Pod + From<A>>(data: &PageBuf) -> PageBuf {
        let from: &[A] = numbers(data);
        fill(from.len(), |out: &mut [B]| out.iter_mut().zip(from).for_each(|(out, &v)| *out = v.into()))
    }
    match (from, to) {
        (4, 8) => extend::<i32, i64>(data),
        (4, 16) => extend::<i32, i128>(data),
        (8, 16) => extend::<i64, i128>(data),
        _ => data.clone(),
    }
}

/// Decimals of `width` bytes at the narrowest width that holds them all: 4, 8 or 16.
pub(crate) fn narrowed(data: &PageBuf, width: u8) -> (u8, PageBuf) {
    fn cut<A: Pod, B: Pod>(data: &PageBuf, cast: impl Fn(A) -> B) -> PageBuf {
        let from: &[A] = numbers(data);
        fill(from.len(), |out: &mut [B]| out.iter_mut().zip(from).for_each(|(out, &v)| *out = cast(v)))
    }
    // A value fits n bits if its bits, XORed with its sign, are zero from bit n - 1 on.
    match width {
        16 => {
            let used = numbers::<i128>(data).iter().fold(0u128, |used, &v| used | (v ^ v >> 127) as u128);
            match used {
                0..=0x7fff_ffff => (4, cut(data, |v: i128| v as i32)),
                0x8000_0000..=0x7fff_ffff_ffff_ffff => (8, cut(data, |v: i128| v as i64)),
                _ => (16, data.clone()),
            }
        }
        8 => {
            let used = numbers::<i64>(data).iter().fold(0u64, |used, &v| used | (v ^ v >> 63) as u64);
            if used <= 0x7fff_ffff { (4, cut(data, |v: i64| v as i32)) } else { (8, data.clone()) }
        }
        _ => (width, data.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ColumnBuilder, Value};

    fn built(t: DataType, values: &[Value]) -> Column {
        let mut b = ColumnBuilder::new(t);
        values.iter().for_each(|v| b.push(v).unwrap());
        b.finish()
    }

    fn values(c: &Column) -> Vec<Value> {
        (0..c.rows()).map(|row| c.value(row)).collect()
    }

    /// A value, or NULL, of each layout, derived from a number.
    fn value(t: DataType, v: i64) -> Value {
        match t {
            _ if v % 7 == 0 => Value::Null,
            DataType::Boolean => Value::Boolean(v % 2 == 0),
            DataType::Decimal { .. } => Value::Decimal(i128::from(v).pow(if v % 5 == 0 { 3 } else { 1 })),
            DataType::Text => Value::text(&"äb".repeat(v.unsigned_abs() as usize % 6)),
            DataType::SmallInt => Value::Int(v % 100),
            _ => Value::Int(v),
        }
    }

    const TYPES: [DataType; 5] = [
        DataType::Boolean,
        DataType::SmallInt,
        DataType::BigInt,
        DataType::Decimal { precision: 38, scale: 3 },
        DataType::Text,
    ];

    /// The same column as codes, every other one with codes of two bytes.
    fn coded(c: &Column, wide: bool) -> Column {
        let shown: Vec<u32> = (0..c.rows() as u32).filter(|&row| !c.is_null(row as usize)).collect();
        if c.data_type() == DataType::Boolean || shown.is_empty() {
            return c.clone();
        }
        let distinct = take(c, &shown);
        let mut next = 0u16;
        let codes: Vec<u16> = (0..c.rows())
            .map(|row| {
                let code = next.min(shown.len() as u16 - 1);
                next += u16::from(!c.is_null(row));
                code
            })
            .collect();
        let (code_width, codes) = if wide {
            (2, PageBuf::from_values(&codes))
        } else {
            (1, PageBuf::copy_from(&codes.iter().map(|&c| c as u8).collect::<Vec<_>>()))
        };
        let dict = Values::Dict { code_width, codes, dictionary: Arc::new(distinct) };
        Column::new(c.data_type(), c.rows(), c.validity().cloned(), dict).unwrap()
    }

    proptest! {
        #[test]
        fn operations_do_to_columns_what_they_do_to_rows(
            t in 0..TYPES.len(),
            a in proptest::collection::vec(-1_000_000i64..1_000_000, 0..90),
            b in proptest::collection::vec(-1_000_000i64..1_000_000, 1..90),
            picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
            (code_a, code_b, wide) in any::<(bool, bool, bool)>(),
        ) {
            let t = TYPES[t];
            let column = |v: &[i64], code: bool| {
                let rows: Vec<Value> = v.iter().map(|&v| value(t, v)).collect();
                let c = built(t, &rows);
                (rows, if code { coded(&c, wide) } else { c })
            };
            let ((av, a), (bv, b)) = (column(&a, code_a), column(&b, code_b));
            prop_assert_eq!(values(&plain(&b)), &bv[..]);
            let both = concat(t, &[a.clone(), b.clone(), a]);
            prop_assert_eq!(values(&both), [&av[..], &bv[..], &av[..]].concat());
            let rows: Vec<u32> = picks.iter().map(|p| p.index(bv.len()) as u32).collect();
            let taken = take(&b, &rows);
            prop_assert_eq!(values(&taken), rows.iter().map(|&r| bv[r as usize].clone()).collect::<Vec<_>>());
            if let [from, to, ..] = rows[..] {
                let (from, to) = (from.min(to) as usize, from.max(to) as usize);
                let cut = slice(&b, from, to - from);
                prop_assert_eq!(values(&cut), &bv[from..to]);
                prop_assert_eq!(values(&concat(t, &[cut, b.clone()])), [&bv[from..to], &bv[..]].concat());
            }
            let mut expected = bv.clone();
            let replacement = slice(&both, 0, rows.len().min(both.rows()));
            let rows = &rows[..replacement.rows()];
            rows.iter().zip(values(&replacement)).for_each(|(&r, v)| expected[r as usize] = v);
            prop_assert_eq!(values(&scatter(&b, rows, &replacement)), expected);
        }
    }

    #[test]
    fn a_shared_dictionary_survives() {
        let words = built(DataType::Text, &[Value::text("x"), Value::text("y"), Value::Null]);
        let c = coded(&words, false);
        let kept = |c: &Column| matches!(c.values(), Values::Dict { .. });
        assert!(kept(&concat(DataType::Text, &[c.clone(), slice(&c, 1, 2), take(&c, &[0])])));
        assert!(kept(&scatter(&c, &[2], &take(&c, &[0]))));
        assert!(!kept(&concat(DataType::Text, &[c.clone(), coded(&words, false)])));
        assert!(!kept(&plain(&c)));
        assert!(slice(&c, 0, 2).validity().is_none());
        assert_eq!(concat(DataType::Date, &[]).rows(), 0);
    }
}
