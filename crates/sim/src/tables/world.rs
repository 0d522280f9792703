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

use super::model::{Model, State, Work};
use super::scenario::{SLOTS, TablesScenario};
use super::step::TablesStep;
use crate::coverage::Coverage;
use crate::crowd::Moment;
use crate::failure::{FailureKind, Wrong, wrong};
use crate::machine::Machine;
use crate::random::Random;
use crate::simulated::{self, Simulated};

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
    durability: Durability,
    model: Model,
    /// A counter that numbers rows, their versions and tables.
    clock: u64,
    merges: u64,
    /// Whether the drive has used up its spares and is read-only. The run then has nothing more to do.
    over: bool,
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
        let medium = (scenario.geometry, scenario.protected_bytes);
        let database =
            DatabaseOptions { rows_by_id_max: scenario.rows_by_id_max, ..scenario.database.clone() };
        Ok(Self {
            scenario,
            open: (0..SLOTS).map(|_| None).collect(),
            held: Vec::new(),
            machine: Machine::new(medium, &scenario.drive, &database, ENGINE_VIEWS, TablesScenario::NAMES)?,
            durability: Durability::Commit,
            model: Model::new(),
            clock: 0,
            merges: 0,
            over: false,
        })
    }

    fn database(&self) -> &Database {
        self.machine.database()
    }

    /// Compares all tables with the newest state of the model.
    fn compare_all(&mut self) -> Done {
        let state = self.model.newest().clone();
        let began = self.machine.crowd.enter();
        let seed = self.clock;
        let compared = match self.database().snapshot() {
            Ok(snapshot) => look::compare(&snapshot, &state, &mut Random::of_seed(seed)),
            Err(e) => Err(Read::Failed(e)),
        };
        let done = self.compared("a read of all", began, compared);
        self.machine.crowd.leave();
        done.map(drop)
    }

    /// Checks the outcome of a comparison. Returns whether it was one.
    fn compared(&mut self, what: &str, began: Moment, compared: Result<(), Read>) -> Done<bool> {
        match compared {
            Ok(()) => Ok(true),
            Err(Read::Wrong(_)) if self.machine.is_cut() => Ok(false),
            Err(Read::Wrong(w)) => Err(w),
            Err(Read::Failed(e)) => self.machine.excused_read(what, began, &e).map(|()| false),
        }
    }
}

impl simulated::World for World<'_> {
    type Step = TablesStep;

    fn step(&mut self, step: &TablesStep) -> Done {
        if self.over {
            return Ok(());
        }
        self.machine.begin_step(step.kind());
        self.clock += 1;
        self.act(step)?;
        if self.machine.has_halted()? {
            self.compare_all()?;
        }
        match self.machine.reopens() {
            Some(cut) => self.reopen(&cut),
            None => Ok(()),
        }
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
            self.machine.checks_itself()?;
        }
        self.machine.count_struck();
        Ok(())
    }

    fn coverage(&self) -> &Coverage {
        self.machine.coverage()
    }
}
