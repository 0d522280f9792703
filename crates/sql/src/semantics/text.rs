//! Values as text, and BYTEA from text, spelled as PostgreSQL spells them.
//!
//! ```text
//!   1e20::float8::text   ─►  1e+20          '\x6162'::bytea   ─►  two bytes, 61 62
//!   'a' || TIMESTAMP '2020-01-01 00:00:00'  ─►  a2020-01-01 00:00:00
//!   concat(true)         ─►  t              '\x61'::bytea::text  ─►  \x61
//! ```
//!
//! DataFusion spells floats as Rust does and timestamps as ISO 8601 does, and copies the bytes of a text to a BYTEA.

use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{DateTime, Datelike, Timelike};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, StringBuilder};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit, when,
};

use super::cast::sql_name;
use super::kernel::through_array;
use crate::SqlError;
use crate::error::state;

pub(super) fn is_text(t: &DataType) -> bool {
    matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(super) fn is_bytes(t: &DataType) -> bool {
    matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Types that DataFusion spells differently.
fn is_spelled_otherwise(t: &DataType) -> bool {
    t.is_floating() || is_bytes(t) || matches!(t, DataType::Timestamp(_, None) | DataType::Interval(_))
}

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr: inner, field }) => {
            let to = field.data_type();
            match inner.get_type(schema) {
                Ok(from) if is_text(to) && is_spelled_otherwise(&from) => {
                    Ok(Transformed::yes(call(Form::Text { booleans_short: false }, to.clone(), *inner)))
                }
                Ok(from) if is_bytes(to) && is_text(&from) => {
                    Ok(Transformed::yes(call(Form::Bytes, to.clone(), *inner)))
                }
                Ok(from) if is_bytes(to) && !is_bytes(&from) && from != DataType::Null => {
                    Err(SqlError::NoCast { from: sql_name(&from), to: sql_name(to) }.into())
                }
                _ => Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field }))),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            let type_of = |e: &Expr| e.get_type(schema).ok();
            let (l, r) = (type_of(&left), type_of(&right));
            let is_text = |t: &Option<DataType>| t.as_ref().is_some_and(is_text);
            let spelled = |e: Expr, t: &Option<DataType>, other: bool| match t {
                Some(t) if other && is_spelled_otherwise(t) => {
                    (call(Form::Text { booleans_short: false }, DataType::Utf8, e), true)
                }
                _ => (e, false),
            };
            let (left, a) = spelled(*left, &l, is_text(&r));
            let (right, b) = spelled(*right, &r, is_text(&l));
            let e =
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), Operator::StringConcat, Box::new(right)));
            Ok(Transformed::new_transformed(e, a || b))
        }
        Expr::ScalarFunction(mut f) if matches!(f.func.name(), "concat" | "concat_ws") => {
            let mut changed = false;
            for argument in &mut f.args {
                let Ok(t) = argument.get_type(schema) else { continue };
                if is_spelled_otherwise(&t) || t == DataType::Boolean {
                    let inner = std::mem::replace(argument, Expr::Literal(ScalarValue::Null, None));
                    *argument = call(Form::Text { booleans_short: true }, DataType::Utf8, inner);
                    changed = true;
                }
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(f), changed))
        }
        // A negative length is 0. DataFusion panics if the length is negative and the fill is NULL.
        Expr::ScalarFunction(mut f) if matches!(f.func.name(), "lpad" | "rpad") && f.args.len() > 1 => {
            let length = f.args[1].clone();
            if matches!(length.get_type(schema), Ok(t) if t.is_integer()) {
                let zero = lit(ScalarValue::Int64(Some(0)));
                f.args[1] = when(length.clone().lt(zero.clone()), zero).otherwise(length)?;
            }
            Ok(Transformed::yes(Expr::ScalarFunction(f)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// What a value is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Text {
        /// `t` and `f` for `true` and `false`.
        booleans_short: bool,
    },
    Bytes,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spelled {
    form: Form,
    to: DataType,
    signature: Signature,
}

fn call(form: Form, to: DataType, of: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Spelled { form, to, signature }).call(vec![of])
}

impl ScalarUDFImpl for Spelled {
    fn name(&self) -> &str {
        match self.form {
            Form::Text { .. } => "spelled",
            Form::Bytes => "bytes_of_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        through_array(&args.args[0], args.number_rows, |array| {
            let made = match self.form {
                Form::Text { booleans_short } => spelled(array, booleans_short)?,
                Form::Bytes => bytes_of_text(array)?,
            };
            Ok(arrow_cast(&made, &self.to)?)
        })
    }
}

/// The text of values as COPY writes them; what Arrow spells in the same way is left as it is.
pub(crate) fn as_copied(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        t if is_spelled_otherwise(t) || *t == DataType::Boolean => spelled(array, true),
        _ => Ok(array.clone()),
    }
}

/// Values as text.
fn spelled(array: &ArrayRef, booleans_short: bool) -> Result<ArrayRef> {
    let mut out = StringBuilder::new();
    let mut each = |write: &mut dyn FnMut(usize, &mut String)| {
        for row in 0..array.len() {
            if array.is_null(row) {
                out.append_null();
            } else {
                let mut text = String::new();
                write(row, &mut text);
                out.append_value(text);
            }
        }
    };
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            let text = if booleans_short { ["f", "t"] } else { ["false", "true"] };
            each(&mut |row, out| out.push_str(text[usize::from(values.value(row))]));
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            each(&mut |row, out| {
                let v = values.value(row);
                float(&format!("{v:e}"), v.into(), 6, out);
            });
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            each(&mut |row, out| {
                let v = values.value(row);
                float(&format!("{v:e}"), v, 15, out);
            });
        }
        DataType::Timestamp(..) => {
            let values = arrow_cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let values = values.as_primitive::<TimestampMicrosecondType>();
            each(&mut |row, out| timestamp(values.value(row), out));
        }
        DataType::Interval(_) => {
            let values = arrow_cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let values = values.as_primitive::<IntervalMonthDayNanoType>();
            each(&mut |row, out| {
                let i = values.value(row);
                interval(i.months, i.days, i.nanoseconds / 1000, out);
            });
        }
        _ => {
            let values = arrow_cast(array, &DataType::Binary)?;
            let values = values.as_binary::<i32>();
            each(&mut |row, out| {
                out.push_str("\\x");
                values.value(row).iter().for_each(|b| {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "{b:02x}");
                });
            });
        }
    }
    Ok(Arc::new(out.finish()))
}

/// Spells a float from its shortest `scientific` form: with an exponent if that is below -4 or at least `digits`.
fn float(scientific: &str, v: f64, digits: i32, out: &mut String) {
    if !v.is_finite() {
        out.push_str(match (v.is_nan(), v > 0.0) {
            (true, _) => "NaN",
            (false, true) => "Infinity",
            (false, false) => "-Infinity",
        });
        return;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..digits).contains(&exponent) {
        let _ = write!(out, "{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
        return;
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let all: String = mantissa.chars().filter(|c| *c != '.').collect();
    out.push_str(sign);
    if exponent < 0 {
        let zeroes = "0".repeat((-exponent - 1) as usize);
        let _ = write!(out, "0.{zeroes}{all}");
    } else {
        let whole = exponent as usize + 1;
        match all.len() <= whole {
            true => {
                let _ = write!(out, "{all}{}", "0".repeat(whole - all.len()));
            }
            false => {
                let _ = write!(out, "{}.{}", &all[..whole], &all[whole..]);
            }
        }
    }
}

fn timestamp(micros: i64, out: &mut String) {
    let Some(t) = DateTime::from_timestamp_micros(micros) else { return };
    let (year, era) = match t.year() {
        y if y > 0 => (y, ""),
        y => (1 - y, " BC"),
    };
    let _ = write!(
        out,
        "{year:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        t.month(),
        t.day(),
        t.hour(),
        t.minute(),
        t.second()
    );
    fraction(i64::from(t.timestamp_subsec_micros()), out);
    out.push_str(era);
}

fn fraction(micros: i64, out: &mut String) {
    if micros != 0 {
        let digits = format!("{micros:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

/// PostgreSQL's own style: `1 year 2 mons -3 days +04:05:06.7`.
fn interval(months: i32, days: i32, micros: i64, out: &mut String) {
    let mut before_is_negative = false;
    let mut part = |n: i64, unit: &str, out: &mut String| {
        if n != 0 {
            let gap = if out.is_empty() { "" } else { " " };
            let sign = if before_is_negative && n > 0 { "+" } else { "" };
            let plural = if n == 1 { "" } else { "s" };
            let _ = write!(out, "{gap}{sign}{n} {unit}{plural}");
            before_is_negative = n < 0;
        }
    };
    part(i64::from(months / 12), "year", out);
    part(i64::from(months % 12), "mon", out);
    part(i64::from(days), "day", out);
    if micros != 0 || out.is_empty() {
        let gap = if out.is_empty() { "" } else { " " };
        let sign = match micros < 0 {
            true => "-",
            false if before_is_negative => "+",
            false => "",
        };
        let all = micros.unsigned_abs();
        let seconds = all / 1_000_000;
        let _ = write!(out, "{gap}{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        fraction((all % 1_000_000) as i64, out);
    }
}

/// Text as bytes: `\x` and hexadecimal digits, or characters with `\\` and `\ooo`.
pub(super) fn bytes_of_text(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let array = arrow_cast(array, &DataType::Utf8)?;
    let texts = array.as_string::<i32>();
    let mut out = BinaryBuilder::new();
    for row in 0..texts.len() {
        match texts.is_null(row) {
            true => out.append_null(),
            false => out.append_value(bytes(texts.value(row))?),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn bytes(text: &str) -> Result<Vec<u8>, SqlError> {
    let hex = |message| SqlError::failed(state::INVALID_PARAMETER_VALUE, message);
    if let Some(digits) = text.strip_prefix("\\x") {
        let digit = |c: char| c.to_digit(16).map(|d| d as u8).ok_or_else(|| hex("invalid hexadecimal digit"));
        let mut digits = digits.chars();
        let mut out = Vec::new();
        while let Some(high) = digits.next() {
            if high.is_ascii_whitespace() {
                continue;
            }
            let high = digit(high)?;
            let low = digits.next();
            let low = low.ok_or_else(|| hex("invalid hexadecimal data: odd number of digits"))?;
            out.push(high << 4 | digit(low)?);
        }
        return Ok(out);
    }
    let bad = || SqlError::bad_input("bytea", text);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        (out, rest) = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                out.push(b'\\');
                (out, after)
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                (out, after)
            }
            (b'\\', _) => return Err(bad()),
            (other, after) => {
                out.push(*other);
                (out, after)
            }
        };
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_spelled_as_postgresql_does() {
        let check = |v: f64, expected: &str| {
            let mut out = String::new();
            float(&format!("{v:e}"), v, 15, &mut out);
            assert_eq!(out, expected);
        };
        check(1.0, "1");
        check(-0.0, "-0");
        check(0.00001, "1e-05");
        check(0.0001, "0.0001");
        check(123_456.75, "123456.75");
        check(1e14, "100000000000000");
        check(1e15, "1e+15");
        check(1.25e20, "1.25e+20");
        check(f64::NEG_INFINITY, "-Infinity");
    }

    #[test]
    fn intervals_and_bytes_are_spelled_as_postgresql_does() {
        let check = |(months, days, micros), expected: &str| {
            let mut out = String::new();
            interval(months, days, micros, &mut out);
            assert_eq!(out, expected);
        };
        check((14, -3, 14_706_700_000), "1 year 2 mons -3 days +04:05:06.7");
        check((0, 1, 0), "1 day");
        check((0, 0, 0), "00:00:00");
        check((0, 0, -1), "-00:00:00.000001");
        assert_eq!(bytes("\\x61 62").unwrap(), b"ab");
        assert_eq!(bytes("a\\\\b\\141").unwrap(), b"a\\ba");
        assert!(bytes("\\x6").is_err() && bytes("\\9").is_err());
    }
}
