//! B+-tree indexes: trees that map values of columns to the pages with these values.
//!
//! ```text
//!   filter ─► ranges of keys ─► tree at the snapshot ─► pages ─► the drive scans them with the same filter
//!
//!   an entry's key:  for each column  1, then the value as `key.rs` writes it, or 2 for NULL  │  page, 8 bytes
//!   of a row:                                                                                 │  slot, 4 bytes  │  page, 8 bytes
//! ```
//!
//! Entries of rows ([`EntryOf::Rows`]) are those that other databases keep. They say the same as entries of pages, and take more room.
//!
//! Invariant: for each row that a snapshot shows, the tree at that snapshot has an entry with the row's values and
//! page. An entry without such a row makes a scan read a page in vain, but never changes a result. So an entry may be
//! added before its row, and removed after its row. A key that is too long for the tree is truncated. This only
//! widens the ranges.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use lode_base::{Lpid, TableId};
use lode_command::PageRange;
use lode_page::{Column, ColumnBuilder, DataType, Value};
use lode_program::{CompareOp, Expr};

use super::bounds::SORTED_PAGES_MAX;
use super::definition::{IndexDef, IndexKind, KeyOrder};
use super::delta::{Directory, RowId, id_of_key};
use super::entries::{EntryOf, PAGE_BYTES};
use super::entry_filter::EntryFilter;
use super::key::{KeyReader, append_ordered, ordered_key, prefix_end};
use super::table::Table;
use crate::access::{AccessPath, TreeUse};
use crate::trees::{Snapshot, Tree};
use crate::{EngineError, HostWork, TreePlace};

/// The prefix of the names of trees of indexes.
const TREE_PREFIX: &str = "__lode_index";
/// The most ranges that one scan looks up.
const RANGES_MAX: usize = 4096;
/// The most entries of a range that are looked at where the table lies in its order: the page index finds pages that lie together in less time.
const ENTRIES_MAX: u64 = 4096;

/// The pages that a B+-tree index finds for a scan.
#[derive(Clone, Debug)]
pub struct IndexedPages {
    /// The name of the index.
    pub index: String,
    /// The pages that may have rows that pass the filter, including the pages that the reading transaction changed.
    pub pages: Vec<PageRange>,
    /// The number of pages.
    pub count: u64,
}

impl Table {
    /// Returns the name of the tree of one of its indexes. A table that was rewritten has trees with its number in their names, beside
    /// which those of the table that it replaces stay for older snapshots. An index that was made within a transaction has a tree with a
    /// number of its own, and a renamed index keeps its tree.
    pub(super) fn index_tree(&self, index: &IndexDef) -> String {
        match self.given_tree(&index.name) {
            Some(given) => given.into(),
            None if self.is_rewritten => numbered_tree(self.id(), &index.name),
            None => format!("{TREE_PREFIX}_{}", index.name),
        }
    }

    /// Returns the names of the trees of its B+-tree indexes.
    pub(super) fn index_trees(&self) -> impl Iterator<Item = String> + '_ {
        self.indexes().iter().filter(|i| i.kind != IndexKind::Page).map(|i| self.index_tree(i))
    }
}

/// Returns the name of a tree of an index, with a number that is never used again.
pub(super) fn numbered_tree(number: TableId, index: &str) -> String {
    format!("{TREE_PREFIX}{}_{index}", number.raw())
}

/// Returns whether a tree belongs to an index. The index may have been dropped.
pub(super) fn is_of_index(tree: &Tree) -> bool {
    tree.name().starts_with(TREE_PREFIX)
}

/// Returns the keys that the rows of a page have in an index, without the page.
pub(super) fn keys(columns: &[Column], index: &IndexDef) -> BTreeSet<Vec<u8>> {
    let rows = RowKeys::new(columns, &index.orders, index.entries);
    rows.keys(0..rows.rows())
}

/// Returns the keys of all rows, in their order. An index without `orders` has the usual ones.
pub(super) fn row_keys<'a>(columns: &'a [Column], orders: &'a [KeyOrder]) -> impl Iterator<Item = Vec<u8>> {
    let rows = RowKeys::new(columns, orders, EntryOf::Pages);
    (0..rows.rows()).map(move |row| {
        let mut key = Vec::new();
        rows.read(row, &mut key);
        key
    })
}

/// Returns the entry of a row of a table with a delta, by its values in the columns of the index.
pub(super) fn row_entry(index: &IndexDef, types: &[DataType], values: &[Value], id: RowId) -> Vec<u8> {
    let orders = (0..values.len()).map(|n| index.order(n));
    let mut key = ordered_key(types.iter().copied(), orders, values);
    key.truncate(EntryOf::Pages.value_bytes_max());
    entry_of_row(key, id)
}

/// Returns the key of an entry: the key of the values, then the id of the row.
pub(super) fn entry_of_row(mut key: Vec<u8>, id: RowId) -> Vec<u8> {
    key.extend_from_slice(&id.raw().to_be_bytes());
    key
}

/// The index keys of the rows of a page, without the page.
struct RowKeys<'a> {
    columns: &'a [Column],
    orders: &'a [KeyOrder],
    entries: EntryOf,
    reader: KeyReader<'a>,
}

impl<'a> RowKeys<'a> {
    fn new(columns: &'a [Column], orders: &'a [KeyOrder], entries: EntryOf) -> Self {
        Self { columns, orders, entries, reader: KeyReader::new(columns) }
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::rows)
    }

    /// Replaces `key` by the key of row `row`.
    fn read(&self, row: usize, key: &mut Vec<u8>) {
        key.clear();
        for (i, c) in self.columns.iter().enumerate() {
            let order = self.orders.get(i).copied().unwrap_or_default();
            append_ordered(order, c.is_null(row), key, |key| self.reader.append(i, row, key));
        }
        key.truncate(self.entries.value_bytes_max());
        if self.entries == EntryOf::Rows {
            key.extend_from_slice(&(row as u32).to_be_bytes());
        }
    }

    /// Returns the distinct keys of `rows`.
    fn keys(&self, rows: impl Iterator<Item = usize>) -> BTreeSet<Vec<u8>> {
        let (mut keys, mut key) = (BTreeSet::new(), Vec::new());
        for row in rows {
            self.read(row, &mut key);
            if !keys.contains(&key) {
                keys.insert(key.clone());
            }
        }
        keys
    }
}

/// The keys that a page loses and gains by a rewrite. Only the keys of rows that differ are sorted, because a rewrite
/// changes few of a page's many rows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct KeyChanges {
    pub(super) lost: BTreeSet<Vec<u8>>,
    pub(super) gained: BTreeSet<Vec<u8>>,
}

impl KeyChanges {
    /// Compares the rows of a page before and after a rewrite.
    pub(super) fn between(old: &[Column], new: &[Column], index: &IndexDef) -> Self {
        let of = |columns| RowKeys::new(columns, &index.orders, index.entries);
        let (old, new) = (of(old), of(new));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut equal = |i, j| {
            old.read(i, &mut a);
            new.read(j, &mut b);
            a == b
        };
        // An update keeps the position of each row. A delete or an insert moves the rows after it.
        let (mut old_rows, mut new_rows, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        if old.rows() == new.rows() {
            for row in 0..new.rows() {
                if equal(row, row) { kept.push(row) } else { new_rows.push(row) }
            }
            old_rows.clone_from(&new_rows);
        } else {
            let most = old.rows().min(new.rows());
            let first = (0..most).take_while(|&i| equal(i, i)).count();
            let (ends, most) = ((old.rows(), new.rows()), most - first);
            let last = (1..=most).take_while(|&i| equal(ends.0 - i, ends.1 - i)).count();
            old_rows.extend(first..ends.0 - last);
            new_rows.extend(first..ends.1 - last);
            kept.extend((0..first).chain(ends.1 - last..ends.1));
        }
        let (was, is) = (old.keys(old_rows.into_iter()), new.keys(new_rows.into_iter()));
        let mut changes = Self { lost: &was - &is, gained: &is - &was };
        // A row that the rewrite kept may have the same key. Then the page neither loses nor gains this key.
        for row in kept {
            if changes.lost.is_empty() && changes.gained.is_empty() {
                break;
            }
            new.read(row, &mut a);
            changes.lost.remove(&a);
            changes.gained.remove(&a);
        }
        changes
    }
}

/// Returns the key of an entry: the key of the values, then the page.
pub(super) fn entry(mut key: Vec<u8>, page: Lpid) -> Vec<u8> {
    key.extend_from_slice(&page.raw().to_be_bytes());
    key
}

/// Returns the page of the main that has the row of an entry. With a directory, entries name rows by their ids. A row that only the
/// delta has is on no page.
pub(super) fn page_named(directory: Option<&Directory>, entry: &[u8]) -> Option<Lpid> {
    match directory {
        None => page_of(entry),
        Some(directory) => directory.place(id_of_key(entry)?).map(|(lpid, _)| lpid),
    }
}

pub(super) fn page_of(entry: &[u8]) -> Option<Lpid> {
    let at = entry.len().checked_sub(PAGE_BYTES)?;
    Lpid::from_raw(u64::from_be_bytes(entry[at..].try_into().ok()?))
}

/// How much a look-up may find.
#[derive(Clone, Copy)]
pub(super) struct Most {
    pub(super) pages: u64,
    /// Entries of a range that are looked at.
    pub(super) entries: u64,
}

impl Most {
    /// All there is.
    pub(super) const ALL: Self = Self { pages: u64::MAX, entries: u64::MAX };
}

/// A range of keys, given by prefixes. Each key of the range is not below `low`, and begins with `high` or is below
/// `high`.
#[derive(Clone, Debug)]
pub(super) struct KeyRange {
    pub(super) low: Vec<u8>,
    pub(super) high: Vec<u8>,
}

impl KeyRange {
    /// Returns the bound at which the range ends.
    pub(super) fn end(&self) -> Bound<Vec<u8>> {
        prefix_end(&self.high)
    }
}

impl Snapshot {
    /// Returns the directory of a table whose index entries name rows; `None` if they name pages.
    pub(super) fn directory_of_entries(&self, t: &Table) -> Result<Option<Arc<Directory>>, EngineError> {
        if t.has_delta() { self.directory(t).map(Some) } else { Ok(None) }
    }

    /// Returns the pages of a table that may have rows that pass `filter`. The function uses the B+-tree index with
    /// the most columns that the filter restricts. It returns `None` if the filter restricts no index, or if there
    /// are more than `most` pages.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn index_pages(
        &self,
        t: &Table,
        filter: &Expr,
        most: u64,
    ) -> Result<Option<IndexedPages>, EngineError> {
        self.named_pages(t, filter, most, None, u64::MAX)
    }

    /// The same by an access path: of those indexes that it asks, in the place where it searches them.
    ///
    /// # Errors
    /// As [`Snapshot::index_pages`].
    pub fn index_pages_by(
        &self,
        t: &Table,
        filter: &Expr,
        most: u64,
        path: &AccessPath,
    ) -> Result<Option<IndexedPages>, EngineError> {
        let entries_max = if path.trees == TreeUse::IfFew { ENTRIES_MAX } else { u64::MAX };
        let Some(host) = self.host().filter(|_| path.place == TreePlace::Device) else {
            return self.named_pages(t, filter, most, path.entries, entries_max);
        };
        let before = host.search_trees_in(path.place);
        host.begins_look_up();
        let found = self.named_pages(t, filter, most, path.entries, entries_max);
        host.search_trees_in(before);
        found
    }

    fn named_pages(
        &self,
        t: &Table,
        filter: &Expr,
        most: u64,
        entries: Option<EntryOf>,
        entries_max: u64,
    ) -> Result<Option<IndexedPages>, EngineError> {
        let terms = terms_of(filter);
        let mut best: Option<(usize, &IndexDef, Vec<KeyRange>)> = None;
        // Entries of a table with a delta name rows.
        let named = |i: &IndexDef| if t.has_delta() { EntryOf::Rows } else { i.entries };
        let is_asked = |i: &&IndexDef| i.kind != IndexKind::Page && entries.is_none_or(|e| e == named(i));
        for index in t.indexes().iter().filter(is_asked) {
            if let Some((columns, ranges)) = ranges(t, index, terms)
                && best.as_ref().is_none_or(|(most, ..)| columns > *most)
            {
                best = Some((columns, index, ranges));
            }
        }
        let Some((used, index, ranges)) = best else { return Ok(None) };
        let Some(tree) = self.catalog().tree(&t.index_tree(index)) else { return Ok(None) };
        let filter = EntryFilter::of(t, index, terms, used, most);
        let is_range = ranges.len() == 1 && ranges[0].low != ranges[0].high;
        let is_long = is_range && entries_max < u64::MAX && self.lies_in_order(t, index.columns[0])?;
        let entries_max = if is_long { entries_max } else { u64::MAX };
        let found = self.look_up(t, tree, &ranges, filter, most, entries_max);
        // This check comes after the look-up. If the tree still exists now, the look-up has read a whole tree.
        if self.is_dropped(tree) {
            return Ok(None);
        }
        let Some(found) = found? else { return Ok(None) };
        let pages = self.with_own_pages(t, found);
        let count = pages.iter().map(|r| u64::from(r.count)).sum();
        Ok(Some(IndexedPages { index: index.name.clone(), pages, count }))
    }

    /// Whether the page index knows that a table lies in order of a column. It says no before it was asked twice.
    fn lies_in_order(&self, t: &Table, column: u16) -> Result<bool, EngineError> {
        Ok(self.bounds(t, &[column])?.is_some_and(|bounds| bounds.pages_a_value() <= SORTED_PAGES_MAX))
    }

    /// Returns the pages that may have a row with one of the keys that `filter` requires in the columns `key`.
    /// Returns `None` if no index can tell.
    pub(super) fn pages_of_keys(
        &self,
        t: &Table,
        key: &[u16],
        filter: &Expr,
    ) -> Result<Option<Vec<PageRange>>, EngineError> {
        let knows = |i: &IndexDef| i.kind != IndexKind::Page && key.contains(&i.columns[0]);
        if !t.indexes().iter().any(knows) {
            return Ok(None);
        }
        Ok(self.index_pages(t, filter, t.pages() / 2 + 1)?.map(|found| found.pages))
    }

    fn look_up(
        &self,
        t: &Table,
        tree: &Tree,
        ranges: &[KeyRange],
        mut filter: Option<EntryFilter<'_>>,
        most: u64,
        entries_max: u64,
    ) -> Result<Option<BTreeSet<Lpid>>, EngineError> {
        let mut found = BTreeSet::new();
        let directory = self.directory_of_entries(t)?;
        for r in ranges {
            let most = Most { pages: most, entries: entries_max };
            if !self.pages_in(tree, r, directory.as_deref(), filter.as_mut(), most, &mut found)? {
                return Ok(None);
            }
        }
        if let Some(mut filter) = filter {
            filter.finish(&mut |kept| found.extend(page_named(directory.as_deref(), kept)));
        }
        Ok((found.len() as u64 <= most).then_some(found))
    }

    /// Adds the pages that the entries of a range name, of those that pass a filter if there is one. False once there are more of them, or of
    /// entries, than `most`. A filter may still have entries to look at.
    pub(super) fn pages_in(
        &self,
        tree: &Tree,
        range: &KeyRange,
        directory: Option<&Directory>,
        mut filter: Option<&mut EntryFilter<'_>>,
        most: Most,
        found: &mut BTreeSet<Lpid>,
    ) -> Result<bool, EngineError> {
        let end = range.end();
        let end = end.as_ref().map(|e| &e[..]);
        let mut cursor = self.range(tree, Bound::Included(&range.low), end)?;
        let mut entries = 0;
        while let Some((entry, _)) = cursor.next()? {
            entries += 1;
            self.computes(HostWork::Entry, 1);
            let mut keep = |kept: &[u8]| found.extend(page_named(directory, kept));
            match &mut filter {
                Some(filter) => filter.take(entry, &mut keep),
                None => keep(entry),
            }
            if found.len() as u64 > most.pages || entries > most.entries {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns those pages of `found` that belong to the table at this snapshot, and all pages that the reading
    /// transaction changed.
    pub(super) fn with_own_pages(&self, t: &Table, mut found: BTreeSet<Lpid>) -> Vec<PageRange> {
        found.retain(|l| t.may_have_page(*l));
        // The rows of a delta are in memory.
        let mut ranges: Vec<PageRange> = t.delta_range().into_iter().collect();
        if let Some(own) = self.own() {
            found.extend(own.all_edited_pages(t));
            ranges.extend(t.page_ranges().into_iter().filter(|r| own.is_own_extent(r.extent)));
            found.retain(|l| !own.is_own_extent(l.extent()));
        }
        ranges.extend(ranges_of(&found));
        ranges
    }
}

/// Merges consecutive pages into ranges.
pub(super) fn ranges_of(pages: &BTreeSet<Lpid>) -> Vec<PageRange> {
    let mut ranges = Vec::new();
    let mut pages = pages.iter().peekable();
    while let Some(first) = pages.next() {
        let mut count = 1;
        while pages.next_if(|l| l.extent() == first.extent() && l.page() == first.page() + count).is_some() {
            count += 1;
        }
        ranges.push(PageRange { extent: first.extent(), first: first.page(), count });
    }
    ranges
}

/// Returns how many columns of an index the terms restrict, and the ranges of keys that satisfy them.
fn ranges(t: &Table, index: &IndexDef, terms: &[Expr]) -> Option<(usize, Vec<KeyRange>)> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    let mut used = 0;
    for (n, &c) in index.columns.iter().enumerate() {
        let order = index.order(n);
        let data_type = t.schema().columns[usize::from(c)].data_type;
        if let Some(values) = equal_to(terms, c, data_type) {
            if prefixes.len() * values.len() > RANGES_MAX {
                break;
            }
            let with = |p: &Vec<u8>, v: &Vec<u8>| {
                let mut key = p.clone();
                append_ordered(order, false, &mut key, |key| key.extend_from_slice(v));
                key
            };
            prefixes = prefixes.iter().flat_map(|p| values.iter().map(move |v| with(p, v))).collect();
            used += 1;
            continue;
        }
        let (low, high) = bounds(terms, c, data_type);
        if low.is_none() && high.is_none() {
            break;
        }
        let (low, high) = if order.descending { (high, low) } else { (low, high) };
        let end = |p: &[u8], v: &Option<Vec<u8>>| {
            let mut key = p.to_vec();
            append_ordered(order, false, &mut key, |key| key.extend(v.iter().flatten()));
            key.truncate(index.entries.value_bytes_max());
            key
        };
        let ranges = prefixes.iter().map(|p| KeyRange { low: end(p, &low), high: end(p, &high) });
        return Some((used + 1, ranges.collect()));
    }
    if used == 0 {
        return None;
    }
    let cut = |mut p: Vec<u8>| {
        p.truncate(index.entries.value_bytes_max());
        KeyRange { low: p.clone(), high: p }
    };
    Some((used, prefixes.into_iter().map(cut).collect()))
}

/// Returns a constant as a value of a key; `None` for NULL and for constants of another type.
fn constant(e: &Expr, data_type: DataType) -> Option<Value> {
    let Expr::Const(v, t) = e else { return None };
    let same = match (*t, data_type) {
        (DataType::Decimal { scale: a, .. }, DataType::Decimal { scale: b, .. }) => a == b,
        (a, b) => a == b,
    };
    (same && *v != Value::Null).then(|| v.clone())
}

fn bytes_of(v: &Value, data_type: DataType) -> Option<Vec<u8>> {
    let mut b = ColumnBuilder::new(match data_type {
        // A constant may have more digits than the column.
        DataType::Decimal { scale, .. } => DataType::Decimal { precision: 38, scale },
        t => t,
    });
    b.push(v).ok()?;
    let column = [b.finish()];
    let mut out = Vec::new();
    KeyReader::new(&column).append(0, 0, &mut out);
    Some(out)
}

/// Returns the terms that AND joins in an expression.
pub(super) fn terms_of(filter: &Expr) -> &[Expr] {
    match filter {
        Expr::And(terms) => terms,
        one => std::slice::from_ref(one),
    }
}

/// Returns the values that column `c` may have in a row that passes, as a key writes them, if the terms list them.
pub(super) fn equal_to(terms: &[Expr], c: u16, data_type: DataType) -> Option<Vec<Vec<u8>>> {
    let values = listed(terms, c, data_type)?;
    let each: BTreeSet<Vec<u8>> = values.iter().map(|v| bytes_of(v, data_type)).collect::<Option<_>>()?;
    Some(each.into_iter().collect())
}

/// Returns the values that column `c` may have in a row that passes, if the terms list them. NULL is none of them.
pub(super) fn listed(terms: &[Expr], c: u16, data_type: DataType) -> Option<Vec<Value>> {
    let values = terms.iter().find_map(|term| match term {
        Expr::Compare(CompareOp::Eq, a, b) => {
            let v = match (&**a, &**b) {
                (Expr::Column(n), v) | (v, Expr::Column(n)) if *n == c => constant(v, data_type)?,
                _ => return None,
            };
            Some(vec![v])
        }
        Expr::In { value, list } if **value == Expr::Column(c) => Some(list.clone()),
        Expr::InKeys { value, keys } if **value == Expr::Column(c) => keys.listed(data_type),
        _ => None,
    })?;
    Some(values.into_iter().filter(|v| *v != Value::Null).collect())
}

/// Returns the least and the greatest value that column `c` may have in a row that passes, as a key writes them.
pub(super) fn bounds(terms: &[Expr], c: u16, data_type: DataType) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    ends(terms, c, data_type, |v| bytes_of(v, data_type))
}

/// Returns the ends of the range that column `c` may have in a row that passes, of what `of` makes of constants. `of` keeps their order.
pub(super) fn ends<K: Ord + Clone>(
    terms: &[Expr],
    c: u16,
    data_type: DataType,
    of: impl Fn(&Value) -> Option<K>,
) -> (Option<K>, Option<K>) {
    let (mut low, mut high): (Option<K>, Option<K>) = (None, None);
    for term in terms.iter().flat_map(terms_of) {
        let Expr::Compare(op, a, b) = term else { continue };
        let (v, upwards) = match (&**a, &**b, op) {
            (Expr::Column(n), v, CompareOp::Gt | CompareOp::GtEq) if *n == c => (v, true),
            (Expr::Column(n), v, CompareOp::Lt | CompareOp::LtEq) if *n == c => (v, false),
            (v, Expr::Column(n), CompareOp::Gt | CompareOp::GtEq) if *n == c => (v, false),
            (v, Expr::Column(n), CompareOp::Lt | CompareOp::LtEq) if *n == c => (v, true),
            _ => continue,
        };
        let Some(key) = constant(v, data_type).and_then(|v| of(&v)) else { continue };
        match upwards {
            true => low = Some(low.map_or(key.clone(), |l| l.max(key))),
            false => high = Some(high.map_or(key.clone(), |h| h.min(key))),
        }
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::super::key::{NULL, PRESENT};
    use super::*;

    #[test]
    fn ranges_end_behind_all_that_begins_so() {
        let end = |high: &[u8]| KeyRange { low: Vec::new(), high: high.into() }.end();
        assert_eq!(end(&[1, 2]), Bound::Excluded(vec![1, 3]));
        assert_eq!(end(&[1, 255]), Bound::Excluded(vec![2]));
        assert_eq!(end(&[255, 255]), Bound::Unbounded);
    }

    #[test]
    fn keys_tell_nulls_apart_and_are_cut() {
        let mut b = ColumnBuilder::new(DataType::Text);
        for v in
            [Value::text("a"), Value::Null, Value::text(""), Value::text("a"), Value::text(&"x".repeat(5000))]
        {
            b.push(&v).unwrap();
        }
        let mut index = IndexDef::new("i", "t", [0], IndexKind::Btree { unique: false });
        let column = [b.finish()];
        let keys_of = |index: &IndexDef| keys(&column, index).into_iter().collect::<Vec<_>>();
        let keys = keys_of(&index);
        assert_eq!(keys.len(), 4);
        assert_eq!(keys[0], [PRESENT, 0, 0]);
        assert_eq!(keys[1], [PRESENT, b'a', 0, 0]);
        assert_eq!(keys[2].len(), EntryOf::Pages.value_bytes_max());
        assert_eq!(keys[3], [NULL]);
        index.entries = EntryOf::Rows;
        let of_rows = keys_of(&index);
        assert_eq!(of_rows.len(), 5);
        assert_eq!(of_rows[1], [PRESENT, b'a', 0, 0, 0, 0, 0, 0]);
        assert_eq!(of_rows[2], [PRESENT, b'a', 0, 0, 0, 0, 0, 3]);
        assert_eq!(of_rows[3].len(), keys[2].len());
        let page = Lpid::from_raw(77).unwrap();
        assert_eq!(page_of(&entry(keys[1].clone(), page)), Some(page));
    }

    proptest::proptest! {
        /// A page loses the keys that none of its rows still has. It gains the keys that none of its rows had before.
        #[test]
        fn a_rewrite_changes_the_keys_that_differ(
            old in proptest::collection::vec(0i64..8, 0..20),
            edits in proptest::collection::vec((0usize..20, 0i64..8), 0..4),
            cut in 0usize..6,
            add in proptest::collection::vec(0i64..8, 0..3),
        ) {
            let mut new = old.clone();
            edits.into_iter().filter(|e| e.0 < old.len()).for_each(|(at, v)| new[at] = v);
            if cut < new.len() {
                new.remove(cut);
            }
            new.extend(add);
            let column = |values: &[i64]| {
                let mut b = ColumnBuilder::new(DataType::BigInt);
                let value = |v: i64| if v == 0 { Value::Null } else { Value::Int(v) };
                values.iter().for_each(|&v| b.push(&value(v)).unwrap());
                [b.finish()]
            };
            let (old, new) = (column(&old), column(&new));
            for entries in [EntryOf::Pages, EntryOf::Rows] {
                let index = IndexDef { entries, ..IndexDef::new("i", "t", [0], IndexKind::Btree { unique: false }) };
                let (was, is) = (keys(&old, &index), keys(&new, &index));
                let expected = KeyChanges { lost: &was - &is, gained: &is - &was };
                proptest::prop_assert_eq!(KeyChanges::between(&old, &new, &index), expected);
            }
        }
    }
}
