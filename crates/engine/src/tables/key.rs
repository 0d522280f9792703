//! Keys of rows as bytes that compare as the keys do.
//!
//! ```text
//!   integers, dates, floats   big-endian, sign bit flipped (floats in IEEE total order)
//!   decimals                  the unscaled value, 16 bytes
//!   strings                   0 becomes 0 255; ended by 0 0
//! ```
//!
//! Invariant: two keys compare as their bytes do. Key columns have no NULL.

use std::borrow::Cow;
use std::fmt::Write;
use std::hash::Hasher;
use std::ops::Bound;

use lode_base::PageBuf;
use lode_base::calendar::civil;
use lode_page::{Column, DataType, Value, Values};

use super::definition::KeyOrder;

/// What stands before a value in an entry of an index.
pub(super) const PRESENT: u8 = 1;
/// What stands for NULL in an entry of an index: it sorts behind all values.
pub(super) const NULL: u8 = 2;
/// What stands for NULL where it sorts before all values.
const NULL_FIRST: u8 = 0;
/// Characters or bytes of a string that a message shows.
const SHOWN_MAX: usize = 64;

/// The columns of a key among all columns of a table.
pub(super) fn chosen(columns: &[Column], key: &[u16]) -> Vec<Column> {
    key.iter().map(|&c| columns[usize::from(c)].clone()).collect()
}

/// The columns of a key among columns of these numbers.
pub(super) fn numbered(numbers: &[u16], columns: &[Column], key: &[u16]) -> Vec<Column> {
    let at = |c: &u16| numbers.iter().position(|n| n == c).expect("the column was read");
    key.iter().map(|c| columns[at(c)].clone()).collect()
}

/// Whether a row has a NULL among its key columns.
pub(super) fn has_null(columns: &[Column], row: usize) -> bool {
    columns.iter().any(|c| c.is_null(row))
}

/// What stands for NULL in a column of this order, before the bytes of a descending column are turned over.
fn null_in(order: KeyOrder) -> u8 {
    match order.nulls_first == order.descending {
        true => NULL,
        false => NULL_FIRST,
    }
}

/// Adds a value, or NULL, to a key of an index, in this order. `value` adds the bytes of the value.
pub(super) fn append_ordered(
    order: KeyOrder,
    is_null: bool,
    key: &mut Vec<u8>,
    value: impl FnOnce(&mut Vec<u8>),
) {
    let start = key.len();
    match is_null {
        true => key.push(null_in(order)),
        false => {
            key.push(PRESENT);
            value(key);
        }
    }
    if order.descending {
        key[start..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// The bound that ends the keys that begin with `prefix`.
pub(super) fn prefix_end(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

/// Key columns of some rows, ready to be read row by row.
pub(super) struct KeyReader<'a> {
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Bits(&'a [u8]),
    Fixed { data_type: DataType, width: usize, data: PageBuf },
    Var { offsets: Cow<'a, [u32]>, data: Cow<'a, [u8]> },
    Dict { code_width: u8, codes: &'a [u8], dictionary: Box<Part<'a>> },
}

impl<'a> KeyReader<'a> {
    pub(super) fn new(columns: &'a [Column]) -> Self {
        Self { parts: columns.iter().map(Part::new).collect() }
    }

    /// Adds the value of the `i`-th column in row `row`, which is not NULL.
    pub(super) fn append(&self, i: usize, row: usize, out: &mut Vec<u8>) {
        self.parts[i].append(row, out);
    }

    /// Puts the key of row `row` in `out`; answers where its first column's value ends.
    pub(super) fn read(&self, row: usize, out: &mut Vec<u8>) -> usize {
        self.read_behind(None, row, out)
    }

    /// The same in the form of [`key_of_values`].
    pub(super) fn read_behind_ones(&self, row: usize, out: &mut Vec<u8>) -> usize {
        self.read_behind(Some(1), row, out)
    }

    /// The same, each value behind this byte.
    fn read_behind(&self, marker: Option<u8>, row: usize, out: &mut Vec<u8>) -> usize {
        out.clear();
        let mut first_end = 0;
        for (i, p) in self.parts.iter().enumerate() {
            out.extend(marker);
            p.append(row, out);
            if i == 0 {
                first_end = out.len();
            }
        }
        first_end
    }
}

impl<'a> Part<'a> {
    fn new(c: &'a Column) -> Self {
        match c.values() {
            Values::Bits(b) => Self::Bits(b),
            Values::Fixed { width, data } => {
                Self::Fixed { data_type: c.data_type(), width: (*width).into(), data: data.clone() }
            }
            Values::Var { offsets, data } => {
                let offsets: &[u32] = offsets.try_values().expect("offsets were checked to be aligned");
                Self::Var { offsets: offsets.into(), data: Cow::Borrowed(data) }
            }
            Values::Symbols(s) => {
                let (offsets, data) = s.strings(0..s.rows());
                Self::Var { offsets: offsets.into(), data: data.into() }
            }
            Values::Packed(p) => {
                let data = p.unpack(0..p.rows());
                Self::Fixed { data_type: c.data_type(), width: p.width().into(), data }
            }
            Values::Dict { code_width, codes, dictionary } => {
                Self::Dict { code_width: *code_width, codes, dictionary: Box::new(Self::new(dictionary)) }
            }
        }
    }

    fn append(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Bits(b) => out.push(b[row / 8] >> (row % 8) & 1),
            Self::Fixed { data_type, width, data } => {
                append_number(*data_type, &data[row * width..(row + 1) * width], out);
            }
            Self::Var { offsets, data } => {
                append_string(&data[offsets[row] as usize..offsets[row + 1] as usize], out);
            }
            Self::Dict { code_width: 1, codes, dictionary } => dictionary.append(codes[row].into(), out),
            Self::Dict { codes, dictionary, .. } => {
                let code = u16::from_le_bytes([codes[2 * row], codes[2 * row + 1]]);
                dictionary.append(code.into(), out);
            }
        }
    }
}

/// Adds the number in these little-endian bytes.
fn append_number(t: DataType, b: &[u8], out: &mut Vec<u8>) {
    match t {
        DataType::Decimal { .. } => {
            let flipped = signed(b) as u128 ^ 1 << 127;
            out.extend_from_slice(&flipped.to_be_bytes());
        }
        t => {
            let start = out.len();
            out.extend(b.iter().rev());
            let negative = out[start] & 0x80 != 0;
            match t.is_float() && negative {
                true => out[start..].iter_mut().for_each(|b| *b = !*b),
                false => out[start] ^= 0x80,
            }
        }
    }
}

/// The sign-extended little-endian integer in 4, 8 or 16 bytes.
fn signed(b: &[u8]) -> i128 {
    let mut wide = [if b[b.len() - 1] & 0x80 != 0 { 255 } else { 0 }; 16];
    wide[..b.len()].copy_from_slice(b);
    i128::from_le_bytes(wide)
}

/// The key of values of these types as entries of an index with these orders have it.
pub(super) fn ordered_key(
    types: impl IntoIterator<Item = DataType>,
    orders: impl IntoIterator<Item = KeyOrder>,
    values: &[Value],
) -> Vec<u8> {
    let mut key = Vec::with_capacity(values.len() * 9);
    for ((t, v), order) in types.into_iter().zip(values).zip(orders) {
        append_ordered(order, *v == Value::Null, &mut key, |key| {
            let of_value = key_of_values([t], std::slice::from_ref(v)).expect("it is not NULL");
            key.extend_from_slice(&of_value[1..]);
        });
    }
    key
}

/// The key of values of these types as entries of indexes have it: as [`key_of_values`], and [`NULL`] for a NULL.
pub(super) fn key_with_nulls(types: impl IntoIterator<Item = DataType>, values: &[Value]) -> Vec<u8> {
    let of = |(t, v): (DataType, &Value)| {
        key_of_values([t], std::slice::from_ref(v)).unwrap_or_else(|| vec![NULL])
    };
    types.into_iter().zip(values).flat_map(of).collect()
}

/// The key of values of these types, each behind a 1, as entries of trees have it; `None` if one is NULL.
pub(super) fn key_of_values(types: impl IntoIterator<Item = DataType>, values: &[Value]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(values.len() * 9);
    for (t, v) in types.into_iter().zip(values) {
        key.push(PRESENT);
        match (t, v) {
            (_, Value::Null) => return None,
            (_, Value::Boolean(b)) => key.push(u8::from(*b)),
            (DataType::SmallInt, Value::Int(v)) => append_number(t, &(*v as i16).to_le_bytes(), &mut key),
            (DataType::Integer | DataType::Date, Value::Int(v)) => {
                append_number(t, &(*v as i32).to_le_bytes(), &mut key);
            }
            (_, Value::Int(v)) => append_number(t, &v.to_le_bytes(), &mut key),
            (_, Value::Real(v)) => append_number(t, &v.to_le_bytes(), &mut key),
            (_, Value::Double(v)) => append_number(t, &v.to_le_bytes(), &mut key),
            (_, Value::Decimal(v)) => append_number(t, &v.to_le_bytes(), &mut key),
            (_, Value::Bytes(b)) => append_string(b, &mut key),
        }
    }
    Some(key)
}

/// Takes a value, or NULL, from the front of a key of an index that has it in this order; `None` if the key was cut within it.
pub(super) fn take_ordered(t: DataType, order: KeyOrder, key: &mut &[u8]) -> Option<Value> {
    let turned = |b: u8| if order.descending { !b } else { b };
    let (first, rest) = key.split_first()?;
    *key = rest;
    if turned(*first) != PRESENT {
        return Some(Value::Null);
    }
    let mut fixed = |width: usize| {
        let (value, rest) = key.split_at_checked(width)?;
        *key = rest;
        let mut wide = [0; 16];
        wide[16 - width..].iter_mut().zip(value).for_each(|(to, b)| *to = turned(*b));
        Some(u128::from_be_bytes(wide))
    };
    // The sign bit was turned over.
    let signed = |bits: u128, width: u32| (bits << (128 - 8 * width)) as i128 ^ i128::MIN;
    let mut int = |width: u32| {
        let shifted = signed(fixed(width as usize)?, width) >> (128 - 8 * width);
        Some(shifted)
    };
    // Of a float all bits were turned over if it is negative.
    let float = |bits: u64, width: u32| match bits >> (8 * width - 1) {
        0 => !bits,
        _ => bits ^ 1 << (8 * width - 1),
    };
    Some(match t {
        DataType::Boolean => Value::Boolean(fixed(1)? == 1),
        DataType::SmallInt => Value::Int(int(2)? as i64),
        DataType::Integer | DataType::Date => Value::Int(int(4)? as i64),
        DataType::BigInt | DataType::Timestamp => Value::Int(int(8)? as i64),
        DataType::Decimal { .. } => Value::Decimal(int(16)?),
        DataType::Real => Value::Real(f32::from_bits(float(fixed(4)? as u64, 4) as u32)),
        DataType::Double => Value::Double(f64::from_bits(float(fixed(8)? as u64, 8))),
        DataType::Text | DataType::Bytea => Value::Bytes(take_string(turned, key)?),
    })
}

/// Takes a string that [`append_string`] wrote; `None` if it has no end.
fn take_string(turned: impl Fn(u8) -> u8, key: &mut &[u8]) -> Option<Box<[u8]>> {
    let mut value = Vec::new();
    loop {
        let (&b, rest) = key.split_first()?;
        *key = rest;
        let b = turned(b);
        if b == 0 {
            let (&next, rest) = key.split_first()?;
            *key = rest;
            if turned(next) == 0 {
                return Some(value.into());
            }
        }
        value.push(b);
    }
}

/// Adds a string, so that it sorts before all strings that it begins.
fn append_string(b: &[u8], out: &mut Vec<u8>) {
    for &b in b {
        out.push(b);
        if b == 0 {
            out.push(255);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The hash of a key, the same in every run.
pub(super) fn hash(key: &[u8]) -> u64 {
    let mut h = std::hash::DefaultHasher::new();
    h.write(key);
    h.finish()
}

/// A key as SQL writes it: `(1, 'a')`.
pub(super) fn show(columns: &[Column], row: usize) -> String {
    let mut s = String::from("(");
    for (i, c) in columns.iter().enumerate() {
        if i > 0 {
            s.push_str(", ");
        }
        show_value(c.data_type(), &c.value(row), &mut s);
    }
    s.push(')');
    s
}

/// A key given as values of these types, as [`show`] writes it.
pub(super) fn show_values(types: impl IntoIterator<Item = DataType>, values: &[Value]) -> String {
    let mut s = String::from("(");
    for (i, (t, v)) in types.into_iter().zip(values).enumerate() {
        if i > 0 {
            s.push_str(", ");
        }
        show_value(t, v, &mut s);
    }
    s.push(')');
    s
}

fn show_value(t: DataType, v: &Value, s: &mut String) {
    match (v, t) {
        (Value::Null, _) => s.push_str("NULL"),
        (Value::Boolean(b), _) => s.push_str(if *b { "true" } else { "false" }),
        (Value::Int(days), DataType::Date) => {
            let (y, m, d) = civil(*days);
            let _ = write!(s, "{y:04}-{m:02}-{d:02}");
        }
        (Value::Int(us), DataType::Timestamp) => {
            const DAY_US: i64 = 86_400_000_000;
            let (y, m, d) = civil(us.div_euclid(DAY_US));
            let us = us.rem_euclid(DAY_US);
            let (hours, minutes, seconds) = (us / 3_600_000_000, us / 60_000_000 % 60, us / 1_000_000 % 60);
            let _ = write!(s, "{y:04}-{m:02}-{d:02} {hours:02}:{minutes:02}:{seconds:02}");
            if us % 1_000_000 != 0 {
                let _ = write!(s, ".{:06}", us % 1_000_000);
            }
        }
        (Value::Int(v), _) => {
            let _ = write!(s, "{v}");
        }
        (Value::Real(v), _) => {
            let _ = write!(s, "{v}");
        }
        (Value::Double(v), _) => {
            let _ = write!(s, "{v}");
        }
        (Value::Decimal(v), DataType::Decimal { scale: 1.., .. }) => {
            let DataType::Decimal { scale, .. } = t else { unreachable!("matched above") };
            let one = 10u128.pow(scale.into());
            let sign = if *v < 0 { "-" } else { "" };
            let (whole, part) = (v.unsigned_abs() / one, v.unsigned_abs() % one);
            let _ = write!(s, "{sign}{whole}.{part:0width$}", width = usize::from(scale));
        }
        (Value::Decimal(v), _) => {
            let _ = write!(s, "{v}");
        }
        (Value::Bytes(b), DataType::Text) => {
            s.push('\'');
            for c in String::from_utf8_lossy(b).chars().take(SHOWN_MAX) {
                match c {
                    '\'' => s.push_str("''"),
                    c if c.is_control() => s.extend(c.escape_default()),
                    c => s.push(c),
                }
            }
            s.push_str(if b.len() > SHOWN_MAX { "...'" } else { "'" });
        }
        (Value::Bytes(b), _) => {
            s.push_str("'\\x");
            b.iter().take(SHOWN_MAX).for_each(|b| {
                let _ = write!(s, "{b:02x}");
            });
            s.push_str(if b.len() > SHOWN_MAX { "...'" } else { "'" });
        }
    }
}

#[cfg(test)]
mod tests {
    use lode_page::ColumnBuilder;
    use proptest::prelude::*;

    use super::*;

    fn column(t: DataType, values: &[Value]) -> Column {
        let mut b = ColumnBuilder::new(t);
        values.iter().for_each(|v| b.push(v).unwrap());
        b.finish()
    }

    fn orders_alike(t: DataType, values: &[Value]) {
        let columns = [column(t, values)];
        let reader = KeyReader::new(&columns);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for i in 0..values.len() {
            for j in 0..values.len() {
                reader.read(i, &mut a);
                reader.read(j, &mut b);
                assert_eq!(values[i].compare(&values[j]), Some(a.cmp(&b)), "{:?} {:?}", values[i], values[j]);
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_compare_as_keys_do(
            ints: Vec<i64>, doubles: Vec<f64>, reals: Vec<f32>, decimals: Vec<i64>, strings: Vec<Vec<u8>>,
        ) {
            orders_alike(DataType::BigInt, &ints.iter().map(|&v| Value::Int(v)).collect::<Vec<_>>());
            orders_alike(DataType::Double, &doubles.iter().map(|&v| Value::Double(v)).collect::<Vec<_>>());
            orders_alike(DataType::Real, &reals.iter().map(|&v| Value::Real(v)).collect::<Vec<_>>());
            let wide = DataType::Decimal { precision: 38, scale: 2 };
            orders_alike(wide, &decimals.iter().map(|&v| Value::Decimal(v.into())).collect::<Vec<_>>());
            let strings: Vec<_> = strings.into_iter().map(|v| Value::Bytes(v.into())).collect();
            orders_alike(DataType::Bytea, &strings);
        }

        #[test]
        fn values_come_back_from_a_key_and_from_no_part_of_it(
            a: i64, b: f64, c: f32, d: i128, e: Vec<u8>, f: Option<i16>, g: bool,
            descending: bool, nulls_first: bool, cut: proptest::sample::Index,
        ) {
            let order = KeyOrder { descending, nulls_first };
            let wide = DataType::Decimal { precision: 38, scale: 2 };
            let days = Value::Int((a as i32).into());
            let short = f.map_or(Value::Null, |f| Value::Int(f.into()));
            let of = [
                (DataType::BigInt, Value::Int(a)), (DataType::Double, Value::Double(b)), (DataType::Real, Value::Real(c)),
                (wide, Value::Decimal(d)), (DataType::Bytea, Value::Bytes(e.into())), (DataType::SmallInt, short),
                (DataType::Date, days), (DataType::Boolean, Value::Boolean(g)),
            ];
            let (types, values): (Vec<_>, Vec<_>) = of.into_iter().unzip();
            let key = ordered_key(types.iter().copied(), types.iter().map(|_| order), &values);
            let back = |mut key: &[u8]| -> Option<Vec<Value>> {
                let values = types.iter().map(|t| take_ordered(*t, order, &mut key)).collect();
                assert!(key.is_empty());
                values
            };
            let same = |a: &Value, b: &Value| a == b || matches!(
                (a, b), (Value::Double(a), Value::Double(b)) if a.to_bits() == b.to_bits()
            ) || matches!((a, b), (Value::Real(a), Value::Real(b)) if a.to_bits() == b.to_bits());
            let found = back(&key).unwrap();
            prop_assert!(found.iter().zip(&values).all(|(a, b)| same(a, b)), "{found:?} {values:?}");
            let cut = cut.index(key.len());
            let mut part = &key[..cut];
            prop_assert!(types.iter().any(|t| take_ordered(*t, order, &mut part).is_none()));
        }

        #[test]
        fn composite_keys_differ_where_a_part_does(a: Vec<u8>, b: Vec<u8>, c: Vec<u8>, d: Vec<u8>) {
            let bytes = |v: &[Vec<u8>]| {
                let values: Vec<_> = v.iter().map(|v| Value::Bytes(v.clone().into())).collect();
                column(DataType::Bytea, &values)
            };
            let columns = [bytes(&[a.clone(), c.clone()]), bytes(&[b.clone(), d.clone()])];
            let reader = KeyReader::new(&columns);
            let (mut x, mut y) = (Vec::new(), Vec::new());
            reader.read(0, &mut x);
            reader.read(1, &mut y);
            prop_assert_eq!((a, b).cmp(&(c, d)), x.cmp(&y));
        }
    }

    #[test]
    fn keys_are_shown_as_sql_writes_them() {
        let check = |t, v, expected: &str| assert_eq!(show(&[column(t, &[v])], 0), expected);
        check(DataType::Date, Value::Int(0), "(1970-01-01)");
        check(DataType::Date, Value::Int(-1), "(1969-12-31)");
        check(DataType::Date, Value::Int(11_016), "(2000-02-29)");
        check(DataType::Timestamp, Value::Int(86_399_000_001), "(1970-01-01 23:59:59.000001)");
        check(DataType::Decimal { precision: 5, scale: 2 }, Value::Decimal(-5), "(-0.05)");
        check(DataType::Text, Value::text("it's"), "('it''s')");
        check(DataType::Bytea, Value::Bytes([0, 255].into()), "('\\x00ff')");
        let two = [column(DataType::Integer, &[Value::Int(7)]), column(DataType::Text, &[Value::text("a")])];
        assert_eq!(show(&two, 0), "(7, 'a')");
    }
}
