//! Bits that flip at rest: in data, tags and log pages, and in one copy of a checkpoint record or of the superblock.

use lode_base::EblockId;
use lode_base::random::Random;

use crate::faults::{FaultKind, Faults, Hit};
use crate::layout::{CHECKPOINT_AT, SUPERBLOCK_AT, SUPERBLOCK_BYTES, data_at, group_of};
use crate::record::RECORD_HEADER_BYTES;
use crate::tag::TAG_BYTES;

impl Faults {
    /// Flips one bit now, chosen by `seed`: of data, of a tag or of a log page that was programmed, of a copy of a
    /// checkpoint record or of the superblock. `None` if there is none, or `kind` is no flip.
    pub fn flip(&self, kind: FaultKind, seed: u64) -> Option<Hit> {
        let mut plan = self.plan.lock();
        let random = &mut Random(seed);
        let hit = match kind {
            FaultKind::FlipData | FaultKind::FlipTag | FaultKind::FlipLog => {
                let tagged = kind != FaultKind::FlipLog;
                let all = plan.programmed.iter().flat_map(|(&e, w)| w.iter().map(move |(&w, &t)| (e, w, t)));
                let of: Vec<_> = all.filter(|(.., t)| *t == tagged).collect();
                let (e, w, _) = *of.get(random.below(of.len().max(1) as u64) as usize)?;
                self.flip_wblocks(kind, e, w, 1, random)
            }
            FaultKind::FlipCheckpoint => self.flip_checkpoint(random.below(2) as usize, random),
            FaultKind::FlipSuperblock => self.flip_superblock(random),
            _ => return None,
        };
        plan.count(kind);
        plan.hits.push(hit);
        Some(hit)
    }

    /// Flips a bit in both copies of one checkpoint slot now, so that its record is lost.
    pub fn lose_checkpoint(&self, seed: u64) -> [Hit; 2] {
        let mut plan = self.plan.lock();
        let random = &mut Random(seed);
        let slot = random.below(2) as usize;
        let hits = [0, 1].map(|copy| self.flip_checkpoint_copy(slot, copy, random));
        plan.count(FaultKind::FlipCheckpoint);
        plan.hits.extend(hits);
        hits
    }

    pub(super) fn flip_wblocks(
        &self,
        kind: FaultKind,
        eblock: EblockId,
        wblock: u32,
        count: u32,
        random: &mut Random,
    ) -> Hit {
        let wblock_bytes = u64::from(self.geometry.wblock_bytes());
        let byte = self.byte(eblock, wblock) + random.below(wblock_bytes * u64::from(count));
        let bit = random.below(8) as u32;
        if kind == FaultKind::FlipTag {
            self.disk.flip(self.tag_at(byte) + random.below(TAG_BYTES as u64), bit);
            self.tags.forget(group_of(byte));
        } else {
            self.disk.flip(data_at(byte), bit);
        }
        let eblock_byte = byte % u64::from(self.geometry.eblock_bytes());
        Hit::Wblocks { kind, eblock, wblock: (eblock_byte / wblock_bytes) as u32, count: 1 }
    }

    pub(super) fn flip_checkpoint(&self, slot: usize, random: &mut Random) -> Hit {
        let copy = random.below(2) as usize;
        self.flip_checkpoint_copy(slot, copy, random)
    }

    fn flip_checkpoint_copy(&self, slot: usize, copy: usize, random: &mut Random) -> Hit {
        let at = CHECKPOINT_AT[copy][slot];
        let mut header = [0; RECORD_HEADER_BYTES];
        self.disk.read(at, &mut header);
        let payload = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let len = RECORD_HEADER_BYTES as u64 + u64::from(payload);
        self.disk.flip(at + random.below(len), random.below(8) as u32);
        Hit::Checkpoint { slot, copy }
    }

    pub(super) fn flip_superblock(&self, random: &mut Random) -> Hit {
        let copy = random.below(2) as usize;
        self.disk.flip(SUPERBLOCK_AT[copy] + random.below(SUPERBLOCK_BYTES as u64), random.below(8) as u32);
        Hit::Superblock { copy }
    }
}
