//! What was done to the medium, and what that excuses: nothing is excused that no injected fault hit.
//!
//! ```text
//!   Faults ── hits, counts ─► Harm ◄── "may this answer be?" ── the judge of an answer
//! ```

use std::collections::BTreeMap;

use lode_base::{Geometry, Ppa};
use lode_firmware::FirmwareError;
use lode_flash::{FaultKind, Faults, FlashError, Hit};

#[derive(Debug, Default)]
pub(super) struct Harm {
    /// What was hit, since the drive was made.
    hits: Vec<Hit>,
    /// Of those, how many the faults of now have told.
    told: usize,
    /// How often each kind struck, up to the last reopen.
    before: BTreeMap<FaultKind, u64>,
    /// How often each kind struck since.
    since: BTreeMap<FaultKind, u64>,
    /// `since`, as it was when the step began.
    at_step: BTreeMap<FaultKind, u64>,
}

impl Harm {
    /// Takes note of what struck up to now.
    pub(super) fn look(&mut self, faults: &Faults) {
        let hits = faults.hits();
        self.hits.extend(hits.get(self.told..).unwrap_or_default());
        self.told = hits.len();
        self.since = faults.fired().into_iter().collect();
    }

    /// A step begins.
    pub(super) fn step_begins(&mut self) {
        self.at_step.clone_from(&self.since);
    }

    /// The medium was opened anew: the count of what strikes begins again.
    pub(super) fn reopened(&mut self) {
        for (kind, n) in std::mem::take(&mut self.since) {
            *self.before.entry(kind).or_default() += n;
        }
        self.told = 0;
        self.at_step.clear();
    }

    /// How often each kind struck, in all.
    pub(super) fn struck_in_all(&self) -> BTreeMap<FaultKind, u64> {
        let mut all = self.before.clone();
        self.since.iter().for_each(|(kind, n)| *all.entry(*kind).or_default() += n);
        all
    }

    /// Whether one of these struck since the drive was opened.
    pub(super) fn struck(&self, kinds: &[FaultKind]) -> bool {
        kinds.iter().any(|k| self.since.contains_key(k))
    }

    /// How often these struck since the step began.
    pub(super) fn times_now(&self, kinds: &[FaultKind]) -> u64 {
        let times = |k| self.since.get(k).unwrap_or(&0) - self.at_step.get(k).unwrap_or(&0);
        kinds.iter().map(times).sum()
    }

    /// Whether one of these struck since the step began.
    pub(super) fn struck_now(&self, kinds: &[FaultKind]) -> bool {
        kinds.iter().any(|k| self.since.get(k) > self.at_step.get(k))
    }

    /// Whether anything struck since the step began.
    pub(super) fn strikes_now(&self) -> bool {
        self.since != self.at_step
    }

    /// How often these struck in all.
    pub(super) fn struck_ever(&self, kinds: &[FaultKind]) -> u64 {
        self.struck_in_all().into_iter().filter(|(k, _)| kinds.contains(k)).map(|(_, n)| n).sum()
    }

    /// Whether anything that was programmed is not what it was, or can not be read.
    pub(super) fn hit_data(&self) -> bool {
        self.hits.iter().any(|h| matches!(h, Hit::Wblocks { .. }))
    }

    /// How much was hit so far.
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

    /// Whether both copies of something were hit that the drive keeps two of.
    fn both_copies(&self, of: impl Fn(&Hit) -> Option<(usize, usize)>) -> bool {
        let hit: Vec<(usize, usize)> = self.hits.iter().filter_map(of).collect();
        hit.iter().any(|&(what, copy)| hit.contains(&(what, 1 - copy)))
    }

    /// Whether the image may be refused in this way.
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

/// Whether a message tells of bytes that are not those that were written.
pub(super) fn is_damage(text: &str) -> bool {
    ["damaged", "checksum mismatch", "wrong generation", "cannot be read", "can not be read"]
        .iter()
        .any(|t| text.contains(t))
}
