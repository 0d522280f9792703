//! The extents of trees, and where in them a free page may be.
//!
//! Bitmaps, which are pages like others, say which pages are in use. Here is only remembered where no page is free.

use lode_base::{EXTENT_PAGES, ExtentId, OwnerId};

use crate::Map;

/// The extents of all trees, by owner.
pub(super) type Spaces = Map<OwnerId, Space>;

/// The extents of one tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(super) extents: Vec<TreeExtent>,
}

/// An extent of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeExtent {
    pub(super) id: ExtentId,
    /// Whether a commit took pages of it. Then it has a bitmap.
    pub(super) begun: bool,
    /// No page before this one is free.
    pub(super) free_from: u16,
}

impl TreeExtent {
    pub(super) fn new(id: ExtentId, begun: bool) -> Self {
        Self { id, begun, free_from: 1 }
    }
}

impl Space {
    /// The extents of a tree that was loaded. All but the last are full.
    pub(crate) fn loaded(extents: &[ExtentId]) -> Self {
        let mut extents: Vec<TreeExtent> = extents.iter().map(|&e| TreeExtent::new(e, true)).collect();
        let full = extents.len() - 1;
        extents[..full].iter_mut().for_each(|e| e.free_from = EXTENT_PAGES as u16);
        Self { extents }
    }

    /// The index of an extent that may have a free page.
    pub(super) fn candidate(&self) -> Option<usize> {
        // The newest extents have free pages most often.
        self.extents.iter().rposition(|e| usize::from(e.free_from) < EXTENT_PAGES)
    }

    /// Forgets where no page is free: a batch that took pages failed.
    pub(super) fn forget(&mut self) {
        self.extents.iter_mut().for_each(|e| e.free_from = 1);
    }

    /// These extents have pages from now on.
    pub(super) fn begun(&mut self, extents: &[ExtentId]) {
        self.extents.iter_mut().filter(|e| extents.contains(&e.id)).for_each(|e| e.begun = true);
    }

    /// A page of an extent became free.
    pub(super) fn freed(&mut self, extent: ExtentId, page: u16) {
        if let Some(e) = self.extents.iter_mut().find(|e| e.id == extent) {
            e.free_from = e.free_from.min(page);
        }
    }
}
