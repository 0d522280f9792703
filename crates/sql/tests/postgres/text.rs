//! Values as PostgreSQL prints them.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::arrow::util::display::array_value_to_string;

/// From this power of ten on, a REAL is printed with an exponent.
const REAL_EXPONENT_MIN: i32 = 6;
/// The same for DOUBLE PRECISION.
const DOUBLE_EXPONENT_MIN: i32 = 15;

/// The value at `row` of `array`, as COPY writes it: `\N` is NULL, and some characters are escaped.
pub(crate) fn copied(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return "\\N".to_owned();
    }
    escaped(&plain(array, row))
}

/// A text as COPY writes it.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn plain(array: &ArrayRef, row: usize) -> String {
    use DataType as T;
    let one = array.slice(row, 1);
    let as_type = |t: &T| cast(&one, t).unwrap_or_else(|e| panic!("{} to {t}: {e}", array.data_type()));
    match array.data_type() {
        T::Boolean => if array.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
        T::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            float(f64::from(value), &format!("{value:e}"), &value.to_string(), REAL_EXPONENT_MIN)
        }
        T::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            float(value, &format!("{value:e}"), &value.to_string(), DOUBLE_EXPONENT_MIN)
        }
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            let bytes = as_type(&T::Binary);
            bytes.as_binary::<i32>().value(0).iter().fold("\\x".to_owned(), |s, b| format!("{s}{b:02x}"))
        }
        T::Timestamp(_, None) => {
            let micros = as_type(&T::Timestamp(TimeUnit::Microsecond, None));
            let text = array_value_to_string(&micros, 0).expect("a timestamp").replace('T', " ");
            match text.split_once('.') {
                Some((whole, part)) => format!("{whole}.{}", part.trim_end_matches('0')),
                None => text,
            }
        }
        T::Interval(_) => {
            let array = as_type(&T::Interval(IntervalUnit::MonthDayNano));
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(0);
            interval(i64::from(value.months), i64::from(value.days), value.nanoseconds / 1000)
        }
        T::Duration(_) => {
            let micros = as_type(&T::Duration(TimeUnit::Microsecond));
            let micros = cast(&micros, &T::Int64).expect("microseconds");
            let micros = micros.as_primitive::<Int64Type>().value(0);
            // The difference of two timestamps, in days and the rest of a day.
            interval(0, micros / 86_400_000_000, micros % 86_400_000_000)
        }
        _ => array_value_to_string(array, row).unwrap_or_else(|e| format!("cannot be shown: {e}")),
    }
}

/// A float from its shortest digits, with exponent and without.
fn float(value: f64, scientific: &str, positional: &str, exponent_min: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (digits, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    if (-4..exponent_min).contains(&exponent) {
        return positional.to_owned();
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// An interval in PostgreSQL's own style: `1 year 2 mons 3 days 04:05:06`.
fn interval(months: i64, days: i64, micros: i64) -> String {
    let mut parts = Vec::new();
    for (n, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if n != 0 {
            parts.push(format!("{n} {unit}{}", if n == 1 { "" } else { "s" }));
        }
    }
    if micros != 0 || parts.is_empty() {
        let (seconds, rest) = (micros.abs() / 1_000_000, micros.abs() % 1_000_000);
        let sign = if micros < 0 { "-" } else { "" };
        let clock = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let part = format!(".{rest:06}");
        parts.push(if rest == 0 { clock } else { clock + part.trim_end_matches('0') });
    }
    parts.join(" ")
}

#[test]
fn floats_and_intervals_are_printed_as_by_postgres() {
    let double = |v: f64| float(v, &format!("{v:e}"), &v.to_string(), DOUBLE_EXPONENT_MIN);
    for (value, text) in [
        (0.5, "0.5"),
        (1e20, "1e+20"),
        (-1.5e15, "-1.5e+15"),
        (123_456_789_012_345.0, "123456789012345"),
        (0.0001, "0.0001"),
        (0.000_012, "1.2e-05"),
        (0.0, "0"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(double(value), text);
    }
    assert_eq!(interval(14, 3, 14_706_500_000), "1 year 2 mons 3 days 04:05:06.5");
    assert_eq!(interval(0, 0, -60_000_000), "-00:01:00");
    assert_eq!(interval(0, 0, 0), "00:00:00");
}
