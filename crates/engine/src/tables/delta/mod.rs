//! Deltas: the rows of a table that changed since its column pages were written.
//!
//! ```text
//!   row id ─┬─ the delta has it ─► its newest image, or "gone"           the delta always wins
//!           └─ else: directory ──► page of the main, slot
//!
//!   tree of the table    d, row id ─► image, or nothing: gone           the delta
//!                        p, first row id of a page ─► page, its ids     the directory
//!                        k, number of a key, key, row id ─► nothing     keys
//! ```
//!
//! - `ids.rs`: row ids, and the keys of the tree
//! - `directory.rs`: which page of the main has which rows
//! - `chunk.rs`, `leaves.rs`: rows of leaves of the delta as columns
//! - `own_rows.rs`: rows that a transaction changed
//! - `due.rs`: what is to be merged
//!
//! What a snapshot makes of main and delta is in `overlay/`.
//!
//! Invariants: a row keeps its id. Ids of pages do not overlap. A snapshot reads main, delta and directory at one state.

mod chunk;
mod directory;
mod due;
mod ids;
mod leaves;
mod own_rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

pub(super) use chunk::{Chunk, ChunkPage, RowsOf};
pub(super) use directory::{Directory, KeyBounds, Sorted, Span};
pub(super) use due::{DueCell, step_of};
pub(super) use ids::{
    ENTRY_KEY_BYTES_MAX, RowId, TREE_PREFIX, delta_extent, delta_key, delta_range, id_of_key, is_delta,
    key_entry, key_prefix, page_key, tree_name,
};
pub(super) use leaves::LeafVersion;
use leaves::Leaves;
pub(super) use own_rows::{Image, OwnRows, RowChange, values_of};

/// What all versions of a table share of its delta.
#[derive(Debug, Default)]
pub(super) struct Delta {
    /// The next row id that nobody has.
    next_id: AtomicU64,
    /// Leaves of the delta as columns.
    pub(super) leaves: Leaves,
    /// Bytes of images that were written since the last survey of the cells.
    written: AtomicU64,
    /// Whether the last survey left nothing: no row was written since a survey at rest.
    is_surveyed: AtomicBool,
    /// Cells that are due to be merged, by a survey.
    due: Mutex<Vec<DueCell>>,
    /// Rewrites of the table that are under way. A merge in the background would make them give up.
    rewrites: AtomicU32,
}

/// Keeps background work from merging a delta, for as long as it lives.
#[derive(Debug)]
pub(super) struct Unmerged(Arc<Delta>);

impl Unmerged {
    pub(super) fn hold(delta: &Arc<Delta>) -> Self {
        delta.rewrites.fetch_add(1, Ordering::Relaxed);
        Self(delta.clone())
    }
}

impl Drop for Unmerged {
    fn drop(&mut self) {
        self.0.rewrites.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Delta {
    /// Takes as many new row ids as there are rows. Returns the first.
    pub(super) fn take_ids(&self, rows: u64) -> RowId {
        RowId::new(self.next_id.fetch_add(rows, Ordering::Relaxed))
    }

    /// No id below this one is new.
    pub(super) fn ids_before(&self, next: u64) {
        self.next_id.fetch_max(next, Ordering::Relaxed);
    }

    /// So many bytes of images were written to the delta.
    pub(super) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of images that were written since the last survey.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether rows may be in the delta that no survey at rest has seen.
    pub(super) fn may_have_rows(&self) -> bool {
        self.written() > 0 || !self.is_surveyed.load(Ordering::Relaxed)
    }

    /// A survey found these cells. `all`: every cell of which the delta has a row.
    pub(super) fn surveyed(&self, due: Vec<DueCell>, all: bool) {
        self.written.store(0, Ordering::Relaxed);
        self.is_surveyed.store(all, Ordering::Relaxed);
        *self.due.lock() = due;
    }

    /// Whether a rewrite of the table is under way.
    pub(super) fn is_held(&self) -> bool {
        self.rewrites.load(Ordering::Relaxed) > 0
    }

    /// The cells that the next step merges.
    pub(super) fn next_due(&self) -> Vec<DueCell> {
        step_of(&mut self.due.lock())
    }

    /// The next row id that nobody has.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.load(Ordering::Relaxed)
    }
}
