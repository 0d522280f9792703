//! Snapshots.

use std::sync::Arc;

use lode_base::{CommitNo, Lpid};
use lode_command::{Answer, PageRange};
use lode_program::Program;

use crate::{EngineError, PageColumns, Scan, Table, TableStatistics};

/// The database at one commit: a pinned view of the drive, and the catalog that goes with it. Clones share both; the
/// view closes when the last one drops.
#[derive(Clone)]
pub struct Snapshot {}

impl Snapshot {
    /// The commit that is shown.
    pub fn commit(&self) -> CommitNo {
        unimplemented!()
    }

    /// The tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        [].iter()
    }

    /// The table of this name.
    pub fn table(&self, _name: &str) -> Option<Arc<Table>> {
        unimplemented!()
    }

    /// The pages of a table of this snapshot. A partition may take any part of them.
    pub fn page_ranges(&self, _t: &Table) -> Vec<PageRange> {
        unimplemented!()
    }

    /// A scan of these pages in the drive. It submits nothing before its first [`Scan::next`].
    pub fn scan(
        &self,
        _t: &Table,
        _pages: Vec<PageRange>,
        _program: Arc<Program>,
        _answer: Answer,
        _limit: Option<u64>,
    ) -> Result<Scan, EngineError> {
        unimplemented!()
    }

    /// Rows, sizes, bounds of values; from the page index, once for each version of a table.
    pub fn statistics(&self, _t: &Table) -> Result<TableStatistics, EngineError> {
        unimplemented!()
    }

    /// Columns of one page, through the buffer pool: only what is not held there crosses the link.
    pub fn read_columns(&self, _lpid: Lpid, _columns: &[u16]) -> Result<PageColumns, EngineError> {
        unimplemented!()
    }
}
