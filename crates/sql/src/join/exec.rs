//! `LookUpJoinExec`: a join that looks the rows of its inner table up in an index.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::common::collect;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, apply_expression_roots,
    reset_plan_states,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SendableRecordBatchStream, Statistics,
};
use futures::{StreamExt, stream};
use lode_engine::LookUps;
use lode_page::{DataType, Value};

use super::block::{BlockAnswer, Pairing, RowsByKey, bytes_of, has_null, joined};
use super::inner::Inner;
use super::keyed::{Asked, ByIndex};
use crate::arrow_convert::from_arrow;
use crate::scan::{LookUpScan, ScanSpec};

/// How many outer rows a join takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JoinBuffer {
    /// Bytes of outer rows.
    pub(crate) bytes: usize,
    /// Whether keys are looked up in batches; if not, each row is a block of its own.
    pub(crate) batched: bool,
}

/// Where a join finds the inner rows of keys.
#[derive(Clone)]
pub(super) enum InnerSide {
    /// In a table.
    Table(Arc<Inner>),
    /// From a plan that runs again for each block, and that a scan by key begins.
    Plan { plan: Arc<dyn ExecutionPlan>, asked: Arc<Asked>, spec: Arc<ScanSpec> },
}

impl InnerSide {
    fn schema(&self) -> SchemaRef {
        match self {
            Self::Table(inner) => inner.schema().clone(),
            Self::Plan { plan, .. } => plan.schema(),
        }
    }

    /// The scan that the keys go to.
    fn spec(&self) -> &ScanSpec {
        match self {
            Self::Table(inner) => inner.spec(),
            Self::Plan { spec, .. } => spec,
        }
    }
}

impl fmt::Debug for InnerSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(inner) => inner.fmt(f),
            Self::Plan { plan, .. } => plan.fmt(f),
        }
    }
}

/// The operator. Its inputs are the outer side, and the plan of the inner side if that is no table.
#[derive(Clone, Debug)]
pub(crate) struct LookUpJoinExec {
    outer: Arc<dyn ExecutionPlan>,
    inner: InnerSide,
    look_ups: Arc<LookUps>,
    /// Which of the pairs of keys each column of the look-ups is.
    keys: Vec<usize>,
    pub(super) pairing: Arc<Pairing>,
    buffer: JoinBuffer,
    /// The hash join in its place, of which more is known.
    pub(super) replaced: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LookUpJoinExec {
    pub(super) fn new(
        outer: Arc<dyn ExecutionPlan>,
        inner: InnerSide,
        look_ups: Arc<LookUps>,
        keys: Vec<usize>,
        pairing: Pairing,
        buffer: JoinBuffer,
        replaced: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let properties = properties(&outer, &pairing);
        Self {
            outer,
            inner,
            look_ups,
            keys,
            pairing: Arc::new(pairing),
            buffer,
            replaced,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// The properties of a join that answers a partition for each of the outer side.
pub(super) fn properties(outer: &Arc<dyn ExecutionPlan>, pairing: &Pairing) -> Arc<PlanProperties> {
    let partitions = outer.properties().output_partitioning().partition_count();
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(pairing.schema.clone()),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for LookUpJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.inner.spec();
        let by = ByIndex(spec, &self.look_ups);
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "table={}", spec.table.name())?;
            return writeln!(f, "by {by}");
        }
        write!(f, "LookUpJoinExec: {:?}", self.pairing.kind)?;
        if let InnerSide::Table(inner) = &self.inner {
            write!(f, ", {inner}, by {by}")?;
        }
        write!(f, ", {}", self.pairing)?;
        if !self.buffer.batched {
            write!(f, ", a row at a time")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for LookUpJoinExec {
    fn name(&self) -> &'static str {
        "LookUpJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match &self.inner {
            InnerSide::Table(_) => vec![&self.outer],
            InnerSide::Plan { plan, .. } => vec![&self.outer, plan],
        }
    }

    /// The plan of an inner side is asked for the keys of one block at a time.
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(match &self.inner {
            InnerSide::Table(_) => vec![Distribution::UnspecifiedDistribution],
            InnerSide::Plan { .. } => vec![Distribution::SinglePartition; 2],
        })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.pairing.on.iter().map(|(outer, _)| outer), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut join = Arc::unwrap_or_clone(self);
        if let InnerSide::Plan { plan, .. } = &mut join.inner {
            *plan = children.pop().expect("it has two inputs");
        }
        join.outer = children.pop().expect("it has an outer side");
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
        let batch_rows = context.session_config().batch_size();
        let scan = match &self.inner {
            InnerSide::Table(inner) => {
                let (spec, look_ups) = (Arc::new(inner.spec().clone()), self.look_ups.clone());
                Some(LookUpScan::new(spec, look_ups, batch_rows, &self.metrics, partition)?)
            }
            InnerSide::Plan { .. } => None,
        };
        let types = self.look_ups.columns().iter();
        let types = types.map(|&c| self.inner.spec().table.schema().columns[usize::from(c)].data_type);
        let running = Running {
            converter: self.pairing.converter(&outer.schema())?,
            outer,
            rest: None,
            scan,
            output: BaselineMetrics::new(&self.metrics, partition),
            context: context.clone(),
            types: types.collect(),
            last: None,
            answer: None,
            memory: MemoryConsumer::new("LookUpJoinExec").register(context.memory_pool()),
            batch_rows,
            join: self.clone(),
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
    join: LookUpJoinExec,
    outer: SendableRecordBatchStream,
    /// Outer rows that were not joined yet.
    rest: Option<Outer>,
    /// If the inner side is a table.
    scan: Option<LookUpScan>,
    output: BaselineMetrics,
    /// Makes bytes of keys.
    converter: RowConverter,
    context: Arc<TaskContext>,
    /// The types of the look-ups' columns.
    types: Vec<DataType>,
    /// The key of the last block, if it was one row, and the inner rows that it found.
    last: Option<(OwnedRow, RecordBatch)>,
    /// The answer for the last block, as far as it was not handed on.
    answer: Option<BlockAnswer>,
    memory: MemoryReservation,
    batch_rows: usize,
}

/// Outer rows, and about how many bytes each has.
struct Outer {
    rows: RecordBatch,
    row_bytes: usize,
}

impl Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(answer) = &mut self.answer {
                if let Some(batch) = answer.next()? {
                    return Ok(Some(batch.record_output(&self.output)));
                }
                self.answer = None;
                self.memory.free();
                if let Some(host) = self.join.inner.spec().snapshot.host().filter(|h| h.takes_turns()) {
                    // Whoever polls decides whose turn it is.
                    host.end_turn();
                    pending_once().await;
                }
            }
            let Some(Outer { rows, row_bytes }) = self.rest.take() else {
                match self.outer.next().await {
                    Some(rows) => {
                        let rows = rows?;
                        let row_bytes = (bytes_of(&rows) / rows.num_rows().max(1)).max(1);
                        self.rest = (rows.num_rows() > 0).then_some(Outer { rows, row_bytes });
                    }
                    None => return Ok(None),
                }
                continue;
            };
            let JoinBuffer { bytes, batched } = self.join.buffer;
            let taken = if batched { (bytes / row_bytes).clamp(1, rows.num_rows()) } else { 1 };
            let block = rows.slice(0, taken);
            let left = rows.num_rows() - taken;
            self.rest = (left > 0).then(|| Outer { rows: rows.slice(taken, left), row_bytes });
            self.answer = Some(self.join_block(block).await?);
        }
    }

    async fn join_block(&mut self, block: RecordBatch) -> Result<BlockAnswer> {
        let keys = self.join.pairing.outer_keys(&block)?;
        let in_bytes = self.converter.convert_columns(&keys)?;
        let inner = match block.num_rows() {
            1 => self.rows_of_one(&keys, in_bytes.row(0).owned()).await?,
            _ => {
                let places = self.distinct(&keys)?;
                self.rows_of(&keys, &places).await?
            }
        };
        let of_map = RowsByKey::bytes_max(inner.num_rows(), &in_bytes);
        self.memory.try_resize(bytes_of(&block) + bytes_of(&inner) + of_map)?;
        let in_bytes = (&self.converter, in_bytes);
        BlockAnswer::new(self.join.pairing.clone(), block, in_bytes, inner, self.batch_rows)
    }

    /// The rows of a single key. One that comes again, as often in the order of a foreign key, is not looked up again.
    async fn rows_of_one(&mut self, keys: &[ArrayRef], key: OwnedRow) -> Result<RecordBatch> {
        if let Some((last, rows)) = &self.last
            && last.row() == key.row()
        {
            return Ok(rows.clone());
        }
        let rows = self.rows_of(keys, &[0]).await?;
        self.last = Some((key, rows.clone()));
        Ok(rows)
    }

    /// The first row of each key of the look-ups without NULL, in the order of the keys.
    fn distinct(&self, keys: &[ArrayRef]) -> Result<Vec<usize>> {
        let used: Vec<ArrayRef> = self.join.keys.iter().map(|&at| keys[at].clone()).collect();
        let fields = used.iter().map(|k| SortField::new(k.data_type().clone())).collect();
        let rows = RowConverter::new(fields)?.convert_columns(&used)?;
        let mut places: Vec<usize> = (0..rows.num_rows()).filter(|&row| !has_null(&used, row)).collect();
        places.sort_by(|&a, &b| rows.row(a).cmp(&rows.row(b)));
        places.dedup_by(|a, b| rows.row(*a) == rows.row(*b));
        Ok(places)
    }

    /// The inner rows that have the keys of the rows at these places.
    async fn rows_of(&mut self, keys: &[ArrayRef], places: &[usize]) -> Result<RecordBatch> {
        let columns =
            self.join.keys.iter().zip(&self.types).map(|(&at, t)| {
                from_arrow(&keys[at], *t).map_err(|e| DataFusionError::External(Box::new(e)))
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let key = |&row: &usize| columns.iter().map(|c| c.value(row)).collect::<Vec<Value>>();
        let keys: Vec<Vec<Value>> =
            places.iter().map(key).filter(|key| !key.iter().any(Value::is_null)).collect();
        let schema = self.join.inner.schema();
        if keys.is_empty() {
            return Ok(RecordBatch::new_empty(schema));
        }
        let batched = self.join.buffer.batched;
        match (&self.join.inner, &self.scan) {
            (InnerSide::Table(inner), Some(scan)) => {
                let found = scan.rows(&keys, batched)?.into_iter().map(|batch| inner.applied(batch));
                joined(&schema, &found.collect::<Result<Vec<_>>>()?)
            }
            (InnerSide::Plan { plan, asked, .. }, _) => {
                asked.ask(keys, batched);
                let anew = reset_plan_states(plan.clone())?;
                joined(&schema, &collect(anew.execute(0, self.context.clone())?).await?)
            }
            (InnerSide::Table(_), None) => unreachable!("a table has a scan"),
        }
    }
}

/// Is pending once, and then ready.
async fn pending_once() {
    let mut was_polled = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut was_polled, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
