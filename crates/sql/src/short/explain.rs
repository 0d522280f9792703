//! EXPLAIN of a short statement: a row that says so, after the plan of the general path.
//!
//! ```text
//!   logical_plan     (DataFusion's)
//!   physical_plan    (DataFusion's)
//!   short_statement  point lookup: table=t, key=[id]
//!   short_statement  range lookup: table=t, key=[a, b], equal=1, bounded=1, first 10 rows
//! ```

use std::sync::Arc;

use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as Parsed;
use futures::{StreamExt, stream};

use lode_engine::{Few, Table};

use super::access::{Access, RangeAccess};
use super::plan::{Action, ShortPlan};
use super::plan_of;
use crate::explain_rows::explain_rows;
use crate::statement::{ShortShape as Shape, StatementResult};
use crate::{Session, SqlError};

/// The rows of EXPLAIN of `statement`, followed by one row if it is a short statement at this moment.
///
/// # Errors
/// None of its own.
pub(crate) async fn explained(
    session: &Session,
    statement: &Parsed,
    result: StatementResult,
) -> Result<StatementResult, SqlError> {
    if !session.short_settings().on {
        return Ok(result);
    }
    let Some(shape) = Shape::of(statement, None).map(Arc::new) else { return Ok(result) };
    let Some((plan, _)) = plan_of(session, &shape).await else { return Ok(result) };
    let StatementResult::Rows { schema, stream } = result else { return Ok(result) };
    let row = explain_rows(&schema, &[("short_statement", describe(session, &shape, &plan)?)])?;
    let last = stream::iter([Ok(row)]);
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), stream.chain(last)));
    Ok(StatementResult::Rows { schema, stream })
}

fn describe(session: &Session, shape: &Shape, plan: &ShortPlan) -> Result<String, SqlError> {
    let snapshot = session.snapshot_now()?;
    let Some(table) = plan.table(&snapshot) else { return Ok(String::new()) };
    Ok(match &plan.access {
        Access::None => {
            let columns = match plan.action {
                Action::Insert { columns, .. } => columns,
                _ => 1,
            };
            let on_conflict = match plan.action {
                Action::Insert { upsert: Some(_), .. } => ", on conflict",
                _ => "",
            };
            let rows = plan.computed.outputs.len() / columns;
            format!("insert: table={}, rows={rows}{on_conflict}", shape.tables[0])
        }
        Access::Key { columns, .. } => {
            format!("point lookup: table={}, key=[{}]", table.name(), names(&table, columns))
        }
        Access::Range(range) => {
            let few = match range.few {
                Few::All(most) => format!("at most {most} rows"),
                Few::First(n) => format!("first {n} rows"),
                Few::Last(n) => format!("last {n} rows"),
            };
            let mut text = format!("range lookup: {}, {few}", describe_range(&table, range));
            for joined in &plan.joined {
                text += &format!("; then {}", describe_range(&joined.table.lock(), &joined.range));
            }
            text
        }
    })
}

fn names(table: &Table, columns: &[u16]) -> String {
    let name = |&c: &u16| table.def().columns[usize::from(c)].name.as_str();
    columns.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn describe_range(table: &Table, range: &RangeAccess) -> String {
    let columns = names(table, &range.order.columns);
    let by = match &range.order.index {
        Some(index) => format!("index={index} [{columns}]"),
        None => format!("key=[{columns}]"),
    };
    let bounded = u8::from(range.low.is_some() || range.high.is_some());
    format!("table={}, {by}, equal={}, bounded={bounded}", table.name(), range.equal.len())
}
