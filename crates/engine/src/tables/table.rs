//! A table at one commit: its definition, and which pages it has.
//!
//! ```text
//!   RowAddress (64 bits)   | extent's index in the table: 22 | page: 10 | slot: 32 |
//! ```
//!
//! A `Table` is immutable: a commit that changes one makes a new one.
//! Invariants: an extent belongs to one table and appears in it once. Of its pages, those below `used` were written at some time,
//! and `live` of them are mapped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, TableId};
use lode_command::PageRange;
use lode_page::{DataType, Schema};
use lode_program::IndexRule;
use lode_program::index::{IndexKind as SummaryKind, KeptColumn, KindColumns, kept, range};
use serde::{Deserialize, Serialize};

use super::bounds::KnownBounds;
use super::definition::{Changes, IndexDef, IndexKind, KeyIndex, Layout, Summary, TableDef};
use super::delta::{Delta, Directory, RowsOf, delta_extent};
use super::recent_filters::RecentFilters;
use super::statistics::{TableSize, TableStatistics};
use crate::storage::columns::PageOwner;
use crate::{EngineError, Map};

/// Most extents of a table: what a row address can count.
pub(super) const EXTENTS_MAX: usize = (1 << 22) - 1;
/// The index of the extent that stands for the delta: the last one that a row address can have.
const DELTA_INDEX: u32 = EXTENTS_MAX as u32;
/// The version of a table's schema. ALTER TABLE does not change it: what a page lacks shows in its number of columns.
const SCHEMA_VERSION: u32 = 1;

/// The address of a row at one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowAddress(u64);

impl RowAddress {
    /// The address of slot `slot` of page `page` of the table's `extent_index`-th extent.
    ///
    /// # Panics
    /// When `extent_index` or `page` does not fit its bits.
    pub const fn from_parts(extent_index: u32, page: u16, slot: u32) -> Self {
        assert!((extent_index as usize) <= EXTENTS_MAX && (page as usize) < EXTENT_PAGES);
        Self((extent_index as u64) << 42 | (page as u64) << 32 | slot as u64)
    }

    /// The address with this number. Every number is an address, though perhaps of no row.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its number. The addresses of a page's rows are consecutive.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Which extent of the table, counted from 0.
    pub const fn extent_index(self) -> usize {
        (self.0 >> 42) as usize
    }

    /// The page within the extent.
    pub const fn page(self) -> u16 {
        (self.0 >> 32) as u16 & (EXTENT_PAGES as u16 - 1)
    }

    /// The row within the page.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// An extent of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableExtent {
    pub(super) id: ExtentId,
    /// Pages, from the first on, that were written at some time.
    pub(super) used: u16,
    /// Of those, pages that are mapped.
    pub(super) live: u16,
}

/// A table at one commit.
#[derive(Debug)]
pub struct Table {
    id: TableId,
    def: TableDef,
    indexes: Vec<IndexDef>,
    schema: Schema,
    pub(super) extents: Vec<TableExtent>,
    by_extent: Map<ExtentId, u32>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// The row page that inserts fill first.
    pub(super) tail: Option<Lpid>,
    /// Whether entries of the page index may be missing, since its rule was registered after the pages were written.
    pub(super) index_pending: bool,
    /// Whether VACUUM FULL made it: trees of its indexes have its number in their names.
    pub(super) is_rewritten: bool,
    /// The trees of indexes whose names do not say it.
    index_trees: BTreeMap<String, String>,
    /// The numbers that keys of the definition have in entries of its tree; empty: their places in the definition.
    key_numbers: Vec<u16>,
    /// Within a transaction: numbers of keys that it added, of which rows before it have no entries yet.
    new_keys: BTreeSet<u16>,
    /// Pages whose first row id is below this one have bounds of another primary key than this one, if any.
    pub(super) bounds_from: u64,
    /// Its descriptor page in the catalog.
    pub(super) descriptor: Lpid,
    /// Of its pages alone, if it has a delta.
    pub(super) statistics: OnceLock<TableStatistics>,
    /// Bounds of its pages that lookups by key keep.
    pub(super) bounds: KnownBounds,
    /// The filters that scans of it had last.
    pub(super) recent_filters: RecentFilters,
    /// What all versions of the table share of its delta, if it has one.
    delta: Option<Arc<Delta>>,
    /// Which of its pages has which rows, once it was read.
    pub(super) directory: OnceLock<Arc<Directory>>,
}

/// What the catalog keeps of a table. Extents are (number, used, live).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TableDescriptor {
    pub(super) id: u32,
    pub(super) def: TableDef,
    pub(super) indexes: Vec<IndexDef>,
    pub(super) extents: Vec<(u64, u16, u16)>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) tail: Option<u64>,
    pub(super) index_pending: bool,
    /// With a delta: no row id of the table's pages is below this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next_row_id: Option<u64>,
    /// Whether VACUUM FULL made the table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_rewritten: bool,
    /// The trees of indexes, by the names of these, where the names do not say it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) index_trees: BTreeMap<String, String>,
    /// The numbers that keys of the definition have in entries of the table's tree, where these are not their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) key_numbers: Vec<u16>,
    /// The first row id from which on pages have bounds of the primary key.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) bounds_from: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Table {
    /// The table that a descriptor describes, or what is wrong with the descriptor.
    pub(super) fn from_descriptor(d: TableDescriptor, descriptor: Lpid) -> Result<Self, String> {
        d.def.check().map_err(|e| e.to_string())?;
        let columns = d.def.columns.len();
        let in_range = |list: &[u16]| list.iter().all(|&c| usize::from(c) < columns);
        if !d.indexes.iter().all(|i| in_range(&i.columns)) {
            return Err("an index names a column that does not exist".into());
        }
        if d.id == 0 {
            return Err("table 0 is the catalog itself".into());
        }
        let mut extents = Vec::with_capacity(d.extents.len());
        for (raw, used, live) in d.extents {
            let id = ExtentId::new(raw).ok_or_else(|| format!("extent {raw} is out of range"))?;
            if usize::from(used) > EXTENT_PAGES || live > used {
                return Err(format!("extent {raw} has {live} of {used} pages"));
            }
            extents.push(TableExtent { id, used, live });
        }
        let tail = match d.tail {
            None => None,
            Some(raw) => Some(Lpid::from_raw(raw).ok_or_else(|| format!("page {raw} is out of range"))?),
        };
        let next_row_id = d.next_row_id;
        let table = Self::new(TableId::new(d.id), d.def, d.indexes, extents, descriptor);
        let keys = table.def.keys().count();
        if !d.key_numbers.is_empty() && d.key_numbers.len() != keys {
            return Err(format!("{} numbers of {keys} keys", d.key_numbers.len()));
        }
        let (index_trees, key_numbers, bounds_from) = (d.index_trees, d.key_numbers, d.bounds_from);
        let table = Self { is_rewritten: d.is_rewritten, index_trees, key_numbers, bounds_from, ..table };
        let table = table.with_contents(d.rows, d.bytes, tail, d.index_pending);
        if table.by_extent.len() != table.extents.len() {
            return Err("an extent is listed twice".into());
        }
        if table.delta.is_some() != next_row_id.is_some() {
            return Err("only a table with a delta has row ids".into());
        }
        if let (Some(delta), Some(next)) = (&table.delta, next_row_id) {
            delta.ids_before(next);
        }
        if tail.is_some_and(|t| table.extent_index(t.extent()).is_none()) {
            return Err("the last row page is in no extent of the table".into());
        }
        Ok(table)
    }

    pub(super) fn new(
        id: TableId,
        def: TableDef,
        indexes: Vec<IndexDef>,
        extents: Vec<TableExtent>,
        descriptor: Lpid,
    ) -> Self {
        let schema = def.schema(SCHEMA_VERSION);
        let by_extent = extents.iter().enumerate().map(|(i, e)| (e.id, i as u32)).collect();
        let delta = (def.options.changes == Changes::Delta).then(Arc::default);
        Self {
            id,
            def,
            indexes,
            schema,
            extents,
            by_extent,
            rows: 0,
            bytes: 0,
            tail: None,
            index_pending: false,
            is_rewritten: false,
            index_trees: BTreeMap::new(),
            key_numbers: Vec::new(),
            new_keys: BTreeSet::new(),
            bounds_from: 0,
            descriptor,
            statistics: OnceLock::new(),
            bounds: KnownBounds::default(),
            recent_filters: RecentFilters::default(),
            delta,
            directory: OnceLock::new(),
        }
    }

    /// The table with these indexes and extents, and without statistics. It shares the delta. A caller that changes pages sets the
    /// directory anew.
    pub(super) fn next(&self, indexes: Vec<IndexDef>, extents: Vec<TableExtent>) -> Self {
        self.next_of(self.def.clone(), indexes, extents)
    }

    /// The table with another definition. `key_numbers`: those of the definition's keys, and which of them are new.
    pub(super) fn redefined(&self, def: TableDef, key_numbers: Vec<u16>, new_keys: BTreeSet<u16>) -> Self {
        let is_plain = key_numbers.iter().copied().eq(0..key_numbers.len() as u16);
        let next = self.next_of(def, self.indexes.clone(), self.extents.clone());
        Self { key_numbers: if is_plain { Vec::new() } else { key_numbers }, new_keys, ..next }
    }

    /// The same with another definition, whose changes go to the same place.
    pub(super) fn next_of(&self, def: TableDef, indexes: Vec<IndexDef>, extents: Vec<TableExtent>) -> Self {
        let next = Self::new(self.id, def, indexes, extents, self.descriptor);
        let (delta, directory) = (self.delta.clone(), self.directory.clone());
        let mut index_trees = self.index_trees.clone();
        index_trees.retain(|index, _| next.indexes.iter().any(|i| i.name == *index));
        let (mut key_numbers, new_keys) = (self.key_numbers.clone(), self.new_keys.clone());
        // Keys go from the last one on, unless others say which go.
        key_numbers.truncate(next.def.keys().count());
        let (is_rewritten, bounds_from) = (self.is_rewritten, self.bounds_from);
        let recent_filters = self.recent_filters.clone();
        let next = Self {
            delta,
            directory,
            is_rewritten,
            index_trees,
            key_numbers,
            new_keys,
            bounds_from,
            recent_filters,
            ..next
        };
        next.with_contents(self.rows, self.bytes, self.tail, self.index_pending)
    }

    /// The table once all rows have entries of all its keys.
    pub(super) fn with_entries(&self) -> Self {
        Self { new_keys: BTreeSet::new(), ..self.same() }
    }

    /// The table, whose pages with row ids below this one have no bounds of its primary key.
    pub(super) fn with_bounds_from(self, next_id: u64) -> Self {
        Self { bounds_from: next_id, directory: OnceLock::new(), ..self }
    }

    /// The number that the `n`-th key of the definition has in entries of the table's tree.
    pub(super) fn key_number(&self, n: usize) -> usize {
        self.key_numbers.get(n).map_or(n, |number| usize::from(*number))
    }

    /// The numbers of all keys of the definition.
    pub(super) fn key_numbers(&self) -> Vec<u16> {
        (0..self.def.keys().count()).map(|n| self.key_number(n) as u16).collect()
    }

    /// Whether the transaction that has this version of the table added the `n`-th key of the definition.
    pub(super) fn is_new_key(&self, n: usize) -> bool {
        n < self.def.keys().count() && self.new_keys.contains(&(self.key_number(n) as u16))
    }

    pub(super) fn with_contents(
        mut self,
        rows: u64,
        bytes: u64,
        tail: Option<Lpid>,
        index_pending: bool,
    ) -> Self {
        self.rows = rows;
        self.bytes = bytes;
        self.tail = tail;
        self.index_pending = index_pending;
        self
    }

    /// A copy of the table, without its statistics.
    pub(super) fn same(&self) -> Self {
        self.next(self.indexes.clone(), self.extents.clone())
    }

    /// The table, where the index of this name has the tree of that name.
    pub(super) fn with_index_tree(mut self, index: &str, tree: String) -> Self {
        self.index_trees.insert(index.into(), tree);
        self
    }

    /// The tree that an index was given, if its own name does not say it.
    pub(super) fn given_tree(&self, index: &str) -> Option<&str> {
        self.index_trees.get(index).map(String::as_str)
    }

    /// Whether its descriptor says where entries are that its definition does not say.
    pub(super) fn has_own_names(&self) -> bool {
        !self.index_trees.is_empty() || !self.key_numbers.is_empty() || self.bounds_from > 0
    }

    /// Whether another version of the table has the same definition, indexes and entries.
    pub(super) fn is_defined_as(&self, other: &Self) -> bool {
        (&self.def, &self.indexes) == (&other.def, &other.indexes)
            && (&self.index_trees, &self.key_numbers, self.bounds_from)
                == (&other.index_trees, &other.key_numbers, other.bounds_from)
    }

    /// What all versions of the table share of its delta; `None` if changes go to pages.
    pub(super) fn delta(&self) -> Option<&Arc<Delta>> {
        self.delta.as_ref()
    }

    /// Whether few changes go to a delta.
    pub fn has_delta(&self) -> bool {
        self.delta.is_some()
    }

    /// Whether the page index, and no tree, finds rows of its pages by their keys.
    pub(super) fn finds_keys_by_page(&self) -> bool {
        self.has_delta() && self.def.options.key_index == KeyIndex::PageIndex
    }

    pub(super) fn to_descriptor(&self) -> TableDescriptor {
        TableDescriptor {
            id: self.id.raw(),
            def: self.def.clone(),
            indexes: self.indexes.clone(),
            extents: self.extents.iter().map(|e| (e.id.raw(), e.used, e.live)).collect(),
            rows: self.rows,
            bytes: self.bytes,
            tail: self.tail.map(Lpid::raw),
            index_pending: self.index_pending,
            next_row_id: self.delta.as_ref().map(|d| d.next_id()),
            is_rewritten: self.is_rewritten,
            index_trees: self.index_trees.clone(),
            key_numbers: self.key_numbers.clone(),
            bounds_from: self.bounds_from,
        }
    }

    /// Its number, which is never used again.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// Its definition, with the default page index filled in.
    pub fn def(&self) -> &TableDef {
        &self.def
    }

    /// The indexes made by CREATE INDEX.
    pub fn indexes(&self) -> &[IndexDef] {
        &self.indexes
    }

    /// Types of its columns, as pages and programs have them.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The types of its columns.
    pub(super) fn types(&self) -> Vec<DataType> {
        self.schema.columns.iter().map(|c| c.data_type).collect()
    }

    /// What the rows of its delta must agree with.
    pub(super) fn rows_of<'a>(&'a self, rule: &'a IndexRule) -> RowsOf<'a> {
        RowsOf { table: self.id, name: self.name(), schema: &self.schema, rule }
    }

    /// What the pages of the table must agree with.
    pub(super) fn page_owner(&self) -> PageOwner<'_> {
        PageOwner { id: self.id, name: self.name(), schema: &self.schema }
    }

    /// Whether entries of its page index may be missing.
    pub(super) fn lacks_index_entries(&self) -> bool {
        self.index_pending
    }

    pub(super) fn size(&self) -> TableSize {
        TableSize { rows: self.rows, pages: self.pages(), bytes: self.bytes }
    }

    /// Rows of its pages. [`crate::Snapshot::rows`] counts those of a delta too.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of a page on average, at least those that pages are filled to, if all of them are row pages. A long row has a longer page
    /// of its own.
    pub(super) fn row_page_bytes(&self) -> Option<usize> {
        let mean = self.bytes().div_ceil(self.pages().max(1)) as usize;
        (self.def.options.layout == Layout::Row).then(|| self.def.row_page_bytes().max(mean))
    }

    /// Mapped pages.
    pub fn pages(&self) -> u64 {
        self.extents.iter().map(|e| u64::from(e.live)).sum()
    }

    /// Columns of which the page index has ranges: those of the table's options, then those of its indexes.
    pub fn index_columns(&self) -> Vec<u16> {
        let mut columns = self.def.options.page_index.clone();
        for (c, _) in self.summaries().filter(|(_, s)| **s == Summary::Range) {
            if !columns.contains(&c) {
                columns.push(c);
            }
        }
        columns
    }

    /// The columns of indexes that are part of the page index, and what it keeps of each.
    pub(super) fn summaries(&self) -> impl Iterator<Item = (u16, &Summary)> {
        let indexes = self.indexes.iter().filter(|i| i.kind.is_page());
        indexes.flat_map(|i| i.columns.iter().enumerate().map(|(n, &c)| (c, i.summary(n))))
    }

    /// The keys: those of the definition, and unique indexes.
    pub fn keys(&self) -> impl Iterator<Item = (Option<&str>, &[u16])> {
        let unique = self.indexes.iter().filter(|i| i.kind == IndexKind::Btree { unique: true });
        self.def.keys().chain(unique.map(|i| (Some(i.name.as_str()), &i.columns[..])))
    }

    /// The rule of the entry that the drive's page index keeps of each page.
    pub fn index_rule(&self) -> Result<IndexRule, EngineError> {
        let range: &'static dyn SummaryKind =
            if self.def.options.narrow_keys { &range::RANGE } else { &range::WIDE_RANGE };
        let mut kinds: Vec<KindColumns> = vec![(range, kept(&self.index_columns()))];
        for (column, summary) in self.summaries().filter(|(_, s)| **s != Summary::Range) {
            let (kind, column) = (summary.kind(), KeptColumn { column, form: summary.form() });
            match kinds.iter_mut().find(|(k, _)| k.id() == kind.id()) {
                Some((_, columns)) => columns.push(column),
                None => kinds.push((kind, vec![column])),
            }
        }
        Ok(IndexRule::of_kinds(self.schema.clone(), kinds)?)
    }

    /// The number of the column with this name, which was not dropped.
    pub fn column(&self, name: &str) -> Option<u16> {
        self.def.columns.iter().position(|c| c.name == name && !c.is_dropped).map(|c| c as u16)
    }

    /// The address of a row of one of the table's pages. Addresses of consecutive slots are consecutive.
    ///
    /// # Panics
    /// When the page is not one of the table's.
    pub fn row_address(&self, lpid: Lpid, slot: u32) -> RowAddress {
        let index = self.extent_index(lpid.extent()).expect("the page lies in an extent of the table");
        RowAddress::from_parts(index, lpid.page(), slot)
    }

    /// The page of a row address; `None` when it lies outside the table.
    pub fn page_of(&self, address: RowAddress) -> Option<Lpid> {
        if self.has_delta() && address.extent_index() == DELTA_INDEX as usize {
            return Some(delta_extent(self.id).page(address.page()));
        }
        let e = self.extents.get(address.extent_index())?;
        (address.page() < e.used).then(|| e.id.page(address.page()))
    }

    pub(super) fn extent_index(&self, e: ExtentId) -> Option<u32> {
        let delta = || (self.has_delta() && e == delta_extent(self.id)).then_some(DELTA_INDEX);
        self.by_extent.get(&e).copied().or_else(delta)
    }

    /// Whether a page is one of the table's pages in the drive, as far as their numbers say.
    pub(super) fn may_have_page(&self, lpid: Lpid) -> bool {
        let extent = self.by_extent.get(&lpid.extent()).map(|&i| self.extents[i as usize]);
        extent.is_some_and(|e| lpid.page() < e.used)
    }

    /// Whether each page that it has and an older version had not is one of these.
    pub(super) fn has_only_new_pages_of(&self, older: &Self, of: impl Fn(Lpid) -> bool) -> bool {
        let used =
            |e: &TableExtent| older.by_extent.get(&e.id).map_or(0, |&i| older.extents[i as usize].used);
        self.extents.iter().all(|e| (used(e)..e.used).all(|page| of(e.id.page(page))))
    }

    /// The pages that stand for its delta, if it has one.
    pub(super) fn delta_range(&self) -> Option<PageRange> {
        let pages = (self.delta.as_ref()?.next_id() >> 32) as u16 + 1;
        Some(PageRange { extent: delta_extent(self.id), first: 0, count: pages })
    }

    /// Its pages, and those that stand for its delta.
    pub(super) fn all_ranges(&self) -> Vec<PageRange> {
        let mut ranges = self.page_ranges();
        ranges.extend(self.delta_range());
        ranges
    }

    /// Its pages in the drive.
    pub(super) fn page_ranges(&self) -> Vec<PageRange> {
        let ranges = self.extents.iter().filter(|e| e.live > 0);
        ranges.map(|e| PageRange { extent: e.id, first: 0, count: e.used }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_apart_again() {
        let a = RowAddress::from_parts(DELTA_INDEX, 1023, u32::MAX);
        assert_eq!((a.extent_index(), a.page(), a.slot()), ((1 << 22) - 1, 1023, u32::MAX));
        assert_eq!(a.raw(), u64::MAX);
        let a = RowAddress::from_parts(3, 5, 7);
        assert_eq!((a.extent_index(), a.page(), a.slot()), (3, 5, 7));
        assert_eq!(RowAddress::from_raw(a.raw() + 1), RowAddress::from_parts(3, 5, 8));
    }
}
