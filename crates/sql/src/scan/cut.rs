//! Where a value lies between the least and the greatest of a column.

use lode_page::Value;

/// The part of a range from `from` to `to` that lies before `v`; the whole range if its values have no distance.
pub(super) fn cut(from: &Value, v: &Value, to: &Value) -> f64 {
    let number = |v: &Value| match v {
        Value::Int(i) => Some(*i as f64),
        Value::Decimal(d) => Some(*d as f64),
        _ => None,
    };
    match (number(from), number(v), number(to)) {
        (Some(from), Some(v), Some(to)) if from != to => (v - from) / (to - from),
        _ => 1.0,
    }
}
