//! A view: the committed state of the drive at one commit, pinned for as long as the view is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lode_base::{CommitNo, Lpid, PageBuf, ViewId};
use lode_command::{IndexedPage, PageRange, ReadRequest};

use super::Storage;
use crate::{EngineError, LinkStats};

/// A view of the drive. It closes when this drops.
pub(crate) struct View {
    storage: Arc<Storage>,
    id: ViewId,
    commit: CommitNo,
    /// Whether the drive has closed the view.
    stale: AtomicBool,
}

impl View {
    /// Opens a view of the newest commit.
    pub(crate) fn open(storage: &Arc<Storage>) -> Result<Self, EngineError> {
        let (id, commit) = storage.store().open_view()?;
        Ok(Self::pinned(storage, id, commit))
    }

    /// The view that the drive answered a batch with.
    pub(crate) fn pinned(storage: &Arc<Storage>, id: ViewId, commit: CommitNo) -> Self {
        storage.views().enter(commit);
        Self { storage: storage.clone(), id, commit, stale: AtomicBool::new(false) }
    }

    /// A view of a commit for which the drive opened none. Its readers are told that it is too old.
    pub(crate) fn closed(storage: &Arc<Storage>, commit: CommitNo) -> Self {
        let view = Self::pinned(storage, ViewId::new(u64::MAX), commit);
        view.mark_stale();
        view
    }

    pub(crate) fn id(&self) -> ViewId {
        self.id
    }

    /// The commit that it shows.
    #[inline]
    pub(crate) fn commit(&self) -> CommitNo {
        self.commit
    }

    #[inline]
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Notes that the drive has closed the view.
    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Whether the drive has closed the view, as far as anybody noticed.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// Passes a result on. If the drive had closed the view, the view is marked, so that the next snapshot gets another one.
    pub(crate) fn noting_age<T>(&self, result: Result<T, EngineError>) -> Result<T, EngineError> {
        if matches!(result, Err(EngineError::SnapshotTooOld)) {
            self.mark_stale();
        }
        result
    }

    /// Reads pages, or parts of them.
    pub(crate) fn read(&self, pages: Vec<ReadRequest>) -> Result<(Vec<PageBuf>, LinkStats), EngineError> {
        self.noting_age(self.storage.store().read(Some(self.id), pages))
    }

    /// Reads one whole page.
    pub(crate) fn read_page(&self, lpid: Lpid) -> Result<PageBuf, EngineError> {
        self.noting_age(self.storage.store().read_page(Some(self.id), lpid))
    }

    /// Reads the index entries of pages.
    pub(crate) fn read_index(&self, ranges: Vec<PageRange>) -> Result<Vec<IndexedPage>, EngineError> {
        self.noting_age(self.storage.store().read_index(self.id, ranges))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.storage.views().leave(self.commit);
        if !self.is_stale() {
            // The drive closes a view that cannot be closed now when it is closed itself.
            let _ = self.storage.store().close_view(self.id);
        }
    }
}
