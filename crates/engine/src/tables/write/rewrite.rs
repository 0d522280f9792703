//! What a commit does to the pages of one table.
//!
//! ```text
//!   in place   edited pages keep their LPIDs, inserts fill the last row page or go among their like ─► all in the one final batch
//!   moved      new pages go to fresh extents as they are made; the final batch trims the old ones
//! ```
//!
//! Invariants: before the final batch no page is written that a published descriptor names. An extent without live pages is released.
//! Rows and bytes of the table are exact.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, PageBuf};
use lode_command::{Align, Answer, PageRange, PageWrite};
use lode_page::{Column, PageError, PageKind};
use lode_program::{IndexEntry, IndexRule, Program};

use super::change::TableChange;
use super::cutter::{Cutter, Shape, concat};
use super::fold::{Cell, Folded, cells_of};
use super::near::{Near, split};
use super::stream::{Io, Stream, take_page};
use crate::tables::delta::{RowId, Span};
use crate::tables::own::{Edits, PageEdit};
use crate::tables::read::{self, Whole};
use crate::tables::table::{Table, TableExtent};
use crate::trees::Snapshot;
use crate::{EngineError, Set};

/// A row page with less than this part of its bytes free is not filled further.
const TAIL_FREE_PART: usize = 8;

/// The pages of one table on their way to its next version.
pub(super) struct Rewrite<'a> {
    snapshot: &'a Snapshot,
    table: &'a Table,
    in_place: bool,
    page_bytes_max: usize,
    /// Bytes that the final batch may still take; negative when the change is too large for it.
    pub(super) room_bytes: i64,
    pub(super) writes: Vec<PageWrite>,
    pub(super) trims: Vec<Lpid>,
    /// Pages of the table whose rows were moved or changed.
    taken_out: Vec<Lpid>,
    extents: Vec<TableExtent>,
    stream: Stream,
    rows: i64,
    bytes: i64,
    tail: Option<Lpid>,
    /// What folds did.
    pub(super) folded: Folded,
    /// Pages of the table whose rows were folded, and which may be written again.
    pub(super) reusable: VecDeque<Lpid>,
    /// Index entries of all rows that were written; `None` when they are not known.
    entries: Option<(IndexRule, Vec<IndexEntry>)>,
}

/// The next version of a table, and what the final batch must do for it.
pub(super) struct Rewritten {
    pub(super) table: Table,
    pub(super) writes: Vec<PageWrite>,
    pub(super) trims: Vec<Lpid>,
    pub(super) releases: Vec<TableExtent>,
    /// Pages of the old version that are gone or have other rows.
    pub(super) taken_out: Vec<Lpid>,
    /// Pages in fresh extents, most of them written before.
    pub(super) fresh: Vec<Lpid>,
    /// What folds did.
    pub(super) folded: Folded,
}

impl<'a> Rewrite<'a> {
    /// With `in_place`, at most `room_bytes` of pages may be written. Otherwise `stream` takes the pages.
    pub(super) fn new(
        snapshot: &'a Snapshot,
        table: &'a Table,
        in_place: bool,
        stream: Stream,
        page_bytes_max: usize,
        room_bytes: i64,
    ) -> Self {
        Self {
            snapshot,
            table,
            in_place,
            page_bytes_max,
            room_bytes,
            writes: Vec::new(),
            trims: Vec::new(),
            taken_out: Vec::new(),
            extents: table.extents.clone(),
            stream,
            rows: table.rows as i64,
            bytes: table.bytes as i64,
            tail: table.tail,
            folded: Folded::default(),
            reusable: VecDeque::new(),
            // Statistics that are there are kept up to date.
            entries: table.statistics.get().and_then(|_| Some((table.index_rule().ok()?, Vec::new()))),
        }
    }

    /// Notes that these rows are written.
    fn note(&mut self, columns: &[Column]) {
        if let Some((rule, mut entries)) = self.entries.take()
            && let Ok(entry) = rule.entry(&mut Whole(columns))
        {
            entries.push(entry);
            self.entries = Some((rule, entries));
        }
    }

    /// Applies a change. Stops early when it turns out too large to be done in place: `room_bytes` is negative then.
    pub(super) fn run(&mut self, io: &mut Io<'_>, change: &TableChange) -> Result<(), EngineError> {
        let mut inserts = change.inserts.as_ref().filter(|i| i.rows() > 0).cloned();
        let mut near = BTreeMap::new();
        if let Some(all) = inserts.as_ref().filter(|_| self.in_place)
            && let Some(placed) = Near::of(self.snapshot, self.table, all, &change.edits)?
        {
            near = placed.pages;
            let others = placed.others.map(|others| {
                let mut cutter = Cutter::new(all.shape.clone());
                cutter.push(others);
                cutter
            });
            inserts = others;
        }
        let mut filled = if inserts.is_some() { self.tail_with_room()? } else { None };
        if let Some(of_tail) = filled.and_then(|lpid| near.get_mut(&lpid)) {
            let others = inserts.take().into_iter().flat_map(|i| i.parts().collect::<Vec<_>>());
            let all = std::iter::once(std::mem::take(of_tail)).chain(others).collect();
            (*of_tail, filled) = (concat(&self.table.types(), all), None);
        }
        let none = Arc::new(PageEdit::default());
        let more: Vec<Lpid> = near.keys().filter(|lpid| !change.edits.contains_key(lpid)).copied().collect();
        let edits = change.edits.iter().filter(|_| !self.table.has_delta());
        for (lpid, edit) in edits.map(|(lpid, edit)| (*lpid, edit)).chain(more.iter().map(|l| (*l, &none))) {
            if filled != Some(lpid) {
                self.edit(io, lpid, edit, near.remove(&lpid))?;
            }
            if self.room_bytes < 0 {
                return Ok(());
            }
        }
        if change.folds {
            let rows = change.rows.merged();
            let cells = cells_of(&*self.snapshot.directory(self.table)?, &change.edits, &rows, true);
            self.fold(io, &cells, &rows, &change.edits)?;
            if self.room_bytes < 0 {
                return Ok(());
            }
        }
        if let Some(load) = &change.load {
            self.entries = None;
            self.place(io, load.cutter.clone(), None)?;
        }
        if let Some(inserts) = inserts {
            let mut cutter = Cutter::new(inserts.shape.clone());
            if let Some(lpid) = filled {
                let none = PageEdit::default();
                cutter.push(self.take_out(lpid, change.edits.get(&lpid).map_or(&none, |e| e))?);
            }
            inserts.parts().for_each(|part| cutter.push(part));
            cutter.parts().filter(|part| part[0].rows() > 0).for_each(|part| self.note(&part));
            self.tail = self.place(io, cutter, filled)?;
        }
        if !self.in_place && self.trims.len() > io.store.identity().batch_pages_max as usize / 2 {
            self.empty_extents(io)?;
        }
        Ok(())
    }

    /// The last row page, if inserts should fill it further.
    fn tail_with_room(&self) -> Result<Option<Lpid>, EngineError> {
        let Some(tail) = self.tail.filter(|_| self.in_place) else { return Ok(None) };
        let page = read::page(self.snapshot, tail)?;
        let limit = Shape::new(self.table, PageKind::Row, self.page_bytes_max).limit_bytes;
        let free = limit.saturating_sub(page.page_bytes() as usize);
        Ok((free >= limit / TAIL_FREE_PART).then_some(tail))
    }

    /// Takes a page out: answers its columns after its edit, and counts the page no longer.
    fn take_out(&mut self, lpid: Lpid, edit: &PageEdit) -> Result<Vec<Column>, EngineError> {
        let page = read::page(self.snapshot, lpid)?;
        let all: Vec<u16> = (0..self.table.schema().columns.len() as u16).collect();
        let old = read::columns_of(self.snapshot, self.table, lpid, &all)?;
        self.taken_out.push(lpid);
        self.rows -= page.rows() as i64;
        self.bytes -= i64::from(page.page_bytes());
        edit.apply(&all, old.columns)
    }

    /// Applies an edit to a page, and adds rows: afterwards there is no page, the page, or several pages.
    fn edit(
        &mut self,
        io: &mut Io<'_>,
        lpid: Lpid,
        edit: &PageEdit,
        added: Option<Vec<Column>>,
    ) -> Result<(), EngineError> {
        if let Some(page_bytes) = edit.unread_bytes {
            self.taken_out.push(lpid);
            self.rows -= edit.deleted_rows() as i64;
            self.bytes -= i64::from(page_bytes);
            self.trim(lpid);
            return Ok(());
        }
        let kind = read::page(self.snapshot, lpid)?.meta().kind;
        let mut columns = self.take_out(lpid, edit)?;
        let (old, has_added) = (columns[0].rows(), added.is_some());
        if let Some(added) = added {
            columns = concat(&self.table.types(), vec![columns, added]);
        }
        let rows = columns[0].rows();
        if rows == 0 || !self.in_place {
            self.trim(lpid);
        }
        if rows == 0 {
            return Ok(());
        }
        self.note(&columns);
        let shape = Shape::new(self.table, kind, self.page_bytes_max);
        let first = if self.in_place { lpid } else { self.next_lpid(io)? };
        match shape.encode(first, &columns, shape.limit_bytes) {
            Ok(data) => self.put(io, first, data, rows, shape.align()),
            Err(PageError::TooLarge { needed_bytes, .. }) => {
                let cutter = match self.table.def().options.cluster_by.first() {
                    Some(&column) if has_added => {
                        split(shape, &columns, old, column, &self.table.types(), needed_bytes)
                    }
                    _ => Cutter::evenly(shape, columns, needed_bytes),
                };
                self.place(io, cutter, Some(first)).map(drop)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Cuts all rows into pages, of which the first is `first`; answers the last page.
    fn place(
        &mut self,
        io: &mut Io<'_>,
        mut cutter: Cutter,
        mut first: Option<Lpid>,
    ) -> Result<Option<Lpid>, EngineError> {
        let align = cutter.shape.align();
        let mut last = None;
        while cutter.rows() > 0 && self.room_bytes >= 0 {
            let lpid = match first.take() {
                Some(lpid) => lpid,
                None => self.next_lpid(io)?,
            };
            let cut = cutter.cut(lpid)?;
            self.put(io, lpid, cut.data, cut.rows, align)?;
            last = Some(lpid);
        }
        Ok(last)
    }

    /// The statistics of the table are collected anew.
    pub(super) fn forget_entries(&mut self) {
        self.entries = None;
    }

    pub(super) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    pub(super) fn table(&self) -> &'a Table {
        self.table
    }

    pub(super) fn page_bytes_max(&self) -> usize {
        self.page_bytes_max
    }

    /// Whether the change turned out too large to be done in place.
    pub(super) fn is_too_large(&self) -> bool {
        self.room_bytes < 0
    }

    /// A page of the table will be written anew, or trimmed.
    pub(super) fn replace(&mut self, lpid: Lpid, rows: usize, page_bytes: u64) {
        self.rows -= rows as i64;
        self.bytes -= page_bytes as i64;
        match self.in_place {
            true => self.reusable.push_back(lpid),
            false => self.trim(lpid),
        }
    }

    /// Trims the pages whose rows were folded and that were not written again.
    pub(super) fn trim_reusable(&mut self) {
        for lpid in std::mem::take(&mut self.reusable) {
            self.trim(lpid);
        }
    }

    pub(super) fn next_lpid(&mut self, io: &mut Io<'_>) -> Result<Lpid, EngineError> {
        match self.in_place {
            true => take_page(&mut self.extents, io, self.table.id()),
            false => self.stream.next_lpid(io, self.table.id()),
        }
    }

    pub(super) fn put(
        &mut self,
        io: &mut Io<'_>,
        lpid: Lpid,
        data: PageBuf,
        rows: usize,
        align: Align,
    ) -> Result<(), EngineError> {
        if !self.in_place {
            return self.stream.put(io, lpid, data, rows, align);
        }
        io.places(rows);
        self.rows += rows as i64;
        self.bytes += data.len() as i64;
        self.room_bytes -= data.len() as i64;
        self.writes.push(PageWrite { lpid, data, align });
        Ok(())
    }

    fn trim(&mut self, lpid: Lpid) {
        let at = self.table.extent_index(lpid.extent()).expect("edited pages are the table's");
        self.extents[at as usize].live -= 1;
        self.trims.push(lpid);
        if self.tail == Some(lpid) {
            self.tail = None;
        }
    }

    /// Moves the pages that are left in extents that lose pages, so that whole extents are released: there are more trims than one
    /// batch takes.
    fn empty_extents(&mut self, io: &mut Io<'_>) -> Result<(), EngineError> {
        let gone: Set<Lpid> = self.trims.iter().copied().collect();
        let touched: Set<ExtentId> = gone.iter().map(|l| l.extent()).collect();
        let partial = self.extents.iter().filter(|e| e.live > 0 && touched.contains(&e.id));
        let ranges = partial.map(|e| PageRange { extent: e.id, first: 0, count: e.used }).collect();
        let program = Arc::new(Program::check(self.table.schema().clone(), None, Vec::new(), false)?);
        if self.table.has_delta() {
            // Rows of a delta stay where their ids are, so the whole cells of the pages move.
            let directory = self.snapshot.directory(self.table)?;
            let left = |span: &&Span| touched.contains(&span.lpid.extent()) && !gone.contains(&span.lpid);
            let first = |(first, span): (&RowId, &Span)| left(&span).then_some(*first);
            let cells = Cell::of_rows(&directory, directory.spans().iter().filter_map(first));
            return self.fold(io, &cells, &BTreeMap::new(), &Edits::new());
        }
        let mut scan = self.snapshot.scan(self.table, ranges, program, Answer::Mapped, None)?;
        while let Some(unit) = scan.next()? {
            for page in unit.pages.iter().filter(|p| !gone.contains(&p.lpid)) {
                self.edit(io, page.lpid, &PageEdit::default(), None)?;
            }
        }
        Ok(())
    }

    /// The table's next version. `stream` has the pages that were written to fresh extents before.
    pub(super) fn finish(mut self, mut stream: Stream) -> Rewritten {
        if !self.in_place {
            stream = std::mem::take(&mut self.stream);
        }
        let fresh = stream.lpids().collect();
        self.extents.append(&mut stream.extents);
        self.writes.append(&mut stream.staged);
        let (kept, releases): (Vec<TableExtent>, Vec<_>) = self.extents.into_iter().partition(|e| e.live > 0);
        let released: Set<ExtentId> = releases.iter().map(|e| e.id).collect();
        self.trims.retain(|l| !released.contains(&l.extent()));
        let (rows, bytes) = (self.rows + stream.rows as i64, self.bytes + stream.bytes as i64);
        let count = |n: i64| u64::try_from(n).expect("a table has no fewer than no rows and bytes");
        let t = self.table;
        let table = t.next(t.indexes().to_vec(), kept).with_contents(
            count(rows),
            count(bytes),
            self.tail,
            t.index_pending,
        );
        if let (Some(old), Some((rule, entries))) = (t.statistics.get(), &self.entries)
            && let Some(grown) = old.grown(table.schema(), table.size(), rule, entries)
        {
            let _ = table.statistics.set(grown);
        }
        Rewritten {
            table,
            writes: self.writes,
            trims: self.trims,
            releases,
            taken_out: self.taken_out,
            fresh,
            folded: self.folded,
        }
    }
}
