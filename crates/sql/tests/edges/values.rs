//! Lode's values, from Arrow arrays.

use std::fmt;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampNanosecondType, UInt64Type,
};
use datafusion::arrow::util::display::array_value_to_string;

/// A value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Integer(i128),
    /// Its digits as text, with a sign and a point.
    Decimal(String),
    Real(f32),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// Days from 1970-01-01.
    Date(i64),
    /// Microseconds from 1970-01-01 00:00:00.
    Timestamp(i64),
    Interval(Interval),
    /// Microseconds between two times. Arrow has no days in this type.
    Duration(i64),
    /// The text of any other value.
    Other(String),
}

/// An interval in PostgreSQL's representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) microseconds: i64,
}

/// The value at `row` of `array`.
pub(crate) fn value(array: &ArrayRef, row: usize) -> Value {
    use DataType as T;
    if array.is_null(row) || array.data_type() == &T::Null {
        return Value::Null;
    }
    let text = || array_value_to_string(array, row).unwrap_or_else(|e| format!("cannot be shown: {e}"));
    let one = array.slice(row, 1);
    let as_type = |t: &T| cast(&one, t).unwrap_or_else(|e| panic!("{} to {t}: {e}", array.data_type()));
    match array.data_type() {
        T::Boolean => Value::Boolean(array.as_boolean().value(row)),
        T::UInt64 => Value::Integer(array.as_primitive::<UInt64Type>().value(row).into()),
        t if t.is_integer() => Value::Integer(as_type(&T::Int64).as_primitive::<Int64Type>().value(0).into()),
        T::Float32 => Value::Real(array.as_primitive::<Float32Type>().value(row)),
        T::Float64 => Value::Double(array.as_primitive::<Float64Type>().value(row)),
        t if t.is_decimal() => Value::Decimal(text()),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => Value::Text(text()),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            Value::Bytes(as_type(&T::Binary).as_binary::<i32>().value(0).to_vec())
        }
        T::Date32 => Value::Date(
            as_type(&T::Int32).as_primitive::<datafusion::arrow::datatypes::Int32Type>().value(0).into(),
        ),
        T::Timestamp(TimeUnit::Nanosecond, None) => {
            Value::Timestamp(array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1000))
        }
        T::Timestamp(_, None) => {
            let micros = as_type(&T::Timestamp(TimeUnit::Microsecond, None));
            Value::Timestamp(
                cast(&micros, &T::Int64).expect("microseconds").as_primitive::<Int64Type>().value(0),
            )
        }
        T::Interval(unit) => {
            let array = match unit {
                IntervalUnit::MonthDayNano => one,
                _ => as_type(&T::Interval(IntervalUnit::MonthDayNano)),
            };
            let v = array.as_primitive::<IntervalMonthDayNanoType>().value(0);
            Value::Interval(Interval {
                months: v.months.into(),
                days: v.days.into(),
                microseconds: v.nanoseconds.div_euclid(1000),
            })
        }
        T::Duration(unit) => {
            let n = as_type(&T::Int64).as_primitive::<Int64Type>().value(0);
            Value::Duration(match unit {
                TimeUnit::Second => n.saturating_mul(1_000_000),
                TimeUnit::Millisecond => n.saturating_mul(1000),
                TimeUnit::Microsecond => n,
                TimeUnit::Nanosecond => n.div_euclid(1000),
            })
        }
        T::Dictionary(_, inner) => value(&as_type(inner), 0),
        _ => Value::Other(text()),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(v) => f.write_str(if *v { "t" } else { "f" }),
            Self::Integer(v) => write!(f, "{v}"),
            Self::Decimal(v) | Self::Text(v) | Self::Other(v) => f.write_str(v),
            Self::Real(v) => write!(f, "{v:?}"),
            Self::Double(v) => write!(f, "{v:?}"),
            Self::Bytes(v) => {
                f.write_str("\\x")?;
                v.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
            Self::Date(days) => f.write_str(&date(*days)),
            Self::Timestamp(microseconds) => f.write_str(&timestamp(*microseconds)),
            Self::Interval(i) => write!(f, "{} months {} days {} us", i.months, i.days, i.microseconds),
            Self::Duration(v) => write!(f, "{v} us"),
        }
    }
}

const DAY: i64 = 86_400_000_000;

/// `YYYY-MM-DD`, `YYYY-MM-DD BC` before the year 1.
fn date(days: i64) -> String {
    let (year, month, day) = civil(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    format!("{year:04}-{month:02}-{day:02}{era}")
}

/// `YYYY-MM-DD HH:MM:SS[.ffffff]` without the zeros at its end.
fn timestamp(microseconds: i64) -> String {
    let date = date(microseconds.div_euclid(DAY));
    let (date, era) =
        date.split_once(' ').map_or((date.as_str(), String::new()), |(d, e)| (d, format!(" {e}")));
    let within = microseconds.rem_euclid(DAY);
    let (seconds, fraction) = (within / 1_000_000, within % 1_000_000);
    let fraction = match fraction {
        0 => String::new(),
        f => format!(".{f:06}").trim_end_matches('0').to_owned(),
    };
    format!("{date} {:02}:{:02}:{:02}{fraction}{era}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of the Gregorian calendar, which both databases use for all dates. Source: Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}
