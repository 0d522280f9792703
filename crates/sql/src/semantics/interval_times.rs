//! An interval times a number, and divided by one.
//!
//! ```text
//!   '1 month 10 days' * 1.5   ─►  1 month, 0.5 months as 15 days, 15 days  ─►  '1 month 30 days'
//! ```
//!
//! What is left of a month goes to days, 30 to the month, and what is left of a day to the time of day. Source: PostgreSQL 15,
//! `interval_mul` and `interval_div` in timestamp.c.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

use crate::SqlError;
use crate::error::state;

const SECONDS_A_DAY: f64 = 86_400.0;
const DAYS_A_MONTH: f64 = 30.0;

/// The product of an interval and a number.
pub(super) fn times(interval: Expr, factor: Expr) -> Expr {
    call(interval, factor, Scale::Times)
}

/// The quotient of an interval and a number.
pub(super) fn divided(interval: Expr, divisor: Expr) -> Expr {
    call(interval, divisor, Scale::DividedBy)
}

fn call(interval: Expr, number: Expr, by: Scale) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    let number = cast(number, DataType::Float64);
    ScalarUDF::from(Scaled { by, signature }).call(vec![interval, number])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scale {
    Times,
    DividedBy,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Scaled {
    by: Scale,
    signature: Signature,
}

const TYPE: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        match self.by {
            Scale::Times => "interval_mul",
            Scale::DividedBy => "interval_div",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(TYPE)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let intervals = arrow_cast(&args.args[0].to_array(args.number_rows)?, &TYPE)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let numbers = args.args[1].to_array(args.number_rows)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        let scaled = (0..intervals.len()).map(|i| {
            if intervals.is_null(i) || numbers.is_null(i) {
                return Ok(None);
            }
            let number = numbers.value(i);
            let by = |v: f64| match self.by {
                Scale::Times => v * number,
                Scale::DividedBy => v / number,
            };
            if self.by == Scale::DividedBy && number == 0.0 {
                return Err(SqlError::failed(state::DIVISION_BY_ZERO, "division by zero"));
            }
            scaled(intervals.value(i), by)
                .map(Some)
                .ok_or_else(|| SqlError::failed(state::DATETIME_FIELD_OVERFLOW, "interval out of range"))
        });
        let scaled: IntervalMonthDayNanoArray = scaled.collect::<std::result::Result<Vec<_>, _>>()?.into();
        Ok(ColumnarValue::Array(Arc::new(scaled)))
    }
}

/// `None` if a part is out of range.
fn scaled(of: IntervalMonthDayNano, by: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    let whole = |v: f64| (v.is_finite() && v.abs() < f64::from(i32::MAX)).then_some(v as i32);
    let rounded = |v: f64| (v * 1e6).round_ties_even() / 1e6;
    let (months, days) = (by(of.months.into()), by(of.days.into()));
    let (of_months, mut of_days) = (whole(months)?, whole(days)?);
    let from_months = rounded((months - f64::from(of_months)) * DAYS_A_MONTH);
    let mut seconds =
        rounded((days - f64::from(of_days) + from_months - from_months.trunc()) * SECONDS_A_DAY);
    if seconds.abs() >= SECONDS_A_DAY {
        let more = (seconds / SECONDS_A_DAY).trunc();
        of_days = of_days.checked_add(whole(more)?)?;
        seconds -= more * SECONDS_A_DAY;
    }
    of_days = of_days.checked_add(whole(from_months.trunc())?)?;
    let micros = (by(of.nanoseconds as f64 / 1000.0) + seconds * 1e6).round_ties_even();
    let fits = micros.is_finite() && micros.abs() < i64::MAX as f64 / 1000.0;
    fits.then(|| IntervalMonthDayNano::new(of_months, of_days, micros as i64 * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_part_goes_to_the_next_one() {
        const HOUR: i64 = 3_600_000_000_000;
        let check = |(months, days, nanos), factor: f64, expected| {
            let product = scaled(IntervalMonthDayNano::new(months, days, nanos), |v| v * factor);
            let product = product.map(|i| (i.months, i.days, i.nanoseconds));
            assert_eq!(product, expected, "({months}, {days}, {nanos}) * {factor}");
        };
        // Answers of PostgreSQL 15.
        check((0, 0, HOUR), 3.0, Some((0, 0, 3 * HOUR)));
        check((1, 10, 0), 1.5, Some((1, 30, 0)));
        check((0, 1, 0), 0.5, Some((0, 0, 12 * HOUR)));
        check((1, 0, 0), 0.01, Some((0, 0, 25_920_000_000_000)));
        check((-1, -1, -HOUR), -2.0, Some((2, 2, 2 * HOUR)));
        check((i32::MAX, 0, 0), 2.0, None);
        check((0, 0, HOUR), f64::NAN, None);
    }
}
