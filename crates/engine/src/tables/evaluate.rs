//! Scans of pages that the reading transaction changed, and of rows of a delta: the host runs the program, as the drive does for all
//! other pages.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use lode_base::{Lpid, TableId};
use lode_command::{Answer, GroupRows, PageRows, ScanCounts, ScanUnit};
use lode_page::Column;
use lode_program::{ColumnSource, GroupTable, IndexRule, Meter, Passed, Program, may_match};

use super::delta::ChunkPage;
use super::overlay::Part;
use super::own::OwnChanges;
use super::read::own_columns;
use super::table::Table;
use crate::storage::clock::HostWork;
use crate::storage::columns::PageColumns;
use crate::trees::Snapshot;
use crate::{EngineError, HostClock};

/// What the drive would answer of these pages if it had the changes.
pub(super) fn evaluate(
    snapshot: &Snapshot,
    own: &OwnChanges,
    pages: &[Lpid],
    program: &Program,
    answer: Answer,
) -> Result<ScanUnit, EngineError> {
    let mut unit = ScanUnit::default();
    for &lpid in pages {
        let page = match answer {
            Answer::Mapped | Answer::Index | Answer::Hints { .. } => {
                unit.counts.pages += 1;
                Some(PageRows::name(lpid))
            }
            Answer::Pages | Answer::Rows => {
                let all = answer == Answer::Pages;
                evaluate_page(snapshot, own, lpid, program, all, &mut unit.counts)?
            }
            Answer::Aggregate | Answer::Whole => {
                let what = "the drive neither aggregates nor sends whole pages where a transaction has changes of its own";
                return Err(EngineError::invalid("", what));
            }
        };
        unit.pages.extend(page);
    }
    Ok(unit)
}

/// The rows of a page that pass the program, or with `all` all of its rows if one passes. `None` if none passes.
fn evaluate_page(
    snapshot: &Snapshot,
    own: &OwnChanges,
    lpid: Lpid,
    program: &Program,
    all: bool,
    counts: &mut ScanCounts,
) -> Result<Option<PageRows>, EngineError> {
    let mut numbers: Vec<u16> =
        program.filter_columns().iter().chain(program.projection()).copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let page = own_columns(snapshot, own, lpid, &numbers)?;
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

/// Parts of a unit.
const UNIT_PARTS: usize = 64;

/// The rows of a delta that a scan has not answered yet.
pub(super) struct PartScan {
    parts: VecDeque<Part>,
    rule: IndexRule,
    table: TableId,
    groups: Option<GroupTable>,
}

impl PartScan {
    pub(super) fn new(t: &Table, parts: Vec<Part>) -> Result<Self, EngineError> {
        Ok(Self { parts: parts.into(), rule: t.index_rule()?, table: t.id(), groups: None })
    }

    /// What the drive would answer of the next rows if it had them; `None` after the last.
    pub(super) fn next(
        &mut self,
        host: Option<&HostClock>,
        program: &Program,
        answer: Answer,
    ) -> Result<Option<ScanUnit>, EngineError> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let mut unit = ScanUnit::default();
        let count = match answer {
            Answer::Pages | Answer::Rows => self.parts.len().min(UNIT_PARTS),
            // Names and groups are those of all parts.
            Answer::Mapped | Answer::Index | Answer::Hints { .. } | Answer::Aggregate => self.parts.len(),
            Answer::Whole => return Err(EngineError::invalid("", "rows of a delta are on no page")),
        };
        let mut named: BTreeSet<Lpid> = BTreeSet::new();
        for part in self.parts.drain(..count).filter(|p| p.rows() > 0) {
            let lpid = part.lpid(self.table);
            unit.counts.pages += 1;
            let entry = part.chunk.entry(&self.rule);
            if answer != Answer::Mapped && entry.is_some_and(|e| !may_match(program, &self.rule, e)) {
                unit.counts.pages_skipped += 1;
                continue;
            }
            if matches!(answer, Answer::Mapped | Answer::Index | Answer::Hints { .. }) {
                named.insert(lpid);
                continue;
            }
            let rows = part.chunk.ids.len();
            let mut page = ChunkPage::new(&part.chunk);
            if let (Some(host), Some(_)) = (host, program.filter()) {
                host.computes(HostWork::Filter, rows as u64);
            }
            let invalid = |e: &dyn std::fmt::Display| EngineError::invalid("", e.to_string());
            let mut passed =
                Passed::of(program, &mut page, &mut Meter::default()).map_err(|e| invalid(&e))?;
            let mut whole = Passed::unfiltered(rows);
            if let Some(hidden) = &part.hidden {
                passed.hide(hidden);
                whole.hide(hidden);
            }
            unit.counts.pages_read += 1;
            unit.counts.rows_in += rows as u64;
            if passed.count() == 0 {
                continue;
            }
            if answer == Answer::Aggregate {
                host.inspect(|h| h.computes(HostWork::Aggregate, passed.count() as u64));
                if self.groups.is_none() {
                    self.groups = GroupTable::new(program);
                }
                let groups = self.groups.as_mut().expect("the program has an aggregation");
                let out = &mut unit;
                passed
                    .group(program, &mut page, groups, &mut |rows, columns| answer_groups(out, rows, columns))
                    .map_err(|e| invalid(&e))?;
                unit.counts.rows_out += passed.count() as u64;
                continue;
            }
            let come_out = if answer == Answer::Pages { whole } else { passed };
            unit.counts.rows_out += come_out.count() as u64;
            let Ok(rows) = come_out.rows_of(program, lpid, &mut page);
            unit.pages.push(rows);
        }
        if let Some(mut groups) = self.groups.take() {
            let (rows, columns) = groups.drain(program);
            answer_groups(&mut unit, rows, columns);
        }
        unit.pages.extend(named.into_iter().map(PageRows::name));
        Ok(Some(unit))
    }
}

fn answer_groups(unit: &mut ScanUnit, rows: usize, columns: Vec<Column>) {
    if rows > 0 {
        unit.counts.groups_out += rows as u64;
        unit.groups.push(GroupRows { rows: rows as u32, columns });
    }
}

/// Columns of a page by their numbers, ascending.
#[derive(Clone)]
pub(super) struct Numbered<'a> {
    pub(super) numbers: &'a [u16],
    pub(super) page: PageColumns,
}

impl Numbered<'_> {
    /// The column of this number, which was read.
    pub(super) fn of(&self, number: u16) -> &Column {
        let at = self.numbers.binary_search(&number).expect("the columns of the program were read");
        &self.page.columns[at]
    }
}

impl ColumnSource for Numbered<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.page.rows
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        Ok(self.of(column).clone())
    }

    fn slots(&self) -> Option<&[u32]> {
        self.page.slots.as_deref()
    }
}
