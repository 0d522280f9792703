//! Scan tasks: a program over a set of pages at a read view, answered in bounded units.
//!
//! ```text
//!   pages ─► page index (skip) ─► read filter columns ─► filter ─► hide rows ─► read the rest ─┬─ project ─► rows ───► unit
//!                                                                                              └─ aggregate ─► groups ─► unit
//! ```

use std::sync::Arc;

use lode_base::{ExtentId, ViewId};
use lode_program::{Answer, GroupRows, PageRows, Program, ScanCounts};

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
    /// A unit ends after this many pages (at least 1) were considered, or earlier if it is large.
    pub unit_pages: u32,
    /// The task ends early once this many rows were answered ([`Answer::Rows`] only).
    pub limit_rows: Option<u64>,
    /// Rows of these pages that the task neither shows nor counts. It names rows of no other page. `None` hides nothing.
    pub hidden: Option<Arc<HiddenRows>>,
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
    /// Partial groups, in the order in which they left the table ([`Answer::Aggregate`] only).
    pub groups: Vec<GroupRows>,
    /// The counts of this unit.
    pub counts: ScanCounts,
}

impl ScanUnit {
    /// Bytes of this unit on the link.
    pub fn link_bytes(&self) -> u64 {
        let pages: u64 = self.pages.iter().map(PageRows::link_bytes).sum();
        pages + self.groups.iter().map(GroupRows::link_bytes).sum::<u64>()
    }
}
