//! VACUUM and ANALYZE: work on tables that changes no row.
//!
//! - `VACUUM [t]` merges the deltas of all tables, or of one, into their pages.
//! - `VACUUM FULL [t]` writes them anew, in the order of `cluster_by` or of the primary key. DataFusion sorts the rows, within its
//!   memory, and the engine writes pages of them.
//! - `ANALYZE [t]` collects the statistics of all tables, or of one. Queries do that too, once for each version of a table.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlanBuilder, ident};
use datafusion::sql::sqlparser::ast::{Analyze, ObjectName, VacuumStatement};
use lode_engine::{EngineError, Snapshot, Table};

use crate::dml::{columns_of_batch, feed, find_table};
use crate::error::state as sqlstate;
use crate::provider::LodeTable;
use crate::session::start;
use crate::statement::{StatementResult, table_name};
use crate::threads::blocking;
use crate::transaction::TransactionStatus;
use crate::{Session, SqlError};

/// A rewrite begins this often if others change the table meanwhile, the last time alone.
const RUNS_MAX: u32 = 4;

/// `VACUUM [FULL] [t]`.
pub(crate) async fn vacuum(session: &Session, v: &VacuumStatement) -> Result<StatementResult, SqlError> {
    let refused = [
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
    if v.full {
        for t in tables {
            rewrite(session, t.name()).await?;
        }
        return Ok(StatementResult::done("VACUUM"));
    }
    let db = session.database().clone();
    blocking(move || {
        tables.iter().try_for_each(|t| db.merge(t.name()))?;
        Ok(StatementResult::done("VACUUM"))
    })
    .await
}

/// Writes a table anew. If others change it meanwhile, this begins again, the last time while they wait.
async fn rewrite(session: &Session, name: &str) -> Result<(), SqlError> {
    let mut runs = 1;
    loop {
        match rewrite_once(session, name, runs == RUNS_MAX).await {
            Err(SqlError::Engine(EngineError::Conflict { .. })) if runs < RUNS_MAX => runs += 1,
            done => return done,
        }
    }
}

async fn rewrite_once(session: &Session, name: &str, alone: bool) -> Result<(), SqlError> {
    let (db, of) = (session.database().clone(), name.to_owned());
    let durability = session.durability().of_engine();
    let begun = blocking(move || {
        let mut txn = if alone { db.begin_exclusive()? } else { db.begin_write()? };
        txn.set_durability(durability);
        // A table that was dropped since the statement began has nothing to rewrite.
        match txn.table(&of) {
            Some(_) => Ok(Some(txn.rewrite(&of)?)),
            None => Ok(None),
        }
    });
    let Some(mut rewrite) = begun.await? else { return Ok(()) };
    let table = rewrite.table().clone();
    let order = table.def().cluster_columns();
    if order.is_empty() {
        return blocking(move || {
            rewrite.push_all()?;
            rewrite.finish()?;
            Ok(())
        })
        .await;
    }
    let state = session.state_at(rewrite.snapshot().clone(), None);
    let all = LodeTable::of_engine(rewrite.snapshot().clone(), table.clone(), Arc::default());
    let by = order.iter().map(|c| ident(c.to_string()).sort(true, false));
    let rows = LogicalPlanBuilder::scan("t", provider_as_source(Arc::new(all)), None)?.sort(by)?.build()?;
    let (_, rows) = start(&state, &rows).await?;
    let columns = |batch: &RecordBatch| columns_of_batch(table.def(), batch);
    let rewrite = feed(rows, columns, rewrite, |rewrite, columns| Ok(rewrite.push(columns)?)).await?;
    blocking(move || {
        rewrite.finish()?;
        Ok(())
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
