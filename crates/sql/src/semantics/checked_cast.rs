//! Casts that can fail say what is wrong with the value: SQLSTATEs 22003, 22007, 22008 and 22P02.
//!
//! ```text
//!   'x'::int             ─►  22P02  invalid input syntax for type integer: "x"
//!   '99999'::smallint    ─►  22003  value "99999" is out of range for type smallint
//!   'x'::date            ─►  22007  invalid input syntax for type date: "x"
//!   '2020-02-30'::date   ─►  22008  date/time field value out of range: "2020-02-30"
//!   123::numeric(4, 2)   ─►  22003  value 123 is out of range for type numeric(4,2)
//! ```
//!
//! Arrow has one kind of error for all of these. So Lode asks Arrow for NULL in the place of what it cannot cast, and looks at the
//! value itself.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::cast::sql_name;
use super::kernel::through_array;
use super::moment;
use super::text::is_text;
use crate::SqlError;
use crate::error::state;

/// After the coercion of types, which adds casts of its own.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, field }) = expr else { return Ok(Transformed::no(expr)) };
    let to = field.data_type();
    match inner.get_type(schema) {
        Ok(from) if may_fail(&from, to) => {}
        _ => return Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field }))),
    }
    if let Expr::Literal(value, metadata) = inner.as_ref() {
        match checked(&value.to_array()?, to) {
            Ok(array) => {
                let value = ScalarValue::try_from_array(&array, 0)?;
                return Ok(Transformed::yes(Expr::Literal(value, metadata.clone())));
            }
            // As in PostgreSQL, a quoted literal is converted when the statement is planned, even if it is never
            // evaluated.
            Err(e) if value.data_type() == DataType::Utf8 => return Err(e.into()),
            Err(_) => {}
        }
    }
    let name = format!("cast_to_{}", sql_name(to).replace(' ', "_"));
    let signature = Signature::any(1, Volatility::Immutable);
    let cast = ScalarUDF::from(CheckedCast { to: to.clone(), name, signature });
    Ok(Transformed::yes(cast.call(vec![*inner])))
}

/// Whether there are values of one type that the other cannot hold. Casts that round are others (`cast.rs`).
fn may_fail(from: &DataType, to: &DataType) -> bool {
    let digits = |t: &DataType| match t {
        DataType::Int8 | DataType::UInt8 => Some(3),
        DataType::Int16 | DataType::UInt16 => Some(5),
        DataType::Int32 | DataType::UInt32 => Some(10),
        DataType::Int64 | DataType::UInt64 => Some(20),
        _ => None,
    };
    match (from, to) {
        (
            from,
            DataType::Boolean | DataType::Date32 | DataType::Timestamp(_, None) | DataType::Interval(_),
        ) if is_text(from) => true,
        (from, to) if is_text(from) => to.is_numeric(),
        (DataType::Date32, DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _)) => true,
        (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) => {
            // Digits before the point; one more where rounding may carry.
            let (whole1, whole2) = (i32::from(*p1) - i32::from(*s1), i32::from(*p2) - i32::from(*s2));
            whole2 < whole1 + i32::from(s2 < s1)
        }
        (from, DataType::Decimal128(p, s)) => match digits(from) {
            Some(digits) => i32::from(*p) - i32::from(*s) < digits,
            None => from.is_floating(),
        },
        (from, to) if from.is_integer() && to.is_signed_integer() => digits(to) < digits(from),
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedCast {
    to: DataType,
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        through_array(&args.args[0], args.number_rows, |array| Ok(checked(array, &self.to)?))
    }
}

/// An array cast to another type.
///
/// # Errors
/// What is wrong with the first value that does not fit.
fn checked(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, SqlError> {
    match cast_or_null(array, to)? {
        (values, None) => Ok(values),
        (_, Some(row)) => Err(unfit(array, row, to)),
    }
}

/// An array cast to another type, with NULL for what does not fit, and the first row that does not.
pub(crate) fn cast_or_null(array: &ArrayRef, to: &DataType) -> Result<(ArrayRef, Option<usize>), SqlError> {
    let values = match moment::cast_texts(array, to) {
        Some(values) => values,
        None => cast_with_options(array, to, &CastOptions { safe: true, ..CastOptions::default() })?,
    };
    let row = match values.null_count() > array.null_count() {
        true => (0..array.len()).find(|&r| values.is_null(r) && array.is_valid(r)),
        false => None,
    };
    Ok((values, row))
}

/// What is wrong with a value that a type cannot hold.
pub(crate) fn unfit(array: &ArrayRef, row: usize, to: &DataType) -> SqlError {
    let from = array.data_type();
    let text = array_value_to_string(array, row).unwrap_or_default();
    let bad = |state| SqlError::BadInput { state, of: sql_name(to), value: text.clone() };
    match to {
        DataType::Date32 | DataType::Timestamp(..) if is_text(from) => moment::wrong(&text, &sql_name(to)),
        DataType::Date32 | DataType::Timestamp(..) => SqlError::failed(
            state::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: {text:?}"),
        ),
        DataType::Interval(_) => bad(state::INVALID_DATETIME_FORMAT),
        to if to.is_numeric() && (!is_text(from) || is_number(&text, to.is_integer())) => {
            let shown = if is_text(from) { format!("{text:?}") } else { text.clone() };
            let of = match to {
                DataType::Decimal128(p, s) => format!("numeric({p},{s})"),
                other => sql_name(other),
            };
            let message = format!("value {shown} is out of range for type {of}");
            SqlError::failed(state::NUMERIC_VALUE_OUT_OF_RANGE, message)
        }
        _ => bad(state::INVALID_TEXT_REPRESENTATION),
    }
}

/// Whether a text is a number, of any size.
fn is_number(text: &str, whole: bool) -> bool {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if whole {
        return !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit());
    }
    // What Rust reads as a double: digits, a point, an exponent; infinities and NaN are numbers too.
    !unsigned.starts_with(['-', '+']) && unsigned.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Decimal128Array, Int64Array, StringArray};
    use datafusion::arrow::compute::cast as arrow_cast;
    use datafusion::arrow::datatypes::{Decimal128Type, IntervalUnit};

    use super::*;

    #[test]
    fn a_value_that_does_not_fit_has_the_sqlstate_of_what_is_wrong_with_it() {
        let check = |text: &str, to: DataType, state: &str| {
            let array: ArrayRef = Arc::new(StringArray::from(vec![None, Some(text)]));
            let e = checked(&array, &to).expect_err(text);
            assert_eq!(e.sqlstate(), state, "{text} to {to}: {e}");
        };
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
        check("x", DataType::Int32, "22P02");
        check("1.5", DataType::Int32, "22P02");
        check("-32769", DataType::Int16, "22003");
        check("x", DataType::Float64, "22P02");
        check("1e2", DataType::Decimal128(3, 2), "22003");
        check("Infinity", DataType::Decimal128(3, 2), "22003");
        check("maybe", DataType::Boolean, "22P02");
        check("2020-02", DataType::Date32, "22007");
        check("2020-02-30", DataType::Date32, "22008");
        check("2020-01-01 24:00:01", timestamp.clone(), "22008");
        check("2020-01-01 10", timestamp, "22007");
        check("1 fortnight", DataType::Interval(IntervalUnit::MonthDayNano), "22007");
    }

    #[test]
    fn only_what_may_not_fit_is_checked() {
        use DataType::{Decimal128, Int16, Int32, Int64};
        let check = |from, to, expected| assert_eq!(may_fail(&from, &to), expected, "{from} to {to}");
        check(Int32, Int64, false);
        check(Int32, Int16, true);
        check(Int32, Decimal128(10, 0), false);
        check(Int32, Decimal128(10, 1), true);
        check(Decimal128(5, 2), Decimal128(7, 4), false);
        check(Decimal128(5, 2), Decimal128(4, 1), true);
        check(Decimal128(5, 2), Decimal128(5, 1), false);
        check(DataType::Float64, Decimal128(38, 0), true);
        check(DataType::Utf8View, DataType::Utf8, false);
    }

    #[test]
    fn what_fits_is_cast() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![Some(99), None]));
        let got = checked(&array, &DataType::Decimal128(4, 2)).unwrap();
        let expected = Decimal128Array::from(vec![Some(9900), None]).with_precision_and_scale(4, 2).unwrap();
        assert_eq!(got.as_primitive::<Decimal128Type>(), &expected);
        assert!(
            checked(&arrow_cast(&array, &DataType::Int32).unwrap(), &DataType::Decimal128(3, 2)).is_err()
        );
    }
}
