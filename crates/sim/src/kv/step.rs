//! The steps of a run over trees: actions of transactions, the host, the power and the medium.
//!
//! A step names a slot of the open transactions and carries seeds and sizes. A step that finds nothing to act on does
//! nothing. So any step can be left out, and the remaining steps are still a valid run.

use std::fmt;

use lode_flash::FaultKind;

use crate::step::Cut;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begins a transaction in a slot, if none is open there.
    Begin {
        /// The slot.
        slot: usize,
    },
    /// Reads keys in the transaction of a slot, or in a separate one.
    Read {
        /// The slot.
        slot: usize,
        /// Selects the keys.
        seed: u64,
        /// The number of keys.
        keys: u32,
    },
    /// Writes or deletes keys in the transaction of a slot.
    Write {
        /// The slot.
        slot: usize,
        /// The writes.
        work: Work,
    },
    /// Scans a part of a tree in the transaction of a slot.
    Scan {
        /// The slot.
        slot: usize,
        /// Selects the range.
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
    /// Rolls back or drops the transaction of a slot.
    Rollback {
        /// The slot.
        slot: usize,
    },
    /// Runs a whole transaction: it begins, writes and commits.
    Whole {
        /// The writes.
        work: Work,
    },
    /// Runs transactions that begin together and are committed in one batch.
    Together {
        /// The writes of each.
        works: Vec<Work>,
    },
    /// Runs a command that must be refused and change nothing.
    Refused {
        /// Selects the command.
        seed: u64,
    },
    /// Makes all commits so far durable.
    Sync,
    /// Writes all changed pages.
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
    /// Sets the durability mode of later commits.
    SetDurability {
        /// The number of the mode.
        mode: u64,
    },
    /// Creates a tree.
    CreateTree {
        /// Its number.
        tree: u32,
    },
    /// Loads a tree. Its keys come in order and become visible when the load is finished.
    Load {
        /// Its number.
        tree: u32,
        /// Selects the keys and values, and whether the load is abandoned at the end.
        seed: u64,
        /// The most keys.
        keys: u32,
        /// Longest value, in bytes.
        value_bytes_max: u32,
    },
    /// Drops a tree.
    DropTree {
        /// Selects the tree.
        which: u64,
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

/// The writes of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Selects the keys and values.
    pub seed: u64,
    /// The number of keys.
    pub keys: u32,
    /// The percentage of keys that are deleted.
    pub deletes_percent: u32,
    /// The percentage of keys that are read first.
    pub reads_percent: u32,
    /// Longest value, in bytes.
    pub value_bytes_max: u32,
    /// How keys are selected.
    pub keys_at: KeysAt,
}

/// How keys are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysAt {
    /// Random keys.
    Anywhere,
    /// A few keys, repeatedly.
    Hot,
    /// Consecutive keys from a random one on.
    InARow,
}

/// The kinds of steps.
pub const KV_STEP_KINDS: [&str; 23] = [
    "begin",
    "read",
    "write",
    "scan",
    "savepoint",
    "rollback to",
    "commit",
    "rollback",
    "whole transaction",
    "refused",
    "sync",
    "flush",
    "work",
    "durability",
    "create tree",
    "drop tree",
    "check",
    "close",
    "crash",
    "cut after",
    "fault",
    "several transactions",
    "load",
];

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Step {
    /// Its index in [`KV_STEP_KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Begin { .. } => 0,
            Self::Read { .. } => 1,
            Self::Write { .. } => 2,
            Self::Scan { .. } => 3,
            Self::Savepoint { .. } => 4,
            Self::RollbackTo { .. } => 5,
            Self::Commit { .. } => 6,
            Self::Rollback { .. } => 7,
            Self::Whole { .. } => 8,
            Self::Refused { .. } => 9,
            Self::Sync => 10,
            Self::Flush => 11,
            Self::Work { .. } => 12,
            Self::SetDurability { .. } => 13,
            Self::CreateTree { .. } => 14,
            Self::DropTree { .. } => 15,
            Self::Check => 16,
            Self::Close { .. } => 17,
            Self::Crash(_) => 18,
            Self::CutAfter { .. } => 19,
            Self::Arm { .. } | Self::Disarm => 20,
            Self::Together { .. } => 21,
            Self::Load { .. } => 22,
        }
    }
}
