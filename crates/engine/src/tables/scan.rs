//! Scans: a program over pages of one table at one snapshot, run in the drive unit by unit.
//!
//! ```text
//!   wall time:  all pages ─► one task, whose units come one by one
//!   modelled:   part │ part │ part │ part │ ...       a task each; the host takes the units of the first, and as many as
//!               ▲ first      └─ under way ─┘           its queue is deep are under way behind it
//! ```
//!
//! Nothing is submitted before the first [`Scan::next`], since a run-time filter may still come. Dropping a scan cancels its tasks.
//! Units come in the order of the pages, however many tasks there are. Pages that the reading transaction changed come last: first
//! those that it loaded, by a task at another view, then the others, from the host. Rows of a delta come last of all, from the host. The
//! drive does not show rows that the delta has. Hints come out as the names of the pages that the host has to read.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_base::{Lpid, ViewId};
use lode_command::{
    Answer, Command, CommandError, Completion, Outcome, PageHints, PageRange, PageRows, Queue, Reply,
    ScanCounts, ScanTask, ScanUnit, Skip, Tag,
};
use lode_program::answer::Member;
use lode_program::matcher::Declined;
use lode_program::{Matcher, Program};

use super::delta::is_delta;
use super::evaluate::{PartScan, evaluate};
use super::overlay::Part;
use super::table::Table;
use crate::access::AccessPath;
use crate::trees::Snapshot;
use crate::{EngineError, LinkStats};

/// Pages of a unit: few enough that a run-time filter soon takes effect, many enough that units cost little.
const UNIT_PAGES: u32 = 16;
/// Pages of a unit of hints, which takes a byte of each.
const HINTED_PAGES: u32 = 64;
/// Pages of a task, and of a unit, on a modelled device, if it only names pages: it reads none, so it is mostly its command. A run-time
/// filter comes too late for pages that are named ([`Scan::few_at_a_time`]).
const NAMED_PAGES: u32 = 4096;
/// Parts of a modelled scan for each task that may be under way, if there are enough pages. So it is only at the end of the scan
/// that few tasks are under way.
const PARTS_A_TASK: u32 = 4;

/// On a modelled device tasks grow while the page index leaves out all but one of so many pages, up to so many times their usual size.
const SKIPPED_PARTS: u64 = 8;
const GROWN_MAX: u32 = 64;
/// As many tasks are under way until it is known whether the page index leaves many pages out, and while it does.
const PROBES: usize = 4;
/// Of scans of fewer units than this nothing is gained by it.
const PROBED_UNITS: u64 = 16;
/// While it does, a task has at most this part of the pages that are left.
const GROWN_PART: u64 = 2;

/// A running scan. Dropping it cancels the drive's tasks.
pub struct Scan {
    snapshot: Snapshot,
    /// What all tasks have in common. Its pages are those that no task has yet.
    task: ScanTask,
    /// Pages of a task, and tasks under way, at most.
    part_pages: u32,
    depth: usize,
    /// Whether the page index may leave pages out for this filter.
    may_skip: bool,
    /// Tasks under way, at most, as far as is known of what the page index leaves out.
    window: usize,
    /// How many times as many pages the next task has, and each of its units, since the page index leaves nearly all of them out.
    grown: u32,
    /// Pages that no task has yet.
    pages_left: u64,
    /// Tasks that came to their end.
    ended: usize,
    queue: Option<Box<dyn Queue>>,
    tasks: VecDeque<Task>,
    /// Pages that the transaction loaded, and the view that shows them.
    loaded: Option<(ViewId, Vec<PageRange>)>,
    /// Pages that the host evaluates.
    own: VecDeque<Lpid>,
    /// Rows of a delta, which the host evaluates.
    parts: Option<PartScan>,
    counts: ScanCounts,
    link: LinkStats,
}

/// A task of a scan, and what it answered.
struct Task {
    tag: Tag,
    ready: VecDeque<ScanUnit>,
    over: bool,
}

impl Snapshot {
    /// A scan of these pages in the drive. It submits nothing before its first [`Scan::next`].
    ///
    /// # Errors
    /// When the program is for another schema than the table's.
    pub fn scan(
        &self,
        t: &Table,
        pages: Vec<PageRange>,
        program: Arc<Program>,
        answer: Answer,
        limit: Option<u64>,
    ) -> Result<Scan, EngineError> {
        if program.schema() != t.schema() {
            return Err(EngineError::invalid(t.name(), "the program is for another schema"));
        }
        let limit_rows = limit.filter(|_| answer == Answer::Rows);
        let view = self.view_id();
        let (of_delta, pages): (Vec<PageRange>, Vec<PageRange>) =
            pages.into_iter().partition(|r| is_delta(r.extent));
        let (mut hidden, mut parts) = (None, None);
        if let Some(overlay) = self.overlay(t)?.filter(|o| !o.is_empty()) {
            hidden = Some(Arc::new(overlay.hidden.within(&pages))).filter(|h| !h.is_empty());
            let shown: Vec<Part> =
                overlay.parts.iter().filter(|p| p.is_within(t.id(), &of_delta)).cloned().collect();
            parts = (!shown.is_empty()).then(|| PartScan::new(t, shown)).transpose()?;
        }
        let matcher = self.matcher(t, &program, answer).ok().map(Arc::new);
        let unit_pages = unit_pages(answer, self.host().is_some());
        let skip = Skip::default();
        let task = ScanTask { view, pages, program, answer, unit_pages, limit_rows, hidden, matcher, skip };
        let may_skip = self.host().is_some() && may_skip(t, &task.program)?;
        Ok(Scan::new(self.clone(), task, parts, may_skip))
    }

    /// The keys that the drive looks for in pages of a scan.
    ///
    /// # Errors
    /// Why it looks for none.
    pub fn matcher(&self, t: &Table, program: &Program, answer: Answer) -> Result<Matcher, NoMatcher> {
        let limits = self.storage().store().identity().matcher.ok_or(NoMatcher::NoHardware)?;
        if !answer.members().contains(&Member::Matcher) {
            return Err(NoMatcher::NotAsked);
        }
        // Pages that are older than a column do not have its fields.
        let base = t.schema().base_columns();
        let options = &t.def().options;
        let has_fields = |c: u16| usize::from(c) < base && options.encoding.of(c).is_matchable();
        if !(0..base as u16).any(has_fields) {
            return Err(NoMatcher::NoFields);
        }
        Matcher::of(program, limits, &has_fields).map_err(NoMatcher::Declined)
    }
}

/// Why the drive looks for no keys in the pages of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMatcher {
    /// The drive has no pattern matchers.
    #[error("the drive has no pattern matcher")]
    NoHardware,
    /// The drive does not look at rows.
    #[error("the drive reads no pages")]
    NotAsked,
    /// No column of the table is matchable.
    #[error("the table has no column with encoding = 'matchable'")]
    NoFields,
    /// The filter has no keys.
    #[error("{0}")]
    Declined(Declined),
}

/// Whether entries of pages say something of a column that the filter of a program looks at.
fn may_skip(t: &Table, program: &Program) -> Result<bool, EngineError> {
    if program.filter().is_none() {
        return Ok(false);
    }
    let rule = t.index_rule()?;
    Ok(program.filter_columns().iter().any(|c| rule.columns().contains(c)))
}

fn unit_pages(answer: Answer, is_modelled: bool) -> u32 {
    match answer {
        Answer::Hints { .. } => HINTED_PAGES,
        _ if is_modelled && answer.only_names() => NAMED_PAGES,
        _ => UNIT_PAGES,
    }
}

impl Scan {
    /// The same scan by another access path. Its pages are those that it was given.
    #[must_use]
    pub fn by(mut self, path: &AccessPath) -> Self {
        self.task.skip = path.skip;
        self.probe();
        self
    }

    /// The same scan, which a run-time filter may narrow at any time: it names pages few at a time.
    #[must_use]
    pub fn few_at_a_time(mut self) -> Self {
        if self.task.answer.only_names() {
            self.task.unit_pages = UNIT_PAGES;
            self.part_pages = self.part_pages.min(UNIT_PAGES);
            self.probe();
        }
        self
    }

    /// Begins with few tasks of whole units, if the page index may leave out most pages: then there will be few more.
    fn probe(&mut self) {
        let probes = self.may_skip()
            && self.depth > PROBES
            && self.pages_left > u64::from(self.task.unit_pages) * PROBED_UNITS;
        self.window = if probes { PROBES } else { self.depth };
    }

    fn may_skip(&self) -> bool {
        self.may_skip && self.task.skip != Skip::Never
    }

    /// Pages of a task of the usual size.
    fn usual_pages(&self) -> u32 {
        if self.window < self.depth { self.task.unit_pages.max(self.part_pages) } else { self.part_pages }
    }

    fn new(snapshot: Snapshot, mut task: ScanTask, parts: Option<PartScan>, may_skip: bool) -> Self {
        let (mut loaded, mut host_pages) = (None, Vec::new());
        if let Some(own) = snapshot.own() {
            let parts = own.split(std::mem::take(&mut task.pages));
            (task.pages, host_pages) = (parts.drive, parts.host);
            loaded = own.loaded_view().filter(|_| !parts.loaded.is_empty()).map(|v| (v.id(), parts.loaded));
        }
        let (mut part_pages, mut depth) = (u32::MAX, 1);
        if let Some(host) = snapshot.host() {
            let pages: u32 = task.pages.iter().map(|r| u32::from(r.count)).sum();
            depth = host.depth().min(snapshot.storage().store().identity().queue_depth_max);
            // Each part answers its own groups, so fewer parts answer fewer groups.
            let parts = if task.program.aggregation().is_some() { 1 } else { PARTS_A_TASK };
            // Hints are a byte a page, so that a task of few pages would mostly be its command.
            part_pages = match task.answer {
                Answer::Hints { .. } | Answer::Mapped | Answer::Index => task.unit_pages,
                _ => (pages / (depth * parts)).clamp(1, task.unit_pages),
            };
        }
        // Parts are taken from the end.
        task.pages.reverse();
        let pages_left = task.pages.iter().map(|r| u64::from(r.count)).sum();
        let depth = depth as usize;
        let (counts, link) = (ScanCounts::default(), LinkStats::default());
        let mut scan = Self {
            snapshot,
            task,
            part_pages,
            depth,
            may_skip,
            window: depth,
            grown: 1,
            pages_left,
            ended: 0,
            queue: None,
            tasks: VecDeque::new(),
            loaded,
            own: host_pages.into(),
            parts,
            counts,
            link,
        };
        scan.probe();
        scan
    }

    /// The next unit; `None` after the last one. After an error the scan is over.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<ScanUnit>, EngineError> {
        let next = self.advance();
        if next.is_err() {
            // Tasks that are under way end with their queue.
            self.task.pages.clear();
            (self.loaded, self.own, self.parts) = (None, VecDeque::new(), None);
            self.tasks.clear();
            self.queue = None;
        }
        next
    }

    fn advance(&mut self) -> Result<Option<ScanUnit>, EngineError> {
        loop {
            self.submit_more()?;
            let Some(first) = self.tasks.front_mut() else {
                if let Some((view, mut pages)) = self.loaded.take() {
                    pages.reverse();
                    self.pages_left = pages.iter().map(|r| u64::from(r.count)).sum();
                    (self.task.view, self.task.pages) = (view, pages);
                    continue;
                }
                if let (Some(queue), 1) = (self.queue.take(), self.depth) {
                    self.snapshot.storage().store().give_back(queue);
                }
                return self.next_own();
            };
            if let Some(unit) = first.ready.pop_front() {
                return Ok(Some(unit));
            }
            match first.over {
                true => drop(self.tasks.pop_front()),
                false => self.take()?,
            }
        }
    }

    /// A unit of pages that the transaction changed, or of rows of a delta.
    fn next_own(&mut self) -> Result<Option<ScanUnit>, EngineError> {
        let Some(own) = self.snapshot.own().filter(|_| !self.own.is_empty()) else {
            let Some(parts) = self.parts.as_mut() else { return Ok(None) };
            let unit =
                parts.next(self.snapshot.host().map(|h| &**h), &self.task.program, self.task.answer)?;
            self.counts += unit.as_ref().map_or(ScanCounts::default(), |u| u.counts);
            return Ok(unit);
        };
        let pages: Vec<Lpid> = self.own.drain(..self.own.len().min(UNIT_PAGES as usize)).collect();
        let unit = evaluate(&self.snapshot, own, &pages, &self.task.program, self.task.answer)?;
        self.counts += unit.counts;
        Ok(Some(unit))
    }

    /// Submits tasks for the next pages, as many as may be under way. With a limit of rows, one task is submitted at first, and one
    /// more for each that has ended.
    fn submit_more(&mut self) -> Result<(), EngineError> {
        let most = match self.task.limit_rows {
            Some(_) => self.window.min(self.ended + 1),
            None => self.window,
        };
        while self.tasks.len() < most && !self.task.pages.is_empty() {
            let pages = self.next_part();
            let store = self.snapshot.storage().store();
            let queue = match &mut self.queue {
                Some(queue) => queue,
                None if self.depth == 1 => self.queue.insert(store.queue()?),
                None => self.queue.insert(store.deep_queue(self.depth as u32)?),
            };
            let task = &self.task;
            let hidden =
                task.hidden.as_ref().map(|h| h.within(&pages)).filter(|h| !h.is_empty()).map(Arc::new);
            let command = Command::Scan(ScanTask {
                pages,
                program: task.program.clone(),
                hidden,
                matcher: task.matcher.clone(),
                unit_pages: task.unit_pages * self.grown,
                ..*task
            });
            let link = LinkStats { commands: 1, bytes_down: command.link_bytes(), bytes_up: 0 };
            let tag = store.submit(&mut **queue, command)?;
            self.tasks.push_back(Task { tag, ready: VecDeque::new(), over: false });
            self.count(link);
        }
        Ok(())
    }

    /// The pages of the next task.
    fn next_part(&mut self) -> Vec<PageRange> {
        // As many tasks as may be under way share what is left, unless there is next to nothing to do.
        let parts = if self.grown > 1 { GROWN_PART } else { self.window as u64 };
        let share = u32::try_from(self.pages_left / parts).unwrap_or(u32::MAX);
        let usual = self.usual_pages();
        let most = usual.saturating_mul(self.grown).min(share.max(usual));
        let (mut part, mut room) = (Vec::new(), most);
        while let Some(next) = self.task.pages.pop() {
            let count = u32::from(next.count).min(room) as u16;
            part.push(PageRange { count, ..next });
            room -= u32::from(count);
            self.pages_left -= u64::from(count);
            if count < next.count {
                let (first, left) = (next.first + count, next.count - count);
                self.task.pages.push(PageRange { extent: next.extent, first, count: left });
            }
            if room == 0 {
                break;
            }
        }
        part
    }

    /// Takes what is answered next, of whichever task.
    fn take(&mut self) -> Result<(), EngineError> {
        let mut out: Vec<Completion> = Vec::with_capacity(1);
        let queue = self.queue.as_mut().expect("tasks are in a queue");
        self.snapshot.storage().store().take(&mut **queue, &mut out)?;
        for c in out {
            self.count(LinkStats { commands: 0, bytes_down: 0, bytes_up: c.link_bytes() });
            let Some(task) = self.tasks.iter_mut().find(|t| t.tag == c.tag) else { continue };
            match c.outcome {
                Outcome::Unit(mut unit) => {
                    self.counts += unit.counts;
                    let flagged = std::mem::take(&mut unit.hints);
                    unit.pages.extend(flagged.iter().flat_map(PageHints::flagged).map(PageRows::name));
                    task.ready.push_back(unit);
                }
                Outcome::Done(Ok(Reply::Scanned(counts))) => {
                    task.over = true;
                    self.ended += 1;
                    // A task of pages that are left out is mostly its command, and the completions of its units.
                    let few_are_left =
                        counts.pages_skipped * SKIPPED_PARTS >= counts.pages * (SKIPPED_PARTS - 1);
                    let grows = few_are_left && counts.pages > 0 && self.may_skip();
                    self.grown = if grows { (self.grown * 2).min(GROWN_MAX) } else { 1 };
                    self.window = if grows { self.depth.min(PROBES) } else { self.depth };
                }
                Outcome::Done(Ok(_)) => return Err(EngineError::Protocol { command: "a scan" }),
                Outcome::Done(Err(e)) => {
                    if matches!(e, CommandError::ViewClosed(_)) {
                        self.snapshot.view().mark_stale();
                    }
                    return Err(e.into());
                }
            }
        }
        Ok(())
    }

    /// Replaces the program, from the next unit on, by one that filters more.
    pub fn narrow(&mut self, program: Arc<Program>) {
        let bytes_down = program.link_bytes() as u64;
        let mut link = LinkStats::default();
        if let Some(queue) = &mut self.queue {
            for task in self.tasks.iter().filter(|t| !t.over) {
                queue.narrow(task.tag, program.clone());
                link += LinkStats { commands: 1, bytes_down, bytes_up: 0 };
            }
        }
        self.task.program = program;
        self.count(link);
    }

    /// What the units so far took, added up.
    pub fn counts(&self) -> ScanCounts {
        self.counts
    }

    /// Bytes that came up the link for this scan so far.
    pub fn link_bytes_up(&self) -> u64 {
        self.link.bytes_up
    }

    /// Bytes that went down the link for this scan so far.
    pub fn link_bytes_down(&self) -> u64 {
        self.link.bytes_down
    }

    fn count(&mut self, l: LinkStats) {
        self.link += l;
        self.snapshot.storage().store().count(l);
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some(queue) = &mut self.queue {
            for task in self.tasks.iter().filter(|t| !t.over) {
                queue.cancel(task.tag);
            }
        }
    }
}
