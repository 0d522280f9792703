//! A history: transactions with their operations, answers and outcomes.

/// The index of a transaction in [`History::transactions`].
pub type TxnIndex = usize;

/// A history. The transactions of a session are in the session's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// All transactions.
    pub transactions: Vec<Transaction>,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its session. A session begins a transaction only after its previous transaction has ended.
    pub session: u32,
    /// Its operations, in order.
    pub ops: Vec<Op>,
    /// How the transaction ended.
    pub outcome: Outcome,
    /// The newest commit that its snapshot shows, if the database reports it.
    pub snapshot: Option<u64>,
    /// The number of its commit, if the database reports it.
    pub commit: Option<u64>,
    /// The real time of its begin.
    pub invoked: Option<u64>,
    /// The real time at which the call that ended it returned.
    pub returned: Option<u64>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged as committed.
    Committed,
    /// It was reported as aborted.
    Aborted,
    /// Its end is unknown, for example because of a power cut.
    Unknown,
}

/// An operation of a transaction with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Appends a value to a list.
    Append {
        /// The list.
        list: u64,
        /// The value. No other operation writes it to this object.
        value: u64,
    },
    /// Reads a list.
    ReadList {
        /// The list.
        list: u64,
        /// The answer.
        values: Vec<u64>,
    },
    /// Overwrites a register.
    Write {
        /// The register.
        register: u64,
        /// The value. No other operation writes it to this object.
        value: u64,
    },
    /// Deletes the value of a register.
    Delete {
        /// The register.
        register: u64,
    },
    /// Reads a register.
    Read {
        /// The register.
        register: u64,
        /// The answer.
        value: Option<u64>,
    },
}

/// The object of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A list.
    List(u64),
    /// A register.
    Register(u64),
}

/// The isolation level of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Write skew is permitted and reported separately.
    SnapshotIsolation,
    /// No cycle is permitted.
    Serializable,
}

/// Options of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The isolation level.
    pub level: Level,
    /// Whether a transaction comes after those before it in its session.
    pub session_order: bool,
    /// Whether a transaction that began after another one had returned comes after it.
    pub real_time: bool,
    /// Whether reads of aborted transactions, and of those with an unknown end, are checked.
    pub aborted_reads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { level: Level::SnapshotIsolation, session_order: true, real_time: true, aborted_reads: true }
    }
}

impl Transaction {
    /// A transaction without a snapshot, a commit number and times.
    pub fn new(session: u32, ops: Vec<Op>, outcome: Outcome) -> Self {
        Self { session, ops, outcome, snapshot: None, commit: None, invoked: None, returned: None }
    }
}
