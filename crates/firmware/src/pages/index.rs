//! An index page: the entries of the pages of one extent, and unions of them.
//!
//! ```text
//!   | rule number 8 | entry bytes 4 | slots 4 | one bit per slot: 128 | slots x entry bytes |
//! ```
//!
//! A union is an entry for several pages: for each 32 of the extent, a group, and for the whole extent. Unions are in memory alone. Each
//! is made when it is first asked for, and dropped when a page of it changes.
//!
//! Invariant: only whoever holds the commit lock changes it. The old index entry is cleared before the mapping entry changes,
//! and the new one is set after, so that a reader can pair an index entry with a version (`replace.rs`).

use std::ops::Range;
use std::sync::Arc;

use lode_base::{EXTENT_PAGES, Geometry};
use lode_program::IndexEntry;
use parking_lot::RwLock;

use super::Rule;
use crate::codec::{Malformed, Put, Take};
use crate::own::{OwnKind, Resident};
use crate::planted::{self, Planted};

const PRESENT_BYTES: usize = EXTENT_PAGES / 8;
/// Pages of a group.
pub(crate) const GROUP_PAGES: u16 = 32;
const GROUPS: usize = EXTENT_PAGES / GROUP_PAGES as usize;

struct Entries {
    rule: u64,
    entry_bytes: usize,
    present: Present,
    bytes: Vec<u8>,
    unions: Unions,
}

/// The pages that have an entry, a bit each.
#[derive(Clone, Copy)]
struct Present([u8; PRESENT_BYTES]);

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
    present: Present,
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
        let (present, bytes) = (Present([0; PRESENT_BYTES]), Vec::new());
        Self { rule, entry_bytes, present, bytes, unions: Unions::default() }
    }

    fn of_page(&self, page: usize) -> Option<&[u8]> {
        self.present.has(page).then(|| &self.bytes[page * self.entry_bytes..(page + 1) * self.entry_bytes])
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

/// Most bytes that an index page with entries of `entry_bytes` takes on the medium.
pub(crate) fn page_bytes(entry_bytes: usize) -> usize {
    16 + PRESENT_BYTES + EXTENT_PAGES * entry_bytes + 64
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

    /// The union of a level, of the pages with an entry that `rule` made. `None` if there is no such page.
    pub(crate) fn union(&self, rule: &Rule, level: Level) -> Option<Union> {
        let made = |e: &Entries| (e.rule == rule.number).then(|| e.unions.get(level).cloned());
        let e = self.0.read();
        if let Some(entry) = made(&e)? {
            return Some(Union { entry, present: e.present, looked_at: 0 });
        }
        drop(e);
        let mut e = self.0.write();
        made(&e)?;
        let mut looked_at = 0;
        let entry = e.union(rule, level, &mut looked_at)?;
        Some(Union { entry, present: e.present, looked_at })
    }

    pub(crate) fn set(&self, rule: u64, page: u16, entry: &[u8]) {
        let mut e = self.0.write();
        if e.rule != rule || e.entry_bytes != entry.len() {
            *e = Entries::new(rule, entry.len());
        }
        let (at, len) = (usize::from(page), entry.len());
        if e.bytes.len() < (at + 1) * len {
            e.bytes.resize((at + 1) * len, 0);
        }
        e.bytes[at * len..(at + 1) * len].copy_from_slice(entry);
        e.present.set(at);
        planted::unless(Planted::UnionKept, || e.unions.drop_of(at));
    }

    /// The pages that have an entry.
    pub(crate) fn pages(&self) -> Vec<u16> {
        let present = self.0.read().present;
        (0..EXTENT_PAGES as u16).filter(|p| present.has((*p).into())).collect()
    }

    pub(crate) fn clear(&self, page: u16) {
        let mut e = self.0.write();
        e.present.clear(page.into());
        planted::unless(Planted::UnionKept, || e.unions.drop_of(page.into()));
    }

    fn read(bytes: &[u8]) -> Result<Entries, Malformed> {
        let t = &mut Take::new(bytes);
        let (rule, entry_bytes, slots) = (t.u64()?, t.u32()? as usize, t.u32()? as usize);
        let empty = entry_bytes == 0 && slots > 0;
        if slots > EXTENT_PAGES || entry_bytes > usize::from(u16::MAX) || empty {
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

    fn decode(bytes: &[u8], _: &Geometry) -> Result<Self, &'static str> {
        Self::read(bytes).map(|e| Self(RwLock::new(e))).map_err(|e| e.what)
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
        e.bytes.capacity() + (GROUPS + 1) * (e.entry_bytes + size_of::<Arc<IndexEntry>>()) + 256
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
        assert!(IndexPage::decode(&bytes, &g).is_ok());
        bytes[12] = 9;
        assert!(IndexPage::decode(&bytes, &g).is_err());
    }

    #[test]
    fn entries_belong_to_one_rule_and_survive() {
        let g = Geometry::file(1 << 30).unwrap();
        let p = IndexPage::vacant();
        p.set(3, 9, b"nine");
        p.set(3, 2, b"two!");
        p.set(3, 5, b"five");
        p.clear(5);
        let q = IndexPage::decode(&p.encode(), &g).ok().unwrap();
        assert_eq!(
            (q.get(3, 9).as_deref(), q.get(3, 2).as_deref()),
            (Some(&b"nine"[..]), Some(&b"two!"[..]))
        );
        assert_eq!((q.get(3, 5), q.get(4, 9), q.get(3, 1000)), (None, None, None));
        q.set(4, 1, b"another rule");
        assert_eq!(q.get(4, 9), None);
        let bytes = p.encode();
        for n in 0..bytes.len() {
            assert!(IndexPage::decode(&bytes[..n], &g).is_err(), "cut to {n} bytes");
        }
    }
}
