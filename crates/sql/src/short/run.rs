//! Runs a planned short statement on the engine, at one snapshot.
//!
//! Invariant: the outcome is [`Outcome::Done`], or nothing was changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{concat, filter};
use datafusion::common::ScalarValue;
use lode_engine::{EngineError, RowAddress, RowRange, Snapshot, Table, WriteTxn};
use lode_page::{ColumnBuilder, Value};

use super::access::{Access, RangeAccess, Wanted};
use super::plan::{Action, Rows, ShortPlan};
use super::values::KeyValue;
use crate::arrow_convert::{one_to_arrow, to_arrow};
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

/// The rows that a statement is about.
enum Found {
    /// Where they are, and their columns that the plan reads.
    Rows(Vec<RowAddress>, Rows),
    /// It is not certain which rows they are.
    Unclear,
}

/// What a condition compares a column with.
enum Compared {
    Is(Value),
    /// No row passes.
    Null,
}

impl ShortPlan {
    /// What a column is compared with; `None` if it is not certain.
    fn known(&self, wanted: &Wanted, parameters: &[ScalarValue]) -> Option<Compared> {
        match self.value(wanted, parameters)? {
            KeyValue::Is(v) => Some(Compared::Is(v)),
            KeyValue::Null => Some(Compared::Null),
            KeyValue::Other => None,
        }
    }

    /// The values of some conditions; `Some(None)` if one is NULL, which no row equals.
    fn all_known(&self, wanted: &[Wanted], parameters: &[ScalarValue]) -> Option<Option<Vec<Value>>> {
        let mut values = Some(Vec::with_capacity(wanted.len()));
        for wanted in wanted {
            match self.known(wanted, parameters)? {
                Compared::Is(v) => values.iter_mut().for_each(|values| values.push(v.clone())),
                Compared::Null => values = None,
            }
        }
        Some(values)
    }

    fn find(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        parameters: &[ScalarValue],
        counts: &StatementCounts,
    ) -> Result<Found, SqlError> {
        let found = match &self.access {
            Access::None => return Ok(Found::Unclear),
            Access::Key { columns, values } => self.by_key(snapshot, table, columns, values, parameters)?,
            Access::Range(range) => self.by_range(snapshot, table, range, parameters)?,
        };
        if let Found::Rows(rows, _) = &found {
            counts.with(|q| {
                q.scans += 1;
                q.rows_out += rows.len() as u64;
            });
        }
        Ok(found)
    }

    fn by_key(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        key: &[u16],
        wanted: &[Wanted],
        parameters: &[ScalarValue],
    ) -> Result<Found, SqlError> {
        let Some(values) = self.all_known(wanted, parameters) else { return Ok(Found::Unclear) };
        let Some(values) = values else { return self.no_rows(table) };
        // A transaction may have put in a key twice: keys are checked at its commit.
        let most = if snapshot.has_own_changes(table) { 2 } else { 1 };
        let rows = snapshot.rows_by_key(table, key, &values, most)?;
        match rows.as_slice() {
            [] => self.no_rows(table),
            [row] => {
                let values = snapshot.row_values(table, *row, &self.inputs)?;
                let columns = self.columns(table, &[values])?;
                Ok(Found::Rows(rows, columns))
            }
            _ => Ok(Found::Unclear),
        }
    }

    fn by_range(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        range: &RangeAccess,
        parameters: &[ScalarValue],
    ) -> Result<Found, SqlError> {
        if range.pause.takes() {
            return Ok(Found::Unclear);
        }
        let Some(equal) = self.all_known(&range.equal, parameters) else { return Ok(Found::Unclear) };
        let end = |end: &Option<(Wanted, bool)>| match end {
            None => Some(Some(None)),
            Some((wanted, has)) => Some(match self.known(wanted, parameters)? {
                Compared::Is(v) => Some(Some((v, *has))),
                Compared::Null => None,
            }),
        };
        let (Some(low), Some(high)) = (end(&range.low), end(&range.high)) else { return Ok(Found::Unclear) };
        let (Some(equal), Some(low), Some(high)) = (equal, low, high) else { return self.no_rows(table) };
        let Some(keys) = RowRange::new(table, &range.order, &equal, low, high) else {
            return Ok(Found::Unclear);
        };
        let found = snapshot.rows_in_range(table, &range.order, &keys, &self.inputs, range.few)?;
        let Some(mut found) = found else {
            range.pause.met_too_many();
            return Ok(Found::Unclear);
        };
        range.pause.met_few();
        let mut rows = self.columns(table, &found.values)?;
        for condition in &range.residual {
            let Some(passed) = self.passed(condition, &rows, parameters) else { return Ok(Found::Unclear) };
            let columns = rows.columns.iter().map(|c| Ok(filter(c, &passed)?));
            let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
            let mut each = passed.values().iter();
            found.rows.retain(|_| each.next().unwrap_or(false));
            rows = Rows { count: found.rows.len(), columns };
        }
        Ok(Found::Rows(found.rows, rows))
    }

    fn no_rows(&self, table: &Table) -> Result<Found, SqlError> {
        Ok(Found::Rows(Vec::new(), self.columns(table, &[])?))
    }

    /// The columns that the plan reads, from the values of each row.
    fn columns(&self, table: &Table, rows: &[Vec<Value>]) -> Result<Rows, SqlError> {
        let column = |(i, &c): (usize, &u16)| -> Result<ArrayRef, SqlError> {
            let t = table.schema().columns[usize::from(c)].data_type;
            if let [row] = rows {
                return Ok(one_to_arrow(t, &row[i])?);
            }
            let mut column = ColumnBuilder::new(t);
            for row in rows {
                column
                    .push(&row[i])
                    .map_err(|e| EngineError::Invalid { table: table.name().into(), what: e.to_string() })?;
            }
            Ok(to_arrow(&column.finish())?)
        };
        let columns = self.inputs.iter().enumerate().map(column).collect::<Result<Vec<_>, SqlError>>()?;
        Ok(Rows { count: rows.len(), columns })
    }

    /// Runs a SELECT.
    pub(super) async fn select(
        &self,
        snapshot: &Snapshot,
        parameters: &[ScalarValue],
        counts: &StatementCounts,
    ) -> Result<Outcome<Option<RecordBatch>>, SqlError> {
        let Some(table) = self.table(snapshot) else { return Ok(Outcome::Stale) };
        let Action::Select { schema, rest } = &self.action else { return Ok(Outcome::General) };
        // The general path may refuse a constant for which no row is found.
        if self.has_constants() && self.evaluate(None, parameters).is_none() {
            return Ok(Outcome::General);
        }
        let rows = match self.find(snapshot, &table, parameters, counts)? {
            Found::Rows(_, rows) => rows,
            Found::Unclear => return Ok(Outcome::General),
        };
        let (count, columns) = match rest {
            Some(rest) => {
                let Some(rows) = rows.with_parameters(&rest.seen, parameters) else {
                    return Ok(Outcome::General);
                };
                // The general path finds the words for what is wrong.
                let Ok(result) = rest.run(rows).await else { return Ok(Outcome::General) };
                (result.num_rows(), result.columns().to_vec())
            }
            None if rows.count == 0 => return Ok(Outcome::Done(None)),
            None => {
                let Some(outputs) = self.evaluate(Some(&rows), parameters) else {
                    return Ok(Outcome::General);
                };
                (rows.count, outputs.into_iter().flatten().collect())
            }
        };
        let options = RecordBatchOptions::new().with_row_count(Some(count));
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
                let none = Rows { count: 1, columns: Vec::new() };
                let Some(values) = self.evaluate(Some(&none), parameters) else {
                    return Ok(Outcome::General);
                };
                let values: Vec<ArrayRef> = values.into_iter().flatten().collect();
                insert(txn, &table, &values, rows, checks)
            }
            Action::Update { set, others, checks } => {
                if self.has_constants() && self.evaluate(None, parameters).is_none() {
                    return Ok(Outcome::General);
                }
                let (rows, columns) = match self.find(&snapshot, &table, parameters, counts)? {
                    Found::Rows(rows, _) if rows.is_empty() => return Ok(Outcome::Done(0)),
                    Found::Rows(rows, columns) if rows.len() <= bulk_rows.max(1) => (rows, columns),
                    _ => return Ok(Outcome::General),
                };
                let Some(values) = self.evaluate(Some(&columns), parameters) else {
                    return Ok(Outcome::General);
                };
                let numbers = set.iter().chain(others).copied();
                let arrays: BTreeMap<u16, ArrayRef> = numbers.zip(values.into_iter().flatten()).collect();
                update(txn, &table, &rows, set, &arrays, checks)
            }
            Action::Delete => {
                if dml::is_referenced(&snapshot, &table) {
                    return Ok(Outcome::General);
                }
                match self.find(&snapshot, &table, parameters, counts)? {
                    Found::Rows(rows, _) if rows.is_empty() => Ok(Outcome::Done(0)),
                    Found::Rows(rows, _) => Ok(Outcome::Done(txn.delete(table.name(), &rows)?)),
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
    rows: &[RowAddress],
    set: &[u16],
    arrays: &BTreeMap<u16, ArrayRef>,
    checks: &Checks,
) -> Result<Outcome<u64>, SqlError> {
    checks.verify(arrays, rows.len())?;
    let new = set.iter().map(|&c| dml::column_of(table.def(), c, &arrays[&c]));
    let new = new.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Outcome::Done(txn.update(table.name(), rows, set, new)?))
}
