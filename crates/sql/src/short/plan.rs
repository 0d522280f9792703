//! What a short statement does, from the plan that DataFusion makes of it.
//!
//! ```text
//!   query of the statement's values ─► DataFusion's plan, optimized
//!      Projection: a, v + $1          ─► outputs: columns of the row, or expressions over it and the parameters
//!      Filter, TableScan: id = $2     ─► the values of a whole key, or a range (conditions.rs, access.rs)
//!      Sort, Limit, Aggregate         ─► DataFusion's operators over the rows that were found (rest.rs)
//!      anything else                  ─► not short
//! ```
//!
//! The planner decides what an expression means, and DataFusion's own expressions are evaluated. So a short statement
//! has the types, the values and the errors of the general path.
//!
//! Invariant: a plan is used only where the table has the definition and the indexes for which it was made.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    FromTable, Ident, OnInsert, SelectItem, Statement as Sql, TableFactor,
};
use lode_engine::{Few, Snapshot, Table};
use parking_lot::Mutex;

use super::access::{Access, ChosenRange, JOINED_ROWS_MAX, Joined, Wanted};
use super::computed::{Computed, evaluated};
use super::conditions::{Conditions, NotShort, Steps};
use super::expressions::{Expressions, Names, Parameters};
use super::logical::{Parts, is_settled, typed_plan, without_common_parts};
use super::moment::{MOMENT, with_moment};
use super::rest::{Rest, Tree};
use super::returning::{Returning, ReturningPlan};
use super::upsert::{Upsert, UpsertPlan};
use super::values::{KeyValue, key_value};
use crate::dml::{self, Checks};
use crate::numbers::SequenceSession;
use crate::statement::ShortShape as Shape;
use crate::{Session, SqlError};

/// What DataFusion's plan says of a statement.
pub(super) enum Planned {
    Short(Arc<ShortPlan>),
    /// The statement is not short, as long as the table is as it is.
    Not,
    /// Its plan depends on its literals.
    ByLiterals,
}

impl From<NotShort> for Planned {
    fn from(not: NotShort) -> Self {
        match not {
            NotShort::Not => Self::Not,
            NotShort::ByLiterals => Self::ByLiterals,
        }
    }
}

/// A short statement, planned.
pub(super) struct ShortPlan {
    /// The table as the plan was last found to fit it.
    table: Mutex<Arc<Table>>,
    pub(super) action: Action,
    pub(super) access: Access,
    /// Which scan of the plan the table is.
    pub(super) leaf: usize,
    /// Tables that are joined, in the order in which they are read.
    pub(super) joined: Vec<Joined>,
    /// SELECT: columns of the result. UPDATE: new values, then the old ones that CHECKs and RETURNING look at. DELETE: the columns that
    /// RETURNING looks at. INSERT: all columns of the first row, then those of the next.
    pub(super) computed: Computed,
    pub(super) returning: Option<Returning>,
    /// Whether the last parameter is the moment of the statement, which the statement does not give.
    pub(super) has_moment: bool,
}

pub(super) enum Action {
    Select {
        schema: SchemaRef,
        rest: Option<Rest>,
    },
    Insert {
        columns: usize,
        checks: Checks,
        /// Where it takes numbers of sequences from, if it does.
        numbers: Option<SequenceSession>,
        upsert: Option<Box<Upsert>>,
    },
    Update {
        set: Vec<u16>,
        others: Vec<u16>,
        checks: Checks,
    },
    /// The columns that RETURNING looks at.
    Delete(Vec<u16>),
}

impl ShortPlan {
    /// The table at `snapshot`, if the plan is for its definition.
    pub(super) fn table(&self, snapshot: &Snapshot) -> Option<Arc<Table>> {
        table_now(&self.table, snapshot)
    }

    /// What a column is compared with, as a value of the column; `None` if it is not certain.
    pub(super) fn value(&self, wanted: &Wanted, parameters: &[ScalarValue]) -> Option<KeyValue> {
        Some(match wanted {
            Wanted::Parameter(i, t) => key_value(&parameters[*i], *t),
            Wanted::Constant(v, t) => key_value(v, *t),
            Wanted::Expression(e, t) => {
                let batch = self.computed.seen_batch(None, parameters)?;
                let value = ScalarValue::try_from_array(&evaluated(e, &batch)?, 0).ok()?;
                key_value(&value, *t)
            }
            Wanted::Joined(_) => return None,
        })
    }
}

/// A table at `snapshot`, if it has the definition for which a plan was made.
pub(super) fn table_now(planned: &Mutex<Arc<Table>>, snapshot: &Snapshot) -> Option<Arc<Table>> {
    let mut planned = planned.lock();
    let now = snapshot.table(planned.name())?;
    if !Arc::ptr_eq(&planned, &now) {
        if !is_same_definition(&planned, &now) {
            return None;
        }
        *planned = now.clone();
    }
    Some(now)
}

/// Whether statements on one of these tables mean the same on the other.
pub(crate) fn is_same_definition(a: &Table, b: &Table) -> bool {
    a.id() == b.id() && a.def() == b.def() && a.indexes() == b.indexes()
}

/// Plans a statement at `snapshot`, where its table is there.
///
/// # Errors
/// Those of planning. The general path reports them as they should be.
pub(super) async fn planned(
    session: &Session,
    snapshot: &Snapshot,
    tables: &[Arc<Table>],
    shape: &Shape,
) -> Result<Planned, SqlError> {
    let [table, ..] = tables else { return Ok(Planned::Not) };
    let target = matches!(shape.statement, Sql::Update(_) | Sql::Delete(_)).then(|| table.clone());
    let state = session.state_at(snapshot.clone(), target);
    let of_query = |query| typed_plan(&state, Sql::Query(query), &shape.types);
    let returning = match returned(&shape.statement) {
        None => None,
        Some((items, alias)) => {
            let plan = ReturningPlan::of(session, snapshot, table, shape, items, alias.as_ref()).await?;
            let Some(plan) = plan else { return Ok(Planned::Not) };
            Some(plan)
        }
    };
    let wanted: &[u16] = returning.as_ref().map_or(&[], |plan| &plan.inputs);
    let mut upsert = None;
    let (logical, action, skipped) = match &shape.statement {
        Sql::Query(query) => {
            let schema = Arc::new(Schema::empty());
            (of_query(query.clone()).await?, Action::Select { schema, rest: None }, 0)
        }
        Sql::Update(update) => {
            let mut found = dml::rewrite_update(&*dml::assigned(update, table)?)?;
            let set = dml::column_numbers(table, &found.assigned)?;
            let checks = Checks::of(&state, table.def())?;
            let others = checks.others_with(&set, wanted);
            found.also_select(names_of(table, &others));
            let all: Vec<u16> = set.iter().chain(&others).copied().collect();
            let logical = dml::cast_assigned(of_query(found.query).await?, table.def(), &all)?;
            (logical, Action::Update { set, others, checks }, 1)
        }
        Sql::Delete(delete) => {
            let mut found = dml::rewrite_delete(delete)?;
            found.also_select(names_of(table, wanted));
            (of_query(found.query).await?, Action::Delete(wanted.to_vec()), 1)
        }
        Sql::Insert(insert) => {
            if let Some(OnInsert::OnConflict(on)) = &insert.on {
                let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
                upsert = UpsertPlan::of(&state, table, on, alias, &shape.types)?;
                if upsert.is_none() {
                    return Ok(Planned::Not);
                }
            }
            let insert = dml::filled(insert, table)?;
            let Some(values) = dml::ValuesQuery::of(&insert, table)? else { return Ok(Planned::Not) };
            let logical = values.cast(of_query(values.query()).await?, table)?;
            let checks = Checks::of(&state, table.def())?;
            let columns = table.def().columns.len();
            let numbers = table.def().columns.iter().any(|c| c.fill.sequence().is_some());
            let numbers = numbers.then(|| session.kept().of());
            (logical, Action::Insert { columns, checks, numbers, upsert: None }, 1)
        }
        _ => return Ok(Planned::Not),
    };
    let (logical, mut has_moment) = with_moment(&state, logical, shape.types.len())?;
    has_moment |= returning.as_ref().is_some_and(|plan| plan.has_moment);
    has_moment |= upsert.as_ref().is_some_and(|plan| plan.has_moment);
    let inserts = matches!(action, Action::Insert { .. });
    if !is_settled(&logical, inserts)? {
        return Ok(Planned::Not);
    }
    let of = Parameters {
        types: shape.types.iter().copied().chain(has_moment.then_some(MOMENT)).collect(),
        has_moment,
    };
    let optimized = without_common_parts(&state).optimize(&logical)?;
    let action = match action {
        Action::Select { .. } => {
            let schema = Arc::new(optimized.schema().as_arrow().clone());
            let schema = shape.names.as_ref().map_or_else(|| schema.clone(), |names| names.name(&schema));
            Action::Select { schema, rest: None }
        }
        Action::Insert { columns, checks, numbers, .. } => {
            let made = |plan: UpsertPlan| plan.made(&state, table, &checks, wanted, &of).map(Box::new);
            let upsert = upsert.map(made).transpose()?;
            Action::Insert { columns, checks, numbers, upsert }
        }
        other => other,
    };
    let returning = returning.map(|plan| plan.made(&state, table, &of)).transpose()?;
    match (Parts::of(&optimized, table.name()), action) {
        (Some(parts), action) if tables.len() == 1 => {
            short_plan(&state, table, of, (action, returning), parts, skipped)
        }
        (_, Action::Select { schema, .. }) => rest_plan(&state, tables, of, &schema, &optimized).await,
        _ => Ok(Planned::Not),
    }
}

/// What RETURNING of a statement asks for, and the name by which it knows the table, if it is not the table's own.
fn returned(statement: &Sql) -> Option<(&[SelectItem], Option<Ident>)> {
    let alias = |table: &TableFactor| match table {
        TableFactor::Table { alias: Some(alias), .. } => Some(alias.name.clone()),
        _ => None,
    };
    match statement {
        Sql::Insert(insert) => {
            Some((insert.returning.as_ref()?, insert.table_alias.as_ref().map(|a| a.alias.clone())))
        }
        Sql::Update(update) => Some((update.returning.as_ref()?, alias(&update.table.relation))),
        Sql::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            Some((delete.returning.as_ref()?, alias(&from.first()?.relation)))
        }
        _ => None,
    }
}

fn names_of<'a>(table: &'a Table, columns: &[u16]) -> impl Iterator<Item = &'a str> {
    columns.iter().map(|&c| table.def().columns[usize::from(c)].name.as_str())
}

/// The plan of a statement that computes columns of its rows.
fn short_plan(
    state: &SessionState,
    table: &Arc<Table>,
    parameters: Parameters,
    (action, returning): (Action, Option<Returning>),
    parts: Parts,
    skipped: usize,
) -> Result<Planned, SqlError> {
    let mut names = Names::of(table);
    let outputs = parts.outputs.into_iter().skip(skipped).map(|e| names.bare(e));
    let Some(outputs) = outputs.collect::<Option<Vec<Expr>>>() else { return Ok(Planned::Not) };
    let conditions = match &action {
        Action::Insert { .. } => None,
        _ => match Conditions::of(table, &parts.conditions) {
            Ok(conditions) => Some(conditions),
            Err(not) => return Ok(not.into()),
        },
    };
    let residual = conditions.iter().flat_map(|c| c.residual.iter().cloned()).map(|e| names.bare(e));
    let Some(residual) = residual.collect::<Option<Vec<Expr>>>() else { return Ok(Planned::Not) };
    let made = Expressions::new(state, table, names.inputs, &parameters)?;
    let access = match conditions.map(|c| c.found) {
        None => Access::None,
        Some(found) => {
            let residual = residual.into_iter().map(|e| made.physical(e)).collect::<Result<Vec<_>, _>>()?;
            match made.access(table, found, residual)? {
                Some(access) => access,
                None => return Ok(Planned::Not),
            }
        }
    };
    let computed = made.computed(table, outputs)?;
    let (leaf, joined, has_moment) = (0, Vec::new(), parameters.has_moment);
    let table = Mutex::new(table.clone());
    let plan = ShortPlan { table, action, access, leaf, joined, computed, returning, has_moment };
    Ok(Planned::Short(Arc::new(plan)))
}

/// The plan of a SELECT that joins, sorts, counts or sums its rows, or wants the first of them.
async fn rest_plan(
    state: &SessionState,
    tables: &[Arc<Table>],
    parameters: Parameters,
    schema: &SchemaRef,
    optimized: &LogicalPlan,
) -> Result<Planned, SqlError> {
    let Some(tree) = Tree::of(optimized, tables) else { return Ok(Planned::Not) };
    let steps = match Steps::of(&tree) {
        Ok(steps) => steps,
        Err(not) => return Ok(not.into()),
    };
    let first = &steps.ranges[steps.order[0]];
    let few = tree.few(first);
    if !first.is_narrow() && matches!(few, Few::All(_)) {
        return Ok(Planned::Not);
    }
    let Some(rest) = Rest::of(state, &tree, &parameters.types, &steps.ranges).await else {
        return Ok(Planned::Not);
    };
    let Steps { order, ranges } = steps;
    let leaf = order[0];
    let table = &tree.sources[leaf].table;
    let made = Expressions::new(state, table, rest.leaves[leaf].inputs.clone(), &parameters)?;
    let mut ranges: Vec<Option<ChosenRange>> = ranges.into_iter().map(Some).collect();
    let mut taken = |leaf: usize| ranges[leaf].take().expect("each source is read once");
    let Some(access) = made.range(table, taken(leaf), few, Vec::new())? else {
        return Ok(Planned::Not);
    };
    let mut joined = Vec::new();
    for &leaf in &order[1..] {
        let table = &tree.sources[leaf].table;
        let few = Few::All(JOINED_ROWS_MAX);
        let Some(range) = made.range(table, taken(leaf), few, Vec::new())? else { return Ok(Planned::Not) };
        joined.push(Joined { leaf, table: Mutex::new(table.clone()), range });
    }
    let computed = made.computed(table, Vec::new())?;
    let action = Action::Select { schema: schema.clone(), rest: Some(rest) };
    let table = Mutex::new(table.clone());
    let access = Access::Range(Box::new(access));
    let has_moment = parameters.has_moment;
    let plan = ShortPlan { table, action, access, leaf, joined, computed, returning: None, has_moment };
    Ok(Planned::Short(Arc::new(plan)))
}
