//! Free EBLOCKs: which one is opened next, and how much of the file the erased ones keep.
//!
//! ```text
//!   free: recycled (space is in the file) │ discarded (space went back) │ fresh (never used)
//!
//!   released ─► recycled, and written over next: the file system has nothing to do
//!                 └─ more than a quarter of the EBLOCKs in use, and 4 ─► discarded, a few at a time
//!   at rest ─► a thirty-second of what is held stays recycled; the others are discarded, a few at a time
//!   closed ─► all are discarded
//! ```
//!
//! Invariants: the least worn of the recycled EBLOCKs is used before any other free one, until it is worn much more than
//! those (dynamic wear levelling). Recycled EBLOCKs keep at most a quarter of the space in use, and a few EBLOCKs more.

use std::collections::BTreeSet;
use std::ops::Range;

use lode_base::{EblockId, Geometry};

/// Erasures that a recycled EBLOCK may have beyond the least worn other one, before that is used instead.
const WEAR_SPREAD: u32 = 64;
/// Erased EBLOCKs that keep their space however little is in use: one for each stream of batches, one for the log, one
/// for GC.
const KEPT_BESIDES: usize = 4;
/// EBLOCKs whose space is given back in one step: it takes the file system a while.
pub(super) const DISCARDED_PER_STEP: usize = 8;

/// An EBLOCK that may be opened: its erasures, and its number.
pub(super) type Free = (u32, u32);

/// Free EBLOCKs that were used before, the least worn first.
#[derive(Default)]
pub(super) struct FreeEblocks {
    recycled: BTreeSet<Free>,
    discarded: BTreeSet<Free>,
}

impl FreeEblocks {
    /// After recovery: these are free. After a `clean` close none of them has space in the file.
    pub(super) fn restore(&mut self, free: Vec<Free>, clean: bool) {
        *(if clean { &mut self.discarded } else { &mut self.recycled }) = free.into_iter().collect();
    }

    pub(super) fn len(&self) -> usize {
        self.recycled.len() + self.discarded.len()
    }

    /// Whether no erased EBLOCK has its space in the file.
    pub(super) fn has_no_recycled(&self) -> bool {
        self.recycled.is_empty()
    }

    /// The EBLOCK to be opened next on a channel, or on any if that has none; `fresh` were never used.
    pub(super) fn best(&self, g: &Geometry, fresh: &Range<u32>, channel: u32) -> Option<Free> {
        let find = |free: &BTreeSet<Free>, c: Option<u32>| {
            let fits = |e: &&Free| c.is_none_or(|c| g.channel_of(EblockId::new(e.1)) == c);
            free.iter().find(fits).copied()
        };
        let find_fresh = |c: Option<u32>| {
            let mut here = fresh.clone().take(g.channels() as usize);
            here.find(|e| c.is_none_or(|c| e % g.channels() == c)).map(|e| (0, e))
        };
        let best = |c: Option<u32>| {
            let recycled = find(&self.recycled, c);
            let other = find(&self.discarded, c).or_else(|| find_fresh(c));
            match (recycled, other) {
                (Some(r), Some(o)) if r.0 > o.0 + WEAR_SPREAD => Some(o),
                (r, o) => r.or(o),
            }
        };
        best(Some(channel)).or_else(|| best(None))
    }

    /// An EBLOCK is not free any more. The fresh ones before it stay free.
    pub(super) fn take(&mut self, found: Free, fresh: &Range<u32>) {
        self.recycled.remove(&found);
        self.discarded.remove(&found);
        if found.1 >= fresh.start {
            self.discarded.extend((fresh.start..found.1).map(|raw| (0, raw)));
        }
    }

    /// An EBLOCK is free; its space is in the file.
    pub(super) fn put(&mut self, free: Free) {
        self.recycled.insert(free);
    }

    /// Recycled EBLOCKs that may keep their space while `used` EBLOCKs were ever used: at most `most`.
    fn kept_max(&self, used: usize, most: u32) -> usize {
        let in_use = used - self.len();
        (most as usize).min(in_use / 4 + KEPT_BESIDES)
    }

    /// Whether more EBLOCKs keep their space than may.
    pub(super) fn keeps_too_much(&self, used: usize, most: u32) -> bool {
        self.recycled.len() > self.kept_max(used, most)
    }

    /// EBLOCKs whose space is to be given back in this step.
    pub(super) fn surplus(&self, used: usize, most: u32) -> usize {
        self.recycled.len().saturating_sub(self.kept_max(used, most)).min(DISCARDED_PER_STEP)
    }

    /// The most worn recycled EBLOCK, which counts as discarded from now on.
    pub(super) fn discard_one(&mut self) -> Option<EblockId> {
        let last @ (_, raw) = self.recycled.pop_last()?;
        self.discarded.insert(last);
        Some(EblockId::new(raw))
    }

    /// The numbers of all.
    ///
    /// # Panics
    /// When one is free twice.
    pub(super) fn all(&self) -> BTreeSet<u32> {
        let all: BTreeSet<u32> = self.recycled.iter().chain(&self.discarded).map(|f| f.1).collect();
        assert_eq!(all.len(), self.len(), "an EBLOCK is free twice");
        all
    }

    #[cfg(test)]
    pub(super) fn recycled_count(&self) -> usize {
        self.recycled.len()
    }
}
