//! How far the log is: what of it is installed, and what is proven durable.
//!
//! ```text
//!   proven ≤ installed < the position where the log goes on
//!   an own page is taken "as of" the installed LSN ─► sealed: later records get a higher LSN
//! ```
//!
//! A log page that was synced is durable. It is *proven* durable once a later page, or the checkpoint, says so: no recovery
//! ends the log before a proven page.

use crate::log::LogPosition;
use crate::planted::{self, Planted, at};

pub(super) struct LogProgress {
    /// The last page of the last installed group.
    installed: u64,
    /// The last proven page.
    proven: u64,
    /// The last page of the newest group that changed nothing.
    empty: u64,
    position: LogPosition,
    /// What is installed from now on gets another LSN.
    sealed: bool,
    /// Bytes of log since the newest checkpoint.
    bytes: u64,
}

/// A group that the log took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    /// Its last page.
    pub(super) last: u64,
    /// Bytes that the log grew by.
    pub(super) bytes: u64,
    /// The last page that the group proves, if it is durable itself.
    pub(super) proves: Option<u64>,
    /// Whether it changes nothing.
    pub(super) empty: bool,
}

impl LogProgress {
    /// A log that goes on at a position.
    pub(super) fn new(position: LogPosition) -> Self {
        Self { installed: position.lsn - 1, proven: 0, empty: 0, position, sealed: false, bytes: 0 }
    }

    pub(super) fn installed(&self) -> u64 {
        self.installed
    }

    pub(super) fn proven(&self) -> u64 {
        self.proven
    }

    /// Where the next log page goes.
    pub(super) fn position(&self) -> LogPosition {
        self.position
    }

    /// Bytes of log since the newest checkpoint.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// The LSN as of which a page of the drive's own is taken now: all later records get higher ones.
    pub(super) fn as_of(&mut self) -> u64 {
        planted::unless(Planted::NotSealed, || self.sealed = true);
        self.installed
    }

    /// Whether the newest installed group is neither proven nor empty.
    pub(super) fn newest_is_unproven(&self) -> bool {
        self.installed > self.proven.max(self.empty)
    }

    /// A group is about to be installed; the log goes on at `position`.
    pub(super) fn group_logged(&mut self, group: Logged, position: LogPosition) {
        self.installed = group.last;
        match group.proves {
            Some(lsn) => self.proven = self.proven.max(lsn),
            None => self.proven = at!(UnforcedProves => group.last, self.proven),
        }
        if group.empty {
            self.empty = group.last;
        }
        self.position = position;
        self.bytes += group.bytes;
    }

    /// The pending records have a log page, of `bytes`, or there were none.
    pub(super) fn pending_written(&mut self, page: Option<(LogPosition, u64)>) {
        self.sealed = false;
        if let Some((position, bytes)) = page {
            self.position = position;
            self.bytes += bytes;
        }
    }

    /// A checkpoint is durable that was written when the log had `bytes` bytes, and proves page `lsn`.
    pub(super) fn truncated(&mut self, lsn: u64, bytes: u64) {
        self.proven = self.proven.max(lsn);
        self.bytes -= bytes;
    }

    /// A new log begins.
    pub(super) fn begun(&mut self, position: LogPosition) {
        assert!(position.lsn > self.installed, "the LSN goes up from log to log");
        self.position = position;
    }

    /// Recovery read the log up to page `lsn`.
    pub(super) fn restore(&mut self, lsn: u64) {
        self.installed = lsn;
    }

    /// The same, after a clean close: the log goes on at `position`.
    pub(super) fn resume(&mut self, position: LogPosition) {
        self.proven = self.installed;
        self.position = position;
    }
}
