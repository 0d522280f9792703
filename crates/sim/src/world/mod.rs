//! The world of a run: a drive, its medium and the oracle. It executes the steps.
//!
//! ```text
//!   step ─► drive (through a lens) ─► answer ─► oracle: allowed?
//!        └► power, faults ─► cut? ─► reopen ─► everything compared
//! ```
//!
//! After each step, the drive's invariants are checked. If the power was cut during the step, or the drive became
//! read-only, it is reopened at once.

mod groups;
mod harm;
mod join;
mod power;
mod read;
mod resolve;
mod scan;
mod session;
mod write;

use std::rc::Rc;
use std::sync::Arc;

use lode_base::{Lpid, OwnerId, VirtualTime};
use lode_command::{Budget, Command, CommandError, Device, Progress, ReadRequest, Reply};
use lode_firmware::Drive;
use lode_flash::{FaultKind, Faults, Medium};

use crate::coverage::Coverage;
use crate::failure::{FailureKind, Wrong, wrong};
use crate::host;
use crate::oracle::{Extent, Oracle};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::simulated::{self, Simulated};
use crate::step::{Cut, Step};
use harm::{Harm, is_damage};

/// The owner of pages of plain bytes.
const PLAIN: OwnerId = OwnerId::new(3);
/// The owner of table pages.
const ROWS: OwnerId = OwnerId::new(9);

/// The drive may give up a read unit after this many failed reads in a row.
const READS: u64 = 4;

/// Faults that affect one read and not its retry.
const TRANSIENT: [FaultKind; 3] =
    [FaultKind::ReadFailsOnce, FaultKind::StaleRead, FaultKind::MisdirectedRead];

/// Counts commands that were refused because the drive was full.
const REFUSED_FULL: &str = "refused, full";

/// A layer between the host and the drive. Tests use lenses that falsify answers.
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
    /// Which writes survive the armed power cut, and the faults of the recovery after it.
    due: Cut,
    /// A bit to change before the drive is opened again: the kind of data and a seed.
    due_flip: Option<(FaultKind, u64)>,
    /// Whether the drive was closed in order before one of its checkpoint records was lost.
    closed_whole: bool,
    /// Why the drive is read-only.
    read_only: Option<String>,
    /// Whether the run is over: faults explain why the drive could not be opened, or why it is read-only afterwards.
    over: bool,
    /// The number of retired EBLOCKs at the last check. It may not decrease while the drive is open.
    retired: u32,
    /// The erase count of the most worn EBLOCK, at the end of the last step with power.
    worn: u32,
    oracle: Oracle,
    /// What the host registered since the drive was opened.
    registered: join::Registered,
    coverage: Coverage,
}

type Done<T = ()> = Result<T, Wrong>;

impl<'a> World<'a> {
    /// A new drive.
    pub(crate) fn new(scenario: &'a Scenario, lens: Lens) -> Done<Self> {
        let (medium, faults) = Medium::simulated(scenario.geometry);
        let medium = medium.with_protected_buffer(scenario.protected_bytes);
        let drive = match Drive::format(medium, scenario.options.clone()) {
            Ok(drive) => drive,
            Err(e) => return wrong(FailureKind::NotOpened, format!("a new drive cannot be made: {e}")),
        };
        Ok(Self {
            scenario,
            lens,
            device: lens(drive.clone()),
            drive,
            faults,
            harm: Harm::default(),
            due: Cut::default(),
            due_flip: None,
            closed_whole: false,
            read_only: None,
            over: false,
            retired: 0,
            worn: 0,
            oracle: Oracle::default(),
            registered: join::Registered::default(),
            coverage: Coverage::new(Scenario::NAMES),
        })
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
            Step::Flush => self.flush(),
            Step::Work { times, bytes } => {
                self.work(*times, *bytes);
                Ok(())
            }
            Step::Fill { seed, percent, unforced } => self.fill(*seed, *percent, *unforced),
            Step::Overwrite { seed, batches, hot, unforced } => {
                self.overwrite(*seed, *batches, *hot, *unforced)
            }
            Step::Check => {
                self.compare_all()?;
                self.checks_itself()
            }
            Step::Close { cut } => self.close(cut),
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
            Step::Scrub => self.scrub(),
            Step::OpenSession => self.open_session(),
            Step::CloseSession { which } => self.close_session(*which),
            Step::ResumeSession { which } => self.resume_session(*which),
            Step::Disarm => {
                self.faults.disarm_all();
                Ok(())
            }
            Step::CloseDamaged { kind, seed, cut } => self.close_damaged(*kind, *seed, cut),
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
            let before = now.extents.insert(e, Extent { owner, written: false });
            // If the list of extents could not be read, it is unknown which allocations were lost.
            if before.is_some_and(|x| x.written || !self.harm.hit_data()) {
                return wrong(FailureKind::Answer, format!("{e:?} is allocated twice"));
            }
            if self.oracle.views.iter().any(|(_, shown)| shown.pages_of(e).next().is_some()) {
                return wrong(
                    FailureKind::Answer,
                    format!("{e:?} is allocated while a view shows its pages"),
                );
            }
        }
        Ok(())
    }

    fn scrub(&mut self) -> Done {
        let report = match self.drive.scrub() {
            Ok(report) => report,
            Err(e) => return self.failed("a scrub", Err(e.into())),
        };
        self.harm.look(&self.faults);
        match report.lost.first() {
            Some(lost)
                if !self.faults.is_cut()
                    && !self.harm.hit_any()
                    && self.harm.times_now(&TRANSIENT) < READS =>
            {
                wrong(FailureKind::Check, format!("a scrub finds {lost}, which no fault hit"))
            }
            _ => self.scrub_told(&report.lost),
        }
    }

    /// Checks that the preceding scrub reported all unreadable pages.
    fn scrub_told(&mut self, lost: &[String]) -> Done {
        let pages: Vec<Lpid> = match self.harm.hit_data() && !self.faults.is_cut() {
            true => self.oracle.now.pages.keys().copied().collect(),
            false => Vec::new(),
        };
        for lpid in pages {
            let pages = vec![ReadRequest { lpid, range: None }];
            let answer = self.run(Command::Read { view: None, pages })?;
            self.harm.look(&self.faults);
            // The scrub could not find a fault that strikes only now.
            if self.faults.is_cut() || self.harm.strikes_now() {
                return Ok(());
            }
            let told = |l: &String| l.contains(&lpid.to_string());
            if let Err(e @ CommandError::Uncorrectable { .. }) = answer
                && !lost.iter().any(told)
            {
                return wrong(FailureKind::Check, format!("a scrub does not report: {e}"));
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Done {
        match self.run(Command::Checkpoint)? {
            Ok(Reply::Done) => self.was_forced(),
            answer => self.failed("a checkpoint", answer),
        }
    }

    fn flush(&mut self) -> Done {
        match self.run(Command::Flush)? {
            Ok(Reply::Done) => self.was_forced(),
            answer => self.failed("a flush", answer),
        }
    }

    /// Records an answer that makes all earlier answered batches durable, unless the power was cut before the answer.
    fn was_forced(&mut self) -> Done {
        if !self.faults.is_cut() {
            self.oracle.forced();
        }
        Ok(())
    }

    fn work(&mut self, times: u32, bytes: u64) {
        for _ in 0..times {
            let progress = self.device.work(VirtualTime::ZERO, Budget { write_bytes: bytes });
            if progress != Progress::Idle {
                self.coverage.met("background work done");
            }
            if progress == Progress::Idle || self.faults.is_cut() {
                return;
            }
        }
    }

    /// Checks a failed command. A fault may excuse the failure.
    fn failed(&mut self, what: &str, answer: Result<Reply, CommandError>) -> Done {
        match answer {
            // After a power cut, the host does not get the drive's answer.
            Err(_) if self.faults.is_cut() => Ok(()),
            Err(e) => self.excused(what, &e),
            Ok(reply) => wrong(FailureKind::Answer, format!("{what} was answered with {reply:?}")),
        }
    }

    /// Checks an error that only an injected fault excuses.
    fn excused(&mut self, what: &str, e: &CommandError) -> Done {
        const READ_ONLY: [FaultKind; 3] = [FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError];
        self.harm.look(&self.faults);
        let harm = &self.harm;
        match e {
            CommandError::Uncorrectable { lpid, ppa, .. } => {
                let hit = harm.hit_at(&self.scenario.geometry, *ppa, self.longest(*lpid))
                    || harm.times_now(&TRANSIENT) >= READS;
                if !hit {
                    return wrong(FailureKind::Lost, format!("{what}: {e}, which no fault hit"));
                }
                self.coverage.met("page that a fault hit, uncorrectable");
                Ok(())
            }
            CommandError::ReadOnly(why) => {
                let info = self.drive.info();
                let failed = harm.struck_ever(&[
                    FaultKind::ProgramFails,
                    FaultKind::EraseFails,
                    FaultKind::WriteError,
                ]);
                let no_spares = info.spares == 0 && failed > 0;
                let dead = why.contains("the log cannot go on")
                    && harm.struck_in_all().into_iter().any(|(k, n)| k == FaultKind::ProgramFails && n >= 3);
                let damage = harm.hit_data() && is_damage(why);
                if !(harm.struck(&READ_ONLY) || no_spares || dead || damage) {
                    return wrong(FailureKind::ReadOnly, format!("{what}: {e}"));
                }
                self.coverage.met_times("became read-only", self.read_only.is_none().into());
                self.read_only = Some(why.clone());
                Ok(())
            }
            CommandError::MediumFull(_) if harm.struck_now(&[FaultKind::NoSpace]) => Ok(()),
            CommandError::Medium(t)
                if t.contains("nput/output error")
                    && harm.struck_now(&[FaultKind::WriteError, FaultKind::SyncError]) =>
            {
                Ok(())
            }
            CommandError::Medium(text)
                if is_damage(text) && (harm.hit_data() || harm.times_now(&TRANSIENT) >= READS) =>
            {
                Ok(())
            }
            // The list of extents could not be read after the last reopen. So the oracle did not know that this
            // allocation was lost.
            CommandError::NoSuchExtent(e) if harm.hit_data() && self.oracle.forgets(*e) => Ok(()),
            e => wrong(FailureKind::Answer, format!("{what} failed: {e}")),
        }
    }

    /// The length of the longest needed version of a page, including those of batches under way.
    fn longest(&self, lpid: Lpid) -> u32 {
        let states =
            self.oracle.views.iter().map(|v| &v.1).chain([&self.oracle.now]).chain(&self.oracle.beside);
        states.filter_map(|s| s.pages.get(&lpid)).map(|p| p.len).max().unwrap_or(0)
    }

    /// Checks the invariants of the drive's structures in memory.
    fn invariants(&mut self) -> Done {
        self.drive.check_invariants();
        let info = self.drive.info();
        let sessions = self.oracle.now.sessions.len() as u32 + self.oracle.unknown_sessions;
        if self.oracle.sessions_in_doubt == 0
            && self.oracle.doubtful_sessions.is_empty()
            && info.sessions != sessions
        {
            let (got, expected) = (info.sessions, sessions);
            return wrong(FailureKind::Answer, format!("{got} sessions are open instead of {expected}"));
        }
        if let Some(why) = &info.read_only {
            self.excused("the drive", &CommandError::ReadOnly(why.clone()))?;
        }
        if self.read_only.is_none() && info.commit.raw() != self.oracle.now.commit {
            let (got, expected) = (info.commit.raw(), self.oracle.now.commit);
            return wrong(FailureKind::Answer, format!("the newest commit is {got} instead of {expected}"));
        }
        if info.eblocks_retired < self.retired {
            let (got, before) = (info.eblocks_retired, self.retired);
            return wrong(FailureKind::Answer, format!("{got} EBLOCKs are retired; {before} were before"));
        }
        let spares = self.scenario.options.spare_eblocks;
        if spares.is_some_and(|spares| info.eblocks_retired > spares) && info.read_only.is_none() {
            let what = format!("{} EBLOCKs are retired, and it takes writes still", info.eblocks_retired);
            return wrong(FailureKind::ReadOnly, what);
        }
        self.retired = info.eblocks_retired;
        self.worn = info.erase_counts.1;
        if info.views as usize != self.oracle.views.len() {
            let (got, expected) = (info.views, self.oracle.views.len());
            return wrong(FailureKind::Answer, format!("{got} views are open instead of {expected}"));
        }
        Ok(())
    }

    fn random(seed: u64) -> Random {
        Random::of_seed(seed)
    }
}

impl simulated::World for World<'_> {
    type Step = Step;

    fn step(&mut self, step: &Step) -> Done {
        if self.over {
            return Ok(());
        }
        self.coverage.step(step.kind());
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

    /// Compares everything at the end of the run.
    fn end(&mut self) -> Done {
        if !self.over {
            self.compare_all()?;
            self.checks_itself()?;
        }
        self.count();
        self.harm.look(&self.faults);
        self.coverage.set_struck(self.harm.struck_in_all());
        Ok(())
    }

    fn coverage(&self) -> &Coverage {
        &self.coverage
    }
}
