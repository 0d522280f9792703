//! An index page: the entries of the pages of one extent, or of one part of it, and unions of them.
//!
//! ```text
//!   | rule number 8 | entry bytes 4 | slots 4 | one bit per slot: 128 | slots x entry bytes |
//!
//!   entries of up to 2,000 bytes:   [ 0 .................... 1,023 ]           one index page an extent
//!   longer ones:                    [ 0 .. 31 ][ 32 .. 63 ] ...                one for each group of 32 pages: a part
//! ```
//!
//! The length of an entry says which index page it is kept in: so no index page passes 2 MB. Entries of one extent that are in force all
//! have one length, since they are of one rule. Where a rule was replaced by one with entries that lie elsewhere, index pages of the old
//! one become vacant as soon as an entry of the new one is set (`Pages::changed`).
//!
//! A union is an entry for several pages: for each 32 of the extent, a group, and for the whole extent. Unions are in memory alone. Each
//! is made when it is first asked for, and dropped when a page of it changes. That of all parts of an extent is kept by `unions.rs`.
//!
//! Invariant: only whoever holds the commit lock changes it. The old index entry is cleared before the mapping entry changes,
//! and the new one is set after, so that a reader can pair an index entry with a version (`replace.rs`).

use std::ops::Range;
use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId, Geometry, Lpid};
use lode_program::IndexEntry;
use lode_program::index::SHORT_ENTRY_BYTES_MAX;
use parking_lot::RwLock;

use super::Rule;
use crate::codec::{Malformed, Put, Take};
use crate::own::{EXTENT_PARTS, OwnKind, PARTS_FROM, Resident};
use crate::planted::{self, Planted};

const PRESENT_BYTES: usize = EXTENT_PAGES / 8;
/// Pages of a group.
pub(crate) const GROUP_PAGES: u16 = 32;
pub(super) const GROUPS: usize = EXTENT_PAGES / GROUP_PAGES as usize;
const _: () = assert!(GROUPS as u64 == EXTENT_PARTS);
/// Whether entries of so many bytes are kept in parts of extents.
#[inline]
pub(crate) fn is_long(entry_bytes: usize) -> bool {
    entry_bytes > SHORT_ENTRY_BYTES_MAX
}

/// The number of the index page of a part.
pub(super) fn part_number(extent: ExtentId, group: usize) -> u64 {
    PARTS_FROM + extent.raw() * GROUPS as u64 + group as u64
}

/// The number of the index page of the part that a page is of.
pub(crate) fn part_of(lpid: Lpid) -> u64 {
    part_number(lpid.extent(), usize::from(lpid.page() / GROUP_PAGES))
}

/// The numbers of the index pages of all parts of an extent.
pub(crate) fn parts_of(extent: ExtentId) -> Range<u64> {
    part_number(extent, 0)..part_number(extent, GROUPS)
}

/// The number of the index page that has the entry of a page, if the entry has so many bytes.
pub(crate) fn number_of(lpid: Lpid, entry_bytes: usize) -> u64 {
    if is_long(entry_bytes) { part_of(lpid) } else { lpid.extent().raw() }
}

/// The extent that an index page is of.
pub(crate) fn extent_of(number: u64) -> u64 {
    number.checked_sub(PARTS_FROM).map_or(number, |part| part / GROUPS as u64)
}

struct Entries {
    rule: u64,
    entry_bytes: usize,
    present: Present,
    bytes: Vec<u8>,
    unions: Unions,
}

/// The pages that have an entry, a bit each.
#[derive(Clone, Copy)]
pub(super) struct Present([u8; PRESENT_BYTES]);

/// The unions that were made; of groups, none before the first.
#[derive(Default)]
struct Unions {
    groups: Vec<Option<Arc<IndexEntry>>>,
    extent: Option<Arc<IndexEntry>>,
}

/// Which pages of an extent a union is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Those of the group with this number.
    Group(usize),
    /// All.
    Extent,
}

/// The entry of several pages.
pub(crate) struct Union {
    pub(crate) entry: Arc<IndexEntry>,
    /// By page of the extent.
    pub(super) present: Present,
    /// Entries that were looked at to make it.
    pub(crate) looked_at: u32,
}

/// The pages of a group.
fn pages_of(group: usize) -> Range<usize> {
    let first = group * usize::from(GROUP_PAGES);
    first..first + usize::from(GROUP_PAGES)
}

impl Union {
    /// Whether the union is also of this page of the extent.
    pub(crate) fn is_of(&self, page: u16) -> bool {
        self.present.has(page.into())
    }
}

impl Present {
    pub(super) const NONE: Self = Self([0; PRESENT_BYTES]);

    /// Adds the pages of another.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    /// Pages of the extent, where these are those of the part of a group.
    fn of_part(self, group: usize) -> Self {
        let mut all = Self::NONE;
        pages_of(0)
            .zip(pages_of(group))
            .filter(|(slot, _)| self.has(*slot))
            .for_each(|(_, page)| all.set(page));
        all
    }

    fn has(&self, page: usize) -> bool {
        self.0[page / 8] >> (page % 8) & 1 == 1
    }

    fn set(&mut self, page: usize) {
        self.0[page / 8] |= 1 << (page % 8);
    }

    fn clear(&mut self, page: usize) {
        self.0[page / 8] &= !(1 << (page % 8));
    }
}

impl Unions {
    fn get(&self, level: Level) -> Option<&Arc<IndexEntry>> {
        match level {
            Level::Group(g) => self.groups.get(g)?.as_ref(),
            Level::Extent => self.extent.as_ref(),
        }
    }

    /// Forgets those of a page.
    fn drop_of(&mut self, page: usize) {
        self.extent = None;
        if let Some(group) = self.groups.get_mut(page / usize::from(GROUP_PAGES)) {
            *group = None;
        }
    }
}

impl Entries {
    fn new(rule: u64, entry_bytes: usize) -> Self {
        Self { rule, entry_bytes, present: Present::NONE, bytes: Vec::new(), unions: Unions::default() }
    }

    /// Where the entry of page `page` of the extent is.
    fn slot(&self, page: usize) -> usize {
        if is_long(self.entry_bytes) { page % usize::from(GROUP_PAGES) } else { page }
    }

    fn of_page(&self, page: usize) -> Option<&[u8]> {
        let slot = self.slot(page);
        self.present.has(slot).then(|| &self.bytes[slot * self.entry_bytes..(slot + 1) * self.entry_bytes])
    }

    /// The pages of the extent that have an entry, of those that a union is of.
    fn present_in(&self, level: Level) -> Present {
        match level {
            Level::Group(group) if is_long(self.entry_bytes) => self.present.of_part(group),
            _ => self.present,
        }
    }

    /// The union of a level, made if there is none. `None` if it has no entry, or one that the rule never makes. Adds the entries that
    /// it looked at.
    fn union(&mut self, rule: &Rule, level: Level, looked_at: &mut u32) -> Option<Arc<IndexEntry>> {
        if let Some(made) = self.unions.get(level) {
            return Some(made.clone());
        }
        let mut union: Option<IndexEntry> = None;
        let mut add = |entry: &IndexEntry| {
            *looked_at += 1;
            match &mut union {
                Some(union) => rule.rule.widen(union, entry),
                None => union = Some(entry.clone()),
            }
        };
        match level {
            Level::Group(g) => {
                for page in pages_of(g) {
                    if let Some(bytes) = self.of_page(page) {
                        add(&IndexEntry::decode(&rule.rule, bytes).ok()?);
                    }
                }
            }
            Level::Extent => {
                let mut below = 0;
                for g in 0..GROUPS {
                    let has_any = pages_of(g).any(|page| self.present.has(page));
                    if has_any {
                        add(&*self.union(rule, Level::Group(g), &mut below)?);
                    }
                }
                *looked_at += below;
            }
        }
        let union = Arc::new(union?);
        match level {
            Level::Group(g) => {
                self.unions.groups.resize(GROUPS, None);
                self.unions.groups[g] = Some(union.clone());
            }
            Level::Extent => self.unions.extent = Some(union.clone()),
        }
        Some(union)
    }
}

pub(crate) struct IndexPage(RwLock<Entries>);

/// Slots of an index page with entries of so many bytes.
fn slots_max(entry_bytes: usize) -> usize {
    if is_long(entry_bytes) { GROUP_PAGES.into() } else { EXTENT_PAGES }
}

/// Most bytes that an index page with entries of `entry_bytes` takes on the medium.
pub(crate) fn page_bytes(entry_bytes: usize) -> usize {
    16 + PRESENT_BYTES + slots_max(entry_bytes) * entry_bytes + 64
}

impl IndexPage {
    pub(crate) fn vacant() -> Self {
        Self(RwLock::new(Entries::new(0, 0)))
    }

    /// The entry of page `page`, if it was made by rule `rule`.
    pub(crate) fn get(&self, rule: u64, page: u16) -> Option<Box<[u8]>> {
        let e = self.0.read();
        if e.rule != rule {
            return None;
        }
        e.of_page(page.into()).map(Into::into)
    }

    /// Whether page `page` has an entry that was made by rule `rule`.
    pub(crate) fn has(&self, rule: u64, page: u16) -> bool {
        let e = self.0.read();
        e.rule == rule && e.of_page(page.into()).is_some()
    }

    /// Bytes by which it grows if it gets entries of `entry_bytes` up to that of page `page`.
    pub(crate) fn growth(&self, page: u16, entry_bytes: usize) -> usize {
        let e = self.0.read();
        let slots = if is_long(entry_bytes) { page % GROUP_PAGES } else { page } + 1;
        (usize::from(slots) * entry_bytes).saturating_sub(e.bytes.len())
    }

    /// The union of a level, of the pages with an entry that `rule` made. `None` if there is no such page.
    pub(crate) fn union(&self, rule: &Rule, level: Level) -> Option<Union> {
        let made = |e: &Entries| (e.rule == rule.number).then(|| e.unions.get(level).cloned());
        let e = self.0.read();
        if let Some(entry) = made(&e)? {
            return Some(Union { entry, present: e.present_in(level), looked_at: 0 });
        }
        drop(e);
        let mut e = self.0.write();
        made(&e)?;
        let mut looked_at = 0;
        let entry = e.union(rule, level, &mut looked_at)?;
        Some(Union { entry, present: e.present_in(level), looked_at })
    }

    pub(crate) fn set(&self, rule: u64, page: u16, entry: &[u8]) {
        let mut e = self.0.write();
        if e.rule != rule || e.entry_bytes != entry.len() {
            *e = Entries::new(rule, entry.len());
        }
        let (at, len) = (e.slot(page.into()), entry.len());
        if e.bytes.len() < (at + 1) * len {
            e.bytes.resize((at + 1) * len, 0);
        }
        e.bytes[at * len..(at + 1) * len].copy_from_slice(entry);
        e.present.set(at);
        planted::unless(Planted::UnionKept, || e.unions.drop_of(page.into()));
    }

    /// The slots that have an entry: pages of the extent, or of the part.
    pub(crate) fn slots(&self) -> Vec<u16> {
        let present = self.0.read().present;
        (0..EXTENT_PAGES as u16).filter(|slot| present.has((*slot).into())).collect()
    }

    /// Forgets all entries.
    pub(crate) fn empty(&self) {
        *self.0.write() = Entries::new(0, 0);
    }

    pub(crate) fn clear(&self, page: u16) {
        let mut e = self.0.write();
        let slot = e.slot(page.into());
        e.present.clear(slot);
        planted::unless(Planted::UnionKept, || e.unions.drop_of(page.into()));
    }

    fn read(bytes: &[u8]) -> Result<Entries, Malformed> {
        let t = &mut Take::new(bytes);
        let (rule, entry_bytes, slots) = (t.u64()?, t.u32()? as usize, t.u32()? as usize);
        let empty = entry_bytes == 0 && slots > 0;
        if slots > slots_max(entry_bytes) || entry_bytes > usize::from(u16::MAX) || empty {
            return Err(t.bad("an impossible index page"));
        }
        let present = Present(t.raw(PRESENT_BYTES)?.try_into().expect("as many as asked for"));
        let bytes = t.raw(slots * entry_bytes)?.to_vec();
        if (slots..EXTENT_PAGES).any(|at| present.has(at)) {
            return Err(t.bad("an entry beyond the index page"));
        }
        t.end()?;
        Ok(Entries { rule, entry_bytes, present, bytes, unions: Unions::default() })
    }
}

impl Resident for IndexPage {
    const KIND: OwnKind = OwnKind::Index;

    fn decode(number: u64, bytes: &[u8], _: &Geometry) -> Result<Self, &'static str> {
        let e = Self::read(bytes).map_err(|e| e.what)?;
        if e.entry_bytes > 0 && is_long(e.entry_bytes) != (number >= PARTS_FROM) {
            return Err("entries of a length that is kept elsewhere");
        }
        Ok(Self(RwLock::new(e)))
    }

    fn encode(&self) -> Vec<u8> {
        let e = self.0.read();
        let slots = e.bytes.len().checked_div(e.entry_bytes).unwrap_or(0);
        let mut b = Vec::with_capacity(16 + PRESENT_BYTES + e.bytes.len());
        b.put_u64(e.rule);
        b.put_u32(e.entry_bytes as u32);
        b.put_u32(slots as u32);
        b.extend(e.present.0);
        b.extend(&e.bytes);
        b
    }

    fn is_vacant(&self) -> bool {
        self.0.read().present.0.iter().all(|&b| b == 0)
    }

    fn memory_bytes(&self) -> usize {
        let e = self.0.read();
        // With the unions, which may be made at any time.
        let unions = if is_long(e.entry_bytes) { 1 } else { GROUPS + 1 };
        e.bytes.capacity()
            + unions * (e.entry_bytes + size_of::<Arc<IndexEntry>>())
            + GROUPS * 8 * usize::from(is_long(e.entry_bytes))
            + 256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by reading for the fuzzing: such a page was written back as one that could not be read again.
    #[test]
    fn slots_of_entries_without_bytes_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let mut bytes = IndexPage::vacant().encode();
        assert!([0, PARTS_FROM].iter().all(|n| IndexPage::decode(*n, &bytes, &g).is_ok()));
        bytes[12] = 9;
        assert!(IndexPage::decode(0, &bytes, &g).is_err());
    }

    #[test]
    fn long_entries_are_kept_by_part() {
        let g = Geometry::file(1 << 30).unwrap();
        let extent = ExtentId::new((1 << 38) - 1).unwrap();
        let lpid = extent.page(33);
        assert_eq!((number_of(lpid, 2000), number_of(lpid, 2001)), (extent.raw(), part_of(lpid)));
        assert_eq!(parts_of(extent).count(), 32);
        assert!((0..1024).all(|p| part_of(extent.page(p)) == parts_of(extent).start + u64::from(p) / 32));
        assert!(parts_of(extent).all(|n| extent_of(n) == extent.raw() && n < 1 << 48));
        assert_eq!(extent_of(extent.raw()), extent.raw());
        for entry_bytes in [2000, 32_000] {
            assert!(page_bytes(entry_bytes) + 32 < lode_base::PAGE_BYTES_LIMIT, "{entry_bytes} bytes");
        }
        let p = IndexPage::vacant();
        let of = |page: u16| vec![page as u8; 2001];
        assert_eq!((p.growth(34, 2001), p.growth(34, 2000)), (3 * 2001, 35 * 2000));
        [34, 63, 32].into_iter().for_each(|page| p.set(3, page, &of(page)));
        p.clear(63);
        assert_eq!(p.growth(63, 2001), 0, "a slot stays");
        assert!(IndexPage::decode(extent.raw(), &p.encode(), &g).is_err(), "long entries are of a part");
        let q = IndexPage::decode(part_of(lpid), &p.encode(), &g).ok().unwrap();
        assert_eq!(q.slots(), [0, 2]);
        assert_eq!([32, 34].map(|page| q.get(3, page)), [32, 34].map(|page| Some(of(page).into())));
        assert!(q.has(3, 32) && !q.has(4, 32) && !q.has(3, 63));
        let pages: Vec<usize> =
            (0..1024).filter(|p| q.0.read().present_in(Level::Group(1)).has(*p)).collect();
        assert_eq!(pages, [32, 34]);
        // No part has more slots than pages.
        let mut bytes = p.encode();
        bytes[12] = 33;
        bytes.resize(16 + PRESENT_BYTES + 33 * 2001, 0);
        assert!(IndexPage::decode(part_of(lpid), &bytes, &g).is_err());
        // A rule with short entries replaces it, and back.
        q.set(4, 34, b"short");
        assert_eq!((q.slots(), q.get(3, 34)), (vec![34], None));
        let decoded = |number| IndexPage::decode(number, &q.encode(), &g);
        assert!(
            decoded(part_of(lpid)).is_err() && decoded(extent.raw()).is_ok(),
            "short ones are of an extent"
        );
        q.empty();
        assert!(q.is_vacant() && q.get(4, 34).is_none());
    }

    #[test]
    fn entries_belong_to_one_rule_and_survive() {
        let g = Geometry::file(1 << 30).unwrap();
        let p = IndexPage::vacant();
        p.set(3, 9, b"nine");
        p.set(3, 2, b"two!");
        p.set(3, 5, b"five");
        p.clear(5);
        let q = IndexPage::decode(0, &p.encode(), &g).ok().unwrap();
        assert_eq!(
            (q.get(3, 9).as_deref(), q.get(3, 2).as_deref()),
            (Some(&b"nine"[..]), Some(&b"two!"[..]))
        );
        assert_eq!((q.get(3, 5), q.get(4, 9), q.get(3, 1000)), (None, None, None));
        q.set(4, 1, b"another rule");
        assert_eq!(q.get(4, 9), None);
        let bytes = p.encode();
        for n in 0..bytes.len() {
            assert!(IndexPage::decode(0, &bytes[..n], &g).is_err(), "cut to {n} bytes");
        }
    }
}
