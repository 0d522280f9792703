//! `ON DELETE CASCADE`, `SET NULL` and `SET DEFAULT`: changes rows that reference rows which a statement deleted. `ON UPDATE`:
//! `cascade_update.rs`.
//!
//! ```text
//!   rows gone, by what others may reference ─► for each foreign key on them that acts:
//!      rows of its table with these values ─┬─ CASCADE ──► deleted: rows gone, again
//!                                           └─ SET NULL, SET DEFAULT ─► the key's columns are so; CHECKs are asked
//! ```
//!
//! Each step sees what the steps before it did. So a row is deleted once, and a cycle of tables that reference each
//! other ends. At the commit, no row may be left that references a deleted one without an action. If another
//! transaction commits such a row meanwhile, that is a conflict, and the statement runs again. Source: SQL:2016, part
//! 2, 4.19.3; PostgreSQL's documentation, 5.5.5.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::compute::{sort_to_indices, take_record_batch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::MemTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::Column as ColumnName;
use lode_engine::{ReferenceAction, RowAddress, Rule, Snapshot, Table};

use super::checks::Checks;
use super::load::cast_to;
use super::rewrite;
use super::set::set;
use super::shared::{find_table, plan_query, row_identities, run_to_end};
use crate::arrow_convert::arrow_type;
use crate::threads::blocking;
use crate::transaction::StatementTxn;
use crate::{Session, SqlError};

/// Rows that a statement deleted from a table.
pub(super) struct DeletedRows {
    table: String,
    /// The columns that acting foreign keys reference, and their values in the deleted rows.
    values: BTreeMap<u16, ArrayRef>,
}

/// A foreign key with an action for rows of its parent that are deleted.
struct ForeignKeyAction {
    child: String,
    columns: Vec<u16>,
    parent_columns: Vec<u16>,
    on_delete: ReferenceAction,
}

impl DeletedRows {
    /// From a batch of row identities, followed by these columns.
    pub(super) fn of(table: &str, columns: Vec<u16>, batch: &RecordBatch) -> Self {
        let values = columns.into_iter().zip(batch.columns()[1..].iter().cloned()).collect();
        Self { table: table.into(), values }
    }

    /// The rows of the child that reference them: `rows`, semi-joined on its first columns.
    fn matching(&self, rows: LogicalPlan, of: &ForeignKeyAction) -> Result<LogicalPlan, SqlError> {
        let values: Vec<ArrayRef> = of.parent_columns.iter().map(|c| self.values[c].clone()).collect();
        let name = |i: usize| format!("__lode_gone_{i}");
        let fields = values.iter().enumerate().map(|(i, v)| Field::new(name(i), v.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let names: Vec<String> = (0..values.len()).map(name).collect();
        let gone = MemTable::try_new(schema.clone(), vec![vec![RecordBatch::try_new(schema, values)?]])?;
        let gone =
            LogicalPlanBuilder::scan("__lode_gone", provider_as_source(Arc::new(gone)), None)?.build()?;
        let left = (0..names.len()).map(|i| ColumnName::from_name(format!("__lode_old_{i}"))).collect();
        let right: Vec<ColumnName> = names.into_iter().map(ColumnName::from_name).collect();
        let joined = LogicalPlanBuilder::from(rows).join(gone, JoinType::LeftSemi, (left, right), None)?;
        Ok(joined.build()?)
    }
}

/// The foreign keys to a table that have an action.
fn acting(snapshot: &Snapshot, parent: &str) -> Vec<ForeignKeyAction> {
    let of = |t: &Arc<Table>| {
        let acts = |rule: &Rule| match rule {
            Rule::ForeignKey { columns, parent: of, parent_columns, on_delete, .. }
                if of == parent && on_delete.acts() =>
            {
                let (columns, parent_columns) = (columns.clone(), parent_columns.clone());
                Some(ForeignKeyAction {
                    child: t.name().into(),
                    columns,
                    parent_columns,
                    on_delete: *on_delete,
                })
            }
            _ => None,
        };
        t.def().constraints.iter().filter_map(|c| acts(&c.rule)).collect::<Vec<_>>()
    };
    snapshot.tables().flat_map(of).collect()
}

/// The columns of a table that foreign keys with an action reference.
pub(super) fn referenced(snapshot: &Snapshot, table: &Table) -> Vec<u16> {
    let columns: BTreeSet<u16> =
        acting(snapshot, table.name()).into_iter().flat_map(|a| a.parent_columns).collect();
    columns.into_iter().collect()
}

/// Whether a foreign key with an action references the table.
pub(crate) fn is_referenced(snapshot: &Snapshot, table: &Table) -> bool {
    !acting(snapshot, table.name()).is_empty()
}

/// The other tables with a foreign key to this one.
pub(super) fn referencing(snapshot: &Snapshot, parent: &str) -> Vec<String> {
    let references = |t: &&Arc<Table>| {
        let to_parent = |rule: &Rule| matches!(rule, Rule::ForeignKey { parent: of, .. } if of == parent);
        t.name() != parent && t.def().constraints.iter().any(|c| to_parent(&c.rule))
    };
    snapshot.tables().filter(references).map(|t| t.name().to_owned()).collect()
}

/// Carries out the actions of all foreign keys to deleted rows, until no more rows are deleted.
pub(super) async fn follow(
    session: &Session,
    mut work: StatementTxn,
    gone: DeletedRows,
) -> Result<StatementTxn, SqlError> {
    let mut all = VecDeque::from([gone]);
    while let Some(gone) = all.pop_front() {
        if gone.values.is_empty() {
            continue;
        }
        let (now, snapshot) = work.snapshot().await?;
        work = now;
        for of in acting(&snapshot, &gone.table) {
            let (now, more) = act(session, work, &gone, &of).await?;
            work = now;
            all.extend(more);
        }
    }
    Ok(work)
}

/// Carries out the action of one foreign key. Returns the rows that it deleted.
async fn act(
    session: &Session,
    work: StatementTxn,
    gone: &DeletedRows,
    of: &ForeignKeyAction,
) -> Result<(StatementTxn, Option<DeletedRows>), SqlError> {
    // The query must not see rows that were deleted so far.
    let (mut work, snapshot) = work.snapshot().await?;
    let child = find_table(&snapshot, &of.child)?;
    let state = session.state_at(snapshot.clone(), Some(child.clone()));
    let checks = Checks::of(&state, child.def())?;
    let others = match of.on_delete {
        ReferenceAction::SetNull | ReferenceAction::SetDefault => checks.others(&of.columns),
        _ => referenced(&snapshot, &child),
    };
    let mut found = rewrite::all_of(&of.child)?;
    let columns = of.columns.iter().chain(&others);
    found.also_select(columns.map(|&c| child.def().columns[usize::from(c)].name.as_str()));
    if of.on_delete == ReferenceAction::SetDefault {
        found.also_defaults(child.def(), &of.columns)?;
    }
    let plan = gone.matching(plan_query(&state, found.query).await?, of)?;
    let batch = run_to_end(&state, &plan).await?;
    if batch.num_rows() == 0 {
        return Ok((work, None));
    }
    let batch = take_record_batch(&batch, &sort_to_indices(batch.column(0), None, None)?)?;
    let raw = row_identities(&batch).values().to_vec();
    let rows: Vec<RowAddress> = raw.into_iter().map(RowAddress::from_raw).collect();
    let values: BTreeMap<u16, ArrayRef> =
        others.into_iter().zip(batch.columns()[1 + of.columns.len()..].iter().cloned()).collect();
    if of.on_delete == ReferenceAction::Cascade {
        let gone = DeletedRows { table: of.child.clone(), values };
        let work = blocking(move || {
            work.txn.delete(child.name(), &rows)?;
            Ok(work)
        });
        return Ok((work.await?, Some(gone)));
    }
    let defaults_from = 1 + of.columns.len() + values.len();
    let mut known = values;
    for (i, &c) in of.columns.iter().enumerate() {
        let data_type = child.def().columns[usize::from(c)].ty.data_type;
        let value = match of.on_delete {
            ReferenceAction::SetDefault => cast_to(child.def(), c, batch.column(defaults_from + i))?,
            _ => new_null_array(&arrow_type(data_type), rows.len()),
        };
        known.insert(c, value);
    }
    let columns = of.columns.clone();
    let work = blocking(move || {
        set(&mut work.txn, &child, &rows, &columns, &mut known, &checks)?;
        Ok(work)
    });
    Ok((work.await?, None))
}
