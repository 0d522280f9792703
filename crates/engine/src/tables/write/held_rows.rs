//! Held rows: rows that a transaction inserted, in memory. They are divided into pages, so that the transaction reads and changes
//! them like all others.
//!
//! ```text
//!   insert ─► a page; pages of about the same size are merged ─► few pages, however many inserts
//! ```
//!
//! Invariant: the pages are numbered from 0 in the table's held extent; each has a row.

use std::sync::Arc;

use lode_base::{EXTENT_PAGES, Lpid};
use lode_page::{Column, DataType};

use super::cutter::{bytes_of, concat};
use crate::EngineError;
use crate::tables::own::{Edits, HeldPage, held_extent};
use crate::tables::table::{Table, TableExtent};

/// Pages of as many rows are not merged further.
const PAGE_ROWS_MAX: usize = 4096;

#[derive(Clone, Default)]
pub(super) struct HeldRows {
    pages: Vec<HeldPage>,
    bytes: usize,
}

impl HeldRows {
    /// Adds rows. The last pages may be merged with them, after their edits.
    pub(super) fn push(
        &mut self,
        t: &Table,
        edits: &mut Edits,
        mut part: Vec<Column>,
    ) -> Result<(), EngineError> {
        while let Some(last) = self.pages.last() {
            let (last_rows, rows) = (last[0].rows(), part[0].rows());
            let is_full = self.pages.len() == EXTENT_PAGES;
            if !is_full && (last_rows > 2 * rows || last_rows + rows > PAGE_ROWS_MAX) {
                break;
            }
            let last = self.pop(t, edits)?;
            if last[0].rows() > 0 {
                part = concat(&types(t), vec![last, part]);
            }
        }
        self.bytes += bytes_of(&part);
        self.pages.push(Arc::new(part));
        Ok(())
    }

    /// The table has more columns from now on.
    pub(super) fn add_columns(&mut self, t: &Table) {
        for page in &mut self.pages {
            let rows = page[0].rows();
            t.schema().complete(Arc::make_mut(page), rows);
        }
        self.bytes = self.pages.iter().map(|p| bytes_of(p)).sum();
    }

    /// The last page after its edit.
    fn pop(&mut self, t: &Table, edits: &mut Edits) -> Result<Vec<Column>, EngineError> {
        let page = self.pages.pop().expect("there is a last page");
        self.bytes -= bytes_of(&page);
        let page = Arc::unwrap_or_clone(page);
        match edits.remove(&held_extent(t.id()).page(self.pages.len() as u16)) {
            Some(edit) => edit.apply(&(0..page.len() as u16).collect::<Vec<_>>(), page),
            None => Ok(page),
        }
    }

    /// Takes all rows out, after their edits, in parts.
    pub(super) fn take(&mut self, t: &Table, edits: &mut Edits) -> Result<Vec<Vec<Column>>, EngineError> {
        let pages = 0..self.pages.len();
        let mut parts = pages.map(|_| self.pop(t, edits)).collect::<Result<Vec<_>, _>>()?;
        parts.reverse();
        parts.retain(|p| p[0].rows() > 0);
        Ok(parts)
    }

    pub(super) fn rows(&self) -> u64 {
        self.pages.iter().map(|p| p[0].rows() as u64).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The extent of the pages, as the transaction sees it.
    pub(super) fn extent(&self, t: &Table) -> Option<TableExtent> {
        let pages = self.pages.len() as u16;
        (pages > 0).then(|| TableExtent { id: held_extent(t.id()), used: pages, live: pages })
    }

    /// The pages, with their LPIDs.
    pub(super) fn pages(&self, t: &Table) -> impl Iterator<Item = (Lpid, HeldPage)> + '_ {
        let extent = held_extent(t.id());
        self.pages.iter().enumerate().map(move |(i, p)| (extent.page(i as u16), p.clone()))
    }

    /// How many rows a page has, if it is one of these pages.
    pub(super) fn rows_of(&self, t: &Table, lpid: Lpid) -> Option<usize> {
        let page = self.pages.get(usize::from(lpid.page())).filter(|_| lpid.extent() == held_extent(t.id()));
        page.map(|p| p[0].rows())
    }
}

fn types(t: &Table) -> Vec<DataType> {
    t.schema().columns.iter().map(|c| c.data_type).collect()
}
