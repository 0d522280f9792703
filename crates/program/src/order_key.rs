//! Order-preserving 64-bit keys of values.
//!
//! ```text
//!   integers, DATE, TIMESTAMP   the value, sign bit flipped
//!   REAL, DOUBLE                the IEEE total order as an integer, sign bit flipped
//!   DECIMAL of up to 18 digits  the unscaled value (clamped to 64 bits), sign bit flipped
//!   DECIMAL of more             sign and magnitude with 56 significant bits (as a float has them), flipped
//!   TEXT, BYTEA                 the first 8 bytes, big-endian, padded with zeroes
//! ```
//!
//! Invariant: `a <= b` implies `key(a) <= key(b)`, for every two values of a type.

use lode_page::{DataType, Value};

/// Digits of a decimal that always fit 64 bits.
const DIGITS_EXACT: u8 = 18;
const SIGN: u64 = 1 << 63;

/// The key of `v` among the values of type `t`; `None` when it is NULL or not of that type.
pub fn key_of(t: DataType, v: &Value) -> Option<u64> {
    Some(match (v, t) {
        (Value::Bytes(b), DataType::Text | DataType::Bytea) => bytes_key(b),
        _ => order_key(t, order_of(t, v)?),
    })
}

/// The value whose key is `key`, for types whose keys determine the value: not strings, not wide decimals.
pub fn value_of(t: DataType, key: u64) -> Option<Value> {
    let value = value_at(t, i128::from((key ^ SIGN) as i64))?;
    (is_exact(t, key) && value.fits(t) && key_of(t, &value) == Some(key)).then_some(value)
}

/// The value at this place in the order of type `t` ([`order_of`]); `None` for strings, and for places beyond 64
/// bits.
pub(super) fn value_at(t: DataType, order: i128) -> Option<Value> {
    let int = i64::try_from(order).ok();
    Some(match t {
        DataType::Boolean => Value::Boolean(order != 0),
        DataType::Real => Value::Real(f32::from_bits(total32(i32::try_from(order).ok()? as u32) as u32)),
        DataType::Double => Value::Double(f64::from_bits(total64(int? as u64) as u64)),
        DataType::Decimal { .. } => Value::Decimal(order),
        DataType::Text | DataType::Bytea => return None,
        _ => Value::Int(int?),
    })
}

/// Whether `key` belongs to one value of type `t` only.
pub(crate) fn is_exact(t: DataType, key: u64) -> bool {
    match t {
        DataType::Text | DataType::Bytea => false,
        // Keys at the ends of the range may have been clamped.
        DataType::Decimal { precision, .. } => precision <= DIGITS_EXACT && key != 0 && key != u64::MAX,
        _ => true,
    }
}

/// The place of a value in its type's order as an integer: compares as the value does. Not for strings.
pub(crate) fn order_of(t: DataType, v: &Value) -> Option<i128> {
    Some(match (v, t) {
        (Value::Boolean(b), DataType::Boolean) => i128::from(*b),
        (
            Value::Int(i),
            DataType::SmallInt | DataType::Integer | DataType::BigInt | DataType::Date | DataType::Timestamp,
        ) => (*i).into(),
        (Value::Real(f), DataType::Real) => total32(f.to_bits()).into(),
        (Value::Double(f), DataType::Double) => total64(f.to_bits()).into(),
        (Value::Decimal(d), DataType::Decimal { .. }) => *d,
        _ => return None,
    })
}

/// The key of a value's place in its order ([`order_of`]).
pub(crate) fn order_key(t: DataType, order: i128) -> u64 {
    let clamped = |v: i128| v.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let int = match t {
        DataType::Decimal { precision, .. } if precision > DIGITS_EXACT => wide_key(order),
        _ => clamped(order),
    };
    int as u64 ^ SIGN
}

/// The first and the last place in the order that have this key. Not for strings.
pub(crate) fn key_span(t: DataType, key: u64) -> (i128, i128) {
    let int = i128::from((key ^ SIGN) as i64);
    match t {
        DataType::Decimal { precision, .. } if precision > DIGITS_EXACT => {
            let magnitude = int.unsigned_abs();
            let exponent = (magnitude >> 55).saturating_sub(1) as u32;
            // No value has a larger exponent, but a forged entry may.
            if exponent > 72 {
                return (i128::MIN, i128::MAX);
            }
            let near = (magnitude - (u128::from(exponent) << 55)) << exponent;
            let far = near + ((1 << exponent) - 1);
            let signed = |m: u128| match (i128::try_from(m), int < 0) {
                (Ok(m), false) => m,
                (Ok(m), true) => -m,
                (Err(_), false) => i128::MAX,
                (Err(_), true) => i128::MIN,
            };
            let (a, b) = (signed(near), signed(far));
            (a.min(b), a.max(b))
        }
        DataType::Decimal { .. } if key == 0 => (i128::MIN, int),
        DataType::Decimal { .. } if key == u64::MAX => (int, i128::MAX),
        _ => (int, int),
    }
}

/// The first 8 bytes, big-endian.
pub(crate) fn bytes_key(b: &[u8]) -> u64 {
    let mut first = [0; 8];
    let n = b.len().min(8);
    first[..n].copy_from_slice(&b[..n]);
    u64::from_be_bytes(first)
}

/// 56 significant bits and an exponent. The mantissa keeps its leading 1, so that consecutive exponents join:
/// 2^56 - 1 (exponent 0) is followed by exponent 1, mantissa 2^55, which is (1 << 55) + 2^55 = 2^56.
fn wide_key(v: i128) -> i64 {
    let magnitude = v.unsigned_abs();
    let bits = 128 - magnitude.leading_zeros();
    let exponent = bits.saturating_sub(56);
    let key = (i64::from(exponent) << 55) + (magnitude >> exponent) as i64;
    if v < 0 { -key } else { key }
}

/// IEEE total order of a binary32 as an integer; its own inverse on the bits.
pub(crate) fn total32(bits: u32) -> i32 {
    let b = bits as i32;
    b ^ ((b >> 31) as u32 >> 1) as i32
}

/// IEEE total order of a binary64 as an integer; its own inverse on the bits.
pub(crate) fn total64(bits: u64) -> i64 {
    let b = bits as i64;
    b ^ ((b >> 63) as u64 >> 1) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIDE: DataType = DataType::Decimal { precision: 38, scale: 2 };
    const NARROW: DataType = DataType::Decimal { precision: 15, scale: 2 };

    fn ascending(t: DataType, values: &[Value]) {
        for pair in values.windows(2) {
            assert!(key_of(t, &pair[0]) <= key_of(t, &pair[1]), "{pair:?} of {t}");
        }
    }

    #[test]
    fn keys_keep_the_order_at_its_corners() {
        let d = |v: &[i128]| v.iter().map(|&v| Value::Decimal(v)).collect::<Vec<_>>();
        let edges =
            [i128::MIN, -(1 << 70), -(1 << 56), 1 - (1 << 56), -1, 0, 1, 1 << 55, (1 << 56) - 1, 1 << 56];
        ascending(WIDE, &d(&edges));
        ascending(NARROW, &d(&[i128::MIN, i64::MIN.into(), -1, 0, 1, i64::MAX.into(), i128::MAX]));
        let f =
            [-f64::NAN, f64::NEG_INFINITY, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::INFINITY, f64::NAN];
        ascending(DataType::Double, &f.map(Value::Double));
        assert_ne!(
            key_of(DataType::Double, &f[3].into_value()),
            key_of(DataType::Double, &f[4].into_value())
        );
        ascending(DataType::Text, &["", "a", "a\0", "ab", "abcdefgh", "abcdefghi", "é"].map(Value::text));
    }

    trait IntoValue {
        fn into_value(self) -> Value;
    }
    impl IntoValue for f64 {
        fn into_value(self) -> Value {
            Value::Double(self)
        }
    }

    proptest! {
        #[test]
        fn wide_keys_are_monotone(a: i128, b: i128, s in 0u32..120, t in 0u32..120) {
            let (a, b) = (a >> s, b >> t);
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(order_key(WIDE, a) <= order_key(WIDE, b));
            prop_assert!(order_key(NARROW, a) <= order_key(NARROW, b));
            for t in [WIDE, NARROW] {
                let (first, last) = key_span(t, order_key(t, a));
                prop_assert!(first <= a && a <= last);
                prop_assert_eq!(order_key(t, first), order_key(t, last));
            }
        }

        #[test]
        fn exact_keys_are_inverted(i: i64, f: f32, d: f64) {
            for (t, v) in [
                (DataType::BigInt, Value::Int(i)),
                (DataType::Date, Value::Int((i as i32).into())),
                (DataType::Real, Value::Real(f)),
                (DataType::Double, Value::Double(d)),
                (NARROW, Value::Decimal(i128::from(i) % 1_000_000_000_000_000)),
                (DataType::Boolean, Value::Boolean(i > 0)),
            ] {
                let back = value_of(t, key_of(t, &v).unwrap()).unwrap();
                prop_assert_eq!(back.compare(&v), Some(std::cmp::Ordering::Equal));
            }
            prop_assert_eq!(value_of(DataType::SmallInt, key_of(DataType::BigInt, &Value::Int(1 << 40)).unwrap()), None);
        }
    }
}
