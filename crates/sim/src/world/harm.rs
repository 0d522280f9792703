//! Records the injected faults that hit the medium, and decides what they excuse. Without a hit, nothing is excused.
//!
//! ```text
//!   Faults ── hits, counts ─► Harm ◄── "is this answer excused?" ── check of an answer
//! ```

use std::collections::BTreeMap;

use lode_base::{Geometry, Ppa};
use lode_firmware::FirmwareError;
use lode_flash::{FaultKind, Faults, FlashError, Hit};

#[derive(Debug, Default)]
pub(super) struct Harm {
    /// The hits since the drive was made.
    hits: Vec<Hit>,
    /// The number of hits that were taken from the current `Faults`.
    told: usize,
    /// How often each kind struck before the last reopen.
    before: BTreeMap<FaultKind, u64>,
    /// How often each kind has struck since the last reopen.
    since: BTreeMap<FaultKind, u64>,
    /// `since`, as it was when the step began.
    at_step: BTreeMap<FaultKind, u64>,
}

impl Harm {
    /// Takes over the hits and counts so far.
    pub(super) fn look(&mut self, faults: &Faults) {
        let hits = faults.hits();
        self.hits.extend(hits.get(self.told..).unwrap_or_default());
        self.told = hits.len();
        self.since = faults.fired().into_iter().collect();
    }

    /// Begins a step.
    pub(super) fn step_begins(&mut self) {
        self.at_step.clone_from(&self.since);
    }

    /// Records that the medium was reopened, which resets its counts.
    pub(super) fn reopened(&mut self) {
        for (kind, n) in std::mem::take(&mut self.since) {
            *self.before.entry(kind).or_default() += n;
        }
        self.told = 0;
        self.at_step.clear();
    }

    /// How often each kind has struck in total.
    pub(super) fn struck_in_all(&self) -> BTreeMap<FaultKind, u64> {
        let mut all = self.before.clone();
        self.since.iter().for_each(|(kind, n)| *all.entry(*kind).or_default() += n);
        all
    }

    /// Whether one of these kinds has struck since the drive was opened.
    pub(super) fn struck(&self, kinds: &[FaultKind]) -> bool {
        kinds.iter().any(|k| self.since.contains_key(k))
    }

    /// How often these kinds have struck since the step began.
    pub(super) fn times_now(&self, kinds: &[FaultKind]) -> u64 {
        let times = |k| self.since.get(k).unwrap_or(&0) - self.at_step.get(k).unwrap_or(&0);
        kinds.iter().map(times).sum()
    }

    /// Whether one of these kinds has struck since the step began.
    pub(super) fn struck_now(&self, kinds: &[FaultKind]) -> bool {
        kinds.iter().any(|k| self.since.get(k) > self.at_step.get(k))
    }

    /// Whether any fault has struck since the step began.
    pub(super) fn strikes_now(&self) -> bool {
        self.since != self.at_step
    }

    /// How often these kinds have struck in total.
    pub(super) fn struck_ever(&self, kinds: &[FaultKind]) -> u64 {
        self.struck_in_all().into_iter().filter(|(k, _)| kinds.contains(k)).map(|(_, n)| n).sum()
    }

    /// Whether programmed data was changed or cannot be read.
    pub(super) fn hit_data(&self) -> bool {
        self.hits.iter().any(|h| matches!(h, Hit::Wblocks { .. }))
    }

    /// The number of hits so far.
    pub(super) fn hits(&self) -> usize {
        self.hits.len()
    }

    /// Whether anything at all was hit.
    pub(super) fn hit_any(&self) -> bool {
        !self.hits.is_empty()
    }

    /// Whether something hit `len` bytes at `ppa`.
    pub(super) fn hit_at(&self, g: &Geometry, ppa: Ppa, len: u32) -> bool {
        let (eblock, from) = g.locate(ppa);
        let end = from + len.max(1);
        self.hits.iter().any(|h| match *h {
            Hit::Wblocks { eblock: e, wblock, count, .. } => {
                let (first, last) = (wblock * g.wblock_bytes(), (wblock + count) * g.wblock_bytes());
                e == eblock && first < end && from < last
            }
            _ => false,
        })
    }

    /// Whether both copies of a structure were hit, given that the drive keeps two copies of it.
    fn both_copies(&self, of: impl Fn(&Hit) -> Option<(usize, usize)>) -> bool {
        let hit: Vec<(usize, usize)> = self.hits.iter().filter_map(of).collect();
        hit.iter().any(|&(what, copy)| hit.contains(&(what, 1 - copy)))
    }

    /// Whether the hits excuse that the image is refused with this error.
    pub(super) fn excuses_refusal(&self, e: &FirmwareError) -> bool {
        let superblocks = |h: &Hit| match h {
            Hit::Superblock { copy } => Some((0, *copy)),
            _ => None,
        };
        let checkpoints = |h: &Hit| match h {
            Hit::Checkpoint { slot, copy } => Some((*slot, *copy)),
            _ => None,
        };
        match e {
            FirmwareError::Flash(FlashError::CorruptSuperblock { .. }) => self.both_copies(superblocks),
            FirmwareError::NoCheckpoint { .. } => self.both_copies(checkpoints),
            FirmwareError::Damaged { .. } => self.hit_data() || self.both_copies(checkpoints),
            FirmwareError::Flash(e) => self.hit_data() && is_damage(&e.to_string()),
            _ => false,
        }
    }
}

/// Whether a message reports damaged data.
pub(super) fn is_damage(text: &str) -> bool {
    ["damaged", "checksum mismatch", "wrong generation", "cannot be read"].iter().any(|t| text.contains(t))
}
