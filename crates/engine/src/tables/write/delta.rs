//! Changes of tables with a delta: rows by id, with what they were and what they are.
//!
//! ```text
//!   insert ─► new ids ─────────────────────────────┐
//!   update, delete ─► ids of the addresses ─► rows ┴─► OwnRows: before, after
//! ```
//!
//! Rows of pages that the same transaction loaded have no ids yet. Their changes are edits of these pages. So are changes of many rows
//! of the main: an edit takes little memory a row, and its page is folded at the commit.

use std::collections::BTreeMap;

use lode_base::Lpid;
use lode_page::{Column, Value, ops, row};

use super::WriteTxn;
use super::change::{INSERT_BYTES_MAX, TableChange};
use super::stream::Io;
use super::touched::foreign_columns;
use super::unchecked::sets_key;
use crate::EngineError;
use crate::tables::delta::{Image, RowChange, RowId, delta_key, is_delta};
use crate::tables::key::chosen;
use crate::tables::overlay::{id_at, values_of_image};
use crate::tables::own;
use crate::tables::read;
use crate::tables::table::{RowAddress, Table};

/// Key columns of rows, and which of the rows have another key now.
pub(super) type FreedKeys = (Vec<Column>, Vec<bool>);

impl TableChange {
    /// Inserts rows. Very many rows become a load.
    pub(super) fn insert_rows(
        &mut self,
        io: &mut Io<'_>,
        t: &Table,
        columns: Vec<Column>,
    ) -> Result<(), EngineError> {
        let row_bytes_max = io.store.identity().page_bytes_max as usize / 2;
        let rows = columns[0].rows();
        let bytes: usize = columns.iter().map(Column::unpacked_bytes).sum();
        if bytes > INSERT_BYTES_MAX || self.load.is_some() {
            return self.load(io, t, columns);
        }
        for row in 0..rows.min(if bytes > row_bytes_max { rows } else { 0 }) {
            let row_bytes: usize = columns.iter().map(|c| ops::slice(c, row, 1).unpacked_bytes()).sum();
            if row_bytes > row_bytes_max {
                let (table, limit_bytes) = (t.name().into(), row_bytes_max);
                return Err(EngineError::RowTooLong { table, row_bytes, limit_bytes });
            }
        }
        self.add_inserted(t, &columns);
        if self.rows_bytes > INSERT_BYTES_MAX {
            self.load_inserted(io, t)?;
        }
        Ok(())
    }

    /// Whether there are pages, or rows for pages, of a load.
    pub(super) fn is_load(&self) -> bool {
        self.load.is_some() || !self.stream.is_empty()
    }

    pub(super) fn add_inserted(&mut self, t: &Table, columns: &[Column]) {
        let delta = t.delta().expect("the table has a delta");
        let images = row::encode_all(t.schema(), columns);
        let first = delta.take_ids(images.len() as u64).raw();
        let row = |(n, image): (u64, Vec<u8>)| {
            (RowId::new(first + n), RowChange { before: None, after: Some(image.into()), deleted: None })
        };
        self.put_rows((0..).zip(images).map(row).collect());
    }

    /// Makes the rows that the transaction inserted a load.
    fn load_inserted(&mut self, io: &mut Io<'_>, t: &Table) -> Result<(), EngineError> {
        let rows = std::mem::take(&mut self.rows);
        self.rows_bytes = 0;
        let (mut inserted, mut others) = (Vec::new(), BTreeMap::new());
        for (id, change) in rows.merged() {
            match change {
                RowChange { before: None, after: Some(image), .. } => inserted.push(image.clone()),
                RowChange { before: None, after: None, .. } => {}
                change => drop(others.insert(id, change.clone())),
            }
        }
        self.put_rows(others);
        if inserted.is_empty() {
            return Ok(());
        }
        let columns = row::decode_all(t.schema(), inserted.iter().map(|i| &i[..]))?;
        self.load(io, t, columns)
    }

    fn put_rows(&mut self, layer: BTreeMap<RowId, RowChange>) {
        self.rows_bytes += layer.values().map(RowChange::bytes).sum::<usize>();
        self.rows.push(layer);
    }

    /// The key columns of all rows of the delta that the transaction inserted or updated; `None` if their keys cannot break a
    /// constraint, since no key is new.
    pub(super) fn rows_now(&self, t: &Table, key: &[u16]) -> Result<Option<Vec<Column>>, EngineError> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let loads = self.load.is_some() || !self.stream.is_empty();
        let rows = self.rows.merged();
        let mut has_new = loads || self.edits.values().any(|e| !e.rekeyed(key).is_empty());
        for change in rows.values().filter(|c| c.after.is_some()) {
            has_new = has_new || is_new(t, change, key)?;
        }
        if !has_new {
            return Ok(None);
        }
        of_images(t, key, rows.values().filter_map(|c| c.after.as_ref())).map(Some)
    }

    /// The key columns of rows of the delta whose key the transaction made.
    pub(super) fn rows_with_new(&self, t: &Table, key: &[u16]) -> Result<Option<Vec<Column>>, EngineError> {
        self.rows_whose_key(t, key, true)
    }

    /// The key columns of rows of the delta that the transaction changed, and whose key it left alone.
    pub(super) fn rows_with_old(&self, t: &Table, key: &[u16]) -> Result<Option<Vec<Column>>, EngineError> {
        self.rows_whose_key(t, key, false)
    }

    /// The key columns of rows of the delta that the transaction changed and did not delete, and whose key is new or is not.
    fn rows_whose_key(&self, t: &Table, key: &[u16], new: bool) -> Result<Option<Vec<Column>>, EngineError> {
        let mut images = Vec::new();
        for change in self.rows.merged().into_values() {
            if let Some(after) = &change.after
                && is_new(t, change, key)? == new
            {
                images.push(after);
            }
        }
        if images.is_empty() { Ok(None) } else { of_images(t, key, images).map(Some) }
    }

    /// The key columns of rows of the delta that are gone or have another key now, and which of them got another key, before or now.
    pub(super) fn rows_freed(&self, t: &Table, key: &[u16]) -> Result<Option<FreedKeys>, EngineError> {
        let (mut images, mut moved) = (Vec::new(), Vec::new());
        for change in self.rows.merged().into_values() {
            if let Some(before) = &change.before
                && (change.after.is_none() || is_new(t, change, key)?)
            {
                images.push(before);
                let was_moved = match &change.deleted {
                    Some(last) => values_of_image(t, before, key)? != values_of_image(t, last, key)?,
                    None => false,
                };
                moved.push(change.after.is_some() || was_moved);
            }
        }
        if images.is_empty() { Ok(None) } else { Ok(Some((of_images(t, key, images)?, moved))) }
    }
}

/// Whether a change gives its row values in these columns that it did not have.
pub(super) fn is_new(t: &Table, change: &RowChange, key: &[u16]) -> Result<bool, EngineError> {
    let Some(before) = &change.before else { return Ok(true) };
    let Some(after) = &change.after else { return Ok(false) };
    Ok(values_of_image(t, before, key)? != values_of_image(t, after, key)?)
}

fn of_images<'a>(
    t: &Table,
    columns: &[u16],
    images: impl IntoIterator<Item = &'a Image>,
) -> Result<Vec<Column>, EngineError> {
    let all = row::decode_all(t.schema(), images.into_iter().map(|i| &i[..]))?;
    Ok(chosen(&all, columns))
}

impl WriteTxn {
    /// Deletes rows of a table with a delta; answers how many the transaction had not deleted before.
    pub(super) fn delete_rows(&mut self, t: &Table, rows: &[RowAddress]) -> Result<u64, EngineError> {
        let (of_delta, loaded) = self.divided(t, rows)?;
        let ids = of_delta.iter().map(|&i| self.id_of(t, rows[i])).collect::<Result<Vec<_>, _>>()?;
        let found = self.rows_found(t, &ids)?;
        let referenced = self.referenced_columns(t);
        let (mut layer, mut gone) = (BTreeMap::new(), Vec::new());
        for (id, change) in ids.into_iter().zip(found) {
            if change.after.is_some() {
                gone.extend(change.after.clone().filter(|_| !referenced.is_empty()));
                let deleted = change.after.filter(|a| change.before.as_ref() != Some(a));
                layer.insert(id, RowChange { before: change.before, after: None, deleted });
            }
        }
        let deleted = layer.len() as u64;
        let change = self.changes.entry(t.id()).or_default();
        change.put_rows(layer);
        if !gone.is_empty() {
            change.touched.note_gone(&referenced, of_images(t, &referenced, &gone)?);
        }
        let loaded: Vec<RowAddress> = loaded.into_iter().map(|i| rows[i]).collect();
        self.note_rows_of_pages(t, &loaded, None)?;
        self.current = None;
        let change = self.changes.entry(t.id()).or_default();
        Ok(deleted + own::delete(&mut change.edits, t, &loaded))
    }

    /// Sets columns of rows of a table with a delta.
    pub(super) fn update_rows(
        &mut self,
        t: &Table,
        rows: &[RowAddress],
        columns: &[u16],
        values: &[Column],
    ) -> Result<(), EngineError> {
        let (mut of_delta, loaded) = self.divided(t, rows)?;
        let mut ids = of_delta.iter().map(|&i| self.id_of(t, rows[i])).collect::<Result<Vec<_>, _>>()?;
        let mut found = self.rows_found(t, &ids)?;
        if found.iter().any(|c| c.after.is_none()) {
            // A row that the transaction deleted stays deleted.
            let own = self.changes.get(&t.id()).map(|c| &c.rows);
            let is_gone = |i: usize| found[i].after.is_none();
            let was_deleted_here = |i: usize| own.is_some_and(|o| o.get(ids[i]).is_some());
            if let Some(missing) = (0..ids.len()).find(|&i| is_gone(i) && !was_deleted_here(i)) {
                let (table, address) = (t.name().into(), rows[of_delta[missing]].raw());
                return Err(EngineError::NoSuchRow { table, address });
            }
            let kept: Vec<usize> = (0..ids.len()).filter(|&i| !is_gone(i)).collect();
            of_delta = kept.iter().map(|&i| of_delta[i]).collect();
            ids = kept.iter().map(|&i| ids[i]).collect();
            found = kept.into_iter().map(|i| found[i].clone()).collect();
        }
        let taken = |numbers: &[usize]| -> Vec<Column> {
            let numbers: Vec<u32> = numbers.iter().map(|&i| i as u32).collect();
            values.iter().map(|v| ops::take(v, &numbers)).collect()
        };
        if !ids.is_empty() {
            let images = found.iter().map(|c| c.after.as_deref().expect("none of them is gone"));
            let mut all = row::decode_all(t.schema(), images)?;
            let referenced = self.referenced_columns(t);
            let frees = columns.iter().any(|c| referenced.contains(c));
            let gone = if frees { chosen(&all, &referenced) } else { Vec::new() };
            for (&c, v) in columns.iter().zip(taken(&of_delta)) {
                all[usize::from(c)] = v;
            }
            let after = row::encode_all(t.schema(), &all);
            let layer = ids.into_iter().zip(found).zip(after).map(|((id, change), after)| {
                (id, RowChange { before: change.before, after: Some(after.into()), deleted: None })
            });
            let change = self.changes.entry(t.id()).or_default();
            if sets_key(t, columns) {
                change.unchecked.note_rows(t, &all);
            }
            change.touched.note_gone(&referenced, gone);
            if foreign_columns(t).iter().any(|c| columns.contains(c)) {
                change.touched.note_new(t, &all);
            }
            change.put_rows(layer.collect());
        }
        if !loaded.is_empty() {
            let addresses: Vec<RowAddress> = loaded.iter().map(|&i| rows[i]).collect();
            self.note_rows_of_pages(t, &addresses, Some((columns, &taken(&loaded))))?;
            self.current = None;
            let change = self.changes.entry(t.id()).or_default();
            change.unchecked.note_edits(t, &addresses, columns);
            own::update(&mut change.edits, &self.values, t, &addresses, columns, &taken(&loaded));
        }
        Ok(())
    }

    /// The numbers of rows whose changes are kept by id, and of rows whose changes are edits of their pages: rows that the transaction
    /// loaded, and rows of the main if they are many, if the transaction holds much by id, or if their page has an edit. A row that
    /// the transaction changed by id before stays by id.
    fn divided(&self, t: &Table, rows: &[RowAddress]) -> Result<(Vec<usize>, Vec<usize>), EngineError> {
        let Some(change) = self.changes.get(&t.id()) else {
            let many = rows.len() > self.limits.rows_by_id_max;
            let by_page = |&i: &usize| many && t.page_of(rows[i]).is_some_and(|l| !is_delta(l.extent()));
            let (by_page, by_id) = (0..rows.len()).partition(by_page);
            return Ok((by_id, by_page));
        };
        let many = rows.len() > self.limits.rows_by_id_max || change.rows_bytes > self.limits.change_bytes;
        let directory = self.snapshot.directory(t)?;
        let has_own = |lpid: Lpid, slot: u32| {
            !change.rows.is_empty()
                && id_at(&directory, lpid, slot).is_some_and(|id| change.rows.get(id).is_some())
        };
        let is_by_page = |&i: &usize| {
            t.page_of(rows[i]).is_some_and(|lpid| {
                let is_edited = change.stream.holds(lpid) || change.edits.contains_key(&lpid);
                (is_edited || many && !is_delta(lpid.extent())) && !has_own(lpid, rows[i].slot())
            })
        };
        let (by_page, by_id) = (0..rows.len()).partition(is_by_page);
        Ok((by_id, by_page))
    }

    fn id_of(&self, t: &Table, row: RowAddress) -> Result<RowId, EngineError> {
        let missing = || EngineError::NoSuchRow { table: t.name().into(), address: row.raw() };
        let lpid = t.page_of(row).ok_or_else(missing)?;
        id_at(&*self.snapshot.directory(t)?, lpid, row.slot()).ok_or_else(missing)
    }

    /// What the transaction has of rows: what they were at its begin, and what they are now.
    fn rows_found(&self, t: &Table, ids: &[RowId]) -> Result<Vec<RowChange>, EngineError> {
        let own = self.changes.get(&t.id()).map(|c| &c.rows);
        let (tree, directory) = (self.snapshot.rows_tree(t), self.snapshot.directory(t)?);
        let mut found: Vec<RowChange> = Vec::with_capacity(ids.len());
        let mut in_pages: Vec<(Lpid, u32, usize)> = Vec::new();
        for (i, &id) in ids.iter().enumerate() {
            if let Some(change) = own.and_then(|o| o.get(id)) {
                found.push(change.clone());
                continue;
            }
            let image = match &tree {
                Some(tree) => self.snapshot.get_with(tree, &delta_key(id), |image| Image::from(image))?,
                None => None,
            };
            let image = match image {
                Some(image) => Some(image).filter(|i| !i.is_empty()),
                None => {
                    in_pages.extend(directory.place(id).map(|(lpid, slot)| (lpid, slot, i)));
                    None
                }
            };
            found.push(RowChange { before: image.clone(), after: image, deleted: None });
        }
        in_pages.sort_unstable();
        let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
        for page in in_pages.chunk_by(|a, b| a.0 == b.0) {
            let columns = read::columns_of(&self.snapshot, t, page[0].0, &all)?.columns;
            let images: Vec<Vec<u8>> = match page {
                [(_, slot, _)] => {
                    let values: Vec<Value> = columns.iter().map(|c| c.value(*slot as usize)).collect();
                    vec![row::encode(t.schema(), &values)]
                }
                many => {
                    let slots: Vec<u32> = many.iter().map(|p| p.1).collect();
                    row::encode_all(
                        t.schema(),
                        &columns.iter().map(|c| ops::take(c, &slots)).collect::<Vec<_>>(),
                    )
                }
            };
            for ((_, _, i), image) in page.iter().zip(images) {
                let image: Image = image.into();
                found[*i] = RowChange { before: Some(image.clone()), after: Some(image), deleted: None };
            }
        }
        Ok(found)
    }
}
