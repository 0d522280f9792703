//! The entries of the rows of a new page: of keys in the table's tree, and of indexes.
//!
//! ```text
//!   page, first id ─┬─ a key that the page's bounds do not lead to ─► key_entry(n, key, id): not of keys with a NULL
//!                   └─ an index ────────────────────────────────────► entry_of_row(values, id)
//! ```
//!
//! The rows of a new page have consecutive ids.

use lode_page::Column;

use crate::tables::definition::{IndexDef, KeyIndex, TableDef};
use crate::tables::delta::{RowId, key_entry};
use crate::tables::index::{entry_of_row, row_keys};
use crate::tables::key::has_null;

/// The keys of which the rows of a page have entries: their numbers and columns. If the page `has_bounds`, they lead to its primary
/// keys. With `key_index = 'page_index'` the page index leads to all of them.
pub(super) fn keys_with_entries(def: &TableDef, has_bounds: bool) -> impl Iterator<Item = (usize, &[u16])> {
    let in_bounds = move |key: &[u16]| has_bounds && *key == def.primary_key;
    let by_page = def.options.key_index == KeyIndex::PageIndex;
    def.keys().map(|(_, key)| key).enumerate().filter(move |(n, key)| !(by_page || *n == 0 && in_bounds(key)))
}

/// The entries of the rows of a page in the `n`-th key of its table. `key`: the key's columns.
pub(super) fn entries_of_key(n: usize, key: &[Column], first: RowId) -> impl Iterator<Item = Vec<u8>> {
    let keys = row_keys(key, &[]).enumerate().filter(|(row, _)| !has_null(key, *row));
    keys.map(move |(row, bytes)| key_entry(n, &bytes, first.plus(row as u64)))
}

/// The entries of the rows of a page in an index. `columns`: the index's columns.
pub(super) fn entries_of_index<'a>(
    index: &'a IndexDef,
    columns: &'a [Column],
    first: RowId,
) -> impl Iterator<Item = Vec<u8>> {
    row_keys(columns, &index.orders)
        .enumerate()
        .map(move |(row, bytes)| entry_of_row(bytes, first.plus(row as u64)))
}
