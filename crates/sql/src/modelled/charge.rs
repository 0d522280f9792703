//! An operator that charges the modelled host for each of its rows.
//!
//! ```text
//!   FilterExec                 takes in a row: filter
//!     Charged(LodeScanExec)    ▲ each batch that leaves: rows x what the operator above takes for one
//! ```
//!
//! Invariant: it looks like the operator that it wraps: the same name, inputs, text, metrics and type.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, InvariantLevel, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SendableRecordBatchStream, Statistics,
};
use futures::StreamExt;
use lode_engine::{HostClock, HostWork};

/// An operator, and what the host does with each row that leaves it.
pub(super) struct Charged {
    inner: Arc<dyn ExecutionPlan>,
    work: Vec<HostWork>,
    host: Arc<HostClock>,
}

impl Charged {
    /// Wraps `inner`: the host does `work` for each of its rows.
    pub(super) fn new(inner: Arc<dyn ExecutionPlan>, work: Vec<HostWork>, host: Arc<HostClock>) -> Self {
        Self { inner, work, host }
    }

    /// The same wrapper around another operator.
    fn around(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(inner, self.work.clone(), self.host.clone()))
    }
}

impl fmt::Debug for Charged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Charged({:?}, {:?})", self.work, self.inner)
    }
}

impl DisplayAs for Charged {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(t, f)
    }
}

impl ExecutionPlan for Charged {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.inner.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
        self.inner.check_invariants(check)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.dynamic_expressions_produced()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.inner.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.inner.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inner.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.around(self.inner.clone().replace_children(children, options)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.around(self.inner.clone().reset_state()?))
    }

    fn with_new_state(&self, state: Arc<dyn std::any::Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        self.inner.with_new_state(state).map(|inner| self.around(inner))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.inner.execute(partition, context)?;
        let (host, work) = (self.host.clone(), self.work.clone());
        let schema = batches.schema();
        let charged = batches.inspect(move |batch| {
            if let Ok(batch) = batch {
                work.iter().for_each(|w| host.computes(*w, batch.num_rows() as u64));
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, charged)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.inner.statistics_from_inputs(inputs, args)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.inner.child_stats_requests(partition)
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.inner.supports_limit_pushdown()
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.inner.cardinality_effect()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_plan::displayable;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::limit::GlobalLimitExec;
    use lode_base::{Operations, Profile, VirtualTime};

    use super::*;

    #[test]
    fn to_whoever_looks_at_the_plan_it_is_the_operator_itself() {
        let profile = Profile::find("isp-adms11").unwrap();
        let host = Arc::new(HostClock::new(profile, VirtualTime::ZERO, Box::new(Operations::default)));
        let wrapped = |inner| -> Arc<dyn ExecutionPlan> {
            Arc::new(Charged::new(inner, vec![HostWork::Sort], host.clone()))
        };
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let leaf = wrapped(Arc::new(EmptyExec::new(schema)));
        let plan: Arc<dyn ExecutionPlan> = Arc::new(GlobalLimitExec::new(leaf.clone(), 1, Some(2)));
        let text = displayable(plan.as_ref()).indent(true).to_string();
        let plan = wrapped(plan);
        assert!(plan.is::<GlobalLimitExec>() && plan.children()[0].is::<EmptyExec>());
        assert_eq!(plan.downcast_ref::<GlobalLimitExec>().unwrap().skip(), 1);
        assert_eq!(displayable(plan.as_ref()).indent(true).to_string(), text);
        assert_eq!((plan.name(), plan.fetch()), ("GlobalLimitExec", Some(2)));
        // A plan with other inputs, or one that runs again, still charges.
        let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let renewed = [plan.clone().replace_children(vec![leaf], anew), plan.reset_state()];
        for plan in renewed {
            let plan = plan.unwrap();
            assert!(plan.is::<GlobalLimitExec>() && format!("{plan:?}").starts_with("Charged([Sort]"));
        }
    }
}
