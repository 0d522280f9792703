//! DataFusion's rule that makes inner joins of cross joins and conditions, where it is correct.
//!
//! ```text
//!   a JOIN b ON a.k = b.k JOIN c ON a.v IS NOT DISTINCT FROM c.v
//! ```
//!
//! The rule takes such a tree apart and joins its inputs anew, all by the way in which one of the joins compares NULLs: then `a.k = b.k` is true of
//! two NULLs, or `IS NOT DISTINCT FROM` false. Plans with a join that takes NULLs for equal stay as they are; the conditions of their cross
//! joins still become conditions of joins, by other rules.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// A rule of DataFusion, limited if it is that one.
pub(crate) fn limited(rule: Rule) -> Rule {
    if rule.name() == EliminateCrossJoin::new().name() { Arc::new(WhereNullsDiffer(rule)) } else { rule }
}

/// The rule, for plans whose inner joins take no NULLs for equal.
#[derive(Debug)]
struct WhereNullsDiffer(Rule);

impl OptimizerRule for WhereNullsDiffer {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_equal_nulls(&plan)? { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

fn has_equal_nulls(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(
            node,
            LogicalPlan::Join(join)
                if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull
        );
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
