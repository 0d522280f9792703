//! Changes to rows that are in pages: kept by page until the commit, which applies them.
//!
//! Slots are those of the transaction's snapshot throughout, so that several statements of one transaction can name
//! rows by what they read.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Lpid;
use lode_page::{Column, ops};

use crate::{EngineError, RowAddress, Set, Table};

/// What happens to one page.
#[derive(Clone, Debug, Default)]
pub(super) struct PageEdit {
    deleted: Set<u32>,
    updates: Vec<Update>,
}

/// New values of some columns of some rows.
#[derive(Clone, Debug)]
struct Update {
    columns: Arc<[u16]>,
    slots: Vec<u32>,
    values: Vec<Column>,
}

pub(super) type Edits = BTreeMap<Lpid, PageEdit>;

/// Marks rows deleted; answers how many were not before.
pub(super) fn delete(edits: &mut Edits, t: &Table, rows: &[RowAddress]) -> Result<u64, EngineError> {
    check_addresses(t, rows)?;
    let mut deleted = 0;
    for &address in rows {
        let lpid = t.page_of(address).expect("addresses were checked");
        deleted += u64::from(edits.entry(lpid).or_default().deleted.insert(address.slot()));
    }
    Ok(deleted)
}

/// Notes new values for rows.
pub(super) fn update(
    edits: &mut Edits,
    t: &Table,
    rows: &[RowAddress],
    columns: &[u16],
    values: &[Column],
) -> Result<(), EngineError> {
    check_addresses(t, rows)?;
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    // Stable, so that of two updates of one row the later one still comes later.
    order.sort_by_key(|&i| rows[i as usize].raw() >> 32);
    let columns: Arc<[u16]> = columns.into();
    for group in order.chunk_by(|&a, &b| rows[a as usize].raw() >> 32 == rows[b as usize].raw() >> 32) {
        let lpid = t.page_of(rows[group[0] as usize]).expect("addresses were checked");
        let slots = group.iter().map(|&i| rows[i as usize].slot()).collect();
        let values = values.iter().map(|v| ops::take(v, group)).collect();
        let edit = edits.entry(lpid).or_default();
        edit.updates.push(Update { columns: columns.clone(), slots, values });
    }
    Ok(())
}

fn check_addresses(t: &Table, rows: &[RowAddress]) -> Result<(), EngineError> {
    match rows.iter().find(|&&a| t.page_of(a).is_none()) {
        Some(a) => Err(no_such_row(t, *a)),
        None => Ok(()),
    }
}

fn no_such_row(t: &Table, a: RowAddress) -> EngineError {
    EngineError::NoSuchRow { table: t.name().into(), address: a.raw() }
}

impl PageEdit {
    /// Checks that every slot is a row of the page.
    pub(super) fn check_slots(&self, t: &Table, lpid: Lpid, rows: usize) -> Result<(), EngineError> {
        let updated = self.updates.iter().flat_map(|u| &u.slots);
        match self.deleted.iter().chain(updated).find(|&&s| s as usize >= rows) {
            Some(&slot) => Err(no_such_row(t, t.row_address(lpid, slot))),
            None => Ok(()),
        }
    }

    /// The page's columns `numbers` after the change.
    pub(super) fn apply(&self, numbers: &[u16], columns: Vec<Column>) -> Vec<Column> {
        let rows = columns[0].rows();
        let kept: Option<Vec<u32>> = (!self.deleted.is_empty())
            .then(|| (0..rows as u32).filter(|slot| !self.deleted.contains(slot)).collect());
        let changed = numbers.iter().zip(columns).map(|(&n, column)| {
            let column = self.updated(n, column);
            match &kept {
                Some(kept) => ops::take(&column, kept),
                None => column,
            }
        });
        changed.collect()
    }

    fn updated(&self, number: u16, mut column: Column) -> Column {
        for u in &self.updates {
            if let Some(at) = u.columns.iter().position(|&c| c == number) {
                column = ops::scatter(&column, &u.slots, &u.values[at]);
            }
        }
        column
    }

    /// Rows whose values in one of these columns were set and that were not deleted.
    pub(super) fn rekeyed(&self, key: &[u16]) -> Vec<u32> {
        let touching = self.updates.iter().filter(|u| u.columns.iter().any(|c| key.contains(c)));
        let mut slots: Vec<u32> = touching.flat_map(|u| u.slots.iter().copied()).collect();
        slots.sort_unstable();
        slots.dedup();
        slots.retain(|s| !self.deleted.contains(s));
        slots
    }

    /// The new keys of the rows of [`PageEdit::rekeyed`], given the page's key columns.
    pub(super) fn new_keys(&self, key: &[u16], columns: Vec<Column>) -> Vec<Column> {
        let slots = self.rekeyed(key);
        key.iter().zip(columns).map(|(&c, column)| ops::take(&self.updated(c, column), &slots)).collect()
    }

    /// Rows whose old keys are free: deleted, or with a new key.
    pub(super) fn freed(&self, key: &[u16]) -> Set<u32> {
        self.deleted.iter().copied().chain(self.rekeyed(key)).collect()
    }
}
