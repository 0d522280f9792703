//! Inputs of grouping sets, of which nothing is said about order or place.
//!
//! ```text
//!   AggregateExec: gby=[(k), (NULL)]      k is NULL in some groups
//!     UnorderedExec                       k may be anything
//!       FilterExec: k = 2                 k is 2
//! ```
//!
//! DataFusion (55.2) takes what holds for a column of the input, as that it is constant, sorted, equal to another, or says in which thread a row
//! is, to hold for the groups. But each grouping set makes NULLs of the columns that it does not group by. The aggregate above then takes a
//! change of such a column for the end of a group and answers the group several times, and sorts by the column are left out.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    SendableRecordBatchStream, Statistics, replace_children_if_necessary,
};

/// The physical rule.
#[derive(Debug)]
pub(crate) struct GroupingSets;

impl PhysicalOptimizerRule for GroupingSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let has_sets = |a: &AggregateExec| a.group_expr().has_grouping_set();
            let Some(aggregate) = plan.downcast_ref::<AggregateExec>().filter(|a| has_sets(a)) else {
                return Ok(Transformed::no(plan));
            };
            let input = aggregate.input();
            let known = input.equivalence_properties();
            let is_hashed = !matches!(
                input.output_partitioning(),
                Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_)
            );
            if known.oeq_class().is_empty() && known.eq_group().is_empty() && !is_hashed {
                return Ok(Transformed::no(plan));
            }
            let unordered: Arc<dyn ExecutionPlan> = Arc::new(UnorderedExec::new(input.clone()));
            replace_children_if_necessary(plan, vec![unordered]).map(Transformed::yes)
        })
        .map(|t| t.data)
    }

    fn name(&self) -> &'static str {
        "grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator: the rows of its input, without what is known of their order and place.
#[derive(Debug)]
pub(crate) struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let nothing = EquivalenceProperties::new(input.schema());
        let parts = Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
        let properties = input.properties().as_ref().clone();
        let properties = properties.with_eq_properties(nothing).with_partitioning(parts);
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("UnorderedExec"),
        }
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &'static str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children.pop().expect("it has one input"))))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(inputs[0].clone())
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
