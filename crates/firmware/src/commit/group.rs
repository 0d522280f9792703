//! A log group: the records of all actions that were staged when the leader came.
//!
//! ```text
//!   | what happened to EBLOCKs | allocations | the record of each action, in order |
//! ```
//!
//! Invariants: an EBLOCK is opened before the pages in it are named; extents have owners before their pages are written.

use lode_base::{ExtentId, OwnerId};

use super::action::Action;
use crate::planted::{self, Planted, at};
use crate::record::Record;

pub(super) struct StagedGroup {
    pub(super) actions: Vec<Action>,
    /// What happened to EBLOCKs.
    pub(super) changes: Vec<Record>,
    /// How many allocations it logs.
    pub(super) allocated: usize,
    /// All records.
    pub(super) bytes: Vec<u8>,
}

impl StagedGroup {
    pub(super) fn new(actions: Vec<Action>, changes: Vec<Record>, allocated: &[(OwnerId, ExtentId)]) -> Self {
        let bytes = at!(OpenedAfterPages => encode(&[], allocated, &actions, &changes), encode(&changes, allocated, &actions, &[]));
        Self { allocated: allocated.len(), actions, changes, bytes }
    }

    /// Whether it is to be durable before anything of it is installed.
    pub(super) fn is_forced(&self) -> bool {
        self.actions.iter().any(|a| !a.unforced)
    }

    /// Whether it speaks of what was programmed.
    pub(super) fn programs(&self) -> bool {
        !self.changes.is_empty() || self.names_eblocks()
    }

    /// Whether actions in it programmed pages.
    pub(super) fn names_eblocks(&self) -> bool {
        self.actions.iter().any(|a| !a.eblocks.is_empty())
    }

    /// Whether it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.actions.iter().all(|a| matches!(a.record, Record::Checkpointed { .. }))
    }

    /// Whether GC made all of its actions.
    pub(super) fn only_moves(&self) -> bool {
        self.actions.iter().all(|a| matches!(a.record, Record::Moved { .. }))
    }
}

/// The records of a group; `last` come behind those of the actions.
fn encode(
    first: &[Record],
    allocated: &[(OwnerId, ExtentId)],
    actions: &[Action],
    last: &[Record],
) -> Vec<u8> {
    let mut b = Vec::new();
    first.iter().for_each(|r| r.encode(&mut b));
    planted::unless(Planted::AllocationNotLogged, || {
        let record = |&(owner, extent): &_| Record::Allocated { owner, extent };
        allocated.iter().map(record).for_each(|r| r.encode(&mut b));
    });
    actions.iter().for_each(|a| a.record.encode(&mut b));
    last.iter().for_each(|r| r.encode(&mut b));
    b
}
