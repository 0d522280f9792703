//! `BlockJoinExec`: a join that scans its inner table once for each block of outer rows.
//!
//! ```text
//!   outer rows ─► block: lode.join_buffer bytes, by key ─┐
//!   inner table, scanned whole for each block ──────────►┴─► pairs ─► after the scan: outer rows that are in none, or in one
//! ```
//!
//! A block whose keys are all NULL needs no scan. A semi-join or anti-join ends the scan once each row of the block has met one.
//!
//! Source: "Block Nested-Loop Join" of MySQL, and the hashed variant of MariaDB.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::row::{RowConverter, Rows};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, apply_expression_roots, reset_plan_states,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SendableRecordBatchStream, Statistics,
};
use futures::{StreamExt, stream};

use super::block::{Kind, Pairing, Pairs, RowsByKey, bytes_of};
use super::exec::{JoinBuffer, properties};

/// The operator. Its inputs are the outer and the inner side.
#[derive(Clone, Debug)]
pub(crate) struct BlockJoinExec {
    outer: Arc<dyn ExecutionPlan>,
    inner: Arc<dyn ExecutionPlan>,
    pub(super) pairing: Arc<Pairing>,
    buffer: JoinBuffer,
    /// The hash join in its place, of which more is known.
    pub(super) replaced: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BlockJoinExec {
    pub(super) fn new(
        outer: Arc<dyn ExecutionPlan>,
        inner: Arc<dyn ExecutionPlan>,
        pairing: Pairing,
        buffer: JoinBuffer,
        replaced: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let properties = properties(&outer, &pairing);
        let (pairing, metrics) = (Arc::new(pairing), ExecutionPlanMetricsSet::new());
        Self { outer, inner, pairing, buffer, replaced, properties, metrics }
    }
}

impl DisplayAs for BlockJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if t == DisplayFormatType::TreeRender {
            return write!(f, "{:?}, {}", self.pairing.kind, self.pairing);
        }
        write!(f, "BlockJoinExec: {:?}, {}", self.pairing.kind, self.pairing)?;
        if !self.buffer.batched {
            write!(f, ", a row at a time")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for BlockJoinExec {
    fn name(&self) -> &'static str {
        "BlockJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.outer, &self.inner]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![
            Distribution::UnspecifiedDistribution,
            Distribution::SinglePartition,
        ])
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.pairing.on.iter().flat_map(|(outer, inner)| [outer, inner]), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut join = Arc::unwrap_or_clone(self);
        join.inner = children.pop().expect("it has two inputs");
        join.outer = children.pop().expect("it has two inputs");
        join.properties = properties(&join.outer, &join.pairing);
        Ok(Arc::new(join))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let outer = self.outer.execute(partition, context.clone())?;
        let running = Running {
            converter: self.pairing.converter(&outer.schema())?,
            memory: MemoryConsumer::new("BlockJoinExec").register(context.memory_pool()),
            batch_rows: context.session_config().batch_size().max(1),
            output: BaselineMetrics::new(&self.metrics, partition),
            inner_scans: MetricBuilder::new(&self.metrics).counter("inner_scans", partition),
            inner_rows: MetricBuilder::new(&self.metrics).counter("inner_rows", partition),
            join: self.clone(),
            context,
            outer,
            rest: None,
            block: None,
        };
        let batches = stream::try_unfold(running, |mut running| async move {
            Ok(running.next().await?.map(|batch| (batch, running)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}

/// A partition that runs.
struct Running {
    join: BlockJoinExec,
    context: Arc<TaskContext>,
    outer: SendableRecordBatchStream,
    /// Outer rows that were not joined yet.
    rest: Option<RecordBatch>,
    block: Option<Block>,
    /// Makes bytes of keys.
    converter: RowConverter,
    memory: MemoryReservation,
    batch_rows: usize,
    output: BaselineMetrics,
    /// Scans of the inner side, and the rows that they answered.
    inner_scans: Count,
    inner_rows: Count,
}

/// Outer rows, and how far the scan of the inner side for them has come.
struct Block {
    rows: RecordBatch,
    by_key: RowsByKey,
    /// Which rows are in a pair.
    is_met: Vec<bool>,
    /// The rows with a key that are in none.
    unmet: usize,
    /// What the memory pool knows of.
    bytes: usize,
    inner: Scan,
}

enum Scan {
    /// More inner rows may come; the last ones, as far as they were not joined.
    Runs(SendableRecordBatchStream, Option<InnerRows>),
    /// All came; the block's row from which on those come that are answered alone.
    Ended(usize),
}

struct InnerRows {
    rows: RecordBatch,
    keys: Rows,
    /// The inner row whose pairs come next, and how many of them came.
    at: (usize, usize),
}

impl Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(block) = &mut self.block else {
                if !self.next_block().await? {
                    return Ok(None);
                }
                continue;
            };
            let pairing = &self.join.pairing;
            let time = self.output.elapsed_compute();
            match &mut block.inner {
                Scan::Runs(_, Some(inner)) => {
                    let _timer = time.timer();
                    let once = matches!(pairing.kind, Kind::Semi | Kind::Anti);
                    let met = once.then_some(block.is_met.as_slice());
                    let pairs = inner.next_pairs(&block.by_key, met, self.batch_rows);
                    let pairs = pairing.filtered(pairs, &block.rows, &inner.rows)?;
                    for &row in &pairs.outer {
                        block.unmet -= usize::from(!std::mem::replace(&mut block.is_met[row as usize], true));
                    }
                    if once && block.unmet == 0 {
                        block.inner = Scan::Ended(0);
                        continue;
                    }
                    let batch = match pairing.kind {
                        Kind::Inner | Kind::Outer if !pairs.outer.is_empty() => {
                            let places = UInt32Array::from(pairs.inner);
                            Some(pairing.batch(&block.rows, pairs.outer, &inner.rows, Some(&places))?)
                        }
                        _ => None,
                    };
                    if inner.at.0 == inner.rows.num_rows() {
                        let Scan::Runs(_, last) = &mut block.inner else { unreachable!("it runs") };
                        *last = None;
                    }
                    if let Some(batch) = batch {
                        return Ok(Some(batch.record_output(&self.output)));
                    }
                }
                Scan::Runs(stream, last) => match stream.next().await {
                    Some(rows) => {
                        let _timer = time.timer();
                        let rows = InnerRows::new(rows?, pairing, &self.converter)?;
                        self.inner_rows.add(rows.rows.num_rows());
                        self.memory.try_resize(block.bytes + rows.bytes())?;
                        *last = Some(rows);
                    }
                    None => block.inner = Scan::Ended(0),
                },
                Scan::Ended(from) => {
                    let _timer = time.timer();
                    let alone = pairing.alone(&block.is_met, from, self.batch_rows);
                    if !alone.is_empty() {
                        let nothing = RecordBatch::new_empty(self.join.inner.schema());
                        let batch = pairing.batch(&block.rows, alone, &nothing, None)?;
                        return Ok(Some(batch.record_output(&self.output)));
                    }
                    self.block = None;
                    self.memory.free();
                }
            }
        }
    }

    /// Gathers a block and begins the scan for it; false after the last row.
    async fn next_block(&mut self) -> Result<bool> {
        let JoinBuffer { bytes, batched } = self.join.buffer;
        let (mut gathered, mut left) = (Vec::new(), bytes);
        loop {
            let rows = match self.rest.take() {
                Some(rows) => rows,
                None => match self.outer.next().await {
                    Some(rows) => rows?,
                    None => break,
                },
            };
            if rows.num_rows() == 0 {
                continue;
            }
            let row_bytes = (bytes_of(&rows) / rows.num_rows()).max(1);
            let room = if batched { (left / row_bytes).max(usize::from(gathered.is_empty())) } else { 1 };
            let taken = room.min(rows.num_rows());
            // The rows, and the same as one batch.
            self.memory.try_grow(2 * taken * row_bytes)?;
            gathered.push(rows.slice(0, taken));
            left = left.saturating_sub(taken * row_bytes);
            if taken < rows.num_rows() {
                self.rest = Some(rows.slice(taken, rows.num_rows() - taken));
            }
            if !batched || taken == room {
                break;
            }
        }
        if gathered.is_empty() {
            return Ok(false);
        }
        let time = self.output.elapsed_compute().clone();
        let _timer = time.timer();
        let rows = concat_batches(&self.outer.schema(), &gathered)?;
        drop(gathered);
        let keys = self.join.pairing.outer_keys(&rows)?;
        let in_bytes = self.converter.convert_columns(&keys)?;
        let bytes = bytes_of(&rows) + RowsByKey::bytes_max(rows.num_rows(), &in_bytes) + rows.num_rows();
        self.memory.try_resize(bytes + in_bytes.size())?;
        let by_key = RowsByKey::of(&keys, &in_bytes);
        let unmet = by_key.rows();
        let inner = if unmet == 0 {
            Scan::Ended(0)
        } else {
            self.inner_scans.add(1);
            let anew = reset_plan_states(self.join.inner.clone())?;
            Scan::Runs(anew.execute(0, self.context.clone())?, None)
        };
        let is_met = vec![false; rows.num_rows()];
        self.block = Some(Block { rows, by_key, is_met, unmet, bytes, inner });
        Ok(true)
    }
}

impl InnerRows {
    fn new(rows: RecordBatch, pairing: &Pairing, converter: &RowConverter) -> Result<Self> {
        let keys = converter.convert_columns(&pairing.inner_keys(&rows)?)?;
        Ok(Self { rows, keys, at: (0, 0) })
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.rows) + self.keys.size()
    }

    /// The next pairs of equal keys, as many as a batch has at most; without outer rows that are `met`.
    fn next_pairs(&mut self, by_key: &RowsByKey, met: Option<&[bool]>, batch_rows: usize) -> Pairs {
        let mut pairs = Pairs::default();
        while self.at.0 < self.rows.num_rows() && pairs.outer.len() < batch_rows {
            let (row, mut came) = self.at;
            let equal = by_key.equal(self.keys.row(row));
            while came < equal.len() && pairs.outer.len() < batch_rows {
                let outer = equal[came];
                came += 1;
                if met.is_none_or(|met| !met[outer as usize]) {
                    pairs.outer.push(outer);
                    pairs.inner.push(row as u32);
                }
            }
            self.at = if came == equal.len() { (row + 1, 0) } else { (row, came) };
        }
        pairs
    }
}
