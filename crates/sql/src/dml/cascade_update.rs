//! `ON UPDATE CASCADE`, `SET NULL` and `SET DEFAULT`: changes rows that reference rows whose referenced columns a statement changed.
//!
//! ```text
//!   rows that got other values ─► old and new values ─► for each foreign key on these columns that acts:
//!      rows of its table, joined by the old values ─┬─ CASCADE ──► the key's columns get the new values ─┐
//!                                                   └─ SET NULL, SET DEFAULT ─► they are so ─────────────┴─► CHECKs are asked;
//!                                                                      rows that reference these columns: again
//! ```
//!
//! All rows of one foreign key change at once, so values may move from row to row. A row is changed once for each foreign key, so a
//! cycle of tables that reference each other ends. The rest is as with ON DELETE (`cascade.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::compute::{filter_record_batch, or, sort_to_indices, take_record_batch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::MemTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::Column as ColumnName;
use lode_engine::{ReferenceAction, RowAddress, Rule, Snapshot, Table};

use super::checks::Checks;
use super::set::set;
use super::shared::{find_table, plan_query, row_identities, run_to_end};
use super::{load, rewrite};
use crate::arrow_convert::arrow_type;
use crate::threads::blocking;
use crate::transaction::StatementTxn;
use crate::{Session, SqlError};

/// Rows of a table of which a statement changed columns that others reference.
pub(super) struct ChangedKeys {
    table: String,
    /// The values of referenced columns before and after.
    old: BTreeMap<u16, ArrayRef>,
    new: BTreeMap<u16, ArrayRef>,
}

/// A foreign key with an action for rows of its parent that change.
struct UpdateAction {
    constraint: String,
    child: String,
    columns: Vec<u16>,
    parent_columns: Vec<u16>,
    on_update: ReferenceAction,
}

/// The foreign keys to one of these columns of a table that have an action.
fn acting(snapshot: &Snapshot, parent: &str, set: &[u16]) -> Vec<UpdateAction> {
    let mut all = Vec::new();
    for (t, c) in snapshot.tables().flat_map(|t| t.def().constraints.iter().map(move |c| (t, c))) {
        if let Rule::ForeignKey { columns, parent: of, parent_columns, on_update, .. } = &c.rule
            && of == parent
            && on_update.acts()
            && parent_columns.iter().any(|c| set.contains(c))
        {
            all.push(UpdateAction {
                constraint: c.name.clone(),
                child: t.name().into(),
                columns: columns.clone(),
                parent_columns: parent_columns.clone(),
                on_update: *on_update,
            });
        }
    }
    all
}

/// The columns of a table that foreign keys with an action reference, if a statement sets one of theirs.
pub(crate) fn referenced_on_update(snapshot: &Snapshot, table: &Table, set: &[u16]) -> Vec<u16> {
    let columns: BTreeSet<u16> =
        acting(snapshot, table.name(), set).into_iter().flat_map(|a| a.parent_columns).collect();
    columns.into_iter().collect()
}

impl ChangedKeys {
    /// Of the same rows: the values of referenced columns before, and the values that columns got.
    pub(super) fn new(table: &str, old: BTreeMap<u16, ArrayRef>, set: &BTreeMap<u16, ArrayRef>) -> Self {
        let new = old.iter().map(|(c, was)| (*c, set.get(c).unwrap_or(was).clone())).collect();
        Self { table: table.into(), old, new }
    }

    /// Old and new values in the columns that a foreign key references, of rows where they differ.
    fn pairs(&self, of: &UpdateAction) -> Result<Option<RecordBatch>, SqlError> {
        let (mut fields, mut arrays, mut differs): (Vec<Field>, Vec<ArrayRef>, Option<BooleanArray>) =
            Default::default();
        for (prefix, values) in [("__lode_gone", &self.old), ("__lode_new", &self.new)] {
            for (i, c) in of.parent_columns.iter().enumerate() {
                let Some(array) = values.get(c) else { return Ok(None) };
                fields.push(Field::new(format!("{prefix}_{i}"), array.data_type().clone(), true));
                arrays.push(array.clone());
            }
        }
        for c in &of.parent_columns {
            let one = distinct(&self.old[c], &self.new[c])?;
            differs = Some(match differs {
                Some(others) => or(&others, &one)?,
                None => one,
            });
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        let differs = differs.expect("a foreign key has columns");
        let pairs = filter_record_batch(&batch, &differs)?;
        Ok((pairs.num_rows() > 0).then_some(pairs))
    }
}

/// `rows` of a child, joined by their first columns with old values of its parent.
fn matching(rows: LogicalPlan, pairs: RecordBatch, columns: usize) -> Result<LogicalPlan, SqlError> {
    let table = MemTable::try_new(pairs.schema(), vec![vec![pairs]])?;
    let pairs =
        LogicalPlanBuilder::scan("__lode_changed", provider_as_source(Arc::new(table)), None)?.build()?;
    let names = |prefix: &str| -> Vec<ColumnName> {
        (0..columns).map(|i| ColumnName::from_name(format!("{prefix}_{i}"))).collect()
    };
    let on = (names("__lode_old"), names("__lode_gone"));
    Ok(LogicalPlanBuilder::from(rows).join(pairs, JoinType::Inner, on, None)?.build()?)
}

/// Carries out the actions of all foreign keys to changed columns, until no more of them change.
pub(super) async fn follow(
    session: &Session,
    mut work: StatementTxn,
    changed: ChangedKeys,
) -> Result<StatementTxn, SqlError> {
    let mut all = VecDeque::from([changed]);
    let mut done = BTreeSet::new();
    while let Some(changed) = all.pop_front() {
        let (now, snapshot) = work.snapshot().await?;
        work = now;
        let columns: Vec<u16> = changed.old.keys().copied().collect();
        for of in acting(&snapshot, &changed.table, &columns) {
            let (now, more) = act(session, work, &changed, &of, &mut done).await?;
            work = now;
            all.extend(more);
        }
    }
    Ok(work)
}

/// Rows that were changed for a foreign key: the child, the constraint, the row.
type Done = BTreeSet<(String, String, u64)>;

/// Carries out the action of one foreign key. Returns the rows of which it changed columns that others reference.
async fn act(
    session: &Session,
    work: StatementTxn,
    changed: &ChangedKeys,
    of: &UpdateAction,
    done: &mut Done,
) -> Result<(StatementTxn, Option<ChangedKeys>), SqlError> {
    let Some(pairs) = changed.pairs(of)? else { return Ok((work, None)) };
    let (mut work, snapshot) = work.snapshot().await?;
    let child = find_table(&snapshot, &of.child)?;
    let state = session.state_at(snapshot.clone(), Some(child.clone()));
    let checks = Checks::of(&state, child.def())?;
    let others = checks.others(&of.columns);
    let further = referenced_on_update(&snapshot, &child, &of.columns);
    let mut found = rewrite::all_of(&of.child)?;
    let columns = of.columns.iter().chain(&others).chain(&further);
    found.also_select(columns.map(|&c| child.def().columns[usize::from(c)].name.as_str()));
    let defaults = match of.on_update {
        ReferenceAction::SetDefault => {
            found.also_defaults(child.def(), &of.columns)?;
            of.columns.len()
        }
        _ => 0,
    };
    let plan = matching(plan_query(&state, found.query).await?, pairs, of.columns.len())?;
    let batch = run_to_end(&state, &plan).await?;
    let is_new = |row: &u64| done.insert((of.child.clone(), of.constraint.clone(), *row));
    let mask: BooleanArray = row_identities(&batch).values().iter().map(is_new).map(Some).collect();
    let batch = filter_record_batch(&batch, &mask)?;
    if batch.num_rows() == 0 {
        return Ok((work, None));
    }
    let batch = take_record_batch(&batch, &sort_to_indices(batch.column(0), None, None)?)?;
    let rows: Vec<RowAddress> =
        row_identities(&batch).values().iter().copied().map(RowAddress::from_raw).collect();
    let (of_others, of_further) = (1 + of.columns.len(), 1 + of.columns.len() + others.len());
    let numbered = |columns: &[u16], from: usize| -> BTreeMap<u16, ArrayRef> {
        columns.iter().copied().zip(batch.columns()[from..].iter().cloned()).collect()
    };
    let (others, old) = (numbered(&others, of_others), numbered(&further, of_further));
    let defaults_from = of_further + further.len();
    let new_from = defaults_from + defaults + of.columns.len();
    let mut new: BTreeMap<u16, ArrayRef> = BTreeMap::new();
    for (i, &c) in of.columns.iter().enumerate() {
        let data_type = child.def().columns[usize::from(c)].ty.data_type;
        let values = match of.on_update {
            ReferenceAction::Cascade => load::cast_to(child.def(), c, batch.column(new_from + i))?,
            ReferenceAction::SetNull => new_null_array(&arrow_type(data_type), rows.len()),
            ReferenceAction::SetDefault => load::cast_to(child.def(), c, batch.column(defaults_from + i))?,
            other => return Err(SqlError::Unsupported(other.declared("ON UPDATE").trim_start().into())),
        };
        new.insert(c, values);
    }
    let changed = ChangedKeys::new(&of.child, old, &new);
    let columns = of.columns.clone();
    let work = blocking(move || {
        let mut known = others.into_iter().chain(new).collect();
        set(&mut work.txn, &child, &rows, &columns, &mut known, &checks)?;
        Ok(work)
    });
    Ok((work.await?, (!changed.old.is_empty()).then_some(changed)))
}
