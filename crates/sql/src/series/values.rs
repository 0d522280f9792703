//! The values of a generate_series, one after the other.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;

use crate::SqlError;
use crate::error::state;
use crate::semantics::{cast_or_null, sql_name, unfit};

const NANOS_A_DAY: i128 = 86_400_000_000_000;
const DAYS_A_MONTH: i128 = 30;
/// Digits of a NUMERIC.
const DIGITS: u8 = 38;

/// A type of values, and of the step between two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeriesType {
    pub(super) value: DataType,
    step: DataType,
}

impl SeriesType {
    /// The type of a series with arguments of these types. A text stands for a quoted literal, whose type is that of
    /// the others.
    ///
    /// # Errors
    /// Types that no generate_series takes (42883), or of which several would do (42725).
    pub(super) fn of(arguments: &[DataType]) -> Result<Self, SqlError> {
        let names = || arguments.iter().map(sql_name).collect::<Vec<_>>().join(", ");
        let none = || {
            let message = format!("function generate_series({}) does not exist", names());
            Err(SqlError::failed(state::UNDEFINED_FUNCTION, message))
        };
        if !(2..=3).contains(&arguments.len()) {
            return none();
        }
        let is_unknown = |t: &DataType| {
            matches!(t, DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        };
        let is_moment = |t: &DataType| matches!(t, DataType::Date32 | DataType::Timestamp(_, None));
        let known = |i: usize, of: &dyn Fn(&DataType) -> bool| is_unknown(&arguments[i]) || of(&arguments[i]);
        if arguments[..2].iter().any(is_moment) {
            let is_interval = |t: &DataType| matches!(t, DataType::Interval(_) | DataType::Duration(_));
            if arguments.len() == 3 && known(0, &is_moment) && known(1, &is_moment) && known(2, &is_interval)
            {
                return Ok(Self {
                    value: DataType::Timestamp(TimeUnit::Microsecond, None),
                    step: DataType::Interval(IntervalUnit::MonthDayNano),
                });
            }
            return none();
        }
        let mut numbers = arguments.iter().filter(|t| !is_unknown(t)).peekable();
        let is_unclear = numbers.peek().is_none() || arguments.iter().all(|t| *t == DataType::Int16);
        let mut value = DataType::Int32;
        for t in numbers {
            value = match (&value, t) {
                (DataType::Decimal128(_, scale), DataType::Decimal128(_, other)) => {
                    DataType::Decimal128(DIGITS, *scale.max(other))
                }
                (_, DataType::Decimal128(_, scale)) => DataType::Decimal128(DIGITS, (*scale).max(0)),
                (DataType::Decimal128(..), t) if t.is_integer() => value,
                (_, DataType::Int8 | DataType::Int16 | DataType::Int32) => value,
                (_, t) if t.is_integer() => DataType::Int64,
                _ => return none(),
            };
        }
        if is_unclear {
            let message = format!("function generate_series({}) is not unique", names());
            return Err(SqlError::failed(state::AMBIGUOUS_FUNCTION, message));
        }
        Ok(Self { step: value.clone(), value })
    }

    /// Argument number `i`, as it is of the type that the series needs.
    pub(super) fn argument(&self, i: usize, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
        let to = if i == 2 { &self.step } else { &self.value };
        if *array.data_type() == DataType::Null {
            return Ok(new_null_array(to, array.len()));
        }
        match cast_or_null(array, to)? {
            (cast, None) => Ok(cast),
            (_, Some(row)) => Err(unfit(array, row, to)),
        }
    }
}

/// A step from one value to the next.
#[derive(Clone, Debug)]
enum Step {
    Number(i128),
    Interval(IntervalMonthDayNano),
}

/// A series under way.
#[derive(Clone, Debug)]
pub(super) struct Series {
    ty: DataType,
    next: Option<i128>,
    end: i128,
    step: Step,
    forward: bool,
}

impl Series {
    /// The series with these arguments, which are of the types that `of` says. With a NULL it is empty.
    ///
    /// # Errors
    /// A step of zero (22023).
    pub(super) fn new(of: &SeriesType, arguments: &[ScalarValue]) -> Result<Self, SqlError> {
        let number = |v: &ScalarValue| match v {
            ScalarValue::Int32(v) => v.map(i128::from),
            ScalarValue::Int64(v) | ScalarValue::TimestampMicrosecond(v, _) => v.map(i128::from),
            ScalarValue::Decimal128(v, ..) => *v,
            _ => None,
        };
        let (step, sign) = match (arguments.get(2), &of.value) {
            (Some(ScalarValue::IntervalMonthDayNano(Some(i))), _) => {
                let days = i128::from(i.months) * DAYS_A_MONTH + i128::from(i.days);
                (Some(Step::Interval(*i)), (days * NANOS_A_DAY + i128::from(i.nanoseconds)).signum())
            }
            (Some(v), _) => (number(v).map(Step::Number), number(v).unwrap_or(1).signum()),
            (None, DataType::Decimal128(_, scale)) => {
                (Some(Step::Number(10i128.pow(u32::from(scale.unsigned_abs())))), 1)
            }
            (None, _) => (Some(Step::Number(1)), 1),
        };
        if sign == 0 {
            return Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
        }
        let (next, end) = (number(&arguments[0]), number(&arguments[1]));
        let mut series = Self {
            ty: of.value.clone(),
            next: if step.is_some() && end.is_some() { next } else { None },
            end: end.unwrap_or_default(),
            step: step.unwrap_or(Step::Number(1)),
            forward: sign > 0,
        };
        series.stop_behind_end();
        Ok(series)
    }

    fn stop_behind_end(&mut self) {
        let (end, forward) = (self.end, self.forward);
        self.next = self.next.filter(|&v| if forward { v <= end } else { v >= end });
    }

    /// Appends up to `rows_max` values.
    ///
    /// # Errors
    /// A timestamp that is out of range (22008).
    pub(super) fn fill(&mut self, rows_max: usize, values: &mut Vec<i128>) -> Result<(), SqlError> {
        for _ in 0..rows_max {
            let Some(v) = self.next else { break };
            values.push(v);
            self.next = match &self.step {
                Step::Number(step) => v.checked_add(*step),
                Step::Interval(step) => Some(i128::from(moved(v, *step)?)),
            };
            self.stop_behind_end();
        }
        Ok(())
    }

    /// The next values as an array; empty at the end.
    pub(super) fn next_array(&mut self, rows_max: usize) -> Result<ArrayRef, SqlError> {
        let mut values = Vec::new();
        self.fill(rows_max, &mut values)?;
        array(&self.ty, values)
    }
}

fn moved(micros: i128, step: IntervalMonthDayNano) -> Result<i64, SqlError> {
    let utc: Tz = "+00:00".parse().map_err(SqlError::from)?;
    i64::try_from(micros)
        .ok()
        .and_then(|v| TimestampMicrosecondType::add_month_day_nano(v, step, utc))
        .ok_or_else(|| SqlError::failed(state::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
}

/// Values of a series as an array of its type.
///
/// # Panics
/// If a value lies outside of the type: a series ends at an argument of the type.
pub(super) fn array(ty: &DataType, values: Vec<i128>) -> Result<ArrayRef, SqlError> {
    let long = |v: i128| i64::try_from(v).expect("a value lies between two of its type");
    let longs = |values: Vec<i128>| values.into_iter().map(long);
    Ok(match ty {
        DataType::Int32 => {
            let int = |v: i64| i32::try_from(v).expect("a value lies between two of its type");
            Arc::new(Int32Array::from_iter_values(longs(values).map(int)))
        }
        DataType::Int64 => Arc::new(Int64Array::from_iter_values(longs(values))),
        DataType::Decimal128(precision, scale) => {
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(*precision, *scale)?)
        }
        _ => Arc::new(TimestampMicrosecondArray::from_iter_values(longs(values))),
    })
}

/// A batch of one column, or of two: the values, and their numbers from `first` on.
pub(super) fn batch(
    schema: &datafusion::arrow::datatypes::SchemaRef,
    values: ArrayRef,
    first: i64,
) -> Result<RecordBatch, SqlError> {
    let numbers = first..first + values.len() as i64;
    let mut columns = vec![values];
    if schema.fields().len() > 1 {
        columns.push(Arc::new(Int64Array::from_iter_values(numbers)));
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(arguments: &[ScalarValue]) -> Vec<i128> {
        let types: Vec<DataType> = arguments.iter().map(ScalarValue::data_type).collect();
        let ty = SeriesType::of(&types).unwrap();
        let (mut series, mut values) = (Series::new(&ty, arguments).unwrap(), Vec::new());
        series.fill(1000, &mut values).unwrap();
        values
    }

    #[test]
    fn a_series_ends_at_its_end_and_does_not_wrap() {
        let int = |v| ScalarValue::Int32(Some(v));
        assert_eq!(all(&[int(1), int(3)]), [1, 2, 3]);
        assert_eq!(all(&[int(3), int(1)]), [] as [i128; 0]);
        assert_eq!(all(&[int(3), int(1), int(-2)]), [3, 1]);
        assert_eq!(all(&[int(i32::MAX - 1), int(i32::MAX)]), [2_147_483_646, 2_147_483_647]);
        let long = |v| ScalarValue::Int64(Some(v));
        assert_eq!(all(&[long(i64::MIN), long(i64::MIN + 1), long(-1)]), [] as [i128; 0]);
        assert_eq!(all(&[int(1), ScalarValue::Int32(None)]), [] as [i128; 0]);
    }

    #[test]
    fn months_are_added_one_after_the_other() {
        let at = |v: i64| ScalarValue::TimestampMicrosecond(Some(v * 86_400_000_000), None);
        // From 1970-01-31 on: the 31st of February is the 28th.
        let month = ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(1, 0, 0)));
        let days: Vec<i128> = all(&[at(30), at(90), month]).iter().map(|v| v / 86_400_000_000).collect();
        assert_eq!(days, [30, 58, 86]);
    }

    #[test]
    fn types_are_those_of_postgresql() {
        use DataType::{Date32, Decimal128, Float64, Int16, Int32, Int64, Utf8};
        let check = |types: &[DataType], expected: Result<DataType, &str>| {
            let got = SeriesType::of(types).map(|t| t.value);
            assert_eq!(
                got.as_ref().map_err(SqlError::sqlstate),
                expected.as_ref().map_err(|s| *s),
                "{types:?}"
            );
        };
        check(&[Int32, Int32], Ok(Int32));
        check(&[Int32, Int64, Utf8], Ok(Int64));
        check(&[Decimal128(3, 1), Int32], Ok(Decimal128(38, 1)));
        check(&[Int32, Int32, Decimal128(3, 2)], Ok(Decimal128(38, 2)));
        check(&[Date32, Utf8, Utf8], Ok(DataType::Timestamp(TimeUnit::Microsecond, None)));
        check(&[Int16, Int16], Err("42725"));
        check(&[Utf8, Utf8], Err("42725"));
        check(&[Float64, Int32], Err("42883"));
        check(&[Date32, Date32], Err("42883"));
        check(&[Int32], Err("42883"));
    }
}
