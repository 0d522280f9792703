//! What is read, and what commits are made on: the same state, but for commits whose batches are not durable yet.
//!
//! ```text
//!   current ──────────► readers                     a commit alone: one forced batch ─► newest, current
//!      ▲ flush                                      several at once: an unforced batch each, in turn ─► newest;
//!   newest ◄────────── commits, one after another                    then, side by side, one flush for all ─► current
//! ```
//!
//! Invariants: a state becomes current only once it is as durable as its commits asked for, and all states before it are; the
//! pool knows what it changed. When a flush fails nobody knows what is durable: nothing more is committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::database::Inner;
use crate::storage::store::Store;
use crate::{EngineError, Snapshot};

pub(crate) struct Heads {
    current: RwLock<Snapshot>,
    newest: Mutex<Newest>,
    /// How often those who wait for a sync want one, in milliseconds, and how many they are.
    intervals: Mutex<BTreeMap<u32, u32>>,
}

struct Newest {
    snapshot: Snapshot,
    /// The states so far, and which of them is current.
    number: u64,
    shown: u64,
    /// Batches that were sent without force so far, and how many of them a flush has made durable.
    unforced: u64,
    flushed: u64,
    /// Why nothing is committed any more.
    halted: Option<String>,
}

impl Newest {
    /// Nothing is committed any more; answers why not.
    fn halt(&mut self, why: &str) -> EngineError {
        EngineError::Halted(self.halted.get_or_insert_with(|| why.into()).clone())
    }
}

impl Heads {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        let current = RwLock::new(snapshot.clone());
        let newest = Newest { snapshot, number: 0, shown: 0, unforced: 0, flushed: 0, halted: None };
        Self { current, newest: Mutex::new(newest), intervals: Mutex::default() }
    }

    /// What is read.
    pub(crate) fn current(&self) -> Snapshot {
        self.current.read().clone()
    }

    /// What commits are made on.
    pub(crate) fn newest(&self) -> Snapshot {
        self.newest.lock().snapshot.clone()
    }

    /// As [`Heads::newest`], while there are commits.
    pub(crate) fn check(&self) -> Result<Snapshot, EngineError> {
        let newest = self.newest.lock();
        match &newest.halted {
            Some(why) => Err(EngineError::Halted(why.clone())),
            None => Ok(newest.snapshot.clone()),
        }
    }

    /// The number of the newest state.
    pub(crate) fn staged(&self) -> u64 {
        self.newest.lock().number
    }

    /// A state that is read from now on: it is as durable as it is to be, and so are those before it.
    pub(crate) fn show(&self, snapshot: Snapshot) {
        let mut newest = self.newest.lock();
        newest.number += 1;
        newest.shown = newest.number;
        let old = std::mem::replace(&mut newest.snapshot, snapshot.clone());
        let shown = std::mem::replace(&mut *self.current.write(), snapshot);
        drop(newest);
        // The last of a view closes it, which is a command.
        drop((old, shown));
    }

    /// A state that commits are made on from now on, and that is read once [`Heads::settle`] was told its number.
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

    /// The state of this number is durable and read, with all before it. Whoever comes while the drive flushes shares its next
    /// flush.
    pub(crate) fn settle(&self, number: u64, store: &Store) -> Result<(), EngineError> {
        let (shows, snapshot, unforced) = {
            let newest = self.newest.lock();
            if newest.shown >= number {
                return Ok(());
            }
            (newest.number, newest.snapshot.clone(), newest.unforced)
        };
        self.flush_up_to(unforced, store)?;
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

    /// Makes durable what was sent without force.
    pub(crate) fn flush(&self, store: &Store) -> Result<(), EngineError> {
        let (unforced, flushed) = {
            let newest = self.newest.lock();
            (newest.unforced, newest.flushed)
        };
        if unforced > flushed { self.flush_up_to(unforced, store) } else { Ok(()) }
    }

    fn flush_up_to(&self, unforced: u64, store: &Store) -> Result<(), EngineError> {
        let done = store.flush();
        let mut newest = self.newest.lock();
        match done {
            Ok(()) => {
                newest.flushed = newest.flushed.max(unforced);
                Ok(())
            }
            Err(e) => Err(newest.halt(&e.to_string())),
        }
    }

    /// Nothing is committed any more; answers why not.
    pub(crate) fn halt(&self, why: &str) -> EngineError {
        self.newest.lock().halt(why)
    }

    /// How often a sync is wanted at least, in milliseconds.
    pub(crate) fn shortest_interval(&self) -> Option<u32> {
        self.intervals.lock().keys().next().copied()
    }
}

/// See [`crate::Database::sync_every`].
pub struct SyncEvery {
    inner: Arc<Inner>,
    ms: u32,
}

impl SyncEvery {
    pub(crate) fn new(inner: Arc<Inner>, ms: u32) -> Self {
        *inner.heads.intervals.lock().entry(ms).or_default() += 1;
        Self { inner, ms }
    }
}

impl Drop for SyncEvery {
    fn drop(&mut self) {
        let mut intervals = self.inner.heads.intervals.lock();
        let count = intervals.get_mut(&self.ms).expect("it was counted");
        *count -= 1;
        if *count == 0 {
            intervals.remove(&self.ms);
        }
    }
}
