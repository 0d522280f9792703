//! Casts of numbers to integers round. A number that does not fit is an error.
//!
//! ```text
//!   2.5::int     NUMERIC: half away from zero      ─►  3
//!   2.5e0::int   DOUBLE: half to even, as IEEE has it  ─►  2
//!   1e10::int    out of range                      ─►  SQLSTATE 22003
//! ```
//!
//! DataFusion truncates. Casts that PostgreSQL does not have are refused.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arithmetic::type_name;
use super::kernel::through_array;
use super::text::is_bytes;
use crate::SqlError;

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, field }) = expr else { return Ok(Transformed::no(expr)) };
    let to = field.data_type();
    let Ok(from) = inner.get_type(schema) else {
        return Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field })));
    };
    if rounds(&from, to) {
        let signature = Signature::any(1, Volatility::Immutable);
        let rounded = ScalarUDF::from(Rounded { to: to.clone(), signature });
        return Ok(Transformed::yes(rounded.call(vec![*inner])));
    }
    if !is_castable(&from, to) {
        return Err(SqlError::NoCast { from: sql_name(&from), to: sql_name(to) }.into());
    }
    Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field })))
}

/// Whether a cast rounds: from NUMERIC or a float to an integer, or from a wider type to REAL.
fn rounds(from: &DataType, to: &DataType) -> bool {
    let to_integer =
        to.is_signed_integer() && (from.is_floating() || matches!(from, DataType::Decimal128(..)));
    to_integer || *to == DataType::Float32 && matches!(from, DataType::Float64 | DataType::Decimal128(..))
}

/// Whether PostgreSQL has a cast from one type to the other. Text, NULL and types that PostgreSQL lacks are not
/// checked here.
fn is_castable(from: &DataType, to: &DataType) -> bool {
    let (a, b) = (Family::of(from), Family::of(to));
    match (a, b) {
        (Some(a), Some(b)) if a == b => true,
        (Some(Family::Boolean), Some(Family::Number)) => matches!(to, DataType::Int32),
        (Some(Family::Number), Some(Family::Boolean)) => matches!(from, DataType::Int32 | DataType::Int64),
        (Some(Family::Date), Some(Family::Timestamp)) | (Some(Family::Timestamp), Some(Family::Date)) => true,
        (Some(_), Some(_)) => false,
        _ => true,
    }
}

/// Types that are cast to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Boolean,
    Number,
    Date,
    Timestamp,
    Interval,
    Bytes,
}

impl Family {
    fn of(t: &DataType) -> Option<Self> {
        Some(match t {
            DataType::Boolean => Self::Boolean,
            t if t.is_numeric() => Self::Number,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(..) => Self::Timestamp,
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval,
            t if is_bytes(t) => Self::Bytes,
            _ => return None,
        })
    }
}

/// SQL's name of a type, for messages.
pub(crate) fn sql_name(t: &DataType) -> String {
    match t {
        DataType::Boolean => "boolean".into(),
        t if t.is_integer() => type_name(t).into(),
        DataType::Float16 | DataType::Float32 => "real".into(),
        DataType::Float64 => "double precision".into(),
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea".into(),
        DataType::Date32 | DataType::Date64 => "date".into(),
        DataType::Timestamp(_, None) => "timestamp".into(),
        DataType::Timestamp(..) => "timestamp with time zone".into(),
        DataType::Interval(_) | DataType::Duration(_) => "interval".into(),
        other => other.to_string(),
    }
}

/// A number rounded to an integer type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounded {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        match self.to {
            DataType::Int16 => "rounded_to_smallint",
            DataType::Int32 => "rounded_to_integer",
            DataType::Float32 => "rounded_to_real",
            _ => "rounded_to_bigint",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        through_array(&args.args[0], args.number_rows, |array| Ok(rounded(array, &self.to)?))
    }
}

/// NUMERIC or floats, rounded to integers of type `to`, or to REAL.
///
/// # Errors
/// [`SqlError::OutOfRange`] where one does not fit.
fn rounded(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, SqlError> {
    if *to == DataType::Float32 {
        return super::float::narrowed(array);
    }
    let whole: PrimitiveArray<Int64Type> = match array.data_type() {
        DataType::Decimal128(_, scale) => {
            let unit = 10i128.pow(u32::from(scale.unsigned_abs()));
            let scale = *scale;
            array.as_primitive::<Decimal128Type>().try_unary(|v| {
                let whole = if scale <= 0 { v.checked_mul(unit) } else { Some(half_away(v, unit)) };
                whole.and_then(|v| i64::try_from(v).ok()).ok_or(SqlError::OutOfRange(type_name(to)))
            })?
        }
        _ => {
            let doubles = arrow_cast(array, &DataType::Float64)?;
            doubles.as_primitive::<Float64Type>().try_unary(|v| {
                let v = v.round_ties_even();
                // 2^63 itself is out of range.
                let fits = (-(2f64.powi(63))..2f64.powi(63)).contains(&v);
                if fits { Ok(v as i64) } else { Err(SqlError::OutOfRange(type_name(to))) }
            })?
        }
    };
    let range = || SqlError::OutOfRange(type_name(to));
    Ok(match to {
        DataType::Int16 => {
            let narrow: PrimitiveArray<Int16Type> = whole.try_unary(|v| v.try_into().map_err(|_| range()))?;
            Arc::new(narrow)
        }
        DataType::Int32 => {
            let narrow: PrimitiveArray<Int32Type> = whole.try_unary(|v| v.try_into().map_err(|_| range()))?;
            Arc::new(narrow)
        }
        DataType::Int64 => Arc::new(whole),
        other => arrow_cast(&whole, other)?,
    })
}

/// `v / unit`, halves away from zero.
fn half_away(v: i128, unit: i128) -> i128 {
    let (whole, rest) = (v / unit, v % unit);
    if rest.abs() * 2 >= unit { whole + v.signum() } else { whole }
}

/// Values as they are assigned to a column of type `to`; `None` if Arrow's own cast is the same as PostgreSQL's.
pub(crate) fn to_column_type(array: &ArrayRef, to: &DataType) -> Option<Result<ArrayRef, SqlError>> {
    if super::text::is_text(array.data_type()) && *to == DataType::BinaryView {
        return Some(super::text::bytes_of_text(array).and_then(|b| Ok(arrow_cast(&b, to)?)));
    }
    rounds(array.data_type(), to).then(|| rounded(array, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Decimal128Array, Float64Array};

    #[test]
    fn halves_go_away_from_zero_for_decimals_and_to_even_for_doubles() {
        let decimals =
            Decimal128Array::from(vec![25, -25, 24, 35, -4]).with_precision_and_scale(3, 1).unwrap();
        let got = rounded(&(Arc::new(decimals) as ArrayRef), &DataType::Int32).unwrap();
        assert_eq!(got.as_primitive::<Int32Type>().values(), &[3, -3, 2, 4, 0]);
        let doubles = Float64Array::from(vec![2.5, -2.5, 3.5, 0.4]);
        let got = rounded(&(Arc::new(doubles) as ArrayRef), &DataType::Int16).unwrap();
        assert_eq!(got.as_primitive::<Int16Type>().values(), &[2, -2, 4, 0]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let check = |v: f64, to: DataType, fits: bool| {
            let array: ArrayRef = Arc::new(Float64Array::from(vec![v]));
            assert_eq!(rounded(&array, &to).is_ok(), fits, "{v} to {to}");
        };
        check(32767.4, DataType::Int16, true);
        check(32767.5, DataType::Int16, false);
        check(9_223_372_036_854_775_807.0, DataType::Int64, false);
        check(-9_223_372_036_854_775_808.0, DataType::Int64, true);
        check(f64::NAN, DataType::Int64, false);
        check(f64::INFINITY, DataType::Int32, false);
    }
}
