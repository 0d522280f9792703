//! The hooks that the medium calls before and after each of its operations.

use std::io;

use lode_base::EblockId;
use lode_base::random::Random;

use crate::FlashError;
use crate::faults::disk;
use crate::faults::journal::TEAR_BYTES;
use crate::faults::{FaultKind, Faults, Hit, Plan};
use crate::layout::data_at;
use crate::tag::{TAG_BYTES, Tag};

/// The kinds that strike tagged programs; below, those that strike log pages.
const TAGGED: [FaultKind; 6] = [
    FaultKind::TornProgram,
    FaultKind::ProgramFails,
    FaultKind::FlipData,
    FaultKind::FlipTag,
    FaultKind::MisdirectedWrite,
    FaultKind::LostWrite,
];
const UNTAGGED: [FaultKind; 5] = [
    FaultKind::TornProgram,
    FaultKind::ProgramFails,
    FaultKind::FlipLog,
    FaultKind::MisdirectedWrite,
    FaultKind::LostWrite,
];
const READS: [FaultKind; 4] =
    [FaultKind::ReadFailsOnce, FaultKind::ReadFailsForGood, FaultKind::StaleRead, FaultKind::MisdirectedRead];

/// The effect of faults on a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProgramStrike {
    /// What should.
    None,
    /// The first `whole` WBLOCKs are programmed, and the next one is not, or in part.
    Fails { whole: u32, torn_bytes: u32 },
    /// It is acknowledged, but nothing is written.
    Lost,
    /// It is written from this WBLOCK on instead.
    Misdirected(EblockId, u32),
    /// It is written, and one bit flips.
    Flip(FaultKind, u64),
}

/// The effect of faults on a read.
pub(crate) enum ReadStrike {
    /// What should.
    None,
    /// The unit at this byte of the medium cannot be read.
    Fails(u64),
    /// The data was replaced, and the tag of the unit at this byte reads as this.
    Tag(u64, Tag),
}

impl Faults {
    /// WBLOCKs are about to be programmed.
    pub(crate) fn program(&self, e: EblockId, wblock: u32, count: u32, tagged: bool) -> ProgramStrike {
        let mut plan = self.plan.lock();
        if !plan.begin() {
            return ProgramStrike::None;
        }
        if plan.scars.ended.contains(&e) {
            return ProgramStrike::Fails { whole: 0, torn_bytes: 0 };
        }
        let programmed = |plan: &mut Plan, e, from: u32, n: u32| {
            plan.programmed.entry(e).or_default().extend((from..from + n).map(|w| (w, tagged)));
        };
        let struck = plan.strike(if tagged { &TAGGED } else { &UNTAGGED });
        let Some((kind, seed)) = struck else {
            programmed(&mut plan, e, wblock, count);
            return ProgramStrike::None;
        };
        let random = &mut Random(seed);
        let mut hit = |wblock, count| plan.hits.push(Hit::Wblocks { kind, eblock: e, wblock, count });
        match kind {
            FaultKind::ProgramFails => {
                let whole = random.below(count.into()) as u32;
                hit(wblock + whole, count - whole);
                programmed(&mut plan, e, wblock, whole);
                plan.scars.ended.insert(e);
                let torn_bytes = random.below(u64::from(self.geometry.wblock_bytes())) as u32;
                ProgramStrike::Fails { whole, torn_bytes }
            }
            FaultKind::TornProgram => {
                let data = u64::from(count) * u64::from(self.geometry.wblock_bytes());
                let units = data / u64::from(self.geometry.rblock_bytes());
                let tags = if tagged { units * TAG_BYTES as u64 } else { 0 };
                self.disk.tear(random.below((data + tags) / TEAR_BYTES) * TEAR_BYTES);
                plan.cut_due = true;
                ProgramStrike::None
            }
            FaultKind::LostWrite => {
                hit(wblock, count);
                ProgramStrike::Lost
            }
            FaultKind::MisdirectedWrite => {
                hit(wblock, count);
                let others = u64::from(self.geometry.eblock_count()) - 1;
                let other = (u64::from(e.raw()) + 1 + random.below(others)) % (others + 1);
                let last = self.geometry.wblocks_per_eblock() - count;
                let (e, wblock) = (EblockId::new(other as u32), random.below(u64::from(last) + 1) as u32);
                plan.hits.push(Hit::Wblocks { kind, eblock: e, wblock, count });
                ProgramStrike::Misdirected(e, wblock)
            }
            flip => {
                programmed(&mut plan, e, wblock, count);
                ProgramStrike::Flip(flip, random.next())
            }
        }
    }

    /// Flips a bit of WBLOCKs that were just programmed.
    pub(crate) fn flip_programmed(&self, kind: FaultKind, seed: u64, e: EblockId, wblock: u32, count: u32) {
        let mut plan = self.plan.lock();
        let hit = self.flip_wblocks(kind, e, wblock, count, &mut Random(seed));
        plan.hits.push(hit);
    }

    /// Before an erasure. False if the EBLOCK cannot be erased.
    pub(crate) fn erase(&self, e: EblockId) -> bool {
        let mut plan = self.plan.lock();
        if !plan.begin() {
            return !plan.scars.inerasable.contains(&e);
        }
        if plan.strike(&[FaultKind::EraseFails]).is_some() {
            plan.scars.inerasable.insert(e);
        }
        if plan.scars.inerasable.contains(&e) {
            return false;
        }
        plan.scars.ended.remove(&e);
        let eblock = self.byte(e, 0)..self.byte(e, 0) + self.eblock_bytes();
        plan.scars.unreadable.retain(|unit| !eblock.contains(unit));
        plan.programmed.remove(&e);
        true
    }

    /// Before the space of an EBLOCK is freed.
    pub(crate) fn discard(&self, e: EblockId) {
        let mut plan = self.plan.lock();
        if plan.begin() {
            plan.programmed.remove(&e);
        }
    }

    /// Before a sync. False if power is cut before its end.
    pub(crate) fn sync(&self) -> bool {
        let mut plan = self.plan.lock();
        plan.begin() && !plan.cut_due
    }

    /// Before a checkpoint record is written.
    pub(crate) fn record(&self) {
        self.plan.lock().begin();
    }

    /// After a checkpoint record was written to `slot`.
    pub(crate) fn recorded(&self, slot: usize) {
        let mut plan = self.plan.lock();
        if let Some((_, seed)) = plan.strike(&[FaultKind::FlipCheckpoint]) {
            let hit = self.flip_checkpoint(slot, &mut Random(seed));
            plan.hits.push(hit);
        }
    }

    /// After an operation that changes the medium.
    pub(crate) fn done(&self) {
        let mut plan = self.plan.lock();
        if let Some((_, seed)) = plan.strike(&[FaultKind::FlipSuperblock]) {
            let hit = self.flip_superblock(&mut Random(seed));
            plan.hits.push(hit);
        }
        if plan.cut_due {
            plan.cut = true;
            self.disk.cut();
        }
    }

    /// Whether a program finds the file system full before it begins.
    pub(crate) fn finds_no_space(&self) -> Result<(), FlashError> {
        if self.plan.lock().finds_no_space() {
            let full = io::ErrorKind::StorageFull.into();
            return Err(FlashError::io(disk::path(), "grow the image", full));
        }
        Ok(())
    }

    /// After read units from `byte` on were read to `data`.
    pub(crate) fn read(&self, byte: u64, data: &mut [u8]) -> ReadStrike {
        let unit_bytes = u64::from(self.geometry.rblock_bytes());
        let mut plan = self.plan.lock();
        let end = byte + data.len() as u64;
        let struck = plan.due(&READS);
        if let Some(&unit) = plan.scars.unreadable.range(byte..end).next() {
            return ReadStrike::Fails(unit);
        }
        let Some(struck) = struck else { return ReadStrike::None };
        let (kind, seed) = plan.armed(struck);
        let random = &mut Random(seed);
        let units = data.len() as u64 / unit_bytes;
        if units == 0 {
            return ReadStrike::None;
        }
        let first = random.below(units);
        let unit = byte + first * unit_bytes;
        let wrong = match kind {
            FaultKind::ReadFailsOnce | FaultKind::ReadFailsForGood => None,
            FaultKind::StaleRead => {
                let stale = self.stale.lock();
                let Some(stale) = &*stale else { return ReadStrike::None };
                let older = |i: u64| {
                    let unit = byte + (first + i) % units * unit_bytes;
                    let mut old = vec![0; unit_bytes as usize];
                    stale.read(data_at(unit), &mut old);
                    let mut tag = [0; TAG_BYTES];
                    stale.read(self.tag_at(unit), &mut tag);
                    (old != data[(unit - byte) as usize..][..old.len()]).then_some((unit, old, tag))
                };
                match (0..units).find_map(older) {
                    None => return ReadStrike::None,
                    found => found,
                }
            }
            _ => match self.another(&plan, unit, unit_bytes, random) {
                None => return ReadStrike::None,
                Some((other, tag)) => Some((unit, other, tag)),
            },
        };
        plan.take(struck);
        match wrong {
            None => {
                if kind == FaultKind::ReadFailsForGood {
                    plan.scars.unreadable.insert(unit);
                    let (eblock, wblock) = self.place(unit);
                    plan.hits.push(Hit::Wblocks { kind, eblock, wblock, count: 1 });
                }
                ReadStrike::Fails(unit)
            }
            Some((unit, bytes, tag)) => {
                data[(unit - byte) as usize..][..bytes.len()].copy_from_slice(&bytes);
                match random.below(2) {
                    0 => ReadStrike::None,
                    _ => ReadStrike::Tag(unit, Tag::from_bytes(&tag)),
                }
            }
        }
    }

    /// Bytes and tag of a programmed read unit other than `unit` with different bytes.
    fn another(
        &self,
        plan: &Plan,
        unit: u64,
        unit_bytes: u64,
        random: &mut Random,
    ) -> Option<(Vec<u8>, [u8; TAG_BYTES])> {
        let wblocks: Vec<_> =
            plan.programmed.iter().flat_map(|(&e, w)| w.keys().map(move |&w| (e, w))).collect();
        let read = |at, out: &mut [u8]| self.disk.read(at, out);
        let mut asked = vec![0; unit_bytes as usize];
        read(data_at(unit), &mut asked);
        let from = random.below(wblocks.len().max(1) as u64) as usize;
        let in_wblock = random.below(u64::from(self.geometry.wblock_bytes()) / unit_bytes) * unit_bytes;
        for &(e, w) in wblocks[from..].iter().chain(&wblocks[..from]) {
            let other = self.byte(e, w) + in_wblock;
            let (mut bytes, mut tag) = (vec![0; unit_bytes as usize], [0; TAG_BYTES]);
            read(data_at(other), &mut bytes);
            read(self.tag_at(other), &mut tag);
            if other != unit && bytes != asked {
                return Some((bytes, tag));
            }
        }
        None
    }

    /// The EBLOCK and the WBLOCK of a byte of the medium.
    fn place(&self, byte: u64) -> (EblockId, u32) {
        let e = byte / self.eblock_bytes();
        let wblock = byte % self.eblock_bytes() / u64::from(self.geometry.wblock_bytes());
        (EblockId::new(e as u32), wblock as u32)
    }

    fn eblock_bytes(&self) -> u64 {
        self.geometry.eblock_bytes().into()
    }
}
