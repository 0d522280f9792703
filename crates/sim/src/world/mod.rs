//! A drive, its medium and the oracle, and the steps that all three take together.
//!
//! ```text
//!   step ─► drive (through a lens) ─► answer ─► oracle: allowed?
//!        └► power, faults ─► cut? ─► reopen ─► everything compared
//! ```
//!
//! After each step the drive's invariants are checked; a power cut that struck within it, or a drive that became
//! read-only, is followed by a reopen at once.

mod harm;
mod power;
mod read;
mod resolve;
mod scan;
mod write;

use std::rc::Rc;
use std::sync::Arc;

use lode_base::{Lpid, OwnerId, VirtualNs};
use lode_command::{Budget, Command, CommandError, Device, Progress, Reply};
use lode_firmware::Drive;
use lode_flash::{FaultKind, Faults, Medium};

use crate::coverage::Coverage;
use crate::failure::{Kind, Wrong, wrong};
use crate::host;
use crate::oracle::{Extent, Oracle};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::step::{Cut, Step};
use harm::{Harm, is_damage};

/// The owner of pages of plain bytes.
const PLAIN: OwnerId = OwnerId::new(3);
/// The owner of table pages.
const ROWS: OwnerId = OwnerId::new(9);

/// What lies between the host and the drive: nothing, or something that a test made to lie.
pub type Lens = fn(Drive) -> Arc<dyn Device>;

/// No lens.
pub(crate) fn clear(drive: Drive) -> Arc<dyn Device> {
    Arc::new(drive)
}

pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    lens: Lens,
    drive: Drive,
    device: Arc<dyn Device>,
    faults: Faults,
    harm: Harm,
    /// What becomes of the cut that is to come.
    due: Cut,
    /// Why the drive takes no writes any more.
    read_only: Option<String>,
    /// Whether the image was refused, as it may be: there is nothing more to do.
    over: bool,
    oracle: Oracle,
    pub(crate) coverage: Coverage,
}

type Done<T = ()> = Result<T, Wrong>;

impl<'a> World<'a> {
    /// A new drive.
    pub(crate) fn new(scenario: &'a Scenario, lens: Lens) -> Done<Self> {
        let (medium, faults) = Medium::simulated(scenario.geometry);
        let drive = match Drive::format(medium, scenario.options.clone()) {
            Ok(drive) => drive,
            Err(e) => return wrong(Kind::NotOpened, format!("a new drive can not be made: {e}")),
        };
        Ok(Self {
            scenario,
            lens,
            device: lens(drive.clone()),
            drive,
            faults,
            harm: Harm::default(),
            due: Cut::default(),
            read_only: None,
            over: false,
            oracle: Oracle::default(),
            coverage: Coverage::default(),
        })
    }

    /// One step, and what it entails.
    pub(crate) fn step(&mut self, step: &Step) -> Done {
        if self.over {
            return Ok(());
        }
        self.coverage.step(step);
        self.harm.look(&self.faults);
        self.harm.step_begins();
        self.act(step)?;
        if self.over {
            return Ok(());
        }
        if self.faults.is_cut() || self.read_only.is_some() {
            if self.read_only.is_some() && !self.faults.is_cut() {
                self.reads_go_on()?;
            }
            let cut = std::mem::take(&mut self.due);
            self.reopen(&cut)?;
        }
        if self.over { Ok(()) } else { self.invariants() }
    }

    /// The end of a run: everything is compared once more.
    pub(crate) fn end(&mut self) -> Done {
        if !self.over {
            self.compare_all()?;
            self.checks_itself()?;
        }
        self.harm.look(&self.faults);
        self.coverage.struck = self.harm.struck_in_all();
        Ok(())
    }

    fn act(&mut self, step: &Step) -> Done {
        match step {
            Step::Allocate { rows, count } => self.allocate(if *rows { ROWS } else { PLAIN }, *count),
            Step::Write { batches, reads } => self.write(batches, *reads),
            Step::Refused { seed } => self.refused(*seed),
            Step::Read { seed, pages } => self.read(*seed, *pages),
            Step::OpenView => self.open_view(),
            Step::CloseView { which } => self.close_view(*which),
            Step::Scan { seed } => self.scan(*seed),
            Step::BuildIndex => self.build_index(),
            Step::ReadIndex { seed } => self.read_index(*seed),
            Step::Checkpoint => self.checkpoint(),
            Step::Work { times, bytes } => {
                self.work(*times, *bytes);
                Ok(())
            }
            Step::Fill { seed, percent } => self.fill(*seed, *percent),
            Step::Overwrite { seed, batches, hot } => self.overwrite(*seed, *batches, *hot),
            Step::Check => {
                self.compare_all()?;
                self.checks_itself()
            }
            Step::Close { seed, again } => self.close(&Cut { seed: *seed, again: again.clone() }),
            Step::Crash(cut) => self.reopen(cut),
            Step::CutAfter { operations, cut } => {
                self.due = cut.clone();
                self.faults.cut_after(*operations);
                Ok(())
            }
            Step::NoSpaceAfter { programs } => {
                self.faults.full_after(*programs);
                Ok(())
            }
            Step::Arm { kind, after, seed } => {
                self.faults.arm(*kind, *after, *seed);
                Ok(())
            }
            Step::Flip { kind, seed } => {
                self.faults.flip(*kind, *seed);
                Ok(())
            }
            Step::Disarm => {
                self.faults.disarm_all();
                Ok(())
            }
        }
    }

    fn run(&self, c: Command) -> Done<Result<Reply, CommandError>> {
        host::run(&*self.device, c)
    }

    fn allocate(&mut self, owner: OwnerId, count: u32) -> Done {
        let room = (self.scenario.extents_max as usize).saturating_sub(self.oracle.now.extents.len());
        let count = count.min(room as u32);
        if count == 0 {
            return Ok(());
        }
        let extents = match self.run(Command::AllocateExtents { owner, count })? {
            Ok(Reply::Extents(extents)) if extents.len() == count as usize => extents,
            answer => return self.failed("an allocation", answer),
        };
        let now = Rc::make_mut(&mut self.oracle.now);
        for e in extents {
            if now.extents.insert(e, Extent { owner, written: false }).is_some() {
                return wrong(Kind::Answer, format!("{e:?} is handed out twice"));
            }
            if self.oracle.views.iter().any(|(_, shown)| shown.pages_of(e).next().is_some()) {
                return wrong(Kind::Answer, format!("{e:?} is handed out while a view shows its pages"));
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Done {
        match self.run(Command::Checkpoint)? {
            Ok(Reply::Done) => Ok(()),
            answer => self.failed("a checkpoint", answer),
        }
    }

    fn work(&mut self, times: u32, bytes: u64) {
        for _ in 0..times {
            let progress = self.device.work(VirtualNs::ZERO, Budget { write_bytes: bytes });
            self.coverage.work(progress);
            if progress == Progress::Idle || self.faults.is_cut() {
                return;
            }
        }
    }

    /// Something did not go as asked: allowed when a fault struck it.
    fn failed(&mut self, what: &str, answer: Result<Reply, CommandError>) -> Done {
        match answer {
            // Whatever a drive says after its power went, nobody hears it.
            Err(_) if self.faults.is_cut() => Ok(()),
            Err(e) => self.excused(what, &e),
            Ok(reply) => wrong(Kind::Answer, format!("{what} was answered with {reply:?}")),
        }
    }

    /// Holds an error of a command that only an injected fault excuses.
    fn excused(&mut self, what: &str, e: &CommandError) -> Done {
        const READ_ONLY: [FaultKind; 3] = [FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError];
        self.harm.look(&self.faults);
        let harm = &self.harm;
        match e {
            CommandError::Uncorrectable { lpid, ppa, .. } => {
                if !harm.hit_at(&self.scenario.geometry, *ppa, self.longest(*lpid)) {
                    return wrong(Kind::Lost, format!("{what}: {e}, which nothing hit"));
                }
                self.coverage.uncorrectable += 1;
                Ok(())
            }
            CommandError::ReadOnly(why) if harm.struck(&READ_ONLY) => {
                self.read_only = Some(why.clone());
                Ok(())
            }
            CommandError::ReadOnly(_) => wrong(Kind::Refusal, format!("{what}: {e}")),
            CommandError::Medium(t)
                if t.contains("no storage space") && harm.struck_now(&[FaultKind::NoSpace]) =>
            {
                Ok(())
            }
            CommandError::Medium(t)
                if t.contains("nput/output error")
                    && harm.struck_now(&[FaultKind::WriteError, FaultKind::SyncError]) =>
            {
                Ok(())
            }
            CommandError::Medium(text) if harm.hit_data() && is_damage(text) => Ok(()),
            e => wrong(Kind::Answer, format!("{what} failed: {e}")),
        }
    }

    /// The length of the longest version of a page that is needed.
    fn longest(&self, lpid: Lpid) -> u32 {
        let states = self.oracle.views.iter().map(|v| &v.1).chain([&self.oracle.now]);
        states.filter_map(|s| s.pages.get(&lpid)).map(|p| p.len).max().unwrap_or(0)
    }

    /// What the drive says of its own structures, all of which are in memory.
    fn invariants(&self) -> Done {
        let info = self.drive.info();
        if self.read_only.is_none() && info.commit.raw() != self.oracle.now.commit {
            let (got, expected) = (info.commit.raw(), self.oracle.now.commit);
            return wrong(Kind::Answer, format!("the newest commit is {got}, and should be {expected}"));
        }
        if info.views as usize != self.oracle.views.len() {
            let (got, expected) = (info.views, self.oracle.views.len());
            return wrong(Kind::Answer, format!("{got} views are open, and should be {expected}"));
        }
        Ok(())
    }

    fn random(seed: u64) -> Random {
        Random::new(seed)
    }
}
