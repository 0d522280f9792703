//! What a transaction sees of its own changes, beside the snapshot that it began with.
//!
//! ```text
//!   page ─┬─ untouched ─► the drive, at the snapshot's view
//!         ├─ loaded ────► the drive, at a view that shows what the transaction wrote
//!         ├─ edited ────► its columns, then the edit ─┐
//!         └─ held ──────► rows in memory, then the edit ┴─► the host evaluates the scan's program
//! ```
//!
//! Inserted rows have pages too, though no drive knows them: they lie in an extent of their own a table, numbered from the
//! end of all extents, so that scans, addresses and counts treat them as any others.
//! Invariant: a page that is edited or held is in no task of the drive.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, TableId};
use lode_command::{Answer, PageRange, PageRows, ScanCounts, ScanUnit};
use lode_page::Column;
use lode_program::{ColumnSource, Meter, Passed, Program};

use crate::storage::columns::{self as read, PageColumns, Whole};
use crate::tables::edit::Edits;
use crate::tables::statistics::TableStatistics;
use crate::trees::snapshot::{Snapshot, View};
use crate::{EngineError, HostWork, Map, Set, Table};

/// Extents beyond this are not of the drive: one for each table that there can be.
const HELD_FIRST: u64 = (1 << 38) - (1 << 32);

/// The extent of the rows of a table that a transaction holds in memory.
pub(crate) fn held_extent(t: TableId) -> ExtentId {
    ExtentId::new(HELD_FIRST + u64::from(t.raw())).expect("tables have numbers of 32 bits")
}

fn is_held(e: ExtentId) -> bool {
    e.raw() >= HELD_FIRST
}

/// A transaction's own changes, as its reads see them.
pub(crate) struct Own {
    /// The state at its begin.
    pub(crate) base: Snapshot,
    /// Tables with changes.
    pub(crate) changed: BTreeSet<TableId>,
    pub(crate) edits: Edits,
    pub(crate) held: Map<Lpid, Arc<Vec<Column>>>,
    /// Extents that it loaded, and the view that shows them.
    pub(crate) loaded: Set<ExtentId>,
    pub(crate) view: Option<Arc<View>>,
}

/// Pages of a scan, by who reads them.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) drive: Vec<PageRange>,
    pub(crate) loaded: Vec<PageRange>,
    pub(crate) host: Vec<Lpid>,
}

impl Own {
    /// Whether the drive's version of a page, at the snapshot's view, is not what the transaction sees.
    pub(crate) fn covers(&self, lpid: Lpid) -> bool {
        is_held(lpid.extent()) || self.loaded.contains(&lpid.extent()) || self.edits.contains_key(&lpid)
    }

    /// Whether all pages of an extent are the transaction's own.
    pub(crate) fn is_own_extent(&self, e: ExtentId) -> bool {
        is_held(e) || self.loaded.contains(&e)
    }

    /// Deals the pages out.
    pub(crate) fn split(&self, ranges: Vec<PageRange>) -> Parts {
        let mut parts = Parts::default();
        for r in ranges {
            let pages = r.first..r.first + r.count;
            if is_held(r.extent) {
                parts.host.extend(pages.map(|p| r.extent.page(p)).filter(|l| self.held.contains_key(l)));
                continue;
            }
            let whole = r.extent.page(r.first)..=r.extent.page(pages.end - 1);
            let to = if self.loaded.contains(&r.extent) { &mut parts.loaded } else { &mut parts.drive };
            let mut first = pages.start;
            for &edited in self.edits.range(whole).map(|(lpid, _)| lpid) {
                parts.host.push(edited);
                if edited.page() > first {
                    to.push(PageRange { extent: r.extent, first, count: edited.page() - first });
                }
                first = edited.page() + 1;
            }
            if pages.end > first {
                to.push(PageRange { extent: r.extent, first, count: pages.end - first });
            }
        }
        parts
    }

    /// Columns of a page, after the transaction's changes. `snapshot` is the one that shows these.
    pub(crate) fn read(
        &self,
        snapshot: &Snapshot,
        lpid: Lpid,
        wanted: &[u16],
    ) -> Result<PageColumns, EngineError> {
        let mut page = if let Some(held) = self.held.get(&lpid) {
            let columns: Vec<Column> = wanted.iter().map(|&c| held[usize::from(c)].clone()).collect();
            PageColumns::in_memory(held[0].rows(), columns)
        } else if self.loaded.contains(&lpid.extent()) {
            let view = self.view.as_ref().map(|v| v.id());
            let table = read::table_of(snapshot, lpid)?;
            snapshot.noting_age(read::past_pool(snapshot.store(), view, table, lpid, wanted))?
        } else {
            read::columns(snapshot, lpid, wanted)?
        };
        if let Some(edit) = self.edits.get(&lpid) {
            page.columns = edit.apply(wanted, page.columns);
            if let Some(kept) = edit.kept(page.rows) {
                page.rows = kept.len();
                page.slots = Some(kept);
            }
        }
        Ok(page)
    }

    /// What the drive would answer of these pages if it knew them.
    pub(crate) fn answer(
        &self,
        snapshot: &Snapshot,
        pages: &[Lpid],
        program: &Program,
        answer: Answer,
    ) -> Result<ScanUnit, EngineError> {
        let mut unit = ScanUnit::default();
        for &lpid in pages {
            let page = match answer {
                Answer::Mapped | Answer::Index => {
                    unit.counts.pages += 1;
                    Some(PageRows { lpid, rows: 0, columns: Vec::new(), slots: None })
                }
                Answer::Pages | Answer::Rows => {
                    let all = answer == Answer::Pages;
                    self.evaluate(snapshot, lpid, program, all, &mut unit.counts)?
                }
                Answer::Aggregate => {
                    let what = "the drive does not aggregate where a transaction has changes of its own";
                    return Err(EngineError::invalid("", what));
                }
            };
            unit.pages.extend(page);
        }
        Ok(unit)
    }

    /// A page's rows that pass the program, or all of them if one does; `None` if none does.
    fn evaluate(
        &self,
        snapshot: &Snapshot,
        lpid: Lpid,
        program: &Program,
        all: bool,
        counts: &mut ScanCounts,
    ) -> Result<Option<PageRows>, EngineError> {
        let mut numbers: Vec<u16> =
            program.filter_columns().iter().chain(program.projection()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let page = self.read(snapshot, lpid, &numbers)?;
        let rows = page.rows;
        let mut source = Numbered { numbers: &numbers, page };
        if let (Some(host), Some(_)) = (snapshot.host(), program.filter()) {
            host.computes(HostWork::Filter, rows as u64);
        }
        let passed = Passed::of(program, &mut source, &mut Meter::default())
            .map_err(|e| EngineError::invalid("", e.to_string()))?;
        counts.pages += 1;
        counts.pages_read += 1;
        counts.rows_in += rows as u64;
        counts.rows_out += passed.count() as u64;
        if passed.count() == 0 {
            return Ok(None);
        }
        let come_out = if all { Passed::unfiltered(rows) } else { passed };
        let Ok(rows) = come_out.rows_of(program, lpid, &mut source);
        Ok(Some(rows))
    }

    /// The statistics of a table with changes: those at the begin, widened by what was put in.
    pub(crate) fn statistics(&self, snapshot: &Snapshot, t: &Table) -> Result<TableStatistics, EngineError> {
        let base = match self.base.tables().find(|b| b.id() == t.id()) {
            // The drive's entries are those of the index at the begin.
            Some(base) if base.index_columns() != t.index_columns() => {
                return Ok(TableStatistics::unknown(t));
            }
            Some(base) => self.base.statistics(base)?,
            None => TableStatistics::none(t),
        };
        if t.extents.iter().any(|e| self.loaded.contains(&e.id)) {
            return Ok(TableStatistics::unknown(t));
        }
        let rule = t.index_rule()?;
        let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
        let mut entries = Vec::new();
        let held = self.held.keys().filter(|l| l.extent() == held_extent(t.id()));
        let edited =
            self.edits.keys().filter(|l| !is_held(l.extent()) && t.extent_index(l.extent()).is_some());
        for &lpid in held.chain(edited) {
            let page = self.read(snapshot, lpid, &all)?;
            if page.rows > 0 {
                entries.extend(rule.entry(&mut Whole(&page.columns)));
            }
        }
        Ok(base.grown(t, &rule, &entries).unwrap_or_else(|| TableStatistics::unknown(t)))
    }
}

/// Columns of a page by their numbers, ascending.
struct Numbered<'a> {
    numbers: &'a [u16],
    page: PageColumns,
}

impl ColumnSource for Numbered<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.page.rows
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        let at = self.numbers.binary_search(&column).expect("the columns of the program were read");
        Ok(self.page.columns[at].clone())
    }

    fn slots(&self) -> Option<&[u32]> {
        self.page.slots.as_deref()
    }
}
