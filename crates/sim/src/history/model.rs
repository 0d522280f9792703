//! What a history says: transactions, what they did and saw, and how they ended.

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
