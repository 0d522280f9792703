//! Rows that are deleted unread: those of pages of which the page index proves that each row passes.
//!
//! ```text
//!   filter ───────────────► the drive names pages that may have such rows ─┐
//!   NOT filter, or NULL ──► it names those that may have other rows ───────┴─ in the first alone ─► every row of the page is deleted
//!                                                                             in both ───────────► the caller reads the page
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
use lode_command::{Answer, IndexedPage, PageRange};
use lode_program::{Expr, Program};

use super::WriteTxn;
use crate::EngineError;
use crate::tables::collect::extents_at_once;
use crate::tables::delta::is_delta;
use crate::tables::index::ranges_of;
use crate::tables::own::PageEdit;
use crate::tables::planted_cuts::{self, Planted};
use crate::tables::table::Table;

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

    /// The pages that the index proves: those that may have rows which pass, and cannot have others. The drive says both, since it alone knows by
    /// which rule an entry was made. None of a table with a delta if the delta would take the rows, or if most pages have to be read anyway: with
    /// edits of pages a commit makes all pages anew of which a row changed.
    fn proven(
        &self,
        t: &Table,
        pages: Vec<PageRange>,
        program: &Arc<Program>,
    ) -> Result<Vec<Proven>, EngineError> {
        let named = self.named(t, pages, program)?;
        let all_named = named.len();
        let mut whole = named.clone();
        if let Some(filter) = program.filter() {
            let others =
                Expr::Or(vec![Expr::Not(Box::new(filter.clone())), Expr::IsNull(Box::new(filter.clone()))]);
            // A filter may be so large that there is no program of twice its size.
            let Ok(others) = Program::check(t.schema().clone(), Some(others), Vec::new(), false) else {
                return Ok(Vec::new());
            };
            let others = self.named(t, ranges_of(&named), &Arc::new(others))?;
            planted_cuts::unless(Planted::MaybeDeletedUnread, || whole.retain(|l| !others.contains(l)));
        }
        let overlay = self.snapshot.overlay(t)?;
        let hides = |lpid: Lpid| overlay.as_ref().is_some_and(|o| !o.hidden.of(lpid).is_empty());
        planted_cuts::unless(Planted::HiddenDeletedUnread, || whole.retain(|l| !hides(*l)));
        let directory = if t.has_delta() { Some(self.snapshot.directory(t)?) } else { None };
        let has_rows = |lpid: Lpid, rows: u32| match &directory {
            Some(d) => d.span_of(lpid).is_some_and(|s| s.rows == rows),
            None => true,
        };
        let mut proven = Vec::with_capacity(whole.len());
        let at_once = extents_at_once(&t.index_rule()?);
        for ranges in ranges_of(&whole).chunks(at_once) {
            for IndexedPage { lpid, len_bytes: bytes, entry } in
                self.snapshot.view().read_index(ranges.to_vec())?
            {
                let rows = entry.map(|e| e.rows());
                proven.extend(rows.filter(|&r| has_rows(lpid, r)).map(|rows| Proven { lpid, rows, bytes }));
            }
        }
        if t.has_delta() {
            let rows: usize = proven.iter().map(|p| p.rows as usize).sum();
            if rows <= self.limits.rows_by_id_max || all_named - proven.len() > proven.len() {
                proven.clear();
            }
        }
        Ok(proven)
    }

    /// The pages of the main that may have rows which pass.
    fn named(
        &self,
        t: &Table,
        pages: Vec<PageRange>,
        program: &Arc<Program>,
    ) -> Result<BTreeSet<Lpid>, EngineError> {
        let mut named = BTreeSet::new();
        let mut scan = self.snapshot.scan(t, pages, program.clone(), Answer::Index, None)?;
        while let Some(unit) = scan.next()? {
            named.extend(unit.pages.iter().map(|p| p.lpid).filter(|l| !is_delta(l.extent())));
        }
        Ok(named)
    }
}
