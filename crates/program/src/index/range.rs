//! The kind "range": the least and the greatest key of each indexed column of a page.
//!
//! ```text
//!   the part of an entry (little-endian), 4 + 16 a column:
//!   | NULLs 4: bit i set when the i-th column has one | a column: min key 8, max key 8 | ...
//!   a column without any value that is not NULL has min = 2^64 - 1, max = 0
//! ```
//!
//! A predicate over a column that is not kept can have any outcome. For values computed from columns, intervals are
//! computed as far as they are exact.
//!
//! Invariant: every value of the page that is not NULL has a key from min to max; keys may reach further than
//! the values do (a shared dictionary has values that no row of the page has).
//! Source: FLIXR's range of minimum and maximum.

mod bounds;

use std::ops::RangeInclusive;

use lode_page::{Column, DataType};

use self::bounds::bounds;
use super::{Bounds, EntryPart, IndexKind, Leaf, Outcomes};
use crate::lanes::{Data, Lane};
use crate::like::Pattern;
use crate::order_key::{bytes_key, key_span, total32, total64};
use crate::plan::{Pred, Test, Val};
use crate::{ArithOp, CompareOp, KeySet};

/// The kind "range".
#[derive(Clone, Copy, Debug)]
pub struct Range;

const NULLS_BYTES: usize = 4;
const KEYS_BYTES: usize = 16;
/// The keys of a column that has only NULLs.
const EMPTY: (u64, u64) = (u64::MAX, 0);

impl IndexKind for Range {
    fn id(&self) -> u8 {
        1
    }

    fn name(&self) -> &'static str {
        "range"
    }

    fn keeps(&self, _: DataType) -> bool {
        true
    }

    fn entry_bytes(&self, types: &[DataType]) -> usize {
        NULLS_BYTES + KEYS_BYTES * types.len()
    }

    fn build(&self, columns: &[Column], out: &mut Vec<u8>) {
        let start = out.len();
        let mut nulls = 0;
        out.extend([0; NULLS_BYTES]);
        for (i, c) in columns.iter().enumerate() {
            let (range, has_nulls) = bounds(c);
            let (min, max) = range.unwrap_or(EMPTY);
            nulls |= u32::from(has_nulls) << i;
            out.extend(min.to_le_bytes());
            out.extend(max.to_le_bytes());
        }
        out[start..start + NULLS_BYTES].copy_from_slice(&nulls.to_le_bytes());
    }

    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize> {
        let count = part.columns.len();
        if count < 32 && nulls(part) >> count != 0 {
            return Err(0);
        }
        for i in 0..count {
            let (min, max) = stored_keys(part, i);
            let all_null = part.rows == 0 || has_nulls(part, i);
            if min > max && !((min, max) == EMPTY && all_null) {
                return Err(NULLS_BYTES + KEYS_BYTES * i);
            }
        }
        Ok(())
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
            !reaches || has_nulls(own, i) && !has_nulls(part, i)
        })
    }

    fn bounds(&self, part: &EntryPart<'_>, place: usize) -> Option<Bounds> {
        Some(Bounds { keys: keys(part, place), has_nulls: has_nulls(part, place) })
    }
}

fn nulls(part: &EntryPart<'_>) -> u32 {
    u32::from_le_bytes(*part.bytes.first_chunk().expect("a part has its NULLs"))
}

/// Whether the column at `place` has a NULL.
fn has_nulls(part: &EntryPart<'_>, place: usize) -> bool {
    nulls(part) >> place & 1 == 1
}

fn stored_keys(part: &EntryPart<'_>, place: usize) -> (u64, u64) {
    let at = NULLS_BYTES + KEYS_BYTES * place;
    let key = |at: usize| u64::from_le_bytes(*part.bytes[at..].first_chunk().expect("8 bytes a key"));
    (key(at), key(at + 8))
}

/// The least and the greatest key of the column at `place`; `None` when all its values are NULL.
fn keys(part: &EntryPart<'_>, place: usize) -> Option<(u64, u64)> {
    Some(stored_keys(part, place)).filter(|&k| k != EMPTY)
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
                Keys::Between(min, max) => strings(test, min, max),
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

/// Whether a test of strings whose keys lie from `min` to `max` can be true, and whether it can be false. Strings
/// with the same beginning have the same key, so equal keys decide nothing.
fn strings(test: &Test, min: u64, max: u64) -> (bool, bool) {
    let within = |key| min <= key && key <= max;
    match test {
        Test::Bytes(op, b) => {
            let key = bytes_key(b);
            match op {
                CompareOp::Eq => (within(key), true),
                CompareOp::NotEq => (true, within(key)),
                CompareOp::Lt | CompareOp::LtEq => (min <= key, max >= key),
                CompareOp::Gt | CompareOp::GtEq => (max >= key, min <= key),
            }
        }
        Test::Strings(set) => {
            let at = set.values().partition_point(|v| bytes_key(v) < min);
            (set.values().get(at).is_some_and(|v| bytes_key(v) <= max), true)
        }
        Test::Keys(set) => match &**set {
            KeySet::Strings(keys) => (keys.meets(min, max), true),
            KeySet::Numbers(_) => (true, true),
        },
        Test::Like(pattern) => (begins(pattern, min, max), true),
        Test::Range { .. } | Test::Ints(_) => (true, true),
    }
}

/// Whether a text with a key from `min` to `max` can match. Matching texts lie between the pattern's prefix and that
/// prefix followed by the greatest bytes.
fn begins(pattern: &Pattern, min: u64, max: u64) -> bool {
    let prefix = pattern.prefix();
    let first = bytes_key(prefix);
    let last = match pattern.exact() {
        Some(_) => first,
        None => first | u64::MAX.checked_shr(8 * prefix.len().min(8) as u32).unwrap_or(0),
    };
    min <= last && max >= first
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
            let of = |bytes| EntryPart { rows: 3, columns: &[4], types: &[DataType::BigInt], bytes };
            assert_eq!(Range.denies(&of(&part), &of(&own)), denied.then_some(0), "{part:?} {own:?}");
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
