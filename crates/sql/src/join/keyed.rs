//! `KeyedScanExec`: a scan within the inner side of a join, which answers the rows of the keys that the join asks for.
//!
//! ```text
//!   LookUpJoinExec ── keys of a block ──► Asked ─┐
//!     outer side                                 │
//!     AggregateExec by ps_partkey                │    runs again for each block
//!       KeyedScanExec: partsupp by ps_partkey ◄──┘
//! ```

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, Statistics,
};
use lode_engine::LookUps;
use lode_page::Value;
use parking_lot::Mutex;

use crate::scan::{LodeScanExec, LookUpScan, ScanSpec};

/// What a join asks of the scan: keys, and whether their pages are read together.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<(Vec<Vec<Value>>, bool)>);

impl Asked {
    /// Asks for these keys from now on.
    pub(super) fn ask(&self, keys: Vec<Vec<Value>>, batched: bool) {
        *self.0.lock() = (keys, batched);
    }
}

/// The operator.
#[derive(Clone)]
pub(super) struct KeyedScanExec {
    spec: Arc<ScanSpec>,
    look_ups: Arc<LookUps>,
    asked: Arc<Asked>,
    /// Made by the first execution.
    scan: Arc<OnceLock<LookUpScan>>,
    properties: Arc<PlanProperties>,
}

impl KeyedScanExec {
    pub(super) fn new(scan: &LodeScanExec, look_ups: Arc<LookUps>, asked: Arc<Asked>) -> Self {
        let spec = Arc::new(scan.spec().clone());
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(spec.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { spec, look_ups, asked, scan: Arc::default(), properties }
    }

    fn look_up(&self, batch_rows: usize) -> Result<&LookUpScan> {
        if let Some(scan) = self.scan.get() {
            return Ok(scan);
        }
        let metrics = ExecutionPlanMetricsSet::new();
        let scan = LookUpScan::new(self.spec.clone(), self.look_ups.clone(), batch_rows, &metrics, 0)?;
        Ok(self.scan.get_or_init(|| scan))
    }
}

impl fmt::Debug for KeyedScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Verbose, f)
    }
}

impl DisplayAs for KeyedScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "KeyedScanExec: table={}, by {}",
            self.spec.table.name(),
            ByIndex(&self.spec, &self.look_ups)
        )
    }
}

impl ExecutionPlan for KeyedScanExec {
    fn name(&self) -> &'static str {
        "KeyedScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = self.look_up(context.session_config().batch_size())?;
        let asked = self.asked.0.lock();
        let rows = scan.rows(&asked.0, asked.1)?;
        Ok(Box::pin(MemoryStream::try_new(rows, self.spec.schema(), None)?))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}

/// The index by which a table is looked up, for EXPLAIN.
pub(super) struct ByIndex<'a>(pub(super) &'a ScanSpec, pub(super) &'a LookUps);

impl fmt::Display for ByIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |c: &u16| self.0.table.def().columns[usize::from(*c)].name.clone();
        let columns: Vec<String> = self.1.columns().iter().map(name).collect();
        match self.1.index() {
            Some(index) => write!(f, "index={index} ({})", columns.join(", ")),
            None => write!(f, "primary key ({})", columns.join(", ")),
        }
    }
}
