//! Compute: programs run where the pages are.
//!
//! ```text
//!   pages ─► mapped? ─► mechanisms: page index ─► matcher ─► filter ─┬─ hint ─────────────────────► unit
//!                                                                    ├─ projected columns ─► rows ─► unit
//!                         └─ whole pages ─► keys of a join            └─ aggregation ─► groups ─────► unit
//!            PageAccess: what the drive core gives; nothing else of the drive is seen from here
//! ```
//!
//! What must hold: a page without an index entry, or with an entry made for another schema, is never skipped; a page
//! is read no further than the answer needs; a page that is not what the program names is an error, never an answer.
//! Source: FLIXR (skip by a page index in the drive), YourSQL (matcher and filter in the drive); rows as units of a task: design.

mod columns;
mod entry;
mod join;
mod mechanism;
mod run;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use lode_base::{Lpid, PageBuf, ViewId};
use lode_command::{CommandError, PageRange};
use lode_program::{IndexEntry, IndexRule, Program};

use crate::ScanPlacement;
use crate::entry::Entry;

pub(crate) use entry::entry_of;
pub(crate) use join::{Collect, among};
pub(crate) use run::ScanRun;

/// The version of a page that a view shows, and where it lies. Valid within the unit that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// The page.
    pub(crate) lpid: Lpid,
    /// Where this version of it lies, and its length.
    pub(crate) entry: Entry,
}

impl Located {
    /// Length of the page.
    pub(crate) fn len_bytes(&self) -> u32 {
        self.entry.len_bytes() as u32
    }

    /// Checks that the page has these bytes, which its directory names.
    ///
    /// # Errors
    /// [`CommandError::BadPage`].
    pub(crate) fn check_has(&self, range: &Range<u32>) -> Result<(), CommandError> {
        if range.start > range.end || range.end > self.len_bytes() {
            let what = format!("it has {} bytes, and its directory names {range:?}", self.len_bytes());
            return Err(CommandError::BadPage { lpid: self.lpid, what });
        }
        Ok(())
    }
}

/// What compute needs of the drive. The caller of [`ScanRun::next_unit`] keeps erased EBLOCKs from being programmed
/// again until the unit ended.
pub(crate) trait PageAccess {
    /// The mapped pages of `range` at `view`, ascending.
    ///
    /// # Errors
    /// [`CommandError::ViewClosed`] when the view is not open.
    fn mapped(&self, view: ViewId, range: PageRange) -> Result<Vec<Located>, CommandError>;

    /// The index entry of this very version, with the rule that it was made by; `None` when it has none.
    ///
    /// # Errors
    /// When the entry cannot be read.
    fn index_entry(&self, at: &Located) -> Result<Option<(Arc<IndexRule>, IndexEntry)>, CommandError>;

    /// Whether the page index excludes all of these pages together, those that `view` shows: no row of them passes the filter of `p`. The
    /// pages lie in one group of 32, or are many of an extent. Not asking each page is the point: where they are not excluded
    /// together, each of them may be.
    ///
    /// # Errors
    /// [`CommandError::ViewClosed`]; when entries cannot be read.
    fn excluded(&self, view: ViewId, pages: PageRange, p: &Program) -> Result<Together, CommandError>;

    /// Bytes `range` of the page, verified, and how many bytes that took from the medium.
    ///
    /// # Errors
    /// When they cannot be read as they were written.
    fn read(&self, at: &Located, range: Range<u32>) -> Result<(PageBuf, u64), CommandError>;

    /// All bytes of the page, as [`PageAccess::read`], in memory that keeps little else.
    ///
    /// # Errors
    /// As [`PageAccess::read`].
    fn read_own(&self, at: &Located) -> Result<(PageBuf, u64), CommandError> {
        self.read(at, 0..at.len_bytes())
    }

    /// All bytes of the page, as [`PageAccess::read`]. They pass the scan units of their channels.
    ///
    /// # Errors
    /// As [`PageAccess::read`].
    fn read_past_matcher(&self, at: &Located) -> Result<(PageBuf, u64), CommandError>;

    /// What a page took beside being read, on a modelled device where `placement` carries it out.
    fn charge(&self, placement: ScanPlacement, cost: &PageCost);
}

/// What the page index says of several pages together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Together {
    /// How many mapped pages are excluded, if all are.
    pub(crate) excluded: Option<u64>,
    /// Keys that were compared: entries that a union was made of, and the union's own.
    pub(crate) keys_compared: u64,
}

/// What a page of a task took beside being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageCost {
    /// Whether a page was looked up; groups that are left at the end come of none.
    pub(crate) looked_up: bool,
    /// Keys of entries of the page index that were compared.
    pub(crate) keys_compared: u64,
    /// Whether the page was read.
    pub(crate) read: bool,
    /// Bytes that a pattern matcher let through to the memory of the device.
    pub(crate) matched_bytes: u64,
    /// Rows that were looked at.
    pub(crate) rows_in: u64,
    /// Rows that were put out; of an aggregation, groups.
    pub(crate) rows_out: u64,
    /// Rows that were added to a group.
    pub(crate) rows_aggregated: u64,
    /// Whether the group of each had to be looked up.
    pub(crate) grouped: bool,
    /// Bytes of them.
    pub(crate) bytes_out: u64,
    /// Bytes that encoded columns unpacked to.
    pub(crate) unpacked_bytes: u64,
}
