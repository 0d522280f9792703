//! What a short statement does, from the plan that DataFusion makes of it.
//!
//! ```text
//!   query of the statement's values ─► DataFusion's plan, optimized
//!      Projection: a, v + $1          ─► outputs: columns of the row, or expressions over it and the parameters
//!      Filter, TableScan: id = $2     ─► the values of a whole key
//!      anything else                  ─► not short
//! ```
//!
//! The planner decides what an expression means, and DataFusion's own expressions are evaluated. So a short statement
//! has the types, the values and the errors of the general path.
//!
//! Invariant: a plan is used only where the table has the definition and the indexes for which it was made.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as ColumnName, DFSchema, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, Operator, Projection, Statement as PlannedStatement, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Ident, Statement as Sql};
use lode_engine::{IndexKind, Rule, Snapshot, Table};
use lode_page::DataType;
use parking_lot::Mutex;

use super::values::{KeyValue, key_value, widens};
use crate::arrow_convert::arrow_type;
use crate::dml::{self, Checks};
use crate::names::TARGET;
use crate::session::plan;
use crate::statement::ShortShape as Shape;
use crate::types::{arrow_schema, sql_type};
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
    /// The key, and the value of each of its columns. Empty for INSERT.
    pub(super) key: Vec<u16>,
    pub(super) wanted: Vec<Wanted>,
    /// The columns of the row that are read.
    pub(super) inputs: Vec<u16>,
    /// SELECT: columns of the result. UPDATE: new values, then the old ones that CHECKs look at. INSERT: all columns of
    /// the first row, then those of the next.
    pub(super) outputs: Vec<Output>,
    /// What expressions see: `inputs`, then the parameters.
    seen: SchemaRef,
}

pub(super) enum Action {
    Select { schema: SchemaRef },
    Insert { columns: usize, checks: Checks },
    Update { set: Vec<u16>, others: Vec<u16>, checks: Checks },
    Delete,
}

/// The value that a key column is compared with.
pub(super) enum Wanted {
    Parameter(usize, DataType),
    Constant(ScalarValue, DataType),
    Expression(Arc<dyn PhysicalExpr>, DataType),
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
        let mut planned = self.table.lock();
        let now = snapshot.table(planned.name())?;
        if !Arc::ptr_eq(&planned, &now) {
            if !is_same_definition(&planned, &now) {
                return None;
            }
            *planned = now.clone();
        }
        Some(now)
    }

    /// The values of the key; `None` if it is not certain what they are.
    pub(super) fn key_values(&self, parameters: &[ScalarValue]) -> Option<Vec<KeyValue>> {
        let of = |wanted: &Wanted| match wanted {
            Wanted::Parameter(i, t) => Some(key_value(&parameters[*i], *t)),
            Wanted::Constant(v, t) => Some(key_value(v, *t)),
            Wanted::Expression(e, t) => {
                let batch = self.seen_batch(None, parameters)?;
                let value = ScalarValue::try_from_array(&evaluated(e, &batch)?, 0).ok()?;
                Some(key_value(&value, *t))
            }
        };
        self.wanted.iter().map(of).collect()
    }

    /// The outputs for a row; `None` if one cannot be evaluated. Without a row, only those that do not look at it.
    pub(super) fn evaluate(
        &self,
        row: Option<&[ArrayRef]>,
        parameters: &[ScalarValue],
    ) -> Option<Vec<Option<ArrayRef>>> {
        let mut batch = None;
        let each = self.outputs.iter().map(|output| match output {
            Output::Input(i) => Some(row.map(|row| row[*i].clone())),
            Output::Parameter(i) => parameters[*i].to_array().ok().map(Some),
            Output::Expression { of_row: true, .. } if row.is_none() => Some(None),
            Output::Expression { expression, .. } => {
                if batch.is_none() {
                    batch = Some(self.seen_batch(row, parameters)?);
                }
                evaluated(expression, batch.as_ref()?).map(Some)
            }
        });
        each.collect()
    }

    /// Whether some output is an expression that does not look at the row.
    pub(super) fn has_constants(&self) -> bool {
        self.outputs.iter().any(|o| matches!(o, Output::Expression { of_row: false, .. }))
    }

    /// What expressions see. Without a row its columns are NULL.
    fn seen_batch(&self, row: Option<&[ArrayRef]>, parameters: &[ScalarValue]) -> Option<RecordBatch> {
        let of_row: Vec<ArrayRef> = match row {
            Some(row) => row.to_vec(),
            None => {
                let fields = self.seen.fields()[..self.inputs.len()].iter();
                fields.map(|f| datafusion::arrow::array::new_null_array(f.data_type(), 1)).collect()
            }
        };
        let parameters = parameters.iter().map(|v| v.to_array().ok());
        let columns: Option<Vec<ArrayRef>> = of_row.into_iter().map(Some).chain(parameters).collect();
        RecordBatch::try_new_with_options(
            self.seen.clone(),
            columns?,
            &datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(1)),
        )
        .ok()
    }
}

fn evaluated(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Option<ArrayRef> {
    // The general path finds the words for what is wrong.
    expression.evaluate(batch).ok()?.into_array(1).ok()
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
    table: &Arc<Table>,
    shape: &Shape,
) -> Result<Planned, SqlError> {
    let target = matches!(shape.statement, Sql::Update(_) | Sql::Delete(_)).then(|| table.clone());
    let state = session.state_at(snapshot.clone(), target);
    let of_query = |query| typed_plan(&state, Sql::Query(query), &shape.types);
    let (logical, action, skipped) = match &shape.statement {
        Sql::Query(query) => {
            let schema = Arc::new(Schema::empty());
            (of_query(query.clone()).await?, Action::Select { schema }, 0)
        }
        Sql::Update(update) => {
            let mut found = dml::rewrite_update(update)?;
            let set = dml::column_numbers(table, &found.assigned)?;
            let checks = Checks::of(&state, table.def())?;
            let others = checks.others(&set);
            found.also_select(others.iter().map(|&c| table.def().columns[usize::from(c)].name.as_str()));
            let all: Vec<u16> = set.iter().chain(&others).copied().collect();
            let logical = dml::cast_assigned(of_query(found.query).await?, table, &all)?;
            (logical, Action::Update { set, others, checks }, 1)
        }
        Sql::Delete(delete) => (of_query(dml::rewrite_delete(delete)?.query).await?, Action::Delete, 1),
        Sql::Insert(insert) => {
            let Some(values) = dml::ValuesQuery::of(insert, table)? else { return Ok(Planned::Not) };
            let logical = values.cast(of_query(values.query()).await?, table)?;
            let checks = Checks::of(&state, table.def())?;
            (logical, Action::Insert { columns: table.def().columns.len(), checks }, 1)
        }
        _ => return Ok(Planned::Not),
    };
    if !is_settled(&logical)? {
        return Ok(Planned::Not);
    }
    let optimized = state.optimize(&logical)?;
    let Some(parts) = Parts::of(&optimized, table.name()) else { return Ok(Planned::Not) };
    let action = match action {
        Action::Select { .. } => Action::Select { schema: Arc::new(optimized.schema().as_arrow().clone()) },
        other => other,
    };
    short_plan(&state, table, shape, action, parts, skipped)
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
fn is_settled(plan: &LogicalPlan) -> Result<bool, SqlError> {
    let mut settled = true;
    plan.apply(|node| {
        node.apply_expressions(|e| {
            e.apply(|e| {
                settled &= match e {
                    Expr::ScalarFunction(f) => f.func.signature().volatility == Volatility::Immutable,
                    Expr::Column(_)
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
                    let name = scan.table_name.table();
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

fn short_plan(
    state: &SessionState,
    table: &Arc<Table>,
    shape: &Shape,
    action: Action,
    parts: Parts,
    skipped: usize,
) -> Result<Planned, SqlError> {
    let mut names = Names { table, inputs: Vec::new() };
    let outputs = parts.outputs.into_iter().skip(skipped).map(|e| names.bare(e));
    let Some(outputs) = outputs.collect::<Option<Vec<Expr>>>() else { return Ok(Planned::Not) };
    let arrow = arrow_schema(table.def());
    let of_row = names.inputs.iter().map(|&c| arrow.field(usize::from(c)).clone().with_nullable(true));
    let parameters =
        shape.types.iter().enumerate().map(|(i, &t)| Field::new(parameter_name(i), arrow_type(t), true));
    let seen = Arc::new(Schema::new(of_row.chain(parameters).collect::<Vec<_>>()));
    let df = DFSchema::try_from(seen.as_ref().clone())?;
    let physical = |e: Expr| state.create_physical_expr(e, &df);

    let mut key: Vec<u16> = Vec::new();
    let mut wanted = Vec::new();
    if !matches!(action, Action::Insert { .. }) {
        let mut conditions: Vec<Expr> = Vec::new();
        for condition in parts.conditions {
            if !conditions.contains(&condition) {
                conditions.push(condition);
            }
        }
        for condition in conditions {
            let Some((column, value)) = equality(table, &condition) else { return Ok(Planned::ByLiterals) };
            let t = table.schema().columns[usize::from(column)].data_type;
            if key.contains(&column) {
                return Ok(Planned::Not);
            }
            key.push(column);
            let Some(value) = names.bare(value.clone()) else { return Ok(Planned::Not) };
            wanted.push(match value {
                Expr::Literal(value, _) => Wanted::Constant(value, t),
                value => match parameter_of(&value) {
                    Some(i) => Wanted::Parameter(i, t),
                    None => Wanted::Expression(physical(value)?, t),
                },
            });
        }
        if !is_whole_key(table, &key) {
            return Ok(Planned::Not);
        }
    }
    let outputs = outputs.into_iter().map(|e| {
        if let Some(i) = parameter_of(&e) {
            return Ok(Output::Parameter(i));
        }
        if let Expr::Column(c) = &e
            && let Some(i) = names.inputs.iter().position(|&n| table.column(&c.name) == Some(n))
        {
            return Ok(Output::Input(i));
        }
        let of_row = e.column_refs().iter().any(|c| table.column(&c.name).is_some());
        Ok(Output::Expression { expression: physical(e)?, of_row })
    });
    let outputs = outputs.collect::<Result<Vec<_>, SqlError>>()?;
    let (table, inputs) = (Mutex::new(table.clone()), names.inputs);
    Ok(Planned::Short(Arc::new(ShortPlan { table, action, key, wanted, inputs, outputs, seen })))
}

/// Whether these are all columns of a PRIMARY KEY or UNIQUE key, in any order.
fn is_whole_key(table: &Table, columns: &[u16]) -> bool {
    let is = |key: &[u16]| {
        key.len() == columns.len() && !key.is_empty() && key.iter().all(|c| columns.contains(c))
    };
    let unique = |rule: &Rule| matches!(rule, Rule::Unique { columns } if is(columns));
    is(&table.def().primary_key)
        || table.def().constraints.iter().any(|c| unique(&c.rule))
        || table.indexes().iter().any(|i| i.kind == IndexKind::Btree { unique: true } && is(&i.columns))
}

/// `column = value`, or `CAST(column AS a wider type) = value`.
fn equality<'a>(table: &Table, condition: &'a Expr) -> Option<(u16, &'a Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let column = |e: &Expr| {
        let (e, to) = match e {
            Expr::Cast(cast) => (cast.expr.as_ref(), Some(cast.field.data_type())),
            e => (e, None),
        };
        let Expr::Column(c) = e else { return None };
        let number = table.column(&c.name)?;
        let from = table.schema().columns[usize::from(number)].data_type;
        let own = arrow_type(from);
        widens(from, to.unwrap_or(&own)).then_some((number, from))
    };
    let ((number, t), value) = match (column(left), column(right)) {
        (Some(found), None) => (found, right.as_ref()),
        (None, Some(found)) => (found, left.as_ref()),
        _ => return None,
    };
    // A quoted literal that is compared with anything but text is typed by what it is compared with.
    let mut of_text = false;
    let walked = value.apply(|e| {
        of_text |= matches!(e, Expr::Placeholder(p) if p.field.as_ref()
            .is_some_and(|f| *f.data_type() == arrow_type(DataType::Text)));
        Ok(TreeNodeRecursion::Continue)
    });
    let sound = walked.is_ok() && value.column_refs().is_empty() && (t == DataType::Text || !of_text);
    sound.then_some((number, value))
}

fn parameter_name(i: usize) -> String {
    format!("__lode_parameter_{}", i + 1)
}

/// The parameter that an expression is, from 0.
fn parameter_of(e: &Expr) -> Option<usize> {
    let Expr::Column(c) = e else { return None };
    c.name.strip_prefix("__lode_parameter_")?.parse::<usize>().ok()?.checked_sub(1)
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
                Expr::Placeholder(p) => match p.id.strip_prefix('$').and_then(|n| n.parse::<usize>().ok()) {
                    Some(n) if n > 0 => {
                        Transformed::yes(Expr::Column(ColumnName::from_name(parameter_name(n - 1))))
                    }
                    _ => {
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
