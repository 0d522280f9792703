//! The writer: changes trees, one group of commits at a time, and writes the changed pages back.
//!
//! ```text
//!   group ─► work.rs ─► redo page and values: one batch ─► frames published ─► dirty.rs ─► written back in large batches
//!            └ copies of pages, changed                                        └► unsynced.rs: commits that no batch has yet
//! ```
//!
//! - `commit.rs`: a group, or the tree writes that go along with another batch
//! - `write_back.rs`: dirty pages go to the drive, and redo that nobody needs is trimmed
//! - `definitions.rs`: trees that are created, adopted after a load, and dropped
//! - `recover.rs`: the trees as a crash or a clean end left them
//! - `spaces.rs`: the extents of trees
//!
//! Only the holder of the right to write may change anything here. Invariants: a frame leaves for the drive only after the redo of
//! all commits up to its CSN is durable. Redo is trimmed from the front, once the drive has all pages that it names.

mod commit;
mod definitions;
mod dirty;
mod recover;
mod spaces;
mod unsynced;
mod work;
mod write_back;

use std::sync::Arc;

use lode_base::{ExtentId, OwnerId};
use lode_command::{Align, Batch, CommandError, PageWrite};

use super::frames::{Frame, Frames};
use super::heads::Heads;
use super::options::TreeOptions;
use super::page::body::Body;
use super::redo::RedoLog;
use crate::EngineError;
use crate::storage::Storage;
use crate::storage::store::SentBatch;
use dirty::Dirty;
use spaces::Spaces;
use unsynced::Unsynced;

pub(crate) use recover::Recovered;
pub(crate) use spaces::Space;

/// What is known of trees beyond their pages, and what they owe the drive.
pub(crate) struct Writer {
    storage: Arc<Storage>,
    frames: Arc<Frames>,
    heads: Arc<Heads>,
    options: TreeOptions,
    spaces: Spaces,
    redo: RedoLog,
    dirty: Dirty,
    unsynced: Unsynced,
    /// Nodes that were split so far, and merged.
    splits: u64,
    merges: u64,
    /// Bytes of nodes that were written back.
    written_bytes: u64,
    /// Why nothing more can be written.
    halted: Option<String>,
}

/// What the writer owes the drive, and what it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterStats {
    pub(crate) dirty_bytes: usize,
    pub(crate) redo_bytes: u64,
    pub(crate) redo_pages: usize,
    pub(crate) splits: u64,
    pub(crate) merges: u64,
    pub(crate) written_bytes: u64,
}

impl Writer {
    /// Goes on from what a recovery found; `heads` show it.
    pub(crate) fn new(
        storage: Arc<Storage>,
        frames: Arc<Frames>,
        heads: Arc<Heads>,
        options: TreeOptions,
        recovered: Recovered,
    ) -> Self {
        let Recovered { spaces, redo, dirty, .. } = recovered;
        Self {
            storage,
            frames,
            heads,
            options,
            spaces,
            redo,
            dirty,
            unsynced: Unsynced::default(),
            splits: 0,
            merges: 0,
            written_bytes: 0,
            halted: None,
        }
    }

    /// The extents of trees, with their owners.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (OwnerId, ExtentId)> {
        self.spaces.iter().flat_map(|(&o, s)| s.extents.iter().map(move |e| (o, e.id)))
    }

    pub(crate) fn stats(&self) -> WriterStats {
        let (redo_bytes, redo_pages) = self.redo.kept();
        WriterStats {
            dirty_bytes: self.dirty.bytes(),
            redo_bytes,
            redo_pages,
            splits: self.splits,
            merges: self.merges,
            written_bytes: self.written_bytes,
        }
    }

    fn check_halted(&self) -> Result<(), EngineError> {
        match &self.halted {
            Some(why) => Err(EngineError::Halted(why.clone())),
            None => Ok(()),
        }
    }

    /// Sends a batch. If nobody knows whether it took effect, nothing more is written.
    fn send(&mut self, batch: Batch) -> Result<SentBatch, EngineError> {
        let sent = self.storage.store().write(batch);
        if let Err(e) = &sent
            && may_have_taken_effect(e)
        {
            self.halted = Some(e.to_string());
        }
        sent
    }
}

/// Whether a batch that failed with this error may have taken effect.
fn may_have_taken_effect(e: &EngineError) -> bool {
    match e {
        EngineError::Device(_) | EngineError::Protocol { .. } => true,
        EngineError::Drive(e) => {
            matches!(e, CommandError::Medium(_) | CommandError::MediumFull(_) | CommandError::ReadOnly(_))
        }
        _ => false,
    }
}

/// Adds the page of a frame to a batch.
fn add_page(f: &Frame, batch: &mut Batch) {
    let data = match f.body() {
        Body::Node(n) => n.compact(),
        Body::Value(b) | Body::Allocation(b) => b.clone(),
        Body::Freed => {
            batch.trims.push(f.lpid());
            return;
        }
    };
    batch.writes.push(PageWrite { lpid: f.lpid(), data, align: Align::Cell });
}
