//! The values of a column of a page, each once where the page says so.

use lode_base::random::mix;
use lode_page::{Column, Value, Values};

use crate::bits;
use crate::keys::hash_bytes;
use crate::lanes::{Codes, Data, Lane};

/// The hash of a value that is not NULL and no float: equal values have equal hashes.
pub(super) fn hash(v: &Value) -> u64 {
    match v {
        Value::Boolean(b) => of_number((*b).into()),
        Value::Int(i) => of_number((*i).into()),
        Value::Decimal(d) => of_number(*d),
        Value::Bytes(b) => hash_bytes(b),
        Value::Null | Value::Real(_) | Value::Double(_) => unreachable!("no kind hashes such values"),
    }
}

fn of_number(v: i128) -> u64 {
    mix(v as u64 ^ mix((v >> 64) as u64))
}

/// The rows of a column that are not NULL, a bit each, and how many they are.
pub(super) fn valid(c: &Column) -> (Vec<u64>, usize) {
    let mut rows = bits::all(c.rows());
    if let Some(v) = c.validity() {
        let v = bits::words(v, rows.len());
        bits::and_into(&mut rows, &v);
    }
    let count = rows.iter().map(|w| w.count_ones() as usize).sum();
    (rows, count)
}

/// Whether a column has a NULL.
pub(super) fn some_null(c: &Column) -> bool {
    valid(c).1 < c.rows()
}

/// The distinct hashes of a column's values, ascending. Not for floats.
pub(super) fn hashes(c: &Column) -> Vec<u64> {
    let mut all = Vec::new();
    each(c, |data, row| {
        all.push(match data {
            Data::I16(l) => of_number(at(l, row).into()),
            Data::I32(l) => of_number(at(l, row).into()),
            Data::I64(l) => of_number(at(l, row).into()),
            Data::I128(l) => of_number(at(l, row)),
            Data::Bytes(s) => hash_bytes(s.get(row)),
            Data::F32(_) | Data::F64(_) => unreachable!("no kind hashes floats"),
        });
    });
    if let Values::Bits(b) = c.values() {
        let (rows, _) = valid(c);
        for value in [false, true] {
            let of = |w: u64| if value { w } else { !w };
            if rows.iter().enumerate().any(|(i, v)| v & of(bits::word(b, i)) != 0) {
                all.push(of_number(value.into()));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Calls `f` with each string of a column.
pub(super) fn each_string(c: &Column, mut f: impl FnMut(&[u8])) {
    each(c, |data, row| {
        if let Data::Bytes(s) = data {
            f(s.get(row));
        }
    });
}

fn at<T: Copy>(lane: &Lane<'_, T>, row: usize) -> T {
    match lane {
        Lane::Const(v) => *v,
        Lane::Slice(s) => s[row],
    }
}

/// Calls `f` with the place of each value that is not NULL; of a dictionary, with that of each value that a row has. Not for BOOLEAN.
fn each(c: &Column, mut f: impl FnMut(&Data<'_>, usize)) {
    let (rows, count) = valid(c);
    if count > 0 && !matches!(c.values(), Values::Bits(_)) {
        let (data, rows) = used(c, rows);
        each_bit(&rows, |row| f(&data, row));
    }
}

/// The values of these rows of a column that is not BOOLEAN, and their places; of a dictionary, only those that one of the rows has.
pub(super) fn used(c: &Column, rows: Vec<u64>) -> (Data<'_>, Vec<u64>) {
    let Values::Dict { code_width, codes, dictionary } = c.values() else {
        return (Data::of(c, 0..c.rows()), rows);
    };
    let codes = Codes::new(*code_width, codes, 0..c.rows());
    let mut places = vec![0; dictionary.rows().div_ceil(64)];
    each_bit(&rows, |row| bits::set(&mut places, codes.get(row) as u64));
    (Data::of(dictionary, 0..dictionary.rows()), places)
}

pub(super) fn each_bit(words: &[u64], mut f: impl FnMut(usize)) {
    for (i, &w) in words.iter().enumerate() {
        bits::each(w, |bit| f(i * 64 + bit));
    }
}
