//! References of a subquery to columns of the query around it, with the types that these columns have in the end.
//!
//! ```text
//!   SELECT ... FROM (SELECT sum(b) AS n ...) x WHERE NOT EXISTS (SELECT ... WHERE s.k = x.n)
//!                           NUMERIC                                                outer_ref(x.n: BIGINT ─► NUMERIC)
//! ```
//!
//! DataFusion writes the type of a column into each reference as it plans the subquery. Rules that change the type of the column later, as those of
//! sums, quotients and unions, change no reference to it. So this rule comes before those: it takes the types from a copy of the query around the
//! subquery, to which it applies all other rules. The last rule checks that it was right.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::analyzer_rules;
use super::text::is_text;
use crate::SqlError;

/// Gives outer references the types of their columns.
#[derive(Debug)]
pub(super) struct OuterReferences;

impl AnalyzerRule for OuterReferences {
    fn name(&self) -> &str {
        "outer_references"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !is_correlated(&plan)? {
            return Ok(plan);
        }
        Walk::Refresh(config).through(plan, &mut Vec::new()).data()
    }
}

/// Refuses a plan with an outer reference of another type than its column: it would be compared as something else.
#[derive(Debug)]
pub(super) struct CheckedOuterReferences;

impl AnalyzerRule for CheckedOuterReferences {
    fn name(&self) -> &str {
        "checked_outer_references"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !is_correlated(&plan)? {
            return Ok(plan);
        }
        Walk::Check.through(plan, &mut Vec::new()).data()
    }
}

/// Whether a subquery of the plan refers to a query around it.
fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut is_correlated = false;
    plan.apply_with_subqueries(|node| {
        is_correlated |= matches!(node, LogicalPlan::Subquery(s) if !s.outer_ref_columns.is_empty());
        Ok(if is_correlated { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_correlated)
}

/// What is done with outer references.
#[derive(Clone, Copy)]
enum Walk<'a> {
    Refresh(&'a ConfigOptions),
    Check,
}

impl Walk<'_> {
    /// A plan and its subqueries, from the leaves upwards. `outer`: the columns of the queries around it, the outermost first.
    fn through(self, plan: LogicalPlan, outer: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
        // The right side of a join with LATERAL is a subquery that refers to the left.
        let is_lateral = match &plan {
            LogicalPlan::Join(join) => is_correlated(&join.right)?,
            _ => false,
        };
        let around = outer.len();
        let below = plan.map_children(|input| {
            let input = self.through(input, outer)?;
            if is_lateral && outer.len() == around {
                outer.push(self.columns_of(&[&input.data]));
            }
            Ok(input)
        })?;
        outer.truncate(around);
        let own = below.transform_data(|plan| self.of_node(plan, outer))?;
        let inner = own.transform_data(|plan| {
            if !has_correlated(&plan)? {
                return Ok(Transformed::no(plan));
            }
            outer.push(self.columns_of(&plan.inputs()));
            let plan = plan.map_subqueries(|subquery| self.through(subquery, outer));
            outer.truncate(around);
            plan
        })?;
        match inner.transformed {
            true => Ok(Transformed::yes(inner.data.recompute_schema()?)),
            false => Ok(inner),
        }
    }

    /// The columns of a node's inputs, with the types that they have in the end.
    fn columns_of(self, inputs: &[&LogicalPlan]) -> DFSchema {
        let Self::Refresh(config) = self else { return merge_schema(inputs) };
        let in_the_end = |input: &&LogicalPlan| {
            let changes = may_change(input);
            // What fails here fails again as a part of the whole plan.
            changes.then(|| analyzed(LogicalPlan::clone(input), config).ok()).flatten()
        };
        let changed: Vec<Option<LogicalPlan>> = inputs.iter().map(in_the_end).collect();
        let plans: Vec<&LogicalPlan> =
            changed.iter().zip(inputs).map(|(changed, input)| changed.as_ref().unwrap_or(input)).collect();
        merge_schema(&plans)
    }

    /// The outer references of a node itself.
    fn of_node(self, plan: LogicalPlan, outer: &[DFSchema]) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Subquery(mut subquery) = plan {
            let mut changed = false;
            for reference in &mut subquery.outer_ref_columns {
                let with_type = self.of_expression(reference.clone(), outer)?;
                changed |= with_type.transformed;
                *reference = with_type.data;
            }
            return Ok(Transformed::new_transformed(LogicalPlan::Subquery(subquery), changed));
        }
        if outer.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(|e| self.of_expression(e, outer))?.update_data(|e| name.restore(e)))
        })
    }

    /// An outer reference with the type of its column in the innermost query that has the column.
    fn of_expression(self, expr: Expr, outer: &[DFSchema]) -> Result<Transformed<Expr>> {
        let Expr::OuterReferenceColumn(field, column) = &expr else { return Ok(Transformed::no(expr)) };
        let found = outer.iter().rev().find_map(|schema| {
            let at = schema.maybe_index_of_column(column)?;
            Some(Arc::clone(schema.field(at)))
        });
        match (self, found) {
            (Self::Refresh(_), Some(found)) if found != *field => {
                Ok(Transformed::yes(Expr::OuterReferenceColumn(found, column.clone())))
            }
            (Self::Check, Some(found)) if !are_alike(found.data_type(), field.data_type()) => {
                let what =
                    format!("a subquery that refers to {} of a query whose type of it changes", column.name);
                Err(SqlError::Unsupported(what).into())
            }
            _ => Ok(Transformed::no(expr)),
        }
    }
}

/// Whether a value of one type has the same meaning in the other.
fn are_alike(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) => a == b,
        _ => a == b || is_text(a) && is_text(b),
    }
}

/// Whether an expression of a node has a subquery that refers to a query around it.
fn has_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    plan.apply_subqueries(|subquery| {
        has |= is_correlated(subquery)?;
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

/// Whether rules may change the type of a column of the plan: one that is no column of a table.
fn may_change(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => false,
        LogicalPlan::Projection(p) => {
            !p.expr.iter().all(|e| matches!(e.clone().unalias(), Expr::Column(_))) || may_change(&p.input)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_) => plan.inputs().into_iter().any(may_change),
        _ => true,
    }
}

/// A plan after all rules.
fn analyzed(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    analyzer_rules().into_iter().try_fold(plan, |plan, rule| rule.analyze(plan, config))
}
