//! The directory: which page of the main has which rows.
//!
//! ```text
//!   first row id ─► page, and its ids as runs:  slot 0 is id first + 0, slot 40 is id first + 47, ...
//! ```
//!
//! The rows of a page ascend by id. Where ids are missing, because rows were deleted, a new run begins.
//! Invariant: spans of ids do not overlap.

use std::collections::BTreeMap;
use std::ops::Bound;

use lode_base::wire::{Malformed, Reader, Writer};
use lode_base::{Lpid, PageBuf};

use lode_page::{Column, Value};

use super::ids::{RowId, id_of_key, page_range};
use crate::tables::key::{KeyReader, chosen, has_null, key_of_values, prefix_end};
use crate::tables::planted::{self, Planted};
use crate::trees::{KEY_BYTES_MAX, Snapshot, Tree};
use crate::{EngineError, Map};

/// The most bytes of a key that a bound has.
const BOUND_BYTES_MAX: usize = 64;

/// The pages of the main at one version of a table.
#[derive(Debug, Default)]
pub(in crate::tables) struct Directory {
    spans: BTreeMap<RowId, Span>,
    first_of: Map<Lpid, RowId>,
    /// Pages whose keys are in no tree, by their lower bounds.
    by_key: Vec<Bounded>,
}

/// A page whose keys are in no tree.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bounded {
    low: Vec<u8>,
    /// No key of the page reaches this.
    end: Vec<u8>,
    first: RowId,
    /// The greatest end of all pages up to this one.
    greatest: Vec<u8>,
}

/// A page of the main, and the ids of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tables) struct Span {
    pub(in crate::tables) lpid: Lpid,
    pub(in crate::tables) rows: u32,
    /// Runs of consecutive ids: the first slot, and the distance of its id from the first id of the page. Empty: all are consecutive.
    pub(in crate::tables) runs: Vec<(u32, u32)>,
    /// Bounds of the page's keys, if a tree has not all of them.
    pub(in crate::tables) keys: Option<KeyBounds>,
}

/// How the rows of a page are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tables) enum Sorted {
    No,
    /// The leading key column does not fall from row to row.
    ByLeading,
    /// Whole keys do not fall.
    ByKey,
}

/// Bounds of the keys of a page, as keys of trees have them. Keys of the page begin with these bounds or lie between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tables) struct KeyBounds {
    pub(in crate::tables) low: Vec<u8>,
    pub(in crate::tables) high: Vec<u8>,
    pub(in crate::tables) sorted: Sorted,
}

impl KeyBounds {
    /// The bounds of the keys of a page, given as all its columns; `None` also if the table has no key.
    pub(in crate::tables) fn of_page(columns: &[Column], key: &[u16]) -> Option<Self> {
        if key.is_empty() { None } else { Self::of(&chosen(columns, key)) }
    }

    /// The bounds of keys in these columns; `None` if one has a NULL, or there are no rows.
    fn of(key: &[Column]) -> Option<Self> {
        if any_null(key) {
            return None;
        }
        let reader = KeyReader::new(key);
        let (mut by_leading, mut by_key) = (true, true);
        let (mut low, mut high): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
        let (mut last, mut last_leading, mut now) = (Vec::new(), 0, Vec::new());
        for row in 0..key[0].rows() {
            let leading = reader.read_behind_ones(row, &mut now);
            if row == 0 {
                (low, high) = (now.clone(), now.clone());
            } else {
                planted::unless(Planted::SortedThoughNot, || {
                    by_leading &= last[..last_leading] <= now[..leading];
                    by_key &= last <= now;
                });
                if now < low {
                    low.clone_from(&now);
                }
                if now > high && !planted::is(Planted::BoundsTooNarrow) {
                    high.clone_from(&now);
                }
            }
            std::mem::swap(&mut last, &mut now);
            last_leading = leading;
        }
        let sorted = match (by_key, by_leading) {
            (true, _) => Sorted::ByKey,
            (false, true) => Sorted::ByLeading,
            (false, false) => Sorted::No,
        };
        Self::cut(low, high, sorted)
    }

    /// The bounds of keys that are sorted in this way.
    pub(in crate::tables) fn of_sorted(key: &[Column], sorted: Sorted) -> Option<Self> {
        let bounding = match sorted {
            Sorted::No => return Self::of(key),
            Sorted::ByLeading => &key[..1],
            Sorted::ByKey => key,
        };
        if any_null(bounding) {
            return None;
        }
        let types = || bounding.iter().map(Column::data_type);
        let of = |row: usize| {
            let values: Vec<Value> = bounding.iter().map(|c| c.value(row)).collect();
            key_of_values(types(), &values)
        };
        let last = key[0].rows().checked_sub(1)?;
        Self::cut(of(0)?, of(last)?, sorted)
    }

    fn cut(mut low: Vec<u8>, mut high: Vec<u8>, sorted: Sorted) -> Option<Self> {
        low.truncate(BOUND_BYTES_MAX);
        high.truncate(BOUND_BYTES_MAX);
        (!high.is_empty()).then_some(Self { low, high, sorted })
    }

    /// Where keys of the page end.
    fn end(&self) -> Vec<u8> {
        match prefix_end(&self.high) {
            Bound::Excluded(end) => end,
            _ => vec![u8::MAX; KEY_BYTES_MAX + 1],
        }
    }
}

/// Whether a row has a NULL in these columns.
fn any_null(key: &[Column]) -> bool {
    key.iter().any(|c| c.validity().is_some()) && (0..key[0].rows()).any(|row| has_null(key, row))
}

impl Span {
    /// A page whose rows have consecutive ids.
    pub(in crate::tables) fn dense(lpid: Lpid, rows: u32, keys: Option<KeyBounds>) -> Self {
        Self { lpid, rows, runs: Vec::new(), keys }
    }

    /// A page of rows with these ids, which ascend.
    pub(in crate::tables) fn of_ids(lpid: Lpid, ids: &[RowId], keys: Option<KeyBounds>) -> Self {
        let first = ids[0].raw();
        let mut runs: Vec<(u32, u32)> = vec![(0, 0)];
        for (slot, pair) in (1..).zip(ids.windows(2)) {
            if pair[1].raw() != pair[0].raw() + 1 {
                let distance = u32::try_from(pair[1].raw() - first).expect("the ids of a page are close");
                runs.push((slot, distance));
            }
        }
        if runs.len() == 1 || planted::is(Planted::RunsIgnored) {
            runs.clear();
        }
        Self { lpid, rows: ids.len() as u32, runs, keys }
    }

    /// The id of a slot of a page with this first id.
    pub(in crate::tables) fn id(&self, first: RowId, slot: u32) -> RowId {
        first.plus(self.distance(slot))
    }

    /// The distance of the id of a slot from the first id.
    fn distance(&self, slot: u32) -> u64 {
        let run = self.runs.partition_point(|(first, _)| *first <= slot).checked_sub(1);
        run.map_or(slot.into(), |r| u64::from(self.runs[r].1) + u64::from(slot - self.runs[r].0))
    }

    /// The slot of the row with an id at this distance from the first, if the page has it.
    fn slot(&self, distance: u64) -> Option<u32> {
        let slot = match self.runs.partition_point(|(_, at)| u64::from(*at) <= distance).checked_sub(1) {
            None => distance,
            Some(r) => {
                let slot = u64::from(self.runs[r].0) + (distance - u64::from(self.runs[r].1));
                let end = self.runs.get(r + 1).map_or(self.rows, |(next, _)| *next);
                if slot >= end.into() {
                    return None;
                }
                slot
            }
        };
        (slot < self.rows.into()).then_some(slot as u32)
    }

    pub(in crate::tables) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u64(self.lpid.raw());
        w.u32(self.rows);
        w.count(self.runs.len());
        for (slot, distance) in &self.runs {
            w.u32(*slot);
            w.u32(*distance);
        }
        w.flag(self.keys.is_some());
        self.keys.iter().for_each(|k| w.u8(k.sorted as u8));
        for bound in self.keys.iter().flat_map(|k| [&k.low, &k.high]) {
            w.bytes(bound);
        }
        bytes
    }

    fn decode(bytes: &PageBuf) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let lpid = Lpid::from_raw(r.u64()?).ok_or(r.bad("no page"))?;
        let rows = r.u32()?;
        let runs =
            (0..r.count(8)?).map(|_| Ok((r.u32()?, r.u32()?))).collect::<Result<Vec<_>, Malformed>>()?;
        let ascend = runs.windows(2).all(|w: &[(u32, u32)]| w[0].0 < w[1].0 && w[0].1 < w[1].1);
        if !ascend || runs.first().is_some_and(|f| *f != (0, 0)) || runs.iter().any(|(slot, _)| *slot >= rows)
        {
            return Err(r.bad("runs that do not ascend"));
        }
        let keys = match r.flag()? {
            true => {
                let sorted = match r.u8()? {
                    0 => Sorted::No,
                    1 => Sorted::ByLeading,
                    2 => Sorted::ByKey,
                    _ => return Err(r.bad("an unknown order of keys")),
                };
                Some(KeyBounds { sorted, low: r.bytes()?.to_vec(), high: r.bytes()?.to_vec() })
            }
            false => None,
        };
        r.end()?;
        Ok(Self { lpid, rows, runs, keys })
    }
}

impl Directory {
    /// The directory that a tree has at a snapshot. Bounds of pages whose first row id is below `bounds_from` do not count.
    pub(in crate::tables) fn read(
        snapshot: &Snapshot,
        tree: &Tree,
        bounds_from: RowId,
    ) -> Result<Self, EngineError> {
        let (low, high) = page_range();
        let mut cursor = snapshot.range(tree, Bound::Included(&low), Bound::Excluded(&high))?;
        let mut spans = BTreeMap::new();
        while let Some((key, value)) = cursor.next()? {
            let bad = |what: String| EngineError::invalid(tree.name(), format!("its directory: {what}"));
            let first = id_of_key(key).ok_or_else(|| bad("a key without a row id".into()))?;
            let mut span = Span::decode(&value).map_err(|e| bad(e.to_string()))?;
            span.keys = span.keys.filter(|_| first >= bounds_from);
            spans.insert(first, span);
        }
        Ok(Self::of(spans))
    }

    pub(in crate::tables) fn of(spans: BTreeMap<RowId, Span>) -> Self {
        let first_of = spans.iter().map(|(&first, s)| (s.lpid, first)).collect();
        let bounded = |(&first, s): (&RowId, &Span)| {
            let keys = s.keys.as_ref()?;
            Some(Bounded { low: keys.low.clone(), end: keys.end(), first, greatest: Vec::new() })
        };
        let mut by_key: Vec<Bounded> = spans.iter().filter_map(bounded).collect();
        by_key.sort_unstable();
        let mut greatest: Vec<u8> = Vec::new();
        for page in &mut by_key {
            if page.end > greatest {
                greatest.clone_from(&page.end);
            }
            page.greatest.clone_from(&greatest);
        }
        Self { spans, first_of, by_key }
    }

    /// The pages, by their first row ids.
    pub(in crate::tables) fn spans(&self) -> &BTreeMap<RowId, Span> {
        &self.spans
    }

    /// The place of a row, if the main has it.
    pub(in crate::tables) fn place(&self, id: RowId) -> Option<(Lpid, u32)> {
        let (first, span) = self.spans.range(..=id).next_back()?;
        Some((span.lpid, span.slot(id.raw() - first.raw())?))
    }

    /// The id of a row of a page.
    pub(in crate::tables) fn id_of(&self, lpid: Lpid, slot: u32) -> Option<RowId> {
        let first = self.first_of.get(&lpid)?;
        let span = self.spans.get(first).filter(|s| slot < s.rows)?;
        Some(first.plus(span.distance(slot)))
    }

    /// The ids of a page.
    pub(in crate::tables) fn span_of(&self, lpid: Lpid) -> Option<&Span> {
        self.spans.get(self.first_of.get(&lpid)?)
    }

    /// Pages whose keys are in no tree and that may have a row with this key, given as whole bytes.
    pub(in crate::tables) fn pages_of_key<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Iterator<Item = (RowId, &'a Span)> + 'a {
        self.pages_of_range(key, Bound::Included(key)).map(|(_, first, span)| (first, span))
    }

    /// Pages whose keys are in no tree and that may have rows with keys from `low` on, up to `end`: no key of the page is below the
    /// first bound, which does not fall from page to page, and all are below the second.
    pub(in crate::tables) fn pages_of_range<'a>(
        &'a self,
        low: &'a [u8],
        end: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = ([&'a [u8]; 2], RowId, &'a Span)> + 'a {
        let first = self.by_key.partition_point(|page| &page.greatest[..] <= low);
        let near = self.by_key[first..].iter().take_while(move |page| match end {
            Bound::Excluded(end) => &page.low[..] < end,
            Bound::Included(end) => &page.low[..] <= end,
            Bound::Unbounded => true,
        });
        let near = near.filter(move |page| low < &page.end[..]);
        near.map(|page| ([&page.low[..], &page.end[..]], page.first, &self.spans[&page.first]))
    }
}

#[cfg(test)]
mod tests {
    use lode_base::ExtentId;
    use lode_page::{ColumnBuilder, DataType};

    use super::*;

    fn lpid(page: u16) -> Lpid {
        ExtentId::new(9).unwrap().page(page)
    }

    fn id(raw: u64) -> RowId {
        RowId::new(raw)
    }

    #[test]
    fn rows_are_found_by_id_and_ids_by_place() {
        // Ids 100 to 104, 110, 111, and 200 to 202.
        let gaps = Span { lpid: lpid(0), rows: 7, runs: vec![(0, 0), (5, 10)], keys: None };
        let d = Directory::of(BTreeMap::from([(id(100), gaps), (id(200), Span::dense(lpid(1), 3, None))]));
        let ids: Vec<u64> = (100..105).chain(110..112).chain(200..203).collect();
        let mut places = (0..7).map(|s| (lpid(0), s)).chain((0..3).map(|s| (lpid(1), s)));
        for raw in 90..220 {
            let expected = ids.contains(&raw).then(|| places.next().unwrap());
            assert_eq!(d.place(id(raw)), expected, "{raw}");
            if let Some((page, slot)) = expected {
                assert_eq!(d.id_of(page, slot), Some(id(raw)));
            }
        }
        assert_eq!((d.id_of(lpid(0), 7), d.id_of(lpid(2), 0)), (None, None));
    }

    #[test]
    fn keys_lead_to_the_pages_whose_bounds_hold_them() {
        let span = |page, low: &[u8], high: &[u8]| {
            Span::dense(
                lpid(page),
                1,
                Some(KeyBounds { low: low.into(), high: high.into(), sorted: Sorted::ByKey }),
            )
        };
        let spans = [
            (0, span(0, b"a", b"f")),
            (10, span(1, b"f", b"k")),
            (20, span(2, b"b", b"c")),
            (30, span(3, b"m", b"n")),
        ];
        let d = Directory::of(spans.into_iter().map(|(raw, s)| (id(raw), s)).collect());
        let pages = |key: &[u8]| {
            let mut found: Vec<u16> = d.pages_of_key(key).map(|(_, s)| s.lpid.page()).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(pages(b"a"), [0]);
        assert_eq!(pages(b"bx"), [0, 2]);
        assert_eq!(pages(b"f"), [0, 1]);
        assert_eq!(pages(b"l"), [0; 0]);
        assert_eq!(pages(b"n"), [3]);
        assert_eq!(pages(b"A"), [0; 0]);
    }

    #[test]
    fn bounds_of_whole_keys_and_of_leading_columns_lead_to_pages_side_by_side() {
        let keys = |rows: &[(i64, i64)]| {
            let mut columns = [DataType::Integer, DataType::BigInt].map(ColumnBuilder::new);
            for (a, b) in rows {
                columns[0].push(&Value::Int(*a)).unwrap();
                columns[1].push(&Value::Int(*b)).unwrap();
            }
            columns.map(ColumnBuilder::finish)
        };
        let pages = [
            KeyBounds::of(&keys(&[(1, 1), (1, 7), (2, 3)])).unwrap(),
            KeyBounds::of_sorted(&keys(&[(2, 5), (2, 9)]), Sorted::ByKey).unwrap(),
            KeyBounds::of_sorted(&keys(&[(2, 8), (2, 6), (3, 1)]), Sorted::ByLeading).unwrap(),
            KeyBounds::of(&keys(&[(5, 1), (4, 2)])).unwrap(),
        ];
        let sorted = [Sorted::ByKey, Sorted::ByKey, Sorted::ByLeading, Sorted::No];
        assert_eq!(pages.each_ref().map(|p| p.sorted), sorted);
        let spans = (0..).zip(pages).map(|(i, p)| (id(10 * i), Span::dense(lpid(i as u16), 3, Some(p))));
        let d = Directory::of(spans.collect());
        let found = |a, b| {
            let types = [DataType::Integer, DataType::BigInt];
            let key = key_of_values(types, &[Value::Int(a), Value::Int(b)]).unwrap();
            let mut found: Vec<u16> = d.pages_of_key(&key).map(|(_, s)| s.lpid.page()).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(found(1, 0), [0; 0]);
        assert_eq!(found(1, 7), [0]);
        assert_eq!(found(2, 3), [0, 2]);
        assert_eq!(found(2, 4), [2]);
        assert_eq!(found(2, 9), [1, 2]);
        assert_eq!(found(2, 10), [2]);
        assert_eq!(found(3, 5), [2]);
        assert_eq!(found(4, 1), [0; 0]);
        assert_eq!(found(4, 2), [3]);
        assert_eq!(found(5, 1), [3]);
        assert_eq!(found(5, 2), [0; 0]);
    }

    #[test]
    fn entries_come_back_and_others_are_refused() {
        let keys = Some(KeyBounds { low: vec![1], high: vec![2, 3], sorted: Sorted::ByLeading });
        let span = Span { lpid: lpid(5), rows: 9, runs: vec![(0, 0), (4, 6)], keys };
        let bytes = span.encode();
        assert_eq!(Span::decode(&PageBuf::copy_from(&bytes)).unwrap(), span);
        for end in 0..bytes.len() {
            assert!(Span::decode(&PageBuf::copy_from(&bytes[..end])).is_err());
        }
        let descends = Span { runs: vec![(0, 0), (4, 6), (3, 9)], ..span };
        assert!(Span::decode(&PageBuf::copy_from(&descends.encode())).is_err());
    }
}
