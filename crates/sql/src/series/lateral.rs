//! Functions in FROM whose arguments are columns of the tables before them.
//!
//! ```text
//!   Join ─┬─ t                                    Projection (t.*, g.i) ◄ Unnest ◄ Projection (t.*, list(t.n)) ◄ t
//!         └─ g ◄ Subquery ◄ Projection ◄ Unnest  ─►
//!              ◄ Projection (list(outer t.n)) ◄ one row
//! ```
//!
//! DataFusion takes subqueries in FROM apart where a filter refers to the tables before them, not where a list does.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullHandling, Result, ScalarValue, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::optimizer::AnalyzerRule;

use super::from::{LIST, options};
use crate::SqlError;

/// Moves a function in FROM over the tables that its arguments are of.
#[derive(Debug)]
pub(crate) struct LateralFunctions;

impl AnalyzerRule for LateralFunctions {
    fn name(&self) -> &str {
        "lateral_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    match over_left(&join)? {
        Some(plan) => Ok(Transformed::yes(plan)),
        None => Ok(Transformed::no(LogicalPlan::Join(join))),
    }
}

/// A function in FROM, taken apart.
struct Function<'a> {
    alias: &'a TableReference,
    /// Lists that are unnested; or values, where nothing is.
    values: &'a [Expr],
    names: Vec<String>,
    is_set: bool,
}

impl<'a> Function<'a> {
    fn of(plan: &'a LogicalPlan) -> Option<Self> {
        let LogicalPlan::SubqueryAlias(alias) = plan else { return None };
        let LogicalPlan::Subquery(subquery) = alias.input.as_ref() else { return None };
        let LogicalPlan::Projection(top) = subquery.subquery.as_ref() else { return None };
        let names = top.schema.fields().iter().map(|f| f.name().clone()).collect();
        let is_row = |plan: &LogicalPlan| matches!(plan, LogicalPlan::EmptyRelation(e) if e.produce_one_row);
        let (values, is_set) = match top.input.as_ref() {
            LogicalPlan::Unnest(unnest) => match unnest.input.as_ref() {
                LogicalPlan::Projection(Projection { expr, input, .. })
                    if is_row(input) && expr.iter().all(is_list) =>
                {
                    (expr.as_slice(), true)
                }
                _ => return None,
            },
            input if is_row(input) => (top.expr.as_slice(), false),
            _ => return None,
        };
        Some(Self { alias: &alias.alias, values, names, is_set })
    }
}

fn is_list(e: &Expr) -> bool {
    matches!(e, Expr::Alias(a) if a.name.starts_with(LIST))
}

fn over_left(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(function) = Function::of(&join.right) else { return Ok(None) };
    let keep = match join.join_type {
        JoinType::Inner => NullHandling::Drop,
        JoinType::Left => NullHandling::PreserveAndExpandEmpty,
        _ => return Ok(None),
    };
    let always = match &join.filter {
        None => true,
        Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => true,
        Some(_) => false,
    };
    if !join.on.is_empty() || join.join_type == JoinType::Left && !always {
        let what = "LEFT JOIN of a function in FROM whose arguments are columns, ON anything but true";
        return Err(SqlError::Unsupported(what.into()).into());
    }
    let left = join.left.schema();
    let mut known = true;
    let values = function.values.iter().map(|e| {
        let inner = e.clone().transform_up(|e| {
            Ok(match e {
                Expr::OuterReferenceColumn(_, column) => {
                    known &= left.has_column(&column);
                    Transformed::yes(Expr::Column(column))
                }
                e => Transformed::no(e),
            })
        })?;
        Ok(inner.data.unalias())
    });
    let values = values.collect::<Result<Vec<Expr>>>()?;
    if !known {
        return Ok(None);
    }
    let mut columns: Vec<Expr> = left.columns().into_iter().map(Expr::Column).collect();
    let mut plan = LogicalPlanBuilder::from(Arc::clone(&join.left));
    let alias = Some(function.alias.clone());
    if function.is_set {
        let names: Vec<String> = (0..values.len()).map(|i| format!("{LIST}{i}")).collect();
        let lists = values.into_iter().zip(&names).map(|(e, name)| e.alias(name));
        let lists: Vec<Expr> = columns.iter().cloned().chain(lists).collect();
        let of: Vec<Column> = names.iter().map(Column::new_unqualified).collect();
        plan = plan.project(lists)?.unnest_columns_with_options(of.clone(), options(keep))?;
        let named = of.into_iter().zip(function.names);
        columns.extend(named.map(|(c, name)| Expr::Column(c).alias_qualified(alias.clone(), name)));
    } else {
        let named = values.into_iter().zip(function.names);
        columns.extend(named.map(|(e, name)| e.alias_qualified(alias.clone(), name)));
    }
    plan = plan.project(columns)?;
    if let (false, Some(filter)) = (always, &join.filter) {
        plan = plan.filter(filter.clone())?;
    }
    Ok(Some(plan.build()?))
}
