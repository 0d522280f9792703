//! What a transaction has done to one table so far.

use lode_page::{Column, PageKind};

use super::cutter::{Cutter, Shape};
use super::edit::Edits;
use super::key_check::NewKeys;
use super::key_order::KeyOrder;
use super::stream::{Io, Stream};
use crate::snapshot::Snapshot;
use crate::{EngineError, Table, read};

/// Inserted rows of more bytes than this become a load.
const INSERT_BYTES_MAX: usize = 4 << 20;

#[derive(Default)]
pub(super) struct TableChange {
    pub(super) edits: Edits,
    /// Rows for row pages, held until the commit.
    pub(super) inserts: Option<Cutter>,
    pub(super) load: Option<Load>,
    /// Pages of the load that are full, in fresh extents.
    pub(super) stream: Stream,
}

/// A load that is under way.
pub(super) struct Load {
    /// Rows that do not fill a page yet.
    pub(super) cutter: Cutter,
    /// Watches the keys, where there is a primary key.
    order: Option<KeyOrder>,
}

impl TableChange {
    pub(super) fn insert(
        &mut self,
        io: &mut Io<'_>,
        t: &Table,
        columns: Vec<Column>,
    ) -> Result<(), EngineError> {
        let page_bytes_max = io.store.identity().page_bytes_max as usize;
        let shape = || Shape::new(t, PageKind::Row, page_bytes_max);
        let inserts = self.inserts.get_or_insert_with(|| Cutter::new(shape()));
        inserts.push(columns);
        if inserts.held_bytes() > INSERT_BYTES_MAX {
            for part in self.inserts.take().iter().flat_map(Cutter::parts) {
                self.load(io, t, part)?;
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

    /// Writes what is left of a load that already wrote pages; a small one stays for the final batch.
    pub(super) fn finish_load(&mut self, io: &mut Io<'_>, t: &Table) -> Result<(), EngineError> {
        if let Some(load) = self.load.as_mut().filter(|_| !self.stream.is_empty()) {
            while load.cutter.rows() > 0 {
                cut_page(io, t, &mut load.cutter, &mut self.stream)?;
            }
        }
        Ok(())
    }

    /// Checks that no two rows of the table will have one key.
    pub(super) fn check_keys(
        &mut self,
        io: &mut Io<'_>,
        snapshot: &Snapshot,
        base: Option<&Table>,
        t: &Table,
    ) -> Result<(), EngineError> {
        let key = &t.def().primary_key;
        if key.is_empty() {
            return Ok(());
        }
        self.stream.flush(io.store)?;
        let mut held: Vec<Vec<Column>> = Vec::new();
        for part in self.inserts.iter().flat_map(Cutter::parts) {
            held.push(chosen(&part, key));
        }
        for (&lpid, edit) in self.edits.iter().filter(|(_, e)| !e.rekeyed(key).is_empty()) {
            let page = read::columns(snapshot, lpid, key)?;
            edit.check_slots(t, lpid, page.rows)?;
            held.push(edit.new_keys(key, page.columns));
        }
        let held_is_load = held.is_empty();
        for part in self.load.iter().flat_map(|l| l.cutter.parts()) {
            held.push(chosen(&part, key));
        }
        let new_keys = NewKeys {
            snapshot,
            base,
            table: t,
            edits: &self.edits,
            held,
            held_is_load,
            loaded: self.stream.lpids().collect(),
            loaded_rows: self.stream.rows,
            order: self.load.as_mut().and_then(|l| l.order.as_mut()),
        };
        new_keys.check()
    }
}

fn cut_page(io: &mut Io<'_>, t: &Table, cutter: &mut Cutter, stream: &mut Stream) -> Result<(), EngineError> {
    let lpid = stream.next_lpid(io, t.id())?;
    let cut = cutter.cut(lpid)?;
    stream.put(io, lpid, cut.data, cut.rows, cutter.shape.align())
}

fn chosen(columns: &[Column], numbers: &[u16]) -> Vec<Column> {
    numbers.iter().map(|&c| columns[usize::from(c)].clone()).collect()
}
