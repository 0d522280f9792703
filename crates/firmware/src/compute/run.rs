//! A scan task as it runs: one bounded unit at a time.
//!
//! ```text
//!   task.pages: [extent 7: 0..1024] [extent 9: 0..80]
//!                       ^ next            the place goes on, and an aggregation's groups; nothing else is kept
//! ```
//!
//! Invariants: a unit considers at most `unit_pages` mapped pages, and ends once its answer passes
//! [`UNIT_BYTES`]; a page is answered once; between units only the filter may change.

use std::sync::Arc;

use lode_base::EXTENT_PAGES;
use lode_command::{Answer, CommandError, GroupRows, PageRange, PageRows, ScanTask, ScanUnit};
use lode_page::{Column, ops};
use lode_program::{ColumnSource, EvalError, GroupTable, Meter, Passed, Program, may_match};

use crate::compute::columns::{PageColumns, bad_page};
use crate::compute::{Located, PageAccess, PageCost};

/// A unit whose answer is at least this large ends.
const UNIT_BYTES: u64 = 1 << 20;
/// Look-ups of mapped pages in a unit, so that a long run of unmapped pages is bounded too.
const UNIT_LOOKUPS: u32 = 64;

/// A running task.
pub(crate) struct ScanRun {
    task: ScanTask,
    /// The range of the task that is next.
    range: usize,
    /// Pages of it that were considered.
    done_in_range: u16,
    rows_left: Option<u64>,
    /// The groups so far, of a task that answers groups.
    groups: Option<GroupTable>,
}

impl ScanRun {
    /// A task that has not begun.
    ///
    /// # Errors
    /// [`CommandError::Invalid`] for units of no pages, a range that leaves its extent, or an answer that is not the
    /// program's.
    pub(crate) fn new(task: ScanTask) -> Result<Self, CommandError> {
        if task.unit_pages == 0 {
            return Err(CommandError::Invalid("a scan in units of 0 pages".into()));
        }
        for r in &task.pages {
            let end = usize::from(r.first) + usize::from(r.count);
            if r.count == 0 || end > EXTENT_PAGES {
                return Err(CommandError::Invalid(format!(
                    "{} pages from {} of an extent",
                    r.count, r.first
                )));
            }
        }
        let groups = GroupTable::new(&task.program);
        if groups.is_some() != (task.answer == Answer::Aggregate) {
            let what = "a program with an aggregation answers groups, and no other does";
            return Err(CommandError::Invalid(what.into()));
        }
        let rows_left = task.limit_rows.filter(|_| task.answer == Answer::Rows);
        Ok(Self { task, range: 0, done_in_range: 0, rows_left, groups })
    }

    /// Gives the task a program with another filter, from the next unit on.
    ///
    /// # Panics
    /// When the program differs in anything else.
    pub(crate) fn narrow(&mut self, program: Arc<Program>) {
        let old = &self.task.program;
        let same = old.schema() == program.schema()
            && old.projection() == program.projection()
            && old.slots() == program.slots()
            && old.aggregation() == program.aggregation();
        assert!(same, "a running task may change its filter and nothing else");
        self.task.program = program;
    }

    /// Does a unit of work; `None` when there is none left. A unit may answer nothing.
    ///
    /// # Errors
    /// Those of the pages; the task is then over.
    pub(crate) fn next_unit(&mut self, pages: &dyn PageAccess) -> Result<Option<ScanUnit>, CommandError> {
        if self.is_over() {
            return Ok(None);
        }
        let mut unit = ScanUnit::default();
        let done = self.fill(pages, &mut unit);
        if done.is_err() {
            self.range = self.task.pages.len();
            self.groups = None;
        }
        done.map(|()| Some(unit))
    }

    fn is_over(&self) -> bool {
        let groups = self.groups.as_ref().map_or(0, GroupTable::groups);
        self.range == self.task.pages.len() && groups == 0 || self.rows_left == Some(0)
    }

    fn fill(&mut self, pages: &dyn PageAccess, unit: &mut ScanUnit) -> Result<(), CommandError> {
        let mut bytes = 0;
        for _ in 0..UNIT_LOOKUPS {
            let left = u64::from(self.task.unit_pages).saturating_sub(unit.counts.pages);
            if self.range == self.task.pages.len() || left == 0 || self.rows_left == Some(0) {
                break;
            }
            let ask = self.next_range(left);
            for at in pages.mapped(self.task.view, ask)? {
                bytes += self.charged_page(pages, &at, unit)?;
                if bytes >= UNIT_BYTES || self.rows_left == Some(0) {
                    self.advance(&ask, at.lpid.page() + 1 - ask.first);
                    self.last_groups(pages, unit);
                    return Ok(());
                }
            }
            self.advance(&ask, ask.count);
        }
        self.last_groups(pages, unit);
        Ok(())
    }

    /// One page, and what it cost; how many bytes it adds to the answer.
    fn charged_page(
        &mut self,
        pages: &dyn PageAccess,
        at: &Located,
        unit: &mut ScanUnit,
    ) -> Result<u64, CommandError> {
        let (before, groups_before) = (unit.counts, unit.groups.len());
        let answer = self.page(pages, at, unit)?;
        let now = unit.counts;
        let passed = now.rows_out - before.rows_out;
        let full: u64 = unit.groups[groups_before..].iter().map(GroupRows::link_bytes).sum();
        let bytes_out = answer.as_ref().map_or(0, PageRows::link_bytes) + full;
        let aggregation = self.task.program.aggregation();
        pages.charge(&PageCost {
            looked_up: true,
            index: self.task.program.filter().is_some() && self.task.answer != Answer::Mapped,
            read: now.pages_read > before.pages_read,
            rows_in: now.rows_in - before.rows_in,
            rows_out: if aggregation.is_some() { now.groups_out - before.groups_out } else { passed },
            rows_aggregated: if aggregation.is_some() { passed } else { 0 },
            grouped: aggregation.is_some_and(|a| !a.group_by.is_empty()),
            bytes_out,
        });
        unit.pages.extend(answer);
        Ok(bytes_out)
    }

    /// After the last page, the groups that are left.
    fn last_groups(&mut self, pages: &dyn PageAccess, unit: &mut ScanUnit) {
        if self.range == self.task.pages.len()
            && let Some(table) = &mut self.groups
            && table.groups() > 0
        {
            let (groups, columns) = table.drain(&self.task.program);
            let bytes_out = answer_groups(unit, groups, columns);
            pages.charge(&PageCost { rows_out: groups as u64, bytes_out, ..PageCost::default() });
        }
    }

    /// The next pages to look at, `pages_max` at most.
    fn next_range(&self, pages_max: u64) -> PageRange {
        let r = self.task.pages[self.range];
        let left = r.count - self.done_in_range;
        let count = pages_max.min(left.into()) as u16;
        PageRange { extent: r.extent, first: r.first + self.done_in_range, count }
    }

    fn advance(&mut self, asked: &PageRange, pages: u16) {
        assert!((1..=asked.count).contains(&pages), "the drive core answered a page that was not asked for");
        self.done_in_range += pages;
        if self.done_in_range == self.task.pages[self.range].count {
            (self.range, self.done_in_range) = (self.range + 1, 0);
        }
    }

    /// What one page answers, if anything.
    fn page(
        &mut self,
        pages: &dyn PageAccess,
        at: &Located,
        unit: &mut ScanUnit,
    ) -> Result<Option<PageRows>, CommandError> {
        unit.counts.pages += 1;
        let task = &self.task;
        let program = &*task.program;
        let identity = PageRows { lpid: at.lpid, rows: 0, columns: Vec::new(), slots: None };
        if task.answer == Answer::Mapped {
            return Ok(Some(identity));
        }
        if program.filter().is_some()
            && let Some((rule, entry)) = pages.index_entry(at)?
            && rule.schema() == program.schema()
            && !may_match(program, &rule, &entry)
        {
            unit.counts.pages_skipped += 1;
            return Ok(None);
        }
        if task.answer == Answer::Index {
            return Ok(Some(identity));
        }

        unit.counts.pages_read += 1;
        let mut media_bytes = 0;
        let fetch = |range| {
            let (bytes, from_media) = pages.read(at, range)?;
            media_bytes += from_media;
            Ok(bytes)
        };
        let mut meter = Meter::default();
        let mut columns = PageColumns::open(at.lpid, at.len_bytes(), program.schema(), fetch)?;
        let rows = columns.rows();
        let passed = Passed::of(program, &mut columns, &mut meter).map_err(|e| match e {
            EvalError::Source(e) => e,
            e => bad_page(at.lpid, e),
        })?;
        let mut answer = None;
        let mut rows_out = passed.count();
        if let (Some(table), true) = (&mut self.groups, rows_out > 0) {
            let mut full = |groups, columns| {
                answer_groups(unit, groups, columns);
            };
            passed.group(program, &mut columns, table, &mut full).map_err(|e| match e {
                EvalError::Source(e) => e,
                EvalError::Overflow => CommandError::Overflow(at.lpid),
                e => bad_page(at.lpid, e),
            })?;
        } else if rows_out > 0 {
            let come_out = if task.answer == Answer::Rows { passed } else { Passed::unfiltered(rows) };
            let a = come_out.rows_of(program, at.lpid, &mut columns)?;
            let left = self.rows_left.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
            answer = Some(if rows_out > left { first_rows(a, left) } else { a });
            rows_out = rows_out.min(left);
        }
        if let Some(left) = &mut self.rows_left {
            *left -= rows_out as u64;
        }
        unit.counts.media_bytes += media_bytes;
        unit.counts.rows_in += rows as u64;
        unit.counts.rows_out += rows_out as u64;
        unit.counts.values_compared += meter.values_compared;
        Ok(answer)
    }
}

/// Puts groups into the answer: how many bytes they take.
fn answer_groups(unit: &mut ScanUnit, groups: usize, columns: Vec<Column>) -> u64 {
    let rows = GroupRows { rows: groups as u32, columns };
    let bytes = rows.link_bytes();
    unit.counts.groups_out += groups as u64;
    unit.groups.push(rows);
    bytes
}

/// The first `rows` rows of an answer.
fn first_rows(mut a: PageRows, rows: usize) -> PageRows {
    a.rows = rows as u32;
    for c in &mut a.columns {
        *c = ops::slice(c, 0, rows);
    }
    if let Some(slots) = &mut a.slots {
        slots.truncate(rows);
    }
    a
}
