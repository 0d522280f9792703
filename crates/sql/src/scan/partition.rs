//! One partition of a scan: from its pages to its batches.
//!
//! ```text
//!   first poll ─► run-time filters ─► choice ─┬─ drive: unit ─► pages' rows, or groups ──────────► batches
//!                                             └─ pool: unit ─► pages' names ─► columns ─► filter ─► batches
//! ```
//!
//! Invariants: if the level filters exactly, no row comes out that fails the filter, neither from the drive nor from
//! the pool; dropping a partition cancels its task.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use lode_base::Lpid;
use lode_command::{PageRange, PageRows};
use lode_engine::{Ahead, HostWork, PageColumns, ReadAhead, Scan};
use lode_page::Column;
use lode_program::{ColumnSource, EvalError, Meter, Passed, Program, RowMask};

use super::batches::Batches;
use super::level_cost::{keys_pay_in_host, rows_pay};
use super::looked_up::LookedUp;
use super::metrics::ScanMetrics;
use super::runtime::RuntimeFilters;
use super::{ScanSpec, engine_error};
use crate::offload::{Choice, ScanView};

/// A partition of a scan. It runs on the thread that polls it.
pub(super) struct PartitionScan {
    spec: Arc<ScanSpec>,
    pages: Vec<PageRange>,
    base: Arc<Program>,
    runtime: RuntimeFilters,
    looked_up: Arc<LookedUp>,
    rows_left: Option<usize>,
    batches: Batches,
    metrics: ScanMetrics,
    state: ScanState,
}

/// What a scan has for the operators above it.
pub(super) enum Next {
    Batch(RecordBatch),
    /// Nothing yet. With several agents on a modelled host, one that is further behind has the next turn.
    Turn,
    End,
}

enum ScanState {
    Waiting,
    Running(Box<Running>),
    Done,
}

struct Running {
    scan: Scan,
    program: Arc<Program>,
    choice: Choice,
    /// Pages that the drive has named and the host has not read yet.
    named: VecDeque<Lpid>,
    /// With a modelled device: reads ahead of named pages.
    ahead: Option<ReadAhead>,
    link_bytes_down: u64,
    link_bytes_up: u64,
}

impl Running {
    /// Whether the drive should name more pages before the next one is read.
    fn knows_few(&self) -> bool {
        self.named.len() < self.ahead.as_ref().map_or(1, ReadAhead::depth)
    }

    /// Adds pages that the drive named.
    fn name(&mut self, pages: &[PageRows]) {
        self.named.extend(pages.iter().map(|p| p.lpid));
        if let Some(ahead) = &mut self.ahead {
            pages.iter().for_each(|p| ahead.want(p.lpid));
        }
    }

    /// Counts the bytes that crossed the link since the last call.
    fn count_link(&mut self, metrics: &ScanMetrics, spec: &ScanSpec) {
        let (down, up) = (self.scan.link_bytes_down(), self.scan.link_bytes_up());
        metrics.link(down - self.link_bytes_down, up - self.link_bytes_up, &spec.counts);
        (self.link_bytes_down, self.link_bytes_up) = (down, up);
    }
}

impl PartitionScan {
    pub(super) fn new(
        spec: Arc<ScanSpec>,
        pages: Vec<PageRange>,
        runtime: RuntimeFilters,
        looked_up: Arc<LookedUp>,
        fetch: Option<usize>,
        batch_rows: usize,
        metrics: ScanMetrics,
    ) -> Result<Self> {
        let base = Arc::new(spec.program()?);
        let batches = Batches::new(spec.schema(), spec.output.clone(), batch_rows);
        let state = ScanState::Waiting;
        Ok(Self { spec, pages, base, runtime, looked_up, rows_left: fetch, batches, metrics, state })
    }

    /// The next batch, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match self.next_or_turn()? {
                Next::Batch(batch) => return Ok(Some(batch)),
                Next::Turn => {}
                Next::End => return Ok(None),
            }
        }
    }

    /// The next batch. With several agents on a modelled host, it returns after each unit, so that others take their turns.
    pub(super) fn next_or_turn(&mut self) -> Result<Next> {
        let time = self.metrics.baseline.elapsed_compute().clone();
        let _timer = time.timer();
        let next = self.advance();
        if !matches!(next, Ok(Next::Batch(_) | Next::Turn)) {
            self.state = ScanState::Done;
        }
        next
    }

    fn advance(&mut self) -> Result<Next> {
        let takes_turns = self.spec.snapshot.host().is_some_and(|host| host.takes_turns());
        loop {
            if self.rows_left == Some(0) {
                return Ok(Next::End);
            }
            if let Some(batch) = self.batches.pop()? {
                let rows = self.rows_left.map_or(batch.num_rows(), |left| left.min(batch.num_rows()));
                self.rows_left = self.rows_left.map(|left| left - rows);
                return Ok(Next::Batch(self.metrics.leaves(batch.slice(0, rows), &self.spec.counts)));
            }
            match self.state {
                ScanState::Done => return Ok(Next::End),
                ScanState::Waiting => self.state = ScanState::Running(Box::new(self.begin()?)),
                ScanState::Running(_) => {
                    if !self.step()? {
                        self.state = ScanState::Done;
                        self.batches.finish()?;
                    } else if takes_turns {
                        return Ok(Next::Turn);
                    }
                }
            }
        }
    }

    /// Decides how to read the pages. This happens at the first poll, when most run-time filters are known.
    fn begin(&mut self) -> Result<Running> {
        let spec = &self.spec;
        let mut program = self.runtime.start(spec, &self.base);
        let narrowed = self.runtime.narrow();
        let keys = self.runtime.keys();
        let filtered = spec.filter.is_some();
        let choice = spec.offload.choose(ScanView {
            filtered,
            narrowed,
            selectivity: spec.selectivity,
            grouped: spec.groups.is_some(),
            rows_pay: rows_pay(spec, &program, &keys)?,
        });
        if narrowed {
            self.metrics.narrowed(&spec.counts);
        }
        // A drive that filters exactly may stop at the limit.
        let limit = self.rows_left.filter(|_| choice == Choice::Rows).map(|n| n as u64);
        let pages = std::mem::take(&mut self.pages);
        let (pages, by_index) = self.looked_up.of(spec, &keys.terms, pages)?;
        if by_index {
            self.metrics.looked_up(pages.iter().map(|r| usize::from(r.count)).sum());
        }
        let scan = spec.snapshot.scan(&spec.table, pages, program.clone(), choice.answer(), limit);
        let scan = scan.map_err(engine_error)?.by(spec.path);
        let scan = if self.runtime.may_change() { scan.few_at_a_time() } else { scan };
        if narrowed && choice == Choice::PoolIndexed && !keys_pay_in_host(spec, &keys)? {
            // The drive names pages by them; the operators that made them look at the rows.
            program = self.base.clone();
            self.runtime.give_up();
        }
        let ahead = match choice {
            Choice::Pool | Choice::PoolIndexed | Choice::PoolHinted { .. } => {
                let filter = if spec.offload.filters_exactly() { program.filter_columns() } else { &[] };
                let columns = program.projection().iter().chain(filter).copied().collect();
                let ahead = match self.rows_left {
                    _ if !spec.prefetch => Ahead::None,
                    Some(_) => Ahead::Growing,
                    None => Ahead::Full,
                };
                spec.snapshot.read_ahead(&spec.table, columns, ahead)
            }
            Choice::Pages | Choice::Rows | Choice::Groups => None,
        };
        let named = VecDeque::new();
        Ok(Running { scan, program, choice, named, ahead, link_bytes_down: 0, link_bytes_up: 0 })
    }

    /// Takes one page from the pool, or one unit from the drive. False after the last.
    fn step(&mut self) -> Result<bool> {
        let ScanState::Running(running) = &mut self.state else { return Ok(false) };
        let spec = &self.spec;
        if let Some(program) = self.runtime.changed(spec, &self.base) {
            running.program = program.clone();
            running.scan.narrow(program);
            self.metrics.narrowed(&spec.counts);
        }
        if running.knows_few()
            && let Some(unit) = running.scan.next().map_err(engine_error)?
        {
            self.metrics.task(&unit.counts, &spec.counts);
            running.count_link(&self.metrics, spec);
            match running.choice {
                Choice::Pool | Choice::PoolIndexed | Choice::PoolHinted { .. } => {
                    running.name(&unit.pages);
                    if let Some(ahead) = &mut running.ahead {
                        ahead.start().map_err(engine_error)?;
                    }
                }
                Choice::Pages | Choice::Rows => {
                    for page in &unit.pages {
                        spec.computes(HostWork::Scan, page.rows.into());
                        self.batches.push(&spec.table, page)?;
                    }
                }
                Choice::Groups => {
                    let form = spec.groups.as_ref().expect("a scan that answers groups knows their form");
                    for groups in &unit.groups {
                        spec.computes(HostWork::Scan, groups.rows.into());
                        self.batches.push_together(form.arrays(groups)?, groups.rows as usize)?;
                    }
                }
            }
            return Ok(true);
        }
        let Some(lpid) = running.named.pop_front() else {
            running.count_link(&self.metrics, spec);
            return Ok(false);
        };
        if let Some(ahead) = &mut running.ahead {
            let link = ahead.until(lpid).map_err(engine_error)?;
            self.metrics.pool_missed(link.bytes_down, link.bytes_up, spec);
        }
        let exact = spec.offload.filters_exactly();
        if let Some(page) = read_page(spec, &running.program, lpid, exact, &self.metrics)? {
            self.batches.push(&spec.table, &page)?;
        }
        Ok(true)
    }
}

/// Reads a page through the buffer pool. With `exact`, only the rows that pass the program are kept; `None` if no row
/// passes.
fn read_page(
    spec: &ScanSpec,
    program: &Program,
    lpid: Lpid,
    exact: bool,
    metrics: &ScanMetrics,
) -> Result<Option<PageRows>> {
    metrics.page_read(spec);
    let exact = exact && program.filter().is_some();
    let first = if exact { program.filter_columns() } else { program.projection() };
    let mut page = PoolPage::open(spec, metrics, lpid, true, first)?;
    spec.computes(HostWork::Scan, page.shown() as u64);
    if exact {
        spec.computes(HostWork::Filter, page.shown() as u64);
        return page.passed(program, first);
    }
    let mut passed = Passed::unfiltered(page.rows);
    if let Some(hidden) = &page.hidden {
        passed.hide(hidden);
    }
    passed.rows_of(program, lpid, &mut page).map(Some)
}

/// A page that is read through the buffer pool. Columns that are needed together are read together.
pub(super) struct PoolPage<'a> {
    spec: &'a ScanSpec,
    metrics: &'a ScanMetrics,
    lpid: Lpid,
    /// Whether columns have the rows that a delta hides.
    whole: bool,
    rows: usize,
    /// These rows.
    hidden: Option<RowMask>,
    slots: Option<Vec<u32>>,
    columns: Vec<(u16, Column)>,
}

impl<'a> PoolPage<'a> {
    /// Reads these columns of the page, all rows of them if `whole`.
    pub(super) fn open(
        spec: &'a ScanSpec,
        metrics: &'a ScanMetrics,
        lpid: Lpid,
        whole: bool,
        columns: &[u16],
    ) -> Result<Self> {
        let (hidden, slots) = (None, None);
        let mut page = Self { spec, metrics, lpid, whole, rows: 0, hidden, slots, columns: Vec::new() };
        let (read, hidden) = page.read(columns)?;
        (page.rows, page.slots, page.hidden) = (read.rows, read.slots, hidden);
        page.columns.extend(columns.iter().copied().zip(read.columns));
        Ok(page)
    }

    /// The rows that pass the program; `None` if no row passes. `first` are the columns that were read with the page.
    pub(super) fn passed(mut self, program: &Program, first: &[u16]) -> Result<Option<PageRows>> {
        let found = match Passed::of(program, &mut self, &mut Meter::default()) {
            // What is wrong may be wrong with a row that is hidden.
            Err(e) if self.hidden.is_some() && !matches!(e, EvalError::Source(_)) => {
                self = Self::open(self.spec, self.metrics, self.lpid, false, first)?;
                Passed::of(program, &mut self, &mut Meter::default())
            }
            found => found,
        };
        let mut passed = found.map_err(|e| match e {
            EvalError::Source(e) => e,
            e => DataFusionError::External(e.to_string().into()),
        })?;
        if let Some(hidden) = &self.hidden {
            passed.hide(hidden);
        }
        if passed.count() == 0 {
            return Ok(None);
        }
        passed.rows_of(program, self.lpid, &mut self).map(Some)
    }

    /// Rows that are not hidden.
    fn shown(&self) -> usize {
        self.rows - self.hidden.as_ref().map_or(0, RowMask::count)
    }

    fn read(&self, columns: &[u16]) -> Result<(PageColumns, Option<RowMask>)> {
        let snapshot = &self.spec.snapshot;
        let (page, hidden) = match self.whole {
            true => snapshot.read_whole_columns(self.lpid, columns).map_err(engine_error)?,
            false => (snapshot.read_columns(self.lpid, columns).map_err(engine_error)?, None),
        };
        self.metrics.pool_missed(page.link_bytes_down, page.link_bytes_up, self.spec);
        Ok((page, hidden))
    }

    fn known(&self, column: u16) -> Option<&Column> {
        self.columns.iter().find(|(c, _)| *c == column).map(|(_, column)| column)
    }
}

impl ColumnSource for PoolPage<'_> {
    type Error = DataFusionError;

    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&mut self, column: u16) -> Result<Column> {
        Ok(self.known(column).expect("a column is announced before it is asked for").clone())
    }

    fn announce(&mut self, columns: &[u16]) -> Result<()> {
        let others: Vec<u16> = columns.iter().filter(|&&c| self.known(c).is_none()).copied().collect();
        if !others.is_empty() {
            let (read, _) = self.read(&others)?;
            self.columns.extend(others.into_iter().zip(read.columns));
        }
        Ok(())
    }

    fn slots(&self) -> Option<&[u32]> {
        self.slots.as_deref()
    }
}
