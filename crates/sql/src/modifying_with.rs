//! INSERT, UPDATE and DELETE within WITH.
//!
//! ```text
//!   WITH gone AS (DELETE FROM t ... RETURNING id) SELECT ... FROM gone
//!     ─► the DELETE; its rows are a table `gone` of the statement ─► the SELECT, at the snapshot from before
//! ```
//!
//! All parts see the state from before the statement. So a part that changes rows may not look at a table that a part before it has
//! changed: it would have to see what is there no more. All is one transaction.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::physical_plan::common::collect;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Cte, FromTable, ObjectName, Query, SetExpr, Statement as Sql, TableAlias, TableFactor, TableObject,
    TableWithJoins, With, visit_relations,
};

use crate::names::fold;
use crate::session::{plan, start};
use crate::statement::{StatementResult, table_name};
use crate::transaction::TransactionStatus;
use crate::{Session, SqlError, dml};

/// The statement of a part that changes rows.
pub(crate) fn change_of(query: &Query) -> Option<&Sql> {
    match query.body.as_ref() {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) => Some(change),
        _ => None,
    }
}

/// Whether a query changes rows in its WITH.
pub(crate) fn modifies(query: &Query) -> bool {
    query.with.as_ref().is_some_and(|with| with.cte_tables.iter().any(|cte| change_of(&cte.query).is_some()))
}

/// Runs such a query.
pub(crate) async fn run(session: &Session, query: &Query) -> Result<StatementResult, SqlError> {
    if session.transaction_status() != TransactionStatus::Idle {
        return parts(session, query).await;
    }
    let apart = session.with_own_transaction();
    apart.begin(false).await?;
    match parts(&apart, query).await {
        Ok(done) => apart.commit().await.map(|_| done),
        Err(e) => {
            apart.roll_back();
            Err(e)
        }
    }
}

async fn parts(session: &Session, query: &Query) -> Result<StatementResult, SqlError> {
    let Some(with) = &query.with else { unreachable!("it has WITH") };
    let (changes, plain): (Vec<&Cte>, Vec<&Cte>) =
        with.cte_tables.iter().partition(|cte| change_of(&cte.query).is_some());
    let plain = (!plain.is_empty())
        .then(|| With { cte_tables: plain.into_iter().cloned().collect(), ..with.clone() });
    let before = session.snapshot().await?;
    let mut tables: Vec<(String, Arc<dyn TableProvider>)> = Vec::new();
    let mut changed = BTreeSet::new();
    for cte in changes {
        let change = change_of(&cte.query).expect("it was chosen so");
        let with_tables = session.with_tables(tables.clone());
        let result = changing(&with_tables, change, plain.clone(), &mut changed).await?;
        if let StatementResult::Rows { schema, stream } = result {
            let rows = collect(stream).await?;
            let (schema, rows) = renamed(&cte.alias, schema, rows)?;
            tables.push((fold(&cte.alias.name), Arc::new(MemTable::try_new(schema, vec![rows])?)));
        }
    }
    let session = session.with_tables(tables);
    if let Some(change) = change_of(query) {
        return changing(&session, change, plain, &mut changed).await;
    }
    let query = Query { with: plain, ..query.clone() };
    let state = session.state_at(before, None);
    let plan = plan(&state, Parsed::Statement(Box::new(Sql::Query(Box::new(query))))).await?;
    let (schema, rows) = start(&state, &plan).await?;
    let rows = collect(rows).await?;
    let stream = Box::pin(MemoryStream::try_new(rows, schema.clone(), None)?);
    Ok(StatementResult::Rows { schema, stream })
}

/// Runs a part that changes rows.
async fn changing(
    session: &Session,
    change: &Sql,
    with: Option<With>,
    changed: &mut BTreeSet<String>,
) -> Result<StatementResult, SqlError> {
    let mut named = BTreeSet::new();
    let _ = visit_relations(change, |name| {
        named.extend(table_name(name).ok());
        ControlFlow::<()>::Continue(())
    });
    if let Some(name) = named.intersection(changed).next() {
        let name = crate::names::shown(name);
        let what = format!("two parts of a statement with WITH that change rows and name the table {name}");
        return Err(SqlError::Unsupported(what));
    }
    changed.extend(target(change).and_then(|name| table_name(name).ok()));
    dml::change(session, change, with).await
}

/// The name of the table that a part changes.
fn target(change: &Sql) -> Option<&ObjectName> {
    match change {
        Sql::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => Some(name),
            _ => None,
        },
        Sql::Update(update) => named(&update.table),
        Sql::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                from.first().and_then(named)
            }
        },
        _ => None,
    }
}

fn named(table: &TableWithJoins) -> Option<&ObjectName> {
    match &table.relation {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

/// Rows with the names of columns that an alias gives.
fn renamed(
    alias: &TableAlias,
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
) -> Result<(SchemaRef, Vec<RecordBatch>), SqlError> {
    if alias.columns.is_empty() {
        return Ok((schema, rows));
    }
    let fields = schema.fields().iter().enumerate().map(|(i, field)| match alias.columns.get(i) {
        Some(column) => Arc::new(field.as_ref().clone().with_name(fold(&column.name))),
        None => field.clone(),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let rows = rows.into_iter().map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    Ok((schema, rows))
}
