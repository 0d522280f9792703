//! Whether a page can have a row that passes, by its index entry alone.
//!
//! Each predicate is asked which outcomes it can have on the page: true, false, NULL. A column that is not indexed can
//! be anything. What is computed from columns is followed as an interval as far as that is exact.
//!
//! Invariant: the answer errs to one side only. An outcome that some row of the page has is always possible here.

pub(super) mod bounds;

use std::ops::RangeInclusive;

use lode_page::DataType;

use super::key::{bytes_key, key_span};
use super::{IndexEntry, IndexRule};
use crate::eval::lanes::{Data, Lane};
use crate::like::Pattern;
use crate::plan::{Node, Pred, Test, Val};
use crate::{ArithOp, CompareOp, Program};

/// Whether a row of the page that `entry` describes can pass the filter of `p`: false only when certainly none does.
pub fn may_match(p: &Program, rule: &IndexRule, entry: &IndexEntry) -> bool {
    if entry.rows() == 0 {
        return false;
    }
    // An entry of other columns than the program's, or of another rule, says nothing.
    let same = rule.schema().version == p.schema().version && rule.columns().len() == entry.columns();
    match p.plan() {
        Some(plan) if same => View { program: p, rule, entry }.outcomes(plan).can_be_true,
        _ => true,
    }
}

/// The outcomes that are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcomes {
    can_be_true: bool,
    can_be_false: bool,
    can_be_null: bool,
}

const NEVER: Outcomes = Outcomes { can_be_true: false, can_be_false: false, can_be_null: false };

/// What the entry says of a column's values that are not NULL.
enum Range {
    Unknown,
    /// There are none.
    Empty,
    Keys(u64, u64),
}

struct View<'a> {
    program: &'a Program,
    rule: &'a IndexRule,
    entry: &'a IndexEntry,
}

impl View<'_> {
    fn outcomes(&self, node: &Node) -> Outcomes {
        match &node.pred {
            Pred::Const(b) => Outcomes {
                can_be_true: *b == Some(true),
                can_be_false: *b == Some(false),
                can_be_null: b.is_none(),
            },
            Pred::Column(c) => {
                let (can_be_true, can_be_false) = match self.range(*c) {
                    Range::Keys(min, max) => (self.span(*c, max).1 > 0, self.span(*c, min).0 < 1),
                    _ => (true, true),
                };
                self.leaf(node, can_be_true, can_be_false)
            }
            Pred::And(terms) => {
                let of = terms.iter().map(|t| self.outcomes(t));
                of.fold(Outcomes { can_be_true: true, ..NEVER }, |a, b| Outcomes {
                    can_be_true: a.can_be_true && b.can_be_true,
                    can_be_false: a.can_be_false || b.can_be_false,
                    can_be_null: a.can_be_null || b.can_be_null,
                })
            }
            Pred::Or(terms) => {
                let of = terms.iter().map(|t| self.outcomes(t));
                of.fold(Outcomes { can_be_false: true, ..NEVER }, |a, b| Outcomes {
                    can_be_true: a.can_be_true || b.can_be_true,
                    can_be_false: a.can_be_false && b.can_be_false,
                    can_be_null: a.can_be_null || b.can_be_null,
                })
            }
            Pred::Not(a) => {
                let a = self.outcomes(a);
                Outcomes { can_be_true: a.can_be_false, can_be_false: a.can_be_true, ..a }
            }
            Pred::IsUnknown(a) => {
                let a = self.outcomes(a);
                Outcomes {
                    can_be_true: a.can_be_null,
                    can_be_false: a.can_be_true || a.can_be_false,
                    ..NEVER
                }
            }
            Pred::IsNull => Outcomes {
                can_be_true: node.columns.iter().any(|&c| self.can_be_null(c)),
                can_be_false: !node.columns.iter().any(|&c| matches!(self.range(c), Range::Empty)),
                can_be_null: false,
            },
            Pred::Test { value, test, miss_is_null } => {
                let (can_be_true, can_be_false) = self.test(value, test);
                let of = self.leaf(node, can_be_true, can_be_false);
                if *miss_is_null { missing(of) } else { of }
            }
            Pred::Compare { op, a, b } => {
                let (can_be_true, can_be_false) = match (self.interval(a), self.interval(b)) {
                    (Some(a), Some(b)) => compared(*op, &a, &b),
                    _ => (true, true),
                };
                self.leaf(node, can_be_true, can_be_false)
            }
            Pred::BoolCompare { op, a, b } => {
                let (a, b) = (self.outcomes(a), self.outcomes(b));
                let mut of = Outcomes { can_be_null: a.can_be_null || b.can_be_null, ..NEVER };
                for x in [false, true].into_iter().filter(|&x| if x { a.can_be_true } else { a.can_be_false })
                {
                    for y in
                        [false, true].into_iter().filter(|&y| if y { b.can_be_true } else { b.can_be_false })
                    {
                        let (can_be_true, can_be_false) = compared(*op, &single(x), &single(y));
                        of.can_be_true |= can_be_true;
                        of.can_be_false |= can_be_false;
                    }
                }
                of
            }
            Pred::BoolIn { value, has_true, has_false, miss_is_null } => {
                let a = self.outcomes(value);
                let of = Outcomes {
                    can_be_true: a.can_be_true && *has_true || a.can_be_false && *has_false,
                    can_be_false: a.can_be_true && !has_true || a.can_be_false && !has_false,
                    can_be_null: a.can_be_null,
                };
                if *miss_is_null { missing(of) } else { of }
            }
        }
    }

    /// The outcomes of a leaf that is NULL where one of its columns is, else what is said.
    fn leaf(&self, node: &Node, can_be_true: bool, can_be_false: bool) -> Outcomes {
        let some = !node.columns.iter().any(|&c| matches!(self.range(c), Range::Empty));
        Outcomes {
            can_be_true: some && can_be_true,
            can_be_false: some && can_be_false,
            can_be_null: node.columns.iter().any(|&c| self.can_be_null(c)),
        }
    }

    /// The column's place in the entry.
    fn place(&self, column: u16) -> Option<usize> {
        let place = self.rule.columns().iter().position(|&c| c == column)?;
        (self.rule.data_type(place) == self.data_type(column)).then_some(place)
    }

    fn data_type(&self, column: u16) -> DataType {
        self.program.schema().columns[usize::from(column)].data_type
    }

    fn can_be_null(&self, column: u16) -> bool {
        self.place(column).is_none_or(|i| self.entry.has_nulls(i))
    }

    fn range(&self, column: u16) -> Range {
        match self.place(column).map(|i| self.entry.range(i)) {
            None => Range::Unknown,
            Some(None) => Range::Empty,
            Some(Some((min, max))) => Range::Keys(min, max),
        }
    }

    /// The places in the order that have this key.
    fn span(&self, column: u16, key: u64) -> (i128, i128) {
        key_span(self.data_type(column), key)
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
            (_, Val::Column(c)) => match self.range(*c) {
                Range::Keys(min, max) => strings(test, min, max),
                _ => (true, true),
            },
            _ => (true, true),
        }
    }

    /// The places in the order between which the values that are not NULL lie; `None` when that is not known.
    fn interval(&self, val: &Val) -> Option<RangeInclusive<i128>> {
        match val {
            Val::Column(c) => match self.range(*c) {
                Range::Keys(..) if self.data_type(*c).is_variable() => None,
                Range::Keys(min, max) => Some(self.span(*c, min).0..=self.span(*c, max).1),
                _ => None,
            },
            Val::Const(d) => {
                let v = match d {
                    Data::I16(Lane::Const(v)) => (*v).into(),
                    Data::I32(Lane::Const(v)) => (*v).into(),
                    Data::I64(Lane::Const(v)) => (*v).into(),
                    Data::I128(Lane::Const(v)) => *v,
                    Data::F32(Lane::Const(v)) => super::total32(v.to_bits()).into(),
                    Data::F64(Lane::Const(v)) => super::total64(v.to_bits()).into(),
                    _ => return None,
                };
                Some(v..=v)
            }
            Val::ToI32(a) | Val::ToI64(a) => self.interval(a),
            // The order of floats is not that of the integers or floats they are made of.
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
                // Decimals beyond their digits wrap.
                (limits.contains(&ends[0]) && limits.contains(&ends[1])).then(|| ends[0]..=ends[1])
            }
        }
    }

    /// The least and the greatest value that the value's type holds; `None` for floats.
    fn limits(&self, val: &Val) -> Option<RangeInclusive<i128>> {
        let bits = match val {
            Val::Column(c) => match self.data_type(*c) {
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

fn single(b: bool) -> RangeInclusive<i128> {
    b.into()..=b.into()
}

/// What is not found is NULL.
fn missing(of: Outcomes) -> Outcomes {
    Outcomes { can_be_false: false, can_be_null: of.can_be_null || of.can_be_false, ..of }
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

/// Whether a test of strings whose keys lie from `min` to `max` can be true, and whether it can be false.
/// A key stands for all strings that begin alike, so equal keys decide nothing.
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
        Test::Like(pattern) => (begins(pattern, min, max), true),
        Test::Range { .. } | Test::Ints(_) => (true, true),
    }
}

/// Whether a text with a key from `min` to `max` can match: those that do lie between its prefix and its prefix
/// followed by the greatest bytes.
fn begins(pattern: &Pattern, min: u64, max: u64) -> bool {
    let prefix = pattern.prefix();
    let first = bytes_key(prefix);
    let last = match pattern.exact() {
        Some(_) => first,
        None => first | u64::MAX.checked_shr(8 * prefix.len().min(8) as u32).unwrap_or(0),
    };
    min <= last && max >= first
}
