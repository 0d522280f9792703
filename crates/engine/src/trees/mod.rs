//! Trees: B+-trees of byte strings, changed by transactions.
//!
//! ```text
//!   Transaction ── get, scan ─► Snapshot ─► frames ─► view of the drive
//!        └ commit ─► sequencer ─► work: copies of nodes, changed ─► redo ─► frames, published
//! ```
//!
//! A tree's root keeps its LPID for good, so that no catalog changes when it grows. Short values stand in leaves, long
//! ones are pages of their own, which a new value of the same key replaces in place.

mod check;
pub(crate) mod commit;
mod cursor;
pub(crate) mod frames;
pub(crate) mod heads;
mod load;
pub(crate) mod page;
mod read;
pub(crate) mod redo;
pub(crate) mod snapshot;
pub(crate) mod transaction;
pub(crate) mod upper;
pub(crate) mod writer;

use std::fmt;
use std::sync::Arc;

use lode_base::{Lpid, OwnerId, PageBuf, TableId};

pub(crate) use check::check;
pub use cursor::Cursor;
pub(crate) use cursor::Order;
pub use load::TreeLoad;
pub(crate) use read::body_of;

/// Longest key of a tree.
pub const KEY_BYTES_MAX: usize = 1024;

/// The number of a commit to trees: each is greater than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Csn(u64);

impl Csn {
    /// The one with this number.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// Its number.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Csn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A tree of the catalog. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(crate) inner: Arc<TreeInfo>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TreeInfo {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) root: Lpid,
}

impl Tree {
    pub(crate) fn new(id: TableId, name: String, root: Lpid) -> Self {
        Self { inner: Arc::new(TreeInfo { id, name, root }) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its number, which is never used again.
    pub fn id(&self) -> TableId {
        self.inner.id
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.inner.id.into()
    }

    pub(crate) fn root(&self) -> Lpid {
        self.inner.root
    }
}

/// A value: it shares the bytes of the page that it was read from.
pub type Value = PageBuf;
