//! What a transaction has done to one table so far.

use std::collections::BTreeMap;

use lode_base::{Lpid, TableId};
use lode_page::{Column, PageKind};

use super::cutter::{Cutter, Shape};
use super::held_rows::HeldRows;
use super::key_check::{Checked, EachKey, NewKeys, visit_rows};
use super::key_order::KeyOrder;
use super::stream::{Io, Stream};
use super::touched::Touched;
use super::unchecked::Unchecked;
use crate::EngineError;
use crate::storage::columns::unpublished;
use crate::tables::delta::{OwnRows, Sorted};
use crate::tables::key::chosen;
use crate::tables::own::Edits;
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::Snapshot;

/// The changes of a transaction, by table.
pub(super) type Changes = BTreeMap<TableId, TableChange>;

/// Inserted rows of more bytes than this become a load.
pub(super) const INSERT_BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Default)]
pub(super) struct TableChange {
    /// Of pages of the table, of held rows, and of loaded pages.
    pub(super) edits: Edits,
    /// Rows for row pages, held until the commit.
    pub(super) held: HeldRows,
    pub(super) load: Option<Load>,
    /// Pages of the load that are full, in fresh extents.
    pub(super) stream: Stream,
    /// With a delta: the rows that were inserted, updated and deleted.
    pub(super) rows: OwnRows,
    /// Bytes of these rows, about.
    pub(super) rows_bytes: usize,
    /// What put keys in that no end of a statement has checked yet.
    pub(super) unchecked: Unchecked,
    /// The same for foreign keys.
    pub(super) touched: Touched,
    /// At the commit: whether the rows are so many that pages are made of them.
    pub(super) folds: bool,
    /// At the commit: how the loaded primary keys are sorted, if their order proved them distinct.
    pub(super) sorted: Option<Sorted>,
    /// At the commit: the held rows, after their edits.
    pub(super) inserts: Option<Cutter>,
}

/// A load that is under way.
#[derive(Clone)]
pub(super) struct Load {
    /// Rows that do not fill a page yet.
    pub(super) cutter: Cutter,
    /// Watches the keys, if there is a primary key.
    order: Option<KeyOrder>,
}

impl Load {
    /// How the primary keys are sorted, if their order proved them distinct.
    fn sorted(&self) -> Option<Sorted> {
        self.order.as_ref().and_then(KeyOrder::sorted)
    }
}

impl TableChange {
    pub(super) fn insert(
        &mut self,
        io: &mut Io<'_>,
        t: &Table,
        columns: Vec<Column>,
    ) -> Result<(), EngineError> {
        if t.has_delta() {
            return self.insert_rows(io, t, columns);
        }
        self.held.push(t, &mut self.edits, columns)?;
        if self.held.bytes() > INSERT_BYTES_MAX {
            for part in self.held.take(t, &mut self.edits)? {
                self.load(io, t, part)?;
            }
        }
        Ok(())
    }

    /// Whether pages are part of it, or rows that are held for pages.
    pub(super) fn changes_pages(&self) -> bool {
        !self.edits.is_empty() || self.held.rows() > 0 || !self.stream.extents.is_empty()
    }

    /// The table has other keys than it had when the rows came. `primary`: also another primary key.
    pub(super) fn forget_keys(&mut self, primary: bool) {
        if !self.unchecked.is_empty() {
            self.unchecked.note_many();
        }
        if let Some(load) = self.load.as_mut().filter(|_| primary) {
            load.order = None;
        }
    }

    /// The table with these changes, as the transaction sees it.
    pub(super) fn visible(&self, t: &Table) -> Table {
        let mut extents = t.extents.clone();
        extents.extend(self.held.extent(t));
        extents.extend(&self.stream.extents);
        let deleted: u64 = self.edits.values().map(|e| e.deleted_rows()).sum();
        let rows = t.rows + self.stream.rows + self.held.rows() - deleted;
        let bytes = t.bytes + self.stream.bytes + self.held.bytes() as u64;
        t.next(t.indexes().to_vec(), extents).with_contents(rows, bytes, None, t.index_pending)
    }

    /// The table has more columns from now on: rows that are not written yet get them.
    pub(super) fn add_columns(&mut self, t: &Table, page_bytes_max: usize) {
        self.held.add_columns(t);
        if let Some(load) = &mut self.load {
            load.cutter.add_columns(t, Shape::of_loads(t, page_bytes_max));
        }
    }

    /// Gives pages to the rows of a load that fill no page yet, so that all rows can be read. If the load has not written a page, the
    /// rows become held rows.
    pub(super) fn settle(&mut self, io: &mut Io<'_>, t: &Table) -> Result<(), EngineError> {
        if self.stream.is_empty() {
            for part in self.load.take().iter().flat_map(|l| l.cutter.parts()) {
                match t.has_delta() {
                    true => self.add_inserted(t, &part),
                    false => self.held.push(t, &mut self.edits, part)?,
                }
            }
            return Ok(());
        }
        self.finish_load(io, t)?;
        self.stream.flush(io.store)
    }

    /// Before the commit: applies the edits of held rows and of loaded pages. Edits of pages of the table are left.
    pub(super) fn finish(&mut self, io: &mut Io<'_>, t: &Table) -> Result<(), EngineError> {
        let page_bytes_max = io.store.identity().page_bytes_max as usize;
        let mut inserts = Cutter::new(Shape::new(t, PageKind::Row, page_bytes_max));
        self.held.take(t, &mut self.edits)?.into_iter().for_each(|part| inserts.push(part));
        self.inserts = Some(inserts).filter(|i| i.rows() > 0);
        self.finish_load(io, t)?;
        let loaded: Vec<Lpid> = self.edits.keys().copied().filter(|l| self.stream.holds(*l)).collect();
        if !loaded.is_empty() {
            self.stream.flush(io.store)?;
            let shape = Shape::of_loads(t, page_bytes_max);
            for lpid in loaded {
                let edit = self.edits.remove(&lpid).expect("it was just found");
                self.stream.edit(io, t, lpid, &edit, &shape)?;
            }
        }
        Ok(())
    }

    pub(super) fn load(
        &mut self,
        io: &mut Io<'_>,
        t: &Table,
        columns: Vec<Column>,
    ) -> Result<(), EngineError> {
        let key = &t.def().primary_key;
        let page_bytes_max = io.store.identity().page_bytes_max as usize;
        let load = self.load.get_or_insert_with(|| Load {
            cutter: Cutter::new(Shape::of_loads(t, page_bytes_max)),
            order: (!key.is_empty()).then(KeyOrder::new),
        });
        if let Some(order) = &mut load.order {
            order.push(&chosen(&columns, key));
        }
        load.cutter.push(columns);
        while load.cutter.has_full() {
            cut_page(io, t, &mut load.cutter, &mut self.stream)?;
        }
        Ok(())
    }

    /// Writes the last rows of a load that already wrote pages. A small load stays for the final batch.
    pub(super) fn finish_load(&mut self, io: &mut Io<'_>, t: &Table) -> Result<(), EngineError> {
        if let Some(load) = self.load.as_mut().filter(|_| !self.stream.is_empty()) {
            while load.cutter.rows() > 0 {
                cut_page(io, t, &mut load.cutter, &mut self.stream)?;
            }
        }
        Ok(())
    }

    /// Checks that no two rows of the table will have the same key.
    pub(super) fn check_keys(
        &mut self,
        io: &mut Io<'_>,
        snapshot: &Snapshot,
        key_check_bytes: usize,
        base: Option<&Table>,
        t: &Table,
    ) -> Result<(), EngineError> {
        self.stream.flush(io.store)?;
        let load = self.load.as_ref().filter(|_| self.stream.is_untouched());
        self.sorted = load.and_then(Load::sorted);
        self.check_flushed(snapshot, key_check_bytes, base, t, Checked::All)
    }

    /// Checks some of the keys. Loads are flushed.
    pub(super) fn check_flushed(
        &self,
        snapshot: &Snapshot,
        key_check_bytes: usize,
        base: Option<&Table>,
        t: &Table,
        which: Checked,
    ) -> Result<(), EngineError> {
        for (n, (constraint, key)) in t.keys().enumerate().filter(|(n, _)| which.has(t, base, *n)) {
            let mut held: Vec<Vec<Column>> = Vec::new();
            if let Some(part) = self.rows_now(t, key)? {
                held.push(part);
            }
            for part in self.inserts.iter().flat_map(Cutter::parts) {
                held.push(chosen(&part, key));
            }
            let rekeyed = self.edits.iter().map(|(&lpid, e)| (lpid, e.rekeyed(key).len()));
            let rekeyed: Vec<(Lpid, usize)> = rekeyed.filter(|(_, rows)| *rows > 0).collect();
            let held_is_load = held.is_empty() && rekeyed.is_empty();
            for part in self.load.iter().flat_map(|l| l.cutter.parts()) {
                held.push(chosen(&part, key));
            }
            let order = self.load.as_ref().and_then(|l| l.order.as_ref()).filter(|_| constraint.is_none());
            let new_keys = NewKeys {
                snapshot,
                key_check_bytes,
                base,
                table: t,
                constraint,
                n,
                key,
                edits: &self.edits,
                own: &self.rows,
                held,
                held_is_load,
                rekeyed,
                loaded: self.stream.lpids().collect(),
                loaded_rows: self.stream.rows,
                order,
                whole: which == Checked::Added,
            };
            new_keys.check()?;
        }
        Ok(())
    }

    /// Visits every key that these changes put in, except those with a NULL. Held rows are in `inserts`, loads are flushed.
    pub(super) fn visit_new(
        &self,
        snapshot: &Snapshot,
        t: &Table,
        key: &[u16],
        each: &mut EachKey<'_>,
    ) -> Result<(), EngineError> {
        let load = self.load.iter().map(|l| &l.cutter);
        for part in self.inserts.iter().chain(load).flat_map(Cutter::parts) {
            visit_rows(&chosen(&part, key), each)?;
        }
        for (&lpid, edit) in self.edits.iter().filter(|(_, e)| !e.rekeyed(key).is_empty()) {
            visit_rows(&edit.new_keys(key, read::columns(snapshot, lpid, key)?.columns)?, each)?;
        }
        if let Some(part) = self.rows_with_new(t, key)? {
            visit_rows(&part, each)?;
        }
        for lpid in self.stream.lpids() {
            visit_rows(&unpublished(snapshot.storage().store(), t.page_owner(), lpid, key)?, each)?;
        }
        Ok(())
    }
}

fn cut_page(io: &mut Io<'_>, t: &Table, cutter: &mut Cutter, stream: &mut Stream) -> Result<(), EngineError> {
    let lpid = stream.next_lpid(io, t.id())?;
    let cut = cutter.cut(lpid)?;
    stream.put(io, lpid, cut.data, cut.rows, cutter.shape.align())
}
