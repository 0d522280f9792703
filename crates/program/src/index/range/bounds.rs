//! The least and the greatest key of a column.

use lode_page::{Column, DataType};

use crate::bits;
use crate::lanes::{Codes, Data, Lane, Strings};
use crate::order_key::{bytes_key, order_key};
use crate::order_key::{total32, total64};
use lode_page::Values;

/// The least and the greatest key of the values that are not NULL, if any, and whether there is a NULL.
pub(super) fn bounds(c: &Column) -> (Option<(u64, u64)>, bool) {
    let t = c.data_type();
    let mut valid = bits::all(c.rows());
    let rows = c.rows();
    if let Some(v) = c.validity() {
        let v = bits::words(v, valid.len());
        bits::and_into(&mut valid, &v);
    }
    let count: usize = valid.iter().map(|w| w.count_ones() as usize).sum();
    let range = match c.values() {
        _ if count == 0 => None,
        Values::Bits(b) => {
            let ones =
                |f: fn(u64) -> u64| valid.iter().enumerate().any(|(i, v)| v & f(bits::word(b, i)) != 0);
            let (some_true, some_false) = (ones(|w| w), ones(|w| !w));
            Some((order_key(t, i128::from(!some_false)), order_key(t, i128::from(some_true))))
        }
        Values::Dict { code_width, codes, dictionary } => {
            let mut used = vec![0u64; dictionary.rows().div_ceil(64)];
            let codes = Codes::new(*code_width, codes, 0..rows);
            each_row(&valid, |row| {
                let code = codes.get(row);
                used[code / 64] |= 1 << (code % 64);
            });
            of_data(t, &Data::of(dictionary, 0..dictionary.rows()), &used, false)
        }
        _ => of_data(t, &Data::of(c, 0..rows), &valid, count == rows),
    };
    (range, count < rows)
}

fn each_row(rows: &[u64], mut f: impl FnMut(usize)) {
    for (i, &w) in rows.iter().enumerate() {
        bits::each(w, |bit| f(i * 64 + bit));
    }
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
                each_row(rows, |row| {
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
    each_row(rows, |row| {
        let key = bytes_key(s.get(row));
        found = Some(found.map_or((key, key), |(a, b)| (a.min(key), b.max(key))));
    });
    found
}
