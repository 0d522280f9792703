//! Reads of columns of tables' pages at a snapshot.

use std::convert::Infallible;
use std::sync::Arc;

use lode_base::Lpid;
use lode_page::{Column, TablePage, ops};
use lode_program::{ColumnSource, RowMask};

use super::delta::{RowId, is_delta};
use super::overlay::Part;
use super::own::{OwnChanges, is_held};
use super::planted_cuts::{self, Planted};
use super::table::Table;
use crate::storage::columns::{self, PageColumns};
use crate::storage::read_ahead::{Ahead, ColumnReads, PageReads};
use crate::storage::view::View;
use crate::trees::Snapshot;
use crate::{EngineError, LinkStats};

/// Columns of a page as the drive has it, through the buffer pool.
pub(super) fn columns(snapshot: &Snapshot, lpid: Lpid, wanted: &[u16]) -> Result<PageColumns, EngineError> {
    if planted_cuts::is(Planted::OldReadsMerged) {
        let newest = View::open(snapshot.view().storage())?;
        return columns::columns(&newest, snapshot.tables_state(), lpid, wanted);
    }
    columns::columns(snapshot.view(), snapshot.tables_state(), lpid, wanted)
}

/// Columns of a page of a table as the drive has it, through the buffer pool. The table may be another version than the snapshot's.
pub(super) fn columns_of(
    snapshot: &Snapshot,
    t: &Table,
    lpid: Lpid,
    wanted: &[u16],
) -> Result<PageColumns, EngineError> {
    if planted_cuts::is(Planted::OldReadsMerged) {
        return columns(snapshot, lpid, wanted);
    }
    columns::columns(snapshot.view(), &t.page_owner(), lpid, wanted)
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
        let hidden = match snapshot.tables_state().has_deltas() && !is_held(lpid.extent()) {
            true => snapshot.overlay(snapshot.tables_state().table_of(lpid)?)?,
            false => None,
        };
        let with_hidden =
            hidden.as_ref().map(|o| o.hidden.of(lpid)).filter(|h| !h.is_empty()).map(|hidden| {
                let mut edit = edit.clone();
                edit.deleted.extend(hidden.iter().copied());
                edit
            });
        let edit = with_hidden.as_ref().unwrap_or(edit);
        page.columns = edit.apply(wanted, page.columns)?;
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
        if is_delta(lpid.extent()) {
            return self.delta_columns(lpid, columns);
        }
        match self.own() {
            Some(own) if own.covers(lpid) => own_columns(self, own, lpid, columns),
            _ => self.main_columns(lpid, columns),
        }
    }

    /// Columns of all rows of a page, as [`Snapshot::read_columns`] reads them, and which of the rows a delta hides; `None` if it hides
    /// none. A filter runs on the columns as they are encoded, and its rows are hidden afterwards.
    pub fn read_whole_columns(
        &self,
        lpid: Lpid,
        columns: &[u16],
    ) -> Result<(PageColumns, Option<RowMask>), EngineError> {
        if is_delta(lpid.extent()) || self.own().is_some_and(|own| own.covers(lpid)) {
            return Ok((self.read_columns(lpid, columns)?, None));
        }
        let page = self::columns(self, lpid, columns)?;
        let hidden = self.with_hidden(lpid, |slots| {
            RowMask::of_rows(slots.iter().map(|&slot| slot as usize), page.rows)
        })?;
        Ok((page, hidden))
    }

    /// What `f` makes of the rows of a page of the drive that a delta hides, which ascend; `None` if it hides none.
    fn with_hidden<T>(&self, lpid: Lpid, f: impl FnOnce(&[u32]) -> T) -> Result<Option<T>, EngineError> {
        if !self.tables_state().has_deltas() {
            return Ok(None);
        }
        let Some(overlay) = self.overlay(self.tables_state().table_of(lpid)?)? else { return Ok(None) };
        let hidden = overlay.hidden.of(lpid);
        Ok((!hidden.is_empty()).then(|| f(hidden)))
    }

    /// Columns of the rows of a page of the drive that no delta has.
    fn main_columns(&self, lpid: Lpid, columns: &[u16]) -> Result<PageColumns, EngineError> {
        let mut page = self::columns(self, lpid, columns)?;
        let shown = self.with_hidden(lpid, |hidden| -> Vec<u32> {
            (0..page.rows as u32).filter(|s| hidden.binary_search(s).is_err()).collect()
        })?;
        if let Some(shown) = shown {
            page.columns = page.columns.iter().map(|c| ops::take(c, &shown)).collect();
            page.rows = shown.len();
            page.slots = Some(shown);
        }
        Ok(page)
    }

    /// Columns of the rows that one page of a delta stands for.
    fn delta_columns(&self, lpid: Lpid, columns: &[u16]) -> Result<PageColumns, EngineError> {
        let t = self.tables_state().table_of(lpid)?.clone();
        let overlay = self.overlay(&t)?.expect("the table has a delta");
        let parts: Vec<&Part> =
            overlay.parts.iter().filter(|p| p.rows() > 0 && p.lpid(t.id()) == lpid).collect();
        let shown: Vec<Vec<u32>> = parts.iter().map(|p| p.shown().collect()).collect();
        let ids =
            parts.iter().zip(&shown).flat_map(|(p, rows)| rows.iter().map(|&r| p.chunk.ids[r as usize]));
        let ids: Vec<RowId> = ids.collect();
        // The rows of the transaction come last among the parts.
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        order.sort_unstable_by_key(|&i| ids[i as usize]);
        let column = |&c: &u16| {
            let of_part = |(p, rows): (&&Part, &Vec<u32>)| ops::take(&p.chunk.columns[usize::from(c)], rows);
            let taken: Vec<Column> = parts.iter().zip(&shown).map(of_part).collect();
            ops::take(&ops::concat(t.schema().columns[usize::from(c)].data_type, &taken), &order)
        };
        let slots: Vec<u32> = order.iter().map(|&i| ids[i as usize].raw() as u32).collect();
        let mut page = PageColumns::in_memory(slots.len(), columns.iter().map(column).collect());
        page.slots = Some(slots);
        Ok(page)
    }

    /// With a modelled device: reads of these columns of the table ahead of [`Snapshot::read_columns`], as many commands at a time as
    /// the host's queue is deep, if `ahead` does not say otherwise.
    pub fn read_ahead(&self, t: &Table, columns: Vec<u16>, ahead: Ahead) -> Option<ReadAhead> {
        let depth = self.host()?.depth().min(self.storage().store().identity().queue_depth_max);
        let reads = match t.row_page_bytes() {
            Some(page_bytes) => PageReads::Whole { page_bytes },
            None => PageReads::Parts,
        };
        let reads = ColumnReads::new(self.view().clone(), columns, reads, depth, ahead);
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

    /// Begins to read pages that are wanted, as many as may be under way.
    ///
    /// # Errors
    /// Those of the drive. All pages that were wanted are forgotten then.
    pub fn start(&mut self) -> Result<(), EngineError> {
        self.reads.start(self.snapshot.tables_state())
    }

    /// The host will want this page, after those that it wanted before.
    pub fn want(&mut self, lpid: Lpid) {
        // The host has the changes of the transaction, not the drive.
        if !is_delta(lpid.extent()) && !self.snapshot.own().is_some_and(|own| own.covers(lpid)) {
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
