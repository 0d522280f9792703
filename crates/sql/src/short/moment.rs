//! The moment of a statement as a parameter: `now()`, CURRENT_TIMESTAMP and CURRENT_DATE.
//!
//! ```text
//!   VALUES ($1, now())  ─►  VALUES ($1, CAST($2 AS TIMESTAMP))      $2: when the transaction began
//! ```
//!
//! The optimizer would put the moment of the planning in their place.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, cast};
use lode_page::DataType;

use crate::SqlError;
use crate::arrow_convert::arrow_type;

/// The type of the parameter.
pub(super) const MOMENT: DataType = DataType::Timestamp;

/// `plan` with parameter number `i`, from 0, in the place of the functions that tell the moment, and whether there was one.
pub(super) fn with_moment(
    state: &SessionState,
    plan: LogicalPlan,
    i: usize,
) -> Result<(LogicalPlan, bool), SqlError> {
    // A time zone changes what they mean.
    if state.config().options().execution.time_zone.is_some() {
        return Ok((plan, false));
    }
    let plan = plan.transform_up(|node| {
        let names = NamePreserver::new(&node);
        let replaced = node.map_expressions(|e| {
            let name = names.save(&e);
            Ok(e.transform_up(|e| Ok(replaced(e, i)))?.update_data(|e| name.restore(e)))
        })?;
        replaced.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok((plan.data, plan.transformed))
}

fn replaced(e: Expr, i: usize) -> Transformed<Expr> {
    let t = match &e {
        Expr::ScalarFunction(f) => match f.func.name() {
            "now" => ArrowType::Timestamp(TimeUnit::Nanosecond, None),
            "current_date" => ArrowType::Date32,
            _ => return Transformed::no(e),
        },
        _ => return Transformed::no(e),
    };
    let field = Arc::new(Field::new("", arrow_type(MOMENT), false));
    let moment = Placeholder::new_with_field(format!("${}", i + 1), Some(field));
    Transformed::yes(cast(Expr::Placeholder(moment), t))
}

/// The values of the parameters, and then the moment.
pub(super) fn and_moment(values: &[ScalarValue], moment: DateTime<Utc>) -> Cow<'_, [ScalarValue]> {
    let moment = ScalarValue::TimestampMicrosecond(Some(moment.timestamp_micros()), None);
    values.iter().cloned().chain([moment]).collect()
}
