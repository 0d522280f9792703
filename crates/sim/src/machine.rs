//! A database on a drive on a medium that fails: how it opens again after a power cut, and which errors its faults excuse.
//!
//! ```text
//!   Machine { database ─► drive ─► medium with faults }     cut ─► restored medium ─► drive recovers ─► database opens
//! ```
//!
//! The simulations of trees and of tables share it, with the steps that need no model. What a database must answer, they know.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Geometry;
use lode_command::CommandError;
use lode_engine::{Database, DatabaseOptions, Durability, EngineError};
use lode_firmware::{Drive, DriveOptions, FirmwareError, Unrecovered};
use lode_flash::{FaultKind, Faults, Medium};

use crate::coverage::{Coverage, Names};
use crate::crowd::{Crowd, Moment};
use crate::failure::{FailureKind, Wrong, wrong};
use crate::random::nth;
use crate::step::Cut;

/// The drive may give up a read unit after this many failed reads in a row.
const READS: u64 = 4;

const TRANSIENT: [FaultKind; 3] =
    [FaultKind::ReadFailsOnce, FaultKind::StaleRead, FaultKind::MisdirectedRead];
const HOST: [FaultKind; 3] = [FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError];
const MEDIUM: [FaultKind; 2] = [FaultKind::ProgramFails, FaultKind::EraseFails];

type Done<T = ()> = Result<T, Wrong>;

/// A database, its drive and its medium.
pub(crate) struct Machine {
    options: DriveOptions,
    database_options: DatabaseOptions,
    pub(crate) drive: Drive,
    /// `None` only during a reopen.
    pub(crate) database: Option<Database>,
    pub(crate) faults: Faults,
    /// How often each kind of fault struck before the last reopen.
    struck_before: BTreeMap<FaultKind, u64>,
    /// How often each kind of fault had struck when the step began.
    struck_at_step: BTreeMap<FaultKind, u64>,
    /// Whether the drive may have given up a read since it was opened.
    gave_up: bool,
    /// Whether the database has stopped taking writes.
    pub(crate) halted: bool,
    /// How the power comes back after the armed cut.
    due: Cut,
    /// Those that read at views.
    pub(crate) crowd: Crowd,
    /// The most views that the engine holds in addition to those of the crowd.
    engine_views: usize,
    coverage: Coverage,
}

impl Machine {
    /// Makes a new database on a new drive.
    pub(crate) fn new(
        (geometry, protected_bytes): (Geometry, u32),
        drive: &DriveOptions,
        database: &DatabaseOptions,
        engine_views: usize,
        names: &'static Names,
    ) -> Done<Self> {
        let (medium, faults) = Medium::simulated(geometry);
        let medium = medium.with_protected_buffer(protected_bytes);
        let opened = match Drive::format(medium, drive.clone()) {
            Ok(drive) => drive,
            Err(e) => return wrong(FailureKind::NotOpened, format!("a new drive cannot be made: {e}")),
        };
        let mut machine = Self {
            options: drive.clone(),
            database_options: database.clone(),
            drive: opened,
            database: None,
            faults,
            struck_before: BTreeMap::new(),
            struck_at_step: BTreeMap::new(),
            gave_up: false,
            halted: false,
            due: Cut::default(),
            crowd: Crowd::default(),
            engine_views,
            coverage: Coverage::new(names),
        };
        match Database::open(Arc::new(machine.drive.clone()), database.clone()) {
            Ok(database) => machine.database = Some(database),
            Err(e) => return wrong(FailureKind::NotOpened, format!("a new database cannot be made: {e}")),
        }
        Ok(machine)
    }

    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open")
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.faults.is_cut()
    }

    /// The events that the run met so far.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    pub(crate) fn met(&mut self, what: &'static str) {
        self.coverage.met(what);
    }

    pub(crate) fn met_times(&mut self, what: &'static str, times: u64) {
        self.coverage.met_times(what, times);
    }

    /// Begins a step of this kind.
    pub(crate) fn begin_step(&mut self, kind: usize) {
        self.coverage.step(kind);
        self.gave_up |= self.reads_may_fail();
        self.struck_at_step = self.fired();
    }

    /// Whether the database has stopped taking writes while there is power. Checks that it has a reason.
    pub(crate) fn has_halted(&mut self) -> Done<bool> {
        self.halted |= self.drive.info().read_only.is_some();
        if !self.halted || self.is_cut() {
            return Ok(false);
        }
        self.coverage.met("databases halted");
        self.excused_halt().map(|()| true)
    }

    /// After a step: how the power comes back, if the database must be opened again.
    pub(crate) fn reopens(&mut self) -> Option<Cut> {
        (self.halted || self.is_cut()).then(|| std::mem::take(&mut self.due))
    }

    /// Cuts the power after this many operations of the medium.
    pub(crate) fn cut_after(&mut self, operations: u64, cut: &Cut) {
        self.due = cut.clone();
        self.faults.cut_after(operations);
    }

    fn fired(&self) -> BTreeMap<FaultKind, u64> {
        self.faults.fired().into_iter().collect()
    }

    /// At the end of a run: adds the faults that struck to the coverage.
    pub(crate) fn count_struck(&mut self) {
        let struck = self.struck_in_all();
        self.coverage.set_struck(struck);
    }

    /// How often each kind of fault struck in the whole run.
    fn struck_in_all(&self) -> BTreeMap<FaultKind, u64> {
        let mut all = self.struck_before.clone();
        self.fired().into_iter().for_each(|(k, n)| *all.entry(k).or_default() += n);
        all
    }

    /// How often these faults have struck since the drive was opened.
    fn struck(&self, kinds: &[FaultKind]) -> u64 {
        self.faults.fired().iter().filter(|f| kinds.contains(&f.0)).map(|f| f.1).sum()
    }

    /// How often these faults have struck since the step began.
    fn struck_now(&self, kinds: &[FaultKind]) -> u64 {
        let before: u64 = kinds.iter().filter_map(|k| self.struck_at_step.get(k)).sum();
        self.struck(kinds) - before
    }

    /// Whether so many reads were struck in this step that the drive may have given one up.
    pub(crate) fn reads_may_fail(&self) -> bool {
        self.struck_now(&TRANSIENT) >= READS
    }

    /// Whether a fault struck a write: of the host since the drive was opened, or of the medium in the whole run.
    fn writes_may_fail(&self) -> bool {
        let in_all = self.struck_in_all();
        self.struck(&HOST) > 0 || MEDIUM.iter().any(|k| in_all.contains_key(k))
    }

    /// Checks that the drive has a reason to be read-only.
    pub(crate) fn excused_halt(&self) -> Done {
        // The outcome of a batch is unknown if the drive gave up a read for it. If the batch was a write-back, the
        // first call that gets the error is the next commit, in a later step.
        if self.writes_may_fail() || self.gave_up || self.reads_may_fail() {
            return Ok(());
        }
        let why = self.drive.info().read_only.unwrap_or_else(|| "the engine stopped".into());
        wrong(FailureKind::ReadOnly, why)
    }

    /// Checks an error that only a fault or a full drive excuses. Returns whether a change may have taken effect.
    pub(crate) fn excused(&mut self, what: &str, e: &EngineError) -> Done<bool> {
        let host = self.writes_may_fail();
        let transient = self.reads_may_fail();
        match e {
            EngineError::Halted(_) => {
                self.halted = true;
                self.excused_halt().map(|()| false)
            }
            EngineError::OutOfSpace { .. } | EngineError::Drive(CommandError::OutOfSpace { .. }) => {
                let info = self.drive.info();
                if info.free_bytes > info.usable_bytes / 2 && !host {
                    return wrong(FailureKind::Full, format!("{what}: {e}; {info:?}"));
                }
                Ok(false)
            }
            EngineError::Drive(
                CommandError::ReadOnly(_) | CommandError::Medium(_) | CommandError::MediumFull(_),
            )
            | EngineError::Device(_)
                if host || transient =>
            {
                self.halted = true;
                Ok(true)
            }
            EngineError::Drive(CommandError::Uncorrectable { .. }) if transient => Ok(false),
            e => wrong(FailureKind::Answer, format!("{what} failed: {e}")),
        }
    }

    /// Makes all commits so far durable. Returns whether they are.
    pub(crate) fn sync(&mut self) -> Done<bool> {
        let result = self.database().sync();
        self.made_durable("a sync", "power cuts within a sync", result)
    }

    /// Writes all changed pages of trees. Returns whether all commits so far are durable.
    pub(crate) fn flush(&mut self) -> Done<bool> {
        let result = self.database().flush();
        self.made_durable("a flush", "power cuts within a flush", result)
    }

    fn made_durable(&mut self, what: &str, cut: &'static str, result: Result<(), EngineError>) -> Done<bool> {
        if self.is_cut() {
            self.coverage.met(cut);
            return Ok(false);
        }
        match result {
            Ok(()) => Ok(true),
            Err(e) => self.excused(what, &e).map(|_| false),
        }
    }

    /// Runs the engine's own check and the drive's own check.
    pub(crate) fn checks_itself(&mut self) -> Done {
        if self.is_cut() {
            return Ok(());
        }
        self.drive.check_invariants();
        let began = self.crowd.enter();
        let checked = self.database().check();
        let done = match checked {
            Ok(problems) => self.excused_problems(&problems),
            Err(e) => self.excused_read("a check", began, &e),
        };
        self.crowd.leave();
        done
    }

    /// Checks an error of a read by somebody who began at `began`, and who must start again.
    pub(crate) fn excused_read(&mut self, what: &str, began: Moment, e: &EngineError) -> Done {
        if matches!(e, EngineError::SnapshotTooOld) {
            let views = self.crowd.most_since(began) + self.engine_views;
            // Views that were closed since then count, too, because the drive may have closed the reader's view while
            // they were open.
            if views <= self.options.views_max as usize {
                return wrong(FailureKind::Answer, format!("{what}: {e}, with {views} views at most"));
            }
            self.coverage.met("snapshots too old");
            return Ok(());
        }
        if self.is_cut() {
            return Ok(());
        }
        self.excused(what, e).map(drop)
    }

    /// Checks the answer of a check. The check also reports pages that it could not read.
    fn excused_problems(&self, problems: &[String]) -> Done {
        match problems.first() {
            Some(_) if self.reads_may_fail() => Ok(()),
            Some(first) => wrong(FailureKind::Check, format!("{} problems: {first}", problems.len())),
            None => Ok(()),
        }
    }

    /// Closes the database, and with `in_order` its drive. Cuts the power, if it is not cut already.
    pub(crate) fn close(&mut self, in_order: bool) -> Done {
        self.database = None;
        if in_order {
            let closed = self.drive.clone().close();
            if let Err(e) = closed
                && !self.is_cut()
                && self.excused_halt().is_err()
            {
                return wrong(FailureKind::ReadOnly, format!("closing the drive: {e}"));
            }
        }
        if !self.is_cut() {
            self.faults.cut();
        }
        Ok(())
    }

    /// Opens the database after a power cut. `cut` may cut the power again during recoveries.
    pub(crate) fn reopen(&mut self, cut: &Cut) -> Done {
        self.database = None;
        self.halted = false;
        for i in 0.. {
            match self.open(nth(cut.seed, i as u64), cut.again.get(i).copied()) {
                Ok(Some(database)) => {
                    self.database = Some(database);
                    return Ok(());
                }
                Ok(None) => self.coverage.met("recoveries cut"),
                Err(NotOpened::Drive(e)) => return wrong(FailureKind::NotOpened, e.to_string()),
                Err(NotOpened::Database(e)) => {
                    return wrong(FailureKind::NotOpened, format!("the database: {e}"));
                }
            }
        }
        unreachable!("cuts are finite in number")
    }

    /// Tries to open. Returns `None` if the power was cut meanwhile.
    fn open(&mut self, seed: u64, cut_after: Option<u64>) -> Result<Option<Database>, NotOpened> {
        for (kind, n) in self.fired() {
            *self.struck_before.entry(kind).or_default() += n;
        }
        let (medium, faults) = self.faults.restored(seed).map_err(|e| NotOpened::Drive(e.into()))?;
        self.faults = faults;
        self.struck_at_step = BTreeMap::new();
        self.gave_up = false;
        if let Some(operations) = cut_after {
            self.faults.cut_after(operations);
        }
        let drive = Unrecovered::new(medium, self.options.clone()).recover();
        if self.is_cut() {
            return Ok(None);
        }
        let drive: Drive = drive.map_err(NotOpened::Drive)?;
        let database = Database::open(Arc::new(drive.clone()), self.database_options.clone());
        if self.is_cut() {
            return Ok(None);
        }
        self.faults.disarm_all();
        self.drive = drive;
        database.map(Some).map_err(NotOpened::Database)
    }
}

/// The durability mode of this number.
pub(crate) fn durability(mode: u64) -> Durability {
    match mode {
        0 => Durability::Commit,
        1 => Durability::Group,
        _ => Durability::None,
    }
}

/// Why a database could not be opened.
enum NotOpened {
    Drive(FirmwareError),
    Database(EngineError),
}
