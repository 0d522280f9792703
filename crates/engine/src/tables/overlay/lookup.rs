//! Rows by key.
//!
//! ```text
//!   key ─┬─ entries of the tree ─► row ids ─────────────────┐
//!        └─ pages whose bounds hold it ─► slots ─► row ids ─┴─► those whose row has the key at the snapshot
//! ```
//!
//! A load whose leading key column never falls has no entries: the bounds of its pages lead to its keys. With
//! `key_index = 'page_index'` no row of a page has entries, and the drive's page index has the bounds.

use std::cmp::Ordering;
use std::ops::{Bound, Range};
use std::sync::Arc;

use lode_command::Answer;
use lode_page::{Column, Schema, Value};
use lode_program::{CompareOp, Expr, Meter, Passed, Program};

use super::id_at;
use crate::EngineError;
use crate::storage::columns::columns;
use crate::tables::definition::IndexDef;
use crate::tables::delta::{ENTRY_KEY_BYTES_MAX, RowId, Sorted, Span, id_of_key, key_prefix};
use crate::tables::key::{key_of_values, ordered_key, prefix_end};
use crate::tables::planted::{self, Planted};
use crate::tables::read::Whole;
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

    /// What the entries of an index begin with whose rows have these values.
    fn index_bytes(&self, index: &IndexDef, values: &[Value]) -> Vec<u8> {
        let types = index.columns.iter().map(|&c| self.schema().columns[usize::from(c)].data_type);
        let mut bytes = ordered_key(types, (0..values.len()).map(|n| index.order(n)), values);
        bytes.truncate(ENTRY_KEY_BYTES_MAX);
        bytes
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
        if !self.has_entries(t, n) {
            return self.rows_by_base_scan(t, key, values);
        }
        let mut found = Vec::new();
        match t.unique_index(n) {
            Some(unique) => {
                if let Some(tree) = self.tree(&t.index_tree(unique)) {
                    self.entries(&tree, t.index_bytes(unique, values), &mut found)?;
                }
            }
            None => self.entries(&tree, key_prefix(t.key_number(n), &bytes), &mut found)?,
        }
        if t.finds_keys_by_page() && t.unique_index(n).is_none() {
            self.rows_by_page_index(t, key, values, &mut found)?;
        } else if n == 0 && t.def().primary_key == key {
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

    /// Whether the rows before the reading transaction's changes have entries in the `n`-th key of a table. Those of a key that the
    /// transaction itself added have none.
    pub(in crate::tables) fn has_entries(&self, t: &Table, n: usize) -> bool {
        match t.unique_index(n) {
            Some(unique) => self.tree(&t.index_tree(unique)).is_some(),
            None => !t.is_new_key(n),
        }
    }

    /// Rows with these values before the reading transaction's changes, by a scan.
    fn rows_by_base_scan(&self, t: &Table, key: &[u16], values: &[Value]) -> Result<Vec<RowId>, EngineError> {
        let base = self.own().map_or(self, |own| own.base());
        let Some(old) = base.tables().find(|b| b.id() == t.id()) else { return Ok(Vec::new()) };
        // All rows have one value in a column that the transaction added.
        let is_old = |c: u16| usize::from(c) < old.schema().columns.len();
        let absent = |c: u16| t.def().columns[usize::from(c)].absent.as_ref().map(|a| a.value().clone());
        let mut added = key.iter().zip(values).filter(|(c, _)| !is_old(**c));
        if !added.all(|(&c, v)| absent(c).is_some_and(|a| a.compare(v) == Some(Ordering::Equal))) {
            return Ok(Vec::new());
        }
        let (key, values): (Vec<u16>, Vec<Value>) =
            key.iter().copied().zip(values.iter().cloned()).filter(|(c, _)| is_old(*c)).unzip();
        let t = old;
        let types = key.iter().map(|&c| t.schema().columns[usize::from(c)].data_type);
        // Equal floats may differ in their bits.
        let terms = key.iter().zip(&values).zip(types).filter(|(_, data_type)| !data_type.is_float());
        let terms = terms.map(|((&c, v), data_type)| {
            Expr::compare(CompareOp::Eq, Expr::Column(c), Expr::Const(v.clone(), data_type))
        });
        let filter = Some(Expr::And(terms.collect::<Vec<_>>())).filter(|f| *f != Expr::And(Vec::new()));
        let program = Program::check(t.schema().clone(), filter, key, true)?;
        let directory = base.directory(t)?;
        let mut rows = Vec::new();
        let mut scan = base.scan(t, t.all_ranges(), Arc::new(program), Answer::Rows, None)?;
        while let Some(unit) = scan.next()? {
            for page in &unit.pages {
                for row in 0..page.rows as usize {
                    let now: Vec<Value> = page.columns.iter().map(|c| c.value(row)).collect();
                    let slot = page.slots.as_ref().map_or(row as u32, |s| s[row]);
                    if same(&now, &values) {
                        rows.extend(id_at(&directory, page.lpid, slot));
                    }
                }
            }
        }
        rows.sort_unstable();
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

    /// Rows of pages whose bounds in the page index hold the key.
    fn rows_by_page_index(
        &self,
        t: &Table,
        key: &[u16],
        values: &[Value],
        found: &mut Vec<RowId>,
    ) -> Result<(), EngineError> {
        let directory = self.directory(t)?;
        let pages = match self.main_pages_of_key(t, key, values)? {
            Some(pages) => pages,
            None => directory.spans().values().map(|span| span.lpid).collect(),
        };
        let types = key.iter().map(|&c| t.schema().columns[usize::from(c)]);
        let schema = Schema { version: t.schema().version, columns: types.collect(), absent: Vec::new() };
        // Equal floats may differ in their bits.
        let program = match schema.columns.iter().any(|c| c.data_type.is_float()) {
            true => None,
            false => {
                let terms = (0u16..).zip(values).zip(&schema.columns).map(|((i, v), c)| {
                    Expr::compare(CompareOp::Eq, Expr::Column(i), Expr::Const(v.clone(), c.data_type))
                });
                let filter = Some(Expr::And(terms.collect()));
                Some(Program::check(schema.clone(), filter, Vec::new(), true)?)
            }
        };
        for lpid in pages.into_iter().skip(planted::instead(Planted::PageRangeSkipped, || 0, || 1)) {
            let Some(span) = directory.span_of(lpid) else { continue };
            let of_key = columns(self.view(), self.tables_state(), lpid, key)?.columns;
            // The bounds of the directory are of the primary key.
            let sorted = if t.def().primary_key == key { sorted_by(span) } else { Sorted::No };
            let slots: Vec<u32> = match &program {
                Some(program) if sorted == Sorted::No => {
                    let passed = Passed::of(program, &mut Whole(&of_key), &mut Meter::default())
                        .map_err(|e| EngineError::invalid(t.name(), e.to_string()))?;
                    passed.selection().slots(of_key[0].rows())
                }
                _ => slots_of_key(&of_key, values, span.rows, sorted).map(|slot| slot as u32).collect(),
            };
            found.extend(slots.into_iter().filter_map(|slot| directory.id_of(lpid, slot)));
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
            for slot in slots_of_key(&of_key, values, span.rows, sorted_by(span)) {
                found.extend(directory.id_of(span.lpid, slot as u32));
            }
        }
        Ok(())
    }
}

/// How the rows of a page are sorted by the primary key.
fn sorted_by(span: &Span) -> Sorted {
    span.keys.as_ref().map_or(Sorted::No, |k| k.sorted)
}

/// The rows of a page with these values.
fn slots_of_key<'a>(
    columns: &'a [Column],
    values: &'a [Value],
    rows: u32,
    sorted: Sorted,
) -> impl Iterator<Item = usize> + use<'a> {
    let rows = (rows as usize).min(columns[0].rows());
    // The leading columns by which the rows are sorted.
    let sorted = match sorted {
        Sorted::No => 0,
        Sorted::ByLeading => 1,
        Sorted::ByKey => columns.len(),
    };
    // Values compare as their bytes do, except floats.
    let sorted = sorted.min(columns.iter().position(|c| c.data_type().is_float()).unwrap_or(columns.len()));
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
