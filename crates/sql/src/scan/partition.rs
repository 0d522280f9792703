//! One partition of a scan: from its pages to its batches.
//!
//! ```text
//!   first poll ─► run-time filters ─► choice ─┬─ drive: unit ─► pages' rows, or groups ──────────► batches
//!                                             └─ pool: unit ─► pages' names ─► columns ─► filter ─► batches
//! ```
//!
//! Invariants: where the level filters exactly, no row comes out that fails the filter, whichever way it came;
//! dropping a partition cancels its task.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use lode_base::Lpid;
use lode_command::{Answer, PageRange, PageRows};
use lode_engine::{HostWork, PageColumns, ReadAhead, Scan};
use lode_page::Column;
use lode_program::{ColumnSource, Meter, Program, Selection, compact, select};

use super::batches::Batches;
use super::metrics::ScanMetrics;
use super::runtime::RuntimeFilters;
use super::{ScanSpec, engine_error};
use crate::offload::{Choice, ScanView};

/// A partition that runs on the thread that polls it.
pub(super) struct PartitionScan {
    spec: Arc<ScanSpec>,
    pages: Vec<PageRange>,
    base: Arc<Program>,
    runtime: RuntimeFilters,
    rows_left: Option<usize>,
    batches: Batches,
    metrics: ScanMetrics,
    state: State,
}

enum State {
    Waiting,
    Running(Box<Running>),
    Done,
}

struct Running {
    scan: Scan,
    program: Arc<Program>,
    choice: Choice,
    /// Pages that the drive named and the host has not read yet.
    named: VecDeque<Lpid>,
    /// With a modelled device: reads of pages that were named.
    ahead: Option<ReadAhead>,
    link_bytes_down: u64,
    link_bytes_up: u64,
}

impl Running {
    /// Whether the drive should name more pages before the next one is read.
    fn knows_few(&self) -> bool {
        self.named.len() < self.ahead.as_ref().map_or(1, ReadAhead::depth)
    }

    /// The drive named these pages.
    fn name(&mut self, pages: &[PageRows]) {
        self.named.extend(pages.iter().map(|p| p.lpid));
        if let Some(ahead) = &mut self.ahead {
            pages.iter().for_each(|p| ahead.want(p.lpid));
        }
    }

    /// Counts what crossed the link since it was last counted.
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
        fetch: Option<usize>,
        batch_rows: usize,
        metrics: ScanMetrics,
    ) -> Result<Self> {
        let base = Arc::new(spec.program()?);
        let batches = Batches::new(spec.schema(), spec.output.clone(), batch_rows);
        Ok(Self { spec, pages, base, runtime, rows_left: fetch, batches, metrics, state: State::Waiting })
    }

    /// The next batch, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let time = self.metrics.baseline.elapsed_compute().clone();
        let _timer = time.timer();
        let next = self.advance();
        if !matches!(next, Ok(Some(_))) {
            self.state = State::Done;
        }
        next
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.rows_left == Some(0) {
                return Ok(None);
            }
            if let Some(batch) = self.batches.pop() {
                let rows = self.rows_left.map_or(batch.num_rows(), |left| left.min(batch.num_rows()));
                self.rows_left = self.rows_left.map(|left| left - rows);
                return Ok(Some(self.metrics.leaves(batch.slice(0, rows), &self.spec.counts)));
            }
            match self.state {
                State::Done => return Ok(None),
                State::Waiting => self.state = State::Running(Box::new(self.begin()?)),
                State::Running(_) => {
                    if !self.step()? {
                        self.state = State::Done;
                        self.batches.finish()?;
                    }
                }
            }
        }
    }

    /// Decides how the pages are read, now that the run-time filters are as complete as they will be by the first poll.
    fn begin(&mut self) -> Result<Running> {
        let spec = &self.spec;
        let program = self.runtime.start(spec, &self.base);
        let narrowed = self.runtime.narrow();
        if narrowed {
            self.metrics.narrowed(&spec.counts);
        }
        let filtered = spec.filter.is_some();
        let choice = spec.offload.choose(ScanView {
            filtered,
            narrowed,
            selectivity: spec.selectivity,
            grouped: spec.groups.is_some(),
        });
        let (answer, limit) = match choice {
            Choice::Pool => (Answer::Mapped, None),
            Choice::PoolIndexed => (Answer::Index, None),
            Choice::Pages => (Answer::Pages, None),
            Choice::Rows => (Answer::Rows, self.rows_left.map(|n| n as u64)),
            Choice::Groups => (Answer::Aggregate, None),
        };
        let pages = std::mem::take(&mut self.pages);
        let scan =
            spec.snapshot.scan(&spec.table, pages, program.clone(), answer, limit).map_err(engine_error)?;
        let ahead = match choice {
            Choice::Pool | Choice::PoolIndexed => {
                let filter = if spec.offload.filters_exactly() { program.filter_columns() } else { &[] };
                let columns = program.projection().iter().chain(filter).copied().collect();
                spec.snapshot.read_ahead(columns, self.rows_left.is_some())
            }
            Choice::Pages | Choice::Rows | Choice::Groups => None,
        };
        let named = VecDeque::new();
        Ok(Running { scan, program, choice, named, ahead, link_bytes_down: 0, link_bytes_up: 0 })
    }

    /// One page of the pool or one unit of the drive; false after the last.
    fn step(&mut self) -> Result<bool> {
        let State::Running(running) = &mut self.state else { return Ok(false) };
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
                Choice::Pool | Choice::PoolIndexed => running.name(&unit.pages),
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
            self.metrics.link(link.bytes_down, link.bytes_up, &spec.counts);
        }
        let exact = spec.offload.filters_exactly();
        if let Some(page) = read_page(spec, &running.program, lpid, exact, &self.metrics)? {
            self.batches.push(&spec.table, &page)?;
        }
        Ok(true)
    }
}

/// Reads a page through the buffer pool; with `exact`, only its rows that pass the program. `None` if none does.
fn read_page(
    spec: &ScanSpec,
    program: &Program,
    lpid: Lpid,
    exact: bool,
    metrics: &ScanMetrics,
) -> Result<Option<PageRows>> {
    let read = |columns: &[u16]| {
        let page = spec.snapshot.read_columns(lpid, columns).map_err(engine_error)?;
        metrics.link(page.link_bytes_down, page.link_bytes_up, &spec.counts);
        Ok::<PageColumns, DataFusionError>(page)
    };
    metrics.page_read(&spec.counts);
    if !exact || program.filter().is_none() {
        let page = read(program.projection())?;
        spec.computes(HostWork::Scan, page.rows as u64);
        let slots = page.slots.filter(|_| program.slots());
        return Ok(Some(PageRows { lpid, rows: page.rows as u32, columns: page.columns, slots }));
    }
    let filter_columns = program.filter_columns();
    let page = read(filter_columns)?;
    let rows = page.rows;
    spec.computes(HostWork::Scan, rows as u64);
    spec.computes(HostWork::Filter, rows as u64);
    let mut source = ReadColumns { rows, numbers: filter_columns, columns: &page.columns };
    let selection = select(program, &mut source, &mut Meter::default())
        .map_err(|e| DataFusionError::External(Box::new(e)))?;
    let count = selection.count(rows);
    if count == 0 {
        return Ok(None);
    }
    let at = |c: &u16| filter_columns.binary_search(c);
    let others: Vec<u16> = program.projection().iter().filter(|c| at(c).is_err()).copied().collect();
    let mut others = if others.is_empty() { Vec::new() } else { read(&others)?.columns }.into_iter();
    let columns = program.projection().iter().map(|c| match at(c) {
        Ok(i) => compact(&page.columns[i], &selection),
        Err(_) => compact(&others.next().expect("each other column was read"), &selection),
    });
    let columns = columns.collect();
    let slots = match (program.slots(), page.slots) {
        (false, _) => None,
        (true, None) => (!matches!(selection, Selection::All)).then(|| selection.slots(rows)),
        // Of a page that the transaction deleted rows of.
        (true, Some(of)) => Some(selection.slots(rows).into_iter().map(|row| of[row as usize]).collect()),
    };
    Ok(Some(PageRows { lpid, rows: count as u32, columns, slots }))
}

/// The filter's columns of a page, already read.
struct ReadColumns<'a> {
    rows: usize,
    numbers: &'a [u16],
    columns: &'a [Column],
}

impl ColumnSource for ReadColumns<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&mut self, column: u16) -> std::result::Result<Column, Infallible> {
        let i = self.numbers.binary_search(&column).expect("a program reads the columns of its filter only");
        Ok(self.columns[i].clone())
    }
}
