//! A single value, for constants of programs, keys and messages.

use std::cmp::Ordering;

use crate::DataType;

/// A value of some [`DataType`], or NULL.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL's NULL, of any type.
    Null,
    /// A BOOLEAN.
    Boolean(bool),
    /// A SMALLINT, INTEGER, BIGINT, DATE (days) or TIMESTAMP (microseconds).
    Int(i64),
    /// A REAL.
    Real(f32),
    /// A DOUBLE.
    Double(f64),
    /// A DECIMAL: the unscaled integer; the scale is its type's.
    Decimal(i128),
    /// A TEXT (valid UTF-8) or BYTEA.
    Bytes(Box<[u8]>),
}

impl Value {
    /// A text value.
    pub fn text(s: &str) -> Self {
        Self::Bytes(s.as_bytes().into())
    }

    /// Whether this is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether a column of type `t` can hold this value (range, digits and UTF-8 included). NULL always fits.
    pub fn fits(&self, t: DataType) -> bool {
        match (self, t) {
            (Self::Null, _) | (Self::Boolean(_), DataType::Boolean) => true,
            (Self::Int(v), DataType::SmallInt) => i16::try_from(*v).is_ok(),
            (Self::Int(v), DataType::Integer | DataType::Date) => i32::try_from(*v).is_ok(),
            (Self::Int(_), DataType::BigInt | DataType::Timestamp) => true,
            (Self::Real(_), DataType::Real) | (Self::Double(_), DataType::Double) => true,
            (Self::Decimal(v), DataType::Decimal { precision, .. }) => {
                precision <= 38 && v.unsigned_abs() < 10u128.pow(precision.into())
            }
            (Self::Bytes(b), DataType::Text) => std::str::from_utf8(b).is_ok(),
            (Self::Bytes(_), DataType::Bytea) => true,
            _ => false,
        }
    }

    /// Order of two non-null values of one type: floats in IEEE total order, strings bytewise.
    /// `None` when either is NULL or the kinds differ.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Real(a), Self::Real(b)) => Some(a.total_cmp(b)),
            (Self::Double(a), Self::Double(b)) => Some(a.total_cmp(b)),
            (Self::Decimal(a), Self::Decimal(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_their_types_only() {
        let check = |v: Value, t, expected| assert_eq!(v.fits(t), expected, "{v:?} in {t}");
        check(Value::Int(32_768), DataType::SmallInt, false);
        check(Value::Int(-32_768), DataType::SmallInt, true);
        check(Value::Decimal(1000), DataType::Decimal { precision: 3, scale: 1 }, false);
        check(Value::Decimal(-999), DataType::Decimal { precision: 3, scale: 1 }, true);
        check(Value::Bytes([0xff].into()), DataType::Text, false);
        check(Value::Bytes([0xff].into()), DataType::Bytea, true);
        check(Value::Null, DataType::Date, true);
        check(Value::Int(1), DataType::Double, false);
    }
}
