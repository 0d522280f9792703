//! EXPLAIN of a short statement: a row that says so, after the plan of the general path.
//!
//! ```text
//!   logical_plan     (DataFusion's)
//!   physical_plan    (DataFusion's)
//!   short_statement  point lookup: table=t, key=[id]
//!   short_statement  range lookup: table=t, key=[a, b], equal=1, bounded=1, first 10 rows
//! ```

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as Parsed;
use futures::{StreamExt, stream};

use lode_engine::Few;

use super::access::Access;
use super::plan::{Action, ShortPlan};
use super::{is_on, plan_of};
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
    if !is_on(session) {
        return Ok(result);
    }
    let Some(shape) = Shape::of(statement).map(Arc::new) else { return Ok(result) };
    let Some((plan, _)) = plan_of(session, &shape).await else { return Ok(result) };
    let StatementResult::Rows { schema, stream } = result else { return Ok(result) };
    let row = [vec!["short_statement".to_owned()], vec![describe(session, &shape, &plan)?]];
    let columns = row.map(|column| Arc::new(StringArray::from(column)) as _);
    let last = stream::iter([Ok(RecordBatch::try_new(schema.clone(), columns.into())?)]);
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), stream.chain(last)));
    Ok(StatementResult::Rows { schema, stream })
}

fn describe(session: &Session, shape: &Shape, plan: &ShortPlan) -> Result<String, SqlError> {
    if let Action::Insert { columns, .. } = plan.action {
        return Ok(format!("insert: table={}, rows={}", shape.table, plan.outputs.len() / columns));
    }
    let table = session.snapshot_now()?.table(&shape.table);
    let names = |columns: &[u16]| {
        let name = |&c: &u16| table.as_ref().map_or("", |t| t.def().columns[usize::from(c)].name.as_str());
        columns.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    Ok(match &plan.access {
        Access::None => format!("table={}", shape.table),
        Access::Key { columns, .. } => {
            format!("point lookup: table={}, key=[{}]", shape.table, names(columns))
        }
        Access::Range(range) => {
            let by = match &range.order.index {
                Some(index) => format!("index={index} [{}]", names(&range.order.columns)),
                None => format!("key=[{}]", names(&range.order.columns)),
            };
            let bounded = u8::from(range.low.is_some() || range.high.is_some());
            let few = match range.few {
                Few::All(most) => format!("at most {most} rows"),
                Few::First(n) => format!("first {n} rows"),
                Few::Last(n) => format!("last {n} rows"),
            };
            let equal = range.equal.len();
            format!("range lookup: table={}, {by}, equal={equal}, bounded={bounded}, {few}", shape.table)
        }
    })
}
