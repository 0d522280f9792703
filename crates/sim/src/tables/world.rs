//! The world of a run: a database with tables on a drive, its medium and the model. It executes the steps.
//!
//! ```text
//!   step ─► database ─► answer ─► model: exactly this?
//!        └► power, faults ─► cut? ─► reopen ─► everything compared and checked
//! ```

mod act;
mod commit;
mod look;
mod power;
mod statements;

use std::sync::Arc;

use lode_engine::{Database, DatabaseOptions, Durability, EngineError, SavedChanges, Snapshot, WriteTxn};
use lode_flash::Medium;

use super::model::{Model, State, Work};
use super::scenario::{SLOTS, TablesScenario};
use super::step::TablesStep;
use crate::coverage::Coverage;
use crate::crowd::{Crowd, Moment};
use crate::failure::{FailureKind, Wrong, wrong};
use crate::machine::Machine;
use crate::random::Random;
use crate::simulated::{self, Simulated};
use crate::step::Cut;

/// The views that the engine holds in addition to those of transactions and snapshots: those of the newest state and of the
/// current one, their replacements, and one of what each transaction loaded.
const ENGINE_VIEWS: usize = 4 + SLOTS;

type Done<T = ()> = Result<T, Wrong>;

/// An open transaction.
struct OpenTxn {
    txn: WriteTxn,
    durability: Durability,
    work: Work,
    savepoints: Vec<(SavedChanges, Work)>,
    /// The moment in [`Crowd`] at which it began.
    began: Moment,
}

/// A snapshot that is kept, and what it shows for as long.
struct Held {
    snapshot: Snapshot,
    state: Arc<State>,
    began: Moment,
    /// The number of merges when it was taken.
    merges: u64,
}

pub(super) struct World<'a> {
    scenario: &'a TablesScenario,
    open: Vec<Option<OpenTxn>>,
    held: Vec<Held>,
    machine: Machine,
    /// How the power comes back after the armed cut.
    due: Cut,
    durability: Durability,
    model: Model,
    crowd: Crowd,
    /// A counter that numbers rows, their versions and tables.
    clock: u64,
    merges: u64,
    /// Whether the drive has used up its spares and is read-only. The run then has nothing more to do.
    over: bool,
    coverage: Coverage,
}

/// Why a comparison ended.
enum Read {
    Failed(EngineError),
    Wrong(Wrong),
}

impl From<EngineError> for Read {
    fn from(e: EngineError) -> Self {
        Self::Failed(e)
    }
}

impl<'a> World<'a> {
    /// Makes a new database on a new drive.
    pub(super) fn new(scenario: &'a TablesScenario) -> Done<Self> {
        let (medium, faults) = Medium::simulated(scenario.geometry);
        let medium = medium.with_protected_buffer(scenario.protected_bytes);
        let database =
            DatabaseOptions { rows_by_id_max: scenario.rows_by_id_max, ..scenario.database.clone() };
        Ok(Self {
            scenario,
            open: (0..SLOTS).map(|_| None).collect(),
            held: Vec::new(),
            machine: Machine::new((medium, faults), &scenario.drive, &database)?,
            due: Cut::default(),
            durability: Durability::Commit,
            model: Model::new(),
            crowd: Crowd::default(),
            clock: 0,
            merges: 0,
            over: false,
            coverage: Coverage::new(TablesScenario::NAMES),
        })
    }

    fn database(&self) -> &Database {
        self.machine.database()
    }

    /// Checks an error of a read by somebody who began at `began`.
    fn excused_read(&mut self, what: &str, began: Moment, e: &EngineError) -> Done {
        let too_old = self.machine.excused_read(what, self.crowd.most_since(began) + ENGINE_VIEWS, e)?;
        self.coverage.met_times("snapshots too old", too_old.into());
        Ok(())
    }

    /// Compares all tables with the newest state of the model.
    fn compare_all(&mut self) -> Done {
        let state = self.model.newest().clone();
        let began = self.crowd.enter();
        let seed = self.clock;
        let compared = match self.database().snapshot() {
            Ok(snapshot) => look::compare(&snapshot, &state, &mut Random::of_seed(seed)),
            Err(e) => Err(Read::Failed(e)),
        };
        let done = self.compared("a read of all", began, compared);
        self.crowd.leave();
        done.map(drop)
    }

    /// Checks the outcome of a comparison. Returns whether it was one.
    fn compared(&mut self, what: &str, began: Moment, compared: Result<(), Read>) -> Done<bool> {
        match compared {
            Ok(()) => Ok(true),
            Err(Read::Wrong(_)) if self.machine.is_cut() => Ok(false),
            Err(Read::Wrong(w)) => Err(w),
            Err(Read::Failed(e)) => self.excused_read(what, began, &e).map(|()| false),
        }
    }

    /// Runs the engine's own check and the drive's own check.
    fn checks_itself(&mut self) -> Done {
        if self.machine.is_cut() {
            return Ok(());
        }
        self.machine.drive.check_invariants();
        let began = self.crowd.enter();
        let checked = self.database().check();
        let done = match checked {
            Ok(problems) => self.machine.excused_problems(&problems),
            Err(e) => self.excused_read("a check", began, &e),
        };
        self.crowd.leave();
        done
    }
}

impl simulated::World for World<'_> {
    type Step = TablesStep;

    fn step(&mut self, step: &TablesStep) -> Done {
        if self.over {
            return Ok(());
        }
        self.coverage.step(step.kind());
        self.machine.begin_step();
        self.clock += 1;
        self.act(step)?;
        self.machine.halted |= self.machine.drive.info().read_only.is_some();
        if self.machine.halted && !self.machine.is_cut() {
            self.coverage.met("databases halted");
            self.machine.excused_halt()?;
            self.compare_all()?;
        }
        if self.machine.halted || self.machine.is_cut() {
            let cut = std::mem::take(&mut self.due);
            self.reopen(&cut)?;
        }
        Ok(())
    }

    /// Compares everything at the end of the run.
    fn end(&mut self) -> Done {
        if self.machine.is_cut() {
            return wrong(FailureKind::Answer, "a run ends without power");
        }
        for i in 0..self.held.len() {
            self.look(i, self.clock)?;
        }
        self.compare_all()?;
        if !self.over {
            self.checks_itself()?;
        }
        self.coverage.set_struck(self.machine.struck_in_all());
        Ok(())
    }

    fn coverage(&self) -> &Coverage {
        &self.coverage
    }
}
