//! The least and the greatest key of a column.

use lode_page::{Column, DataType, Values};

use super::super::values::{each_bit, used, valid};
use crate::bits;
use crate::lanes::{Data, Lane, Strings};
use crate::order_key::{bytes_key, order_key, total32, total64};

/// The least and the greatest key of the values that are not NULL, if any, and whether there is a NULL.
pub(super) fn bounds(c: &Column) -> (Option<(u64, u64)>, bool) {
    let t = c.data_type();
    let (rows, count) = valid(c);
    let range = match c.values() {
        _ if count == 0 => None,
        Values::Bits(b) => {
            let ones = |f: fn(u64) -> u64| rows.iter().enumerate().any(|(i, v)| v & f(bits::word(b, i)) != 0);
            let (some_true, some_false) = (ones(|w| w), ones(|w| !w));
            Some((order_key(t, i128::from(!some_false)), order_key(t, i128::from(some_true))))
        }
        values => {
            let all = count == c.rows() && !matches!(values, Values::Dict { .. });
            let (data, rows) = used(c, rows);
            of_data(t, &data, &rows, all)
        }
    };
    (range, count < c.rows())
}

/// The bounds of the values whose bits are set in `rows`, or of `all`.
fn of_data(t: DataType, data: &Data<'_>, rows: &[u64], all: bool) -> Option<(u64, u64)> {
    macro_rules! lane {
        ($lane:expr, $order:expr) => {{
            let Lane::Slice(s) = $lane else { unreachable!("a column is a slice") };
            let found = if all {
                s.iter().map(|&v| ($order(v), $order(v))).reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
            } else {
                let mut found = None;
                each_bit(rows, |row| {
                    let v = $order(s[row]);
                    found = Some(found.map_or((v, v), |(a, b)| (v.min(a), v.max(b))));
                });
                found
            };
            found.map(|(min, max)| (order_key(t, i128::from(min)), order_key(t, i128::from(max))))
        }};
    }
    match data {
        Data::I16(l) => lane!(l, |v: i16| v),
        Data::I32(l) => lane!(l, |v: i32| v),
        Data::I64(l) => lane!(l, |v: i64| v),
        Data::I128(l) => lane!(l, |v: i128| v),
        Data::F32(l) => lane!(l, |v: f32| total32(v.to_bits())),
        Data::F64(l) => lane!(l, |v: f64| total64(v.to_bits())),
        Data::Bytes(s) => strings(s, rows),
    }
}

/// Keys are monotone, so the least string has the least key.
fn strings(s: &Strings<'_>, rows: &[u64]) -> Option<(u64, u64)> {
    let mut found: Option<(u64, u64)> = None;
    each_bit(rows, |row| {
        let key = bytes_key(s.get(row));
        found = Some(found.map_or((key, key), |(a, b)| (a.min(key), b.max(key))));
    });
    found
}
