//! Rows of pages that an index named for some keys: the inner side of a join by index.
//!
//! ```text
//!   keys ─► LookUps ─► pages ─┬─ in the order of the pages, read ahead ─┐
//!                             └─ one after the other ───────────────────┴─► pool ─► rows with these keys
//! ```
//!
//! The host reads the pages through its buffer pool at every level: pages near each other are looked up again.
//!
//! Invariant: all rows of the table come out that have one of the keys and pass the scan's filter.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use lode_base::Lpid;
use lode_command::{Answer, CommandError, PageRange, PageRows};
use lode_engine::{Ahead, EngineError, HostWork, Layout, LookUps, ReadAhead};
use lode_page::Value;
use lode_program::{CompareOp, Expr, KeySet, Program};
use parking_lot::Mutex;

use super::batches::Batches;
use super::metrics::ScanMetrics;
use super::partition::PoolPage;
use super::{ScanSpec, engine_error, program_error};

/// Looks rows of a table up by keys, in one partition of a join.
pub(crate) struct LookUpScan {
    spec: Arc<ScanSpec>,
    look_ups: Arc<LookUps>,
    /// The program without the keys.
    base: Program,
    batch_rows: usize,
    metrics: ScanMetrics,
    /// On a modelled device: reads of whole row pages, one after the other.
    reads: Mutex<Option<ReadAhead>>,
}

impl LookUpScan {
    pub(crate) fn new(
        spec: Arc<ScanSpec>,
        look_ups: Arc<LookUps>,
        batch_rows: usize,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Result<Self> {
        // Where the level does not filter exactly, the operators above do.
        let filter = if spec.offload.filters_exactly() { spec.filter.clone() } else { None };
        let projection = spec.output.iter().flatten().copied().collect();
        let slots = spec.output.contains(&None);
        let base =
            Program::check(spec.table.schema().clone(), filter, projection, slots).map_err(program_error)?;
        let metrics = ScanMetrics::new(metrics, partition);
        if partition == 0 {
            spec.counts.with(|q| q.scans += 1);
        }
        let reads =
            Mutex::new(spec.snapshot.read_ahead(&spec.table, columns_kept(&spec, &base), Ahead::None));
        Ok(Self { spec, look_ups, base, batch_rows, metrics, reads })
    }

    /// The rows that have one of these keys: of each key one value for each column of the look-ups. With `batched` the pages are
    /// read in their order, and ahead of the host on a modelled device.
    pub(crate) fn rows(&self, keys: &[Vec<Value>], batched: bool) -> Result<Vec<RecordBatch>> {
        let time = self.metrics.baseline.elapsed_compute().clone();
        let _timer = time.timer();
        let mut pages = BTreeSet::new();
        for key in keys {
            if !self.look_ups.find(key, &mut pages).map_err(engine_error)? {
                return self.all_rows(keys);
            }
        }
        self.metrics.looked_up(pages.len());
        self.spec.counts.with(|q| q.look_ups += keys.len() as u64);
        if self.look_ups.index().is_some() {
            // A second descent finds the row that an entry of a secondary index names.
            self.spec.computes(HostWork::Join, pages.len() as u64);
        }
        let program = self.program(keys)?;
        let mut batches = self.batches(keys.len());
        self.read_rows(&program, &pages, batched, &mut batches)?;
        if let Some(others) = self.look_ups.others() {
            self.scan_rows(&program, vec![others], &mut batches)?;
        }
        self.finished(batches)
    }

    /// The index was dropped meanwhile.
    fn all_rows(&self, keys: &[Vec<Value>]) -> Result<Vec<RecordBatch>> {
        let program = self.program(keys)?;
        let mut batches = self.batches(keys.len());
        let all = self.spec.snapshot.page_ranges(&self.spec.table);
        self.scan_rows(&program, all, &mut batches)?;
        self.finished(batches)
    }

    fn batches(&self, keys: usize) -> Batches {
        // Few keys find few rows as a rule, for which a large batch is a waste.
        let rows = self.batch_rows.min(keys.saturating_mul(64));
        Batches::new(self.spec.schema.clone(), self.spec.output.clone(), rows)
    }

    fn finished(&self, mut batches: Batches) -> Result<Vec<RecordBatch>> {
        batches.finish()?;
        let mut all = Vec::new();
        while let Some(batch) = batches.pop()? {
            self.spec.counts.with(|q| q.rows_out += batch.num_rows() as u64);
            all.push(batch);
        }
        Ok(all)
    }

    fn read_rows(
        &self,
        program: &Program,
        pages: &BTreeSet<Lpid>,
        batched: bool,
        batches: &mut Batches,
    ) -> Result<()> {
        let spec = &self.spec;
        let mut together = None;
        if batched && spec.prefetch && pages.len() > 1 {
            together = spec.snapshot.read_ahead(&spec.table, columns_kept(spec, program), Ahead::Full);
        }
        let mut one_by_one = self.reads.lock();
        let mut ahead = together.as_mut().or(one_by_one.as_mut());
        if let Some(ahead) = &mut ahead {
            pages.iter().for_each(|page| ahead.want(*page));
            ahead.start().map_err(engine_error)?;
        }
        for &page in pages {
            if let Some(reads) = &mut ahead {
                match reads.until(page) {
                    Ok(link) => self.metrics.pool_missed(link.bytes_down, link.bytes_up, spec),
                    // An entry of an index may be removed after its page. All that was wanted is forgotten then.
                    Err(EngineError::Drive(CommandError::Unmapped(_))) => ahead = None,
                    Err(e) => return Err(engine_error(e)),
                }
            }
            self.metrics.page_read(spec);
            if let Some(rows) = self.read_page(program, page)? {
                batches.push(&spec.table, &rows)?;
            }
        }
        Ok(())
    }

    /// The rows of these pages, from scans of the engine: those of deltas are among them.
    fn scan_rows(&self, program: &Program, pages: Vec<PageRange>, batches: &mut Batches) -> Result<()> {
        let spec = &self.spec;
        let scan = spec.snapshot.scan(&spec.table, pages, Arc::new(program.clone()), Answer::Rows, None);
        let mut scan = scan.map_err(engine_error)?.by(spec.path);
        while let Some(unit) = scan.next().map_err(engine_error)? {
            self.metrics.task(&unit.counts, &spec.counts);
            for rows in &unit.pages {
                spec.computes(HostWork::Scan, rows.rows.into());
                batches.push(&spec.table, rows)?;
            }
        }
        self.metrics.link(scan.link_bytes_down(), scan.link_bytes_up(), &spec.counts);
        Ok(())
    }

    /// The rows of a page that pass. A host that knows the order of rows in a page touches no others.
    fn read_page(&self, program: &Program, page: Lpid) -> Result<Option<PageRows>> {
        let spec = &self.spec;
        let first = if program.filter().is_some() { program.filter_columns() } else { program.projection() };
        let opened = match PoolPage::open(spec, &self.metrics, page, true, first) {
            // An entry of an index may be removed after its page.
            Err(e) if is_unmapped(&e) => return Ok(None),
            opened => opened?,
        };
        let rows = opened.passed(program, first)?;
        if let Some(rows) = &rows {
            spec.computes(HostWork::Scan, rows.rows.into());
            let filters = self.base.filter().is_some();
            spec.computes(HostWork::Filter, if filters { rows.rows.into() } else { 0 });
        }
        Ok(rows)
    }

    /// The program with a condition on each column of the look-ups.
    fn program(&self, keys: &[Vec<Value>]) -> Result<Program> {
        let columns = self.look_ups.columns().iter().enumerate();
        let terms: Vec<Expr> = columns.filter_map(|(at, &c)| self.has_key(c, at, keys)).collect();
        if terms.is_empty() {
            return Ok(self.base.clone());
        }
        self.base.with_filter(Expr::And(terms)).map_err(program_error)
    }

    /// A column has one of the values that the keys have at this place; `None` if there is no such condition. Then more rows come
    /// out, and the join compares them.
    fn has_key(&self, column: u16, at: usize, keys: &[Vec<Value>]) -> Option<Expr> {
        let data_type = self.spec.table.schema().columns[usize::from(column)].data_type;
        let value = Expr::Column(column);
        if let [key] = keys {
            return Some(Expr::compare(CompareOp::Eq, value, Expr::Const(key[at].clone(), data_type)));
        }
        let (mut numbers, mut strings) = (Vec::new(), Vec::new());
        for key in keys {
            match &key[at] {
                Value::Null => {}
                Value::Int(v) => numbers.push(*v),
                Value::Decimal(v) => numbers.push(i64::try_from(*v).ok()?),
                Value::Bytes(v) => strings.push(v.clone()),
                Value::Boolean(_) | Value::Real(_) | Value::Double(_) => return None,
            }
        }
        let keys = match strings.is_empty() {
            true => KeySet::of_numbers(numbers),
            false => KeySet::of_strings(strings),
        };
        Some(Expr::InKeys { value: Box::new(value), keys: Arc::new(keys) })
    }
}

/// The columns of a page that stay in the buffer pool. A row page is looked up again, for other rows and perhaps other columns, so all of it
/// stays.
fn columns_kept(spec: &ScanSpec, program: &Program) -> Vec<u16> {
    match spec.table.def().options.layout {
        Layout::Row => (0..spec.table.schema().columns.len() as u16).collect(),
        Layout::Auto | Layout::Column => {
            program.projection().iter().chain(program.filter_columns()).copied().collect()
        }
    }
}

fn is_unmapped(e: &DataFusionError) -> bool {
    let DataFusionError::External(e) = e else { return false };
    matches!(e.downcast_ref(), Some(EngineError::Drive(CommandError::Unmapped(_))))
}
