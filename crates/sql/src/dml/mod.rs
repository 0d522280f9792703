//! INSERT, UPDATE, DELETE, TRUNCATE and bulk loads, in the open transaction or in one of their own.
//!
//! ```text
//!   work ─► plan at what it sees ─► some rows of the query ─► insert | update | delete ─► finish: commit, or go on
//!                                        ▲──── until its end ────┘
//! ```
//!
//! Invariants: a query reads the snapshot from before the first change, so no statement sees its own changes (except in
//! `cascade.rs`, which continues from deleted rows); a row is changed once; if anything fails before the commit, the transaction is
//! dropped without effect, and an open transaction counts as failed.

mod cascade;
mod cascade_update;
mod checks;
mod conflict;
mod fill;
mod insert;
mod load;
mod parts;
mod returning;
mod rewrite;
mod set;
mod shared;
mod unread;
mod values;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{sort_to_indices, take_record_batch};
use datafusion::sql::sqlparser::ast::{
    Assignment, CascadeOption, Delete, Query, SelectItem, Statement as Sql, Truncate, TruncateIdentityOption,
    Update, With,
};
use lode_engine::{RowAddress, Snapshot, Table};

pub(crate) use cascade::is_referenced;
pub(crate) use cascade_update::referenced_on_update;
pub(crate) use checks::{Checks, type_of};
pub(crate) use conflict::Conflict;
pub(crate) use fill::{assigned, check_default, filled, filling};
pub(crate) use insert::{insert, inserted_table, planned_insert, with_source};
pub(crate) use load::{Unfit, cast_to, column_of, columns_of, columns_of_batch, feed, load, to_array};
use parts::{ChangedRows, Parts};
use returning::Returning;
pub(crate) use returning::ReturningQuery;
pub(crate) use rewrite::{delete as rewrite_delete, empty_select, update as rewrite_update};
pub(crate) use set::{set, set_completed};
pub(crate) use shared::{Change, cast_assigned, column_numbers, find_table};
use shared::{plan_query, row_identities, run_to_end};
use unread::delete_unread;
pub(crate) use values::ValuesQuery;

use crate::error::state as sqlstate;
use crate::statement::StatementResult;
use crate::threads::blocking;
use crate::transaction::StatementTxn;
use crate::{Session, SqlError, sequences};

/// Runs an INSERT, UPDATE or DELETE, with its WITH.
pub(crate) async fn change(
    session: &Session,
    change: &Sql,
    with: Option<With>,
) -> Result<StatementResult, SqlError> {
    match change {
        Sql::Insert(statement) => match with {
            Some(with) => insert(session, &insert::with_source(statement, with)?).await,
            None => insert(session, statement).await,
        },
        Sql::Update(statement) => update(session, statement, with).await,
        Sql::Delete(statement) => delete(session, statement, with).await,
        other => Err(SqlError::Unsupported(format!("{other} within WITH"))),
    }
}

/// `DELETE FROM t [USING ...] [WHERE ...] [ORDER BY ... LIMIT n]`.
async fn delete(
    session: &Session,
    statement: &Delete,
    with: Option<With>,
) -> Result<StatementResult, SqlError> {
    let mut found = rewrite::delete(statement)?;
    found.query.with = with;
    delete_found(session, found, "DELETE", &statement.returning).await
}

/// `TRUNCATE [TABLE] t, ... [RESTART IDENTITY] [CASCADE]`: deletes every row.
pub(crate) async fn truncate(session: &Session, statement: &Truncate) -> Result<StatementResult, SqlError> {
    let mut names = rewrite::truncated(statement)?;
    let (mut work, snapshot) = session.work().await?.snapshot().await?;
    for name in &names {
        find_table(&snapshot, name)?;
    }
    let cascades = matches!(statement.cascade, Some(CascadeOption::Cascade));
    let mut at = 0;
    while at < names.len() {
        for by in cascade::referencing(&snapshot, &names[at]) {
            if names.contains(&by) {
                continue;
            }
            if !cascades {
                let message = format!(
                    "cannot truncate a table referenced in a foreign key constraint: table \"{by}\" references \"{}\"",
                    names[at]
                );
                return Err(SqlError::failed(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            names.push(by);
        }
        at += 1;
    }
    for name in &names {
        let table = find_table(&snapshot, name)?;
        let state = session.state_at(snapshot.clone(), Some(table));
        let plan = plan_query(&state, rewrite::all_of(name)?.query).await?;
        let mut parts;
        (work, _, parts) = delete_unread(work, &state, &plan).await?;
        let mut changed = ChangedRows::default();
        while let Some(batch) = parts.next().await? {
            (work, _) = delete_rows(work, name, batch, &mut changed).await?;
        }
    }
    let restarts = matches!(statement.identity, Some(TruncateIdentityOption::Restart));
    blocking(move || {
        if restarts {
            for name in &names {
                let id = work.txn.table(name).expect("it was just truncated").id().raw();
                sequences::restart_owned(&mut work.txn, id);
            }
        }
        work.finish()?;
        Ok(StatementResult::done("TRUNCATE TABLE"))
    })
    .await
}

async fn delete_found(
    session: &Session,
    mut found: rewrite::RowQuery,
    verb: &'static str,
    returning: &Option<Vec<SelectItem>>,
) -> Result<StatementResult, SqlError> {
    let Change { mut work, snapshot, table } = Change::of_rows(session, &found.table).await?;
    let mut returning = Returning::of(returning, &table, Some(&found.alias()));
    let referenced = match &returning {
        // RETURNING sees all columns.
        Some(_) => table.def().live_columns().collect(),
        None => cascade::referenced(&snapshot, &table),
    };
    found.also_select(referenced.iter().map(|&c| table.def().columns[usize::from(c)].name.as_str()));
    let beside = returning.is_some() && found.also_select_others()?;
    let acts = cascade::is_referenced(&snapshot, &table);
    let state = session.state_at(snapshot.clone(), Some(table));
    let plan = plan_query(&state, found.query).await?;
    if let Some(returning) = returning.as_mut().filter(|_| beside) {
        returning.sees_beside(&plan, 1 + referenced.len());
    }
    if acts {
        let batch = run_to_end(&state, &plan).await?;
        let mut changed = ChangedRows::default();
        let batch = changed.only_new(&batch)?;
        if let Some(returning) = &mut returning {
            returning.add_found(&batch)?;
        }
        let gone = cascade::DeletedRows::of(&found.table, referenced, &batch);
        let (mut work, rows) = delete_rows(work, &found.table, batch, &mut ChangedRows::default()).await?;
        if rows > 0 {
            work = cascade::follow(session, work, gone).await?;
        }
        return end(session, &snapshot, work, returning, StatementResult::Count { verb, rows }).await;
    }
    let (mut parts, mut rows);
    match returning {
        Some(_) => (parts, rows) = (Parts::start(&state, &plan).await?, 0),
        None => (work, rows, parts) = delete_unread(work, &state, &plan).await?,
    }
    let mut changed = ChangedRows::default();
    while let Some(mut batch) = parts.next().await? {
        if let Some(returning) = &mut returning {
            batch = changed.only_new(&batch)?;
            returning.add_found(&batch)?;
            let (with_rows, deleted) =
                delete_rows(work, &found.table, batch, &mut ChangedRows::default()).await?;
            (work, rows) = (with_rows, rows + deleted);
            continue;
        }
        let (with_rows, deleted) = delete_rows(work, &found.table, batch, &mut changed).await?;
        (work, rows) = (with_rows, rows + deleted);
    }
    drop(parts);
    end(session, &snapshot, work, returning, StatementResult::Count { verb, rows }).await
}

/// Ends a statement. Its result is that of RETURNING, or else `count`.
async fn end(
    session: &Session,
    snapshot: &Snapshot,
    work: StatementTxn,
    returning: Option<Returning>,
    count: StatementResult,
) -> Result<StatementResult, SqlError> {
    let result = match returning {
        Some(returning) => returning.result(session, snapshot).await?,
        None => count,
    };
    blocking(move || work.finish()).await?;
    Ok(result)
}

/// Deletes the rows of a batch; answers how many there were.
async fn delete_rows(
    mut work: StatementTxn,
    table: &str,
    batch: RecordBatch,
    changed: &mut ChangedRows,
) -> Result<(StatementTxn, u64), SqlError> {
    let mut rows = row_identities(&batch).values().to_vec();
    drop(batch);
    rows.sort_unstable();
    // USING may find a row more than once.
    rows.retain(|&row| changed.insert(row));
    let table = table.to_owned();
    blocking(move || {
        let rows: Vec<RowAddress> = rows.into_iter().map(RowAddress::from_raw).collect();
        let count = work.txn.delete(&table, &rows)?;
        Ok((work, count))
    })
    .await
}

/// `UPDATE t SET c = e, ... [FROM ...] [WHERE ...]`. A FROM that matches a row of `t` more than once is refused,
/// since it is undefined which new value would win.
async fn update(
    session: &Session,
    statement: &Update,
    with: Option<With>,
) -> Result<StatementResult, SqlError> {
    let change = Change::of_rows(session, &rewrite::updated_table(statement)?).await?;
    let snapshot = change.snapshot.clone();
    let (work, returning, rows) = update_in(session, change, statement, with).await?;
    end(session, &snapshot, work, returning, StatementResult::Count { verb: "UPDATE", rows }).await
}

/// Sets a column of all rows of a table.
pub(crate) async fn update_all(
    session: &Session,
    work: StatementTxn,
    table: &str,
    set: Assignment,
) -> Result<StatementTxn, SqlError> {
    let (work, snapshot) = work.snapshot().await?;
    let table = find_table(&snapshot, table)?;
    let statement = rewrite::update_of_all(table.name(), set)?;
    Ok(update_in(session, Change { work, snapshot, table }, &statement, None).await?.0)
}

/// An UPDATE within `change`. Answers the rows for RETURNING, and how many rows were changed.
async fn update_in(
    session: &Session,
    change: Change,
    statement: &Update,
    with: Option<With>,
) -> Result<(StatementTxn, Option<Returning>, u64), SqlError> {
    let Change { mut work, snapshot, table } = change;
    let mut found = rewrite::update(&*fill::assigned(statement, &table)?)?;
    found.query.with = with;
    let columns = column_numbers(&table, &found.assigned)?;
    let referenced = referenced_on_update(&snapshot, &table, &columns);
    let state = session.state_at(snapshot.clone(), Some(table.clone()));
    let checks = Checks::of(&state, table.def())?;
    let mut returning = Returning::of(&statement.returning, &table, Some(&found.alias()));
    let others: Vec<u16> = match &returning {
        // RETURNING sees all columns.
        Some(_) => table.def().live_columns().filter(|c| !columns.contains(c)).collect(),
        None => checks.others(&columns),
    };
    let also = others.iter().chain(&referenced);
    found.also_select(also.map(|&c| table.def().columns[usize::from(c)].name.as_str()));
    let beside = returning.is_some() && found.also_select_others()?;
    let plan = plan_query(&state, found.query).await?;
    if let Some(returning) = returning.as_mut().filter(|_| beside) {
        returning.sees_beside(&plan, 1 + columns.len() + others.len() + referenced.len());
    }
    let all: Vec<u16> = columns.iter().chain(&others).copied().collect();
    let plan = cast_assigned(plan, table.def(), &all)?;
    let mut update = RowUpdate {
        table: table.clone(),
        columns: columns.clone(),
        all,
        checks,
        changed: ChangedRows::default(),
        returning,
    };
    if !referenced.is_empty() {
        let batch = run_to_end(&state, &plan).await?;
        let old =
            referenced.into_iter().zip(batch.columns()[1 + update.all.len()..].iter().cloned()).collect();
        let given = columns.iter().zip(&batch.columns()[1..]);
        let set = given.map(|(&c, array)| Ok((c, load::cast_to(table.def(), c, array)?)));
        let set = set.collect::<Result<BTreeMap<u16, ArrayRef>, SqlError>>()?;
        let changed = cascade_update::ChangedKeys::new(&found.table, old, &set);
        let (mut work, returning, rows) = blocking(move || {
            let rows = update.apply(&mut work, &batch)?;
            Ok((work, update.returning, rows))
        })
        .await?;
        if rows > 0 {
            work = cascade_update::follow(session, work, changed).await?;
        }
        return Ok((work, returning, rows));
    }
    let mut parts = Parts::start(&state, &plan).await?;
    let mut rows = 0;
    while let Some(batch) = parts.next().await? {
        let updated;
        (work, update, updated) = blocking(move || {
            let updated = update.apply(&mut work, &batch)?;
            Ok((work, update, updated))
        })
        .await?;
        rows += updated;
    }
    drop(parts);
    Ok((work, update.returning, rows))
}

/// An UPDATE whose rows come in parts.
struct RowUpdate {
    table: Arc<Table>,
    /// The columns that are assigned.
    columns: Vec<u16>,
    /// These columns, and those that CHECKs and generated columns need beside them.
    all: Vec<u16>,
    checks: Checks,
    changed: ChangedRows,
    returning: Option<Returning>,
}

impl RowUpdate {
    /// Updates the rows of a batch: row identities, then the values of all columns.
    fn apply(&mut self, work: &mut StatementTxn, batch: &RecordBatch) -> Result<u64, SqlError> {
        let def = self.table.def();
        let order = sort_to_indices(batch.column(0), None, None)?;
        let batch = take_record_batch(batch, &order)?;
        let rows = row_identities(&batch).values();
        if !rows.iter().all(|&row| self.changed.insert(row)) {
            let message = format!(
                "UPDATE of \"{}\" finds more than one new value for a row: FROM must match each row once",
                self.table.name()
            );
            return Err(SqlError::failed(sqlstate::CARDINALITY_VIOLATION, message));
        }
        let rows: Vec<RowAddress> = rows.iter().copied().map(RowAddress::from_raw).collect();
        let given = self.all.iter().zip(&batch.columns()[1..]);
        let cast = given.map(|(&c, array)| Ok((c, load::cast_to(def, c, array)?)));
        let mut arrays = cast.collect::<Result<BTreeMap<u16, ArrayRef>, SqlError>>()?;
        let count = set(&mut work.txn, &self.table, &rows, &self.columns, &mut arrays, &self.checks)?;
        if let Some(returning) = &mut self.returning {
            returning.add(&arrays, Some(&batch))?;
        }
        Ok(count)
    }
}

/// The query that EXPLAIN UPDATE shows, and the table it changes.
pub(crate) fn explain_update(
    snapshot: &Snapshot,
    update: &Update,
) -> Result<(Box<Query>, Arc<Table>), SqlError> {
    let table = views::find_changed(snapshot, &rewrite::updated_table(update)?)?;
    let found = rewrite::update(&*fill::assigned(update, &table)?)?;
    column_numbers(&table, &found.assigned)?;
    Ok((found.query, table))
}

/// The query that EXPLAIN DELETE shows, and the table it changes.
pub(crate) fn explain_delete(
    snapshot: &Snapshot,
    delete: &Delete,
) -> Result<(Box<Query>, Arc<Table>), SqlError> {
    let found = rewrite::delete(delete)?;
    Ok((found.query, views::find_changed(snapshot, &found.table)?))
}
