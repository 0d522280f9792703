//! Scan tasks: a program over a set of pages at a read view, answered in bounded units.
//!
//! ```text
//!   pages ─► page index (skip) ─► read filter columns ─► filter ─► read the rest ─┬─ project ─► rows ───► unit
//!                                                                                 └─ aggregate ─► groups ─► unit
//! ```

use std::ops::AddAssign;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, ViewId};
use lode_page::Column;
use lode_program::Program;

/// A program over pages.
#[derive(Clone, Debug)]
pub struct ScanTask {
    /// The view that the pages are read at.
    pub view: ViewId,
    /// The pages: unmapped ones are passed over.
    pub pages: Vec<PageRange>,
    /// What to evaluate and to answer.
    pub program: Arc<Program>,
    /// How much of the work the drive does.
    pub answer: Answer,
    /// A unit ends after this many pages were considered (at least 1), or sooner when it is large.
    pub unit_pages: u32,
    /// The task ends early once this many rows were answered ([`Answer::Rows`] only).
    pub limit_rows: Option<u64>,
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

/// How much of the work the drive does: each level includes those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Every mapped page's identity; the host reads and filters.
    Mapped,
    /// The identities of pages that the page index cannot exclude.
    Index,
    /// The projected columns, whole, of pages with at least one row that passes.
    Pages,
    /// The projected columns of the rows that pass.
    Rows,
    /// Partial groups of the rows that pass, whenever the table of groups is full and at the end of the task. The program
    /// has an aggregation at this level, and at no other.
    Aggregate,
}

/// One bounded part of a task's answer.
#[derive(Clone, Debug, Default)]
pub struct ScanUnit {
    /// One entry for each page that answers something.
    pub pages: Vec<PageRows>,
    /// Partial groups, in the order in which they left the table ([`Answer::Aggregate`] only).
    pub groups: Vec<GroupRows>,
    /// What this unit took.
    pub counts: ScanCounts,
}

impl ScanUnit {
    /// Bytes of this unit on the link.
    pub fn link_bytes(&self) -> u64 {
        let pages: u64 = self.pages.iter().map(PageRows::link_bytes).sum();
        pages + self.groups.iter().map(GroupRows::link_bytes).sum::<u64>()
    }
}

/// Partial groups. A group occurs at most once here, but may occur again in other units of the task.
#[derive(Clone, Debug)]
pub struct GroupRows {
    /// How many.
    pub rows: u32,
    /// A column for each key, then one for each result, in the order of the program's aggregation.
    pub columns: Vec<Column>,
}

impl GroupRows {
    /// Bytes of these groups on the link.
    pub fn link_bytes(&self) -> u64 {
        let columns: usize = self.columns.iter().map(Column::link_bytes).sum();
        (8 + columns) as u64
    }
}

/// What one page answers.
#[derive(Clone, Debug)]
pub struct PageRows {
    /// The page.
    pub lpid: Lpid,
    /// Rows in each of `columns`.
    pub rows: u32,
    /// The projected columns in the program's order; empty for [`Answer::Mapped`] and [`Answer::Index`].
    pub columns: Vec<Column>,
    /// The row of the page that each answered row was, if the program asks for slots; `None` when they are 0 to
    /// `rows` - 1.
    pub slots: Option<Vec<u32>>,
}

impl PageRows {
    /// Bytes of this answer on the link.
    pub fn link_bytes(&self) -> u64 {
        let columns: usize = self.columns.iter().map(Column::link_bytes).sum();
        (16 + columns + self.slots.as_ref().map_or(0, |s| s.len() * 4)) as u64
    }
}

/// What a unit, or a whole task, took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Mapped pages considered.
    pub pages: u64,
    /// Of those, skipped by the page index without being read.
    pub pages_skipped: u64,
    /// Of those, read at least in part.
    pub pages_read: u64,
    /// Bytes read from the medium, in whole read units.
    pub media_bytes: u64,
    /// Rows of the pages read.
    pub rows_in: u64,
    /// Rows that passed.
    pub rows_out: u64,
    /// Values looked at by the filter.
    pub values_compared: u64,
    /// Partial groups that were answered.
    pub groups_out: u64,
}

impl AddAssign for ScanCounts {
    fn add_assign(&mut self, o: Self) {
        self.pages += o.pages;
        self.pages_skipped += o.pages_skipped;
        self.pages_read += o.pages_read;
        self.media_bytes += o.media_bytes;
        self.rows_in += o.rows_in;
        self.rows_out += o.rows_out;
        self.values_compared += o.values_compared;
        self.groups_out += o.groups_out;
    }
}
