//! Whether a history of transactions could have come from snapshot isolation, or from a serial order.
//!
//! ```text
//!   History ─► values ─► versions ─► dependencies ─► cycles ─► Report { forbidden, permitted }
//!              own writes,  lists,     ww wr rw,       Adya's
//!              final ones   registers  orders known    anomalies
//! ```
//!
//! A value is written to an object at most once, so that a reader tells whose version it saw. Lists are appended to, so
//! that one read tells the order of all versions before it. Registers are overwritten: the order of their versions is
//! known from commit numbers, or in part from who read before writing.
//!
//! What is known beside the operations is used, and nothing is supposed that is not said: the order of each session, when
//! calls began and returned (real time), the commit number of a snapshot and of a commit. A transaction whose end is
//! unknown, as after a crash, counts as committed once another one read what it wrote. What a transaction read that
//! aborted is held to the same rules, unless `aborted_reads` is off.
//!
//! Nothing here knows a database, a clock or a thread.
//! Source: Adya, "Weak Consistency" (1999), for the anomalies; Kingsbury and Alvaro, "Elle" (VLDB 2020), for finding
//! them; Cerone and Gotsman (JACM 2018): snapshot isolation is that every cycle has two anti-dependencies in a row.

mod anomaly;
mod cycles;
mod graph;
mod lists;
mod registers;
mod values;
mod versions;

pub use anomaly::{Anomaly, AnomalyKind, Report};

use graph::{Edge, EdgeKind, Graph};
use values::Values;
use versions::Inferred;

/// A transaction, by its place in [`History::transactions`].
pub type TxnIndex = usize;

/// What transactions did, those of a session in the order of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// All of them.
    pub transactions: Vec<Transaction>,
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Whose it is: sessions begin one transaction after the end of the other.
    pub session: u32,
    /// What it did, in order.
    pub ops: Vec<Op>,
    /// How it ended.
    pub outcome: Outcome,
    /// The newest commit that its snapshot shows, if the database says so.
    pub snapshot: Option<u64>,
    /// The number of its commit, if the database says so.
    pub commit: Option<u64>,
    /// When it was begun, in real time.
    pub invoked: Option<u64>,
    /// When its end was told, in real time.
    pub returned: Option<u64>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was told to be committed.
    Committed,
    /// It was told not to be.
    Aborted,
    /// Nobody was told, as when power went.
    Unknown,
}

/// One operation of a transaction, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A value at the end of a list.
    Append {
        /// Which list.
        list: u64,
        /// A value that nobody else puts there.
        value: u64,
    },
    /// A list was read.
    ReadList {
        /// Which list.
        list: u64,
        /// What was in it.
        values: Vec<u64>,
    },
    /// A value in place of the one before.
    Write {
        /// Which register.
        register: u64,
        /// A value that nobody else puts there.
        value: u64,
    },
    /// A register holds nothing again.
    Delete {
        /// Which register.
        register: u64,
    },
    /// A register was read.
    Read {
        /// Which register.
        register: u64,
        /// What was in it.
        value: Option<u64>,
    },
}

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A list.
    List(u64),
    /// A register.
    Register(u64),
}

/// What a history is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Write skew is permitted, and told apart.
    SnapshotIsolation,
    /// No cycle is permitted.
    Serializable,
}

/// What is held, and which orders count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is permitted.
    pub level: Level,
    /// A transaction comes after those before it in its session.
    pub session_order: bool,
    /// A transaction that was begun after another one had returned comes after it.
    pub real_time: bool,
    /// Transactions that aborted, or whose end is unknown, read what a committed one could have read.
    pub aborted_reads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { level: Level::SnapshotIsolation, session_order: true, real_time: true, aborted_reads: true }
    }
}

impl Transaction {
    /// One of which nothing is known but what it did.
    pub fn new(session: u32, ops: Vec<Op>, outcome: Outcome) -> Self {
        Self { session, ops, outcome, snapshot: None, commit: None, invoked: None, returned: None }
    }
}

impl History {
    /// What is wrong with this history; nothing if it could be one of the level asked for.
    ///
    /// # Panics
    /// Panics if two operations write the same value to the same object: then nothing can be told.
    pub fn check(&self, options: &Options) -> Report {
        let mut report = Report::default();
        let values = Values::of(self, &mut report);
        let mut inferred = Inferred::new(self, options, &values);
        lists::infer(&mut inferred, &mut report);
        registers::infer(&mut inferred, &mut report);
        let Inferred { edges, .. } = inferred;
        let graph = Graph::new(self, options, &values, edges);
        cycles::find(self, options, &graph, &mut report);
        report.sort();
        report
    }
}
