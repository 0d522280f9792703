//! The plan of a view, as a part of the statement that reads it.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::Column as ColumnName;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as Parsed;
use futures::future::BoxFuture;
use lode_engine::{Snapshot, ViewDef, ViewRead};

use crate::error::state;
use crate::statement::{Statement, prepare};
use crate::{Session, SqlError};

/// The table of a view's rows at `snapshot`. It is boxed, since a view may read views.
pub(crate) fn open_view(
    session: Session,
    snapshot: Snapshot,
    def: ViewDef,
) -> BoxFuture<'static, Result<Arc<dyn TableProvider>, SqlError>> {
    Box::pin(async move {
        let plan = planned(&session, snapshot, &def.query, &def.reads).await?;
        let fields: Vec<Expr> =
            plan.schema().iter().map(|(q, f)| Expr::Column(ColumnName::from((q, f)))).collect();
        if fields.len() != def.columns.len() {
            let message = "the relations of a view have not the columns that it needs";
            return Err(SqlError::failed(state::UNDEFINED_COLUMN, message));
        }
        let named = fields.into_iter().zip(&def.columns).map(|(field, (name, _))| field.alias(name));
        let plan = LogicalPlanBuilder::from(plan).project(named.collect::<Vec<_>>())?.build()?;
        Ok(Arc::new(ViewTable::new(plan, Some(def.query))) as _)
    })
}

/// The plan of a view's query over these relations and columns.
///
/// # Errors
/// Those of planning it.
pub(super) async fn planned(
    session: &Session,
    snapshot: Snapshot,
    query: &str,
    reads: &[ViewRead],
) -> Result<LogicalPlan, SqlError> {
    let parsed = Statement::parse(query)?.pop().map(|s| (*s.parsed).clone());
    let Some(mut parsed @ Parsed::Statement(_)) = parsed else {
        return Err(SqlError::failed(state::INTERNAL_ERROR, "the query of a view is no query"));
    };
    prepare(&mut parsed)?;
    let state = session.state_of_view(snapshot, reads.to_vec());
    Ok(state.statement_to_plan(parsed).await?)
}
