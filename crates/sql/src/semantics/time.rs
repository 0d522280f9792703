//! Dates and times: the type of DATE with INTERVAL, and seconds with their fraction.
//!
//! ```text
//!   DATE '1999-12-31' + INTERVAL '36 hours'    ─►  a TIMESTAMP, 2000-01-01 12:00:00
//!   DATE '1995-01-01' + INTERVAL '1 year'      ─►  stays a DATE: it has no time of day to lose
//!   extract(second FROM ts)                    ─►  5.123456
//! ```
//!
//! DataFusion loses the time of day, and the fraction of a second.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast, lit};

use crate::SqlError;

/// The fields of a time of day.
const OF_DAY: [&str; 10] = [
    "hour",
    "hours",
    "minute",
    "minutes",
    "second",
    "seconds",
    "millisecond",
    "milliseconds",
    "microsecond",
    "microseconds",
];

/// Fields that PostgreSQL has and DataFusion lacks.
const REFUSED: [&str; 4] = ["julian", "timezone", "timezone_hour", "timezone_minute"];

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let is_date = |e: &Expr| matches!(e.get_type(schema), Ok(DataType::Date32));
            let (l, r) = (is_date(&left), is_date(&right));
            let changed = l && has_time_of_day(&right, schema) || r && has_time_of_day(&left, schema);
            let moment = |e: Box<Expr>, is_date: bool| match changed && is_date {
                true => Box::new(cast(*e, DataType::Timestamp(TimeUnit::Microsecond, None))),
                false => e,
            };
            let e = Expr::BinaryExpr(BinaryExpr::new(moment(left, l), op, moment(right, r)));
            Ok(Transformed::new_transformed(e, changed))
        }
        Expr::ScalarFunction(f) if matches!(f.func.name(), "date_part") && f.args.len() == 2 => {
            let Some(Some(part)) = text_of(&f.args[0]) else {
                return Ok(Transformed::no(Expr::ScalarFunction(f)));
            };
            let part = part.to_ascii_lowercase();
            match f.args[1].get_type(schema) {
                Ok(DataType::Date32) if OF_DAY.contains(&part.as_str()) => {
                    Err(SqlError::Unsupported(format!("unit {part:?} of type date")).into())
                }
                Ok(DataType::Interval(_)) if is_refused_of_intervals(&part) => {
                    Err(SqlError::Unsupported(format!("extract({part} FROM interval)")).into())
                }
                Ok(_) if REFUSED.contains(&part.as_str()) => {
                    Err(SqlError::Unsupported(format!("extract({part} FROM ...)")).into())
                }
                Ok(DataType::Timestamp(..)) if matches!(part.as_str(), "second" | "seconds") => {
                    Ok(Transformed::yes(fraction(f, 6)))
                }
                Ok(DataType::Timestamp(..)) if matches!(part.as_str(), "millisecond" | "milliseconds") => {
                    Ok(Transformed::yes(fraction(f, 3)))
                }
                _ => Ok(Transformed::no(Expr::ScalarFunction(f))),
            }
        }
        Expr::ScalarFunction(f) if matches!(f.func.name(), "generate_series" | "range") => {
            Err(SqlError::Unsupported(format!("{} outside FROM", f.func.name())).into())
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Fields of an interval that DataFusion lacks, or computes differently from PostgreSQL.
fn is_refused_of_intervals(part: &str) -> bool {
    let of_a_date = matches!(part, "dow" | "doy" | "isodow" | "isoyear" | "julian");
    of_a_date || part == "epoch" || part.starts_with("milli") || part.starts_with("second")
}

fn text_of(e: &Expr) -> Option<Option<&str>> {
    match e {
        Expr::Literal(value, _) => value.try_as_str(),
        _ => None,
    }
}

/// Microseconds of the minute, divided by 10 to the power of `digits`.
fn fraction(mut f: datafusion::logical_expr::expr::ScalarFunction, digits: u8) -> Expr {
    f.args[0] = lit("microsecond");
    let micros = cast(Expr::ScalarFunction(f), DataType::Decimal128(10, 0));
    let unit = lit(ScalarValue::Decimal128(Some(1), digits + 1, digits as i8));
    Expr::BinaryExpr(BinaryExpr::new(Box::new(micros), Operator::Multiply, Box::new(unit)))
}

/// Whether an expression is an interval that may have a time of day.
fn has_time_of_day(e: &Expr, schema: &DFSchema) -> bool {
    match e {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(i)), _) => i.nanoseconds != 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => false,
        other => matches!(other.get_type(schema), Ok(DataType::Interval(_))),
    }
}
