//! Folds: pages of the main are made anew, with what the delta and a transaction have of their rows.
//!
//! ```text
//!   page  ids 100 to 400     a cell: ids 100 to 400           the delta has 120, 250 (gone), 310, 470
//!                            a cell: ids 401 to 499
//!   page  ids 500 ..
//!                  rows of the page without 120, 250, 310 ─┐
//!                  120, 310 of the delta ──────────────────┴─► in the order of ids ─► pages
//!                  470 of the delta ─────────────────────────► a page, or behind the rows of the page before
//! ```
//!
//! Cells are the ids of a page, and the ids between two pages. A page's cell is folded whole, so ids of pages never overlap. Rows keep
//! their ids, so no entry of an index changes by a fold.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use lode_base::Lpid;
use lode_command::Align;
use lode_page::{Column, Schema, decode_page, ops, row};

use super::cutter::{Cut, Cutter, Shape};
use super::rewrite::Rewrite;
use super::stream::Io;
use crate::EngineError;
use crate::tables::delta::{Directory, KeyBounds, RowId, Span, delta_key, id_of_key};
use crate::tables::delta::{Image, RowChange};
use crate::tables::own::{Edits, PageEdit};
use crate::tables::planted::{self, Planted};
use crate::tables::planted_cuts::{self, Planted as ForCuts};
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::Snapshot;

/// The ids of a page of the main, or the ids between two pages.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) from: RowId,
    /// The first id of the next cell.
    pub(super) end: Option<RowId>,
    /// The page.
    pub(super) span: Option<Span>,
}

/// What a fold did beside pages.
#[derive(Default)]
pub(super) struct Folded {
    /// The first row ids of pages that are gone.
    pub(super) removed: Vec<RowId>,
    pub(super) added: Vec<(RowId, Span)>,
    /// Entries of the delta that pages have now. An empty image: the row was gone.
    pub(super) entries: Vec<(RowId, Image)>,
}

impl Cell {
    /// The cell of a row.
    pub(super) fn of(directory: &Directory, id: RowId) -> Self {
        let spans = directory.spans();
        let end = spans.range((Bound::Excluded(id), Bound::Unbounded)).next().map(|(first, _)| *first);
        let Some((&from, span)) = spans.range(..=id).next_back() else {
            return Self { from: RowId::new(0), end, span: None };
        };
        match RowId::after(span.id(from, span.rows - 1)) {
            Some(behind) if behind <= id => Self { from: behind, end, span: None },
            behind => Self { from, end: behind, span: Some(span.clone()) },
        }
    }

    /// The cells of some rows, which ascend.
    pub(super) fn of_rows(directory: &Directory, ids: impl IntoIterator<Item = RowId>) -> Vec<Self> {
        let mut cells: Vec<Self> = Vec::new();
        for id in ids {
            if cells.last().is_none_or(|c| c.end.is_some_and(|end| end <= id)) {
                cells.push(Self::of(directory, id));
            }
        }
        cells
    }

    pub(super) fn holds(&self, id: RowId) -> bool {
        id >= self.from && self.end.is_none_or(|end| id < end)
    }
}

/// Rows on their way to pages.
struct Rows {
    cutter: Cutter,
    /// Their ids.
    ids: VecDeque<RowId>,
    /// Whether the keys of some are in no tree.
    has_bounds: bool,
}

impl Rewrite<'_> {
    /// Makes pages anew with all that the delta at the snapshot and a transaction have of the rows in some cells, which ascend.
    pub(super) fn fold(
        &mut self,
        io: &mut Io<'_>,
        cells: &[Cell],
        own: &BTreeMap<RowId, &RowChange>,
        edits: &Edits,
    ) -> Result<(), EngineError> {
        self.forget_entries();
        let shape = Shape::of_loads(self.table(), self.page_bytes_max());
        let mut out = Rows { cutter: Cutter::new(shape), ids: VecDeque::new(), has_bounds: false };
        let mut last_end = None;
        for cell in cells {
            if last_end.is_some_and(|end| end != Some(cell.from)) {
                // Between two cells of a page there may be no other page.
                self.finish_rows(io, &mut out)?;
            }
            last_end = Some(cell.end);
            self.fold_cell(io, cell, own, edits, &mut out)?;
            if self.is_too_large() {
                return Ok(());
            }
        }
        self.finish_rows(io, &mut out)?;
        self.trim_reusable();
        Ok(())
    }

    fn fold_cell(
        &mut self,
        io: &mut Io<'_>,
        cell: &Cell,
        own: &BTreeMap<RowId, &RowChange>,
        edits: &Edits,
        out: &mut Rows,
    ) -> Result<(), EngineError> {
        let (snapshot, t) = (self.snapshot(), self.table());
        let mut changed: BTreeMap<RowId, Image> = delta_rows(snapshot, t, cell)?;
        self.folded.entries.extend(changed.iter().map(|(&id, image)| (id, image.clone())));
        for (&id, change) in own.range(cell.from..).take_while(|(id, _)| cell.holds(**id)) {
            planted::unless(Planted::OwnNotFolded, || {
                changed.insert(id, change.after.clone().unwrap_or_else(|| Image::from([])));
            });
        }
        if let Some(span) = &cell.span {
            let edit = edits.get(&span.lpid).map(|e| &**e);
            return self.fold_page(io, cell.from, span, &changed, edit, out);
        }
        let shown: Vec<(RowId, &Image)> =
            changed.iter().filter(|(_, i)| !i.is_empty()).map(|(&id, image)| (id, image)).collect();
        if !shown.is_empty() && !planted::is(Planted::TailForgotten) {
            let columns = row::decode_all(t.schema(), shown.iter().map(|(_, i)| &i[..]))?;
            self.take_rows(io, out, shown.iter().map(|(id, _)| *id).collect(), columns, false)?;
        }
        Ok(())
    }

    /// Takes the rows of a page with those that changed.
    fn fold_page(
        &mut self,
        io: &mut Io<'_>,
        first: RowId,
        span: &Span,
        changed: &BTreeMap<RowId, Image>,
        edit: Option<&PageEdit>,
        out: &mut Rows,
    ) -> Result<(), EngineError> {
        let unread = edit.and_then(|e| e.unread_bytes);
        if let Some(page_bytes) = unread.filter(|_| changed.is_empty()) {
            planted_cuts::unless(ForCuts::UnreadPageStays, || {
                self.replace(span.lpid, span.rows as usize, page_bytes.into());
                self.folded.removed.push(first);
            });
            return Ok(());
        }
        let t = self.table();
        let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
        let page = read::columns_of(self.snapshot(), t, span.lpid, &all)?;
        self.replace(span.lpid, page.rows, page.page_bytes);
        self.folded.removed.push(first);
        let kept: Vec<(RowId, u32)> = (0..page.rows as u32)
            .map(|slot| (span.id(first, slot), slot))
            .filter(|(id, slot)| {
                let is_old = || !changed.contains_key(id);
                planted::instead(Planted::GoneKept, is_old, || changed.get(id).is_none_or(|i| i.is_empty()))
                    && edit.is_none_or(|e| !e.deleted.contains(*slot))
            })
            .collect();
        let shown: Vec<(RowId, &Image)> =
            changed.iter().filter(|(_, i)| !i.is_empty()).map(|(&id, image)| (id, image)).collect();
        if kept.is_empty() && shown.is_empty() {
            return Ok(());
        }
        let mut ids: Vec<RowId> = kept.iter().map(|k| k.0).collect();
        // None of the rows is gone, and none is new.
        let stay = edit.is_none() && shown.len() == changed.len() && kept.len() + shown.len() == page.rows;
        if stay && !out.cutter.is_small(&page.columns, page.page_bytes) {
            ids.extend(shown.iter().map(|(id, _)| *id));
            ids.sort_unstable();
            let columns = with_new_values(t.schema(), &page.columns, &ids, &shown)?;
            return self.take_page(io, out, ids, columns, &page.columns, span.keys.is_some());
        }
        let slots: Vec<u32> = kept.iter().map(|k| k.1).collect();
        let edited = (0..).zip(&page.columns).map(|(n, column)| match edit {
            Some(edit) => edit.updated(n, column.clone()),
            None => Ok(column.clone()),
        });
        let mut columns =
            edited.map(|c| Ok(ops::take(&c?, &slots))).collect::<Result<Vec<Column>, EngineError>>()?;
        if !shown.is_empty() {
            let new = row::decode_all(t.schema(), shown.iter().map(|(_, i)| &i[..]))?;
            ids.extend(shown.iter().map(|(id, _)| *id));
            let mut order: Vec<u32> = (0..ids.len() as u32).collect();
            order.sort_unstable_by_key(|&i| ids[i as usize]);
            columns = columns
                .iter()
                .zip(&new)
                .map(|(a, b)| ops::take(&ops::concat(a.data_type(), &[a.clone(), b.clone()]), &order))
                .collect();
            ids.sort_unstable();
        }
        self.take_rows(io, out, ids, columns, span.keys.is_some())
    }

    /// Takes the rows of a page that stays a page if they fit. `new` has the columns that change.
    fn take_page(
        &mut self,
        io: &mut Io<'_>,
        out: &mut Rows,
        ids: Vec<RowId>,
        new: Vec<Option<Column>>,
        old: &[Column],
        has_bounds: bool,
    ) -> Result<(), EngineError> {
        if out.cutter.is_half_full() {
            self.finish_rows(io, out)?;
        }
        let stays: Vec<bool> = new.iter().map(Option::is_none).collect();
        let columns: Vec<Column> =
            new.into_iter().zip(old).map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
        if out.cutter.rows() == 0 {
            let lpid = self.next_reusable(io)?;
            if let Some(data) = out.cutter.shape.page_again(lpid, &columns, &stays)? {
                let cut = Cut { data, rows: ids.len() };
                return self.put_cut(io, lpid, cut, &ids, has_bounds, out.cutter.shape.align());
            }
            self.reusable.push_front(lpid);
        }
        self.push_rows(io, out, ids, columns, has_bounds, Self::finish_evenly)?;
        // Rows that were left would take the next page along, which may stay as it is.
        self.finish_evenly(io, out)
    }

    /// Puts all rows into pages of equal numbers of rows.
    fn finish_evenly(&mut self, io: &mut Io<'_>, out: &mut Rows) -> Result<(), EngineError> {
        out.cutter.even_out();
        self.finish_rows(io, out)?;
        out.cutter.fill_pages();
        Ok(())
    }

    fn take_rows(
        &mut self,
        io: &mut Io<'_>,
        out: &mut Rows,
        ids: Vec<RowId>,
        columns: Vec<Column>,
        has_bounds: bool,
    ) -> Result<(), EngineError> {
        self.push_rows(io, out, ids, columns, has_bounds, |this, io, out| {
            while out.cutter.has_full() && !this.is_too_large() {
                this.cut_rows(io, out)?;
            }
            Ok(())
        })
    }

    /// Takes rows; `cut` makes pages of them once they are enough for one.
    fn push_rows(
        &mut self,
        io: &mut Io<'_>,
        out: &mut Rows,
        ids: Vec<RowId>,
        columns: Vec<Column>,
        has_bounds: bool,
        cut: impl Fn(&mut Self, &mut Io<'_>, &mut Rows) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        if out.has_bounds != has_bounds {
            self.finish_rows(io, out)?;
            out.has_bounds = has_bounds;
        }
        // The ids of a page have the same upper half, so their distances have 32 bits.
        let half = |id: RowId| id.raw() >> 32;
        let mut from = 0;
        for group in ids.chunk_by(|a, b| half(*a) == half(*b)) {
            if out.ids.front().is_some_and(|first| half(*first) != half(group[0])) {
                self.finish_rows(io, out)?;
            }
            out.ids.extend(group);
            out.cutter.push(columns.iter().map(|c| ops::slice(c, from, group.len())).collect());
            from += group.len();
            if out.cutter.has_full() {
                cut(self, io, out)?;
            }
        }
        Ok(())
    }

    /// Puts all rows into pages.
    fn finish_rows(&mut self, io: &mut Io<'_>, out: &mut Rows) -> Result<(), EngineError> {
        while out.cutter.rows() > 0 && !self.is_too_large() {
            self.cut_rows(io, out)?;
        }
        Ok(())
    }

    fn cut_rows(&mut self, io: &mut Io<'_>, out: &mut Rows) -> Result<(), EngineError> {
        let lpid = self.next_reusable(io)?;
        let cut = out.cutter.cut(lpid)?;
        let ids: Vec<RowId> = out.ids.drain(..cut.rows).collect();
        self.put_cut(io, lpid, cut, &ids, out.has_bounds, out.cutter.shape.align())
    }

    fn put_cut(
        &mut self,
        io: &mut Io<'_>,
        lpid: Lpid,
        cut: Cut,
        ids: &[RowId],
        has_bounds: bool,
        align: Align,
    ) -> Result<(), EngineError> {
        let keys = match has_bounds {
            true => KeyBounds::of_page(&decode_page(lpid, &cut.data)?.1, &self.table().def().primary_key),
            false => None,
        };
        self.folded.added.push((ids[0], Span::of_ids(lpid, ids, keys)));
        self.put(io, lpid, cut.data, cut.rows, align)
    }
}

/// The columns of a page that the images of some of its rows change, with the new values. `ids` are those of the page's rows.
fn with_new_values(
    schema: &Schema,
    columns: &[Column],
    ids: &[RowId],
    images: &[(RowId, &Image)],
) -> Result<Vec<Option<Column>>, EngineError> {
    let mut slots: Vec<u32> = Vec::with_capacity(images.len());
    let mut from = 0;
    for (id, _) in images {
        from += ids[from..].iter().position(|i| i == id).expect("each image is of a row of the page");
        slots.push(from as u32);
    }
    let new = row::decode_all(schema, images.iter().map(|(_, i)| &i[..]))?;
    let is_same = |old: &Column, new: &Column| {
        slots.iter().enumerate().all(|(i, &slot)| {
            let (old, new) = (old.value(slot as usize), new.value(i));
            old.is_null() && new.is_null() || old.compare(&new) == Some(Ordering::Equal)
        })
    };
    let changed = |(old, new)| (!is_same(old, new)).then(|| ops::scatter(old, &slots, new));
    Ok(columns.iter().zip(&new).map(changed).collect())
}

/// The cells that a transaction's changes fold: those of edited pages, and with `all` those of all rows that it changed.
pub(super) fn cells_of(
    directory: &Directory,
    edits: &Edits,
    rows: &BTreeMap<RowId, &RowChange>,
    all: bool,
) -> Vec<Cell> {
    let mut ids: Vec<RowId> = edits.keys().filter_map(|lpid| directory.id_of(*lpid, 0)).collect();
    if all {
        ids.extend(rows.keys());
    }
    ids.sort_unstable();
    Cell::of_rows(directory, ids)
}

/// What the delta has of the rows of a cell. An empty image: the row is gone.
pub(super) fn delta_rows(
    snapshot: &Snapshot,
    t: &Table,
    cell: &Cell,
) -> Result<BTreeMap<RowId, Image>, EngineError> {
    let mut rows = BTreeMap::new();
    let Some(tree) = snapshot.rows_tree(t) else { return Ok(rows) };
    let (low, high) = (delta_key(cell.from), cell.end.map(delta_key));
    let after = [low[0] + 1];
    let end = Bound::Excluded(high.as_ref().map_or(&after[..], |h| &h[..]));
    let mut cursor = snapshot.range(&tree, Bound::Included(&low), end)?;
    while let Some((key, image)) = cursor.next()? {
        if let Some(id) = id_of_key(key) {
            rows.insert(id, Image::from(&image[..]));
        }
    }
    Ok(rows)
}

impl Rewrite<'_> {
    /// A page to write: one whose rows were taken, or a new one.
    fn next_reusable(&mut self, io: &mut Io<'_>) -> Result<Lpid, EngineError> {
        match self.reusable.pop_front() {
            Some(lpid) => Ok(lpid),
            None => self.next_lpid(io),
        }
    }
}
