//! The steps of a run over trees: what transactions, the host, the power and the medium do.
//!
//! A step names a slot of the open transactions, and carries seeds and sizes; with nothing there to act on it does
//! nothing. So any step can be left out, and the rest still means something.

use std::fmt;

use lode_flash::FaultKind;

use crate::step::Cut;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A transaction begins in a slot, if none is open there.
    Begin {
        /// Which slot.
        slot: usize,
    },
    /// Keys are read by the transaction of a slot, or by one of its own.
    Read {
        /// Which slot.
        slot: usize,
        /// Which keys.
        seed: u64,
        /// How many.
        keys: u32,
    },
    /// Keys are written or deleted by the transaction of a slot.
    Write {
        /// Which slot.
        slot: usize,
        /// What.
        work: Work,
    },
    /// A part of a tree is scanned, by the transaction of a slot.
    Scan {
        /// Which slot.
        slot: usize,
        /// From where to where.
        seed: u64,
    },
    /// A savepoint is set.
    Savepoint {
        /// In which slot.
        slot: usize,
    },
    /// What was done since a savepoint is undone.
    RollbackTo {
        /// In which slot.
        slot: usize,
        /// To which of its savepoints.
        which: u64,
    },
    /// The transaction of a slot is committed.
    Commit {
        /// Which slot.
        slot: usize,
    },
    /// The transaction of a slot is rolled back, or dropped.
    Rollback {
        /// Which slot.
        slot: usize,
    },
    /// A transaction begins, writes and commits.
    Whole {
        /// What.
        work: Work,
    },
    /// Transactions that begin together, and are committed with one batch.
    Together {
        /// What each writes.
        works: Vec<Work>,
    },
    /// What must be refused, and change nothing.
    Refused {
        /// What.
        seed: u64,
    },
    /// All that was committed so far is made durable.
    Sync,
    /// All changed pages are written.
    Flush,
    /// The engine, or the drive alone, gets time for background work.
    Work {
        /// How often.
        times: u32,
        /// Bytes that may be written each time.
        bytes: u64,
        /// The drive's work alone.
        drive: bool,
    },
    /// Commits from now on return so.
    SetDurability {
        /// Number of a mode.
        mode: u64,
    },
    /// A tree is created.
    CreateTree {
        /// Its number.
        tree: u32,
    },
    /// A tree is loaded: its keys come in order, and show once it is finished.
    Load {
        /// Its number.
        tree: u32,
        /// Which keys, which values, and whether it is given up in the end.
        seed: u64,
        /// How many keys at most.
        keys: u32,
        /// Longest value, in bytes.
        value_bytes_max: u32,
    },
    /// A tree is dropped.
    DropTree {
        /// Which of those that are there.
        which: u64,
    },
    /// All is compared.
    Check,
    /// The database and its drive are closed in order and opened again.
    Close {
        /// How power comes back.
        cut: Cut,
    },
    /// Power goes now.
    Crash(Cut),
    /// Power goes after so many operations of the medium.
    CutAfter {
        /// How many.
        operations: u64,
        /// How it comes back.
        cut: Cut,
    },
    /// A fault is armed.
    Arm {
        /// Which.
        kind: FaultKind,
        /// After how many operations that it could strike.
        after: u64,
        /// What it does.
        seed: u64,
    },
    /// Nothing strikes that did not strike yet.
    Disarm,
}

/// What a transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Which keys, and what.
    pub seed: u64,
    /// How many keys.
    pub keys: u32,
    /// How many of a hundred are deleted.
    pub deletes_percent: u32,
    /// How many of a hundred are read first.
    pub reads_percent: u32,
    /// Longest value, in bytes.
    pub value_bytes_max: u32,
    /// Which keys are met.
    pub keys_at: KeysAt,
}

/// Which keys are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysAt {
    /// Any.
    Anywhere,
    /// A few, again and again.
    Hot,
    /// One after the other, from somewhere.
    InARow,
}

/// Kinds of steps.
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
    /// Which of [`KV_STEP_KINDS`] it is.
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
