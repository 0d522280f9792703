//! VACUUM and ANALYZE: work on tables that changes no row.
//!
//! - `VACUUM [t]` merges the deltas of all tables, or of one, into their pages.
//! - `ANALYZE [t]` collects the statistics of all tables, or of one. Queries do that too, once for each version of a table.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Analyze, ObjectName, VacuumStatement};
use lode_engine::{Snapshot, Table};

use crate::dml::find_table;
use crate::error::state as sqlstate;
use crate::statement::{StatementResult, table_name};
use crate::threads::blocking;
use crate::transaction::TransactionStatus;
use crate::{Session, SqlError};

/// `VACUUM [t]`.
pub(crate) async fn vacuum(session: &Session, v: &VacuumStatement) -> Result<StatementResult, SqlError> {
    let refused = [
        (v.full, "FULL"),
        (v.sort_only, "SORT ONLY"),
        (v.delete_only, "DELETE ONLY"),
        (v.reindex, "REINDEX"),
        (v.recluster, "RECLUSTER"),
        (v.threshold.is_some(), "TO ... PERCENT"),
        (v.boost, "BOOST"),
    ];
    if let Some((_, option)) = refused.iter().find(|(given, _)| *given) {
        return Err(SqlError::Unsupported(format!("VACUUM {option}")));
    }
    if session.transactions().status() != TransactionStatus::Idle {
        let message = "VACUUM cannot run inside a transaction block".to_owned();
        return Err(SqlError::failed(sqlstate::ACTIVE_SQL_TRANSACTION, message));
    }
    let tables = tables(&session.snapshot().await?, v.table_name.as_ref())?;
    let db = session.database().clone();
    blocking(move || {
        tables.iter().try_for_each(|t| db.merge(t.name()))?;
        Ok(StatementResult::done("VACUUM"))
    })
    .await
}

/// `ANALYZE [t]`.
pub(crate) async fn analyze(session: &Session, a: &Analyze) -> Result<StatementResult, SqlError> {
    if a.partitions.is_some() || a.for_columns || a.cache_metadata || a.noscan || a.compute_statistics {
        return Err(SqlError::Unsupported("ANALYZE with options".into()));
    }
    let snapshot = session.snapshot().await?;
    let tables = tables(&snapshot, a.table_name.as_ref())?;
    for t in &tables {
        if let Some(c) = a.columns.iter().find(|c| t.column(&crate::statement::fold(c)).is_none()) {
            let (table, column) = (t.name().to_owned(), c.value.clone());
            return Err(SqlError::NoColumn { table, column });
        }
    }
    blocking(move || {
        tables.iter().try_for_each(|t| snapshot.statistics(t).map(drop))?;
        Ok(StatementResult::done("ANALYZE"))
    })
    .await
}

/// The table of this name, or all tables.
fn tables(snapshot: &Snapshot, name: Option<&ObjectName>) -> Result<Vec<Arc<Table>>, SqlError> {
    match name {
        Some(name) => Ok(vec![find_table(snapshot, &table_name(name)?)?]),
        None => Ok(snapshot.tables().cloned().collect()),
    }
}
