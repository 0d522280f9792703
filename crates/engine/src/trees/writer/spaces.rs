//! The extents of trees, and where in them a free page may be.
//!
//! What is in use is said by bitmaps, which are pages like others; this here only remembers where not to look.

use lode_base::{EXTENT_PAGES, ExtentId, OwnerId};

use crate::Map;

/// The extents of all trees, by owner.
pub(crate) type Spaces = Map<OwnerId, Space>;

/// The extents of one tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) extents: Vec<TreeExtent>,
}

/// An extent of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeExtent {
    pub(crate) id: ExtentId,
    /// Whether a commit took pages of it: its bitmap is there.
    pub(crate) begun: bool,
    /// No page before this one is free.
    pub(crate) free_from: u16,
}

impl TreeExtent {
    pub(crate) fn new(id: ExtentId, begun: bool) -> Self {
        Self { id, begun, free_from: 1 }
    }
}

impl Space {
    /// An extent with perhaps a free page: its place here.
    pub(crate) fn candidate(&self) -> Option<usize> {
        // The newest extents have room most often.
        self.extents.iter().rposition(|e| usize::from(e.free_from) < EXTENT_PAGES)
    }

    /// What was remembered may be wrong: a batch that took pages failed.
    pub(crate) fn forget(&mut self) {
        self.extents.iter_mut().for_each(|e| e.free_from = 1);
    }

    /// These extents have pages from now on.
    pub(crate) fn begun(&mut self, extents: &[ExtentId]) {
        self.extents.iter_mut().filter(|e| extents.contains(&e.id)).for_each(|e| e.begun = true);
    }

    /// A page of an extent became free.
    pub(crate) fn freed(&mut self, extent: ExtentId, page: u16) {
        if let Some(e) = self.extents.iter_mut().find(|e| e.id == extent) {
            e.free_from = e.free_from.min(page);
        }
    }
}
