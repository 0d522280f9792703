//! An operator that passes the batches of a build side on and gathers their keys.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions, apply_expression_roots,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, Statistics,
};
use futures::{StreamExt, stream};

use super::gather::{Gathered, Keys};
use super::slot::Slot;
use crate::scan::JoinKeys;

/// Keys that are gathered: of which expression, and where they go.
#[derive(Clone, Debug)]
pub(super) struct KeyColumn {
    pub(super) expr: Arc<dyn PhysicalExpr>,
    pub(super) keys: Keys,
    pub(super) slot: Arc<Slot>,
}

/// The operator.
#[derive(Debug)]
pub(super) struct CollectKeysExec {
    input: Arc<dyn ExecutionPlan>,
    columns: Vec<KeyColumn>,
}

impl CollectKeysExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, columns: Vec<KeyColumn>) -> Self {
        Self { input, columns }
    }

    /// The sets that are made of the keys.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Arc<JoinKeys>> {
        self.columns.iter().map(|c| c.slot.outcome())
    }
}

impl DisplayAs for CollectKeysExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> =
            self.columns.iter().map(|c| format!("{}: {}", c.expr, c.slot.outcome())).collect();
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "keys={}", columns.join(", ")),
            _ => write!(f, "CollectKeysExec: {}", columns.join(", ")),
        }
    }
}

impl ExecutionPlan for CollectKeysExec {
    fn name(&self) -> &'static str {
        "CollectKeysExec"
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.columns.iter().map(|c| &c.expr), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().expect("it has one input");
        Ok(Arc::new(Self { input, columns: self.columns.clone() }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    /// The plan runs again from the start (recursive queries). The scans have dropped the keys, so nobody needs them.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.input.clone())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context.clone())?;
        let partitions = self.properties().partitioning.partition_count();
        let memory = || MemoryConsumer::new("keys of a join").register(context.memory_pool());
        let columns = self.columns.iter().map(|c| (c.clone(), Some(Gathered::new(c.keys, memory()))));
        let (schema, mut gathering) = (input.schema(), Gathering(columns.collect()));
        let batches = stream::poll_fn(move |context| {
            let next = futures::ready!(input.poll_next_unpin(context));
            Poll::Ready(match next {
                Some(Ok(batch)) => Some(gathering.take(&batch).map(|()| batch)),
                Some(Err(e)) => Some(Err(e)),
                None => {
                    gathering.end(partitions);
                    None
                }
            })
        });
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

/// The keys of one partition. Dropped before its end, it ends the waiting for a set.
struct Gathering(Vec<(KeyColumn, Option<Gathered>)>);

impl Gathering {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        for (column, gathered) in &mut self.0 {
            if let Some(gathered) = gathered.as_mut().filter(|g| !g.is_given_up()) {
                gathered.take(&column.expr.evaluate(batch)?.into_array(batch.num_rows())?);
            }
        }
        Ok(())
    }

    /// Ends one of so many partitions.
    fn end(&mut self, partitions: usize) {
        for (column, gathered) in &mut self.0 {
            if let Some(gathered) = gathered.take() {
                column.slot.add(gathered, partitions);
            }
        }
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        for (column, gathered) in &self.0 {
            if gathered.is_some() {
                column.slot.give_up();
            }
        }
    }
}
