//! Scan tasks: a program over a set of pages at a read view, answered in bounded units.
//!
//! ```text
//!   pages ─► page index (skip) ─► matcher (drop) ─┬─ hint: a byte a page ─────────────────────────────────────► unit
//!              └─ whole: bytes of the page ─────────┼────────────────────────────────────────────────────────────────► unit
//!                                                 └─ filter ─► hide rows ─► read the rest ─┬─ project ─► rows ───► unit
//!                                                                                          └─ aggregate ─► groups ─► unit
//! ```

use std::sync::Arc;

use lode_base::{ExtentId, Lpid, PageBuf, ViewId};
use lode_program::{Answer, GroupRows, Matcher, PageRows, Program, ScanCounts};

use crate::HiddenRows;

/// A program over pages.
#[derive(Clone, Debug)]
pub struct ScanTask {
    /// The view that the pages are read at.
    pub view: ViewId,
    /// The pages. Unmapped ones are skipped.
    pub pages: Vec<PageRange>,
    /// The filter, and the projection or aggregation.
    pub program: Arc<Program>,
    /// How much of the work the drive does.
    pub answer: Answer,
    /// A unit ends after this many pages (at least 1) were considered one by one, or earlier if it is large. Pages that the page index
    /// excludes together with others do not count.
    pub unit_pages: u32,
    /// The task ends early once this many rows were answered ([`Answer::Rows`] only).
    pub limit_rows: Option<u64>,
    /// Rows of these pages that the task neither shows nor counts. It names rows of no other page. `None` hides nothing.
    pub hidden: Option<Arc<HiddenRows>>,
    /// Keys that a page has if a row of it passes the filter, for answers with [`lode_program::answer::Member::Matcher`].
    pub matcher: Option<Arc<Matcher>>,
    /// How the page index is asked, if the answer asks it.
    pub skip: Skip,
}

/// How a task asks the page index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skip {
    /// About many pages together first.
    #[default]
    Levels,
    /// About each page. Source: FLIXR.
    Each,
    /// Not at all: each page is read.
    Never,
    /// About each page, up to the first after which none can have a row that passes. The host is sure that the column never falls from
    /// page to page in the order of the task, and that NULLs come last. Source: FLIXR §4.6.
    Sorted(u16),
}

/// Consecutive pages of one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// The extent.
    pub extent: ExtentId,
    /// The first page within it.
    pub first: u16,
    /// How many, 1 to 1,024 - `first`.
    pub count: u16,
}

/// One bounded part of a task's answer.
#[derive(Clone, Debug, Default)]
pub struct ScanUnit {
    /// One entry for each page with an answer.
    pub pages: Vec<PageRows>,
    /// Whole pages ([`Answer::Whole`] only).
    pub whole: Vec<WholePage>,
    /// Partial groups, in the order in which they left the table ([`Answer::Aggregate`] only).
    pub groups: Vec<GroupRows>,
    /// One byte for each page that was considered ([`Answer::Hints`] only).
    pub hints: Vec<PageHints>,
    /// The counts of this unit.
    pub counts: ScanCounts,
}

/// A page as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholePage {
    /// The page.
    pub lpid: Lpid,
    /// Its bytes.
    pub bytes: PageBuf,
}

impl WholePage {
    /// Bytes of the page on the link.
    pub fn link_bytes(&self) -> u64 {
        16 + self.bytes.len() as u64
    }
}

/// For each of some consecutive pages, whether the host has to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHints {
    /// The first page.
    pub first: Lpid,
    /// For each page 0 (no row of it passes) or 1 (some row may pass).
    pub bytes: Vec<u8>,
}

impl PageHints {
    /// The pages that the host has to read.
    pub fn flagged(&self) -> impl Iterator<Item = Lpid> {
        let (extent, first) = (self.first.extent(), self.first.page());
        let flagged = (0u16..).zip(&self.bytes).filter(|(_, byte)| **byte != 0);
        flagged.map(move |(i, _)| extent.page(first + i))
    }

    /// Bytes of these hints on the link.
    fn link_bytes(&self) -> u64 {
        12 + self.bytes.len() as u64
    }
}

impl ScanUnit {
    /// Adds the hint of a page.
    pub fn hint(&mut self, lpid: Lpid, is_flagged: bool) {
        let follows = |h: &PageHints| {
            let next = usize::from(h.first.page()) + h.bytes.len();
            h.first.extent() == lpid.extent() && next == usize::from(lpid.page())
        };
        match self.hints.last_mut().filter(|h| follows(h)) {
            Some(run) => run.bytes.push(is_flagged.into()),
            None => self.hints.push(PageHints { first: lpid, bytes: vec![is_flagged.into()] }),
        }
    }

    /// Bytes of this unit on the link.
    pub fn link_bytes(&self) -> u64 {
        let pages: u64 = self.pages.iter().map(PageRows::link_bytes).sum();
        let whole: u64 = self.whole.iter().map(WholePage::link_bytes).sum();
        let hints: u64 = self.hints.iter().map(PageHints::link_bytes).sum();
        pages + whole + hints + self.groups.iter().map(GroupRows::link_bytes).sum::<u64>()
    }
}
