//! EBLOCK metadata in memory: the names of the pages of EBLOCKs whose metadata is not on the medium. These are the open
//! EBLOCKs, those that are being closed, and those that ended early.
//!
//! ```text
//!   as a table of the checkpoint:   count 4, then each: EBLOCK 4, count 4, words 8 each
//! ```

use std::collections::BTreeMap;

use lode_base::{EblockId, Geometry};

use crate::codec::{Malformed, Put, Take};
use crate::planted::at;

/// Metadata by EBLOCK: a word per page (`metadata.rs`).
pub(crate) type Words = BTreeMap<EblockId, Vec<u64>>;

#[derive(Default)]
pub(super) struct Unwritten {
    words: Words,
    /// Words of all of them.
    count: u64,
    /// Whether the table changed since it was written.
    changed: bool,
}

impl Unwritten {
    pub(super) fn of(&self, e: EblockId) -> Option<&[u64]> {
        self.words.get(&e).map(Vec::as_slice)
    }

    /// Pages that are named in an EBLOCK.
    pub(super) fn len_of(&self, e: EblockId) -> usize {
        self.words.get(&e).map_or(0, Vec::len)
    }

    /// Words of all EBLOCKs.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn contains(&self, e: EblockId) -> bool {
        self.words.contains_key(&e)
    }

    /// An EBLOCK is opened.
    pub(super) fn open(&mut self, e: EblockId) {
        self.words.insert(e, Vec::new());
        self.changed = true;
    }

    /// Names pages of an EBLOCK, if its metadata is in memory; answers whether it is.
    pub(super) fn name(&mut self, e: EblockId, words: impl Iterator<Item = u64>) -> bool {
        let Some(all) = self.words.get_mut(&e) else { return false };
        let before = all.len();
        all.extend(words);
        self.count += (all.len() - before) as u64;
        self.changed = true;
        true
    }

    /// The metadata of an EBLOCK need not be in memory any more.
    pub(super) fn drop_of(&mut self, e: EblockId) {
        if let Some(words) = self.words.remove(&e) {
            self.count -= words.len() as u64;
            self.changed = true;
        }
    }

    /// What recovery found. It is the table's content but for what the log changed: nothing is to be written yet.
    pub(super) fn restore(&mut self, words: Words) {
        self.count = words.values().map(|w| w.len() as u64).sum();
        self.words = words;
    }

    /// Recovery is over: only these EBLOCKs have metadata in memory.
    pub(super) fn retain(&mut self, is_open: impl Fn(EblockId) -> bool) {
        self.words.retain(|e, _| is_open(*e));
        self.count = self.words.values().map(|w| w.len() as u64).sum();
    }

    pub(super) fn all(&self) -> &Words {
        &self.words
    }

    /// The table, if it changed; it counts as written from now on.
    pub(super) fn take_changed(&mut self) -> Option<Vec<u8>> {
        let changed = std::mem::take(&mut self.changed);
        changed.then(|| at!(OpenForgotten => encode_all_but_one(&self.words), encode(&self.words)))
    }

    /// The table is to be written anew.
    pub(super) fn mark_changed(&mut self) {
        self.changed = true;
    }

    pub(super) fn check_invariants(&self) {
        let count: u64 = self.words.values().map(|w| w.len() as u64).sum();
        assert_eq!(self.count, count, "words of metadata");
    }
}

/// The table as bytes.
pub(crate) fn encode(words: &Words) -> Vec<u8> {
    let mut b = Vec::new();
    b.put_u32(words.len() as u32);
    for (e, words) in words {
        b.put_u32(e.raw());
        b.put_u32(words.len() as u32);
        words.iter().for_each(|w| b.put_u64(*w));
    }
    b
}

/// The table without its last EBLOCK: the fault `OpenForgotten`.
fn encode_all_but_one(words: &Words) -> Vec<u8> {
    let but_one = words.iter().rev().skip(1);
    encode(&but_one.map(|(e, words)| (*e, words.clone())).collect())
}

/// The table in these bytes.
pub(crate) fn decode(bytes: &[u8], g: &Geometry) -> Result<Words, Malformed> {
    let t = &mut Take::new(bytes);
    let mut all = Words::new();
    for _ in 0..t.count(8)? {
        let e = t.eblock(g)?;
        let words = (0..t.count(8)?).map(|_| t.u64()).collect::<Result<_, _>>()?;
        all.insert(e, words);
    }
    t.end()?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_survives_and_cut_ones_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let e = EblockId::new;
        let words = Words::from([(e(3), vec![1, 2, 3]), (e(9), vec![])]);
        let b = encode(&words);
        assert_eq!(decode(&b, &g), Ok(words));
        assert!((0..b.len()).all(|n| decode(&b[..n], &g).is_err()));
    }
}
