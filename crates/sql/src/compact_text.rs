//! Text of build sides: a copy of what their rows refer to.
//!
//! ```text
//!   HashJoinExec
//!     CompactTextExec ◄── joins below: each batch refers to the text buffers of all their build sides
//! ```
//!
//! A text column is an array of views into buffers. A join's answer keeps the buffers of its whole build side, and what concatenates
//! answers keeps those of each batch. So the buffers of a chain of build sides multiply: five joins of Q9 of TPC-H at scale 10 had hundreds of
//! thousands, which each batch of the last join cloned, and took 10 s in place of 1 s. A batch from here refers to its own text alone.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, Statistics,
    replace_children_if_necessary,
};
use futures::StreamExt;

use crate::exchanges::is_exchange;

/// A column with at most so many buffers is left as it is.
const BUFFERS_MAX: usize = 1;

/// The physical rule.
#[derive(Debug)]
pub(crate) struct CompactText;

impl PhysicalOptimizerRule for CompactText {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        compacted(plan)
    }

    fn name(&self) -> &'static str {
        "compact_text"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn compacted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = plan.children().into_iter().map(|input| compacted(input.clone()));
    let mut inputs = inputs.collect::<Result<Vec<_>>>()?;
    if plan.is::<HashJoinExec>() && has_views(&inputs[0]) && has_join(&inputs[0])? {
        inputs[0] = below_exchanges(&inputs[0])?;
    }
    replace_children_if_necessary(plan, inputs)
}

fn has_views(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    schema.fields().iter().any(|f| matches!(f.data_type(), DataType::Utf8View | DataType::BinaryView))
}

fn has_join(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.is::<HashJoinExec>()))
}

/// All threads compact what comes out of joins, before it is put together.
fn below_exchanges(build: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match build.children()[..] {
        [input] if is_exchange(build) => {
            replace_children_if_necessary(build.clone(), vec![below_exchanges(input)?])
        }
        _ => Ok(Arc::new(CompactTextExec { input: build.clone() })),
    }
}

/// The operator.
#[derive(Debug)]
pub(crate) struct CompactTextExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for CompactTextExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("CompactTextExec"),
        }
    }
}

impl ExecutionPlan for CompactTextExec {
    fn name(&self) -> &'static str {
        "CompactTextExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        Ok(Arc::new(Self { input: children.pop().expect("it has one input") }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let batches = input.map(|batch| batch.and_then(|batch| own_text(&batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
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

/// The batch with text of its own.
fn own_text(batch: &RecordBatch) -> Result<RecordBatch> {
    let column = |c: &ArrayRef| -> ArrayRef {
        match c.data_type() {
            DataType::Utf8View if c.as_string_view().data_buffers().len() > BUFFERS_MAX => {
                Arc::new(c.as_string_view().gc())
            }
            DataType::BinaryView if c.as_binary_view().data_buffers().len() > BUFFERS_MAX => {
                Arc::new(c.as_binary_view().gc())
            }
            _ => c.clone(),
        }
    };
    Ok(RecordBatch::try_new(batch.schema(), batch.columns().iter().map(column).collect())?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::arrow::compute::concat_batches;
    use datafusion::arrow::datatypes::{Field, Schema};

    use super::*;

    #[test]
    fn a_batch_of_many_buffers_refers_to_its_own_text() {
        let schema = Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8View, true)]));
        let text = |n: usize| Some(format!("a text of more than twelve bytes, number {n}"));
        let batch = |n: usize| {
            let names = StringViewArray::from_iter([text(n), None, Some("short".into())]);
            RecordBatch::try_new(schema.clone(), vec![Arc::new(names)]).unwrap()
        };
        let all = concat_batches(&schema, &(0..40).map(batch).collect::<Vec<_>>()).unwrap();
        assert_eq!(all.column(0).as_string_view().data_buffers().len(), 40);
        let slice = all.slice(30, 6);
        let own = own_text(&slice).unwrap();
        assert_eq!(own, slice);
        assert_eq!(own.column(0).as_string_view().data_buffers().len(), 1);
    }
}
