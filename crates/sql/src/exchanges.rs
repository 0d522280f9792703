//! Operators that pass rows on from thread to thread, as they are.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;

/// Whether an operator is an exchange: it answers its input's rows in other partitions.
pub(crate) fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CoalescePartitionsExec>() || plan.is::<RepartitionExec>()
}
