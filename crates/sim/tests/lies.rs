//! The oracle finds every false answer: each lens between the host and the drive falsifies answers in one way.
//!
//! ```text
//!   host ── command ─► lens ── command' ─► drive          one lie in so many commands, always the same kind
//!   host ◄─ answer' ── lens ◄── answer ─── drive
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lode_base::{Lpid, PageBuf, Split, VirtualTime};
use lode_command::{
    Align, Budget, Command, CommandError, Completion, Device, DeviceError, Identity, Outcome, Progress,
    Queue, Refused, Reply, Tag, Until,
};
use lode_firmware::Drive;
use lode_program::Program;
use lode_sim::{FailureKind, FaultSet, Lens, RunOptions, run, shrink};

/// The lens lies about one command in this many.
const ONE_IN: u64 = 7;
/// The number of seeds within which each lie must be found.
const SEEDS: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    DropsAPage,
    DropsATrim,
    DropsARelease,
    DropsABatch,
    DropsARule,
    SplitsABatch,
    WritesTwice,
    SwapsTwoPages,
    FlipsABit,
    AnswersAnOldVersion,
    AnswersZeroes,
    ShiftsAPart,
    ForgetsAPage,
    ShowsTheNewestAtAView,
    ClosesAView,
    KeepsAView,
    ScanDropsAPage,
    ScanAddsAPage,
    ReadDropsPages,
    IndexDropsAnEntry,
    IndexSwapsEntries,
    ListDropsAnExtent,
    RefusesForNothing,
    TakesWhatMakesNoSense,
    TakesOutOfOrder,
    ForgetsASession,
    ForcesNothing,
}

const LIES: [Lie; 27] = [
    Lie::DropsAPage,
    Lie::DropsATrim,
    Lie::DropsARelease,
    Lie::DropsABatch,
    Lie::DropsARule,
    Lie::SplitsABatch,
    Lie::WritesTwice,
    Lie::SwapsTwoPages,
    Lie::FlipsABit,
    Lie::AnswersAnOldVersion,
    Lie::AnswersZeroes,
    Lie::ShiftsAPart,
    Lie::ForgetsAPage,
    Lie::ShowsTheNewestAtAView,
    Lie::ClosesAView,
    Lie::KeepsAView,
    Lie::ScanDropsAPage,
    Lie::ScanAddsAPage,
    Lie::ReadDropsPages,
    Lie::IndexDropsAnEntry,
    Lie::IndexSwapsEntries,
    Lie::ListDropsAnExtent,
    Lie::RefusesForNothing,
    Lie::TakesWhatMakesNoSense,
    Lie::TakesOutOfOrder,
    Lie::ForgetsASession,
    Lie::ForcesNothing,
];

struct Liar {
    drive: Drive,
    state: Arc<State>,
}

struct State {
    lie: Lie,
    chances: AtomicU64,
    /// Former versions of pages.
    old: Mutex<HashMap<Lpid, PageBuf>>,
}

struct LyingQueue {
    drive: Drive,
    inner: Box<dyn Queue>,
    state: Arc<State>,
    reads: HashMap<Tag, Vec<Lpid>>,
    /// Completions that the lens makes up.
    made: Vec<Completion>,
}

fn lens<const N: usize>(drive: Drive) -> Arc<dyn Device> {
    let state = State { lie: LIES[N], chances: AtomicU64::new(0), old: Mutex::default() };
    Arc::new(Liar { drive, state: Arc::new(state) })
}

impl State {
    /// Whether this is the lie of the lens, and the lens should lie now. It is called only where the lie is possible.
    fn now(&self, lie: Lie) -> bool {
        self.lie == lie && self.chances.fetch_add(1, Ordering::Relaxed) % ONE_IN == ONE_IN - 1
    }
}

impl Device for Liar {
    fn identity(&self) -> &Identity {
        self.drive.identity()
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(LyingQueue {
            drive: self.drive.clone(),
            inner: self.drive.open_queue(depth)?,
            state: self.state.clone(),
            reads: HashMap::new(),
            made: Vec::new(),
        }))
    }

    fn work(&self, at: VirtualTime, budget: Budget) -> Progress {
        self.drive.work(at, budget)
    }
}

/// Runs a command that the host does not know of.
fn secretly(drive: &Drive, c: Command) {
    let mut q = drive.open_queue(1).unwrap();
    q.submit(VirtualTime::ZERO, c).unwrap();
    q.complete(VirtualTime::ZERO, Until::One, &mut Vec::new()).unwrap();
}

impl LyingQueue {
    fn changed(&mut self, c: Command) -> Command {
        let s = self.state.clone();
        match c {
            Command::Write(mut b) => {
                if b.writes.len() > 1 && s.now(Lie::DropsAPage) {
                    b.writes.pop();
                }
                if b.trims.len() > 1 && s.now(Lie::DropsATrim) {
                    b.trims.clear();
                }
                if !b.writes.is_empty() && !b.releases.is_empty() && s.lie == Lie::DropsARelease {
                    b.releases.clear();
                }
                if b.writes.len() > 1 && !b.index_rules.is_empty() && s.lie == Lie::DropsARule {
                    b.index_rules.clear();
                }
                if b.writes.len() > 1 && s.now(Lie::SplitsABatch) {
                    let rest = b.writes.split_off(1);
                    secretly(
                        &self.drive,
                        Command::Write(lode_command::Batch { writes: rest, ..Default::default() }),
                    );
                }
                if !b.writes.is_empty() && s.now(Lie::WritesTwice) {
                    secretly(&self.drive, Command::Write(b.clone()));
                }
                let plain = |p: &lode_command::PageWrite| p.align == Align::Cell && p.data.len() > 200;
                if b.writes.len() > 1 && b.writes[..2].iter().all(plain) && s.now(Lie::SwapsTwoPages) {
                    let first = b.writes[0].data.clone();
                    b.writes[0].data = std::mem::replace(&mut b.writes[1].data, first);
                }
                if s.lie == Lie::AnswersAnOldVersion {
                    let mut old = s.old.lock().unwrap();
                    for p in &b.writes {
                        old.entry(p.lpid).or_insert_with(|| p.data.clone());
                    }
                }
                if s.lie == Lie::TakesOutOfOrder {
                    b.session = None;
                }
                b.unforced |= s.lie == Lie::ForcesNothing;
                Command::Write(b)
            }
            Command::Read { view: Some(_), pages } if s.now(Lie::ShowsTheNewestAtAView) => {
                Command::Read { view: None, pages }
            }
            c => c,
        }
    }

    fn lies(&mut self, c: &mut Completion) {
        let s = self.state.clone();
        let lpids = self.reads.remove(&c.tag).unwrap_or_default();
        match &mut c.outcome {
            Outcome::Unit(unit) => {
                let rows = unit.pages.first().is_some_and(|p| !p.columns.is_empty());
                if rows && s.now(Lie::ScanDropsAPage) {
                    unit.pages.pop();
                }
                if rows && s.now(Lie::ScanAddsAPage) {
                    unit.pages.push(unit.pages[0].clone());
                }
            }
            Outcome::Done(Ok(Reply::LastUnit { unit, .. }))
                if !unit.whole.is_empty() && s.now(Lie::ReadDropsPages) =>
            {
                unit.whole.clear();
            }
            Outcome::Done(Ok(Reply::Pages(pages))) => {
                let mut bytes = pages[0].to_vec();
                if bytes.is_empty() {
                    return;
                }
                if s.now(Lie::FlipsABit) {
                    *bytes.last_mut().unwrap() ^= 0x10;
                }
                if s.now(Lie::AnswersZeroes) {
                    bytes.fill(0);
                }
                if s.now(Lie::ShiftsAPart) {
                    let by = bytes.len() / 2;
                    bytes.rotate_left(by);
                }
                let old = lpids.first().and_then(|l| s.old.lock().unwrap().get(l).cloned());
                pages[0] = match old {
                    Some(old) if old[..] != bytes[..] && s.now(Lie::AnswersAnOldVersion) => old,
                    _ => PageBuf::copy_from(&bytes),
                };
                if s.now(Lie::ForgetsAPage) {
                    c.outcome = Outcome::Done(Err(CommandError::Unmapped(lpids[0])));
                }
            }
            Outcome::Done(Ok(Reply::IndexEntries(entries))) => {
                let given = entries.iter().filter(|e| e.entry.is_some()).count();
                if given > 0 && s.lie == Lie::IndexDropsAnEntry {
                    entries.iter_mut().for_each(|e| e.entry = None);
                }
                if given > 1 && s.lie == Lie::IndexSwapsEntries {
                    let all: Vec<_> = entries.iter().rev().map(|e| e.entry.clone()).collect();
                    entries.iter_mut().zip(all).for_each(|(e, other)| e.entry = other);
                }
            }
            Outcome::Done(Ok(Reply::ExtentList(list)))
                if list.len() > 1 && s.lie == Lie::ListDropsAnExtent =>
            {
                list.remove(0);
            }
            outcome @ Outcome::Done(Ok(Reply::Committed { .. })) if s.now(Lie::RefusesForNothing) => {
                *outcome = Outcome::Done(Err(CommandError::Medium("a made-up failure".into())));
            }
            outcome @ Outcome::Done(Err(CommandError::Invalid(_))) if s.lie == Lie::TakesWhatMakesNoSense => {
                *outcome = Outcome::Done(Ok(Reply::Done));
            }
            Outcome::Done(Ok(Reply::Session { highest, .. })) if s.lie == Lie::ForgetsASession => {
                *highest = 0
            }
            _ => {}
        }
    }
}

impl Queue for LyingQueue {
    fn submit(&mut self, at: VirtualTime, c: Command) -> Result<Tag, Refused> {
        let s = self.state.clone();
        if matches!(&c, Command::Write(b) if !b.writes.is_empty()) && s.now(Lie::DropsABatch) {
            let tag = Tag(1 << 40 | self.made.len() as u64);
            let reply =
                Reply::Committed { commit: self.drive.info().commit, view: None, entries: Vec::new() };
            self.made.push(Completion {
                tag,
                at,
                split: Split::default(),
                outcome: Outcome::Done(Ok(reply)),
            });
            return Ok(tag);
        }
        if matches!(c, Command::CloseView(_)) && s.now(Lie::KeepsAView) {
            let tag = Tag(1 << 40 | self.made.len() as u64);
            self.made.push(Completion {
                tag,
                at,
                split: Split::default(),
                outcome: Outcome::Done(Ok(Reply::Done)),
            });
            return Ok(tag);
        }
        if let Command::Read { view: Some(view), .. } = &c
            && s.now(Lie::ClosesAView)
        {
            secretly(&self.drive, Command::CloseView(*view));
        }
        let lpids = match &c {
            Command::Read { pages, .. } => pages.iter().map(|p| p.lpid).collect(),
            _ => Vec::new(),
        };
        let c = self.changed(c);
        let tag = self.inner.submit(at, c)?;
        self.reads.insert(tag, lpids);
        Ok(tag)
    }

    fn complete(
        &mut self,
        at: VirtualTime,
        until: Until,
        out: &mut Vec<Completion>,
    ) -> Result<(), DeviceError> {
        if let Some(made) = self.made.pop() {
            out.push(made);
            return Ok(());
        }
        let from = out.len();
        self.inner.complete(at, until, out)?;
        out[from..].iter_mut().for_each(|c| self.lies(c));
        Ok(())
    }

    fn narrow(&mut self, task: Tag, p: Arc<Program>) {
        self.inner.narrow(task, p);
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }
}

macro_rules! lenses {
    ($($n:literal)*) => { [$(lens::<$n> as Lens),*] };
}

const LENSES: [Lens; 27] = lenses!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26);

#[test]
fn every_lie_is_found() {
    let mut unfound = Vec::new();
    for (lie, lens) in LIES.iter().zip(LENSES) {
        let options = RunOptions { lens, faults: FaultSet::none(), ..RunOptions::default() };
        let found = (0..SEEDS).find_map(|seed| Some((seed, run(seed, &options).failure?)));
        match found {
            Some((seed, failure)) => println!("{lie:?}: seed {seed}, {failure}"),
            None => unfound.push(lie),
        }
    }
    assert!(unfound.is_empty(), "not found in {SEEDS} seeds: {unfound:?}");
}

#[test]
fn a_failure_is_cut_down_to_a_replay_that_still_fails() {
    let options = RunOptions { lens: LENSES[0], faults: FaultSet::none(), ..RunOptions::default() };
    let failed = |seed: &u64| run(*seed, &options).failure.is_some_and(|f| f.step > 20);
    let seed = (0..200).find(failed).expect("one fails late");
    let outcome = run(seed, &options);
    let replay = shrink(&outcome, &options, 300).unwrap();
    assert!(replay.steps.len() <= 2 * ONE_IN as usize, "{replay}");
    let only = replay.steps.iter().map(|(n, _)| *n).collect();
    let again = run(seed, &RunOptions { only: Some(only), ..options });
    assert_eq!(again.failure, Some(replay.failure));
    assert!(again.failure.is_some_and(|f| f.kind != FailureKind::Panic));
}
