//! Values of an argument, block by block. Decimal arithmetic that overflows is reported row by row.
//!
//! Invariant: an overflow is an error only if the row's value is not NULL, since the bytes under a NULL are
//! arbitrary.

use std::ops::Range;

use lode_page::Column;

use crate::ArithOp;
use crate::bits;
use crate::eval::value::evaluate;
use crate::lanes::{self, Data, Lane};
use crate::plan::Val;

/// The columns that an aggregation reads, of the rows that passed.
pub(super) struct Inputs {
    /// Ascending by number.
    columns: Vec<(u16, Column)>,
    pub(super) rows: usize,
}

impl Inputs {
    pub(super) fn new(columns: Vec<(u16, Column)>, rows: usize) -> Self {
        Self { columns, rows }
    }

    pub(super) fn column(&self, number: u16) -> &Column {
        let at = self.columns.binary_search_by_key(&number, |(c, _)| *c);
        &self.columns[at.expect("an aggregation names its columns")].1
    }

    /// A bit for each row in which none of these columns is NULL, 64 rows a word; `None` if that is every row.
    pub(super) fn valid(&self, columns: &[u16]) -> Option<Vec<u64>> {
        bits::valid(columns.iter().map(|&c| self.column(c)), self.rows.div_ceil(64))
    }

    /// The values of these rows, and the rows whose value overflowed, numbered from the first of the block.
    pub(super) fn evaluate(&self, value: &Val, rows: &Range<usize>) -> (Data<'_>, Vec<usize>) {
        let mut unfit = Vec::new();
        let data = self.walk(value, rows, &mut unfit);
        (data, unfit)
    }

    fn walk(&self, value: &Val, rows: &Range<usize>, unfit: &mut Vec<usize>) -> Data<'_> {
        match value {
            Val::Arith { op, a, b } => match (self.walk(a, rows, unfit), self.walk(b, rows, unfit)) {
                (Data::I128(a), Data::I128(b)) => Data::I128(arith(*op, &a, &b, rows.len(), unfit)),
                (a, b) => lanes::arith(*op, a, b),
            },
            Val::ToDecimal(a, factor) => match self.walk(a, rows, unfit).wide(1) {
                all if *factor == 1 => Data::I128(all),
                all => Data::I128(arith(ArithOp::Mul, &all, &Lane::Const(*factor), rows.len(), unfit)),
            },
            // No other operation can overflow.
            other => evaluate(other, rows, &|c| self.column(c)),
        }
    }
}

/// Bits that the largest magnitude of the lane needs.
fn magnitude_bits(lane: &Lane<'_, i128>) -> u32 {
    let fold = |v: i128| (v ^ (v >> 127)) as u128;
    let all = match lane {
        Lane::Const(v) => fold(*v),
        Lane::Slice(s) => s.iter().fold(0, |all, &v| all | fold(v)),
    };
    u128::BITS - all.leading_zeros()
}

fn arith(
    op: ArithOp,
    a: &Lane<'_, i128>,
    b: &Lane<'_, i128>,
    rows: usize,
    unfit: &mut Vec<usize>,
) -> Lane<'static, i128> {
    let (x, y) = (magnitude_bits(a), magnitude_bits(b));
    let fits = match op {
        ArithOp::Add | ArithOp::Sub => x.max(y) < 126,
        ArithOp::Mul => x + y < 127,
    };
    if fits {
        return match op {
            ArithOp::Add => a.zip(b, i128::wrapping_add),
            ArithOp::Sub => a.zip(b, i128::wrapping_sub),
            ArithOp::Mul if x.max(y) < 64 => a.zip(b, |a, b| i128::from(a as i64) * i128::from(b as i64)),
            ArithOp::Mul => a.zip(b, i128::wrapping_mul),
        };
    }
    let checked = match op {
        ArithOp::Add => i128::checked_add,
        ArithOp::Sub => i128::checked_sub,
        ArithOp::Mul => i128::checked_mul,
    };
    let row = |lane: &Lane<'_, i128>, i: usize| match lane {
        Lane::Const(v) => *v,
        Lane::Slice(s) => s[i],
    };
    let each = (0..rows).map(|i| {
        checked(row(a, i), row(b, i)).unwrap_or_else(|| {
            unfit.push(i);
            0
        })
    });
    Lane::Slice(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_found_and_nothing_else() {
        let max = i128::MAX;
        let values = [0, 1, -1, 7, max / 3, max, i128::MIN, 1 << 62, 1 << 63, -(1 << 63), (1 << 100) + 5];
        for op in [ArithOp::Add, ArithOp::Sub, ArithOp::Mul] {
            for a in values {
                for b in values {
                    let expected = match op {
                        ArithOp::Add => a.checked_add(b),
                        ArithOp::Sub => a.checked_sub(b),
                        ArithOp::Mul => a.checked_mul(b),
                    };
                    let lane = |v| Lane::Slice(vec![v].into());
                    for (x, y) in [(lane(a), lane(b)), (lane(a), Lane::Const(b))] {
                        let mut unfit = Vec::new();
                        let Lane::Slice(got) = arith(op, &x, &y, 1, &mut unfit) else { panic!() };
                        match expected {
                            Some(v) => assert_eq!((got[0], unfit.len()), (v, 0), "{op:?} {a} {b}"),
                            None => assert_eq!(unfit, [0], "{op:?} {a} {b}"),
                        }
                    }
                }
            }
        }
    }
}
