//! The answers of a page and of a task over pages: levels of evaluation, rows, groups and counts.

use std::ops::AddAssign;

use lode_base::Lpid;
use lode_page::Column;

/// How much of the work the drive does: each level includes those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Every mapped page's identity; the host reads and filters.
    Mapped,
    /// The identities of pages that the page index cannot exclude.
    Index,
    /// The pages that the page index cannot exclude, whole: their bytes as they were written. The host filters.
    Whole,
    /// A byte for each page: whether the host has to read it. The page index and the matcher decide, and with `filter` the
    /// filter does so too, up to the first row that passes.
    Hints {
        /// Whether the filter runs over pages that the matcher does not exclude.
        filter: bool,
    },
    /// The projected columns, whole, of pages with at least one row that passes.
    Pages,
    /// The projected columns of the rows that pass.
    Rows,
    /// Partial groups of the rows that pass, sent when the table of groups is full and at the end of the task. A
    /// program has an aggregation exactly for this answer.
    Aggregate,
}

/// The answer of one page.
#[derive(Clone, Debug)]
pub struct PageRows {
    /// The page.
    pub lpid: Lpid,
    /// Rows in each of `columns`.
    pub rows: u32,
    /// The projected columns in the program's order; empty if the answer names pages.
    pub columns: Vec<Column>,
    /// The slots of the answered rows, if the program asks for them; `None` if they are 0 to `rows` - 1.
    pub slots: Option<Vec<u32>>,
}

/// A step in the evaluation of a page. An offload level is a set of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// Skips pages that cannot have a row which passes, by their index entries.
    PageIndex,
    /// Excludes pages in which the task's keys are not found.
    Matcher,
    /// Decides for each row whether it passes.
    Filter,
    /// Groups the rows that pass.
    Aggregate,
}

impl Answer {
    /// Every answer. The wire has their places here.
    pub const ALL: [Self; 8] = [
        Self::Mapped,
        Self::Index,
        Self::Hints { filter: false },
        Self::Hints { filter: true },
        Self::Pages,
        Self::Rows,
        Self::Aggregate,
        Self::Whole,
    ];

    /// Whether the drive reads no page for this answer.
    pub const fn only_names(self) -> bool {
        matches!(self, Self::Mapped | Self::Index)
    }

    /// The members that the drive needs for this answer, in the order in which they see a page. An answer without
    /// [`Member::Filter`] names pages, whose rows the host filters.
    pub const fn members(self) -> &'static [Member] {
        match self {
            Self::Mapped => &[],
            Self::Index | Self::Whole => &[Member::PageIndex],
            Self::Hints { filter: false } => &[Member::PageIndex, Member::Matcher],
            Self::Hints { filter: true } | Self::Pages | Self::Rows => {
                &[Member::PageIndex, Member::Matcher, Member::Filter]
            }
            Self::Aggregate => &[Member::PageIndex, Member::Matcher, Member::Filter, Member::Aggregate],
        }
    }
}

impl PageRows {
    /// A page by its name alone.
    pub const fn name(lpid: Lpid) -> Self {
        Self { lpid, rows: 0, columns: Vec::new(), slots: None }
    }

    /// Bytes of this answer on the link.
    pub fn link_bytes(&self) -> u64 {
        let columns: usize = self.columns.iter().map(Column::link_bytes).sum();
        (16 + columns + self.slots.as_ref().map_or(0, |s| s.len() * 4)) as u64
    }
}

/// Partial groups. Each group is here at most once, but it may be in other parts of the task's answer too.
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

/// Counts of a unit, or of a whole task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Mapped pages considered.
    pub pages: u64,
    /// Of those, skipped by the page index without being read.
    pub pages_skipped: u64,
    /// Of those, read at least in part.
    pub pages_read: u64,
    /// Of those, pages without the keys of the task.
    pub pages_unmatched: u64,
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
        self.pages_unmatched += o.pages_unmatched;
        self.media_bytes += o.media_bytes;
        self.rows_in += o.rows_in;
        self.rows_out += o.rows_out;
        self.values_compared += o.values_compared;
        self.groups_out += o.groups_out;
    }
}
