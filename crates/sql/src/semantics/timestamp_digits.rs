//! TIMESTAMP(n): a moment with n digits of seconds behind the point.
//!
//! ```text
//!   '2024-03-06 01:02:03.45678'::timestamp(3)   ─►  2024-03-06 01:02:03.457
//! ```
//!
//! Source: PostgreSQL 15, `AdjustTimestampForTypmod` in timestamp.c: halves are rounded away from the year 2000.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::kernel::through_array;

/// The function that a cast to TIMESTAMP(n) becomes.
pub(crate) const FUNCTION: &str = "__lode_timestamp_digits";
/// The digits that a moment has.
pub(crate) const DIGITS_MAX: u32 = 6;
/// 2000-01-01, in microseconds since 1970.
const YEAR_2000: i64 = 946_684_800_000_000;

/// Moments, rounded to so many digits of seconds.
pub(crate) fn rounded(moments: &ArrayRef, digits: u32) -> Result<ArrayRef> {
    let moments = cast(moments, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let unit = 10i64.pow(DIGITS_MAX - digits.min(DIGITS_MAX));
    let round = |moment: i64| {
        let since = i128::from(moment) - i128::from(YEAR_2000);
        let (unit, half) = (i128::from(unit), i128::from(unit / 2));
        let units = (since.abs() + half) / unit * unit;
        (units * since.signum() + i128::from(YEAR_2000)) as i64
    };
    Ok(Arc::new(
        moments.as_primitive::<TimestampMicrosecondType>().unary::<_, TimestampMicrosecondType>(round),
    ))
}

/// The function of a moment and a number of digits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimestampDigits {
    signature: Signature,
}

impl Default for TimestampDigits {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimestampDigits {
    fn name(&self) -> &str {
        FUNCTION
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let digits = cast(&args.args[1].to_array(1)?, &DataType::Int64)?;
        let digits = digits.as_primitive::<Int64Type>().value(0) as u32;
        through_array(&args.args[0], args.number_rows, |moments| rounded(moments, digits))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::TimestampMicrosecondArray;

    use super::*;

    #[test]
    fn halves_are_rounded_away_from_the_year_2000() {
        let check = |since_2000: i64, digits: u32, expected: i64| {
            let moments: ArrayRef =
                Arc::new(TimestampMicrosecondArray::from(vec![Some(YEAR_2000 + since_2000), None]));
            let rounded = rounded(&moments, digits).unwrap();
            let rounded = rounded.as_primitive::<TimestampMicrosecondType>();
            assert_eq!(rounded.value(0) - YEAR_2000, expected, "{since_2000} with {digits} digits");
            assert_eq!(rounded.iter().nth(1), Some(None));
        };
        check(1_500_000, 0, 2_000_000);
        check(1_499_999, 0, 1_000_000);
        check(-1_500_000, 0, -2_000_000);
        check(456_789, 3, 457_000);
        check(456_789, 6, 456_789);
        check(449_999, 1, 400_000);
    }
}
