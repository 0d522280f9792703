//! Reads of columns of tables' pages at a snapshot.

use std::convert::Infallible;
use std::sync::Arc;

use lode_base::Lpid;
use lode_page::{Column, TablePage};
use lode_program::ColumnSource;

use super::own::OwnChanges;
use crate::storage::columns::{self, PageColumns};
use crate::storage::read_ahead::ColumnReads;
use crate::trees::Snapshot;
use crate::{EngineError, LinkStats};

/// Columns of a page as the drive has it, through the buffer pool.
pub(super) fn columns(snapshot: &Snapshot, lpid: Lpid, wanted: &[u16]) -> Result<PageColumns, EngineError> {
    columns::columns(snapshot.view(), snapshot.tables_state(), lpid, wanted)
}

/// Header and directory of a page as the drive has it, through the buffer pool.
pub(super) fn page(snapshot: &Snapshot, lpid: Lpid) -> Result<Arc<TablePage>, EngineError> {
    columns::page(snapshot.view(), snapshot.tables_state(), lpid, &mut LinkStats::default())
}

/// Columns of a page after the changes of the reading transaction. `snapshot` shows these.
pub(super) fn own_columns(
    snapshot: &Snapshot,
    own: &OwnChanges,
    lpid: Lpid,
    wanted: &[u16],
) -> Result<PageColumns, EngineError> {
    let mut page = if let Some(held) = own.held(lpid) {
        let columns: Vec<Column> = wanted.iter().map(|&c| held[usize::from(c)].clone()).collect();
        PageColumns::in_memory(held[0].rows(), columns)
    } else if own.is_loaded(lpid.extent()) {
        let view = own.loaded_view().map(|v| v.id());
        let owner = snapshot.tables_state().table_of(lpid)?.page_owner();
        let store = snapshot.storage().store();
        snapshot.view().noting_age(columns::without_pool(store, view, owner, lpid, wanted))?
    } else {
        columns(snapshot, lpid, wanted)?
    };
    if let Some(edit) = own.edit(lpid) {
        page.columns = edit.apply(wanted, page.columns);
        if let Some(kept) = edit.kept(page.rows) {
            page.rows = kept.len();
            page.slots = Some(kept);
        }
    }
    Ok(page)
}

impl Snapshot {
    /// Columns of one page, through the buffer pool: only parts that the pool does not have cross the link.
    pub fn read_columns(&self, lpid: Lpid, columns: &[u16]) -> Result<PageColumns, EngineError> {
        match self.own() {
            Some(own) if own.covers(lpid) => own_columns(self, own, lpid, columns),
            _ => self::columns(self, lpid, columns),
        }
    }

    /// With a modelled device: reads of these columns ahead of [`Snapshot::read_columns`], as many pages at a time as the host's
    /// queue is deep. With `few`, at first one at a time.
    pub fn read_ahead(&self, columns: Vec<u16>, few: bool) -> Option<ReadAhead> {
        let depth = self.host()?.depth().min(self.storage().store().identity().queue_depth_max);
        let reads = ColumnReads::new(self.view().clone(), columns, depth, few);
        Some(ReadAhead { snapshot: self.clone(), reads })
    }
}

/// Reads of pages of a scan, ahead of the host.
pub struct ReadAhead {
    snapshot: Snapshot,
    reads: ColumnReads,
}

impl ReadAhead {
    /// Pages that are worth knowing ahead.
    pub fn depth(&self) -> usize {
        self.reads.depth()
    }

    /// The host will want this page, after those that it wanted before.
    pub fn want(&mut self, lpid: Lpid) {
        // The host has the changes of the transaction, not the drive.
        if !self.snapshot.own().is_some_and(|own| own.covers(lpid)) {
            self.reads.want(lpid);
        }
    }

    /// Waits until a page that was wanted is in the pool. Reads of the pages behind it are under way then. Answers what crossed
    /// the link since the last call.
    ///
    /// # Errors
    /// Those of any page under way. All pages that were wanted are forgotten then.
    pub fn until(&mut self, lpid: Lpid) -> Result<LinkStats, EngineError> {
        self.reads.until(self.snapshot.tables_state(), lpid)
    }
}

/// All columns of some rows, as index rules read them.
pub(super) struct Whole<'a>(pub(super) &'a [Column]);

impl ColumnSource for Whole<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.0[0].rows()
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        Ok(self.0[usize::from(column)].clone())
    }
}
