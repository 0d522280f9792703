//! The log against a model, over many seeds: programs that fail in every way, full files, power cuts, reopenings,
//! truncation and EBLOCKs that are used again.
//!
//! ```text
//!   model: the groups that were appended, each with whether a sync came after        medium: simulated, loses power
//!   found after a cut = a prefix of those appended, with all that were synced; none that was refused; none twice
//! ```

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use lode_base::EblockId;
use lode_flash::{FaultKind, Faults, Medium};
use proptest::collection::vec;
use proptest::prelude::*;

use super::testing::{Fate, Faulty, Log, number_of, records, small, take};
use super::{LogEnd, LogPosition, LogWriter, read_log};
use crate::FirmwareError;

/// A group that was appended whole.
struct Appended {
    number: u64,
    first: u64,
    durable: bool,
}

struct World {
    m: Faulty,
    faults: Faults,
    w: LogWriter,
    copies: u32,
    free: BTreeSet<u32>,
    /// Where replay would begin, durably.
    checkpoint: LogPosition,
    /// The last LSN when the drive was closed, as long as no later checkpoint says that it is open.
    closed_at: Option<u64>,
    groups: Vec<Appended>,
    next: u64,
    reopened: u32,
}

fn new_log(m: &Medium, free: &mut BTreeSet<u32>, lsn: u64) -> LogPosition {
    LogPosition::start(lsn, [(); 3].map(|()| take(m, free).expect("there is room for a log")))
}

impl World {
    fn new(copies: u32) -> Self {
        let (m, faults) = Medium::simulated(small());
        let mut free: BTreeSet<u32> = (0..small().eblock_count()).collect();
        let checkpoint = new_log(&m, &mut free, 1);
        Self {
            m: Faulty::new(m),
            faults,
            w: LogWriter::new(checkpoint, copies),
            copies,
            free,
            checkpoint,
            closed_at: None,
            groups: Vec::new(),
            next: 0,
            reopened: 0,
        }
    }

    /// Appends a group of so many pages; answers whether the drive can go on.
    fn append(&mut self, pages: usize, fates: &[Fate]) -> bool {
        self.m.next_fates(fates);
        let (number, position) = (self.next, self.w.position());
        self.next += 1;
        let (m, free) = (&self.m.medium, &mut self.free);
        let bytes = records(number, Log::pages(pages));
        let appended = self.w.append(&self.m, &bytes, &mut || Ok(take(m, free)));
        self.m.next_fates(&[]);
        // Of what went on when the power was gone already, nobody was told.
        if appended.is_ok() || self.faults.is_cut() {
            self.groups.push(Appended { number, first: position.lsn, durable: false });
        }
        match appended {
            Ok(last) => assert_eq!(last, self.w.position().lsn - 1),
            Err(FirmwareError::LogDead { .. }) => return false,
            Err(e) => assert!(e.is_no_space(), "{e}"),
        }
        self.w.check_invariants(&self.m);
        self.w.take_failed();
        true
    }

    /// Answers whether all that was written is durable.
    fn sync(&mut self) -> bool {
        self.m.medium.sync().unwrap();
        self.w.synced();
        let durable = !self.faults.is_cut();
        self.groups.iter_mut().for_each(|g| g.durable |= durable);
        durable
    }

    /// Replay begins at the group that holds page `lsn` from now on.
    fn checkpoint(&mut self, lsn: u64) {
        let position = self.w.position_of(lsn);
        assert!(position.lsn <= lsn.max(self.checkpoint.lsn));
        if self.sync() {
            self.checkpoint = position;
            self.closed_at = None;
            let gone = self.w.truncate(lsn);
            assert!(gone.iter().all(|e| self.free.insert(e.raw())), "an EBLOCK is let go twice");
            self.w.check_invariants(&self.m);
            assert_eq!(self.w.eblocks().len() + self.free.len(), 64, "no EBLOCK is lost");
        }
    }

    fn read(&self, position: &LogPosition) -> Result<(Vec<u64>, LogEnd), FirmwareError> {
        let mut numbers = Vec::new();
        let end = read_log(&self.m, position, &mut |g, durable| {
            let number = number_of(&g);
            let known =
                self.groups.iter().find(|a| a.number == number).expect("only what was appended is found");
            assert_eq!(g.position.lsn, known.first);
            assert!(known.durable || !durable, "group {number} is not durable");
            numbers.push(number);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((numbers, end))
    }

    fn expected(&self, position: &LogPosition) -> Vec<u64> {
        self.groups.iter().filter(|g| g.first >= position.lsn).map(|g| g.number).collect()
    }

    /// What is read now, from the checkpoint and from anywhere.
    fn check_live(&self, a: u64) {
        for lsn in [self.checkpoint.lsn, self.checkpoint.lsn + a] {
            let position = if lsn == self.checkpoint.lsn { self.checkpoint } else { self.w.position_of(lsn) };
            let (numbers, end) = self.read(&position).unwrap();
            assert_eq!(numbers, self.expected(&position));
            assert_eq!(end.position, self.w.position());
            let held: BTreeSet<_> = self.w.eblocks().into_iter().collect();
            assert!(
                end.eblocks.iter().all(|e| held.contains(e)),
                "the log was read in an EBLOCK that is not its own"
            );
        }
    }

    /// The power goes, or went; the drive is opened again.
    fn reopen(&mut self, seed: u64) {
        self.faults.cut();
        let held: BTreeSet<_> = self.w.eblocks().into_iter().collect();
        let (m, faults) = self.faults.restored(seed).unwrap();
        (self.m, self.faults) = (Faulty::new(m), faults);
        self.reopened += 1;
        let (numbers, end) = self.read(&self.checkpoint).unwrap();
        let expected = self.expected(&self.checkpoint);
        assert!(expected.starts_with(&numbers), "found {numbers:?} of {expected:?}");
        let lost = &self.groups[self.groups.len() - (expected.len() - numbers.len())..];
        assert!(lost.iter().all(|g| !g.durable), "found {numbers:?}, and what was synced is not there");
        assert!(
            end.eblocks.iter().all(|e| held.contains(e)),
            "the log was read in an EBLOCK that is not its own"
        );
        self.groups.retain(|g| numbers.contains(&g.number));
        // Only what a later opening can rely on is durable: here all that was read is kept.
        if self.closed_at == Some(end.lsn) {
            self.go_on(&end);
        } else {
            self.begin_anew(&end);
        }
        self.groups.iter_mut().for_each(|g| g.durable = true);
    }

    /// The log goes on where it ended.
    fn go_on(&mut self, end: &LogEnd) {
        for s in end.position.candidates {
            self.m.medium.set_generation(s.eblock, s.generation);
            self.m.medium.set_next_wblock(s.eblock, s.wblock);
        }
        self.w = LogWriter::new(end.position, self.copies);
        self.w.resumed(end);
        self.w.check_invariants(&self.m);
        self.free = (0..64).filter(|&e| !self.w.eblocks().contains(&EblockId::new(e))).collect();
    }

    /// Another log begins, and a checkpoint that names it; the log before is not needed then.
    fn begin_anew(&mut self, end: &LogEnd) {
        let mut free: BTreeSet<u32> = (0..64).filter(|&e| !end.eblocks.contains(&EblockId::new(e))).collect();
        self.checkpoint = new_log(&self.m.medium, &mut free, end.lsn + 1);
        self.w = LogWriter::new(self.checkpoint, self.copies);
        free.extend(end.eblocks.iter().map(|e| e.raw()));
        self.free = free;
        self.closed_at = None;
    }

    fn step(&mut self, (op, a, b): (u8, u64, u64)) {
        let pages = 1 + (a % 8) as usize * (a % 3) as usize;
        match op {
            0..6 => {
                // It can be dead: programs before found the file system full, and took its places.
                if !self.append(pages, &[]) {
                    self.reopen(b);
                } else if b % 8 > 0 {
                    self.sync();
                }
            }
            6..12 => {
                let fates = [b, b >> 16, b >> 32, b >> 48].map(|b| {
                    let whole = (b >> 8) & 0xff;
                    match b % 11 {
                        0..4 => Fate::Fails { whole },
                        4 => Fate::Fails { whole: 0xff },
                        5 => Fate::FailsBefore,
                        6 => Fate::FullBefore,
                        7 | 8 => Fate::FullWithin { whole },
                        _ => Fate::Succeeds,
                    }
                });
                if !self.append(pages, &fates) {
                    self.reopen(b);
                } else if b % 8 > 0 {
                    self.sync();
                }
            }
            12 | 13 => {
                let written = self.w.position().lsn - self.checkpoint.lsn;
                self.checkpoint(self.checkpoint.lsn + a % (written + 1));
            }
            14 => self.check_live(a % (self.w.position().lsn - self.checkpoint.lsn + 1)),
            15 => self.faults.cut_after(a % 12),
            16 => {
                self.checkpoint(
                    self.w.position().lsn - (a % 3).min(self.w.position().lsn - self.checkpoint.lsn),
                );
                if !self.faults.is_cut() {
                    self.closed_at = Some(self.w.position().lsn - 1);
                }
                self.reopen(b);
            }
            _ => self.reopen(b),
        }
        if self.faults.is_cut() {
            self.reopen(b ^ a);
        }
        // What was let go is forgotten.
        let from = self.checkpoint.lsn;
        self.groups.retain(|g| g.first >= from);
        // The medium is small: a checkpoint is due at the latest when it is half full.
        if self.free.len() < 32 {
            self.checkpoint(self.w.position().lsn);
            if self.faults.is_cut() {
                self.reopen(b);
            }
        }
    }
}

/// Found by the model: a garbled page whose garbage was lost in the cut was whole then, and with it a group that had
/// been refused.
#[test]
fn what_a_failed_program_left_does_not_change_with_a_cut() {
    for fate in [Fate::FullWithin { whole: 0 }, Fate::Fails { whole: 0 }] {
        let mut world = World::new(1);
        world.append(1, &[]);
        world.sync();
        world.append(1, &[fate; 3]);
        world.faults.cut();
        for seed in 0..100 {
            world.m = Faulty::new(world.faults.restored(seed).unwrap().0);
            assert_eq!(world.read(&world.checkpoint).unwrap().0, [0], "seed {seed}");
        }
    }
}

/// Found by the model: page 3 of a group that was refused lay behind page 2, with which the log went on after it was
/// closed; a checkpoint there named its position.
#[test]
fn a_checkpoint_does_not_bring_back_pages_of_an_opening_before() {
    let mut world = World::new(1);
    world.append(1, &[]);
    world.append(3, &[Fate::FullWithin { whole: 0b110 }]);
    let end = world.w.position().lsn;
    world.checkpoint(end);
    world.closed_at = Some(end - 1);
    world.reopen(0);
    assert_eq!(world.w.position(), world.checkpoint, "the log goes on where it was");
    world.append(1, &[]);
    world.checkpoint(world.w.position().lsn);
    world.check_live(0);
    assert_eq!(world.read(&world.checkpoint).unwrap().0, [], "page 3 is of the opening before");
}

#[test]
fn one_stale_read_does_not_end_the_log() {
    let mut struck = 0;
    for after in 0..12 {
        let mut world = World::new(1);
        world.append(2, &[]);
        world.sync();
        world.faults.arm(FaultKind::StaleRead, after, after);
        world.append(1, &[]);
        world.sync();
        assert_eq!(world.read(&world.checkpoint).unwrap().0, [0, 1], "read {after} is stale");
        struck += world.faults.fired().iter().map(|f| f.1).sum::<u64>();
    }
    assert!(struck > 0, "no read was stale");
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_was_synced_is_found_and_nothing_that_was_refused(
        copies in 1u32..=2,
        steps in vec((0u8..18, any::<u64>(), any::<u64>()), 1..120),
    ) {
        let mut world = World::new(copies);
        steps.into_iter().for_each(|step| world.step(step));
        world.check_live(0);
        world.reopen(1);
    }

    /// One fault of any kind: the log is whole, or its damage is named; at most the last group is lost, of which no page
    /// says that it was durable.
    #[test]
    fn one_fault_is_survived_or_named(
        copies in 1u32..=2,
        kind in 0..FaultKind::ALL.len(),
        after in 0u64..40,
        seed in any::<u64>(),
        groups in vec(1usize..12, 2..30),
        read_only in any::<bool>(),
    ) {
        let mut world = World::new(copies);
        let kind = FaultKind::ALL[kind];
        let arm = |w: &World| w.faults.arm(kind, after, seed);
        if !read_only {
            arm(&world);
        }
        for &pages in &groups {
            let position = world.w.position();
            let number = world.next;
            world.next += 1;
            let World { m, w, free, .. } = &mut world;
            let appended = w.append(m, &records(number, Log::pages(pages)), &mut || {
                loop {
                    let Some(e) = free.pop_first().map(EblockId::new) else { return Ok(None) };
                    match m.medium.erase(e) {
                        Ok(generation) => return Ok(Some((e, generation))),
                        Err(e) if e.is_erase_failure() => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            });
            if appended.is_err() || world.m.medium.sync().is_err() {
                break;
            }
            world.w.synced();
            let durable = !world.faults.is_cut();
            world.groups.push(Appended { number, first: position.lsn, durable });
        }
        let fatal = matches!(kind, FaultKind::FlipSuperblock | FaultKind::MisdirectedWrite);
        if read_only {
            arm(&world);
        } else {
            // What is bad for good stays bad.
            world.faults.disarm_all();
            world.faults.cut();
            match world.faults.restored(seed) {
                Ok((m, faults)) => (world.m, world.faults) = (Faulty::new(m), faults),
                Err(_) if fatal => return Ok(()),
                Err(e) => panic!("{e}"),
            }
        }
        let all: Vec<_> = world.groups.iter().map(|g| g.number).collect();
        let mut numbers = Vec::new();
        let read = read_log(&world.m, &world.checkpoint, &mut |g, _| {
            numbers.push(number_of(&g));
            Ok(ControlFlow::Continue(()))
        });
        match read {
            Ok(_) => {
                // A group that a cut, a torn program or a failed sync left may be there, too.
                let found: Vec<_> = numbers.iter().copied().take(all.len()).collect();
                prop_assert!(all.starts_with(&found), "found {numbers:?} of {all:?}");
                prop_assert!(numbers.len() <= all.len() + 1);
                let lost = world.groups[found.len()..].iter().filter(|g| g.durable).count();
                prop_assert!(lost <= may_lose(kind), "{kind:?} lost {lost} groups of {all:?}: {numbers:?}");
            }
            Err(FirmwareError::Damaged { .. }) => prop_assert!(may_lose(kind) > 0, "{kind:?}"),
            Err(e) => prop_assert!(e.to_string().contains("read"), "{kind:?}: {e}"),
        }
    }
}

/// Durable groups that a fault of this kind can take away or hide for good, so that no page is left that says so: the
/// last; or a program that went astray, with all that it was written over.
fn may_lose(kind: FaultKind) -> usize {
    match kind {
        FaultKind::FlipLog | FaultKind::LostWrite | FaultKind::ReadFailsForGood => 1,
        FaultKind::MisdirectedWrite => 1 + small().wblocks_per_eblock() as usize,
        _ => 0,
    }
}
