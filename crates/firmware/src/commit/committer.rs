//! The locks of commits, and who works under them.
//!
//! Locks are taken in this order: background (`upkeep`), syncing, log, commit state, then those of tables and caches.

use std::ops::{Deref, DerefMut};

use lode_base::EblockId;
use lode_flash::Medium;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::state::CommitState;
use crate::env::Env;
use crate::log::{LogEnd, LogPosition, LogWriter};
use crate::pages::Pages;

/// The state of commits.
pub(crate) struct Commits {
    state: Mutex<CommitState>,
    /// Held by whoever writes the log: the leader.
    pub(super) log: Mutex<LogWriter>,
    /// Held by whoever syncs the medium for a flush, while others write the log.
    pub(super) syncing: Mutex<()>,
    /// Whether there is a leader.
    pub(super) leading: Mutex<bool>,
    pub(super) led: Condvar,
}

/// Stages actions, makes them durable and installs them.
#[derive(Clone, Copy)]
pub(crate) struct Committer<'a> {
    env: &'a Env,
    pages: &'a Pages,
    pub(super) commits: &'a Commits,
}

/// The commit state while no group is on its way to the log.
pub(crate) struct Settled<'a> {
    state: MutexGuard<'a, CommitState>,
    _log: Option<MutexGuard<'a, LogWriter>>,
}

impl Deref for Settled<'_> {
    type Target = CommitState;

    fn deref(&self) -> &CommitState {
        &self.state
    }
}

impl DerefMut for Settled<'_> {
    fn deref_mut(&mut self) -> &mut CommitState {
        &mut self.state
    }
}

impl Commits {
    /// The log goes on at `position`.
    pub(crate) fn new(env: &Env, position: LogPosition) -> Self {
        Self {
            state: Mutex::new(CommitState::new(env, position)),
            log: Mutex::new(LogWriter::new(position, env.options().log_copies)),
            syncing: Mutex::new(()),
            leading: Mutex::new(false),
            led: Condvar::new(),
        }
    }
}

impl<'a> Committer<'a> {
    #[inline]
    pub(crate) fn new(env: &'a Env, pages: &'a Pages, commits: &'a Commits) -> Self {
        Self { env, pages, commits }
    }

    #[inline]
    pub(crate) fn env(self) -> &'a Env {
        self.env
    }

    #[inline]
    pub(crate) fn medium(self) -> &'a Medium {
        self.env.medium()
    }

    #[inline]
    pub(crate) fn pages(self) -> &'a Pages {
        self.pages
    }

    /// Takes the commit lock.
    #[inline]
    pub(crate) fn state(self) -> MutexGuard<'a, CommitState> {
        self.commits.state.lock()
    }

    /// The commit state, while no group is on its way to the log: for [`CommitState::as_of`].
    pub(crate) fn settled(self) -> Settled<'a> {
        // Without a power-protected buffer each group has an LSN of its own.
        let log = (self.medium().protected_bytes() > 0).then(|| self.commits.log.lock());
        Settled { _log: log, state: self.state() }
    }

    /// As [`Committer::settled`], by whoever has the log.
    pub(super) fn settled_with(self, log: MutexGuard<'a, LogWriter>) -> Settled<'a> {
        Settled { _log: Some(log), state: self.state() }
    }

    /// Forgets the log before page `lsn`; answers the EBLOCKs that the log does not need any more.
    pub(crate) fn truncate_log(self, lsn: u64) -> Vec<EblockId> {
        self.commits.log.lock().truncate(lsn)
    }

    /// Begins a new log.
    pub(crate) fn begin_log(self, position: LogPosition) {
        self.state().log.begun(position);
        *self.commits.log.lock() = LogWriter::new(position, self.env.options().log_copies);
    }

    /// Goes on with the log that was read to its end, all of which is durable.
    pub(crate) fn resume_log(self, end: &LogEnd) {
        self.state().log.resume(end.position);
        let mut log = LogWriter::new(end.position, self.env.options().log_copies);
        log.resumed(end);
        *self.commits.log.lock() = log;
    }

    /// What must hold between two commands.
    pub(crate) fn check_invariants(self) {
        let state = self.state();
        state.check_invariants(self.env);
        self.pages.check_invariants(state.is_under_way());
        drop(state);
        self.commits.log.lock().check_invariants(self.medium());
    }
}
