//! The small table of a cache: where each page lies on the medium.
//!
//! ```text
//!   pages of extents:  | home of 0 | home of 1 | ...           up to the last home, in pieces of 1,024
//!   pages of parts:    | homes of the 32 parts of an extent | ...     only pieces with a home: each has 32 extents, up to its last home
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::kind::{OwnKind, PART_PIECES_FROM, PARTS_FROM, TABLE_PIECE_ENTRIES};
use crate::entry::Entry;

/// Where the pages of a kind lie.
#[derive(Default)]
pub(super) struct Homes {
    /// The homes of pages of extents, as words; 0: nowhere. The last is a home.
    extents: Vec<u64>,
    /// Those of parts, by piece. The last of each piece is a home.
    parts: BTreeMap<usize, Vec<u64>>,
    /// Entries of all pieces of parts.
    part_entries: u64,
    /// Pieces that changed since they were written.
    dirty: BTreeSet<usize>,
    /// Bytes of all pages that have a home.
    bytes: u64,
}

fn word_bytes(word: u64) -> u64 {
    Entry::from_word(word).map_or(0, |e| e.cells_bytes().into())
}

/// Sets a word of a list that ends with its last home, and answers the word before.
fn set_word(words: &mut Vec<u64>, at: usize, word: u64) -> u64 {
    if words.len() <= at {
        words.resize(at + 1, 0);
    }
    let old = std::mem::replace(&mut words[at], word);
    while words.pop_if(|w| *w == 0).is_some() {}
    old
}

/// The piece of a page of a part, and its place there.
fn place(number: u64) -> (usize, usize) {
    let number = number as usize;
    (number / TABLE_PIECE_ENTRIES, number % TABLE_PIECE_ENTRIES)
}

impl Homes {
    /// The first page of a piece.
    pub(super) fn first_of(piece: usize) -> u64 {
        (piece * TABLE_PIECE_ENTRIES) as u64
    }

    pub(super) fn get(&self, number: u64) -> Option<Entry> {
        let word = match number < PARTS_FROM {
            true => self.extents.get(number as usize),
            false => {
                let (piece, at) = place(number);
                self.parts.get(&piece)?.get(at)
            }
        };
        word.copied().and_then(Entry::from_word)
    }

    pub(super) fn set(&mut self, number: u64, home: Option<Entry>) {
        let word = home.map_or(0, Entry::word);
        let old = match number < PARTS_FROM {
            true if number as usize >= self.extents.len() && home.is_none() => return,
            true => set_word(&mut self.extents, number as usize, word),
            false => self.set_part(number, word),
        };
        self.bytes = self.bytes + word_bytes(word) - word_bytes(old);
        self.dirty.insert(place(number).0);
    }

    fn set_part(&mut self, number: u64, word: u64) -> u64 {
        let (piece, at) = place(number);
        let words = self.parts.entry(piece).or_default();
        self.part_entries -= words.len() as u64;
        let old = set_word(words, at, word);
        self.part_entries += words.len() as u64;
        if words.is_empty() {
            self.parts.remove(&piece);
        }
        old
    }

    /// All pages that have a home.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Entry)> {
        let extents = (0..).zip(&self.extents);
        let parts = self.parts.iter().flat_map(|(&piece, words)| (Self::first_of(piece)..).zip(words));
        extents.chain(parts).filter_map(|(n, &w)| Some((n, Entry::from_word(w)?)))
    }

    /// The changed pieces and their words; none of a piece of parts that has no home. They count as written from now on.
    pub(super) fn take_dirty_pieces(&mut self) -> Vec<(usize, Option<Vec<u64>>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let extents = |piece: usize| {
            let from = (piece * TABLE_PIECE_ENTRIES).min(self.extents.len());
            self.extents[from..(from + TABLE_PIECE_ENTRIES).min(self.extents.len())].to_vec()
        };
        let words = |piece| match piece < PART_PIECES_FROM {
            true => Some(extents(piece)),
            false => self.parts.get(&piece).cloned(),
        };
        dirty.into_iter().map(|p| (p, words(p))).collect()
    }

    pub(super) fn mark_piece_dirty(&mut self, piece: usize) {
        self.dirty.insert(piece);
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Sets a piece as it lies on the medium.
    pub(super) fn restore_piece(&mut self, piece: usize, words: &[u64]) {
        // The table ends with the last home, though more was written once.
        let Some(last) = words.iter().rposition(|&w| w != 0) else { return };
        let words = &words[..=last];
        if piece >= PART_PIECES_FROM {
            self.parts.insert(piece, words.to_vec());
            self.part_entries += words.len() as u64;
        } else {
            let from = piece * TABLE_PIECE_ENTRIES;
            if self.extents.len() < from + words.len() {
                self.extents.resize(from + words.len(), 0);
            }
            self.extents[from..from + words.len()].copy_from_slice(words);
        }
        self.bytes += words.iter().map(|&w| word_bytes(w)).sum::<u64>();
    }

    /// Entries of pages of extents.
    pub(super) fn extent_entries(&self) -> u64 {
        self.extents.len() as u64
    }

    /// Bytes of all pages and of the table on the medium, about.
    pub(super) fn media_bytes(&self) -> u64 {
        self.bytes + (self.extents.len() as u64 + self.part_entries) * 8
    }

    /// Totals match the pages.
    pub(super) fn check_invariants(&self, kind: OwnKind) {
        let bytes: u64 = self.iter().map(|(_, home)| u64::from(home.cells_bytes())).sum();
        assert_eq!(self.bytes, bytes, "homes of {kind}s");
        let part_entries: usize = self.parts.values().map(Vec::len).sum();
        assert_eq!(self.part_entries, part_entries as u64, "entries of homes of {kind}s");
        assert!(self.parts.values().all(|words| words.last() != Some(&0) && !words.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use lode_base::{EblockId, Geometry};

    use super::*;

    #[test]
    fn homes_of_parts_take_only_the_pieces_that_have_some() {
        let g = Geometry::file(1 << 30).unwrap();
        let home = Entry::new(g.ppa(EblockId::new(5), 128).unwrap(), 6400, false);
        let mut homes = Homes::default();
        let far = PARTS_FROM + ((1 << 38) - 1) * 32 + 7;
        let numbers = [9, PARTS_FROM, PARTS_FROM + 33, far];
        numbers.into_iter().for_each(|n| homes.set(n, Some(home)));
        assert!(numbers.into_iter().all(|n| homes.get(n) == Some(home)) && homes.get(far - 1).is_none());
        assert!(homes.iter().map(|(n, _)| n).eq(numbers));
        let words = 10 + 34 + far % 1024 + 1;
        assert_eq!((homes.extent_entries(), homes.media_bytes()), (10, 4 * 6400 + words * 8));
        homes.check_invariants(OwnKind::Index);
        let pieces = homes.take_dirty_pieces();
        let mut found = Homes::default();
        pieces.iter().for_each(|(piece, words)| found.restore_piece(*piece, words.as_ref().unwrap()));
        assert!(found.iter().eq(homes.iter()) && found.media_bytes() == homes.media_bytes());
        found.check_invariants(OwnKind::Index);
        // A piece without homes goes; one of extents stays, as it always did.
        numbers.into_iter().for_each(|n| found.set(n, None));
        let pieces = found.take_dirty_pieces();
        let expected = [(0, Some(Vec::new())), (PART_PIECES_FROM, None), ((far / 1024) as usize, None)];
        assert_eq!((pieces.as_slice(), found.media_bytes()), (&expected[..], 0));
    }
}
