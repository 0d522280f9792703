//! `LodeScanExec`: the leaf of every plan over Lode's tables.
//!
//! ```text
//!   planning: filters, projection, limit, run-time filters come down ─► LodeScanExec
//!   running:  each partition on its own thread, batch by batch
//! ```
//!
//! Invariants: a scan with a limit takes no run-time filter, which would change the rows that the limit counts;
//! run-time filters are hints, and the operators that make them still apply them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType, apply_expression_roots,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, Statistics,
};
use futures::{ready, stream};
use lode_base::{Lpid, VirtualDuration};
use lode_command::PageRange;
use lode_engine::NoMatcher;

use super::keys::{JoinKeys, KeyFilter};
use super::looked_up::LookedUp;
use super::metrics::ScanMetrics;
use super::ordered::{Ordered, OrderedScan};
use super::partition::{Next, PartitionScan};
use super::runtime::{RuntimeFilters, is_dynamic, is_runtime};
use super::{Early, GroupForm, ScanSpec};
use crate::Offload;

/// A scan of one table at one snapshot.
#[derive(Clone)]
pub struct LodeScanExec {
    spec: Arc<ScanSpec>,
    partitions: Arc<Vec<Vec<PageRange>>>,
    runtime: Vec<Arc<dyn PhysicalExpr>>,
    /// Key sets of joins above.
    keys: Vec<KeyFilter>,
    /// What an index says of the keys.
    looked_up: Arc<LookedUp>,
    fetch: Option<usize>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LodeScanExec {
    pub(crate) fn new(
        spec: Arc<ScanSpec>,
        partitions: Vec<Vec<PageRange>>,
        statistics: Statistics,
        fetch: Option<usize>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(spec.schema()),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            spec,
            partitions: Arc::new(partitions),
            runtime: Vec::new(),
            keys: Vec::new(),
            looked_up: Arc::default(),
            fetch,
            statistics: Arc::new(statistics),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same scan, answering partial groups instead of rows. A partition may answer a group once for each full
    /// group table.
    pub(crate) fn grouped(&self, form: GroupForm) -> Self {
        let spec = ScanSpec { groups: Some(form), ..ScanSpec::clone(&self.spec) };
        let statistics = Statistics::new_unknown(&spec.schema());
        let scan = Self::new(Arc::new(spec), self.partitions.to_vec(), statistics, None);
        Self { runtime: self.runtime.clone(), keys: self.keys.clone(), ..scan }
    }

    /// The same scan, ending once the operators above have the first rows of the orders. It has one partition.
    pub(crate) fn in_order(&self, ordered: Ordered) -> Self {
        let spec = ScanSpec { ordered: Some(Arc::new(ordered)), ..ScanSpec::clone(&self.spec) };
        let pages = self.partitions.iter().flatten().copied().collect();
        let scan = Self::new(Arc::new(spec), vec![pages], Statistics::clone(&self.statistics), None);
        Self { runtime: self.runtime.clone(), keys: self.keys.clone(), ..scan }
    }

    /// The same scan, which also looks a value up in a key set.
    pub(crate) fn with_keys(&self, keys: KeyFilter) -> Self {
        let mut scan = self.clone();
        scan.keys.push(keys);
        scan.looked_up = Arc::default();
        scan
    }

    /// The same scan, whose rows each take the host of a modelled device so long later.
    pub(crate) fn with_later(&self, later: VirtualDuration) -> Self {
        let spec = ScanSpec { later, ..ScanSpec::clone(&self.spec) };
        Self { spec: Arc::new(spec), ..self.clone() }
    }

    /// The key sets of joins above.
    pub(crate) fn key_filters(&self) -> &[KeyFilter] {
        &self.keys
    }

    /// The same scan with what was decided about filtering early. A level at which the drive looks at pages anyway stays.
    pub(crate) fn with_early(&self, early: Early) -> Self {
        let offload = match self.spec.offload {
            Offload::Off | Offload::Index if early.is_first => Offload::Hints,
            level => level,
        };
        let spec = ScanSpec { offload, early: Some(early), ..ScanSpec::clone(&self.spec) };
        Self { spec: Arc::new(spec), ..self.clone() }
    }

    /// A look-up of `key`, an expression of this type over the scan's columns, with the bounds of the key; `None` if
    /// the scan cannot look it up, or must answer rows that its limit counts.
    pub(crate) fn key_filter(
        &self,
        key: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
        keys: Arc<JoinKeys>,
    ) -> Option<(KeyFilter, Option<(i64, i64)>)> {
        self.fetch.is_none().then(|| KeyFilter::of(&self.spec, key, data_type, keys)).flatten()
    }

    /// The pages that the scan reads.
    pub(crate) fn pages(&self) -> Vec<PageRange> {
        self.partitions.iter().flatten().copied().collect()
    }

    /// The same scan without these pages.
    pub(crate) fn without(&self, pages: &BTreeSet<Lpid>) -> Self {
        let left = |ranges: &Vec<PageRange>| ranges.iter().flat_map(|r| outside(r, pages)).collect();
        Self { partitions: Arc::new(self.partitions.iter().map(left).collect()), ..self.clone() }
    }

    /// Whether as many rows as a page has are expected to pass.
    pub(crate) fn expects_a_page(&self) -> bool {
        let pages: u64 = self.partitions.iter().flatten().map(|r| u64::from(r.count)).sum();
        self.spec.selectivity * pages as f64 >= 1.0
    }

    /// Whether the scan answers all rows that pass, as rows.
    pub(crate) fn is_plain(&self) -> bool {
        self.fetch.is_none() && !self.answers_groups() && !self.is_in_order()
    }

    /// Whether the scan may end early.
    pub fn is_in_order(&self) -> bool {
        self.spec.ordered.is_some()
    }

    pub(crate) fn spec(&self) -> &ScanSpec {
        &self.spec
    }

    pub(crate) fn shared_spec(&self) -> &Arc<ScanSpec> {
        &self.spec
    }

    /// Whether the drive aggregates for the scan.
    pub fn answers_groups(&self) -> bool {
        self.spec.groups.is_some()
    }

    /// How deep the scan may go into the drive.
    pub fn offload(&self) -> Offload {
        self.spec.offload
    }

    /// Whether the drive evaluates a filter that is known at planning.
    pub fn has_filter(&self) -> bool {
        self.spec.filter.is_some()
    }

    /// Run-time filters that reach the scan.
    pub fn runtime_filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.runtime
    }
}

/// The parts of a range that have none of these pages.
fn outside(range: &PageRange, pages: &BTreeSet<Lpid>) -> Vec<PageRange> {
    let (extent, end) = (range.extent, range.first + range.count);
    let mut parts = Vec::new();
    let mut first = range.first;
    for page in pages.range(extent.page(first)..=extent.page(end - 1)).map(|l| l.page()).chain([end]) {
        if page > first {
            parts.push(PageRange { extent, first, count: page - first });
        }
        first = page + 1;
    }
    parts
}

impl fmt::Debug for LodeScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Verbose, f)
    }
}

/// The most characters of run-time filters in a shown plan: a list of join keys can be very long.
const RUNTIME_CHARS_MAX: usize = 300;

fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(RUNTIME_CHARS_MAX) {
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.chars().count()).into(),
        None => text.into(),
    }
}

impl DisplayAs for LodeScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        let names: Vec<&str> = spec.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let names = names.join(", ");
        if matches!(t, DisplayFormatType::TreeRender) {
            writeln!(f, "table={}", spec.table.name())?;
            writeln!(f, "offload={}", spec.offload)?;
            if let Some(groups) = &spec.groups {
                writeln!(f, "{groups}")?;
            }
            return writeln!(f, "filter={}", spec.filter_text);
        }
        write!(
            f,
            "LodeScanExec: table={}, offload={}, projection=[{names}]",
            spec.table.name(),
            spec.offload
        )?;
        if !spec.filter_text.is_empty() {
            write!(f, ", filter={}", spec.filter_text)?;
        }
        if let (DisplayFormatType::Verbose, Some(s)) = (t, &spec.sample) {
            write!(f, ", passes={:.4} ({:.4} to {:.4} by {} pages)", s.share, s.low, s.high, s.pages)?;
        }
        match spec.matcher() {
            Ok(matcher) => write!(f, ", matcher keys={}", matcher.keys().count())?,
            // Without hardware there is nothing to say.
            Err(NoMatcher::NoHardware | NoMatcher::NotAsked) => {}
            Err(why) => write!(f, ", no matcher: {why}")?,
        }
        if let Some((index, pages)) = &spec.index {
            write!(f, ", index={index} ({pages} pages)")?;
        }
        if !spec.path.is_auto() {
            write!(f, ", path={}", spec.path)?;
        }
        if let Some(early) = &spec.early {
            write!(f, ", {early}")?;
        }
        if let Some(ordered) = &spec.ordered {
            write!(f, ", {}", ordered.describe(spec))?;
        }
        if let Some(groups) = &spec.groups {
            write!(f, ", {groups}")?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if !self.keys.is_empty() {
            let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
            write!(f, ", key sets=[{}]", keys.join(", "))?;
        }
        if !self.runtime.is_empty() {
            let filters: Vec<String> = self.runtime.iter().map(ToString::to_string).collect();
            write!(f, ", run-time filter={}", shortened(&filters.join(" AND ")))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for LodeScanExec {
    fn name(&self) -> &'static str {
        "LodeScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.runtime.iter(), f)
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

    /// The scan runs again from the start (recursive queries). The operators above make new run-time filters, which
    /// the scan does not know. The old ones would exclude rows, so they are dropped.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut scan = Arc::unwrap_or_clone(self);
        scan.runtime.clear();
        scan.keys.clear();
        scan.looked_up = Arc::default();
        scan.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(scan))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (pages, filters) = (self.partitions[partition].clone(), self.runtime.clone());
        let (keys, mut awaited) = (self.keys.clone(), self.keys.clone());
        let batch_rows = context.session_config().batch_size();
        let metrics = ScanMetrics::new(&self.metrics, partition);
        if partition == 0 {
            self.spec.counts.with(|q| q.scans += 1);
            if let Some(filter) = &self.spec.filter {
                self.spec.snapshot.note_filter(&self.spec.table, filter);
            }
        }
        let spec = self.spec.clone();
        let mut next: Box<dyn FnMut() -> Result<Next> + Send> = match &self.spec.ordered {
            Some(ordered) => {
                let mut scan =
                    OrderedScan::new(spec, ordered.clone(), pages, filters, keys, batch_rows, metrics);
                Box::new(move || Ok(scan.next()?.map_or(Next::End, Next::Batch)))
            }
            None => {
                let filters = RuntimeFilters::new(filters, keys);
                let mut scan = PartitionScan::new(
                    spec,
                    pages,
                    filters,
                    self.looked_up.clone(),
                    self.fetch,
                    batch_rows,
                    metrics,
                )?;
                Box::new(move || scan.next_or_turn())
            }
        };
        let host = self.spec.snapshot.host().cloned();
        // What woke this task may have woken the scan's other partitions, too. The runtime gives those to another thread only once this
        // task lets go, and a scan works for long before it does.
        let mut lets_go = self.partitions.len() > 1;
        let batches = stream::poll_fn(move |context| {
            while let Some(keys) = awaited.last() {
                ready!(keys.poll_known(context));
                awaited.pop();
            }
            if std::mem::take(&mut lets_go) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match next() {
                Ok(Next::Batch(batch)) => Poll::Ready(Some(Ok(batch))),
                Ok(Next::Turn) => {
                    // Whoever polls decides whose turn it is.
                    host.iter().for_each(|host| host.end_turn());
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Ok(Next::End) => Poll::Ready(None),
                Err(e) => Poll::Ready(Some(Err(e))),
            }
        });
        let stream = RecordBatchStreamAdapter::new(self.spec.schema(), batches);
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::clone(&self.statistics);
        if args.partition().is_some() {
            let share = |p: Precision<usize>| match p.get_value() {
                Some(n) => Precision::Inexact(n.div_ceil(self.partitions.len())),
                None => Precision::Absent,
            };
            statistics.num_rows = share(statistics.num_rows);
            statistics.total_byte_size = share(statistics.total_byte_size);
            statistics = statistics.to_inexact();
        }
        Ok(Arc::new(match self.fetch {
            Some(_) => statistics.with_fetch(self.fetch, 0, 1)?,
            None => statistics,
        }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // A limit on rows does not apply to partial groups, nor to a scan in order.
        if self.spec.groups.is_some() || self.spec.ordered.is_some() {
            return None;
        }
        let mut scan = self.clone();
        scan.fetch = limit;
        Some(Arc::new(scan))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // DataFusion offers filters with a subquery's value in the first phase, and those that operators make as they
        // run in the last. The scan may evaluate only parts of them, so all of them also stay in the plan.
        let wanted = |e: &Arc<dyn PhysicalExpr>| match phase {
            FilterPushdownPhase::Pre => is_runtime(e) && !is_dynamic(e),
            FilterPushdownPhase::Post => is_dynamic(e),
        };
        let mut scan = self.clone();
        if self.fetch.is_none() && self.spec.offload != Offload::Off {
            scan.runtime
                .extend(pushed.parent_filters.iter().map(|p| &p.filter).filter(|e| wanted(e)).cloned());
        }
        let propagation = FilterPushdownPropagation::all_unsupported(pushed);
        if scan.runtime.len() == self.runtime.len() {
            return Ok(propagation);
        }
        Ok(propagation.with_updated_node(Arc::new(scan)))
    }
}
