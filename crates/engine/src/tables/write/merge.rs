//! Merges: rows of a delta become rows of column pages, in the background.
//!
//! ```text
//!   survey: bytes of the delta by cell ─► cells that are due ─► fold, at a snapshot ─► right to write: one batch
//!                                                                                      └ an entry that changed stays
//! ```
//!
//! A merge claims nothing. Rows keep their ids and their values, so no transaction can tell. It gives up if the table has another
//! version meanwhile.
//!
//! A cell is due if the delta has at least an eighth of the bytes of its page: then a merge writes at most eight times what the delta
//! has of the page. At rest every cell is due.
//!
//! Rows behind those of a page are merged with the pages before them that are no larger than what is merged so far. So rows that
//! come a few at a time do not leave a page each: their pages grow, and a row is written again a logarithmic number of times.
//! Example: 100 rests merge 90 KB of a delta each, which make 30 KB of pages. They leave 5 pages of 600 KB instead of 100 of 30, and
//! each row was written 3.8 times.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use lode_base::CommitNo;
use lode_command::Batch;

use super::WriteTxn;
use super::delta_commit::{RowWrites, note_fold};
use super::fold::{Cell, Folded};
use super::rewrite::{Rewrite, Rewritten};
use super::stream::{Io, Stream};
use crate::EngineError;
use crate::tables::catalog::TableCatalog;
use crate::tables::delta::{Directory, DueCell, RowId, delta_range, id_of_key};
use crate::tables::own::Edits;
use crate::tables::planted::{self, Planted};
use crate::tables::planted_cuts::{self, Planted as ForCuts};
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::{Claims, Snapshot};

/// A cell is due if its part of the delta has this part of its page's bytes.
const DUE_PART: u64 = 8;
/// Rows behind those of a page are due from this many bytes on: about a page of them.
const TAIL_BYTES: u64 = 2 << 20;
/// A page up to this size is always merged with rows behind it, and no page above the other size: half of a full one.
const SMALL_BYTES_MIN: u64 = 64 << 10;
const SMALL_BYTES_MAX: u64 = 512 << 10;
/// What became of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tables) enum Merged {
    /// The rows are in pages of so many bytes, since this commit.
    Done { page_bytes: u64, commit: CommitNo },
    /// Others changed the table's pages or definition first.
    Overtaken,
    /// The pages do not fit one batch. The rows stay in the delta.
    TooLarge,
}

impl Cell {
    /// A cell that is due, behind the pages that are merged with it, as a directory has them; `None` if ids are divided otherwise
    /// since the survey.
    fn all_of_due(due: &DueCell, directory: &Directory) -> Option<Vec<Self>> {
        let mut cells = Vec::new();
        let mut from = due.with.unwrap_or(due.from);
        while from < due.from {
            let cell = Self::of(directory, from);
            if cell.from != from {
                return None;
            }
            from = cell.end?;
            cells.push(cell);
        }
        cells.push(Self::of_due(due, directory).filter(|cell| cell.from == from)?);
        Some(cells)
    }

    /// A cell that is due, as a directory has it; `None` if its ids are divided otherwise since the survey.
    fn of_due(due: &DueCell, directory: &Directory) -> Option<Self> {
        let cell = Self::of(directory, due.from);
        match cell.span.is_some() == due.is_page {
            true if due.is_page => (cell.from == due.from && cell.end == due.end).then_some(cell),
            // A part of the ids between two pages.
            true => {
                let ends_within = match (due.end, cell.end) {
                    (_, None) => true,
                    (Some(mine), Some(end)) => mine <= end,
                    (None, Some(_)) => false,
                };
                ends_within.then_some(Self { from: due.from, end: due.end, span: None })
            }
            false => None,
        }
    }
}

/// The cells of a table that are due, by ascending ids. `all`: every cell of which the delta has a row.
pub(in crate::tables) fn survey(
    snapshot: &Snapshot,
    t: &Table,
    all: bool,
) -> Result<Vec<DueCell>, EngineError> {
    let Some(tree) = snapshot.rows_tree(t) else { return Ok(Vec::new()) };
    let directory = snapshot.directory(t)?;
    let (low, high) = delta_range();
    let mut cursor = snapshot.range(&tree, Bound::Included(&low), Bound::Excluded(&high))?;
    let mut found: Vec<DueCell> = Vec::new();
    let mut cell: Option<(Cell, u64)> = None;
    let mut end_cell = |cell: Option<(Cell, u64)>| -> Result<(), EngineError> {
        let Some((cell, bytes)) = cell else { return Ok(()) };
        let least = match &cell.span {
            Some(span) => u64::from(read::page(snapshot, span.lpid)?.page_bytes()) / DUE_PART,
            None => TAIL_BYTES,
        };
        if all || bytes >= least {
            let is_page = cell.span.is_some();
            let with = match is_page {
                true => None,
                false => {
                    let due = found.last().and_then(|d| d.end);
                    small_pages_before(snapshot, &directory, cell.from, due, bytes)?
                }
            };
            found.push(DueCell { from: cell.from, end: cell.end, is_page, bytes, with });
        }
        Ok(())
    };
    while let Some((key, image)) = cursor.next()? {
        let Some(id) = id_of_key(key) else { continue };
        let bytes = key.len() as u64 + image.len() as u64;
        match &mut cell {
            // Rows behind a page may be many. They are divided.
            Some((c, sum)) if c.holds(id) && (c.span.is_some() || *sum < TAIL_BYTES) => *sum += bytes,
            Some((c, _)) if c.holds(id) => {
                let rest = Cell { from: id, end: c.end, span: None };
                c.end = Some(id);
                end_cell(cell.replace((rest, bytes)))?;
            }
            _ => end_cell(cell.replace((Cell::of(&directory, id), bytes)))?,
        }
    }
    end_cell(cell.take())?;
    Ok(found)
}

/// The first id of the pages before an id that are small: each is no larger than what is merged behind it, of which `bytes` are
/// the delta's. `due`: where the last cell ends that is due itself.
fn small_pages_before(
    snapshot: &Snapshot,
    directory: &Directory,
    id: RowId,
    due: Option<RowId>,
    bytes: u64,
) -> Result<Option<RowId>, EngineError> {
    let (mut with, mut merged, mut read_bytes) = (None, bytes.max(SMALL_BYTES_MIN), 0);
    for (&first, span) in directory.spans().range(..id).rev() {
        // The keys of a load are in no tree, so its rows stay apart.
        if span.keys.is_some() || due.is_some_and(|due| due > first) {
            break;
        }
        let page_bytes = u64::from(read::page(snapshot, span.lpid)?.page_bytes());
        read_bytes += page_bytes;
        if page_bytes > merged || page_bytes > SMALL_BYTES_MAX || read_bytes > 2 * SMALL_BYTES_MAX {
            break;
        }
        merged += page_bytes;
        with = Some(first);
    }
    Ok(with)
}

impl WriteTxn {
    /// Merges some cells of a table, if the drive has `leave_bytes` left afterwards. The transaction does nothing else.
    pub(in crate::tables) fn merge(
        mut self,
        t: &Arc<Table>,
        due: &[DueCell],
        leave_bytes: u64,
    ) -> Result<Merged, EngineError> {
        let identity = self.snapshot.storage().store().identity().clone();
        let directory = self.snapshot.directory(t)?;
        let cells = due.iter().map(|d| Cell::all_of_due(d, &directory)).collect::<Option<Vec<Vec<Cell>>>>();
        let Some(cells) = cells.map(|cells| cells.concat()) else {
            return Ok(Merged::Overtaken);
        };
        let (page_bytes_max, room_bytes) =
            (identity.page_bytes_max as usize, identity.batch_bytes_max as i64 / 2);
        let storage = self.trees.committer().storage().clone();
        let base = self.snapshot.clone();
        let mut rewrite = Rewrite::new(&base, t, true, Stream::default(), page_bytes_max, room_bytes);
        rewrite.fold(&mut Io::new(&storage, &mut self.fresh), &cells, &BTreeMap::new(), &Edits::new())?;
        if rewrite.is_too_large() {
            return Ok(Merged::TooLarge);
        }
        let mut merged = rewrite.finish(Stream::default());
        self.permit = Some(self.trees.committer().alone());
        let now = self.trees.heads().refreshed()?;
        let is_same = || now.table(t.name()).is_some_and(|n| Arc::ptr_eq(&n, t));
        if !planted::instead(Planted::OvertakenPublished, is_same, || true) {
            return Ok(Merged::Overtaken);
        }
        self.snapshot = now;
        let mut catalog = TableCatalog::of(&self.snapshot);
        let tree = self.snapshot.rows_tree(t).expect("a table with a delta has a tree");
        let (mut spans, mut writes) = (directory.spans().clone(), RowWrites::default());
        let if_same = planted::instead(Planted::LateCommitForgotten, || true, || false);
        let mut later = None;
        if let Some(part) = planted_parts(&mut merged) {
            let mut apart = RowWrites::default();
            note_fold(t, &mut spans, &tree, part, &mut apart, if_same)?;
            match planted_cuts::is(ForCuts::DirectoryLater) {
                true => later = Some(apart),
                false => {
                    self.trees.committer().commit_alone(apart.into_writes())?;
                    self.snapshot = self.trees.heads().refreshed()?;
                }
            }
        }
        note_fold(t, &mut spans, &tree, std::mem::take(&mut merged.folded), &mut writes, if_same)?;
        merged.table.directory = OnceLock::from(Arc::new(Directory::of(spans)));
        Arc::make_mut(&mut catalog.tables).insert(t.name().into(), Arc::new(merged.table));
        let releases = merged.releases.iter().map(|e| e.id).collect();
        if planted_cuts::is(ForCuts::TrimsFirst) && !merged.trims.is_empty() {
            let trims = std::mem::take(&mut merged.trims);
            storage.store().write(Batch { trims, ..Batch::default() })?;
        }
        let batch = Batch { writes: merged.writes, trims: merged.trims, leave_bytes, ..Batch::default() };
        let page_bytes = batch.payload_bytes() as u64;
        let batch = self.batch(&catalog, batch, releases)?;
        let (commit, state) =
            self.publish(batch, catalog, writes.into_writes(), &Claims::default(), false)?;
        let trees = self.trees.clone();
        drop(self);
        if let Some(state) = state {
            trees.heads().settle(state)?;
        }
        if let Some(later) = later {
            let _alone = trees.committer().alone();
            trees.committer().commit_alone(later.into_writes())?;
        }
        Ok(Merged::Done { page_bytes, commit })
    }
}

/// What a planted fault takes out of the batch of a merge.
fn planted_parts(merged: &mut Rewritten) -> Option<Folded> {
    let Folded { removed, added, entries } = &mut merged.folded;
    if planted_cuts::is(ForCuts::EntriesFirst) {
        return Some(Folded { entries: std::mem::take(entries), ..Folded::default() });
    }
    if planted_cuts::is(ForCuts::DirectoryFirst) || planted_cuts::is(ForCuts::DirectoryLater) {
        let (removed, added) = (std::mem::take(removed), std::mem::take(added));
        return Some(Folded { removed, added, ..Folded::default() });
    }
    None
}
