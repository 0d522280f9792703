//! Tests each kind of fault: that and when it strikes, and what is left after a power cut. No read may return
//! anything but what was programmed there.

use std::collections::BTreeMap;

use lode_base::random::Random;
use lode_base::{EblockId, Geometry, PageBuf, Ppa};
use lode_flash::{FaultKind, Faults, FlashError, Generation, Hit, Medium, WblockState};

const EBLOCKS: u32 = 16;
const WBLOCKS: u32 = 8;
const WBLOCK_BYTES: u32 = 8192;

fn geometry() -> Geometry {
    Geometry::new(2, 1, 1, 4096, WBLOCK_BYTES, 64 << 10, EBLOCKS).unwrap()
}

fn e(n: u32) -> EblockId {
    EblockId::new(n)
}

fn ppa(n: u32, wblock: u32) -> Ppa {
    geometry().ppa(e(n), wblock * WBLOCK_BYTES).unwrap()
}

/// Bytes that no other program writes.
fn content(eblock: u32, wblock: u32, generation: Generation, wblocks: u32) -> PageBuf {
    let mut bytes = Vec::new();
    for unit in wblock * 2..(wblock + wblocks) * 2 {
        let n = Random(generation.raw() * 10_000 + u64::from(eblock * 100 + unit)).below(u64::MAX);
        bytes.extend_from_slice(&n.to_le_bytes().repeat(512));
    }
    PageBuf::copy_from(&bytes)
}

/// A medium, and for each EBLOCK its generation, its next WBLOCK, and its WBLOCKs at the last sync.
struct World {
    medium: Medium,
    faults: Faults,
    eblocks: BTreeMap<u32, (Generation, u32, u32)>,
}

impl World {
    fn new() -> Self {
        let (medium, faults) = Medium::simulated(geometry());
        Self { medium, faults, eblocks: BTreeMap::new() }
    }

    fn erase(&mut self, n: u32) -> Result<(), FlashError> {
        let g = self.medium.erase(e(n))?;
        self.eblocks.insert(n, (g, 0, 0));
        Ok(())
    }

    fn program(&mut self, n: u32, count: u32) -> Result<(), FlashError> {
        let (g, next, _) = self.eblocks.get_mut(&n).unwrap();
        let done = self.medium.program(e(n), *next, &content(n, *next, *g, count));
        // A failed program may be readable in part. Nothing is programmed behind it.
        *next += count;
        done
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.medium.sync()?;
        if self.faults.is_cut() {
            return Ok(());
        }
        self.eblocks.values_mut().for_each(|(_, next, synced)| *synced = *next);
        Ok(())
    }

    fn read(&self, n: u32, wblock: u32) -> Result<bool, FlashError> {
        let (g, next, _) = self.eblocks[&n];
        let read = self.medium.read(ppa(n, wblock), WBLOCK_BYTES)?;
        assert!(wblock < next, "EBLOCK {n}: WBLOCK {wblock} was not programmed, and is read");
        assert!(read == content(n, wblock, g, 1), "EBLOCK {n}, WBLOCK {wblock}: wrong bytes");
        Ok(true)
    }

    /// The medium after a power cut, with its EBLOCKs set as recovery would.
    fn restored(&mut self, seed: u64) {
        self.try_restored(seed).unwrap();
    }

    fn try_restored(&mut self, seed: u64) -> Result<(), FlashError> {
        (self.medium, self.faults) = self.faults.restored(seed)?;
        for (&n, &(g, next, _)) in &self.eblocks {
            self.medium.set_generation(e(n), g);
            self.medium.set_next_wblock(e(n), next.min(WBLOCKS));
        }
        Ok(())
    }
}

/// Twelve WBLOCKs in three EBLOCKs, synced.
fn filled() -> World {
    let mut w = World::new();
    for n in 0..3 {
        w.erase(n).unwrap();
        w.program(n, 1).unwrap();
        w.program(n, 3).unwrap();
    }
    w.sync().unwrap();
    w
}

#[test]
fn a_failed_program_ends_its_eblock_until_it_is_erased_also_after_a_power_cut() {
    for seed in 0..20 {
        let mut w = filled();
        w.faults.arm(FaultKind::ProgramFails, 1, seed);
        w.program(0, 1).unwrap();
        let failed = w.program(0, 3).unwrap_err();
        assert!(failed.is_program_failure() && !failed.is_uncorrectable(), "{failed}");
        let FlashError::ProgramFailed { at } = failed else { panic!("{failed}") };
        let (_, offset) = geometry().locate(at);
        let failed = offset / WBLOCK_BYTES;
        assert!((5..8).contains(&failed));
        (0..failed).for_each(|i| assert!(w.read(0, i).unwrap()));
        (failed..8).for_each(|i| assert!(w.read(0, i).unwrap_err().is_uncorrectable()));
        assert_ne!(w.medium.probe(e(0), failed).unwrap(), WblockState::Programmed);
        assert_eq!(w.medium.next_wblock(e(0)), WBLOCKS);
        assert_eq!(w.faults.fired(), [(FaultKind::ProgramFails, 1)]);
        w.sync().unwrap();
        w.restored(seed);
        assert!(w.read(0, 4).unwrap());
        w.medium.set_next_wblock(e(0), failed);
        let again = w.medium.program(e(0), failed, &content(0, failed, w.eblocks[&0].0, 1)).unwrap_err();
        assert!(again.is_program_failure(), "{again}");
        w.erase(0).unwrap();
        w.program(0, 8).unwrap();
        assert!(w.read(0, 7).unwrap());
    }
}

#[test]
fn an_eblock_that_can_not_be_erased_never_can_and_is_read_on() {
    let mut w = filled();
    w.faults.arm(FaultKind::EraseFails, 1, 0);
    w.erase(0).unwrap();
    let failed = w.medium.erase(e(1)).unwrap_err();
    assert!(failed.is_erase_failure(), "{failed}");
    assert_eq!(failed.to_string(), "the medium cannot erase EBLOCK 1");
    assert!(w.read(1, 3).unwrap());
    assert_eq!(w.medium.next_wblock(e(1)), WBLOCKS, "nothing more is programmed");
    w.faults.disarm_all();
    assert!(w.medium.erase(e(1)).is_err());
    w.restored(1);
    assert!(w.medium.erase(e(1)).is_err());
    w.restored(1);
    assert!(w.medium.erase(e(1)).is_err());
    assert!(w.read(1, 3).unwrap());
    w.erase(2).unwrap();
}

#[test]
fn a_read_that_fails_once_is_tried_again_and_its_eblock_is_weak() {
    let w = filled();
    for kind in [FaultKind::ReadFailsOnce, FaultKind::MisdirectedRead] {
        for seed in 0..8 {
            w.faults.arm(kind, 1, seed);
            let before = w.medium.read_retries();
            assert!(w.read(0, 0).unwrap());
            assert_eq!((w.medium.take_weak(), w.medium.read_retries()), (vec![], before));
            assert!(w.read(2, 1).unwrap());
            assert_eq!((w.medium.take_weak(), w.medium.read_retries()), (vec![e(2)], before + 1), "{kind:?}");
            assert!(w.read(2, 1).unwrap());
            assert_eq!(w.medium.take_weak(), [], "told once");
            w.faults.arm(kind, 0, seed);
            assert_eq!(w.medium.probe(e(1), 2).unwrap(), WblockState::Programmed);
            assert_eq!(w.medium.take_weak(), [e(1)]);
        }
    }
    let at = ppa(1, 0);
    let whole = w.medium.read_unverified(at, 100).unwrap();
    for seed in 0..8 {
        w.faults.arm(FaultKind::MisdirectedRead, 0, seed);
        assert!(w.medium.read_unverified(at, 100).unwrap() != whole, "nobody checks");
        w.faults.arm(FaultKind::MisdirectedRead, 0, seed);
        assert_eq!(w.medium.read_checked(at, 100, |b| *b == whole).unwrap(), Some(whole.clone()));
        assert_eq!(w.medium.take_weak(), [e(1)]);
    }
    assert_eq!(w.medium.read_checked(at, 100, |_| false).unwrap(), None);
}

#[test]
fn a_wblock_is_not_taken_for_empty_because_one_read_went_wrong() {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 8).unwrap();
    let (m, faults) = Medium::simulated(geometry);
    for n in 0..8 {
        let g = m.erase(e(n)).unwrap();
        m.program(e(n), 0, &content(n, 0, g, 1)).unwrap();
    }
    for seed in 0..40 {
        faults.arm(FaultKind::MisdirectedRead, 0, seed);
        assert_eq!(m.probe(e(3), 1).unwrap(), WblockState::Programmed, "seed {seed}");
        assert_eq!(m.take_weak(), [e(3)]);
        assert_eq!(m.probe(e(3), 2).unwrap(), WblockState::Empty);
    }
}

#[test]
fn a_unit_that_can_not_be_read_is_named_and_comes_back_with_an_erasure() {
    let mut w = filled();
    w.faults.arm(FaultKind::ReadFailsForGood, 0, 3);
    let error = w.read(1, 2).unwrap_err();
    assert!(error.is_uncorrectable(), "{error}");
    let FlashError::ReadFailed { at } = error else { panic!("{error}") };
    assert_eq!(geometry().locate(at).0, e(1));
    assert_eq!(error.to_string(), format!("the medium cannot read the unit at {at}"));
    let hit = Hit::Wblocks { kind: FaultKind::ReadFailsForGood, eblock: e(1), wblock: 2, count: 1 };
    assert_eq!(w.faults.hits(), [hit]);
    assert_eq!(w.medium.probe(e(1), 2).unwrap(), WblockState::Damaged);
    w.restored(5);
    assert!(w.read(1, 2).is_err(), "also after a power cut");
    assert!(w.read(1, 1).unwrap() && w.read(1, 3).unwrap());
    assert_eq!(w.medium.take_weak(), []);
    w.erase(1).unwrap();
    w.program(1, 4).unwrap();
    assert!(w.read(1, 2).unwrap());
}

#[test]
fn a_stale_read_answers_an_older_generation_and_is_found() {
    for seed in 0..8 {
        let mut w = filled();
        w.faults.arm(FaultKind::StaleRead, 0, seed);
        assert!(w.read(0, 0).unwrap(), "nothing is stale yet");
        assert_eq!(w.faults.fired(), []);
        w.erase(0).unwrap();
        w.program(0, 4).unwrap();
        assert!(w.read(0, 2).unwrap());
        assert_eq!(w.faults.fired(), [(FaultKind::StaleRead, 1)]);
        assert_eq!(w.medium.take_weak(), [e(0)]);
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    for seed in 0..200 {
        let mut w = filled();
        let kind = [FaultKind::FlipData, FaultKind::FlipTag][seed as usize % 2];
        let hit = if seed % 4 < 2 {
            w.faults.flip(kind, seed).unwrap()
        } else {
            w.faults.arm(kind, 1, seed);
            w.program(1, 1).unwrap();
            w.program(2, 2).unwrap();
            w.faults.hits()[0]
        };
        let Hit::Wblocks { eblock, wblock, count: 1, .. } = hit else { panic!("{hit:?}") };
        assert_eq!(w.faults.hits(), [hit]);
        assert!(w.read(eblock.raw(), wblock).unwrap_err().is_uncorrectable());
        assert_eq!(w.medium.probe(eblock, wblock).unwrap(), WblockState::Damaged);
        let others = w.eblocks.iter().flat_map(|(&n, &(_, next, _))| (0..next).map(move |i| (n, i)));
        others.filter(|&at| at != (eblock.raw(), wblock)).for_each(|(n, i)| assert!(w.read(n, i).unwrap()));
    }
    assert_eq!(World::new().faults.flip(FaultKind::FlipData, 1), None, "there is no data");
    assert_eq!(filled().faults.flip(FaultKind::FlipLog, 1), None);
    assert_eq!(filled().faults.flip(FaultKind::LostWrite, 1), None);
}

#[test]
fn a_flipped_log_page_differs_by_one_bit() {
    let (m, faults) = Medium::simulated(geometry());
    let g = m.erase(e(0)).unwrap();
    let pages = content(0, 0, g, 2);
    let differ = |b: &PageBuf| b.iter().zip(pages.iter()).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    faults.arm(FaultKind::FlipLog, 0, 9);
    m.program_tagged_inside(e(0), 0, &pages).unwrap();
    assert_eq!(differ(&m.read_unverified(ppa(0, 0), 2 * WBLOCK_BYTES).unwrap()), 1);
    assert!(faults.flip(FaultKind::FlipLog, 10).is_some());
    assert_eq!(differ(&m.read_unverified(ppa(0, 0), 2 * WBLOCK_BYTES).unwrap()), 2);
    assert_eq!(faults.fired(), [(FaultKind::FlipLog, 2)]);
}

#[test]
fn one_flip_in_superblock_or_checkpoint_is_repaired() {
    for seed in 0..40 {
        let (m, faults) = Medium::simulated(geometry());
        m.write_checkpoint_record(0, b"one").unwrap();
        faults.arm(FaultKind::FlipCheckpoint, 0, seed);
        m.write_checkpoint_record(1, b"two").unwrap();
        m.sync().unwrap();
        assert!(matches!(faults.hits()[..], [Hit::Checkpoint { slot: 1, .. }]));
        assert_eq!(m.newest_checkpoint_record().unwrap(), Some((1, b"two".to_vec())));
        let (m, faults) = faults.restored(seed).unwrap();
        assert_eq!((m.repairs(), m.open_epoch()), (1, 2));
        assert_eq!(m.newest_checkpoint_record().unwrap(), Some((1, b"two".to_vec())));
        faults.arm(FaultKind::FlipSuperblock, 0, seed);
        m.sync().unwrap();
        let (m, faults) = faults.restored(seed).unwrap();
        assert_eq!((m.repairs(), m.open_epoch()), (1, 3));
        faults.flip(FaultKind::FlipSuperblock, seed).unwrap();
        faults.flip(FaultKind::FlipCheckpoint, seed).unwrap();
        let (m, _) = faults.restored(seed).unwrap();
        assert_eq!((m.repairs(), m.is_fresh()), (2, false));
        let records = m.read_checkpoint_records().unwrap();
        assert_eq!(records, [Some(b"one".to_vec()), Some(b"two".to_vec())]);
    }
}

#[test]
fn a_lost_write_is_acknowledged_synced_and_found_missing() {
    let mut w = filled();
    w.faults.arm(FaultKind::LostWrite, 0, 1);
    w.program(0, 2).unwrap();
    w.program(0, 1).unwrap();
    w.sync().unwrap();
    for again in [false, true] {
        if again {
            w.restored(1);
        }
        assert!(w.read(0, 4).unwrap_err().is_uncorrectable());
        assert!(w.read(0, 5).unwrap_err().is_uncorrectable());
        assert!(w.read(0, 3).unwrap() && w.read(0, 6).unwrap());
        assert_eq!(w.medium.probe(e(0), 4).unwrap(), WblockState::Empty, "as if it never was");
    }
}

#[test]
fn a_misdirected_write_is_missing_here_and_wrong_there() {
    let mut targets = 0;
    for seed in 0..60 {
        let mut w = filled();
        w.faults.arm(FaultKind::MisdirectedWrite, 0, seed);
        w.program(0, 2).unwrap();
        w.sync().unwrap();
        let hits = w.faults.hits();
        let [
            Hit::Wblocks { eblock, wblock: 4, .. },
            Hit::Wblocks { eblock: other, wblock: from, count: 2, .. },
        ] = hits[..]
        else {
            panic!("{hits:?}")
        };
        assert!(eblock == e(0) && other != e(0));
        for cut in [false, true] {
            if cut {
                w.restored(seed);
            }
            (4..6).for_each(|i| assert!(w.read(0, i).unwrap_err().is_uncorrectable()));
            for (&n, &(_, next, _)) in w.eblocks.iter().filter(|(n, _)| **n != 0) {
                for i in 0..next {
                    let struck = other == e(n) && (from..from + 2).contains(&i);
                    targets += u32::from(struck);
                    assert_eq!(w.read(n, i).is_err(), struck, "EBLOCK {n}, WBLOCK {i}");
                }
            }
        }
    }
    assert!(targets > 4, "it hits what is programmed, too");
}

/// Tags are padded to a whole group if an EBLOCK begins the group, but not at the place of a misdirected write.
#[test]
fn a_misdirected_write_spares_its_neighbours_in_groups_of_one_eblock_too() {
    let geometry = Geometry::new(1, 1, 1, 4096, 256 << 10, 1 << 20, 8).unwrap();
    for seed in 0..20 {
        let (m, faults) = Medium::simulated(geometry);
        let data = PageBuf::copy_from(&[7; 256 << 10]);
        for n in 0..8 {
            m.erase(e(n)).unwrap();
            (0..3).for_each(|i| m.program(e(n), i, &data).unwrap());
        }
        faults.arm(FaultKind::MisdirectedWrite, 0, seed);
        m.program(e(0), 3, &data).unwrap();
        let Hit::Wblocks { eblock, wblock, .. } = faults.hits()[1] else { panic!() };
        for (n, i) in (0..8).flat_map(|n| (0..3).map(move |i| (n, i))) {
            let struck = (e(n), i) == (eblock, wblock);
            let read = m.read(geometry.ppa(e(n), i << 18).unwrap(), 256 << 10);
            assert_eq!(read.is_err(), struck, "seed {seed}: EBLOCK {n}, WBLOCK {i}");
        }
    }
}

#[test]
fn a_torn_program_is_found_in_part_and_never_whole() {
    let mut seen = [0; 3];
    for seed in 0..100 {
        let mut w = filled();
        w.faults.arm(FaultKind::TornProgram, 1, seed);
        w.program(1, 1).unwrap();
        assert!(!w.faults.is_cut());
        w.program(0, 2).unwrap();
        assert!(w.faults.is_cut());
        assert_eq!(w.faults.operations(), 9 + 1 + 2);
        w.program(0, 2).unwrap();
        w.sync().unwrap();
        w.restored(seed);
        let states = [4, 5].map(|i| w.medium.probe(e(0), i).unwrap());
        assert_ne!(states, [WblockState::Programmed; 2]);
        seen[0] += u32::from(states[0] == WblockState::Programmed);
        seen[1] += u32::from(states.contains(&WblockState::Damaged));
        seen[2] += u32::from(states == [WblockState::Empty; 2]);
        (0..3).for_each(|n| (0..4).for_each(|i| assert!(w.read(n, i).unwrap())));
        (6..8).for_each(|i| assert_eq!(w.medium.probe(e(0), i).unwrap(), WblockState::Empty));
    }
    assert!(seen[0] > 10 && seen[1] > 50, "{seen:?}");
}

#[test]
fn a_cut_within_a_sync_leaves_any_part_of_what_it_was_to_keep() {
    let mut seen = [0; 3];
    for seed in 0..60 {
        let mut w = filled();
        w.program(0, 1).unwrap();
        w.faults.cut_after(0);
        w.sync().unwrap();
        w.restored(seed);
        seen[match w.medium.probe(e(0), 4).unwrap() {
            WblockState::Empty => 0,
            WblockState::Damaged => 1,
            WblockState::Programmed => 2,
        }] += 1;
        (0..3).for_each(|n| (0..4).for_each(|i| assert!(w.read(n, i).unwrap())));
    }
    assert!(seen.iter().all(|&n| n > 4), "{seen:?}");
}

#[test]
fn a_full_file_system_has_space_again_when_disarmed() {
    for seed in 0..20 {
        let mut w = filled();
        w.faults.arm(FaultKind::NoSpace, seed % 3, seed);
        let mut failed = 0;
        for n in 3..12 {
            w.erase(n).unwrap();
            if let Err(error) = w.program(n, 1) {
                assert!(error.is_no_space() && !error.is_program_failure(), "{error}");
                failed += 1;
            }
        }
        assert!(failed >= if seed % 2 == 1 { 6 } else { 1 }, "seed {seed}: {failed}");
        w.faults.disarm_all();
        for n in 3..12 {
            w.erase(n).unwrap();
            w.program(n, 2).unwrap();
            assert!(w.read(n, 1).unwrap());
        }
        (0..3).for_each(|n| (0..4).for_each(|i| assert!(w.read(n, i).unwrap())));
        w.sync().unwrap();
    }
}

#[test]
fn a_write_error_of_the_host_ends_one_eblock_and_a_sync_error_all_writing() {
    let mut w = filled();
    w.faults.arm(FaultKind::WriteError, 0, 1);
    let error = w.program(0, 1).unwrap_err();
    assert!(error.is_program_failure(), "{error}");
    assert!(error.to_string().starts_with("<simulated>: cannot write data: Input/output error"), "{error}");
    w.program(1, 1).unwrap();
    w.faults.arm(FaultKind::SyncError, 0, 1);
    assert!(w.sync().is_err());
    assert!(matches!(
        w.medium.program(e(1), 5, &content(1, 5, w.eblocks[&1].0, 1)),
        Err(FlashError::Poisoned { .. })
    ));
    w.restored(3);
    (0..3).for_each(|n| (0..4).for_each(|i| assert!(w.read(n, i).unwrap())));
    w.sync().unwrap();
}

/// One or two faults of any kind, at any operation of a random workload. Reads return what was programmed, or an
/// error that names the page. Synced data that no fault hit survives a power cut.
#[test]
fn no_fault_makes_a_read_answer_wrong_bytes() {
    let mut fired: BTreeMap<FaultKind, u64> = BTreeMap::new();
    let mut refused = 0;
    for seed in 0..600 {
        let mut random = Random(seed);
        let mut w = World::new();
        let mut hurt = false;
        for _ in 0..3 {
            for _ in 0..random.below(3) {
                let kind = FaultKind::ALL[random.below(FaultKind::ALL.len() as u64) as usize];
                w.faults.arm(kind, random.below(20), random.below(u64::MAX));
                hurt |= !matches!(
                    kind,
                    FaultKind::PowerCut
                        | FaultKind::TornProgram
                        | FaultKind::ReadFailsOnce
                        | FaultKind::StaleRead
                        | FaultKind::MisdirectedRead
                        | FaultKind::EraseFails
                        | FaultKind::FlipCheckpoint
                        | FaultKind::FlipLog
                        | FaultKind::FlipSuperblock
                );
            }
            for _ in 0..40 {
                let n = random.below(u64::from(EBLOCKS)) as u32;
                match random.below(8) {
                    0 | 1 if !w.faults.is_cut() => drop(w.erase(n)),
                    2..=4 if w.eblocks.contains_key(&n) => {
                        let count = 1 + random.below(3) as u32;
                        // Programs after the power cut are lost.
                        if w.medium.next_wblock(e(n)) + count <= WBLOCKS
                            && w.medium.next_wblock(e(n)) == w.eblocks[&n].1
                            && !w.faults.is_cut()
                        {
                            drop(w.program(n, count));
                        }
                    }
                    5 if !w.faults.is_cut() => drop(w.sync()),
                    6 => drop(w.medium.write_checkpoint_record(random.below(2) as usize, &[7; 100])),
                    7 if !w.faults.is_cut() && random.below(4) == 0 && w.medium.discard(e(n)).is_ok() => {
                        w.eblocks.remove(&n);
                    }
                    _ => {}
                }
                for n in [n, random.below(u64::from(EBLOCKS)) as u32] {
                    let Some(&(_, next, _)) = w.eblocks.get(&n) else { continue };
                    let wblock = random.below(u64::from(WBLOCKS)) as u32;
                    match w.read(n, wblock) {
                        Ok(_) => {}
                        Err(e) if e.is_uncorrectable() => refused += u32::from(wblock < next),
                        Err(e) => panic!("seed {seed}: {e}"),
                    }
                }
            }
            w.faults.fired().into_iter().for_each(|(k, n)| *fired.entry(k).or_default() += n);
            let copies = w.faults.hits().iter().filter(|h| matches!(h, Hit::Superblock { .. })).count();
            match w.try_restored(random.below(u64::MAX)) {
                Ok(()) => {}
                Err(FlashError::CorruptSuperblock { .. }) if copies > 1 => break,
                Err(e) => panic!("seed {seed}: {e}"),
            }
            for (&n, &(_, next, synced)) in &w.eblocks {
                for i in 0..next.min(WBLOCKS) {
                    match w.read(n, i) {
                        Ok(_) => {}
                        Err(e) => assert!(e.is_uncorrectable() && (hurt || i >= synced), "seed {seed}: {e}"),
                    }
                }
            }
            // The contents of these are unknown.
            w.eblocks.retain(|_, (_, next, synced)| synced == next);
        }
    }
    assert!(refused > 100, "{refused}");
    let missing: Vec<_> = FaultKind::ALL
        .iter()
        .filter(|k| !matches!(k, FaultKind::FlipLog) && !fired.contains_key(k))
        .collect();
    assert!(missing.is_empty(), "never struck: {missing:?}, of {fired:?}");
}

/// Threads share the faults. Each thread reads its own EBLOCKs, and its reads are right or refused.
#[test]
fn faults_strike_many_threads_and_lock_none_of_them_out() {
    for seed in 0..10 {
        let (m, faults) = Medium::simulated(geometry());
        for (i, kind) in FaultKind::ALL.into_iter().enumerate().filter(|(_, k)| *k != FaultKind::SyncError) {
            faults.arm(kind, 20 + 7 * i as u64, seed);
        }
        std::thread::scope(|s| {
            for thread in 0..4 {
                let m = &m;
                s.spawn(move || {
                    for round in 0..30 {
                        let n = thread + 4 * (round % 4);
                        if m.erase(e(n)).is_err() {
                            continue;
                        }
                        let g = m.generation(e(n));
                        for i in 0..4 {
                            if m.program(e(n), i, &content(n, i, g, 1)).is_err() {
                                break;
                            }
                            match m.read(ppa(n, i), WBLOCK_BYTES) {
                                Ok(read) => assert!(read == content(n, i, g, 1)),
                                Err(e) => assert!(e.is_uncorrectable(), "{e}"),
                            }
                        }
                        m.sync().unwrap();
                    }
                });
            }
        });
        assert!(faults.is_cut());
        faults.restored(seed).unwrap();
    }
}
