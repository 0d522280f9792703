//! The kinds "range" and "wide range": the least and the greatest key of each indexed column of a page.
//!
//! ```text
//!   the part of an entry (little-endian):
//!   | NULLs: bit i set when the i-th column has one | a column: min key, max key | ...
//!
//!                NULLs                  a key
//!   range        a bit a column         as many bytes as its type needs (keys.rs)
//!   wide range   4 bytes                8 bytes        tables of older images have it
//!
//!   a column without any value that is not NULL has min = ff ff ..., max = 00 00 ...
//! ```
//!
//! A predicate over a column that is not kept can have any outcome. For values computed from columns, intervals are
//! computed as far as they are exact.
//!
//! Invariant: every value of the page that is not NULL has a key from min to max. Keys of a wide range may reach further than the values
//! do; those of a range are keys of values of the page.
//! Source: FLIXR's range of minimum and maximum.

mod bounds;

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use lode_page::{Column, DataType};

use self::bounds::bounds;
use super::index_kind::{Bounds, IndexKind};
use super::keys::{
    ends, has_no_ends, has_other_nulls, key_at, key_bytes, nulls as null_bits, put_key, set_bits, widen_ends,
};
use super::leaf::{Leaf, Outcomes};
use super::part::{EntryPart, PartColumn};
use crate::lanes::{Data, Lane};
use crate::like::Pattern;
use crate::order_key::{bytes_key, key_span, total32, total64};
use crate::plan::{Pred, Test, Val};
use crate::{ArithOp, CompareOp, KeySet};

/// A kind of range.
#[derive(Debug)]
pub struct RangeKind {
    id: u8,
    name: &'static str,
    nulls_bytes: fn(usize) -> usize,
    key_bytes: fn(DataType) -> usize,
    is_tight: bool,
}

/// The kind "range".
pub static RANGE: RangeKind =
    RangeKind { id: 2, name: "range", nulls_bytes: |n| n.div_ceil(8), key_bytes, is_tight: true };

/// The kind "wide range". Entries of older images may reach further than the values of their pages.
pub static WIDE_RANGE: RangeKind =
    RangeKind { id: 1, name: "wide range", nulls_bytes: |_| 4, key_bytes: |_| 8, is_tight: false };

/// The keys of a column that has only NULLs.
const EMPTY: (u64, u64) = (u64::MAX, 0);

impl IndexKind for RangeKind {
    fn id(&self) -> u8 {
        self.id
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn keeps(&self, _: DataType) -> bool {
        true
    }

    fn header_bytes(&self, columns: usize) -> usize {
        (self.nulls_bytes)(columns)
    }

    fn column_bytes(&self, t: DataType, _: &[u8]) -> usize {
        2 * (self.key_bytes)(t)
    }

    fn build(&self, kept: &[PartColumn], columns: &[Column], out: &mut Vec<u8>) {
        let header = out.len();
        out.resize(header + self.header_bytes(kept.len()), 0);
        for (i, (k, c)) in kept.iter().zip(columns).enumerate() {
            let (range, has_nulls) = bounds(c);
            let (min, max) = range.unwrap_or(EMPTY);
            let key_bytes = k.bytes.len() / 2;
            put_key(min, key_bytes, out);
            put_key(max, key_bytes, out);
            out[header + i / 8] |= u8::from(has_nulls) << (i % 8);
        }
    }

    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize> {
        let count = part.columns.len();
        if has_other_nulls(nulls(part), count) {
            return Err(0);
        }
        for i in 0..count {
            let all_null = part.rows == 0 || has_nulls(part, i);
            let ascend = keys(part, i).is_none_or(|(min, max)| min <= max);
            if !ascend || is_empty(part, i) && !all_null {
                return Err(part.columns[i].bytes.start);
            }
        }
        Ok(())
    }

    fn widen(&self, union: &mut [u8], part: &EntryPart<'_>) {
        let header = self.header_bytes(part.columns.len());
        set_bits(&mut union[..header], &part.bytes[..header]);
        for (i, c) in part.columns.iter().enumerate() {
            // Little-endian numbers.
            widen_ends(&mut union[c.bytes.clone()], part.of(i), |a, b| a.iter().rev().cmp(b.iter().rev()));
        }
    }

    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes {
        View { part, leaf }.outcomes()
    }

    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
        (0..part.columns.len()).find(|&i| {
            let reaches = match (keys(part, i), keys(own, i)) {
                (_, None) => true,
                (Some((min, max)), Some((own_min, own_max))) => min <= own_min && own_max <= max,
                (None, Some(_)) => false,
            };
            let differs =
                self.is_tight && (keys(part, i), has_nulls(part, i)) != (keys(own, i), has_nulls(own, i));
            !reaches || differs || has_nulls(own, i) && !has_nulls(part, i)
        })
    }

    fn bounds(&self, part: &EntryPart<'_>, place: usize) -> Option<Bounds> {
        Some(Bounds { keys: keys(part, place), has_nulls: has_nulls(part, place) })
    }

    fn has_bounds(&self) -> bool {
        true
    }

    fn is_tight(&self) -> bool {
        self.is_tight
    }
}

fn nulls(part: &EntryPart<'_>) -> u32 {
    let header = part.columns.first().map_or(0, |c| c.bytes.start);
    null_bits(&part.bytes[..header])
}

/// Whether the column at `place` has a NULL.
fn has_nulls(part: &EntryPart<'_>, place: usize) -> bool {
    nulls(part) >> place & 1 == 1
}

/// Whether the column at `place` has only NULLs.
fn is_empty(part: &EntryPart<'_>, place: usize) -> bool {
    has_no_ends(part.of(place))
}

/// The least and the greatest key of the column at `place`; `None` when all its values are NULL.
fn keys(part: &EntryPart<'_>, place: usize) -> Option<(u64, u64)> {
    let ((min, max), t) = (ends(part.of(place)), part.columns[place].data_type);
    (!is_empty(part, place)).then(|| (key_at(min, t), key_at(max, t)))
}

/// The keys of a column's values that are not NULL.
enum Keys {
    Unknown,
    /// All values are NULL.
    Empty,
    Between(u64, u64),
}

/// A predicate, and the part of the page that it is asked about.
struct View<'a> {
    part: &'a EntryPart<'a>,
    leaf: &'a Leaf<'a>,
}

impl View<'_> {
    fn outcomes(&self) -> Outcomes {
        match &self.leaf.node.pred {
            Pred::Column(c) => {
                let (can_be_true, can_be_false) = match self.keys(*c) {
                    Keys::Between(min, max) => (self.span(*c, max).1 > 0, self.span(*c, min).0 < 1),
                    _ => (true, true),
                };
                self.unless_null(can_be_true, can_be_false)
            }
            Pred::IsNull => Outcomes {
                can_be_true: self.can_be_null(),
                can_be_false: !self.is_null(),
                can_be_null: false,
            },
            Pred::Test { value, test, .. } => {
                let (can_be_true, can_be_false) = self.test(value, test);
                self.unless_null(can_be_true, can_be_false)
            }
            Pred::Compare { op, a, b } => {
                let (can_be_true, can_be_false) = match (self.interval(a), self.interval(b)) {
                    (Some(a), Some(b)) => compared(*op, &a, &b),
                    _ => (true, true),
                };
                self.unless_null(can_be_true, can_be_false)
            }
            _ => Outcomes::ANY,
        }
    }

    /// The outcomes of a predicate that is NULL where one of its columns is, and otherwise can be true or false as
    /// given.
    fn unless_null(&self, can_be_true: bool, can_be_false: bool) -> Outcomes {
        let some = !self.is_null();
        Outcomes {
            can_be_true: some && can_be_true,
            can_be_false: some && can_be_false,
            can_be_null: self.can_be_null(),
        }
    }

    /// Whether one of the predicate's columns has no values but NULL.
    fn is_null(&self) -> bool {
        self.leaf.columns().iter().any(|&c| matches!(self.keys(c), Keys::Empty))
    }

    /// Whether one of the predicate's columns can have a NULL.
    fn can_be_null(&self) -> bool {
        self.leaf.columns().iter().any(|&c| self.place(c).is_none_or(|i| has_nulls(self.part, i)))
    }

    fn place(&self, column: u16) -> Option<usize> {
        self.part.place(column, self.leaf.data_type(column))
    }

    fn keys(&self, column: u16) -> Keys {
        match self.place(column).map(|i| keys(self.part, i)) {
            None => Keys::Unknown,
            Some(None) => Keys::Empty,
            Some(Some((min, max))) => Keys::Between(min, max),
        }
    }

    /// The range of places in the type's order that have this key.
    fn span(&self, column: u16, key: u64) -> (i128, i128) {
        key_span(self.leaf.data_type(column), key)
    }

    /// Whether a test can be true, and whether it can be false, of a value that is not NULL.
    fn test(&self, value: &Val, test: &Test) -> (bool, bool) {
        match (test, value) {
            (Test::Range { low, high, outside }, _) => {
                let Some(of) = self.interval(value) else { return (true, true) };
                let inside = *low.max(of.start()) <= *high.min(of.end());
                let beyond = of.start() < low || of.end() > high;
                if *outside { (beyond, inside) } else { (inside, beyond) }
            }
            (Test::Ints(set), _) => {
                let Some(of) = self.interval(value) else { return (true, true) };
                let hit = set.meets(of.clone());
                (hit, of.start() != of.end() || !hit)
            }
            (Test::Keys(set), value) if let KeySet::Numbers(keys) = &**set => {
                let Some(of) = self.interval(value) else { return (true, true) };
                (keys.meets(&of), true)
            }
            (_, Val::Column(c)) => match self.keys(*c) {
                Keys::Between(min, max) => strings(test, &min.to_be_bytes(), &max.to_be_bytes()),
                _ => (true, true),
            },
            _ => (true, true),
        }
    }

    /// The interval, in places of the order, that encloses the values that are not NULL; `None` if it is unknown.
    fn interval(&self, val: &Val) -> Option<RangeInclusive<i128>> {
        match val {
            Val::Column(c) => match self.keys(*c) {
                Keys::Between(..) if self.leaf.data_type(*c).is_variable() => None,
                Keys::Between(min, max) => Some(self.span(*c, min).0..=self.span(*c, max).1),
                _ => None,
            },
            Val::Const(d) => {
                let v = match d {
                    Data::I16(Lane::Const(v)) => (*v).into(),
                    Data::I32(Lane::Const(v)) => (*v).into(),
                    Data::I64(Lane::Const(v)) => (*v).into(),
                    Data::I128(Lane::Const(v)) => *v,
                    Data::F32(Lane::Const(v)) => total32(v.to_bits()).into(),
                    Data::F64(Lane::Const(v)) => total64(v.to_bits()).into(),
                    _ => return None,
                };
                Some(v..=v)
            }
            Val::ToI32(a) | Val::ToI64(a) => self.interval(a),
            // The order of the doubles differs from the order of their operands.
            Val::ToDouble(_) => None,
            Val::ToDecimal(a, factor) => {
                let a = self.interval(a)?;
                Some(a.start().checked_mul(*factor)?..=a.end().checked_mul(*factor)?)
            }
            Val::Arith { op, a, b } => {
                let limits = self.limits(val)?;
                let (a, b) = (self.interval(a)?, self.interval(b)?);
                let ends = match op {
                    ArithOp::Add => [a.start().checked_add(*b.start())?, a.end().checked_add(*b.end())?],
                    ArithOp::Sub => [a.start().checked_sub(*b.end())?, a.end().checked_sub(*b.start())?],
                    ArithOp::Mul => {
                        let mut ends = [0; 4];
                        for (i, end) in ends.iter_mut().enumerate() {
                            let x = if i & 1 == 0 { a.start() } else { a.end() };
                            let y = if i & 2 == 0 { b.start() } else { b.end() };
                            *end = x.checked_mul(*y)?;
                        }
                        ends.sort_unstable();
                        [ends[0], ends[3]]
                    }
                };
                // Decimals with more digits than their type may wrap.
                (limits.contains(&ends[0]) && limits.contains(&ends[1])).then(|| ends[0]..=ends[1])
            }
        }
    }

    /// The range of the value's type; `None` for floats.
    fn limits(&self, val: &Val) -> Option<RangeInclusive<i128>> {
        let bits = match val {
            Val::Column(c) => match self.leaf.data_type(*c) {
                DataType::SmallInt => 16,
                DataType::Integer => 32,
                DataType::BigInt => 64,
                DataType::Decimal { .. } => 128,
                _ => return None,
            },
            Val::Const(Data::I16(_)) => 16,
            Val::Const(Data::I32(_)) | Val::ToI32(_) => 32,
            Val::Const(Data::I64(_)) | Val::ToI64(_) => 64,
            Val::Const(Data::I128(_)) | Val::ToDecimal(..) => 128,
            Val::Const(_) | Val::ToDouble(_) => return None,
            // Twice as wide as its operands, or as wide as a decimal.
            Val::Arith { a, .. } => {
                let limits = self.limits(a)?;
                let bits = i128::BITS - limits.end().leading_zeros() + 1;
                (2 * bits).min(128)
            }
        };
        Some(i128::MIN >> (128 - bits)..=i128::MAX >> (128 - bits))
    }
}

/// Whether a comparison of values from two intervals can be true, and whether it can be false.
fn compared(op: CompareOp, a: &RangeInclusive<i128>, b: &RangeInclusive<i128>) -> (bool, bool) {
    let less = a.start() < b.end();
    let greater = a.end() > b.start();
    let equal = a.start().max(b.start()) <= a.end().min(b.end());
    let different = less || greater;
    match op {
        CompareOp::Eq => (equal, different),
        CompareOp::NotEq => (different, equal),
        CompareOp::Lt => (less, a.end() >= b.start()),
        CompareOp::GtEq => (a.end() >= b.start(), less),
        CompareOp::Gt => (greater, a.start() <= b.end()),
        CompareOp::LtEq => (a.start() <= b.end(), greater),
    }
}

/// Whether a test of strings whose beginnings lie from `least` to `greatest` can be true, and whether it can be false. Beginnings have
/// the same number of bytes; shorter strings are padded with zeroes. Strings with the same beginning may differ behind it, so equal
/// beginnings decide nothing.
pub(super) fn strings(test: &Test, least: &[u8], greatest: &[u8]) -> (bool, bool) {
    // How the beginning of `b` compares with an end.
    let compare = |b: &[u8], end: &[u8]| {
        let n = b.len().min(end.len());
        b[..n].cmp(&end[..n]).then_with(|| match end[n..].iter().all(|&e| e == 0) {
            true => Ordering::Equal,
            false => Ordering::Less,
        })
    };
    let from_least = |b: &[u8]| compare(b, least) != Ordering::Less;
    let to_greatest = |b: &[u8]| compare(b, greatest) != Ordering::Greater;
    let within = |b: &[u8]| from_least(b) && to_greatest(b);
    match test {
        Test::Bytes(op, b) => match op {
            CompareOp::Eq => (within(b), true),
            CompareOp::NotEq => (true, within(b)),
            CompareOp::Lt | CompareOp::LtEq => (from_least(b), to_greatest(b)),
            CompareOp::Gt | CompareOp::GtEq => (to_greatest(b), from_least(b)),
        },
        Test::Strings(set) => {
            let at = set.values().partition_point(|v| !from_least(v));
            (set.values().get(at).is_some_and(|v| to_greatest(v)), true)
        }
        Test::Keys(set) => match &**set {
            KeySet::Strings(keys) => (keys.meets(bytes_key(least), last_key(greatest)), true),
            KeySet::Numbers(_) => (true, true),
        },
        Test::Like(pattern) => (begins(pattern, least, greatest), true),
        Test::Range { .. } | Test::Ints(_) => (true, true),
    }
}

/// The greatest key of the strings with this beginning.
pub(super) fn last_key(beginning: &[u8]) -> u64 {
    bytes_key(beginning) | u64::MAX.checked_shr(8 * beginning.len().min(8) as u32).unwrap_or(0)
}

/// Whether a text with a beginning from `least` to `greatest` can match. Matching texts lie between the pattern's prefix and that
/// prefix followed by the greatest bytes.
fn begins(pattern: &Pattern, least: &[u8], greatest: &[u8]) -> bool {
    let bytes = least.len();
    let padded = |with: u8| {
        let mut b = pattern.prefix()[..pattern.prefix().len().min(bytes)].to_vec();
        b.resize(bytes, with);
        b
    };
    let last = padded(if pattern.exact().is_some() { 0 } else { u8::MAX });
    *least <= *last && *greatest >= *padded(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a page whose one column has keys from `keys.0` to `keys.1`, and NULLs or not.
    fn bytes_of(keys: Option<(u64, u64)>, has_nulls: bool) -> Vec<u8> {
        let (min, max) = keys.unwrap_or(EMPTY);
        [&u32::from(has_nulls).to_le_bytes()[..], &min.to_le_bytes(), &max.to_le_bytes()].concat()
    }

    #[test]
    fn an_entry_denies_what_it_does_not_reach() {
        let check = |part: (Option<(u64, u64)>, bool), own: (Option<(u64, u64)>, bool), denied: bool| {
            let (part, own) = (bytes_of(part.0, part.1), bytes_of(own.0, own.1));
            let columns =
                [PartColumn { column: 4, data_type: DataType::BigInt, form: Box::default(), bytes: 4..20 }];
            let of = |bytes| EntryPart { rows: 3, columns: &columns, bytes };
            assert_eq!(WIDE_RANGE.denies(&of(&part), &of(&own)), denied.then_some(0), "{part:?} {own:?}");
        };
        check((Some((3, 9)), false), (Some((3, 9)), false), false);
        check((Some((2, 10)), true), (Some((3, 9)), false), false);
        check((Some((4, 9)), false), (Some((3, 9)), false), true);
        check((Some((3, 8)), false), (Some((3, 9)), false), true);
        check((Some((3, 9)), false), (Some((3, 9)), true), true);
        check((Some((3, 9)), true), (None, true), false);
        check((None, true), (Some((3, 9)), false), true);
    }
}
