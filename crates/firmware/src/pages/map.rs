//! A mapping page: the 1,024 mapping entries of one extent, readable without a lock.
//!
//! Invariant: only whoever holds the commit lock stores; anyone loads.

use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::prefetch::prefetch;
use lode_base::{EXTENT_PAGES, Geometry};

use crate::entry::Entry;
use crate::own::{OwnKind, Resident};

pub(crate) struct MapPage {
    words: Box<[AtomicU64]>,
}

impl MapPage {
    pub(crate) fn vacant() -> Self {
        Self { words: (0..EXTENT_PAGES).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The entry of page `page` of the extent.
    pub(crate) fn load(&self, page: u16) -> Option<Entry> {
        Entry::from_word(self.words[usize::from(page)].load(Ordering::SeqCst))
    }

    /// Prefetches the entry of page `page` into the caches of the CPU.
    pub(crate) fn prefetch(&self, page: u16) {
        prefetch(&self.words[usize::from(page)]);
    }

    pub(crate) fn store(&self, page: u16, e: Option<Entry>) {
        self.words[usize::from(page)].store(e.map_or(0, Entry::word), Ordering::SeqCst);
    }

    /// The mapped pages, ascending.
    pub(crate) fn mapped(&self) -> impl Iterator<Item = (u16, Entry)> {
        (0..EXTENT_PAGES as u16).filter_map(|p| Some((p, self.load(p)?)))
    }
}

impl Resident for MapPage {
    const KIND: OwnKind = OwnKind::Map;

    fn decode(_: u64, bytes: &[u8], g: &Geometry) -> Result<Self, &'static str> {
        let (words, rest) = bytes.as_chunks::<8>();
        if words.len() != EXTENT_PAGES || !rest.is_empty() {
            return Err("a mapping page of another length");
        }
        let words = words.iter().map(|w| {
            let word = u64::from_le_bytes(*w);
            Entry::check_user(word, g).map(|_| AtomicU64::new(word))
        });
        Ok(Self { words: words.collect::<Result<_, _>>()? })
    }

    fn encode(&self) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.load(Ordering::Acquire).to_le_bytes()).collect()
    }

    fn is_vacant(&self) -> bool {
        self.words.iter().all(|w| w.load(Ordering::Acquire) == 0)
    }

    fn memory_bytes(&self) -> usize {
        EXTENT_PAGES * 8 + 128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_length_is_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let b = MapPage::vacant().encode();
        assert_eq!(b.len(), 8192);
        assert!(
            MapPage::decode(0, &b, &g)
                .is_ok_and(|p| p.is_vacant() && (8192..9000).contains(&p.memory_bytes()))
        );
        for len in [8184, 8188, 8196, 8200] {
            let mut b = b.clone();
            b.resize(len, 0);
            assert!(MapPage::decode(0, &b, &g).is_err(), "{len} bytes");
        }
    }
}
