//! EXISTS outside of a condition, as a comparison of a count.
//!
//! ```text
//!   SELECT EXISTS (SELECT ... FROM s)                    ─►  (SELECT count(*) FROM (SELECT ... FROM s LIMIT 1)) > 0
//!   SELECT EXISTS (SELECT ... FROM s WHERE s.a = t.a)    ─►  (SELECT count(*) FROM s WHERE s.a = t.a) > 0
//! ```
//!
//! DataFusion has EXISTS only as a join below a condition of WHERE.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::AnalyzerRule;

/// Counts the rows of each EXISTS that is no condition.
#[derive(Debug)]
pub(super) struct CountedExistence;

impl AnalyzerRule for CountedExistence {
    fn name(&self) -> &str {
        "counted_existence"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |node: LogicalPlan| {
            if matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
                return Ok(Transformed::no(node));
            }
            let names = NamePreserver::new(&node);
            node.map_expressions(|e| {
                let name = names.save(&e);
                Ok(e.transform_up(of_expression)?.update_data(|e| name.restore(e)))
            })
        };
        plan.transform_up_with_subqueries(of_node).data()
    }
}

fn of_expression(e: Expr) -> Result<Transformed<Expr>> {
    let Expr::Exists(Exists { subquery, negated }) = e else { return Ok(Transformed::no(e)) };
    let mut rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    if subquery.outer_ref_columns.is_empty() {
        rows = rows.limit(0, Some(1))?;
    }
    let counted = rows.aggregate(Vec::<Expr>::new(), [count(lit(1i64)).alias("__lode_rows")])?.build()?;
    let counted = Expr::ScalarSubquery(Subquery { subquery: Arc::new(counted), ..subquery });
    let none = lit(0i64);
    Ok(Transformed::yes(if negated { counted.eq(none) } else { counted.gt(none) }))
}
