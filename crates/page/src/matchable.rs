//! Matchable fields: values as bytes that a pattern matcher can be given a key for.
//!
//! ```text
//!   SMALLINT, INTEGER, BIGINT, TIMESTAMP   big-endian, the sign bit flipped      15 is 80 00 00 0F
//!   DATE                                   3 bytes: 0x800000 + year * 512 + month * 32 + day   1995-09-01 is 8F 97 21
//!   TEXT, BYTEA                            the bytes
//! ```
//!
//! Other types have no such form. Invariant: among values of a type that have a field, the order of the fields is the order of
//! the values. Source: YourSQL, section 3.1.2 (the forms are InnoDB's).

use lode_base::calendar::{civil, days_of};

use crate::{DataType, Value};

/// The greatest year that fits a date's 3 bytes.
const YEAR_MAX: i64 = 16_383;

/// The field of a value of type `t`; `None` for NULL, for a type without one, and for a date before year 0 or after 16383.
pub fn field(t: DataType, v: &Value) -> Option<Box<[u8]>> {
    Some(match (t, v) {
        (DataType::SmallInt, Value::Int(i)) => i16::try_from(*i).ok()?.field().into(),
        (DataType::Integer, Value::Int(i)) => i32::try_from(*i).ok()?.field().into(),
        (DataType::BigInt | DataType::Timestamp, Value::Int(i)) => i.field().into(),
        (DataType::Date, Value::Int(days)) => date_field(*days)?.into(),
        (DataType::Text | DataType::Bytea, Value::Bytes(b)) => b.clone(),
        _ => return None,
    })
}

/// The value of type `t` whose field this is; `None` if it is none.
pub fn value_of_field(t: DataType, field: &[u8]) -> Option<Value> {
    Some(match t {
        DataType::SmallInt => Value::Int(i16::of_field(field.try_into().ok()?).into()),
        DataType::Integer => Value::Int(i32::of_field(field.try_into().ok()?).into()),
        DataType::BigInt | DataType::Timestamp => Value::Int(i64::of_field(field.try_into().ok()?)),
        DataType::Date => Value::Int(days_of_field(field.try_into().ok()?)?),
        DataType::Text | DataType::Bytea => Value::Bytes(field.into()),
        _ => return None,
    })
}

/// A number of N bytes, whose field is big-endian with the sign bit flipped.
pub(crate) trait Number<const N: usize>: Sized {
    /// The field.
    fn field(self) -> [u8; N];

    /// The number whose field this is.
    fn of_field(field: [u8; N]) -> Self;
}

macro_rules! number {
    ($t:ident, $bytes:literal) => {
        impl Number<$bytes> for $t {
            fn field(self) -> [u8; $bytes] {
                (self ^ Self::MIN).to_be_bytes()
            }

            fn of_field(field: [u8; $bytes]) -> Self {
                Self::from_be_bytes(field) ^ Self::MIN
            }
        }
    };
}

number!(i16, 2);
number!(i32, 4);
number!(i64, 8);

/// The field of a day, counted from 1970-01-01; `None` before year 0 and after 16383.
pub(crate) fn date_field(days: i64) -> Option<[u8; 3]> {
    let (year, month, day) = civil(days);
    if !(0..=YEAR_MAX).contains(&year) {
        return None;
    }
    let [_, a, b, c] = (0x80_0000 | (year << 9 | month << 5 | day) as u32).to_be_bytes();
    Some([a, b, c])
}

/// The day whose field this is; `None` if it is of none.
pub(crate) fn days_of_field(field: [u8; 3]) -> Option<i64> {
    let [a, b, c] = field;
    let date = i64::from(u32::from_be_bytes([0, a, b, c]).checked_sub(0x80_0000)?);
    let days = days_of(date >> 9, date >> 5 & 15, date & 31);
    (date_field(days) == Some(field)).then_some(days)
}

#[cfg(test)]
mod tests {
    use lode_base::calendar::CYCLE_DAYS;

    use super::*;

    #[test]
    fn fields_are_those_of_the_paper() {
        let check = |t, v, expected: &[u8]| {
            assert_eq!(field(t, &Value::Int(v)).as_deref(), Some(expected), "{t} {v}")
        };
        check(DataType::Integer, 15, &[0x80, 0, 0, 0x0f]);
        check(DataType::Integer, -1, &[0x7f, 0xff, 0xff, 0xff]);
        check(DataType::SmallInt, 258, &[0x81, 2]);
        check(DataType::BigInt, i64::MIN, &[0; 8]);
        // 1995-09-01, 1995-10-01, 1970-01-01.
        check(DataType::Date, 9_374, &[0x8f, 0x97, 0x21]);
        check(DataType::Date, 9_404, &[0x8f, 0x97, 0x41]);
        check(DataType::Date, 0, &[0x8f, 0x64, 0x21]);
        assert_eq!(field(DataType::Integer, &Value::Null), None);
        assert_eq!(field(DataType::Date, &Value::Int(i64::MAX)), None);
        assert_eq!(field(DataType::Double, &Value::Double(1.0)), None);
    }

    #[test]
    fn each_day_has_a_field_of_its_own_in_the_order_of_days() {
        let (first, last) = (days_of(0, 1, 1), days_of(YEAR_MAX, 12, 31));
        let mut before = None;
        // The calendar repeats itself after each cycle.
        for days in
            (first..first + CYCLE_DAYS).chain(-CYCLE_DAYS / 2..CYCLE_DAYS / 2).chain(last - CYCLE_DAYS..=last)
        {
            let f = field(DataType::Date, &Value::Int(days));
            assert!(f > before, "{days}");
            assert_eq!(value_of_field(DataType::Date, f.as_deref().unwrap()), Some(Value::Int(days)));
            before = f;
        }
        assert_eq!(field(DataType::Date, &Value::Int(first - 1)), None);
        assert_eq!(field(DataType::Date, &Value::Int(last + 1)), None);
        assert_eq!(value_of_field(DataType::Date, &[0x8f, 0x97, 0]), None, "no day 0");
        assert_eq!(value_of_field(DataType::Date, &[0, 0, 0]), None);
    }

    #[test]
    fn numbers_come_back_and_keep_their_order() {
        for (t, low, high) in [
            (DataType::SmallInt, i16::MIN.into(), i16::MAX.into()),
            (DataType::Integer, i32::MIN.into(), i32::MAX.into()),
            (DataType::BigInt, i64::MIN, i64::MAX),
        ] {
            let values = [low, low + 1, -256, -1, 0, 1, 255, 256, high - 1, high].map(Value::Int);
            let fields: Vec<_> = values.iter().map(|v| field(t, v).unwrap()).collect();
            assert!(fields.is_sorted_by(|a, b| a < b), "{t}");
            values.iter().zip(&fields).for_each(|(v, f)| assert_eq!(value_of_field(t, f).as_ref(), Some(v)));
        }
        assert_eq!(field(DataType::SmallInt, &Value::Int(1 << 20)), None);
    }
}
