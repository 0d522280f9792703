//! Tables, and transactions over them. Their indexes are trees, and their commits are carried by the trees' committer.
//!
//! ```text
//!   Snapshot ─┬─ scan ──────────► task for the drive; the host evaluates what the transaction itself changed
//!             ├─ read_columns ──► buffer pool ─► drive
//!             └─ index_pages, walk ─► trees
//!   WriteTxn ── insert, load, update, delete ─► write/: changes in memory, loads in fresh extents ─► commit: one batch
//! ```
//!
//! - `definition.rs`, `table.rs`: what was declared, and a table at one commit
//! - `catalog.rs`: the tables' part of the catalog
//! - `snapshot.rs`: what a snapshot shows of tables; `own/`: what its transaction changed itself
//! - `scan.rs`, `evaluate.rs`: scans by the drive, and by the host; `read.rs`: single columns; `point.rs`: single rows by their key
//! - `statistics.rs`, `collect.rs`: what is known of values without reading them
//! - `key.rs`, `index.rs`, `index_order.rs`: keys as bytes, B+-tree indexes, and their order
//! - `write/`: transactions
//! - `check.rs`: the check of a whole database

mod catalog;
mod check;
mod collect;
mod definition;
mod evaluate;
mod index;
mod index_order;
mod key;
mod own;
mod point;
mod read;
mod scan;
mod snapshot;
mod statistics;
mod table;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::EngineError;
use crate::trees::{Permit, Snapshot, Tree, Trees};

pub(crate) use catalog::{empty_root, known_extents, read as read_catalog};
pub use definition::{
    COLUMNS_MAX, ColumnDef, Constraint, Encodings, INDEX_COLUMNS_DEFAULT, IndexDef, IndexKind, Layout,
    OnDelete, Rule, TableDef, TableOptions,
};
pub use index::IndexedPages;
pub use index_order::{IndexOrder, IndexWalk, NullsAt, OrderBound, OrderColumn, OrderKey, OrderedPages};
pub use read::ReadAhead;
pub use scan::Scan;
pub use statistics::TableStatistics;
pub use table::{RowAddress, Table};
pub use write::{SavedChanges, WriteTxn};

/// The tables of a database.
pub(crate) struct Tables {
    trees: Arc<Trees>,
    key_check_bytes: usize,
}

impl Tables {
    /// The tables above these trees. A check of unsorted keys may hold `key_check_bytes` of hashes at a time.
    pub(crate) fn new(trees: Arc<Trees>, key_check_bytes: usize) -> Self {
        Self { trees, key_check_bytes }
    }

    /// Finishes what a crash cut short: makes index entries that are missing, and drops trees of indexes that do not exist.
    pub(crate) fn recover(&self) -> Result<(), EngineError> {
        if self.trees.heads().current().tables().any(|t| t.lacks_index_entries()) {
            self.begin_exclusive()?.finish_indexes()?;
        }
        let current = self.trees.heads().current();
        let indexes: BTreeSet<String> =
            current.tables().flat_map(|t| t.indexes().iter().map(|i| index::tree_name(&i.name))).collect();
        let is_left = |t: &&Tree| index::is_of_index(t) && !indexes.contains(t.name());
        let left: Vec<Tree> = current.trees().filter(is_left).cloned().collect();
        left.iter().try_for_each(|t| self.trees.drop_tree(t.name(), true).map(drop))
    }

    /// Begins a transaction at the state that is read.
    pub(crate) fn begin(&self) -> Result<WriteTxn, EngineError> {
        Ok(self.transaction(None, self.trees.snapshot()?))
    }

    /// Begins a transaction that has the right to write.
    pub(crate) fn begin_exclusive(&self) -> Result<WriteTxn, EngineError> {
        let permit = self.trees.committer().permit();
        let snapshot = self.trees.heads().refreshed()?;
        Ok(self.transaction(Some(permit), snapshot))
    }

    fn transaction(&self, permit: Option<Permit>, snapshot: Snapshot) -> WriteTxn {
        WriteTxn::new(self.trees.clone(), self.key_check_bytes, permit, snapshot)
    }

    /// Makes one change, in a transaction that has the right to write, and commits it if it did anything.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut WriteTxn) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        let mut txn = self.begin_exclusive()?;
        let did = change(&mut txn)?;
        if did {
            txn.commit()?;
        }
        Ok(did)
    }

    /// Reports what is wrong with the database, one line each. Writers wait.
    pub(crate) fn check(&self) -> Result<Vec<String>, EngineError> {
        let _permit = self.trees.committer().permit();
        let tree_extents = self.trees.extents();
        check::check(&self.trees.heads().refreshed()?, &tree_extents, self.key_check_bytes)
    }
}
