//! Sorts that DataFusion's rule for orders leaves out.
//!
//! ```text
//!   count(*) OVER (ORDER BY w)      w = 2 below a join: the rule for orders takes w for constant and sorts by nothing,
//!     join                          the check of the plan does not
//!       filter w = 2
//! ```
//!
//! This rule stands before that check. It sorts an input whose order the check would refuse.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

/// Adds them.
#[derive(Debug)]
pub(crate) struct MissingSorts;

impl PhysicalOptimizerRule for MissingSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let sorted = |plan: Arc<dyn ExecutionPlan>| {
            let mut changed = false;
            let required = plan.required_input_ordering();
            let mut inputs: Vec<_> = plan.children().into_iter().cloned().collect();
            for (input, required) in inputs.iter_mut().zip(required) {
                let Some(required) = required.map(|r| r.into_single()) else { continue };
                if input.equivalence_properties().ordering_satisfy_requirement(required.clone())? {
                    continue;
                }
                let by: Vec<PhysicalSortExpr> = required.into_iter().map(Into::into).collect();
                let Some(order) = LexOrdering::new(by) else { continue };
                let parts = input.output_partitioning().partition_count();
                let sort = SortExec::new(order, Arc::clone(input)).with_preserve_partitioning(parts > 1);
                *input = Arc::new(sort);
                changed = true;
            }
            if changed {
                Ok(Transformed::yes(replace_children_if_necessary(plan, inputs)?))
            } else {
                Ok(Transformed::no(plan))
            }
        };
        plan.transform_up(sorted).map(|t| t.data)
    }

    fn name(&self) -> &'static str {
        "missing_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
