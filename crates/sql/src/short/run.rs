//! Runs a planned short statement on the engine, at one snapshot.
//!
//! Invariant: the outcome is [`Outcome::Done`], or nothing was changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::compute::{concat, concat_batches, filter, sort_to_indices, take_record_batch};
use datafusion::common::ScalarValue;
use lode_engine::{Few, HostWork, RangeEnd, RowAddress, RowRange, RowsInOrder, Snapshot, Table, WriteTxn};
use lode_page::Value;

use super::access::{Access, JOINED_ROWS_MAX, Joined, RangeAccess, Wanted};
use super::computed::{Rows, columns};
use super::plan::{Action, ShortPlan, table_now};
use super::rest::Rest;
use super::returning::Returning;
use super::upsert::Upsert;
use super::values::KeyValue;
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

impl ShortPlan {
    /// What a column is compared with; `Some(None)` if it is NULL, which no row passes, and `None` if it is not certain.
    fn known(&self, wanted: &Wanted, parameters: &[ScalarValue]) -> Option<Option<Value>> {
        match self.value(wanted, parameters)? {
            KeyValue::Is(v) => Some(Some(v)),
            KeyValue::Null => Some(None),
            KeyValue::Other => None,
        }
    }

    /// The values of some conditions; `Some(None)` if one is NULL, which no row equals.
    fn all_known(&self, wanted: &[Wanted], parameters: &[ScalarValue]) -> Option<Option<Vec<Value>>> {
        let each = wanted.iter().map(|wanted| self.known(wanted, parameters));
        let values: Option<Vec<Option<Value>>> = each.collect();
        Some(values?.into_iter().collect())
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
        computes(snapshot, HostWork::Scan, rows.len());
        match rows.as_slice() {
            [] => self.no_rows(table),
            // DELETE needs no column.
            [_] if self.computed.inputs.is_empty() => {
                Ok(Found::Rows(rows, Rows { count: 1, columns: Vec::new() }))
            }
            [row] => {
                let values = snapshot.row_values(table, *row, &self.computed.inputs)?;
                let columns = columns(table, &self.computed.inputs, &[values])?;
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
        let found = match self.rows_in_range(snapshot, table, range, &self.computed.inputs, parameters)? {
            Some(found) => found,
            None => return Ok(Found::Unclear),
        };
        let mut rows = columns(table, &self.computed.inputs, &found.values)?;
        let mut addresses = found.rows;
        for condition in &range.residual {
            computes(snapshot, HostWork::Filter, rows.count);
            let Some(passed) = self.computed.passed(condition, &rows, parameters) else {
                return Ok(Found::Unclear);
            };
            let columns = rows.columns.iter().map(|c| Ok(filter(c, &passed)?));
            let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
            let mut each = passed.values().iter();
            addresses.retain(|_| each.next().unwrap_or(false));
            rows = Rows { count: addresses.len(), columns };
        }
        Ok(Found::Rows(addresses, rows))
    }

    /// The rows of a range that is known by the parameters; `None` if it is not certain which they are.
    fn rows_in_range(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        range: &RangeAccess,
        inputs: &[u16],
        parameters: &[ScalarValue],
    ) -> Result<Option<RowsInOrder>, SqlError> {
        let Some(equal) = self.all_known(&range.equal, parameters) else { return Ok(None) };
        let Some(ends) = self.ends(range, parameters) else { return Ok(None) };
        let (Some(equal), Some((low, high))) = (equal, ends) else { return Ok(Some(RowsInOrder::default())) };
        let Some(keys) = RowRange::new(table, &range.order, &equal, low, high) else { return Ok(None) };
        let found = snapshot.rows_in_range(table, &range.order, &keys, inputs, range.few)?;
        computes(snapshot, HostWork::Scan, found.as_ref().map_or(0, |found| found.rows.len()));
        match found {
            Some(_) => range.pause.met_few(),
            None => range.pause.met_too_many(),
        }
        Ok(found)
    }

    /// The ends of a range; `Some(None)` if one is NULL, and `None` if one is not certain.
    fn ends(&self, range: &RangeAccess, parameters: &[ScalarValue]) -> Option<Option<Ends>> {
        let end = |end: &Option<(Wanted, bool)>| match end {
            None => Some(Some(None)),
            Some((wanted, has)) => Some(self.known(wanted, parameters)?.map(|v| Some((v, *has)))),
        };
        let (low, high) = (end(&range.low)?, end(&range.high)?);
        Some(low.zip(high))
    }

    /// The rows of a table that is joined, by those that were found before; `None` if there are too many, or if it is not certain which
    /// they are.
    fn follow(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        joined: &Joined,
        inputs: &[u16],
        found: &[Vec<Vec<Value>>],
        parameters: &[ScalarValue],
    ) -> Result<Option<Vec<Vec<Value>>>, SqlError> {
        let range = &joined.range;
        if range.pause.takes() {
            return Ok(None);
        }
        let by = range.equal.iter().find_map(|wanted| match wanted {
            Wanted::Joined(of) => Some(of.step),
            _ => None,
        });
        let Some(by) = by else {
            let found = self.rows_in_range(snapshot, table, range, inputs, parameters)?;
            return Ok(found.map(|found| found.values));
        };
        let Some(ends) = self.ends(range, parameters) else { return Ok(None) };
        let Some((low, high)) = ends else { return Ok(Some(Vec::new())) };
        // The values that are the same for all rows, and the places of the others in a row.
        let mut equal = vec![Value::Null; range.equal.len()];
        let mut joined_at = Vec::new();
        for (i, (wanted, &c)) in range.equal.iter().zip(&range.order.columns).enumerate() {
            match wanted {
                Wanted::Joined(of) => {
                    joined_at.push((i, of.at, table.schema().columns[usize::from(c)].data_type));
                }
                wanted => match self.known(wanted, parameters) {
                    Some(Some(v)) => equal[i] = v,
                    Some(None) => return Ok(Some(Vec::new())),
                    None => return Ok(None),
                },
            }
        }
        let (mut rows, mut looked_for): (Vec<Vec<Value>>, BTreeSet<Vec<u8>>) = Default::default();
        for row in &found[by] {
            // No row equals NULL, or an integer that the column cannot have.
            if joined_at.iter().any(|(_, at, t)| row[*at].is_null() || !row[*at].fits(*t)) {
                continue;
            }
            joined_at.iter().for_each(|(i, at, _)| equal[*i] = row[*at].clone());
            let keys = RowRange::new(table, &range.order, &equal, low.clone(), high.clone());
            let Some(keys) = keys else { return Ok(None) };
            if !looked_for.insert(keys.start().to_vec()) {
                continue;
            }
            let left = JOINED_ROWS_MAX.saturating_sub(rows.len());
            let few = Few::All(left.min(JOINED_ROWS_MAX.saturating_sub(looked_for.len())));
            let Some(found) = snapshot.rows_in_range(table, &range.order, &keys, inputs, few)? else {
                range.pause.met_too_many();
                return Ok(None);
            };
            computes(snapshot, HostWork::Scan, found.rows.len());
            rows.extend(found.values);
        }
        range.pause.met_few();
        Ok(Some(rows))
    }

    /// What the rest of a SELECT makes of its rows; `None` if it is not certain which they are.
    async fn rest(
        &self,
        rest: &Rest,
        snapshot: &Snapshot,
        table: &Table,
        parameters: &[ScalarValue],
        counts: &StatementCounts,
    ) -> Result<Outcome<RecordBatch>, SqlError> {
        let Access::Range(range) = &self.access else { return Ok(Outcome::General) };
        if range.pause.takes() {
            return Ok(Outcome::General);
        }
        let first = self.rows_in_range(snapshot, table, range, &self.computed.inputs, parameters)?;
        let Some(first) = first else { return Ok(Outcome::General) };
        let mut leaves: Vec<Option<RecordBatch>> = rest.leaves.iter().map(|_| None).collect();
        leaves[self.leaf] = columns(table, &self.computed.inputs, &first.values)?
            .with_parameters(&rest.leaves[self.leaf].seen, parameters);
        let mut found = vec![first.values];
        for joined in &self.joined {
            let Some(table) = table_now(&joined.table, snapshot) else { return Ok(Outcome::Stale) };
            let leaf = &rest.leaves[joined.leaf];
            let rows = self.follow(snapshot, &table, joined, &leaf.inputs, &found, parameters)?;
            let Some(rows) = rows else { return Ok(Outcome::General) };
            leaves[joined.leaf] =
                columns(&table, &leaf.inputs, &rows)?.with_parameters(&leaf.seen, parameters);
            found.push(rows);
        }
        counts.with(|q| {
            q.scans += found.len() as u64;
            q.rows_out += found.iter().map(|rows| rows.len() as u64).sum::<u64>();
        });
        let Some(leaves) = leaves.into_iter().collect() else { return Ok(Outcome::General) };
        // The general path finds the words for what is wrong.
        Ok(rest.run(leaves).await.map_or(Outcome::General, Outcome::Done))
    }

    fn no_rows(&self, table: &Table) -> Result<Found, SqlError> {
        Ok(Found::Rows(Vec::new(), columns(table, &self.computed.inputs, &[])?))
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
        if self.computed.has_constants() && self.computed.evaluate(None, parameters).is_none() {
            return Ok(Outcome::General);
        }
        let (count, columns) = if let Some(rest) = rest {
            match Box::pin(self.rest(rest, snapshot, &table, parameters, counts)).await? {
                Outcome::Done(result) => (result.num_rows(), result.columns().to_vec()),
                Outcome::Stale => return Ok(Outcome::Stale),
                Outcome::General => return Ok(Outcome::General),
            }
        } else {
            let rows = match self.find(snapshot, &table, parameters, counts)? {
                Found::Rows(_, rows) if rows.count == 0 => return Ok(Outcome::Done(None)),
                Found::Rows(_, rows) => rows,
                Found::Unclear => return Ok(Outcome::General),
            };
            computes(snapshot, HostWork::Project, rows.count);
            let Some(outputs) = self.computed.evaluate(Some(&rows), parameters) else {
                return Ok(Outcome::General);
            };
            (rows.count, outputs.into_iter().flatten().collect())
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
    ) -> Result<Outcome<Changed>, SqlError> {
        let snapshot = txn.current()?;
        let Some(table) = self.table(&snapshot) else { return Ok(Outcome::Stale) };
        match &self.action {
            Action::Select { .. } => Ok(Outcome::General),
            Action::Insert { columns, checks, numbers, upsert } => {
                if let Some(numbers) = numbers {
                    numbers.sees(snapshot.all_objects());
                }
                let rows = self.computed.outputs.len() / columns;
                if rows > bulk_rows {
                    return Ok(Outcome::General);
                }
                computes(&snapshot, HostWork::Project, rows);
                let none = Rows { count: 1, columns: Vec::new() };
                let Some(values) = self.computed.evaluate(Some(&none), parameters) else {
                    return Ok(Outcome::General);
                };
                let values: Vec<ArrayRef> = values.into_iter().flatten().collect();
                let proposed = proposed(&table, &values, rows, checks)?;
                match upsert {
                    Some(upsert) => {
                        let at = (&snapshot, &table);
                        self.upsert(txn, at, (proposed, rows), upsert, checks, parameters)
                    }
                    None => self.insert(txn, &table, &proposed, rows, parameters),
                }
            }
            Action::Update { set, others, checks } => {
                if !dml::referenced_on_update(&snapshot, &table, set).is_empty() {
                    return Ok(Outcome::General);
                }
                if self.computed.has_constants() && self.computed.evaluate(None, parameters).is_none() {
                    return Ok(Outcome::General);
                }
                let (rows, columns) = match self.find(&snapshot, &table, parameters, counts)? {
                    Found::Rows(rows, _) if rows.is_empty() => return Ok(Outcome::Done(Changed::default())),
                    Found::Rows(rows, columns) if rows.len() <= bulk_rows.max(1) => (rows, columns),
                    _ => return Ok(Outcome::General),
                };
                computes(&snapshot, HostWork::Project, columns.count);
                let Some(values) = self.computed.evaluate(Some(&columns), parameters) else {
                    return Ok(Outcome::General);
                };
                let numbers = set.iter().chain(others).copied();
                let mut new: BTreeMap<u16, ArrayRef> = numbers.zip(values.into_iter().flatten()).collect();
                checks.complete(&mut new, rows.len())?;
                let Some(returned) = self.returned(&new, rows.len(), parameters) else {
                    return Ok(Outcome::General);
                };
                let rows = dml::set_completed(txn, &table, &rows, set, &new, checks)?;
                Ok(Outcome::Done(Changed { rows, returned }))
            }
            Action::Delete(wanted) => {
                if dml::is_referenced(&snapshot, &table) {
                    return Ok(Outcome::General);
                }
                let (rows, columns) = match self.find(&snapshot, &table, parameters, counts)? {
                    Found::Rows(rows, _) if rows.is_empty() => return Ok(Outcome::Done(Changed::default())),
                    Found::Rows(rows, columns) => (rows, columns),
                    Found::Unclear => return Ok(Outcome::General),
                };
                let old = match wanted.is_empty() {
                    true => BTreeMap::new(),
                    false => {
                        let Some(old) = self.computed.evaluate(Some(&columns), parameters) else {
                            return Ok(Outcome::General);
                        };
                        wanted.iter().copied().zip(old.into_iter().flatten()).collect()
                    }
                };
                let Some(returned) = self.returned(&old, rows.len(), parameters) else {
                    return Ok(Outcome::General);
                };
                Ok(Outcome::Done(Changed { rows: txn.delete(table.name(), &rows)?, returned }))
            }
        }
    }

    /// What RETURNING answers for rows; `None` if it cannot be evaluated.
    fn returned(
        &self,
        known: &BTreeMap<u16, ArrayRef>,
        rows: usize,
        parameters: &[ScalarValue],
    ) -> Option<Option<RecordBatch>> {
        let rows = |returning: &Returning| returning.rows(known, rows, parameters);
        self.returning.as_ref().map_or(Some(None), |returning| rows(returning).map(Some))
    }

    /// Inserts rows, given by all columns of the table.
    fn insert(
        &self,
        txn: &mut WriteTxn,
        table: &Table,
        columns: &BTreeMap<u16, ArrayRef>,
        rows: usize,
        parameters: &[ScalarValue],
    ) -> Result<Outcome<Changed>, SqlError> {
        let Some(returned) = self.returned(columns, rows, parameters) else { return Ok(Outcome::General) };
        let rows = txn.insert(table.name(), dml::columns_of(table.def(), columns)?)?;
        Ok(Outcome::Done(Changed { rows, returned }))
    }

    /// Inserts those of the proposed rows whose keys are free; the others are left out, or change the rows that have their keys.
    fn upsert(
        &self,
        txn: &mut WriteTxn,
        (snapshot, table): (&Snapshot, &Arc<Table>),
        (proposed, rows): (BTreeMap<u16, ArrayRef>, usize),
        upsert: &Upsert,
        checks: &Checks,
        parameters: &[ScalarValue],
    ) -> Result<Outcome<Changed>, SqlError> {
        let found = upsert.conflict.resolve(snapshot, table, &proposed, rows)?;
        let (inserted, places) = found.inserted(&proposed)?;
        let Some(update) = upsert.update.as_ref().filter(|_| !found.conflicting.is_empty()) else {
            return self.insert(txn, table, &inserted, places.len(), parameters);
        };
        if !dml::referenced_on_update(snapshot, table, &update.set).is_empty() {
            return Ok(Outcome::General);
        }
        let updated = update.updated(snapshot, table, &found.conflicting, &proposed, parameters)?;
        let Some(mut updated) = updated else { return Ok(Outcome::General) };
        checks.complete(&mut updated.known, updated.rows.len())?;
        let returned = match self.returned(&updated.known, updated.rows.len(), parameters) {
            None => return Ok(Outcome::General),
            // Rows come in the order in which they were proposed.
            Some(Some(of_updated)) if !places.is_empty() => {
                let Some(Some(of_inserted)) = self.returned(&inserted, places.len(), parameters) else {
                    return Ok(Outcome::General);
                };
                let both = concat_batches(&of_updated.schema(), [&of_inserted, &of_updated])?;
                let all: UInt64Array = places.iter().chain(&updated.places).copied().collect();
                let order = sort_to_indices(&all, None, None)?;
                Some(take_record_batch(&both, &order)?)
            }
            Some(of_updated) => of_updated,
        };
        let mut rows = 0;
        if !updated.rows.is_empty() {
            rows += dml::set_completed(txn, table, &updated.rows, &update.set, &updated.known, checks)?;
        }
        if !places.is_empty() {
            rows += txn.insert(table.name(), dml::columns_of(table.def(), &inserted)?)?;
        }
        Ok(Outcome::Done(Changed { rows, returned }))
    }
}

/// What a statement has changed.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) rows: u64,
    /// The rows of RETURNING, if there are any.
    pub(super) returned: Option<RecordBatch>,
}

/// With a modelled device: charges the host for `work` on so many rows. What stands above rows of a join or a sort charges for itself.
fn computes(snapshot: &Snapshot, work: HostWork, rows: usize) {
    if let Some(host) = snapshot.host() {
        host.computes(work, rows as u64);
    }
}

/// The ends of a range.
type Ends = (Option<RangeEnd>, Option<RangeEnd>);

/// All columns of the rows of an INSERT, checked. `values`: those of the first row, then those of the next.
fn proposed(
    table: &Table,
    values: &[ArrayRef],
    rows: usize,
    checks: &Checks,
) -> Result<BTreeMap<u16, ArrayRef>, SqlError> {
    let columns = table.def().columns.len();
    let column = |c: usize| -> Result<ArrayRef, SqlError> {
        let parts: Vec<&dyn Array> = (0..rows).map(|row| values[row * columns + c].as_ref()).collect();
        match parts.as_slice() {
            [_] => Ok(values[c].clone()),
            parts => Ok(concat(parts)?),
        }
    };
    let arrays = (0..columns).map(|c| Ok((c as u16, column(c)?)));
    let mut arrays = arrays.collect::<Result<BTreeMap<u16, ArrayRef>, SqlError>>()?;
    checks.complete(&mut arrays, rows)?;
    Ok(arrays)
}
