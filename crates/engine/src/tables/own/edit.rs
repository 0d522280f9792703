//! Edits: changes to rows that are in pages. They are kept by page until the commit, which applies them.
//!
//! A slot always means the page as it was at the transaction's begin, or as the transaction made it. So several statements of one
//! transaction can name rows by what they read.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Lpid;
use lode_page::{Column, ops};

use super::slots::SlotSet;
use super::values::{NewValues, ValueStore};
use crate::tables::table::{RowAddress, Table};
use crate::{EngineError, Map};

/// What happens to one page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageEdit {
    pub(crate) deleted: SlotSet,
    pub(crate) updates: Vec<Update>,
    /// Bytes of the page, if all of its rows are deleted and it was not read.
    pub(crate) unread_bytes: Option<u32>,
}

/// New values of some columns of some rows.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) columns: Arc<[u16]>,
    /// The rows.
    pub(crate) slots: SlotSet,
    /// Their values, by ascending slots.
    pub(crate) values: NewValues,
}

/// Edits by page. What a transaction's reads see shares them.
pub(crate) type Edits = BTreeMap<Lpid, Arc<PageEdit>>;

/// Marks rows deleted; answers how many were not before.
pub(crate) fn delete(edits: &mut Edits, t: &Table, rows: &[RowAddress]) -> u64 {
    let mut deleted = 0;
    for &address in rows {
        let lpid = t.page_of(address).expect("addresses were checked");
        let edit = Arc::make_mut(edits.entry(lpid).or_default());
        deleted += u64::from(edit.deleted.insert(address.slot()));
    }
    deleted
}

/// Notes new values for rows.
pub(crate) fn update(
    edits: &mut Edits,
    store: &Arc<ValueStore>,
    t: &Table,
    rows: &[RowAddress],
    columns: &[u16],
    values: &[Column],
) {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    // A stable sort, so that of two new values of one row the later one still comes later.
    order.sort_by_key(|&i| rows[i as usize].raw());
    let columns: Arc<[u16]> = columns.into();
    for group in order.chunk_by(|&a, &b| rows[a as usize].raw() >> 32 == rows[b as usize].raw() >> 32) {
        let lpid = t.page_of(rows[group[0] as usize]).expect("addresses were checked");
        let last_of_row =
            group.chunk_by(|&a, &b| rows[a as usize] == rows[b as usize]).map(|of| of[of.len() - 1]);
        let last_of_row: Vec<u32> = last_of_row.collect();
        let slots = last_of_row.iter().map(|&i| rows[i as usize].slot()).collect();
        let values = store.keep(values.iter().map(|v| ops::take(v, &last_of_row)).collect());
        let edit = Arc::make_mut(edits.entry(lpid).or_default());
        edit.updates.push(Update { columns: columns.clone(), slots, values });
    }
}

/// Checks that every address is of a row; `rows_of` says how many rows a page has.
pub(crate) fn check_addresses(
    t: &Table,
    rows: &[RowAddress],
    mut rows_of: impl FnMut(Lpid) -> Result<usize, EngineError>,
) -> Result<(), EngineError> {
    let mut last: Option<(Lpid, usize)> = None;
    for &address in rows {
        let lpid = t.page_of(address).ok_or_else(|| no_such_row(t, address))?;
        let count = match last {
            Some((page, count)) if page == lpid => count,
            _ => rows_of(lpid)?,
        };
        if address.slot() as usize >= count {
            return Err(no_such_row(t, address));
        }
        last = Some((lpid, count));
    }
    Ok(())
}

fn no_such_row(t: &Table, a: RowAddress) -> EngineError {
    EngineError::NoSuchRow { table: t.name().into(), address: a.raw() }
}

/// The slots of pages whose old keys are free, found once for each page.
pub(crate) struct FreedSlots<'a> {
    edits: &'a Edits,
    key: &'a [u16],
    known: Map<Lpid, SlotSet>,
}

impl<'a> FreedSlots<'a> {
    pub(crate) fn new(edits: &'a Edits, key: &'a [u16]) -> Self {
        Self { edits, key, known: Map::default() }
    }

    /// Whether the old key of a row is free: the row is deleted, or has a new key.
    pub(crate) fn contains(&mut self, lpid: Lpid, slot: u32) -> bool {
        let Some(edit) = self.edits.get(&lpid) else { return false };
        self.known.entry(lpid).or_insert_with(|| edit.freed(self.key)).contains(slot)
    }
}

impl PageEdit {
    /// All `rows` rows of a page of so many bytes are deleted.
    pub(crate) fn whole(rows: u32, page_bytes: u32) -> Self {
        Self { deleted: SlotSet::first(rows), updates: Vec::new(), unread_bytes: Some(page_bytes) }
    }

    /// Those of the page's `rows` rows that are not deleted; `None` if none is deleted.
    pub(crate) fn kept(&self, rows: usize) -> Option<Vec<u32>> {
        let kept = || (0..rows as u32).filter(|slot| !self.deleted.contains(*slot)).collect();
        (!self.deleted.is_empty()).then(kept)
    }

    /// Rows that are deleted.
    pub(crate) fn deleted_rows(&self) -> u64 {
        self.deleted.len() as u64
    }

    /// Every slot that is deleted or updated.
    pub(crate) fn touched(&self) -> Vec<u32> {
        let updated = self.updates.iter().flat_map(|u| u.slots.iter());
        let mut slots: Vec<u32> = self.deleted.iter().chain(updated).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The page's columns `numbers` after the change.
    pub(crate) fn apply(&self, numbers: &[u16], columns: Vec<Column>) -> Result<Vec<Column>, EngineError> {
        let Some(rows) = columns.first().map(Column::rows) else { return Ok(columns) };
        let kept = self.kept(rows);
        let changed = numbers.iter().zip(columns).map(|(&n, column)| {
            let column = self.updated(n, column)?;
            Ok(match &kept {
                Some(kept) => ops::take(&column, kept),
                None => column,
            })
        });
        changed.collect()
    }

    /// A column of the page with its new values. Deleted rows are there.
    pub(crate) fn updated(&self, number: u16, mut column: Column) -> Result<Column, EngineError> {
        for u in &self.updates {
            if let Some(at) = u.columns.iter().position(|&c| c == number) {
                column = ops::scatter(&column, &u.slots.to_vec(), &u.values.column(at)?);
            }
        }
        Ok(column)
    }

    /// Rows whose values in one of these columns were set and that were not deleted.
    pub(crate) fn rekeyed(&self, key: &[u16]) -> Vec<u32> {
        let mut slots: Vec<u32> = self.rekeyed_ever(key).collect();
        slots.sort_unstable();
        slots.dedup();
        slots.retain(|s| !self.deleted.contains(*s));
        slots
    }

    /// Rows whose values in one of these columns were set. Rows may appear more than once, and may be deleted.
    pub(crate) fn rekeyed_ever(&self, key: &[u16]) -> impl Iterator<Item = u32> {
        let touching = self.updates.iter().filter(|u| u.columns.iter().any(|c| key.contains(c)));
        touching.flat_map(|u| u.slots.iter())
    }

    /// The new keys of the rows of [`PageEdit::rekeyed`], given the page's key columns.
    pub(crate) fn new_keys(&self, key: &[u16], columns: Vec<Column>) -> Result<Vec<Column>, EngineError> {
        let slots = self.rekeyed(key);
        let keys = key.iter().zip(columns);
        keys.map(|(&c, column)| Ok(ops::take(&self.updated(c, column)?, &slots))).collect()
    }

    /// Rows whose old keys are free: deleted, or with a new key.
    pub(crate) fn freed(&self, key: &[u16]) -> SlotSet {
        let mut freed = self.deleted.clone();
        freed.extend(self.rekeyed(key));
        freed
    }
}
