//! ON CONFLICT of a short INSERT.
//!
//! ```text
//!   ON CONFLICT (a) DO UPDATE SET n = t.n + excluded.n WHERE t.n < $1
//!      ─► t.n + excluded.n, t.n < $1   over   columns of the row (t), columns of the proposed row (excluded), parameters
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{EmptyRelation, Expr, ExprSchemable, LogicalPlan, Projection, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident, OnConflict};
use lode_engine::{RowAddress, Snapshot, Table};
use lode_page::DataType as LodeType;

use super::computed::{columns, evaluated, passed};
use super::expressions::Parameters;
use super::logical::{is_settled, without_common_parts};
use super::moment::with_moment;
use super::parameters::{parameter_column, parameter_name};
use crate::SqlError;
use crate::arrow_convert::arrow_type;
use crate::dml::{Checks, Conflict, cast_assigned};
use crate::statement::fold;

/// The name of the row that was proposed.
const EXCLUDED: &str = "excluded";

/// ON CONFLICT, as the planner understands it.
pub(super) struct UpsertPlan {
    conflict: Conflict,
    update: Option<UpdatePlan>,
    /// Whether DO UPDATE looks at the moment of the statement.
    pub(super) has_moment: bool,
}

struct UpdatePlan {
    set: Vec<u16>,
    alias: TableReference,
    values: Vec<Expr>,
    condition: Option<Expr>,
}

impl UpsertPlan {
    /// The plan of ON CONFLICT of an INSERT into `table`; `None` if it is more than expressions over the two rows.
    ///
    /// # Errors
    /// Those of planning.
    pub(super) fn of(
        state: &SessionState,
        table: &Table,
        on: &OnConflict,
        alias: Option<&Ident>,
        types: &[LodeType],
    ) -> Result<Option<Self>, SqlError> {
        let conflict = Conflict::of(on, table)?;
        let Some(assignments) = conflict.assignments(table, alias)? else {
            return Ok(Some(Self { conflict, update: None, has_moment: false }));
        };
        let alias = TableReference::bare(fold(&assignments.alias));
        let all: Vec<u16> = table.def().live_columns().collect();
        let seen = seen(table, &alias, &all, &all, types)?;
        let planned = |e: SqlExpr| -> Result<Expr, SqlError> {
            Ok(with_parameter_columns(state.create_logical_expr(&e.to_string(), &seen)?))
        };
        let mut exprs = vec![lit(0i64).alias("__lode_row")];
        let assigned = assignments.values.len();
        for (i, e) in assignments.values.into_iter().enumerate() {
            exprs.push(planned(e)?.alias(format!("__lode_new_{i}")));
        }
        let has_condition = assignments.condition.is_some();
        if let Some(e) = assignments.condition {
            exprs.push(planned(e)?.alias("__lode_condition"));
        }
        let nothing = EmptyRelation { produce_one_row: true, schema: Arc::new(seen) };
        let nothing = Arc::new(LogicalPlan::EmptyRelation(nothing));
        let logical = LogicalPlan::Projection(Projection::try_new(exprs, nothing)?);
        let logical = cast_assigned(logical, table.def(), &assignments.set)?;
        let (logical, has_moment) = with_moment(state, logical, types.len())?;
        let aggregates = |e: &Expr| e.exists(|e| Ok(matches!(e, Expr::AggregateFunction(_))));
        let is_of_row =
            |node: &LogicalPlan| node.expressions().iter().all(|e| !aggregates(e).unwrap_or(true));
        if !is_settled(&logical, false)? || !is_of_row(&logical) {
            return Ok(None);
        }
        let LogicalPlan::Projection(p) = without_common_parts(state).optimize(&logical)? else {
            return Ok(None);
        };
        if !matches!(p.input.as_ref(), LogicalPlan::EmptyRelation(_)) {
            return Ok(None);
        }
        let mut values: Vec<Expr> =
            p.expr.iter().skip(1).map(|e| with_parameter_columns(e.clone().unalias())).collect();
        let condition = if has_condition { values.pop() } else { None };
        if let Some(condition) = &condition
            && condition.get_type(&DFSchema::clone(p.input.schema())).ok() != Some(DataType::Boolean)
        {
            return Ok(None);
        }
        debug_assert_eq!(values.len(), assigned);
        let update = UpdatePlan { set: assignments.set, alias, values, condition };
        Ok(Some(Self { conflict, update: Some(update), has_moment }))
    }

    /// The same, ready to be evaluated. `wanted`: columns of the rows that RETURNING looks at.
    pub(super) fn made(
        self,
        state: &SessionState,
        table: &Table,
        checks: &Checks,
        wanted: &[u16],
        parameters: &Parameters,
    ) -> Result<Upsert, SqlError> {
        let update = self.update.map(|u| u.made(state, table, checks, wanted, parameters)).transpose()?;
        Ok(Upsert { conflict: self.conflict, update })
    }
}

impl UpdatePlan {
    fn made(
        self,
        state: &SessionState,
        table: &Table,
        checks: &Checks,
        wanted: &[u16],
        parameters: &Parameters,
    ) -> Result<DoUpdate, SqlError> {
        let Self { set, alias, values, condition } = self;
        let others = checks.others_with(&set, wanted);
        let (mut row, mut proposed) = (others.clone(), Vec::new());
        for e in values.iter().chain(&condition) {
            for c in e.column_refs() {
                let (Some(of), Some(n)) = (&c.relation, table.column(&c.name)) else { continue };
                let columns = if *of == alias { &mut row } else { &mut proposed };
                columns.push(n);
            }
        }
        for columns in [&mut row, &mut proposed] {
            columns.sort_unstable();
            columns.dedup();
        }
        let df = seen(table, &alias, &row, &proposed, &parameters.types)?;
        let physical = |e: Expr| Ok::<_, SqlError>(state.create_physical_expr(e, &df)?);
        let values = values.into_iter().map(physical).collect::<Result<Vec<_>, _>>()?;
        let condition = condition.map(physical).transpose()?;
        let seen: SchemaRef = Arc::new(Schema::clone(df.as_arrow()));
        Ok(DoUpdate { set, others, row, proposed, values, condition, seen })
    }
}

/// What DO UPDATE sees: columns of the row, columns of the proposed row, and the parameters.
fn seen(
    table: &Table,
    alias: &TableReference,
    row: &[u16],
    proposed: &[u16],
    types: &[LodeType],
) -> Result<DFSchema, SqlError> {
    let of = |relation: TableReference| {
        move |&c: &u16| {
            let c = &table.def().columns[usize::from(c)];
            (Some(relation.clone()), Arc::new(Field::new(&c.name, arrow_type(c.ty.data_type), true)))
        }
    };
    let parameters = types
        .iter()
        .enumerate()
        .map(|(i, &t)| (None, Arc::new(Field::new(parameter_name(i, 0), arrow_type(t), true))));
    let fields = row.iter().map(of(alias.clone()));
    let fields = fields.chain(proposed.iter().map(of(TableReference::bare(EXCLUDED)))).chain(parameters);
    Ok(DFSchema::new_with_metadata(fields.collect(), Default::default())?)
}

/// The expression with columns in the place of its parameters.
fn with_parameter_columns(e: Expr) -> Expr {
    let replaced = e.clone().transform_up(|e| {
        Ok(match &e {
            Expr::Placeholder(p) => match parameter_column(p, 0) {
                Some(column) => Transformed::yes(column),
                None => Transformed::no(e),
            },
            _ => Transformed::no(e),
        })
    });
    replaced.map_or(e, |t| t.data)
}

/// ON CONFLICT of a short INSERT.
pub(super) struct Upsert {
    pub(super) conflict: Conflict,
    pub(super) update: Option<DoUpdate>,
}

/// DO UPDATE.
pub(super) struct DoUpdate {
    /// The columns that it assigns.
    pub(super) set: Vec<u16>,
    /// Other columns of the row that must be known.
    others: Vec<u16>,
    /// The columns of the row that are read.
    row: Vec<u16>,
    /// The columns of the proposed row that it looks at.
    proposed: Vec<u16>,
    /// The new values of `set`.
    values: Vec<Arc<dyn PhysicalExpr>>,
    condition: Option<Arc<dyn PhysicalExpr>>,
    /// What expressions see: `row`, `proposed`, the parameters.
    seen: SchemaRef,
}

/// The rows that DO UPDATE changes.
pub(super) struct Updated {
    pub(super) rows: Vec<RowAddress>,
    /// Columns of them, with their new values.
    pub(super) known: BTreeMap<u16, ArrayRef>,
    /// The proposed row of each.
    pub(super) places: Vec<u64>,
}

impl DoUpdate {
    /// The rows of `conflicting` that the condition passes, with their new values; `None` if an expression cannot be evaluated.
    pub(super) fn updated(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        conflicting: &[(RowAddress, usize)],
        proposed: &BTreeMap<u16, ArrayRef>,
        parameters: &[ScalarValue],
    ) -> Result<Option<Updated>, SqlError> {
        let values = conflicting.iter().map(|(row, _)| Ok(snapshot.row_values(table, *row, &self.row)?));
        let values = values.collect::<Result<Vec<_>, SqlError>>()?;
        let mut seen = columns(table, &self.row, &values)?.columns;
        let places: UInt64Array = conflicting.iter().map(|(_, place)| *place as u64).collect();
        for c in &self.proposed {
            seen.push(take(&proposed[c], &places, None)?);
        }
        for parameter in parameters {
            let Ok(array) = parameter.to_array_of_size(conflicting.len()) else { return Ok(None) };
            seen.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(conflicting.len()));
        let Ok(mut batch) = RecordBatch::try_new_with_options(self.seen.clone(), seen, &options) else {
            return Ok(None);
        };
        let mut rows: Vec<(RowAddress, u64)> =
            conflicting.iter().map(|(row, place)| (*row, *place as u64)).collect();
        if let Some(condition) = &self.condition {
            let Some(passed) = passed(condition, &batch) else { return Ok(None) };
            let mut each = passed.values().iter();
            rows.retain(|_| each.next().unwrap_or(false));
            let kept = batch.columns().iter().map(|c| Ok(filter(c, &passed)?));
            let kept = kept.collect::<Result<Vec<_>, SqlError>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            batch = RecordBatch::try_new_with_options(self.seen.clone(), kept, &options)?;
        }
        let mut known = BTreeMap::new();
        for (&c, value) in self.set.iter().zip(&self.values) {
            let Some(value) = evaluated(value, &batch) else { return Ok(None) };
            known.insert(c, value);
        }
        for c in &self.others {
            let at = self.row.iter().position(|n| n == c).expect("other columns are read");
            known.insert(*c, batch.column(at).clone());
        }
        let (rows, places) = rows.into_iter().unzip();
        Ok(Some(Updated { rows, known, places }))
    }
}
