//! Rows by key.
//!
//! ```text
//!   key ─┬─ entries of the tree ─► row ids ─────────────────┐
//!        └─ pages whose bounds hold it ─► slots ─► row ids ─┴─► those whose row has the key at the snapshot
//! ```
//!
//! A load whose leading key column never falls has no entries: the bounds of its pages lead to its keys.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use lode_page::{Column, DataType, Value};

use crate::EngineError;
use crate::storage::columns::columns;
use crate::tables::definition::IndexDef;
use crate::tables::delta::{ENTRY_KEY_BYTES_MAX, RowId, Sorted, Span, id_of_key, key_prefix};
use crate::tables::key::{key_of_values, prefix_end};
use crate::tables::table::Table;
use crate::trees::{Snapshot, Tree};

impl Table {
    /// The bytes of a row's key in entries of the table's tree; `None` if the key has a NULL.
    pub(in crate::tables) fn key_bytes(&self, key: &[u16], values: &[Value]) -> Option<Vec<u8>> {
        let types = key.iter().map(|&c| self.schema().columns[usize::from(c)].data_type);
        let mut bytes = key_of_values(types, values)?;
        bytes.truncate(ENTRY_KEY_BYTES_MAX);
        Some(bytes)
    }

    /// The unique index that is the `n`-th key of the table; `None` if the definition has the key, whose entries are in the table's
    /// tree.
    pub(in crate::tables) fn unique_index(&self, n: usize) -> Option<&IndexDef> {
        let n = n.checked_sub(self.def().keys().count())?;
        self.indexes().iter().filter(|i| i.kind.is_unique()).nth(n)
    }
}

impl Snapshot {
    /// The rows of a table with these values, none of them NULL, in the columns of its `n`-th key. What the reading transaction changed
    /// is left out.
    pub(in crate::tables) fn rows_of_key(
        &self,
        t: &Table,
        n: usize,
        key: &[u16],
        values: &[Value],
    ) -> Result<Vec<RowId>, EngineError> {
        let Some(tree) = self.rows_tree(t) else { return Ok(Vec::new()) };
        let Some(bytes) = t.key_bytes(key, values) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        match t.unique_index(n) {
            Some(unique) => {
                if let Some(tree) = self.tree(&t.index_tree(unique)) {
                    self.entries(&tree, bytes.clone(), &mut found)?;
                }
            }
            None => self.entries(&tree, key_prefix(n, &bytes), &mut found)?,
        }
        if n == 0 && t.def().primary_key == key {
            self.rows_in_pages(t, key, values, &bytes, &mut found)?;
        }
        found.sort_unstable();
        found.dedup();
        let mut rows = Vec::with_capacity(1);
        for id in found {
            if self.values_of_row(t, id, key)?.is_some_and(|now| same(&now, values)) {
                rows.push(id);
            }
        }
        Ok(rows)
    }

    fn entries(&self, tree: &Tree, prefix: Vec<u8>, found: &mut Vec<RowId>) -> Result<(), EngineError> {
        let end = prefix_end(&prefix);
        let mut cursor = self.range(tree, Bound::Included(&prefix), end.as_ref().map(|e| &e[..]))?;
        while let Some((entry, _)) = cursor.next()? {
            found.extend(id_of_key(entry));
        }
        Ok(())
    }

    /// Rows of pages whose keys no tree has.
    fn rows_in_pages(
        &self,
        t: &Table,
        key: &[u16],
        values: &[Value],
        bytes: &[u8],
        found: &mut Vec<RowId>,
    ) -> Result<(), EngineError> {
        let directory = self.directory(t)?;
        for (_, span) in directory.pages_of_key(bytes) {
            let of_key = columns(self.view(), self.tables_state(), span.lpid, key)?.columns;
            for slot in slots_of_key(&of_key, values, span) {
                found.extend(directory.id_of(span.lpid, slot as u32));
            }
        }
        Ok(())
    }
}

/// The rows of a page with these values.
fn slots_of_key<'a>(
    columns: &'a [Column],
    values: &'a [Value],
    span: &Span,
) -> impl Iterator<Item = usize> + use<'a> {
    let rows = (span.rows as usize).min(columns[0].rows());
    // The leading columns by which the rows are sorted.
    let sorted = match span.keys.as_ref().map_or(Sorted::No, |k| k.sorted) {
        Sorted::No => 0,
        Sorted::ByLeading => 1,
        Sorted::ByKey => columns.len(),
    };
    // Values compare as their bytes do, except floats.
    let is_float = |c: &Column| matches!(c.data_type(), DataType::Real | DataType::Double);
    let sorted = sorted.min(columns.iter().position(is_float).unwrap_or(columns.len()));
    let compare = move |row: usize, of: Range<usize>| {
        let mut each = of.map(|i| columns[i].value(row).compare(&values[i]));
        each.find(|o| *o != Some(Ordering::Equal)).unwrap_or(Some(Ordering::Equal))
    };
    let is_before = |row| compare(row, 0..sorted) == Some(Ordering::Less);
    // Without an order, every row counts as equal, so this is row 0.
    let first = partition_point(0..rows, is_before);
    (first..rows)
        .take_while(move |&row| compare(row, 0..sorted) == Some(Ordering::Equal))
        .filter(move |&row| compare(row, sorted..columns.len()) == Some(Ordering::Equal))
}

/// The first row that is not before something.
pub(super) fn partition_point(mut rows: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    while !rows.is_empty() {
        let middle = rows.start + (rows.end - rows.start) / 2;
        match is_before(middle) {
            true => rows.start = middle + 1,
            false => rows.end = middle,
        }
    }
    rows.start
}

fn same(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.compare(b) == Some(Ordering::Equal))
}
