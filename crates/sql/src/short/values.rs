//! Values of keys: from what a statement compares a key column with, to what the column holds.
//!
//! ```text
//!   BIGINT 7, DECIMAL 7.0   ─► INTEGER column ─► 7
//!   DECIMAL 7.5             ─► INTEGER column ─► not exact: the general path decides
//! ```

use datafusion::arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::common::ScalarValue;
use lode_page::{DataType, Value};

/// Digits before the point that every integer fits.
const INTEGER_DIGITS: u8 = 19;
const DIGITS_MAX: u8 = 38;

/// What a value is to a column.
#[derive(Debug, PartialEq)]
pub(super) enum KeyValue {
    /// This value of the column equals it.
    Is(Value),
    /// No row equals NULL.
    Null,
    /// The column has no such value, or it is not known here.
    Other,
}

/// Whether values of `from`, cast to `to`, are equal exactly if they were before the cast, and no cast fails.
pub(super) fn widens(from: DataType, to: &ArrowType) -> bool {
    let digits = |p: u8, s: i8| u8::try_from(s).ok().map(|s| (p.saturating_sub(s), s));
    match (from, to) {
        (DataType::SmallInt, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64)
        | (DataType::Integer, ArrowType::Int32 | ArrowType::Int64)
        | (DataType::BigInt, ArrowType::Int64)
        | (DataType::Boolean, ArrowType::Boolean)
        | (DataType::Date, ArrowType::Date32)
        | (DataType::Timestamp, ArrowType::Timestamp(TimeUnit::Microsecond, None))
        | (DataType::Text, ArrowType::Utf8View)
        | (DataType::Bytea, ArrowType::BinaryView) => true,
        (DataType::SmallInt | DataType::Integer | DataType::BigInt, ArrowType::Decimal128(p, s)) => {
            digits(*p, *s).is_some_and(|(whole, _)| whole >= INTEGER_DIGITS)
        }
        (DataType::Decimal { precision, scale }, ArrowType::Decimal128(p, s)) => {
            digits(*p, *s).is_some_and(|(whole, s)| s >= scale && whole >= precision - scale)
        }
        _ => false,
    }
}

/// What `value` is to a column of type `t`. Both were compared at a type to which the column widens.
pub(super) fn key_value(value: &ScalarValue, t: DataType) -> KeyValue {
    if value.is_null() {
        return KeyValue::Null;
    }
    let found = match value {
        ScalarValue::Boolean(Some(b)) => Some(Value::Boolean(*b)),
        ScalarValue::Int16(Some(n)) => number((*n).into(), 0, t),
        ScalarValue::Int32(Some(n)) => number((*n).into(), 0, t),
        ScalarValue::Int64(Some(n)) => number((*n).into(), 0, t),
        ScalarValue::Decimal128(Some(n), _, s) => u8::try_from(*s).ok().and_then(|s| number(*n, s, t)),
        ScalarValue::Date32(Some(days)) if t == DataType::Date => Some(Value::Int((*days).into())),
        ScalarValue::TimestampMicrosecond(Some(us), None) if t == DataType::Timestamp => {
            Some(Value::Int(*us))
        }
        ScalarValue::Utf8(Some(s)) | ScalarValue::Utf8View(Some(s)) if t == DataType::Text => {
            Some(Value::text(s))
        }
        ScalarValue::Binary(Some(b)) | ScalarValue::BinaryView(Some(b)) if t == DataType::Bytea => {
            Some(Value::Bytes(b.as_slice().into()))
        }
        _ => None,
    };
    match found {
        Some(v) if v.fits(t) => KeyValue::Is(v),
        _ => KeyValue::Other,
    }
}

/// The number `n` / 10^`scale` in a column of type `t`, if the column can hold it exactly.
fn number(n: i128, scale: u8, t: DataType) -> Option<Value> {
    match t {
        DataType::SmallInt | DataType::Integer | DataType::BigInt => {
            i64::try_from(rescaled(n, scale, 0)?).ok().map(Value::Int)
        }
        DataType::Decimal { scale: to, .. } => rescaled(n, scale, to).map(Value::Decimal),
        _ => None,
    }
}

fn rescaled(n: i128, from: u8, to: u8) -> Option<i128> {
    let power = |digits: u8| (digits <= DIGITS_MAX).then(|| 10i128.pow(digits.into()));
    match from <= to {
        true => n.checked_mul(power(to - from)?),
        false => {
            let power = power(from - to)?;
            (n % power == 0).then_some(n / power)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_keys_where_they_are_exact() {
        let decimal = |precision, scale| DataType::Decimal { precision, scale };
        let check = |v: ScalarValue, t, expected| assert_eq!(key_value(&v, t), expected, "{v:?} as {t}");
        let is = |n| KeyValue::Is(Value::Int(n));
        check(ScalarValue::Int64(Some(7)), DataType::SmallInt, is(7));
        check(ScalarValue::Int64(Some(40_000)), DataType::SmallInt, KeyValue::Other);
        check(ScalarValue::Decimal128(Some(70), 2, 1), DataType::Integer, is(7));
        check(ScalarValue::Decimal128(Some(75), 2, 1), DataType::Integer, KeyValue::Other);
        check(ScalarValue::Int64(Some(7)), decimal(4, 2), KeyValue::Is(Value::Decimal(700)));
        check(ScalarValue::Int64(Some(700)), decimal(4, 2), KeyValue::Other);
        check(ScalarValue::Decimal128(Some(75), 2, 1), decimal(4, 2), KeyValue::Is(Value::Decimal(750)));
        check(ScalarValue::Decimal128(Some(755), 3, 3), decimal(4, 2), KeyValue::Other);
        check(ScalarValue::Int64(None), DataType::Integer, KeyValue::Null);
        check(ScalarValue::Float64(Some(7.0)), DataType::Integer, KeyValue::Other);
        check(ScalarValue::Int64(Some(7)), DataType::Date, KeyValue::Other);
    }

    #[test]
    fn casts_widen_that_keep_values_apart_and_never_fail() {
        let check = |from, to, expected| assert_eq!(widens(from, &to), expected, "{from} to {to}");
        check(DataType::Integer, ArrowType::Int64, true);
        check(DataType::BigInt, ArrowType::Int32, false);
        check(DataType::BigInt, ArrowType::Float64, false);
        check(DataType::BigInt, ArrowType::Decimal128(20, 1), true);
        check(DataType::BigInt, ArrowType::Decimal128(19, 1), false);
        check(DataType::Decimal { precision: 4, scale: 2 }, ArrowType::Decimal128(5, 3), true);
        check(DataType::Decimal { precision: 4, scale: 2 }, ArrowType::Decimal128(5, 1), false);
        check(DataType::Date, ArrowType::Timestamp(TimeUnit::Microsecond, None), false);
        check(DataType::Real, ArrowType::Float32, false);
    }
}
