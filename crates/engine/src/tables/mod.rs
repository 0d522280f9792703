//! Tables, and transactions over them. Their indexes are trees, and their commits are carried by the trees' committer.
//!
//! ```text
//!   Snapshot ─┬─ scan ──────────► task for the drive; the host evaluates what the transaction itself changed
//!             ├─ read_columns ──► buffer pool ─► drive
//!             └─ index_pages, walk ─► trees
//!   WriteTxn ── insert, load, update, delete ─► write/: changes in memory, loads in fresh extents ─► commit: one batch
//! ```
//!
//! - `delta/`: rows that changed since the pages of a table were written; `overlay/`: what a snapshot makes of them
//! - `definition.rs`, `table.rs`: what was declared, and a table at one commit
//! - `catalog.rs`: the tables' part of the catalog
//! - `snapshot.rs`: what a snapshot shows of tables; `own/`: what its transaction changed itself
//! - `scan.rs`, `evaluate.rs`: scans by the drive, and by the host; `read.rs`: single columns; `point.rs`: single rows by their key
//! - `statistics.rs`, `collect.rs`: what is known of values without reading them
//! - `objects.rs`, `sequences.rs`: sequences, views, schemas and comments; the numbers of sequences
//! - `key.rs`, `entries.rs`, `index.rs`, `index_order.rs`: keys as bytes, B+-tree indexes, and their order; `entry_filter.rs`: conditions on their entries
//! - `look_up.rs`: pages by values, many times over; `bounds.rs`, `minima.rs`: bounds of pages that the host keeps, and scans by them
//! - `write/`: transactions
//! - `check.rs`: the check of a whole database
//! - `planted.rs`, `planted_cuts.rs`: faults that a test must find

mod bounds;
mod catalog;
mod check;
mod check_rows;
mod collect;
mod composite;
mod definition;
mod delta;
mod entries;
mod entry_filter;
mod evaluate;
mod index;
mod index_order;
mod key;
mod look_up;
mod minima;
mod objects;
mod overlay;
mod own;
mod planted;
mod planted_cuts;
mod point;
mod read;
mod recent_filters;
mod scan;
mod sequences;
mod snapshot;
mod statistics;
mod table;
mod write;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::CommitNo;
use parking_lot::Mutex;

use crate::storage::Storage;
use crate::trees::{Alone, Snapshot, Tree, Trees};
use crate::{DatabaseOptions, EngineError};
use delta::DueCell;
use write::{Limits, Merged};

pub(crate) use catalog::{empty_root, known_extents, read as read_catalog};
pub use composite::Composite;
pub use definition::{
    COLUMNS_MAX, Changes, ColumnDef, Constraint, Deferral, Encodings, Fill, Hidden, INDEX_COLUMNS_DEFAULT,
    IndexDef, IndexKind, KeyIndex, KeyOrder, Layout, PageBytes, ReferenceAction, Rule, Summary, TableDef,
    TableOptions,
};
pub use entries::EntryOf;
pub use index::IndexedPages;
pub use index_order::{IndexOrder, IndexWalk, NullsAt, OrderBound, OrderColumn, OrderKey, OrderedPages};
pub use look_up::LookUps;
pub use objects::{AllObjects, Object, ObjectKind, Relation, SequenceDef, SequenceOwner, ViewDef, ViewRead};
pub use overlay::{Few, RangeEnd, RowOrder, RowRange, RowsInOrder};
#[cfg(feature = "planted")]
pub use planted::{Planted as PlantedInTables, plant as plant_in_tables};
#[cfg(feature = "planted")]
pub use planted_cuts::{Planted as PlantedForCuts, plant as plant_for_cuts};
pub use read::ReadAhead;
pub use scan::{NoMatcher, Scan};
pub use sequences::SequenceNumbers;
pub(crate) use sequences::Sequences;
pub use statistics::TableStatistics;
pub use table::{RowAddress, Table};
pub use write::{SavedChanges, TableRewrite, WriteTxn};

/// Bytes of images that are written to a delta before its cells are surveyed.
const SURVEY_BYTES: u64 = 1 << 20;
/// A snapshot that is older than so many merges is one that stays.
const MERGES_KEPT: usize = 8;
/// The part of a drive's capacity that merges leave to commits while such a snapshot is open.
const LEFT_PART: u64 = 16;

/// What merges of deltas did since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeStats {
    /// Merges of some cells each that took effect.
    pub merges: u64,
    /// Bytes of the column pages that they wrote.
    pub written_bytes: u64,
    /// Merges that gave up because others changed the table's pages first.
    pub overtaken: u64,
}

/// The tables of a database.
pub(crate) struct Tables {
    trees: Arc<Trees>,
    sequences: Arc<Sequences>,
    limits: Limits,
    merges: AtomicU64,
    merged_bytes: AtomicU64,
    overtaken: AtomicU64,
    /// The commits of the newest merges, oldest first.
    newest_merges: Mutex<VecDeque<CommitNo>>,
}

impl Tables {
    /// The tables above these trees.
    ///
    /// # Errors
    /// When the states of sequences cannot be read.
    pub(crate) fn open(
        trees: Arc<Trees>,
        storage: Arc<Storage>,
        options: &DatabaseOptions,
    ) -> Result<Self, EngineError> {
        let DatabaseOptions { key_check_bytes, change_bytes, rows_by_id_max, .. } = *options;
        let limits = Limits { key_check_bytes, change_bytes, rows_by_id_max };
        let (merges, merged_bytes, overtaken, newest_merges) = Default::default();
        let sequences = Arc::new(Sequences::open(storage, &trees.heads().current())?);
        Ok(Self { trees, sequences, limits, merges, merged_bytes, overtaken, newest_merges })
    }

    /// The numbers of sequences.
    pub(crate) fn sequences(&self) -> &Sequences {
        &self.sequences
    }

    /// Finishes what a crash cut short: makes index entries that are missing, and drops trees of indexes that do not exist. A drive that
    /// takes no writes keeps them; its tables can be read all the same.
    pub(crate) fn recover(&self) -> Result<(), EngineError> {
        match self.finish_cut_changes() {
            Err(e) if e.is_of_writes() => {}
            done => done?,
        }
        let current = self.trees.heads().current();
        current.tables().try_for_each(|t| current.number_rows_on(t))
    }

    fn finish_cut_changes(&self) -> Result<(), EngineError> {
        if self.trees.heads().current().tables().any(|t| t.lacks_index_entries()) {
            self.begin_exclusive()?.finish_indexes()?;
        }
        let current = self.trees.heads().current();
        let indexes: BTreeSet<String> = current.tables().flat_map(|t| t.index_trees()).collect();
        let rows: BTreeSet<String> =
            current.tables().filter(|t| t.has_delta()).map(|t| delta::tree_name(t.id())).collect();
        let is_left = |t: &&Tree| {
            index::is_of_index(t) && !indexes.contains(t.name())
                || t.name().starts_with(delta::TREE_PREFIX) && !rows.contains(t.name())
        };
        let left: Vec<Tree> = current.trees().filter(is_left).cloned().collect();
        let drops = || left.iter().try_for_each(|t| self.trees.drop_tree(t.name(), true).map(drop));
        planted_cuts::instead(planted_cuts::Planted::LeftTreesStay, drops, || Ok(()))
    }

    /// Begins a transaction at the state that is read.
    pub(crate) fn begin(&self) -> Result<WriteTxn, EngineError> {
        Ok(self.transaction(None, self.trees.snapshot()?))
    }

    /// Begins a transaction that has the right to write.
    pub(crate) fn begin_exclusive(&self) -> Result<WriteTxn, EngineError> {
        let permit = self.trees.committer().alone();
        let snapshot = self.trees.heads().refreshed()?;
        Ok(self.transaction(Some(permit), snapshot))
    }

    fn transaction(&self, permit: Option<Alone>, snapshot: Snapshot) -> WriteTxn {
        WriteTxn::new(self.trees.clone(), self.sequences.clone(), self.limits, permit, snapshot)
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

    /// One bounded step of merging deltas into pages; answers whether there was one. `at_rest`: cells of which the delta has little are
    /// merged, too.
    pub(crate) fn merge_step(&self, at_rest: bool) -> Result<bool, EngineError> {
        let current = self.trees.snapshot()?;
        for t in current.tables() {
            let Some(delta) = t.delta().filter(|d| !d.is_held()) else { continue };
            let mut due = delta.next_due();
            let written = delta.written();
            if due.is_empty() && (written >= SURVEY_BYTES || at_rest && delta.may_have_rows()) {
                delta.surveyed(write::survey(&current, t, at_rest)?, at_rest);
                due = delta.next_due();
            }
            if !due.is_empty() {
                if self.merge_cells(&current, t, &due, self.room_to_leave())? == Merged::Overtaken {
                    // The rows are surveyed again.
                    delta.wrote(SURVEY_BYTES as usize);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Merges some cells of a table, and counts what came of it.
    fn merge_cells(
        &self,
        current: &Snapshot,
        t: &Arc<Table>,
        due: &[DueCell],
        leave_bytes: u64,
    ) -> Result<Merged, EngineError> {
        let merged = self.transaction(None, current.clone()).merge(t, due, leave_bytes)?;
        match merged {
            Merged::Done { page_bytes, commit } => {
                let mut newest = self.newest_merges.lock();
                newest.push_back(commit);
                if newest.len() > MERGES_KEPT {
                    newest.pop_front();
                }
                drop(newest);
                self.merges.fetch_add(1, Ordering::Relaxed);
                self.merged_bytes.fetch_add(page_bytes, Ordering::Relaxed);
            }
            Merged::Overtaken => _ = self.overtaken.fetch_add(1, Ordering::Relaxed),
            Merged::TooLarge => {}
        }
        Ok(merged)
    }

    /// What a merge in the background leaves of the drive's room. While a snapshot is open that is older than many merges, the pages stay
    /// that they replace: a merge then takes room for its pages and gains none, while a commit to a delta takes room for its rows alone.
    fn room_to_leave(&self) -> u64 {
        let storage = self.trees.committer().storage();
        let newest = self.newest_merges.lock();
        let is_held = newest.len() == MERGES_KEPT && storage.views().oldest() < newest.front().copied();
        match is_held {
            true => storage.store().identity().geometry.capacity_bytes() / LEFT_PART,
            false => 0,
        }
    }

    /// What merges did so far.
    pub(crate) fn merge_stats(&self) -> MergeStats {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        MergeStats {
            merges: of(&self.merges),
            written_bytes: of(&self.merged_bytes),
            overtaken: of(&self.overtaken),
        }
    }

    /// Merges all that the delta of a table has.
    pub(crate) fn merge(&self, name: &str) -> Result<(), EngineError> {
        let at = |current: &Snapshot| current.table(name).filter(|t| t.has_delta());
        let first = self.trees.snapshot()?;
        let mut due = at(&first).map_or(Ok(Vec::new()), |t| write::survey(&first, &t, true))?;
        drop(first);
        while !due.is_empty() {
            let step = delta::step_of(&mut due);
            let current = self.trees.snapshot()?;
            let Some(t) = at(&current) else { break };
            if self.merge_cells(&current, &t, &step, 0)? == Merged::Overtaken {
                due = write::survey(&current, &t, true)?;
            }
        }
        Ok(())
    }

    /// Bytes of images that were written to deltas and not looked at for merges.
    pub(crate) fn unmerged(&self) -> u64 {
        let current = self.trees.heads().current();
        current.tables().filter_map(|t| t.delta()).map(|d| d.written()).sum()
    }

    /// Reports what is wrong with the database, one line each. Writers wait.
    pub(crate) fn check(&self) -> Result<Vec<String>, EngineError> {
        let _permit = self.trees.committer().permit();
        let tree_extents = self.trees.extents();
        check::check(&self.trees.heads().refreshed()?, &tree_extents, self.limits.key_check_bytes)
    }
}
