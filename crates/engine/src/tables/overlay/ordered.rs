//! Rows of a range of keys, in the order of the keys, for statements that want few of them.
//!
//! ```text
//!   entries of the tree ────────────────────────────┐
//!   pages whose bounds meet the range, one by one ──┼─► the least key ─► the row has it at the snapshot? ─► rows
//!   the rows that the transaction changed ──────────┘
//! ```
//!
//! Read backward, it is the greatest key each time.
//!
//! Invariant: a row is answered once, and only if its key at the snapshot is in the range. An entry without its row is passed over.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::{Bound, Range};

use lode_base::Lpid;
use lode_page::{Column, DataType, Value};

use crate::EngineError;
use crate::storage::columns::columns;
use crate::tables::definition::{IndexDef, IndexKind};
use crate::tables::delta::{
    Directory, ENTRY_KEY_BYTES_MAX, RowId, Sorted, Span, delta_key, id_of_key, key_prefix,
};
use crate::tables::key::{PRESENT, key_of_values, key_with_nulls, prefix_end};
use crate::tables::table::{RowAddress, Table};
use crate::trees::{Cursor, Snapshot, Tree};

/// Entries and rows of pages that are looked at for one range.
const EXAMINED_MAX: usize = 1024;

/// A key or a B+-tree index of a table with a delta: an order in which its rows can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowOrder {
    /// Its columns.
    pub columns: Vec<u16>,
    /// The index; `None` for a key of the table's definition.
    pub index: Option<String>,
    source: Entries,
}

/// Where the entries of an order are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entries {
    /// In the tree of the table, under this number of a key.
    Key(usize),
    /// In the tree with this name.
    Tree(String),
}

impl RowOrder {
    /// Whether the order has all rows with values in its first `restricted` columns. A row with a NULL in a key of the definition has no
    /// entry.
    pub fn has_all(&self, t: &Table, restricted: usize) -> bool {
        let rest = self.columns.get(restricted..).unwrap_or_default();
        self.index.is_some() || rest.iter().all(|&c| !t.schema().columns[usize::from(c)].nullable)
    }
}

/// One end of a range: a value of the column behind those that are equal, and whether the range has it.
pub type RangeEnd = (Value, bool);

/// A range of an order: the values of its leading columns, and the ends for the column behind them.
#[derive(Clone, Debug)]
pub struct RowRange {
    /// Keys from here on.
    low: Vec<u8>,
    /// Keys below this one.
    end: Bound<Vec<u8>>,
}

impl RowRange {
    /// The range of rows with these values in the leading columns of an order, and values within the ends in the next one. NULL is
    /// within no ends. `None` if a value is NULL, does not fit its column, or is too long, for REAL and DOUBLE, whose equal values differ
    /// in their bits, and if the order does not have all rows of the range ([`RowOrder::has_all`]).
    pub fn new(
        t: &Table,
        order: &RowOrder,
        equal: &[Value],
        low: Option<RangeEnd>,
        high: Option<RangeEnd>,
    ) -> Option<Self> {
        let type_of = |i: usize| order.columns.get(i).map(|&c| t.schema().columns[usize::from(c)].data_type);
        let bytes = |i: usize, v: &Value| match type_of(i)? {
            data_type if data_type.is_float() || v.is_null() || !v.fits(data_type) => None,
            data_type => key_of_values([data_type], std::slice::from_ref(v)),
        };
        if !order.has_all(t, equal.len() + usize::from(low.is_some() || high.is_some())) {
            return None;
        }
        let mut prefix = Vec::new();
        for (i, v) in equal.iter().enumerate() {
            prefix.extend(bytes(i, v)?);
        }
        let at = |end: Option<RangeEnd>| match end {
            None => Some(None),
            Some((v, has)) => {
                let value = bytes(equal.len(), &v)?;
                Some(Some(([&prefix[..], &value].concat(), has)))
            }
        };
        let (low, high) = (at(low)?, at(high)?);
        let values = [&prefix[..], &[PRESENT]].concat();
        let (low, end) = match (low, high) {
            (None, None) => (prefix.clone(), prefix_end(&prefix)),
            (low, high) => {
                let low = match low {
                    None => values.clone(),
                    Some((key, true)) => key,
                    Some((key, false)) => match prefix_end(&key) {
                        Bound::Excluded(next) => next,
                        _ => return None,
                    },
                };
                let end = match high {
                    None => prefix_end(&values),
                    Some((key, true)) => prefix_end(&key),
                    Some((key, false)) => Bound::Excluded(key),
                };
                (low, end)
            }
        };
        let is_cut = |key: &[u8]| key.len() >= ENTRY_KEY_BYTES_MAX;
        let long = is_cut(&low) || matches!(&end, Bound::Excluded(end) if is_cut(end));
        (!long).then_some(Self { low, end })
    }

    /// What no key of the range is below, in bytes.
    pub fn start(&self) -> &[u8] {
        &self.low
    }

    fn is_empty(&self) -> bool {
        !self.is_above(&self.low)
    }

    fn end(&self) -> Bound<&[u8]> {
        self.end.as_ref().map(|e| &e[..])
    }

    fn holds(&self, key: &[u8]) -> bool {
        key >= &self.low[..] && self.is_above(key)
    }

    fn is_above(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Excluded(end) => key < &end[..],
            _ => true,
        }
    }
}

/// Which rows of a range are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Few {
    /// All, if they are at most so many.
    All(usize),
    /// So many from the least key on.
    First(usize),
    /// So many from the greatest key on.
    Last(usize),
}

/// Rows of a range, in the order of their keys.
#[derive(Debug, Default)]
pub struct RowsInOrder {
    /// Where the rows are.
    pub rows: Vec<RowAddress>,
    /// The values of each row in the columns that were asked for.
    pub values: Vec<Vec<Value>>,
}

impl Table {
    /// The orders in which the rows of the table can be found. None without a delta.
    pub fn row_orders(&self) -> Vec<RowOrder> {
        if !self.has_delta() {
            return Vec::new();
        }
        // With `key_index = 'page_index'` rows of pages have no entries.
        let keys = self.def().keys().enumerate().filter(|_| !self.finds_keys_by_page());
        let keys = keys.filter(|(n, _)| !self.is_new_key(*n));
        let keys = keys.map(|(n, (_, columns))| RowOrder {
            columns: columns.into(),
            index: None,
            source: Entries::Key(n),
        });
        let of_index = |i: &IndexDef| RowOrder {
            columns: i.columns.clone(),
            index: Some(i.name.clone()),
            source: Entries::Tree(self.index_tree(i)),
        };
        // An index with descending columns, or with NULL first, is read by scans alone.
        let indexes = self.indexes().iter().filter(|i| i.kind != IndexKind::Page && i.orders.is_empty());
        let indexes = indexes.map(of_index);
        keys.chain(indexes).collect()
    }
}

impl Snapshot {
    /// Rows of a range, as the reading transaction sees them, with their values in `wanted`. `None` if there are more than
    /// [`Few::All`] allows, or if it takes too much to find them.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn rows_in_range(
        &self,
        t: &Table,
        order: &RowOrder,
        range: &RowRange,
        wanted: &[u16],
        few: Few,
    ) -> Result<Option<RowsInOrder>, EngineError> {
        if self.own().is_some_and(|own| own.changes_pages(t)) {
            return Ok(None);
        }
        let tree = match &order.source {
            Entries::Key(_) => self.rows_tree(t),
            Entries::Tree(name) => match self.tree(name) {
                Some(tree) => Some(tree),
                None => return Ok(None),
            },
        };
        let found = self.find_in_order(t, order, tree.as_ref(), range, wanted, few);
        // This check comes after the look-up. If the tree still exists now, the look-up has read a whole tree.
        if tree.is_some_and(|tree| self.is_dropped(&tree)) {
            return Ok(None);
        }
        found
    }

    fn find_in_order(
        &self,
        t: &Table,
        order: &RowOrder,
        tree: Option<&Tree>,
        range: &RowRange,
        wanted: &[u16],
        few: Few,
    ) -> Result<Option<RowsInOrder>, EngineError> {
        if range.is_empty() {
            return Ok(Some(RowsInOrder::default()));
        }
        let own = self.own_rows(t).map(|own| &own.rows);
        let directory = self.directory(t)?;
        let (most, all) = match few {
            Few::All(most) => (most, true),
            Few::First(most) | Few::Last(most) => (most, false),
        };
        let backward = matches!(few, Few::Last(_));
        let mut merge = Merge::new(self, t, order, tree, range, backward, &directory)?;
        let types: Vec<DataType> = t.types();
        let key_types: Vec<DataType> = order.columns.iter().map(|&c| types[usize::from(c)]).collect();
        let read: Vec<u16> = order.columns.iter().chain(wanted).copied().collect();
        let mut rows =
            RowReader { snapshot: self, t, tree: self.rows_tree(t), directory: &directory, page: None };
        let (mut found, mut last) = (RowsInOrder::default(), None);
        for _ in 0..EXAMINED_MAX {
            if !all && found.rows.len() == most {
                return Ok(Some(found));
            }
            let Some((key, id)) = merge.next()? else { return Ok(Some(found)) };
            if key.len() >= ENTRY_KEY_BYTES_MAX {
                return Ok(None);
            }
            // The tree and a page may both have a row.
            if last.as_ref() == Some(&(id, key.clone())) {
                continue;
            }
            let values = match own.and_then(|own| own.get(id)) {
                Some(change) => match &change.after {
                    Some(image) => super::values_of_image(t, image, &read)?,
                    None => None,
                },
                None => rows.values(id, &read)?,
            };
            if let Some(mut values) = values
                && key_with_nulls(key_types.iter().copied(), &values[..key_types.len()]) == key
            {
                if found.rows.len() == most {
                    return Ok(None);
                }
                let (lpid, slot) = id.place(t.id());
                found.rows.push(t.row_address(lpid, slot));
                found.values.push(values.split_off(key_types.len()));
            }
            last = Some((id, key));
        }
        Ok(None)
    }
}

/// Reads rows by id; rows of one page one after the other.
struct RowReader<'a> {
    snapshot: &'a Snapshot,
    t: &'a Table,
    tree: Option<Tree>,
    directory: &'a Directory,
    page: Option<(Lpid, Vec<Column>)>,
}

impl RowReader<'_> {
    /// The values of a row, without what the reading transaction changed; `None` if there is no such row.
    fn values(&mut self, id: RowId, wanted: &[u16]) -> Result<Option<Vec<Value>>, EngineError> {
        let image = |image: &[u8]| super::values_of_image(self.t, image, wanted);
        if let Some(tree) = &self.tree
            && let Some(found) = self.snapshot.get_with(tree, &delta_key(id), image)?
        {
            return found;
        }
        let Some((lpid, slot)) = self.directory.place(id) else { return Ok(None) };
        if self.page.as_ref().is_none_or(|(page, _)| *page != lpid) {
            let read = columns(self.snapshot.view(), self.snapshot.tables_state(), lpid, wanted)?;
            self.page = Some((lpid, read.columns));
        }
        let columns = self.page.iter().flat_map(|(_, columns)| columns);
        Ok(Some(columns.map(|c| c.value(slot as usize)).collect()))
    }
}

/// A key, and the row that may have it.
type Candidate = (Vec<u8>, RowId);

/// A candidate of a source with this number. The greatest is the next one.
#[derive(PartialEq, Eq)]
struct Ahead {
    candidate: Candidate,
    source: usize,
    backward: bool,
}

impl Ord for Ahead {
    fn cmp(&self, other: &Self) -> Ordering {
        let forward = (&self.candidate, self.source).cmp(&(&other.candidate, other.source));
        if self.backward { forward } else { forward.reverse() }
    }
}

impl PartialOrd for Ahead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Candidates of all sources, the least first, or the greatest.
struct Merge<'a> {
    snapshot: &'a Snapshot,
    columns: &'a [u16],
    range: &'a RowRange,
    backward: bool,
    sources: Vec<Source>,
    /// The next candidate of each source that has one.
    ahead: BinaryHeap<Ahead>,
    /// Pages that were not opened yet, with the bounds of their keys.
    pages: VecDeque<([&'a [u8]; 2], RowId, &'a Span)>,
}

enum Source {
    /// Entries of a tree behind so many bytes.
    Entries(Box<Cursor>, usize),
    /// Rows of a page whose keys ascend.
    Page(Box<SortedRows>),
    List(std::vec::IntoIter<Candidate>),
}

struct SortedRows {
    columns: Vec<Column>,
    first: RowId,
    span: Span,
    rows: Range<usize>,
}

impl<'a> Merge<'a> {
    fn new(
        snapshot: &'a Snapshot,
        t: &'a Table,
        order: &'a RowOrder,
        tree: Option<&Tree>,
        range: &'a RowRange,
        backward: bool,
        directory: &'a Directory,
    ) -> Result<Self, EngineError> {
        let mut pages = VecDeque::new();
        let prefix = match order.source {
            Entries::Key(n) => {
                if n == 0 && t.def().primary_key == order.columns {
                    pages.extend(directory.pages_of_range(&range.low, range.end()));
                }
                key_prefix(t.key_number(n), &[])
            }
            Entries::Tree(_) => Vec::new(),
        };
        if backward {
            pages.make_contiguous().sort_unstable_by(|a, b| b.0[1].cmp(a.0[1]));
        }
        let mut merge = Self {
            snapshot,
            columns: &order.columns,
            range,
            backward,
            sources: Vec::new(),
            ahead: BinaryHeap::new(),
            pages,
        };
        if let Some(tree) = tree {
            let with_prefix = |key: &[u8]| [&prefix[..], key].concat();
            let low = with_prefix(&range.low);
            let end = match range.end() {
                Bound::Excluded(end) => Bound::Excluded(with_prefix(end)),
                _ => prefix_end(&prefix),
            };
            let end = end.as_ref().map(|e| &e[..]);
            let cursor = match backward {
                false => snapshot.range(tree, Bound::Included(&low), end)?,
                true => snapshot.range_back(tree, Bound::Included(&low), end)?,
            };
            merge.add(Source::Entries(Box::new(cursor), prefix.len()))?;
        }
        if let Some(own) = snapshot.own_rows(t) {
            let list = own.rows.in_range(t.schema(), &order.columns, &range.low, range.end())?;
            merge.add_list(list)?;
        }
        Ok(merge)
    }

    fn next(&mut self) -> Result<Option<Candidate>, EngineError> {
        // A page is opened once its keys may be the next.
        while let Some(([low, end], first, span)) = self.pages.front().copied()
            && self.ahead.peek().is_none_or(|next| match self.backward {
                false => low <= &next.candidate.0[..],
                true => end > &next.candidate.0[..],
            })
        {
            self.pages.pop_front();
            self.open(first, span)?;
        }
        let Some(next) = self.ahead.pop() else { return Ok(None) };
        self.advance(next.source)?;
        Ok(Some(next.candidate))
    }

    fn add_list(&mut self, mut list: Vec<Candidate>) -> Result<(), EngineError> {
        list.sort_unstable();
        list.dedup();
        if self.backward {
            list.reverse();
        }
        self.add(Source::List(list.into_iter()))
    }

    fn add(&mut self, source: Source) -> Result<(), EngineError> {
        self.sources.push(source);
        self.advance(self.sources.len() - 1)
    }

    fn advance(&mut self, source: usize) -> Result<(), EngineError> {
        let next = match &mut self.sources[source] {
            Source::Entries(cursor, prefix) => loop {
                let Some((entry, _)) = cursor.next()? else { break None };
                let key_end = entry.len().saturating_sub(size_of::<u64>());
                // Entries of keys that were cut off may begin as the range does.
                if let (Some(id), Some(key)) = (id_of_key(entry), entry.get(*prefix..key_end)) {
                    break Some((key.to_vec(), id));
                }
            },
            Source::Page(page) => page.next(self.backward),
            Source::List(list) => list.next(),
        };
        let backward = self.backward;
        self.ahead.extend(next.map(|candidate| Ahead { candidate, source, backward }));
        Ok(())
    }

    /// Adds the rows of a page within the range.
    fn open(&mut self, first: RowId, span: &Span) -> Result<(), EngineError> {
        let read = columns(self.snapshot.view(), self.snapshot.tables_state(), span.lpid, self.columns)?;
        let rows = (span.rows as usize).min(read.rows);
        let sorted = match span.keys.as_ref().map_or(Sorted::No, |k| k.sorted) {
            _ if read.columns.iter().any(|c| c.data_type().is_float()) => Sorted::No,
            sorted => sorted,
        };
        let sorted_by = match sorted {
            Sorted::No => 0,
            Sorted::ByLeading => 1,
            Sorted::ByKey => self.columns.len(),
        };
        let mut page = SortedRows { columns: read.columns, first, span: span.clone(), rows: 0..rows };
        // The rows whose keys may be in the range by the columns that are sorted.
        let low = &self.range.low[..];
        let from = page.partition_point(|p, row| {
            let leading = p.key(row, sorted_by);
            leading[..] < *low && !low.starts_with(&leading)
        });
        page.rows.start = from;
        page.rows.end = page.partition_point(|p, row| self.range.is_above(&p.key(row, sorted_by)));
        if sorted == Sorted::ByKey {
            return self.add(Source::Page(Box::new(page)));
        }
        let mut list: Vec<Candidate> = page.rows.clone().map(|row| page.candidate(row)).collect();
        list.retain(|(key, _)| self.range.holds(key));
        self.add_list(list)
    }
}

impl SortedRows {
    /// All of its rows are within the range.
    fn next(&mut self, backward: bool) -> Option<Candidate> {
        let row = if backward { self.rows.next_back() } else { self.rows.next() };
        row.map(|row| self.candidate(row))
    }

    fn candidate(&self, row: usize) -> Candidate {
        (key_of_row(&self.columns, row), self.span.id(self.first, row as u32))
    }

    /// The bytes of the leading columns of a row.
    fn key(&self, row: usize, columns: usize) -> Vec<u8> {
        key_of_row(&self.columns[..columns], row)
    }

    /// The first of the rows that is not before something.
    fn partition_point(&self, is_before: impl Fn(&Self, usize) -> bool) -> usize {
        super::lookup::partition_point(self.rows.clone(), |row| is_before(self, row))
    }
}

fn key_of_row(columns: &[Column], row: usize) -> Vec<u8> {
    let values: Vec<Value> = columns.iter().map(|c| c.value(row)).collect();
    key_of_values(columns.iter().map(Column::data_type), &values).unwrap_or_default()
}
