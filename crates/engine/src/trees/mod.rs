//! Trees: B+-trees of byte strings, changed by transactions. Nothing here knows tables.
//!
//! ```text
//!   Transaction ── get, scan ─► Snapshot ─► frames ─► view of the drive
//!        └ commit ─► commit/: order, group ─► writer/: copies of nodes, changed ─► redo ─► frames, published ─► heads
//! ```
//!
//! - `transaction.rs`, `durability.rs`: transactions, and when they are durable
//! - `snapshot.rs`, `read.rs`, `cursor.rs`, `upper.rs`: a state, and what reads at it
//! - `heads.rs`: the newest state, and the one that is read
//! - `commit/`: the order of commits, their groups, the right to write
//! - `writer/`: applies commits, writes pages back, creates and drops trees, recovers
//! - `redo/`: redo records and pages, and their replay
//! - `frames/`, `page/`: versions of pages in memory, and what a page is
//! - `catalog.rs`: the trees' part of the catalog
//! - `load.rs`, `check.rs`: loads of whole trees, and their check
//!
//! The root of a tree keeps its LPID for good, so that no catalog changes when the tree grows. Short values are in leaves. A long
//! value is a page of its own, which a new value of the same key replaces in place.

mod catalog;
mod check;
mod commit;
mod cursor;
mod durability;
mod frames;
mod heads;
mod load;
mod options;
mod page;
mod read;
mod redo;
mod snapshot;
mod stats;
mod transaction;
mod tree;
mod upper;
mod writer;
mod writes;

use std::sync::Arc;

use lode_base::{ExtentId, OwnerId};
use lode_command::ExtentInfo;

use crate::EngineError;
use crate::storage::Storage;
use crate::storage::view::View;
use durability::DurabilitySettings;
use frames::Frames;
use heads::Heads;
use writer::{Recovered, Writer};

pub(crate) use catalog::{Above, Catalog};
pub(crate) use check::check;
pub(crate) use commit::{Alone, CarriedBatch, Claims, Committer, Sequenced};
pub use cursor::Cursor;
pub use durability::{Durability, SyncEvery};
pub use load::TreeLoad;
pub(crate) use options::TreeOptions;
pub(crate) use redo::REDO_OWNER;
pub use snapshot::Snapshot;
pub use stats::TreeStats;
pub use transaction::{Range, Savepoint, Transaction};
pub use tree::{Csn, KEY_BYTES_MAX, Tree, Value};
pub(crate) use writes::TreeWrites;

/// Redo takes at most this part of a drive's capacity.
const REDO_PART: u64 = 16;

/// All trees of a database.
pub(crate) struct Trees {
    frames: Arc<Frames>,
    committer: Arc<Committer>,
    durability: Arc<DurabilitySettings>,
}

impl Trees {
    /// Recovers the trees of a catalog at a view, which is the newest. `listed`: the extents of the drive.
    pub(crate) fn open(
        storage: Arc<Storage>,
        view: View,
        catalog: Catalog,
        listed: &[ExtentInfo],
        options: TreeOptions,
    ) -> Result<Self, EngineError> {
        // Redo keeps space of the drive: a sixteenth of a small one is enough for it.
        let capacity_bytes = storage.store().identity().geometry.capacity_bytes();
        let redo_bytes_max = options.redo_bytes_max.min(capacity_bytes / REDO_PART);
        let options = TreeOptions { redo_bytes_max, ..options };
        let frames = Arc::new(Frames::new(options.frame_bytes));
        frames.set_view(view.commit());
        let recovered = Recovered::at(view, catalog, listed, &frames)?;
        let newest = recovered.snapshot.csn();
        let heads = Arc::new(Heads::new(storage.clone(), frames.clone(), recovered.snapshot.clone()));
        let writer = Writer::new(storage.clone(), frames.clone(), heads.clone(), options, recovered);
        let committer = Arc::new(Committer::new(storage, heads, options, newest, writer));
        Ok(Self { frames, committer, durability: Arc::default() })
    }

    /// The newest state, and the one that is read.
    pub(crate) fn heads(&self) -> &Heads {
        self.committer.heads()
    }

    /// Sees commits through.
    pub(crate) fn committer(&self) -> &Arc<Committer> {
        &self.committer
    }

    /// When commits become durable.
    pub(crate) fn durability(&self) -> &Arc<DurabilitySettings> {
        &self.durability
    }

    /// The state that is read, behind a view that the drive has not closed as far as anybody noticed.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let current = self.heads().current();
        if !current.view().is_stale() {
            return Ok(current);
        }
        let _permit = self.committer.permit();
        let newest = self.heads().refreshed()?;
        self.heads().settle_all()?;
        Ok(newest)
    }

    /// Begins a transaction at the state that is read.
    pub(crate) fn begin(&self) -> Result<Transaction, EngineError> {
        let durability = self.durability.default_durability();
        Ok(Transaction::new(self.committer.clone(), self.snapshot()?, durability))
    }

    /// Commits transactions in this order, with one batch as far as that has room for them.
    pub(crate) fn commit_all(
        &self,
        transactions: impl IntoIterator<Item = Transaction>,
    ) -> Vec<Result<Csn, EngineError>> {
        let placed: Vec<_> = transactions.into_iter().map(Transaction::place).collect();
        placed.into_iter().map(|p| p?.finish()).collect()
    }

    /// Creates an empty tree. Answers the one that is there, if there is one and `if_not_exists`.
    pub(crate) fn create_tree(&self, name: &str, if_not_exists: bool) -> Result<Tree, EngineError> {
        let _permit = self.committer.permit();
        match self.heads().refreshed()?.tree(name) {
            Some(tree) if if_not_exists => Ok(tree),
            Some(_) => Err(EngineError::TreeExists(name.into())),
            None => self.committer.writer().create(name),
        }
    }

    /// Begins to load a new tree.
    pub(crate) fn load_tree(&self, name: &str) -> Result<TreeLoad, EngineError> {
        TreeLoad::new(self.committer.clone(), name)
    }

    /// Drops a tree; answers whether it did.
    pub(crate) fn drop_tree(&self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        let _permit = self.committer.permit();
        match self.heads().refreshed()?.tree(name) {
            Some(tree) => self.committer.writer().drop_tree(&tree).map(|()| true),
            None if if_exists => Ok(false),
            None => Err(EngineError::NoSuchTree(name.into())),
        }
    }

    /// Makes every commit so far durable.
    pub(crate) fn sync(&self) -> Result<(), EngineError> {
        {
            let _permit = self.committer.permit();
            self.committer.writer().sync()?;
        }
        self.heads().flush()
    }

    /// Writes back every dirty page.
    pub(crate) fn flush(&self) -> Result<(), EngineError> {
        let _permit = self.committer.permit();
        self.committer.writer().flush()
    }

    /// Writes back some dirty pages, if there are many; answers whether it did.
    pub(crate) fn write_back_if_due(&self) -> Result<bool, EngineError> {
        if !self.committer.writer().is_due() {
            return Ok(false);
        }
        let _permit = self.committer.permit();
        self.committer.writer().write_back_if_due()
    }

    /// Writes back some dirty pages, if much redo is kept for them; answers whether it did.
    pub(crate) fn write_back_at_rest(&self) -> Result<bool, EngineError> {
        if !self.committer.writer().is_due_at_rest() {
            return Ok(false);
        }
        let _permit = self.committer.permit();
        self.committer.writer().write_back_at_rest()
    }

    /// Lets every frame leave that may.
    pub(crate) fn clear_frames(&self) {
        self.frames.clear();
    }

    /// The extents of trees, with their owners.
    pub(crate) fn extents(&self) -> Vec<(OwnerId, ExtentId)> {
        self.committer.writer().extents().collect()
    }

    pub(crate) fn stats(&self) -> TreeStats {
        let writer = self.committer.writer().stats();
        TreeStats {
            held_bytes: self.frames.memory_bytes(),
            dirty_bytes: writer.dirty_bytes,
            redo_bytes: writer.redo_bytes,
            redo_pages: writer.redo_pages,
            misses: self.frames.misses(),
            splits: writer.splits,
            merges: writer.merges,
            written_bytes: writer.written_bytes,
        }
    }
}
