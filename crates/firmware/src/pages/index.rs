//! An index page: the entries of the pages of one extent.
//!
//! ```text
//!   | rule number 8 | entry bytes 4 | slots 4 | one bit per slot: 128 | slots x entry bytes |
//! ```
//!
//! Invariant: only whoever holds the commit lock changes it. The old index entry is cleared before the mapping entry changes,
//! and the new one is set after, so that a reader can pair an index entry with a version (`replace.rs`).

use lode_base::{EXTENT_PAGES, Geometry};
use parking_lot::RwLock;

use crate::codec::{Malformed, Put, Take};
use crate::own::{OwnKind, Resident};

const PRESENT_BYTES: usize = EXTENT_PAGES / 8;

#[derive(Clone)]
struct Entries {
    rule: u64,
    entry_bytes: usize,
    present: [u8; PRESENT_BYTES],
    bytes: Vec<u8>,
}

pub(crate) struct IndexPage(RwLock<Entries>);

/// Most bytes that an index page with entries of `entry_bytes` takes on the medium.
pub(crate) fn page_bytes(entry_bytes: usize) -> usize {
    16 + PRESENT_BYTES + EXTENT_PAGES * entry_bytes + 64
}

impl IndexPage {
    pub(crate) fn vacant() -> Self {
        Self(RwLock::new(Entries { rule: 0, entry_bytes: 0, present: [0; PRESENT_BYTES], bytes: Vec::new() }))
    }

    /// The entry of page `page`, if it was made by rule `rule`.
    pub(crate) fn get(&self, rule: u64, page: u16) -> Option<Box<[u8]>> {
        let e = self.0.read();
        let at = usize::from(page);
        if e.rule != rule || e.present[at / 8] >> (at % 8) & 1 == 0 {
            return None;
        }
        Some(e.bytes[at * e.entry_bytes..(at + 1) * e.entry_bytes].into())
    }

    pub(crate) fn set(&self, rule: u64, page: u16, entry: &[u8]) {
        let mut e = self.0.write();
        if e.rule != rule || e.entry_bytes != entry.len() {
            *e = Entries { rule, entry_bytes: entry.len(), present: [0; PRESENT_BYTES], bytes: Vec::new() };
        }
        let (at, len) = (usize::from(page), entry.len());
        if e.bytes.len() < (at + 1) * len {
            e.bytes.resize((at + 1) * len, 0);
        }
        e.bytes[at * len..(at + 1) * len].copy_from_slice(entry);
        e.present[at / 8] |= 1 << (at % 8);
    }

    /// The pages that have an entry.
    pub(crate) fn pages(&self) -> Vec<u16> {
        let present = self.0.read().present;
        (0..EXTENT_PAGES as u16).filter(|p| present[usize::from(p / 8)] >> (p % 8) & 1 == 1).collect()
    }

    pub(crate) fn clear(&self, page: u16) {
        let at = usize::from(page);
        self.0.write().present[at / 8] &= !(1 << (at % 8));
    }

    fn read(bytes: &[u8]) -> Result<Entries, Malformed> {
        let t = &mut Take::new(bytes);
        let (rule, entry_bytes, slots) = (t.u64()?, t.u32()? as usize, t.u32()? as usize);
        let empty = entry_bytes == 0 && slots > 0;
        if slots > EXTENT_PAGES || entry_bytes > usize::from(u16::MAX) || empty {
            return Err(t.bad("an impossible index page"));
        }
        let present: [u8; PRESENT_BYTES] = t.raw(PRESENT_BYTES)?.try_into().expect("as many as asked for");
        let bytes = t.raw(slots * entry_bytes)?.to_vec();
        let beyond = |at: &usize| present[at / 8] >> (at % 8) & 1 == 1;
        if (slots..EXTENT_PAGES).any(|at| beyond(&at)) {
            return Err(t.bad("an entry beyond the index page"));
        }
        t.end()?;
        Ok(Entries { rule, entry_bytes, present, bytes })
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
        b.extend(e.present);
        b.extend(&e.bytes);
        b
    }

    fn is_vacant(&self) -> bool {
        self.0.read().present.iter().all(|&b| b == 0)
    }

    fn memory_bytes(&self) -> usize {
        self.0.read().bytes.capacity() + 256
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
