//! Limits DataFusion's physical filter pushdown to plans in which it cannot confuse columns.
//!
//! ```text
//!   FilterExec: c@0 IS NULL                        t.c
//!     ProjectionExec: c@1, c@0                     t.c, u.c
//!       HashJoinExec: u, t                         u.c, t.c: two columns of one name
//! ```
//!
//! The pushdown looks columns up by name, and takes the first match. In this plan the filter would be applied to
//! `u.c`, and rows would be lost. The same happens to run-time filters (DataFusion 55.2, its issue 25244). In a plan
//! whose inputs name no column twice, that cannot happen. So the rule is applied separately to the largest such parts
//! of a plan.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

/// DataFusion's rules, with filter pushdown limited to where it is correct.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let pushdowns = [FilterPushdown::new(), FilterPushdown::new_post_optimization()];
    let is_pushdown = |name: &str| pushdowns.iter().any(|p| p.name() == name);
    let guard = |rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>| match is_pushdown(rule.name()) {
        true => Arc::new(WhereNamesDiffer(rule)),
        false => rule,
    };
    PhysicalOptimizer::new().rules.into_iter().map(guard).collect()
}

#[derive(Debug)]
struct WhereNamesDiffer(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for WhereNamesDiffer {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if inputs_name_once(&plan) {
            return self.0.optimize(plan, config);
        }
        let inputs = plan.children().into_iter().map(|input| self.optimize(Arc::clone(input), config));
        let inputs = inputs.collect::<Result<_>>()?;
        replace_children_if_necessary(plan, inputs)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether no node below `plan` has two columns of one name.
fn inputs_name_once(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.children().into_iter().all(|input| {
        let schema = input.schema();
        let mut seen = HashSet::new();
        schema.fields().iter().all(|f| seen.insert(f.name())) && inputs_name_once(input)
    })
}
