//! INSERT ... ON CONFLICT: rows whose key is there already are left out, or update the row that has it.
//!
//! ```text
//!   proposed rows ─► keys ─┬─ of an earlier row of the statement ─► left out | 21000
//!                          ├─ of a row of the table ─────────────► left out | SET, WHERE over (row, excluded) ─► update
//!                          └─ free ──────────────────────────────► inserted
//! ```
//!
//! Keys are looked up at the statement's snapshot. If another transaction commits such a key first, a statement that is a
//! transaction of its own runs again; within a transaction the commit fails.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::sql::sqlparser::ast::{
    Assignment, BinaryOperator, ConflictTarget, DoUpdate, Expr, Ident, ObjectName, OnConflict,
    OnConflictAction, SelectItem, SetExpr, TableAlias, Update,
};
use lode_engine::{EngineError, Hidden, RowAddress, Snapshot, Table, WriteTxn};
use lode_page::{ColumnBuilder, Value};

use super::checks::Checks;
use super::load;
use super::rewrite::{self, RowQuery};
use super::set::set;
use super::shared::{cast_assigned, column_numbers, plan_query, row_identities, run_to_end};
use crate::arrow_convert::to_arrow;
use crate::deferral::is_deferrable;
use crate::error::state;
use crate::index_elements::Target;
use crate::names::{PROPOSED, TARGET, primary_key_name, split};
use crate::provider::ROW_IDENTITY;
use crate::statement::{fold, table_name, target_text};
use crate::types::arrow_schema;
use crate::{Session, SqlError, hidden_columns};

/// A column that says which proposed row a row belongs to.
const PLACE: &str = "__lode_place";

/// What ON CONFLICT says.
pub(crate) struct Conflict {
    /// The keys that count.
    keys: Vec<Vec<u16>>,
    update: Option<DoUpdate>,
}

/// What becomes of the proposed rows.
pub(crate) struct Resolved {
    /// Which proposed rows are inserted.
    inserted: BooleanArray,
    /// Rows of the table that conflict, each with its proposed row.
    pub(crate) conflicting: Vec<(RowAddress, usize)>,
}

impl Conflict {
    /// The keys and the action.
    ///
    /// # Errors
    /// 42P10 where no key has the columns, 42704 where no constraint has the name, 42601 for DO UPDATE without either.
    pub(crate) fn of(on: &OnConflict, table: &Table) -> Result<Self, SqlError> {
        let def = table.def();
        let all: Vec<(Option<&str>, &[u16])> = table.keys().collect();
        let update = match &on.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(update) => Some(update.clone()),
        };
        let keys = match &on.conflict_target {
            None if update.is_some() => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                return Err(SqlError::failed(state::SYNTAX_ERROR, message));
            }
            None => all.iter().map(|(_, key)| key.to_vec()).collect(),
            Some(ConflictTarget::Columns(columns)) => {
                let names: Vec<String> = columns.iter().map(fold).collect();
                keys_of(&Target::of_columns(column_numbers(table, &names)?), table)?
            }
            Some(ConflictTarget::OnConstraint(name)) if let Some(text) = target_text(name) => {
                keys_of(&Target::parse(text, def)?, table)?
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = table_name(name)?;
                let primary = primary_key_name(def);
                let is_it = |of: &Option<&str>| of.map_or(name == primary, |of| of == name);
                let found = all.iter().find(|(of, _)| is_it(of)).map(|(_, key)| key.to_vec());
                vec![found.ok_or_else(|| {
                    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", def.name);
                    SqlError::failed(state::UNDEFINED_OBJECT, message)
                })?]
            }
        };
        let is_deferrable = |key: &Vec<u16>| is_deferrable(def, &def.constraints, key);
        if on.conflict_target.is_some() && keys.iter().any(is_deferrable) {
            let message = "ON CONFLICT does not support deferrable unique constraints as arbiters";
            return Err(SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let keys = keys.into_iter().filter(|key| !is_deferrable(key)).collect();
        Ok(Self { keys, update })
    }

    /// Finds out which proposed rows conflict. `columns`: all columns of the proposed rows.
    ///
    /// # Errors
    /// 21000 when DO UPDATE would change a row twice; when the drive fails.
    pub(crate) fn resolve(
        &self,
        snapshot: &Snapshot,
        table: &Arc<Table>,
        columns: &BTreeMap<u16, ArrayRef>,
        rows: usize,
    ) -> Result<Resolved, SqlError> {
        for (c, array) in columns {
            let column = &table.def().columns[usize::from(*c)];
            if !column.ty.nullable && array.null_count() > 0 {
                let (table, column) = (table.name().to_owned(), column.name.clone());
                return Err(EngineError::NotNull { table, column }.into());
            }
        }
        let mut inserted = vec![true; rows];
        let mut conflicting = Vec::new();
        let mut changed = HashSet::new();
        let mut seen: Vec<HashMap<String, usize>> = self.keys.iter().map(|_| HashMap::new()).collect();
        let keys = self.keys.iter().map(|key| {
            let columns = key.iter().map(|c| load::column_of(table.def(), *c, &columns[c]));
            columns.collect::<Result<Vec<_>, SqlError>>()
        });
        let keys = keys.collect::<Result<Vec<_>, SqlError>>()?;
        for (place, is_inserted) in inserted.iter_mut().enumerate() {
            let mut values_of = Vec::with_capacity(keys.len());
            let mut found = None;
            for ((key, columns), seen) in self.keys.iter().zip(&keys).zip(&seen) {
                let values: Vec<Value> = columns.iter().map(|c| c.value(place)).collect();
                // Values of the same types have the same text only if they are equal.
                let bytes = (!values.iter().any(Value::is_null)).then(|| format!("{values:?}"));
                if let Some(bytes) = &bytes
                    && found.is_none()
                {
                    if seen.contains_key(bytes) {
                        if self.update.is_some() {
                            return Err(twice());
                        }
                        *is_inserted = false;
                    }
                    found = snapshot.rows_by_key(table, key, &values, 1)?.into_iter().next();
                }
                values_of.push(bytes);
            }
            if let Some(address) = found {
                *is_inserted = false;
                if self.update.is_some() {
                    if !changed.insert(address.raw()) {
                        return Err(twice());
                    }
                    conflicting.push((address, place));
                }
            }
            if *is_inserted {
                for (bytes, seen) in values_of.into_iter().zip(&mut seen) {
                    bytes.map(|bytes| seen.insert(bytes, place));
                }
            }
        }
        Ok(Resolved { inserted: inserted.into(), conflicting })
    }

    /// The rows that DO UPDATE changes, with their new values; and which proposed row each belongs to.
    pub(super) async fn updated(
        &self,
        session: &Session,
        snapshot: &Snapshot,
        table: &Arc<Table>,
        alias: Option<&Ident>,
        resolved: &Resolved,
        proposed: &BTreeMap<u16, ArrayRef>,
    ) -> Result<Option<Updated>, SqlError> {
        // It is planned for no rows as well: its mistakes are reported.
        let Some(update) = &self.update else { return Ok(None) };
        let def = table.def();
        let places: UInt64Array = resolved.conflicting.iter().map(|(_, row)| *row as u64).collect();
        let fields = arrow_schema(def);
        let nullable = fields.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
        let fields: Vec<Field> = nullable.collect();
        let place = || Field::new(PLACE, DataType::UInt64, false);
        // The rows of the table, as they are.
        let all: Vec<u16> = def.live_columns().collect();
        let of_column = |c: &u16| ColumnBuilder::new(def.columns[usize::from(*c)].ty.data_type);
        let mut builders: Vec<ColumnBuilder> = all.iter().map(of_column).collect();
        for (address, _) in &resolved.conflicting {
            let values = snapshot.row_values(table, *address, &all)?;
            for (builder, value) in builders.iter_mut().zip(&values) {
                builder.push(value).map_err(EngineError::from)?;
            }
        }
        let mut old = Vec::with_capacity(builders.len() + 2);
        for builder in builders {
            old.push(to_arrow(&builder.finish())?);
        }
        let addresses: UInt64Array = resolved.conflicting.iter().map(|(a, _)| a.raw()).collect();
        old.push(Arc::new(addresses));
        old.push(Arc::new(places.clone()));
        let identity = Field::new(ROW_IDENTITY, DataType::UInt64, false);
        let old_schema = Schema::new([&fields[..], &[identity, place()]].concat());
        let old = in_memory(old_schema, old)?;
        // The rows that were proposed.
        let mut new = all
            .iter()
            .map(|c| Ok(take(&proposed[c], &places, None)?))
            .collect::<Result<Vec<_>, SqlError>>()?;
        new.push(Arc::new(places));
        let new = in_memory(Schema::new([&fields[..], &[place()]].concat()), new)?;
        let tables = vec![(TARGET.to_owned(), old), (PROPOSED.to_owned(), new)];
        let state = session.state_with(snapshot.clone(), None, tables);

        let (mut found, assigned) = self.query(update, table, alias)?;
        let checks = Checks::of(&state, def)?;
        let others: Vec<u16> = all.iter().copied().filter(|c| !assigned.contains(c)).collect();
        found.also_select(others.iter().map(|&c| def.columns[usize::from(c)].name.as_str()));
        found.also_select([PLACE].into_iter());
        let all: Vec<u16> = assigned.iter().chain(&others).copied().collect();
        let plan = plan_query(&state, found.query).await?;
        let plan = cast_assigned(plan, def, &all)?;
        let batch = run_to_end(&state, &plan).await?;
        let rows = row_identities(&batch).values().iter().copied().map(RowAddress::from_raw).collect();
        let given = all.iter().zip(&batch.columns()[1..]);
        let cast = given.map(|(&c, array)| Ok((c, load::cast_to(def, c, array)?)));
        let columns = cast.collect::<Result<BTreeMap<u16, ArrayRef>, SqlError>>()?;
        let places = batch.column(batch.num_columns() - 1);
        let places = places.as_any().downcast_ref::<UInt64Array>().expect("places are numbers");
        Ok(Some(Updated { rows, assigned, columns, checks, places: places.values().to_vec() }))
    }

    /// What DO UPDATE assigns; `None` for DO NOTHING.
    ///
    /// # Errors
    /// When a column is not there, or is assigned twice.
    pub(crate) fn assignments(
        &self,
        table: &Table,
        alias: Option<&Ident>,
    ) -> Result<Option<Assignments>, SqlError> {
        let Some(update) = &self.update else { return Ok(None) };
        let (found, set) = self.query(update, table, alias)?;
        let alias = found.alias();
        let SetExpr::Select(select) = *found.query.body else { unreachable!("it was made so") };
        let values = select.projection.into_iter().skip(1).map(|item| match item {
            SelectItem::ExprWithAlias { expr, .. } => expr,
            _ => unreachable!("it was made so"),
        });
        let (values, condition) = (values.collect(), update.selection.clone());
        Ok(Some(Assignments { alias, set, values, condition }))
    }

    /// DO UPDATE as the query of an UPDATE: `UPDATE t SET ... FROM proposed AS excluded WHERE places are equal AND ...`.
    fn query(
        &self,
        update: &DoUpdate,
        table: &Table,
        alias: Option<&Ident>,
    ) -> Result<(RowQuery, Vec<u16>), SqlError> {
        let alias = alias.cloned().unwrap_or_else(|| Ident::with_quote('"', split(table.name()).1));
        let excluded = Ident::new("excluded");
        let place = |of: &Ident| Expr::CompoundIdentifier(vec![of.clone(), Ident::with_quote('"', PLACE)]);
        let belongs = Expr::BinaryOp {
            left: Box::new(place(&alias)),
            op: BinaryOperator::Eq,
            right: Box::new(place(&excluded)),
        };
        let selection = match &update.selection {
            None => belongs,
            Some(condition) => Expr::BinaryOp {
                left: Box::new(belongs),
                op: BinaryOperator::And,
                right: Box::new(Expr::Nested(Box::new(condition.clone()))),
            },
        };
        let name = |name: &str| ObjectName::from(vec![Ident::with_quote('"', name)]);
        let of =
            |ident: &Ident| TableAlias { explicit: true, name: ident.clone(), columns: Vec::new(), at: None };
        let assignments: Vec<Assignment> = update.assignments.clone();
        let as_update: Update = rewrite::update_of(
            rewrite::named(name(table.name()), Some(of(&alias)))?,
            assignments,
            Some(rewrite::named(name(PROPOSED), Some(of(&excluded)))?),
            Some(selection),
        );
        let found = rewrite::update(&*super::assigned(&as_update, table)?)?;
        let columns = column_numbers(table, &found.assigned)?;
        Ok((found, columns))
    }
}

/// What DO UPDATE assigns.
pub(crate) struct Assignments {
    /// The name by which its expressions know the row of the table.
    pub(crate) alias: Ident,
    /// The columns that it assigns.
    pub(crate) set: Vec<u16>,
    /// Their values, over the row and the proposed one.
    pub(crate) values: Vec<Expr>,
    pub(crate) condition: Option<Expr>,
}

/// The rows that DO UPDATE changes.
pub(super) struct Updated {
    pub(super) rows: Vec<RowAddress>,
    /// The columns that are assigned.
    assigned: Vec<u16>,
    /// All columns, with the assigned values.
    pub(super) columns: BTreeMap<u16, ArrayRef>,
    checks: Checks,
    /// The proposed row of each.
    pub(super) places: Vec<u64>,
}

impl Updated {
    /// Changes the rows. Its columns are then as the rows have them.
    pub(super) fn apply(&mut self, txn: &mut WriteTxn, table: &Table) -> Result<u64, SqlError> {
        set(txn, table, &self.rows, &self.assigned, &mut self.columns, &self.checks)
    }
}

impl Resolved {
    /// The proposed rows that are inserted, and their places.
    pub(crate) fn inserted(
        &self,
        columns: &BTreeMap<u16, ArrayRef>,
    ) -> Result<(BTreeMap<u16, ArrayRef>, Vec<u64>), SqlError> {
        let kept = columns.iter().map(|(&c, array)| Ok((c, filter(array, &self.inserted)?)));
        let places = (0u64..).zip(self.inserted.iter()).filter(|(_, i)| *i == Some(true)).map(|(p, _)| p);
        Ok((kept.collect::<Result<_, SqlError>>()?, places.collect()))
    }
}

/// The keys that a target asks for.
///
/// # Errors
/// 42P10 if there is none.
fn keys_of(target: &Target, table: &Table) -> Result<Vec<Vec<u16>>, SqlError> {
    let sorted = |columns: &[u16]| {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        columns
    };
    let wanted = target.columns.as_deref().map(sorted);
    let is_asked_for = |key: &&[u16]| {
        let first = &table.def().columns[usize::from(key[0])];
        let columns = match first.hidden {
            Some(Hidden::Condition) if !target.implies(hidden_columns::condition(first)) => return false,
            Some(Hidden::Condition) => &key[1..],
            _ => key,
        };
        wanted.as_ref() == Some(&sorted(columns))
    };
    let found: Vec<Vec<u16>> =
        table.keys().map(|(_, key)| key).filter(is_asked_for).map(<[u16]>::to_vec).collect();
    match found.is_empty() {
        false => Ok(found),
        true => {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
            Err(SqlError::failed(state::INVALID_COLUMN_REFERENCE, message))
        }
    }
}

fn in_memory(schema: Schema, columns: Vec<ArrayRef>) -> Result<Arc<dyn TableProvider>, SqlError> {
    let schema = Arc::new(schema);
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

fn twice() -> SqlError {
    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::failed(state::CARDINALITY_VIOLATION, message)
}
