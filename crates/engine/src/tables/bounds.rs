//! Bounds of the values of key columns in the pages of a table, which the host keeps for a version of the table.
//!
//! ```text
//!   ReadIndex ─► entries of all pages ─► PageBounds of a version ─┬─► lookups by key, scans by minima
//!                                                                 └─ a commit ─► those of the next version
//!   commit: Batch::answer_entries ─► the new entries ──────────────────┘
//! ```
//!
//! Source: FLIXR §4.1 and §4.3, a host-side tree of the minima of pages, and UPDATE_HOST_INDEX.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::IndexedPage;
use lode_page::{DataType, Value};
use lode_program::{IndexRule, key_of};
use parking_lot::Mutex;

use crate::EngineError;

/// Pages that an inner node of a tree of their minima names: 8 bytes of a minimum and 8 of an address, in nodes of 4 KB.
const NODE_PAGES: usize = 256;
/// A table counts as sorted if a value is expected on at most so many pages.
pub(super) const SORTED_PAGES_MAX: f64 = 2.0;
/// Pages that changed are sorted in once there are more of them than this, and more than the root of all pages.
const CHANGED_MIN: usize = 64;

/// The bounds of the pages of a version of a table, by key. `None` after the first lookup.
#[derive(Debug, Default)]
pub(super) struct KnownBounds(pub(super) Mutex<BTreeMap<Vec<u16>, Option<Arc<PageBounds>>>>);

/// For some key columns, the bounds of their values in each page.
#[derive(Clone, Debug)]
pub(super) struct PageBounds {
    /// The key columns that are in the page index, by their position in the key.
    pub(super) columns: Vec<usize>,
    sorted: Arc<SortedPages>,
    /// Pages that were written or trimmed since the others were sorted.
    changed: BTreeMap<Lpid, Known>,
}

/// What is known of a page.
#[derive(Clone, Debug)]
enum Known {
    /// It has no values, or it is gone.
    Nothing,
    /// It has no entry.
    Unindexed,
    /// For each column, the least and the greatest order key.
    Bounds(Vec<(u64, u64)>),
}

#[derive(Debug, Default)]
struct SortedPages {
    /// Pages with values, by the least one of the first column.
    pages: Vec<BoundedPage>,
    /// Up to each of these pages, the greatest value of that column.
    max: Vec<u64>,
    /// Pages without an entry.
    unindexed: Vec<Lpid>,
}

#[derive(Debug)]
struct BoundedPage {
    lpid: Lpid,
    bounds: Vec<(u64, u64)>,
}

impl SortedPages {
    fn of(all: impl IntoIterator<Item = (Lpid, Known)>) -> Self {
        let (mut pages, mut unindexed) = (Vec::new(), Vec::new());
        for (lpid, known) in all {
            match known {
                Known::Nothing => {}
                Known::Unindexed => unindexed.push(lpid),
                Known::Bounds(bounds) => pages.push(BoundedPage { lpid, bounds }),
            }
        }
        pages.sort_by_key(|p: &BoundedPage| p.bounds[0].0);
        let max = pages.iter().scan(0, |max: &mut u64, p| {
            *max = p.bounds[0].1.max(*max);
            Some(*max)
        });
        Self { max: max.collect(), pages, unindexed }
    }

    /// Pages whose minimum is at most `high`, from the first one on up to which a maximum reaches `low`.
    fn by_minimum(&self, low: u64, high: u64) -> &[BoundedPage] {
        let end = self.pages.partition_point(|p| p.bounds[0].0 <= high);
        &self.pages[self.max[..end].partition_point(|&max| max < low)..end]
    }
}

impl PageBounds {
    /// The bounds of columns of a key in pages, by the entries of the pages; `None` if the page index has no bounds of them.
    pub(super) fn of(
        rule: &IndexRule,
        key: &[u16],
        pages: impl Iterator<Item = Result<IndexedPage, EngineError>>,
    ) -> Result<Option<Self>, EngineError> {
        let is_bounded = |i: &usize| rule.bounded_columns().any(|c| c == key[*i]);
        let columns: Vec<usize> = (0..key.len()).filter(is_bounded).collect();
        if columns.is_empty() {
            return Ok(None);
        }
        let known = pages.map(|p| p.and_then(|p| Ok((p.lpid, known(rule, key, &columns, &p)?))));
        let sorted = SortedPages::of(known.collect::<Result<Vec<_>, EngineError>>()?);
        Ok(Some(Self { columns, sorted: Arc::new(sorted), changed: BTreeMap::new() }))
    }

    /// Notes what is known of a page now.
    fn change(&mut self, lpid: Lpid, known: Known) {
        self.changed.insert(lpid, known);
        if self.changed.len().pow(2) > self.sorted.pages.len().max(CHANGED_MIN.pow(2)) {
            let bounds = self.sorted.pages.iter().map(|p| (p.lpid, Known::Bounds(p.bounds.clone())));
            let unindexed = self.sorted.unindexed.iter().map(|lpid| (*lpid, Known::Unindexed));
            let stays = |(lpid, _): &(Lpid, Known)| !self.changed.contains_key(lpid);
            let all: Vec<_> = bounds.chain(unindexed).filter(stays).collect();
            let changed = std::mem::take(&mut self.changed);
            self.sorted = Arc::new(SortedPages::of(all.into_iter().chain(changed)));
        }
    }

    /// The bounds after a commit that trimmed some pages and wrote others, whose entries the drive answered.
    pub(super) fn after(
        &self,
        rule: &IndexRule,
        key: &[u16],
        gone: &[Lpid],
        written: &BTreeMap<Lpid, &IndexedPage>,
    ) -> Result<Self, EngineError> {
        let mut next = self.clone();
        gone.iter().for_each(|lpid| next.change(*lpid, Known::Nothing));
        for (&lpid, page) in written {
            next.change(lpid, known(rule, key, &self.columns, page)?);
        }
        Ok(next)
    }

    /// Levels of a tree of the minima of the first column.
    pub(super) fn levels(&self) -> u64 {
        let (mut nodes, mut levels) = (self.sorted.pages.len().div_ceil(NODE_PAGES), 1);
        while nodes > 1 {
            nodes = nodes.div_ceil(NODE_PAGES);
            levels += 1;
        }
        levels
    }

    /// Pages that may have a value from `low` to `high` of the first column, as far as minima say. Among them are pages whose maximum is
    /// less than `low`.
    pub(super) fn by_minimum(&self, low: u64, high: u64) -> Vec<Lpid> {
        let mut found = self.current(self.sorted.by_minimum(low, high), |_| true);
        found.extend(self.changed_pages(|bounds| bounds[0].0 <= high && bounds[0].1 >= low));
        found
    }

    /// The page among whose values a value of the first column belongs: that with the greatest minimum of at most the value, or the first
    /// page. `None` if there is no page with values.
    pub(super) fn page_among(&self, value: u64) -> Option<Lpid> {
        let pages = &self.sorted.pages;
        let end = pages.partition_point(|p| p.bounds[0].0 <= value);
        let is_current = |p: &&BoundedPage| !self.changed.contains_key(&p.lpid);
        let of_sorted = pages[..end].iter().rev().find(is_current);
        let first = pages.iter().find(is_current).filter(|_| of_sorted.is_none());
        let changed = self.changed.iter().filter_map(|(lpid, known)| match known {
            Known::Bounds(bounds) => Some((bounds[0].0, *lpid)),
            Known::Nothing | Known::Unindexed => None,
        });
        let all = of_sorted.or(first).map(|p| (p.bounds[0].0, p.lpid)).into_iter().chain(changed);
        // The greatest of those that are at most the value; else the least.
        let rank = |minimum: u64| (minimum <= value, if minimum <= value { minimum } else { !minimum });
        all.max_by_key(|(minimum, _)| rank(*minimum)).map(|(_, lpid)| lpid)
    }

    /// Those of these pages that did not change since, and whose bounds are within; and pages that have no entry.
    fn current(&self, sorted: &[BoundedPage], is_within: impl Fn(&[(u64, u64)]) -> bool) -> Vec<Lpid> {
        let bounded = sorted.iter().filter(|p| is_within(&p.bounds)).map(|p| &p.lpid);
        let all = self.sorted.unindexed.iter().chain(bounded);
        all.filter(|lpid| !self.changed.contains_key(*lpid)).copied().collect()
    }

    /// Pages that changed and whose bounds are within, or that have no entry.
    fn changed_pages(&self, is_within: impl Fn(&[(u64, u64)]) -> bool) -> impl Iterator<Item = Lpid> {
        self.changed.iter().filter_map(move |(lpid, known)| match known {
            Known::Nothing => None,
            Known::Unindexed => Some(*lpid),
            Known::Bounds(bounds) => is_within(bounds).then_some(*lpid),
        })
    }

    /// The pages that a value within the bounds of the first of the columns is expected to be on, if all such values are as frequent.
    /// It is near 1 in a table that is sorted by that column.
    pub(super) fn pages_a_value(&self) -> f64 {
        let SortedPages { pages, max, unindexed } = &*self.sorted;
        let unindexed = unindexed.len() as f64;
        let Some(first) = pages.first() else { return unindexed };
        let values = |(min, max): (u64, u64)| (max - min) as f64 + 1.0;
        let all = values((first.bounds[0].0, *max.last().expect("there is a page")));
        unindexed + pages.iter().map(|p| values(p.bounds[0])).sum::<f64>() / all
    }

    /// The pages that may hold this key.
    pub(super) fn candidates(&self, values: &[Value], types: &[DataType]) -> Vec<Lpid> {
        let wanted: Vec<Option<u64>> = self.columns.iter().map(|&i| key_of(types[i], &values[i])).collect();
        // A value without an order key may be anywhere.
        let holds = |bounds: &[(u64, u64)]| {
            let each = bounds.iter().zip(&wanted);
            each.into_iter().all(|(&(min, max), v)| v.is_none_or(|v| (min..=max).contains(&v)))
        };
        let sorted = match wanted[0] {
            Some(v) => self.sorted.by_minimum(v, v),
            None => &self.sorted.pages,
        };
        let mut found = self.current(sorted, holds);
        found.extend(self.changed_pages(holds));
        found
    }
}

/// What an entry says of the columns of a key.
fn known(rule: &IndexRule, key: &[u16], columns: &[usize], page: &IndexedPage) -> Result<Known, EngineError> {
    let Some(entry) = &page.entry else { return Ok(Known::Unindexed) };
    rule.check(entry)?;
    let mut bounds = Vec::with_capacity(columns.len());
    for &i in columns {
        match rule.bounds(entry, key[i]) {
            Some(of) => match of.keys {
                Some(keys) => bounds.push(keys),
                None => return Ok(Known::Nothing),
            },
            None => bounds.push((0, u64::MAX)),
        }
    }
    Ok(Known::Bounds(bounds))
}
