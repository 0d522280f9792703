//! Extents: how they are allocated, and what becomes of those that nothing names.
//!
//! ```text
//!   allocate ─► extent ─┬─ the owner alone says whose it is (trees, redo)
//!                       └─ unpublished ─┬─ published ─► a catalog names it
//!                                       └─ released, or a crash: the next open releases it as an orphan
//! ```
//!
//! Invariant: an extent that the drive lists is named by the catalog, belongs to an owner that the catalog names, or is
//! unpublished.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::{ExtentId, OwnerId, TableId};
use lode_command::{Batch, ExtentInfo};
use parking_lot::Mutex;

use super::store::Store;
use crate::EngineError;

/// Orphans that one batch releases.
const ORPHANS_PER_BATCH: usize = 1024;

/// The extents of a database.
pub(crate) struct Extents {
    store: Arc<Store>,
    /// Extents of transactions and loads that are under way.
    unpublished: Mutex<BTreeSet<ExtentId>>,
    /// The number of the next owner, whether what it owns is ever committed or not.
    next_owner: Mutex<u32>,
}

impl Extents {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, unpublished: Mutex::default(), next_owner: Mutex::default() }
    }

    /// Owners that come get numbers from `first` on.
    pub(crate) fn number_owners_from(&self, first: u32) {
        *self.next_owner.lock() = first;
    }

    /// The number of a new table or tree.
    pub(crate) fn new_owner(&self) -> TableId {
        let mut next = self.next_owner.lock();
        *next += 1;
        TableId::new(*next - 1)
    }

    /// A fresh extent, which its owner alone identifies.
    pub(crate) fn allocate(&self, owner: OwnerId) -> Result<ExtentId, EngineError> {
        self.store.allocate(owner)
    }

    /// A fresh extent that nothing names yet.
    pub(crate) fn allocate_unpublished(&self, owner: OwnerId) -> Result<ExtentId, EngineError> {
        // `Extents::listed` sees both that the extent is there and that it is unpublished, or neither.
        let mut unpublished = self.unpublished.lock();
        let extent = self.store.allocate(owner)?;
        unpublished.insert(extent);
        Ok(extent)
    }

    /// These extents are named by a catalog now, or were released with a batch.
    pub(crate) fn published(&self, extents: &[ExtentId]) {
        self.unpublished.lock().retain(|e| !extents.contains(e));
    }

    /// Gives back extents that nothing ever named. An extent that the drive does not take back now is an orphan of the next
    /// open.
    pub(crate) fn release_unpublished(&self, releases: Vec<ExtentId>) {
        // The lock is held until the drive has answered: nobody else may get one of these extents before it is no longer
        // counted here.
        let mut unpublished = self.unpublished.lock();
        unpublished.retain(|e| !releases.contains(e));
        let _ = self.store.write(Batch { releases, ..Batch::default() });
    }

    /// The extents that the drive lists, and those among them that are unpublished, at one moment.
    pub(crate) fn listed(&self) -> Result<(Vec<ExtentInfo>, BTreeSet<ExtentId>), EngineError> {
        let unpublished = self.unpublished.lock();
        let listed = self.store.extents()?;
        Ok((listed, unpublished.clone()))
    }

    /// Releases extents that nothing names: a load that did not end left them.
    pub(crate) fn release_orphans(
        &self,
        listed: &[ExtentInfo],
        is_known: impl Fn(&ExtentInfo) -> bool,
    ) -> Result<(), EngineError> {
        let orphans: Vec<ExtentId> = listed.iter().filter(|e| !is_known(e)).map(|e| e.extent).collect();
        let release = |releases: &[ExtentId]| {
            self.store.write(Batch { releases: releases.to_vec(), ..Batch::default() }).map(drop)
        };
        match orphans.chunks(ORPHANS_PER_BATCH).try_for_each(release) {
            // The data can be read all the same.
            Err(e) if e.is_of_writes() => Ok(()),
            released => released,
        }
    }
}
