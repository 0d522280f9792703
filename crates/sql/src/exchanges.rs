//! Operators that pass rows on as they are.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::grouping_sets::UnorderedExec;

/// Whether an operator is an exchange: it answers its input's rows, in other partitions or in any order.
pub(crate) fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CoalescePartitionsExec>() || plan.is::<RepartitionExec>() || plan.is::<UnorderedExec>()
}
