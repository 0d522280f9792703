//! References of a subquery to columns of the query around it, with the types that these columns have.
//!
//! ```text
//!   SELECT ... FROM (SELECT sum(b) AS n ...) x WHERE NOT EXISTS (SELECT ... WHERE s.k = x.n)
//!                           NUMERIC                                                outer_ref(x.n: BIGINT ─► NUMERIC)
//! ```
//!
//! DataFusion writes the type of a column into each reference as it plans the subquery. A rule that changes the type of the column changes no
//! reference to it. This rule does, before the types of operands are made equal.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Gives outer references the types of their columns.
#[derive(Debug)]
pub(super) struct OuterReferences;

impl AnalyzerRule for OuterReferences {
    fn name(&self) -> &str {
        "outer_references"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !is_correlated(&plan)? {
            return Ok(plan);
        }
        refreshed(plan, &mut Vec::new()).data()
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

/// A plan with the types of its outer references, from the leaves upwards. `outer`: the columns of the queries around it, the outermost first.
fn refreshed(plan: LogicalPlan, outer: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
    // The right side of a join with LATERAL is a subquery that refers to the left.
    let is_join = matches!(plan, LogicalPlan::Join(_));
    let around = outer.len();
    let below = plan.map_children(|input| {
        let input = refreshed(input, outer)?;
        if is_join && outer.len() == around {
            outer.push(input.data.schema().as_ref().clone());
        }
        Ok(input)
    })?;
    outer.truncate(around);
    let own = below.transform_data(|plan| of_node(plan, outer))?;
    let inner = own.transform_data(|plan| {
        outer.push(merge_schema(&plan.inputs()));
        let plan = plan.map_subqueries(|subquery| refreshed(subquery, outer));
        outer.truncate(around);
        plan
    })?;
    match inner.transformed {
        true => Ok(Transformed::yes(inner.data.recompute_schema()?)),
        false => Ok(inner),
    }
}

/// The outer references of a node itself.
fn of_node(plan: LogicalPlan, outer: &[DFSchema]) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Subquery(mut subquery) = plan {
        let mut changed = false;
        for reference in &mut subquery.outer_ref_columns {
            let with_type = with_type(reference.clone(), outer)?;
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
        Ok(expr.transform_up(|e| with_type(e, outer))?.update_data(|e| name.restore(e)))
    })
}

/// An outer reference with the type of its column in the innermost query that has the column.
fn with_type(expr: Expr, outer: &[DFSchema]) -> Result<Transformed<Expr>> {
    let Expr::OuterReferenceColumn(field, column) = &expr else { return Ok(Transformed::no(expr)) };
    let found = outer.iter().rev().find_map(|schema| {
        let at = schema.maybe_index_of_column(column)?;
        Some(Arc::clone(schema.field(at)))
    });
    match found {
        Some(found) if found != *field => {
            Ok(Transformed::yes(Expr::OuterReferenceColumn(found, column.clone())))
        }
        _ => Ok(Transformed::no(expr)),
    }
}
