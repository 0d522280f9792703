//! What others do while a merge reads its pages, in the same thread.

use std::collections::BTreeSet;
use std::sync::Mutex;

use lode_base::{CommitNo, ExtentId};
use lode_command::Command;
use lode_engine::{Database, EngineError, WriteTxn};

use super::model::NAMES;
use crate::support::hooked::Hooks;

/// What happens while a merge reads.
pub(super) enum Within {
    Commit(Box<WriteTxn>),
    Merge(Database, usize),
}

/// Does something at a read of pages.
#[derive(Default)]
pub(super) struct AtRead {
    pub(super) armed: Mutex<Option<Armed>>,
    /// How the commit ended.
    pub(super) ended: Mutex<Option<Result<CommitNo, EngineError>>>,
}

pub(super) struct Armed {
    pub(super) extents: BTreeSet<ExtentId>,
    /// Reads of these extents to go.
    pub(super) reads: u64,
    pub(super) within: Within,
}

impl Hooks for AtRead {
    fn submit(&self, c: &Command) {
        let Command::Read { pages, .. } = c else { return };
        let mut armed = self.armed.lock().unwrap();
        let Some(a) = armed.as_mut().filter(|a| a.extents.contains(&pages[0].lpid.extent())) else { return };
        if a.reads > 0 {
            a.reads -= 1;
            return;
        }
        let within = armed.take().expect("it is armed").within;
        drop(armed);
        self.run(within);
    }
}

impl AtRead {
    pub(super) fn run(&self, within: Within) {
        match within {
            Within::Commit(txn) => *self.ended.lock().unwrap() = Some(txn.commit()),
            // It fails only where batches do, and then the next one does its work.
            Within::Merge(db, t) => {
                let merged = db.merge(NAMES[t]);
                assert!(matches!(merged, Ok(()) | Err(EngineError::OutOfSpace { .. })), "{merged:?}");
            }
        }
    }
}
