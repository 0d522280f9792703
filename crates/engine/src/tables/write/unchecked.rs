//! What put keys into a table since the last end of a statement.

use std::collections::BTreeMap;

use lode_base::Lpid;
use lode_page::Column;

use crate::tables::own::SlotSet;
use crate::tables::planted::{self, Planted};
use crate::tables::table::{RowAddress, Table};

/// More new keys than this, of rows without ids, are not looked for one by one.
const KEYS_MAX: usize = 1 << 10;

/// What put keys into a table since the last end of a statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Unchecked {
    /// The key columns of inserted and updated rows, by [`key_columns`].
    pub(super) parts: Vec<Vec<Column>>,
    pub(super) rows: usize,
    /// Rows of pages whose edits set key columns.
    pub(super) edited: BTreeMap<Lpid, SlotSet>,
    /// Whether there are more that are not noted.
    pub(super) many: bool,
}

/// The columns of all keys of a table.
pub(super) fn key_columns(t: &Table) -> Vec<u16> {
    let mut columns: Vec<u16> = t.keys().flat_map(|(_, key)| key).copied().collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

impl Unchecked {
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0 && !self.many
    }

    /// Notes new rows, given as all columns of the table.
    pub(super) fn note_rows(&mut self, t: &Table, columns: &[Column]) {
        let of_keys = key_columns(t);
        if of_keys.is_empty() || self.many {
            return;
        }
        if !t.has_delta() && !self.edited.is_empty() {
            // Rows that are held may get other places.
            return self.note_many();
        }
        self.rows += columns[0].rows();
        self.parts.push(of_keys.into_iter().map(|c| columns[usize::from(c)].clone()).collect());
    }

    /// Notes that edits set these columns of rows of pages.
    pub(super) fn note_edits(&mut self, t: &Table, rows: &[RowAddress], columns: &[u16]) {
        if self.many || !sets_key(t, columns) || planted::is(Planted::EditedNotNoted) {
            return;
        }
        self.rows += rows.len();
        if self.rows > KEYS_MAX {
            return self.note_many();
        }
        for &row in rows {
            let lpid = t.page_of(row).expect("addresses were checked");
            self.edited.entry(lpid).or_default().insert(row.slot());
        }
    }

    /// Notes that rows are or become pages. Keys of many such rows are not kept.
    pub(super) fn note_load(&mut self) {
        if self.rows > KEYS_MAX {
            self.note_many();
        }
    }

    /// Notes that what is noted does not say all.
    pub(super) fn note_many(&mut self) {
        *self = Self { many: true, ..Self::default() };
    }
}

/// Whether one of these columns is of a key.
pub(super) fn sets_key(t: &Table, columns: &[u16]) -> bool {
    t.keys().any(|(_, key)| columns.iter().any(|c| key.contains(c)))
}
