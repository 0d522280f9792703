//! The share of rows that passes a filter where no page is sampled: by the bounds of columns, or assumed.
//!
//! Values are taken as spread evenly between the bounds, and conditions as independent. Source of the shares where nothing is known: "Access path
//! selection in a relational database management system" (1979), table 1.

use std::collections::BTreeMap;

use lode_engine::TableStatistics;
use lode_page::Value;
use lode_program::{CompareOp, Expr};

use super::cut::cut;

/// Of a condition `column = value`.
const EQUAL: f64 = 0.1;
/// Of an end of a range.
const RANGE_END: f64 = 1.0 / 3.0;
/// Of text that is looked for.
const LIKE: f64 = 0.1;
/// Of what compares columns with each other, and of whatever else.
const OTHER: f64 = 1.0 / 3.0;

/// The share of rows that passes `filter`, 0 to 1.
pub(super) fn assumed(filter: &Expr, known: &TableStatistics) -> f64 {
    match filter {
        Expr::And(terms) => {
            // Both ends of a range together say how much of the column is between them.
            let mut ranges: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
            let mut share = 1.0;
            for term in terms {
                match end(term, known) {
                    Some((column, low, high)) => {
                        let range = ranges.entry(column).or_insert((0.0, 1.0));
                        *range = (range.0.max(low), range.1.min(high));
                    }
                    None => share *= assumed(term, known),
                }
            }
            share * ranges.values().map(|(low, high)| (high - low).max(0.0)).product::<f64>()
        }
        Expr::Or(terms) => 1.0 - terms.iter().map(|term| 1.0 - assumed(term, known)).product::<f64>(),
        Expr::Not(term) => 1.0 - assumed(term, known),
        Expr::Compare(op, a, b) => match (op, column_of(a).or(column_of(b)), constant(a).or(constant(b))) {
            (CompareOp::Eq, Some(column), Some(_)) => equal(column, known),
            (CompareOp::NotEq, Some(column), Some(_)) => 1.0 - equal(column, known),
            (CompareOp::Eq | CompareOp::NotEq, ..) => OTHER,
            _ => end(filter, known).map_or(RANGE_END, |(_, low, high)| (high - low).max(0.0)),
        },
        Expr::In { value, list } => {
            let one = column_of(value).map_or(EQUAL, |column| equal(column, known));
            (one * list.len() as f64).min(1.0)
        }
        Expr::Like { .. } => LIKE,
        Expr::IsNull(_) => EQUAL,
        _ => OTHER,
    }
}

fn column_of(e: &Expr) -> Option<u16> {
    match e {
        Expr::Column(c) => Some(*c),
        _ => None,
    }
}

fn constant(e: &Expr) -> Option<&Value> {
    match e {
        Expr::Const(v, _) => Some(v),
        _ => None,
    }
}

fn bounds(column: u16, known: &TableStatistics) -> Option<&(Value, Value)> {
    known.columns.get(usize::from(column))?.as_ref()
}

/// Of one value of a column.
fn equal(column: u16, known: &TableStatistics) -> f64 {
    match bounds(column, known) {
        Some((Value::Int(min), Value::Int(max))) => 1.0 / (max.abs_diff(*min) as f64 + 1.0),
        _ => EQUAL,
    }
}

/// The part of a column's range that an end of a range leaves, from and to, each 0 to 1; `None` for another condition, and where the
/// column's values have no distance.
fn end(term: &Expr, known: &TableStatistics) -> Option<(u16, f64, f64)> {
    let Expr::Compare(op, a, b) = term else { return None };
    let (op, column, value) = match (column_of(a), constant(b)) {
        (Some(column), Some(value)) => (*op, column, value),
        _ => (op.flipped(), column_of(b)?, constant(a)?),
    };
    let (min, max) = bounds(column, known)?;
    if !matches!(value, Value::Int(_) | Value::Decimal(_)) {
        return None;
    }
    let at = cut(min, value, max).clamp(0.0, 1.0);
    match op {
        CompareOp::Lt | CompareOp::LtEq => Some((column, 0.0, at)),
        CompareOp::Gt | CompareOp::GtEq => Some((column, at, 1.0)),
        CompareOp::Eq | CompareOp::NotEq => None,
    }
}

#[cfg(test)]
mod tests {
    use lode_page::DataType;

    use super::*;

    #[test]
    fn bounds_say_how_much_a_range_leaves() {
        let mut known = TableStatistics::default();
        known.columns = vec![Some((Value::Int(0), Value::Int(99))), None];
        let int = |v| Expr::Const(Value::Int(v), DataType::BigInt);
        let is = |op, c, v| Expr::compare(op, Expr::Column(c), int(v));
        let check = |e: Expr, expected: f64| {
            let share = assumed(&e, &known);
            assert!((share - expected).abs() < 1e-9, "{e:?}: {share}");
        };
        check(is(CompareOp::Eq, 0, 7), 0.01);
        check(is(CompareOp::NotEq, 0, 7), 0.99);
        check(is(CompareOp::Eq, 1, 7), EQUAL);
        check(is(CompareOp::Lt, 0, 33), 33.0 / 99.0);
        check(Expr::compare(CompareOp::Gt, int(33), Expr::Column(0)), 33.0 / 99.0);
        check(is(CompareOp::Lt, 1, 33), RANGE_END);
        check(is(CompareOp::Lt, 0, -5), 0.0);
        let year = vec![is(CompareOp::GtEq, 0, 33), is(CompareOp::Lt, 0, 66), is(CompareOp::Eq, 1, 1)];
        check(Expr::And(year), EQUAL / 3.0);
        check(Expr::Or(vec![is(CompareOp::Eq, 1, 1), is(CompareOp::Eq, 1, 2)]), 1.0 - 0.9 * 0.9);
        let list = Expr::In { value: Box::new(Expr::Column(0)), list: vec![Value::Int(1), Value::Int(2)] };
        check(list.clone(), 0.02);
        check(Expr::Not(Box::new(list)), 0.98);
        check(Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::Column(1)), RANGE_END);
    }
}
