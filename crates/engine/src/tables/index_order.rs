//! Orders by a B+-tree index: finds the first rows of an order without reading the whole table.
//!
//! ```text
//!   ORDER BY b LIMIT n, a = 5          prefix │ b     entries, from one end:   (5, 1) page 7 │ (5, 1) page 2 │ (5, 4) page 9 ...
//!   index on (a, b, c) ─► IndexOrder ─► IndexWalk ─► pages, some at a time, and a bound: no row of another page sorts before it
//!                                                 └─► n rows that sort no later than the bound are the first n
//! ```
//!
//! Invariant: each row of the index's range is on a page that was given, or its key sorts no earlier than the bound, in the direction
//! of the walk. An entry without a row costs a page. A key that was truncated is equal to no other key. So no row counts as within
//! the bound that might sort after a row of an unread page.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::PageRange;
use lode_page::{Column, DataType};
use lode_program::Expr;

use super::definition::{IndexDef, IndexKind, KeyOrder};
use super::delta::Directory;
use super::entries::EntryOf;
use super::index::{KeyRange, bounds, equal_to, page_named, ranges_of, terms_of};
use super::key::{KeyReader, append_ordered};
use super::table::Table;
use crate::EngineError;
use crate::trees::{Cursor, Snapshot, Tree};

/// A column of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderColumn {
    /// Its number in the table.
    pub column: u16,
    /// From the greatest value to the least.
    pub descending: bool,
    /// Where its NULLs sort.
    pub nulls: NullsAt,
}

/// Where NULLs sort in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullsAt {
    /// Before all values.
    First,
    /// After all values.
    Last,
    /// Nowhere: the filter excludes them.
    Nowhere,
}

/// A B+-tree index that has the rows of a filter in an order.
#[derive(Clone, Debug)]
pub struct IndexOrder {
    /// The index.
    pub index: String,
    /// The columns of its order, after those that the filter fixes to one value.
    pub columns: Vec<u16>,
    /// Whether it is read from its end.
    pub backward: bool,
    /// How the index orders these columns.
    orders: Vec<KeyOrder>,
    tree: Tree,
    range: KeyRange,
    prefix_bytes: usize,
    entries: EntryOf,
    /// Whether the filter excludes rows with NULLs.
    without_nulls: bool,
}

/// A row's place in an order, from [`IndexOrder::keys`]. The least comes first in the direction of the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderKey {
    bytes: Vec<u8>,
    is_cut: bool,
    backward: bool,
}

impl Ord for OrderKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let forward = (&self.bytes, self.is_cut).cmp(&(&other.bytes, other.is_cut));
        if self.backward { forward.reverse() } else { forward }
    }
}

impl PartialOrd for OrderKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl OrderKey {
    /// Whether no row on a page that was not given sorts before this one.
    pub fn is_within(&self, bound: &OrderBound) -> bool {
        let common = self.bytes.len().min(bound.0.len());
        match self.bytes[..common].cmp(&bound.0[..common]) {
            // Equal so far means equal, except for further columns of the index, unless one of the two was truncated.
            Ordering::Equal => !self.is_cut && self.bytes.len() <= bound.0.len(),
            Ordering::Less => !self.backward,
            Ordering::Greater => self.backward,
        }
    }
}

/// The key of the first entry whose page was not given.
#[derive(Clone, Debug)]
pub struct OrderBound(Vec<u8>);

/// Pages that come next in an order.
#[derive(Clone, Debug)]
pub struct OrderedPages {
    /// Pages that were not given before.
    pub pages: Vec<PageRange>,
    /// The bound of all other pages; `None` if there are none.
    pub bound: Option<OrderBound>,
}

impl IndexOrder {
    /// The places of some rows, given the columns of the order. Rows that the filter excludes because of a NULL have none.
    pub fn keys(&self, columns: &[Column]) -> Vec<OrderKey> {
        let reader = KeyReader::new(columns);
        let room = self.entries.value_bytes_max() - self.prefix_bytes;
        let key = |row: usize| {
            let mut bytes = Vec::new();
            for (i, c) in columns.iter().enumerate() {
                append_ordered(self.orders[i], c.is_null(row), &mut bytes, |b| reader.append(i, row, b));
            }
            let is_cut = bytes.len() > room;
            bytes.truncate(room);
            OrderKey { bytes, is_cut, backward: self.backward }
        };
        let rows = 0..columns.first().map_or(0, Column::rows);
        let asked_for = |row: &usize| !self.without_nulls || columns.iter().all(|c| !c.is_null(*row));
        rows.filter(asked_for).map(key).collect()
    }
}

impl Snapshot {
    /// A B+-tree index that has the rows that pass `filter` in this order, if there is one. Columns that the filter fixes to one value
    /// may come before those of the order in the index. In the order they have no effect.
    pub fn index_order(&self, t: &Table, filter: Option<&Expr>, order: &[OrderColumn]) -> Option<IndexOrder> {
        let terms = filter.map_or(&[][..], terms_of);
        let btree = |i: &&IndexDef| i.kind != IndexKind::Page;
        let made = t.indexes().iter().filter(btree).filter_map(|i| self.order_of(t, i, terms, order));
        // The more columns are fixed, the fewer entries there are.
        made.max_by_key(|o| (o.prefix_bytes, std::cmp::Reverse(o.index.clone())))
    }

    fn order_of(
        &self,
        t: &Table,
        index: &IndexDef,
        terms: &[Expr],
        order: &[OrderColumn],
    ) -> Option<IndexOrder> {
        let type_of = |c: u16| t.schema().columns[usize::from(c)];
        // Floats: 0 is equal to -0, which sorts before it.
        let held = |c: u16| {
            let data_type = type_of(c).data_type;
            let values = match data_type {
                DataType::Real | DataType::Double => None,
                data_type => equal_to(terms, c, data_type),
            };
            values.and_then(|v| <[Vec<u8>; 1]>::try_from(v).ok()).map(|[v]| v)
        };
        let mut prefix = Vec::new();
        let mut behind: Vec<(u16, KeyOrder)> = Vec::new();
        for (n, &c) in index.columns.iter().enumerate() {
            match held(c).filter(|_| behind.is_empty()) {
                Some(value) => {
                    append_ordered(index.order(n), false, &mut prefix, |key| key.extend(value));
                }
                None => behind.push((c, index.order(n))),
            }
        }
        let order: Vec<OrderColumn> = order.iter().filter(|o| held(o.column).is_none()).copied().collect();
        let first = order.first()?;
        let is_alike = |(o, (c, _)): (&OrderColumn, &(u16, KeyOrder))| o.column == *c;
        if behind.len() < order.len() || !order.iter().zip(&behind).all(is_alike) {
            return None;
        }
        let orders: Vec<KeyOrder> = behind.iter().take(order.len()).map(|(_, order)| *order).collect();
        let backward = first.descending != orders[0].descending;
        let nulls = |o: &OrderColumn, of: &KeyOrder| match o.nulls {
            _ if !type_of(o.column).nullable => true,
            NullsAt::Nowhere => order.len() == 1,
            at => (at == NullsAt::First) == (of.nulls_first != backward),
        };
        let directed = |o: &OrderColumn, of: &KeyOrder| o.descending == (of.descending != backward);
        if !order.iter().zip(&orders).all(|(o, of)| directed(o, of) && nulls(o, of)) {
            return None;
        }
        let tree = self.catalog().tree(&t.index_tree(index))?.clone();
        let prefix_bytes = prefix.len();
        let (low, high) = bounds(terms, first.column, type_of(first.column).data_type);
        let without_nulls = first.nulls == NullsAt::Nowhere;
        let is_value = low.is_some() || high.is_some() || without_nulls;
        let (low, high) = if orders[0].descending { (high, low) } else { (low, high) };
        let end = |value: Option<Vec<u8>>| {
            let mut key = prefix.clone();
            if is_value {
                append_ordered(orders[0], false, &mut key, |key| key.extend(value.unwrap_or_default()));
            }
            key.truncate(index.entries.value_bytes_max());
            key
        };
        let range = KeyRange { low: end(low), high: end(high) };
        let columns = order.iter().map(|o| o.column).collect();
        // If nothing of the order's columns fits a key, there is no order.
        let fits = prefix_bytes < index.entries.value_bytes_max();
        let (index, entries) = (index.name.clone(), index.entries);
        fits.then_some(IndexOrder {
            index,
            columns,
            backward,
            orders: orders.clone(),
            tree,
            range,
            prefix_bytes,
            entries,
            without_nulls,
        })
    }

    /// Begins to walk along an index.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn walk(&self, t: &Table, order: &IndexOrder) -> Result<IndexWalk, EngineError> {
        let (low, end) = (Bound::Included(&order.range.low[..]), order.range.end());
        let end = end.as_ref().map(|e| &e[..]);
        let cursor = match order.backward {
            false => self.range(&order.tree, low, end)?,
            true => self.range_back(&order.tree, low, end)?,
        };
        let own = self.with_own_pages(t, BTreeSet::new());
        let directory = self.directory_of_entries(t)?;
        let (snapshot, order) = (self.clone(), order.clone());
        let mut walk = IndexWalk {
            snapshot,
            order,
            cursor,
            directory,
            own,
            given: BTreeSet::new(),
            named: 0,
            ahead: None,
        };
        walk.step()?;
        Ok(walk)
    }
}

fn pages_of(r: &PageRange) -> impl Iterator<Item = Lpid> + use<> {
    let r = *r;
    (r.first..r.first + r.count).map(move |p| r.extent.page(p))
}

/// A walk along an index.
pub struct IndexWalk {
    snapshot: Snapshot,
    order: IndexOrder,
    cursor: Cursor,
    /// Which page has which row, if the entries name rows.
    directory: Option<Arc<Directory>>,
    /// Pages that the reading transaction changed, and those of a delta. The index does not know the changes yet, so these pages come first.
    own: Vec<PageRange>,
    given: BTreeSet<Lpid>,
    /// How many of these the index named.
    named: u64,
    /// The entry that comes next.
    ahead: Option<Vec<u8>>,
}

impl IndexWalk {
    fn step(&mut self) -> Result<(), EngineError> {
        self.ahead = self.cursor.next()?.map(|(key, _)| key.to_vec());
        Ok(())
    }

    /// The pages that the next `entries` entries name and that were not given before. If all were, further entries are read. The first
    /// call also gives the pages that the reading transaction changed. `None` if the index was dropped meanwhile.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn next(&mut self, t: &Table, entries: u64) -> Result<Option<OrderedPages>, EngineError> {
        let walked = self.advance(t, entries);
        // Asked last: what was read of the tree before it was dropped is right.
        if self.snapshot.is_dropped(&self.order.tree) {
            return Ok(None);
        }
        walked.map(Some)
    }

    fn advance(&mut self, t: &Table, entries: u64) -> Result<OrderedPages, EngineError> {
        let (mut found, mut visited) = (BTreeSet::new(), 0);
        let mut pages = std::mem::take(&mut self.own);
        self.given.extend(pages.iter().flat_map(pages_of));
        while let Some(entry) = &self.ahead {
            if visited >= entries && !found.is_empty() {
                break;
            }
            if let Some(page) = page_named(self.directory.as_deref(), entry)
                && !self.given.contains(&page)
                && t.may_have_page(page)
            {
                found.insert(page);
                self.given.insert(page);
            }
            visited += 1;
            self.step()?;
        }
        self.named += found.len() as u64;
        pages.extend(ranges_of(&found));
        let bound = self.ahead.as_ref().map(|entry| {
            let end =
                entry.len().saturating_sub(self.order.entries.address_bytes()).max(self.order.prefix_bytes);
            OrderBound(entry[self.order.prefix_bytes..end].to_vec())
        });
        Ok(OrderedPages { pages, bound })
    }

    /// How many pages the index named so far.
    pub fn named(&self) -> u64 {
        self.named
    }

    /// Those of these pages that were not given.
    pub fn others(&self, of: &[PageRange]) -> Vec<PageRange> {
        ranges_of(&of.iter().flat_map(pages_of).filter(|p| !self.given.contains(p)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::NULL;
    use super::*;

    #[test]
    fn a_key_is_within_a_bound_where_no_other_row_can_come_before_it() {
        let key = |bytes: &[u8], is_cut, backward| OrderKey { bytes: bytes.into(), is_cut, backward };
        let bound = OrderBound(vec![1, 5, 1, 9]);
        let check = |bytes: &[u8], is_cut, forward, backward| {
            assert_eq!(key(bytes, is_cut, false).is_within(&bound), forward, "{bytes:?}");
            assert_eq!(key(bytes, is_cut, true).is_within(&bound), backward, "{bytes:?}");
        };
        check(&[1, 4], false, true, false);
        check(&[1, 6], false, false, true);
        check(&[1, 5], false, true, true);
        check(&[1, 5, 1, 9], false, true, true);
        // A truncated key may be greater or less than its bytes.
        check(&[1, 5, 1, 9], true, false, false);
        check(&[1, 5, 1, 9, 2], false, false, false);
        check(&[1, 4, 7], true, true, false);
        check(&[NULL], false, false, true);
    }

    #[test]
    fn keys_come_in_the_direction_of_the_walk() {
        let keys = |backward| {
            let mut all: Vec<OrderKey> =
                [[2], [1], [3]].map(|b| OrderKey { bytes: b.to_vec(), is_cut: false, backward }).to_vec();
            all.sort();
            all.into_iter().map(|k| k.bytes[0]).collect::<Vec<_>>()
        };
        assert_eq!((keys(false), keys(true)), (vec![1, 2, 3], vec![3, 2, 1]));
    }
}
