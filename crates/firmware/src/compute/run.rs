//! A scan task as it runs: one bounded unit at a time.
//!
//! ```text
//!   task.pages: [extent 7: 0..1024] [extent 9: 0..80]
//!                       ^ next            the place goes on, and an aggregation's groups; nothing else is kept
//! ```
//!
//! Where pages that the page index excludes answer nothing, the index is first asked about many together: those of an extent, then those of
//! a group of 32. A guess says whether asking is of use, so that pages that are never excluded together cost few questions more.
//!
//! Invariants: a unit considers at most `unit_pages` mapped pages one by one, and ends once its answer passes
//! [`UNIT_BYTES`]; a page is answered once; between units only the filter may change.

use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ViewId};
use lode_command::{
    Answer, CommandError, GroupRows, PageRange, PageRows, ScanTask, ScanUnit, Skip, WholePage,
};
use lode_page::ops;
use lode_program::Program;
use lode_program::index::Ascending;

use crate::ScanPlacement;
use crate::compute::mechanism::{Asked, Chain, Page, PageAnswer};
use crate::compute::{Collect, Located, PageAccess, PageCost, Together};
use crate::pages::GROUP_PAGES;
use crate::planted::{self, Planted};

/// A unit whose answer is at least this large ends.
const UNIT_BYTES: u64 = 1 << 20;
/// Look-ups of mapped pages in a unit, so that a long run of unmapped pages is bounded too.
const UNIT_LOOKUPS: u32 = 64;

/// A running task.
pub(crate) struct ScanRun {
    view: ViewId,
    pages: Vec<PageRange>,
    unit_pages: u32,
    chain: Chain,
    /// What carries it out, on a modelled device.
    placement: ScanPlacement,
    /// The range of the task that is next.
    range: usize,
    /// Pages of it that were considered.
    done_in_range: u16,
    rows_left: Option<u64>,
    /// Whether the index excludes the next extent as a whole, and the next group.
    guesses: [Guess; 2],
    /// Whether it may ask about pages together.
    by_levels: bool,
    /// Set if the pages ascend.
    ascending: Option<Ascending>,
    failed: bool,
}

impl ScanRun {
    /// A task that has not begun, carried out at `placement`.
    ///
    /// # Errors
    /// [`CommandError::Invalid`] for units of no pages, a range that leaves its extent, an answer that is not the
    /// program's, or an order by a column that does not exist.
    pub(crate) fn new(task: ScanTask, placement: ScanPlacement) -> Result<Self, CommandError> {
        let ScanTask { view, pages, program, answer, unit_pages, limit_rows, hidden, matcher, skip } = task;
        if unit_pages == 0 {
            return Err(CommandError::Invalid("a scan in units of 0 pages".into()));
        }
        for r in &pages {
            let end = usize::from(r.first) + usize::from(r.count);
            if r.count == 0 || end > EXTENT_PAGES {
                return Err(CommandError::Invalid(format!(
                    "{} pages from {} of an extent",
                    r.count, r.first
                )));
            }
        }
        if answer == Answer::Whole && hidden.is_some() {
            return Err(CommandError::Invalid("whole pages show all their rows".into()));
        }
        let ascending = match skip {
            Skip::Levels | Skip::Each | Skip::Never => None,
            Skip::Sorted(column) => {
                let by = Ascending::by(column, program.schema());
                Some(by.map_err(|e| CommandError::Invalid(e.to_string()))?)
            }
        };
        // Whole pages go through memory as they are: no scan unit has anything to do with them.
        let placement = if answer == Answer::Whole { ScanPlacement::Core } else { placement };
        let chain =
            Chain::new(Asked { program, matcher, by_index: skip != Skip::Never }, answer)?.hiding(hidden);
        let rows_left = limit_rows.filter(|_| answer == Answer::Rows);
        Ok(Self {
            view,
            pages,
            unit_pages,
            chain,
            placement,
            range: 0,
            done_in_range: 0,
            rows_left,
            guesses: Default::default(),
            by_levels: skip == Skip::Levels,
            ascending,
            failed: false,
        })
    }

    /// The same task, which collects keys of the pages that it answers whole.
    pub(crate) fn collecting(self, collect: Option<Collect>) -> Self {
        Self { chain: self.chain.collecting(collect), ..self }
    }

    /// The keys that it collected, once it is over.
    pub(crate) fn collected(self) -> Option<Collect> {
        self.chain.collected()
    }

    /// What carries it out.
    pub(crate) fn placement(&self) -> ScanPlacement {
        self.placement
    }

    /// Gives the task a program with another filter, from the next unit on.
    ///
    /// # Panics
    /// When the program differs in anything else.
    pub(crate) fn narrow(&mut self, program: Arc<Program>) {
        self.chain.narrow(program);
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
        self.failed = done.is_err();
        done.map(|()| Some(unit))
    }

    pub(crate) fn is_over(&self) -> bool {
        let answered = self.range == self.pages.len() && !self.chain.holds();
        self.failed || answered || self.rows_left == Some(0)
    }

    fn fill(&mut self, pages: &dyn PageAccess, unit: &mut ScanUnit) -> Result<(), CommandError> {
        let (mut bytes, mut together) = (0, 0);
        for _ in 0..UNIT_LOOKUPS {
            let left = u64::from(self.unit_pages).saturating_sub(unit.counts.pages - together);
            if self.range == self.pages.len() || left == 0 || self.rows_left == Some(0) {
                break;
            }
            if let Some(excluded) = self.exclude(pages, unit)? {
                together += excluded;
                continue;
            }
            let ask = self.next_range(left);
            for at in pages.mapped(self.view, ask)? {
                let skipped = unit.counts.pages_skipped;
                bytes += self.charged_page(pages, &at, unit)?;
                if unit.counts.pages_skipped > skipped && self.ends_at(pages, &at)? {
                    (self.range, self.done_in_range) = (self.pages.len(), 0);
                    self.last_groups(pages, unit);
                    return Ok(());
                }
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

    /// Passes over the next pages if the index excludes them together; answers how many.
    fn exclude(&mut self, pages: &dyn PageAccess, unit: &mut ScanUnit) -> Result<Option<u64>, CommandError> {
        let r = self.pages[self.range];
        let first = r.first + self.done_in_range;
        let starts = |of: u16| self.done_in_range == 0 || first.is_multiple_of(of);
        if !self.asks_together() || !starts(GROUP_PAGES) {
            return Ok(None);
        }
        let in_group = (GROUP_PAGES - first % GROUP_PAGES).min(r.count - self.done_in_range);
        let group = PageRange { extent: r.extent, first, count: in_group };
        let rest = PageRange { count: r.count - self.done_in_range, ..group };
        let begins_extent = starts(EXTENT_PAGES as u16) && rest.count > in_group;
        let [extents, groups] = &mut self.guesses;
        let asks = [(begins_extent && extents.begin()).then_some(rest), groups.begin().then_some(group)];
        for (level, ask) in asks.into_iter().enumerate().filter_map(|(level, ask)| Some((level, ask?))) {
            let Together { excluded, keys_compared } =
                pages.excluded(self.view, ask, self.chain.program())?;
            let looked_up = keys_compared > 0;
            pages.charge(self.placement, &PageCost { looked_up, keys_compared, ..PageCost::default() });
            self.guesses[level].answered(excluded.is_some());
            if let Some(excluded) = excluded {
                unit.counts.pages += excluded;
                unit.counts.pages_skipped += excluded;
                self.advance(&ask, ask.count);
                return Ok(Some(excluded));
            }
        }
        Ok(None)
    }

    /// One page, and what it cost; how many bytes it adds to the answer.
    fn charged_page(
        &mut self,
        pages: &dyn PageAccess,
        at: &Located,
        unit: &mut ScanUnit,
    ) -> Result<u64, CommandError> {
        let before = (unit.groups.len(), unit.counts.groups_out);
        let skipped = unit.counts.pages_skipped;
        let PageAnswer { mut rows, bytes, passed, hint, mut cost } =
            self.chain.page(&Page { at, access: pages }, unit)?;
        if unit.counts.pages_skipped == skipped || passed > 0 {
            self.guesses.iter_mut().for_each(|g| g.pages_left = true);
        }
        let mut rows_out = passed;
        if let Some(left) = &mut self.rows_left {
            rows_out = passed.min(*left);
            *left -= rows_out;
            rows = rows.map(|r| if passed > rows_out { first_rows(r, rows_out as usize) } else { r });
        }
        // Rows that pass do not come out of a hint.
        unit.counts.rows_out += if hint.is_some() { 0 } else { rows_out };
        let full: u64 = unit.groups[before.0..].iter().map(GroupRows::link_bytes).sum();
        let whole = bytes.map(|bytes| WholePage { lpid: at.lpid, bytes });
        cost.bytes_out = rows.as_ref().map_or(0, PageRows::link_bytes) + full + u64::from(hint.is_some());
        // A whole page leaves the memory that it was read into.
        let whole_bytes = whole.as_ref().map_or(0, WholePage::link_bytes);
        let groups = unit.counts.groups_out - before.1;
        cost.rows_out = match hint {
            Some(_) => 0,
            None if self.chain.program().aggregation().is_some() => groups,
            None => rows_out,
        };
        pages.charge(self.placement, &cost);
        unit.pages.extend(rows);
        unit.whole.extend(whole);
        if let Some(flagged) = hint {
            let is_last = self.range + 1 == self.pages.len();
            unit.hint(at.lpid, planted::instead(Planted::HintCleared, || flagged, || flagged && !is_last));
        }
        Ok(cost.bytes_out + whole_bytes)
    }

    /// After the last page, the groups that are left.
    fn last_groups(&mut self, pages: &dyn PageAccess, unit: &mut ScanUnit) {
        if self.range == self.pages.len() && self.chain.holds() {
            let before = (unit.groups.len(), unit.counts.groups_out);
            self.chain.end(unit);
            let rows_out = unit.counts.groups_out - before.1;
            let bytes_out = unit.groups[before.0..].iter().map(GroupRows::link_bytes).sum();
            pages.charge(self.placement, &PageCost { rows_out, bytes_out, ..PageCost::default() });
        }
    }

    /// The next pages to look at one by one, `pages_max` at most, and no more than are excluded together.
    fn next_range(&self, pages_max: u64) -> PageRange {
        let r = self.pages[self.range];
        let first = r.first + self.done_in_range;
        let mut left = r.count - self.done_in_range;
        if self.asks_together() {
            left = left.min(GROUP_PAGES - first % GROUP_PAGES);
        }
        PageRange { extent: r.extent, first, count: pages_max.min(left.into()) as u16 }
    }

    /// Whether it asks the page index about many pages together.
    fn asks_together(&self) -> bool {
        self.by_levels && self.chain.skips_by_index()
    }

    /// Whether the pages ascend, and no row of this page and of those after it passes.
    fn ends_at(&self, pages: &dyn PageAccess, at: &Located) -> Result<bool, CommandError> {
        let Some(ascending) = &self.ascending else { return Ok(false) };
        if planted::is(Planted::SortedEndsEarly) {
            return Ok(true);
        }
        let entry = pages.index_entry(at)?;
        pages.charge(self.placement, &PageCost { keys_compared: 1, ..PageCost::default() });
        Ok(entry.is_some_and(|(rule, entry)| ascending.ends(self.chain.program(), &rule, &entry)))
    }

    fn advance(&mut self, asked: &PageRange, pages: u16) {
        assert!((1..=asked.count).contains(&pages), "the drive core answered a page that was not asked for");
        self.done_in_range += pages;
        if self.done_in_range == self.pages[self.range].count {
            (self.range, self.done_in_range) = (self.range + 1, 0);
        }
    }
}

/// A guess whether the index excludes many pages together: as many before them were excluded, together or one by one. Each time that
/// only the latter was so, twice as many are passed over before the index is asked again.
#[derive(Default)]
struct Guess {
    /// Whether a page that was begun since was not excluded.
    pages_left: bool,
    /// Whether the index was asked about those, and did not exclude them.
    failed: bool,
    /// How many are not asked about after a failure, and how many of them are left.
    pause: u32,
    wait: u32,
}

impl Guess {
    /// The next pages begin: whether to ask about them.
    fn begin(&mut self) -> bool {
        let (pages_left, failed) = (std::mem::take(&mut self.pages_left), std::mem::take(&mut self.failed));
        if pages_left {
            return false;
        }
        if failed {
            self.pause = 2 * self.pause + 1;
            self.wait = self.pause;
        }
        let asks = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        asks
    }

    fn answered(&mut self, excluded: bool) {
        self.failed = !excluded;
        if excluded {
            self.pause = 0;
        }
    }
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
