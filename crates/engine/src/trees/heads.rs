//! The two states of a database: the newest, on which commits are made, and the current one, which is read. They are the same
//! state unless batches of commits are not durable yet.
//!
//! ```text
//!   current ──────────► readers                     a commit alone: one forced batch ─► newest, current
//!      ▲ flush                                      several at once: an unforced batch each, in turn ─► newest;
//!   newest ◄────────── commits, one after another                    then, side by side, one flush for all ─► current
//! ```
//!
//! Invariants: a state becomes current only once it is as durable as its commits asked for, and so are all states before it. The
//! buffer pool knows which pages a state changed before the state is read. After a flush that failed nobody knows what is durable:
//! nothing more is committed.

use std::sync::Arc;

use lode_base::{CommitNo, ExtentId, Lpid, ViewId};
use parking_lot::{Mutex, RwLock};

use super::catalog::Catalog;
use super::frames::Frames;
use super::snapshot::Snapshot;
use super::tree::Csn;
use crate::EngineError;
use crate::storage::Storage;
use crate::storage::view::View;

/// The states of a database. Unless it says otherwise, only the holder of the right to write may change them.
pub(crate) struct Heads {
    storage: Arc<Storage>,
    frames: Arc<Frames>,
    current: RwLock<Snapshot>,
    newest: Mutex<Newest>,
}

struct Newest {
    snapshot: Snapshot,
    /// States so far.
    number: u64,
    /// The state that is current.
    shown: u64,
    /// Batches that were sent without force so far, and how many of them a flush has made durable.
    unforced: u64,
    flushed: u64,
    /// Why nothing more is committed.
    halted: Option<String>,
}

impl Newest {
    /// Nothing more is committed; answers why.
    fn halt(&mut self, why: &str) -> EngineError {
        EngineError::Halted(self.halted.get_or_insert_with(|| why.into()).clone())
    }
}

impl Heads {
    pub(super) fn new(storage: Arc<Storage>, frames: Arc<Frames>, snapshot: Snapshot) -> Self {
        let current = RwLock::new(snapshot.clone());
        let newest = Newest { snapshot, number: 0, shown: 0, unforced: 0, flushed: 0, halted: None };
        Self { storage, frames, current, newest: Mutex::new(newest) }
    }

    /// What is read.
    pub(crate) fn current(&self) -> Snapshot {
        self.current.read().clone()
    }

    /// What commits are made on.
    pub(crate) fn newest(&self) -> Snapshot {
        self.newest.lock().snapshot.clone()
    }

    /// What commits are made on, behind a fresh view if the drive closed the old one.
    ///
    /// # Errors
    /// When nothing more is committed, or the drive fails.
    pub(crate) fn refreshed(&self) -> Result<Snapshot, EngineError> {
        let newest = self.committable()?;
        if !newest.view().is_stale() {
            return Ok(newest);
        }
        self.settle_all()?;
        let (view, commit) = self.storage.store().open_view()?;
        let fresh = newest.with_view(self.view_at(commit, Some(view)));
        self.show(fresh.clone());
        Ok(fresh)
    }

    fn committable(&self) -> Result<Snapshot, EngineError> {
        let newest = self.newest.lock();
        match &newest.halted {
            Some(why) => Err(EngineError::Halted(why.clone())),
            None => Ok(newest.snapshot.clone()),
        }
    }

    /// The view that a batch was answered with. Without one its readers open another when they ask.
    pub(crate) fn view_at(&self, commit: CommitNo, view: Option<ViewId>) -> View {
        self.frames.set_view(commit);
        match view {
            Some(view) => View::pinned(&self.storage, view, commit),
            None => View::closed(&self.storage, commit),
        }
    }

    /// The state that a commit of the drive made, which changed these pages: wrote, trimmed or released them. Without a CSN it
    /// changed no tree.
    pub(crate) fn state_of(
        &self,
        commit: CommitNo,
        view: Option<ViewId>,
        csn: Option<Csn>,
        catalog: Catalog,
        changed: Vec<Lpid>,
    ) -> Snapshot {
        self.storage.pool().changed(commit, changed);
        let view = self.view_at(commit, view);
        let csn = csn.unwrap_or_else(|| self.newest().csn());
        Snapshot::new(self.frames.clone(), view, csn, catalog)
    }

    /// From now on this state is read, and commits are made on it. It is as durable as it is to be, and so are those before it.
    pub(crate) fn show(&self, snapshot: Snapshot) {
        let mut newest = self.newest.lock();
        newest.number += 1;
        newest.shown = newest.number;
        let old = std::mem::replace(&mut newest.snapshot, snapshot.clone());
        let shown = std::mem::replace(&mut *self.current.write(), snapshot);
        drop(newest);
        // The last snapshot of a view closes it, which is a command.
        drop((old, shown));
    }

    /// From now on commits are made on this state. It is read once [`Heads::settle`] was called with its number.
    pub(crate) fn stage(&self, snapshot: Snapshot) -> u64 {
        let mut newest = self.newest.lock();
        newest.number += 1;
        let old = std::mem::replace(&mut newest.snapshot, snapshot);
        let number = newest.number;
        drop(newest);
        drop(old);
        number
    }

    /// Whether the newest state is current.
    pub(crate) fn is_settled(&self) -> bool {
        let newest = self.newest.lock();
        newest.shown == newest.number
    }

    /// A batch was sent without force.
    pub(crate) fn sent_unforced(&self) {
        self.newest.lock().unforced += 1;
    }

    /// Makes the state of this number durable and current, with all states before it. Anybody may call this; those who call it
    /// while the drive flushes share the next flush.
    pub(crate) fn settle(&self, number: u64) -> Result<(), EngineError> {
        let (shows, snapshot, unforced) = {
            let newest = self.newest.lock();
            if newest.shown >= number {
                return Ok(());
            }
            (newest.number, newest.snapshot.clone(), newest.unforced)
        };
        self.flush_up_to(unforced)?;
        let mut newest = self.newest.lock();
        if newest.shown >= shows {
            return Ok(());
        }
        newest.shown = shows;
        let shown = std::mem::replace(&mut *self.current.write(), snapshot);
        drop(newest);
        drop(shown);
        Ok(())
    }

    /// Makes all states durable and the newest one current. Anybody may call this.
    pub(crate) fn settle_all(&self) -> Result<(), EngineError> {
        let number = self.newest.lock().number;
        self.settle(number)
    }

    /// Makes the batches durable that were sent without force. Anybody may call this.
    pub(crate) fn flush(&self) -> Result<(), EngineError> {
        let (unforced, flushed) = {
            let newest = self.newest.lock();
            (newest.unforced, newest.flushed)
        };
        if unforced > flushed { self.flush_up_to(unforced) } else { Ok(()) }
    }

    fn flush_up_to(&self, unforced: u64) -> Result<(), EngineError> {
        let done = self.storage.store().flush();
        let mut newest = self.newest.lock();
        match done {
            Ok(()) => {
                newest.flushed = newest.flushed.max(unforced);
                Ok(())
            }
            Err(e) => Err(newest.halt(&e.to_string())),
        }
    }

    /// Nothing more is committed; answers why.
    pub(crate) fn halt(&self, why: &str) -> EngineError {
        self.newest.lock().halt(why)
    }

    /// Forgets the frames of an extent that was handed out, perhaps one of a dropped tree. Anybody may call this.
    pub(super) fn forget_pages(&self, extent: ExtentId) {
        self.frames.forget(extent, self.newest().csn());
    }

    /// Forgets which pages changed, as far as no open snapshot needs it.
    pub(crate) fn forget_changes(&self) {
        let oldest = self.storage.views().oldest();
        self.storage.pool().forget_before(oldest.expect("the view of the current state is open"));
    }
}
