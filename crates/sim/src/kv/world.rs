//! The world of a run: a database on a drive, its medium and the model. It executes the steps.
//!
//! ```text
//!   step ─► database ─► answer ─► model: exactly this?
//!        └► power, faults ─► cut? ─► reopen ─► everything compared, history checked
//! ```

mod act;
mod load;
mod power;
mod transact;

use std::collections::BTreeMap;

use lode_engine::{Database, Durability, EngineError, Savepoint, Transaction, Tree};

use super::content;
use super::model::{Model, Position, Serial, Writes};
use super::scenario::{KvScenario, SLOTS};
use super::step::Step;
use crate::coverage::Coverage;
use crate::crowd::Moment;
use crate::failure::{FailureKind, Wrong, wrong};
use crate::history::{History, Op, Options};
use crate::machine::Machine;
use crate::simulated::{self, Simulated};

/// The views that the engine holds in addition to those of transactions: the view of the newest commit and its
/// replacement.
const ENGINE_VIEWS: usize = 2;

type Done<T = ()> = Result<T, Wrong>;

/// A tree that exists or existed.
#[derive(Clone)]
struct KnownTree {
    serial: Serial,
    name: String,
    tree: Tree,
    /// Whether it was loaded. No transaction wrote its first content, so operations on it are compared with the model
    /// and are not part of the history.
    loaded: bool,
}

/// An open transaction.
struct OpenTxn {
    /// The session in the history. Each slot has its own; transactions outside of slots share one.
    session: u32,
    txn: Transaction,
    durability: Durability,
    /// The position in the order of commits that the transaction sees.
    place: Position,
    /// The trees that the transaction sees.
    trees: Vec<KnownTree>,
    writes: Writes,
    /// The savepoints, each with the writes and the number of operations at that time.
    savepoints: Vec<(Savepoint, Writes, usize)>,
    ops: Vec<Op>,
    invoked: u64,
    /// The number of write-backs when the transaction began.
    flushes: u64,
    /// The moment in [`Crowd`] at which the transaction began.
    began: Moment,
}

pub(super) struct World<'a> {
    scenario: &'a KvScenario,
    machine: Machine,
    durability: Durability,
    model: Model,
    trees: Vec<KnownTree>,
    /// The change of the catalog whose outcome is unknown.
    doubtful: Option<Doubt>,
    next_serial: Serial,
    open: Vec<Option<OpenTxn>>,
    history: History,
    /// A counter that numbers values and moments.
    clock: u64,
    flushes: u64,
    keys: Vec<Vec<u8>>,
    numbers: BTreeMap<Vec<u8>, u32>,
    /// Whether the drive has used up its spares and is read-only. The run then has nothing more to do.
    over: bool,
}

/// A change of the catalog that was under way at a power cut.
enum Doubt {
    Created(String),
    Loaded(String, Vec<(Vec<u8>, Vec<u8>)>),
    Dropped(String),
}

impl<'a> World<'a> {
    /// Makes a new database on a new drive.
    pub(super) fn new(scenario: &'a KvScenario) -> Done<Self> {
        let medium = (scenario.geometry, scenario.protected_bytes);
        let (drive, database) = (&scenario.drive, &scenario.database);
        let machine = Machine::new(medium, drive, database, ENGINE_VIEWS, KvScenario::NAMES)?;
        let keys: Vec<Vec<u8>> = (0..scenario.keys).map(|n| content::key(scenario.seed, n)).collect();
        let numbers = keys.iter().cloned().zip(0..).collect();
        Ok(Self {
            scenario,
            machine,
            durability: Durability::Commit,
            model: Model::default(),
            trees: Vec::new(),
            doubtful: None,
            next_serial: 0,
            open: (0..SLOTS).map(|_| None).collect(),
            history: History::default(),
            clock: 0,
            flushes: 0,
            keys,
            numbers,
            over: false,
        })
    }

    fn database(&self) -> &Database {
        self.machine.database()
    }

    /// Adds the database's counts since it was opened to the coverage.
    fn count(&mut self) {
        if let Some(database) = &self.machine.database {
            let stats = database.tree_stats();
            self.machine.met_times("pages read from the drive", stats.misses);
            self.machine.met_times("nodes split", stats.splits);
            self.machine.met_times("nodes merged", stats.merges);
        }
    }

    /// Compares all trees with the model, by scans and by keys.
    fn compare_all(&mut self) -> Done {
        let place = self.model.place();
        let began = self.machine.crowd.enter();
        let compared = self.compare_at(place, began);
        self.machine.crowd.leave();
        compared
    }

    fn compare_at(&mut self, place: Position, began: Moment) -> Done {
        let txn = match self.database().begin() {
            Ok(txn) => txn,
            Err(e) => return self.machine.excused("a beginning", &e).map(drop),
        };
        for known in self.trees.clone() {
            match self.compare_tree(&txn, place, &known) {
                Err(Read::Failed(e)) => {
                    self.machine.excused_read("a scan of all", began, &e)?;
                }
                Err(Read::Wrong(w)) => return Err(w),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn compare_tree(&self, txn: &Transaction, place: Position, known: &KnownTree) -> Result<(), Read> {
        let expected = self.model.all(place, known.serial);
        let mut rows = txn.scan::<Vec<u8>>(&known.tree, ..).map_err(Read::Failed)?;
        let mut expected = expected.into_iter();
        loop {
            let row = rows.next().map_err(Read::Failed)?;
            let (got, want) = (row.as_ref().map(|(k, v)| (*k, &v[..])), expected.next());
            if got != want {
                let what = format!("{}: found {} instead of {}", known.name, shown(got), shown(want));
                let kind = if want.is_some() { FailureKind::Lost } else { FailureKind::WrongBytes };
                return Err(Read::Wrong(Wrong { kind, what }));
            }
            if got.is_none() {
                return Ok(());
            }
        }
    }

    /// Checks that the history satisfies snapshot isolation.
    fn check_history(&mut self) -> Done {
        let report = self.history.check(&Options::default());
        if !report.is_clean() {
            return wrong(FailureKind::Isolation, report.to_string());
        }
        self.machine.met_times("write skew", report.permitted.len() as u64);
        Ok(())
    }
}

impl simulated::World for World<'_> {
    type Step = Step;

    fn step(&mut self, step: &Step) -> Done {
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
        self.compare_all()?;
        self.machine.checks_itself()?;
        self.check_history()?;
        self.count();
        self.machine.count_struck();
        Ok(())
    }

    fn coverage(&self) -> &Coverage {
        self.machine.coverage()
    }
}

/// Why a comparison ended.
enum Read {
    Failed(EngineError),
    Wrong(Wrong),
}

/// The text of a row in a message.
fn shown(row: Option<(&[u8], &[u8])>) -> String {
    match row {
        None => "nothing".into(),
        Some((k, v)) => {
            let key: String = k.iter().take(24).map(|b| format!("{b:02x}")).collect();
            let number = content::number(v);
            format!("key {key} of {} bytes = number {number:?} in {} bytes", k.len(), v.len())
        }
    }
}
