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

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as ColumnName, DFSchema, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Expr, LogicalPlan, Operator, Projection, Statement as PlannedStatement, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Ident, Statement as Sql};
use lode_engine::{Few, Snapshot, Table};
use lode_page::DataType;
use parking_lot::Mutex;

use super::access::{
    Access, ChosenRange, Comparison, JOINED_ROWS_MAX, Joined, JoinedColumn, Pause, ROWS_MAX, RangeAccess,
    Wanted,
};
use super::conditions::{Conditions, Found, Steps};
use super::moment::{MOMENT, with_moment};
use super::parameters::{parameter_column, parameter_of};
use super::rest::{Rest, Tree, seen};
use super::values::{KeyValue, key_value};
use crate::dml::{self, Checks};
use crate::names::{TARGET, referenced};
use crate::numbers::{NEXT_BY_ID, SequenceSession};
use crate::session::plan;
use crate::statement::ShortShape as Shape;
use crate::types::sql_type;
use crate::{Session, SqlError};

/// What DataFusion's plan says of a statement.
pub(super) enum Planned {
    Short(Arc<ShortPlan>),
    /// The statement is not short, as long as the table is as it is.
    Not,
    /// Its plan depends on its literals.
    ByLiterals,
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
    /// The columns of the row that are read.
    pub(super) inputs: Vec<u16>,
    /// SELECT: columns of the result. UPDATE: new values, then the old ones that CHECKs look at. INSERT: all columns of
    /// the first row, then those of the next.
    pub(super) outputs: Vec<Output>,
    /// What expressions see: `inputs`, then the parameters.
    seen: SchemaRef,
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
    },
    Update {
        set: Vec<u16>,
        others: Vec<u16>,
        checks: Checks,
    },
    Delete,
}

pub(super) enum Output {
    /// A column of the row, by its place in `inputs`.
    Input(usize),
    Parameter(usize),
    Expression {
        expression: Arc<dyn PhysicalExpr>,
        /// Whether it looks at the row.
        of_row: bool,
    },
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
                let batch = self.seen_batch(None, parameters)?;
                let value = ScalarValue::try_from_array(&evaluated(e, &batch)?, 0).ok()?;
                key_value(&value, *t)
            }
            Wanted::Joined(_) => return None,
        })
    }

    /// The outputs for some rows; `None` if one cannot be evaluated. Without rows, only those that do not look at them, once.
    pub(super) fn evaluate(
        &self,
        rows: Option<&Rows>,
        parameters: &[ScalarValue],
    ) -> Option<Vec<Option<ArrayRef>>> {
        let count = rows.map_or(1, |rows| rows.count);
        let mut batch = None;
        let each = self.outputs.iter().map(|output| match output {
            Output::Input(i) => Some(rows.map(|rows| rows.columns[*i].clone())),
            Output::Parameter(i) => parameters[*i].to_array_of_size(count).ok().map(Some),
            Output::Expression { of_row: true, .. } if rows.is_none() => Some(None),
            Output::Expression { expression, .. } => {
                if batch.is_none() {
                    batch = Some(self.seen_batch(rows, parameters)?);
                }
                evaluated(expression, batch.as_ref()?).map(Some)
            }
        });
        each.collect()
    }

    /// Which of the rows pass a condition; `None` if it cannot be evaluated.
    pub(super) fn passed(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        rows: &Rows,
        parameters: &[ScalarValue],
    ) -> Option<BooleanArray> {
        let passed = evaluated(condition, &self.seen_batch(Some(rows), parameters)?)?;
        let passed = passed.as_boolean_opt()?;
        Some(if passed.null_count() > 0 { prep_null_mask_filter(passed) } else { passed.clone() })
    }

    /// Whether some output is an expression that does not look at the row.
    pub(super) fn has_constants(&self) -> bool {
        self.outputs.iter().any(|o| matches!(o, Output::Expression { of_row: false, .. }))
    }

    /// What expressions see. Without rows their columns are NULL.
    fn seen_batch(&self, rows: Option<&Rows>, parameters: &[ScalarValue]) -> Option<RecordBatch> {
        match rows {
            Some(rows) => rows.with_parameters(&self.seen, parameters),
            None => {
                let fields = self.seen.fields()[..self.inputs.len()].iter();
                let columns = fields.map(|f| new_null_array(f.data_type(), 1)).collect();
                Rows { count: 1, columns }.with_parameters(&self.seen, parameters)
            }
        }
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

/// Columns of the rows that a statement is about.
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) columns: Vec<ArrayRef>,
}

impl Rows {
    /// The columns, then each parameter as often as there are rows; `None` if they are not those of the schema.
    pub(super) fn with_parameters(
        &self,
        seen: &SchemaRef,
        parameters: &[ScalarValue],
    ) -> Option<RecordBatch> {
        let parameters = parameters.iter().map(|v| v.to_array_of_size(self.count).ok());
        let columns: Option<Vec<ArrayRef>> =
            self.columns.iter().cloned().map(Some).chain(parameters).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        RecordBatch::try_new_with_options(seen.clone(), columns?, &options).ok()
    }
}

fn evaluated(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Option<ArrayRef> {
    // The general path finds the words for what is wrong.
    expression.evaluate(batch).ok()?.into_array(batch.num_rows()).ok()
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
    let (logical, action, skipped) = match &shape.statement {
        Sql::Query(query) => {
            let schema = Arc::new(Schema::empty());
            (of_query(query.clone()).await?, Action::Select { schema, rest: None }, 0)
        }
        Sql::Update(update) => {
            let mut found = dml::rewrite_update(&*dml::assigned(update, table)?)?;
            let set = dml::column_numbers(table, &found.assigned)?;
            let checks = Checks::of(&state, table.def())?;
            let others = checks.others(&set);
            found.also_select(others.iter().map(|&c| table.def().columns[usize::from(c)].name.as_str()));
            let all: Vec<u16> = set.iter().chain(&others).copied().collect();
            let logical = dml::cast_assigned(of_query(found.query).await?, table.def(), &all)?;
            (logical, Action::Update { set, others, checks }, 1)
        }
        Sql::Delete(delete) => (of_query(dml::rewrite_delete(delete)?.query).await?, Action::Delete, 1),
        Sql::Insert(insert) => {
            let insert = dml::filled(insert, table)?;
            let Some(values) = dml::ValuesQuery::of(&insert, table)? else { return Ok(Planned::Not) };
            let logical = values.cast(of_query(values.query()).await?, table)?;
            let checks = Checks::of(&state, table.def())?;
            let columns = table.def().columns.len();
            let numbers = table.def().columns.iter().any(|c| c.fill.sequence().is_some());
            let numbers = numbers.then(|| session.kept().of());
            (logical, Action::Insert { columns, checks, numbers }, 1)
        }
        _ => return Ok(Planned::Not),
    };
    let (logical, has_moment) = with_moment(&state, logical, shape.types.len())?;
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
        other => other,
    };
    match (Parts::of(&optimized, table.name()), action) {
        (Some(parts), action) if tables.len() == 1 => short_plan(&state, table, of, action, parts, skipped),
        (_, Action::Select { schema, .. }) => rest_plan(&state, tables, of, &schema, &optimized).await,
        _ => Ok(Planned::Not),
    }
}

/// The state without the rule that computes common parts of expressions once: a condition would compare such a part, not a column.
fn without_common_parts(state: &SessionState) -> SessionState {
    let rules = state.optimizers().iter().filter(|rule| rule.name() != "common_sub_expression_eliminate");
    SessionStateBuilder::new_from_existing(state.clone())
        .with_optimizer_rules(rules.cloned().collect())
        .build()
}

/// The plan of a statement whose parameters have these types.
async fn typed_plan(state: &SessionState, sql: Sql, types: &[DataType]) -> Result<LogicalPlan, SqlError> {
    if types.is_empty() {
        return plan(state, Parsed::Statement(Box::new(sql))).await;
    }
    let prepare = Sql::Prepare {
        name: Ident::new("short"),
        data_types: types.iter().map(|&t| sql_type(t)).collect(),
        statement: Box::new(sql),
    };
    match plan(state, Parsed::Statement(Box::new(prepare))).await? {
        LogicalPlan::Statement(PlannedStatement::Prepare(p)) => Ok(Arc::unwrap_or_clone(p.input)),
        other => Ok(other),
    }
}

/// Whether the plan means the same at any time: no function in it depends on the moment or on chance, and it has no
/// subquery.
fn is_settled(plan: &LogicalPlan, inserts: bool) -> Result<bool, SqlError> {
    let mut settled = true;
    plan.apply(|node| {
        node.apply_expressions(|e| {
            e.apply(|e| {
                settled &= match e {
                    // An INSERT evaluates the default of a column once for each row.
                    Expr::ScalarFunction(f) if inserts && f.func.name() == NEXT_BY_ID => true,
                    Expr::ScalarFunction(f) => f.func.signature().volatility == Volatility::Immutable,
                    Expr::AggregateFunction(f) => f.func.signature().volatility == Volatility::Immutable,
                    Expr::Column(_)
                    | Expr::Between(_)
                    | Expr::Literal(..)
                    | Expr::Placeholder(_)
                    | Expr::Alias(_)
                    | Expr::Cast(_)
                    | Expr::BinaryExpr(_)
                    | Expr::Negative(_)
                    | Expr::Not(_)
                    | Expr::IsNull(_)
                    | Expr::IsNotNull(_)
                    | Expr::Case(_) => true,
                    _ => false,
                };
                Ok(if settled { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    })?;
    Ok(settled)
}

/// The parameters of a plan.
struct Parameters {
    types: Vec<DataType>,
    has_moment: bool,
}

/// The parts of an optimized plan of the simplest kind.
struct Parts {
    outputs: Vec<Expr>,
    conditions: Vec<Expr>,
}

impl Parts {
    /// Projection, conditions and a scan of the table, or of nothing; `None` for any other plan.
    fn of(plan: &LogicalPlan, table: &str) -> Option<Self> {
        let (mut outputs, mut conditions) = (None, Vec::new());
        let mut node = plan;
        loop {
            node = match node {
                LogicalPlan::Projection(p) if outputs.is_none() && conditions.is_empty() => {
                    outputs = Some(p.expr.clone());
                    &p.input
                }
                // It leaves out columns that only the conditions need, or names common parts of the outputs.
                LogicalPlan::Projection(p) if conditions.is_empty() => {
                    outputs = Some(composed(outputs?, p)?);
                    &p.input
                }
                LogicalPlan::Filter(f) => {
                    conditions.extend(split_conjunction(&f.predicate).into_iter().cloned());
                    &f.input
                }
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                LogicalPlan::TableScan(scan) => {
                    let name = referenced(&scan.table_name);
                    if scan.fetch.is_some() || name != table && name != TARGET {
                        return None;
                    }
                    conditions.extend(scan.filters.iter().flat_map(|f| split_conjunction(f)).cloned());
                    break;
                }
                LogicalPlan::EmptyRelation(e) if e.produce_one_row && conditions.is_empty() => break,
                _ => return None,
            };
        }
        let all = || plan.schema().iter().map(|(q, f)| Expr::Column(ColumnName::from((q, f)))).collect();
        Some(Self { outputs: outputs.unwrap_or_else(all), conditions })
    }
}

/// The outputs over the input of a projection, instead of over the projection.
fn composed(outputs: Vec<Expr>, below: &Projection) -> Option<Vec<Expr>> {
    let mut by_name = HashMap::new();
    for (field, e) in below.schema.fields().iter().zip(&below.expr) {
        if by_name.insert(field.name().as_str(), e.clone().unalias()).is_some() {
            return None;
        }
    }
    let composed = outputs.into_iter().map(|e| {
        let mut known = true;
        let e = e.transform_up(|e| {
            let Expr::Column(c) = &e else { return Ok(Transformed::no(e)) };
            match by_name.get(c.name.as_str()) {
                // What stands in its place is not looked at again.
                Some(below) => Ok(Transformed::yes(below.clone())),
                None => {
                    known = false;
                    Ok(Transformed::no(e))
                }
            }
        });
        e.ok().map(|t| t.data).filter(|_| known)
    });
    composed.collect()
}

/// The plan of a statement that computes columns of its rows.
fn short_plan(
    state: &SessionState,
    table: &Arc<Table>,
    parameters: Parameters,
    action: Action,
    parts: Parts,
    skipped: usize,
) -> Result<Planned, SqlError> {
    let mut names = Names { table, inputs: Vec::new() };
    let outputs = parts.outputs.into_iter().skip(skipped).map(|e| names.bare(e));
    let Some(outputs) = outputs.collect::<Option<Vec<Expr>>>() else { return Ok(Planned::Not) };
    let conditions = match &action {
        Action::Insert { .. } => None,
        _ => match Conditions::of(table, &parts.conditions) {
            Ok(conditions) => Some(conditions),
            Err(not) => return Ok(not),
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
    let outputs = outputs.into_iter().map(|e| {
        if let Some(i) = parameter_of(&e) {
            return Ok(Output::Parameter(i));
        }
        if let Expr::Column(c) = &e
            && let Some(i) = made.inputs.iter().position(|&n| table.column(&c.name) == Some(n))
        {
            return Ok(Output::Input(i));
        }
        let of_row = e.column_refs().iter().any(|c| table.column(&c.name).is_some());
        Ok(Output::Expression { expression: made.physical(e)?, of_row })
    });
    let outputs = outputs.collect::<Result<Vec<_>, SqlError>>()?;
    let (table, Expressions { inputs, seen, .. }) = (Mutex::new(table.clone()), made);
    let (leaf, joined, has_moment) = (0, Vec::new(), parameters.has_moment);
    let plan = ShortPlan { table, action, access, leaf, joined, inputs, outputs, seen, has_moment };
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
        Err(not) => return Ok(not),
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
    let Expressions { inputs, seen, .. } = made;
    let action = Action::Select { schema: schema.clone(), rest: Some(rest) };
    let (table, outputs) = (Mutex::new(table.clone()), Vec::new());
    let access = Access::Range(Box::new(access));
    let has_moment = parameters.has_moment;
    let plan = ShortPlan { table, action, access, leaf, joined, inputs, outputs, seen, has_moment };
    Ok(Planned::Short(Arc::new(plan)))
}

/// What expressions over the rows and the parameters are made with.
struct Expressions<'a> {
    state: &'a SessionState,
    inputs: Vec<u16>,
    seen: SchemaRef,
    df: DFSchema,
}

impl<'a> Expressions<'a> {
    fn new(
        state: &'a SessionState,
        table: &Table,
        inputs: Vec<u16>,
        parameters: &Parameters,
    ) -> Result<Self, SqlError> {
        let seen = seen(table, &inputs, &parameters.types, 0);
        let df = DFSchema::try_from(seen.as_ref().clone())?;
        Ok(Self { state, inputs, seen, df })
    }

    fn physical(&self, e: Expr) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
        Ok(self.state.create_physical_expr(e, &self.df)?)
    }

    /// The value of a comparison; `None` if it is more than values and parameters.
    fn wanted(&self, table: &Table, comparison: Comparison) -> Result<Option<Wanted>, SqlError> {
        if let Some(joined) = JoinedColumn::of_expr(&comparison.value) {
            return Ok(Some(Wanted::Joined(joined)));
        }
        let t = table.schema().columns[usize::from(comparison.column)].data_type;
        let mut names = Names { table, inputs: Vec::new() };
        let Some(value) = names.bare(comparison.value) else { return Ok(None) };
        Ok(Some(match value {
            Expr::Literal(value, _) => Wanted::Constant(value, t),
            value => match parameter_of(&value) {
                Some(i) => Wanted::Parameter(i, t),
                None => Wanted::Expression(self.physical(value)?, t),
            },
        }))
    }

    fn all_wanted(
        &self,
        table: &Table,
        comparisons: Vec<Comparison>,
    ) -> Result<Option<Vec<Wanted>>, SqlError> {
        comparisons.into_iter().map(|c| self.wanted(table, c)).collect()
    }

    fn access(
        &self,
        table: &Table,
        found: Found,
        residual: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<Access>, SqlError> {
        match found {
            Found::Key(comparisons) => {
                let columns = comparisons.iter().map(|c| c.column).collect();
                let values = self.all_wanted(table, comparisons)?;
                Ok(values.map(|values| Access::Key { columns, values }))
            }
            Found::Range(range) if !range.is_narrow() => Ok(None),
            Found::Range(range) => {
                let few = Few::All(ROWS_MAX);
                Ok(self.range(table, *range, few, residual)?.map(|range| Access::Range(Box::new(range))))
            }
        }
    }

    fn range(
        &self,
        table: &Table,
        range: ChosenRange,
        few: Few,
        residual: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<RangeAccess>, SqlError> {
        let ChosenRange { order, equal, low, high } = range;
        let Some(equal) = self.all_wanted(table, equal)? else { return Ok(None) };
        let end = |comparison: Option<Comparison>| match comparison {
            None => Ok(Some(None)),
            Some(c) => {
                let has = matches!(c.op, Operator::GtEq | Operator::LtEq);
                Ok::<_, SqlError>(self.wanted(table, c)?.map(|wanted| Some((wanted, has))))
            }
        };
        let (Some(low), Some(high)) = (end(low)?, end(high)?) else { return Ok(None) };
        let pause = Pause::default();
        Ok(Some(RangeAccess { order, equal, low, high, few, residual, pause }))
    }
}

/// The columns that expressions name.
struct Names<'a> {
    table: &'a Table,
    inputs: Vec<u16>,
}

impl Names<'_> {
    /// The expression over bare names of columns and parameters; `None` if it names anything else.
    fn bare(&mut self, e: Expr) -> Option<Expr> {
        let mut known = true;
        let bare = e.unalias_nested().data.transform_up(|e| {
            Ok(match e {
                Expr::Column(c) => {
                    match self.table.column(&c.name) {
                        Some(n) if !self.inputs.contains(&n) => self.inputs.push(n),
                        Some(_) => {}
                        None => known = false,
                    }
                    Transformed::yes(Expr::Column(ColumnName::from_name(c.name)))
                }
                Expr::Placeholder(p) => match parameter_column(&p, 0) {
                    Some(column) => Transformed::yes(column),
                    None => {
                        known = false;
                        Transformed::no(Expr::Placeholder(p))
                    }
                },
                other => Transformed::no(other),
            })
        });
        bare.ok().map(|t| t.data).filter(|_| known)
    }
}
