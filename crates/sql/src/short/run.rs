//! Runs a planned short statement on the engine, at one snapshot.
//!
//! Invariant: the outcome is [`Outcome::Done`], or nothing was changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::concat;
use datafusion::common::ScalarValue;
use lode_engine::{RowAddress, Snapshot, Table, WriteTxn};
use lode_page::Value;

use super::plan::{Action, ShortPlan};
use super::values::KeyValue;
use crate::arrow_convert::one_to_arrow;
use crate::dml::{self, Checks};
use crate::{SqlError, StatementCounts};

/// How a short statement ended.
pub(super) enum Outcome<T> {
    Done(T),
    /// The table is not that of the plan.
    Stale,
    /// The general path must run the statement.
    General,
}

/// The row that a statement is about.
enum Found {
    Row(RowAddress),
    None,
    /// It is not certain which rows they are.
    Unclear,
}

impl ShortPlan {
    fn find(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        parameters: &[ScalarValue],
        counts: &StatementCounts,
    ) -> Result<Found, SqlError> {
        let Some(keys) = self.key_values(parameters) else { return Ok(Found::Unclear) };
        let mut values: Vec<Value> = Vec::with_capacity(keys.len());
        let mut null = false;
        for key in keys {
            match key {
                KeyValue::Is(v) => values.push(v),
                KeyValue::Null => null = true,
                KeyValue::Other => return Ok(Found::Unclear),
            }
        }
        counts.with(|q| q.scans += 1);
        if null {
            return Ok(Found::None);
        }
        // A transaction may have put in a key twice: keys are checked at its commit.
        let most = if snapshot.has_own_changes(table) { 2 } else { 1 };
        let rows = snapshot.rows_by_key(table, &self.key, &values, most)?;
        Ok(match rows.as_slice() {
            [] => Found::None,
            [row] => {
                counts.with(|q| q.rows_out += 1);
                Found::Row(*row)
            }
            _ => Found::Unclear,
        })
    }

    fn inputs(&self, snapshot: &Snapshot, table: &Table, row: RowAddress) -> Result<Vec<ArrayRef>, SqlError> {
        let values = snapshot.row_values(table, row, &self.inputs)?;
        let array =
            |(&c, v): (&u16, &Value)| Ok(one_to_arrow(table.schema().columns[usize::from(c)].data_type, v)?);
        self.inputs.iter().zip(&values).map(array).collect()
    }

    /// Runs a SELECT.
    pub(super) fn select(
        &self,
        snapshot: &Snapshot,
        parameters: &[ScalarValue],
        counts: &StatementCounts,
    ) -> Result<Outcome<Option<RecordBatch>>, SqlError> {
        let Some(table) = self.table(snapshot) else { return Ok(Outcome::Stale) };
        let Action::Select { schema } = &self.action else { return Ok(Outcome::General) };
        // The general path may refuse a constant for which no row is found.
        if self.has_constants() && self.evaluate(None, parameters).is_none() {
            return Ok(Outcome::General);
        }
        let row = match self.find(snapshot, &table, parameters, counts)? {
            Found::Row(row) => row,
            Found::None => return Ok(Outcome::Done(None)),
            Found::Unclear => return Ok(Outcome::General),
        };
        let row = self.inputs(snapshot, &table, row)?;
        let Some(outputs) = self.evaluate(Some(&row), parameters) else { return Ok(Outcome::General) };
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let columns = outputs.into_iter().flatten().collect();
        match RecordBatch::try_new_with_options(schema.clone(), columns, &options) {
            Ok(batch) => Ok(Outcome::Done(Some(batch))),
            Err(_) => Ok(Outcome::General),
        }
    }

    /// Runs an INSERT, UPDATE or DELETE within a transaction.
    pub(super) fn change(
        &self,
        txn: &mut WriteTxn,
        parameters: &[ScalarValue],
        bulk_rows: usize,
        counts: &StatementCounts,
    ) -> Result<Outcome<u64>, SqlError> {
        let snapshot = txn.current()?;
        let Some(table) = self.table(&snapshot) else { return Ok(Outcome::Stale) };
        match &self.action {
            Action::Select { .. } => Ok(Outcome::General),
            Action::Insert { columns, checks } => {
                let rows = self.outputs.len() / columns;
                if rows > bulk_rows {
                    return Ok(Outcome::General);
                }
                let Some(values) = self.evaluate(Some(&[]), parameters) else { return Ok(Outcome::General) };
                let values: Vec<ArrayRef> = values.into_iter().flatten().collect();
                insert(txn, &table, &values, rows, checks)
            }
            Action::Update { set, others, checks } => {
                if self.has_constants() && self.evaluate(None, parameters).is_none() {
                    return Ok(Outcome::General);
                }
                let row = match self.find(&snapshot, &table, parameters, counts)? {
                    Found::Row(row) => row,
                    Found::None => return Ok(Outcome::Done(0)),
                    Found::Unclear => return Ok(Outcome::General),
                };
                let inputs = self.inputs(&snapshot, &table, row)?;
                let Some(values) = self.evaluate(Some(&inputs), parameters) else {
                    return Ok(Outcome::General);
                };
                let numbers = set.iter().chain(others).copied();
                let arrays: BTreeMap<u16, ArrayRef> = numbers.zip(values.into_iter().flatten()).collect();
                update(txn, &table, row, set, &arrays, checks)
            }
            Action::Delete => {
                if dml::is_referenced(&snapshot, &table) {
                    return Ok(Outcome::General);
                }
                match self.find(&snapshot, &table, parameters, counts)? {
                    Found::Row(row) => Ok(Outcome::Done(txn.delete(table.name(), &[row])?)),
                    Found::None => Ok(Outcome::Done(0)),
                    Found::Unclear => Ok(Outcome::General),
                }
            }
        }
    }
}

fn insert(
    txn: &mut WriteTxn,
    table: &Arc<Table>,
    values: &[ArrayRef],
    rows: usize,
    checks: &Checks,
) -> Result<Outcome<u64>, SqlError> {
    let columns = table.def().columns.len();
    let column = |c: usize| -> Result<ArrayRef, SqlError> {
        let parts: Vec<&dyn Array> = (0..rows).map(|row| values[row * columns + c].as_ref()).collect();
        match parts.as_slice() {
            [_] => Ok(values[c].clone()),
            parts => Ok(concat(parts)?),
        }
    };
    let arrays = (0..columns).map(|c| Ok((c as u16, column(c)?)));
    let arrays = arrays.collect::<Result<BTreeMap<u16, ArrayRef>, SqlError>>()?;
    checks.verify(&arrays, rows)?;
    let new = arrays.iter().map(|(&c, array)| dml::column_of(table.def(), c, array));
    let new = new.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Outcome::Done(txn.insert(table.name(), new)?))
}

fn update(
    txn: &mut WriteTxn,
    table: &Arc<Table>,
    row: RowAddress,
    set: &[u16],
    arrays: &BTreeMap<u16, ArrayRef>,
    checks: &Checks,
) -> Result<Outcome<u64>, SqlError> {
    checks.verify(arrays, 1)?;
    let new = set.iter().map(|&c| dml::column_of(table.def(), c, &arrays[&c]));
    let new = new.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Outcome::Done(txn.update(table.name(), &[row], set, new)?))
}
