//! The steps of a run over tables: actions of transactions, definitions, merges, the power and the medium.
//!
//! A step names a slot or a table and carries seeds and sizes. A step that finds nothing to act on does nothing. So any
//! step can be left out, and the remaining steps are still a valid run.

use std::fmt;

use lode_flash::FaultKind;

use crate::step::Cut;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TablesStep {
    /// Runs a statement in the transaction of a slot, which begins if none is open there.
    Statement {
        /// The slot.
        slot: usize,
        /// The statement.
        work: TablesWork,
    },
    /// Compares all that the transaction of a slot sees.
    Read {
        /// The slot.
        slot: usize,
        /// Selects how it reads.
        seed: u64,
    },
    /// Sets a savepoint.
    Savepoint {
        /// The slot.
        slot: usize,
    },
    /// Rolls back to a savepoint.
    RollbackTo {
        /// The slot.
        slot: usize,
        /// Selects the savepoint.
        which: u64,
    },
    /// Commits the transaction of a slot.
    Commit {
        /// The slot.
        slot: usize,
    },
    /// Drops the transaction of a slot.
    Rollback {
        /// The slot.
        slot: usize,
    },
    /// Runs a whole transaction.
    Whole {
        /// Its statements.
        works: Vec<TablesWork>,
    },
    /// Runs short transactions, one after the other, each followed by a merge of its table.
    Churn {
        /// Selects the rows.
        seed: u64,
        /// The number of transactions.
        times: u32,
    },
    /// Merges all that the delta of a table has.
    Merge {
        /// The number of the table.
        table: usize,
    },
    /// Takes a snapshot and keeps it.
    Hold,
    /// Compares what a kept snapshot shows.
    Look {
        /// Selects the snapshot.
        which: u64,
        /// Selects how it is read.
        seed: u64,
    },
    /// Drops a kept snapshot.
    LetGo {
        /// Selects the snapshot.
        which: u64,
    },
    /// Makes all commits so far durable.
    Sync,
    /// Writes all changed pages of trees.
    Flush,
    /// Gives the engine, or only the drive, time for background work.
    Work {
        /// The number of times.
        times: u32,
        /// Bytes that may be written each time.
        bytes: u64,
        /// Whether only the drive works.
        drive: bool,
    },
    /// Empties the buffer pool.
    ClearPool,
    /// Sets the durability mode of later commits.
    SetDurability {
        /// The number of the mode.
        mode: u64,
    },
    /// Creates a table, at times with rows.
    CreateTable {
        /// The number of the table.
        table: usize,
        /// Selects the rows.
        seed: u64,
        /// The number of rows.
        rows: u32,
    },
    /// Drops a table.
    DropTable {
        /// The number of the table.
        table: usize,
    },
    /// Creates the index of a column, or drops it if it exists.
    Index {
        /// The number of the table.
        table: usize,
        /// The column.
        column: u16,
    },
    /// Compares everything.
    Check,
    /// Closes the database and its drive in order and opens them again.
    Close {
        /// How the power comes back.
        cut: Cut,
    },
    /// Cuts the power now.
    Crash(Cut),
    /// Cuts the power after a number of operations of the medium.
    CutAfter {
        /// The number of operations.
        operations: u64,
        /// How the power comes back.
        cut: Cut,
    },
    /// Arms a fault.
    Arm {
        /// The kind of fault.
        kind: FaultKind,
        /// The number of operations to skip that it could strike.
        after: u64,
        /// Selects the details of the fault.
        seed: u64,
    },
    /// Disarms all faults that have not struck yet.
    Disarm,
}

/// A statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablesWork {
    /// Selects the table, the rows and their values.
    pub seed: u64,
    /// What it does.
    pub what: What,
    /// The number of rows.
    pub rows: u32,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Inserts rows.
    Insert,
    /// Loads rows, whose keys ascend at times.
    Load,
    /// Updates columns that are in no key.
    Update,
    /// Gives rows other keys.
    Rekey,
    /// Deletes rows.
    Delete,
    /// Alters a table: a column is added, dropped or renamed, or NOT NULL comes or goes.
    Alter,
}

/// The kinds of steps.
pub const TABLES_STEP_KINDS: [&str; 23] = [
    "statement",
    "read",
    "savepoint",
    "rollback to",
    "commit",
    "rollback",
    "whole transaction",
    "churn",
    "merge",
    "hold",
    "look",
    "let go",
    "sync",
    "flush",
    "work",
    "durability",
    "create table",
    "drop table",
    "index",
    "check",
    "close",
    "crash",
    "fault",
];

impl fmt::Display for TablesStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl TablesStep {
    /// Its index in [`TABLES_STEP_KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Statement { .. } => 0,
            Self::Read { .. } => 1,
            Self::Savepoint { .. } => 2,
            Self::RollbackTo { .. } => 3,
            Self::Commit { .. } => 4,
            Self::Rollback { .. } => 5,
            Self::Whole { .. } => 6,
            Self::Churn { .. } => 7,
            Self::Merge { .. } => 8,
            Self::Hold => 9,
            Self::Look { .. } => 10,
            Self::LetGo { .. } => 11,
            Self::Sync => 12,
            Self::Flush => 13,
            Self::Work { .. } | Self::ClearPool => 14,
            Self::SetDurability { .. } => 15,
            Self::CreateTable { .. } => 16,
            Self::DropTable { .. } => 17,
            Self::Index { .. } => 18,
            Self::Check => 19,
            Self::Close { .. } => 20,
            Self::Crash(_) => 21,
            Self::CutAfter { .. } | Self::Arm { .. } | Self::Disarm => 22,
        }
    }
}
