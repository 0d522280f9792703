//! DataFusion's plans of short statements: made with the types of the parameters, judged, and taken apart.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Column as ColumnName;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Statement as PlannedStatement, Volatility};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Ident, Statement as Sql};
use lode_page::DataType;

use crate::SqlError;
use crate::names::{RETURNED, TARGET, referenced};
use crate::numbers::NEXT_BY_ID;
use crate::session::plan;
use crate::types::sql_type;

/// The state without the rule that computes common parts of expressions once: a condition would compare such a part, not a column.
pub(super) fn without_common_parts(state: &SessionState) -> SessionState {
    let rules = state.optimizers().iter().filter(|rule| rule.name() != "common_sub_expression_eliminate");
    SessionStateBuilder::new_from_existing(state.clone())
        .with_optimizer_rules(rules.cloned().collect())
        .build()
}

/// The plan of a statement whose parameters have these types.
pub(super) async fn typed_plan(
    state: &SessionState,
    sql: Sql,
    types: &[DataType],
) -> Result<LogicalPlan, SqlError> {
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
pub(super) fn is_settled(plan: &LogicalPlan, inserts: bool) -> Result<bool, SqlError> {
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

/// The parts of an optimized plan of the simplest kind.
pub(super) struct Parts {
    pub(super) outputs: Vec<Expr>,
    pub(super) conditions: Vec<Expr>,
}

impl Parts {
    /// Projection, conditions and a scan of the table, or of nothing; `None` for any other plan.
    pub(super) fn of(plan: &LogicalPlan, table: &str) -> Option<Self> {
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
                    if scan.fetch.is_some() || ![table, TARGET, RETURNED].contains(&name.as_str()) {
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
