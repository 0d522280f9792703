//! Rows that are deleted unread: those of pages of which the page index proves that each row passes.
//!
//! ```text
//!   filter ─► the drive names pages that may have rows ─► their entries ─┬─ Yes ──► every row of the page is deleted
//!                                                                        └─ else ─► the caller reads the page
//! ```
//!
//! An edit of a whole page needs no more than how many rows and bytes the page has. The commit trims it.
//!
//! Invariants: a page of which the delta, or the transaction itself, has a row is left to the caller; so are all pages of a table whose
//! rows others reference, since it takes their keys to look for those that reference them. Few rows of a table with a delta go by their ids, as
//! others do.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::{Answer, PageRange};
use lode_program::index::covers;
use lode_program::{IndexEntry, Program};

use super::WriteTxn;
use crate::EngineError;
use crate::tables::delta::is_delta;
use crate::tables::own::PageEdit;
use crate::tables::planted_cuts::{self, Planted};
use crate::tables::table::Table;

/// Ranges of pages whose entries are read together.
const READ_RANGES: usize = 16;

/// Pages whose rows were all deleted.
#[derive(Debug, Default)]
pub struct DeletedPages {
    /// The pages.
    pub pages: BTreeSet<Lpid>,
    /// How many rows they had.
    pub rows: u64,
}

/// A page of which every row passes.
struct Proven {
    lpid: Lpid,
    rows: u32,
    bytes: u32,
}

impl WriteTxn {
    /// Deletes the rows of those of `pages` of which every row passes the filter of `program`, as far as the page index proves it. Reads none of
    /// them. The rows of all other pages are left alone.
    ///
    /// # Errors
    /// When the program is for another schema; when the drive fails.
    pub fn delete_unread(
        &mut self,
        table: &str,
        pages: Vec<PageRange>,
        program: &Arc<Program>,
    ) -> Result<DeletedPages, EngineError> {
        let t = self.catalog.table(table)?.clone();
        let is_as_at_begin = self.snapshot.table(table).is_some_and(|base| Arc::ptr_eq(&base, &t));
        let is_referenced = !self.referenced_columns(&t).is_empty();
        if !is_as_at_begin || is_referenced || self.changes.contains_key(&t.id()) {
            return Ok(DeletedPages::default());
        }
        let pages = pages.into_iter().filter(|r| !is_delta(r.extent)).collect();
        let proven = self.proven(&t, pages, program)?;
        if proven.is_empty() {
            return Ok(DeletedPages::default());
        }
        self.current = None;
        let mut deleted = DeletedPages::default();
        let edits = &mut self.changes.entry(t.id()).or_default().edits;
        for Proven { lpid, rows, bytes } in proven {
            edits.insert(lpid, Arc::new(PageEdit::whole(rows, bytes)));
            deleted.pages.insert(lpid);
            deleted.rows += u64::from(rows);
        }
        Ok(deleted)
    }

    /// The pages that the index proves. None of a table with a delta if the delta would take the rows, or if most pages have to be read anyway: with
    /// edits of pages a commit makes all pages anew of which a row changed.
    fn proven(
        &self,
        t: &Table,
        pages: Vec<PageRange>,
        program: &Arc<Program>,
    ) -> Result<Vec<Proven>, EngineError> {
        let mut named: Vec<PageRange> = Vec::new();
        let mut scan = self.snapshot.scan(t, pages, program.clone(), Answer::Index, None)?;
        while let Some(unit) = scan.next()? {
            for page in unit.pages.iter().filter(|p| !is_delta(p.lpid.extent())) {
                let (extent, number) = (page.lpid.extent(), page.lpid.page());
                match named.last_mut().filter(|r| r.extent == extent && r.first + r.count == number) {
                    Some(range) => range.count += 1,
                    None => named.push(PageRange { extent, first: number, count: 1 }),
                }
            }
        }
        let overlay = self.snapshot.overlay(t)?;
        let directory = if t.has_delta() { Some(self.snapshot.directory(t)?) } else { None };
        let hides = |lpid: Lpid| overlay.as_ref().is_some_and(|o| !o.hidden.of(lpid).is_empty());
        let is_whole = |lpid: Lpid, entry: &IndexEntry| match &directory {
            Some(d) => d.span_of(lpid).is_some_and(|s| s.rows == entry.rows()),
            None => true,
        };
        let rule = t.index_rule()?;
        let mut proven = Vec::new();
        for ranges in named.chunks(READ_RANGES) {
            for page in self.snapshot.view().read_index(ranges.to_vec())? {
                let Some(entry) = &page.entry else { continue };
                rule.check(entry)?;
                let is_shown =
                    planted_cuts::instead(Planted::HiddenDeletedUnread, || !hides(page.lpid), || true);
                let passes = || covers(program, &rule, entry);
                let passes = planted_cuts::instead(Planted::MaybeDeletedUnread, passes, || true);
                if is_shown && is_whole(page.lpid, entry) && passes {
                    proven.push(Proven { lpid: page.lpid, rows: entry.rows(), bytes: page.len_bytes });
                }
            }
        }
        if t.has_delta() {
            let rows: usize = proven.iter().map(|p| p.rows as usize).sum();
            let pages: usize = named.iter().map(|r| usize::from(r.count)).sum();
            let is_few = rows <= self.limits.rows_by_id_max;
            if is_few || pages - proven.len() > proven.len() {
                proven.clear();
            }
        }
        Ok(proven)
    }
}
