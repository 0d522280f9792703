//! Intervals compare by their length: a month is 30 days, a day is 24 hours.
//!
//! ```text
//!   INTERVAL '1 day' = INTERVAL '24 hours'   ─►  interval_span(...) = interval_span(...): true
//!   ORDER BY i                               ─►  ORDER BY interval_span(i)
//! ```
//!
//! DataFusion compares months, then days, then the rest. GROUP BY, DISTINCT, least and greatest of intervals are
//! refused.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Decimal128Array};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::compare::is_comparison;
use crate::SqlError;

const NANOS_A_DAY: i128 = 86_400_000_000_000;
const DAYS_A_MONTH: i128 = 30;

fn is_interval(e: &Expr, schema: &DFSchema) -> bool {
    matches!(e.get_type(schema), Ok(DataType::Interval(_)))
}

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && is_interval(&left, schema) && is_interval(&right, schema) =>
        {
            let (left, right) = (Box::new(span(*left)), Box::new(span(*right)));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::AggregateFunction(f)
            if (matches!(f.func.name(), "min" | "max") || f.params.distinct)
                && f.params.args.first().is_some_and(|e| is_interval(e, schema)) =>
        {
            Err(refused("the least, greatest or distinct ones"))
        }
        Expr::ScalarFunction(f)
            if matches!(f.func.name(), "greatest" | "least")
                && f.args.iter().any(|e| is_interval(e, schema)) =>
        {
            Err(refused("the least or greatest"))
        }
        Expr::InList(mut l) if is_interval(&l.expr, schema) => {
            l.expr = Box::new(span(*l.expr));
            l.list = l.list.into_iter().map(span).collect();
            Ok(Transformed::yes(Expr::InList(l)))
        }
        Expr::Between(mut b) if is_interval(&b.expr, schema) => {
            b.expr = Box::new(span(*b.expr));
            b.low = Box::new(span(*b.low));
            b.high = Box::new(span(*b.high));
            Ok(Transformed::yes(Expr::Between(b)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn refused(what: &str) -> datafusion::error::DataFusionError {
    SqlError::Unsupported(format!("{what} of intervals")).into()
}

fn span(of: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Span { signature }).call(vec![of])
}

/// Makes sorts order intervals by their length, and refuses groups of intervals.
#[derive(Debug)]
pub(super) struct OrderOfIntervals;

impl AnalyzerRule for OrderOfIntervals {
    fn name(&self) -> &str {
        "order_of_intervals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let ordered = |plan: LogicalPlan| match plan {
            LogicalPlan::Sort(mut sort) => {
                let mut changed = false;
                for by in &mut sort.expr {
                    if is_interval(&by.expr, sort.input.schema()) {
                        by.expr = span(by.expr.clone());
                        changed = true;
                    }
                }
                Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
            }
            LogicalPlan::Aggregate(a) if a.group_expr.iter().any(|e| is_interval(e, a.input.schema())) => {
                Err(refused("groups"))
            }
            LogicalPlan::Distinct(Distinct::All(input))
                if input.schema().fields().iter().any(|f| matches!(f.data_type(), DataType::Interval(_))) =>
            {
                Err(refused("DISTINCT"))
            }
            other => Ok(Transformed::no(other)),
        };
        Ok(plan.transform_up_with_subqueries(ordered)?.data)
    }
}

/// The length of an interval, in nanoseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Span {
    signature: Signature,
}

const SPAN_TYPE: DataType = DataType::Decimal128(38, 0);

impl ScalarUDFImpl for Span {
    fn name(&self) -> &str {
        "interval_span"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(SPAN_TYPE)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let intervals = arrow_cast(&array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let spans: Decimal128Array = intervals.unary::<_, Decimal128Type>(|i| {
            let days = i128::from(i.months) * DAYS_A_MONTH + i128::from(i.days);
            days * NANOS_A_DAY + i128::from(i.nanoseconds)
        });
        debug_assert_eq!(spans.len(), array.len());
        Ok(ColumnarValue::Array(Arc::new(spans.with_data_type(SPAN_TYPE))))
    }
}
