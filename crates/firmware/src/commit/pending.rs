//! A group on its way to the medium: pending in the power-protected buffer, or in log pages of its own.
//!
//! ```text
//!   group ─┬─ fits behind what is pending ─► [sync, if pages were programmed] ─► buffer: LSN of the next page, all that is
//!          │                                                                           pending ─► durable, installed
//!          └─ does not ─► what is pending: a log page, synced ─► pending anew, or the group to pages of its own
//! ```
//!
//! Invariants: what is pending fits one log page, so its LSN is known before it has one. A page of the drive's own that was
//! taken as of that LSN, and a checkpoint, are distinguished from later records: those get the next LSN (`sealed`). The
//! buffer is not written before the recovery that needs what is in it is over.
//!
//! Source: the design, "power-protected buffer".

use super::committer::Committer;
use super::group::StagedGroup;
use super::state::CommitState;
use crate::FirmwareError;
use crate::env::Count;
use crate::log::{BUFFER_RECORDS_AT, LogWriter, buffer_records_max};
use crate::planted::{self, Planted, at};

impl Committer<'_> {
    /// Bytes of records that may be pending: none without a buffer, or while recovery needs what is in it.
    pub(super) fn pending_max(self, state: &CommitState) -> usize {
        if state.is_recovering() { 0 } else { buffer_records_max(self.medium()) }
    }

    /// Makes a group durable in the buffer; answers its LSN.
    pub(super) fn pend(self, log: &mut LogWriter, group: &StagedGroup) -> Result<u64, FirmwareError> {
        // The LSN says that all pages before it are durable.
        let unsynced = group.programs() || !log.is_synced();
        if at!(PendingNotSynced => false, unsynced) {
            self.medium().sync()?;
            log.synced();
        }
        self.medium().protect(&log.pend(&group.bytes));
        if let Some(m) = self.medium().model() {
            m.dram((BUFFER_RECORDS_AT + group.bytes.len()) as u64);
        }
        Ok(log.position().lsn)
    }

    /// Seals the pending records, if an own page was taken as of their LSN: later records start a new log page.
    pub(super) fn seal(self, log: &mut LogWriter) -> Result<(), FirmwareError> {
        let sealed = self.state().log.is_sealed();
        if sealed { self.write_pending(log) } else { Ok(()) }
    }

    /// Writes what is pending to its log page, durably.
    pub(super) fn write_pending(self, log: &mut LogWriter) -> Result<(), FirmwareError> {
        if log.pending_bytes() == 0 {
            self.state().log.pending_written(None);
            return Ok(());
        }
        let group = log.take_pending();
        let before = log.position().lsn;
        let last = match self.append_group(log, &group) {
            Ok(last) => last,
            Err(e) => {
                planted::unless(Planted::PendingForgotten, || log.restore_pending(group));
                return Err(self.log_failed(e));
            }
        };
        assert_eq!(last, before, "what is pending is one page");
        self.sync_log()?;
        log.synced();
        self.env().count(Count::Groups, 1);
        let page_bytes = log.page_bytes(self.env().geometry());
        self.state().log.pending_written(Some((log.position(), page_bytes)));
        Ok(())
    }

    /// Appends a group to the log, and takes note of programs that failed.
    pub(super) fn append_group(self, log: &mut LogWriter, group: &[u8]) -> Result<u64, FirmwareError> {
        let (medium, g) = (self.medium(), self.env().geometry());
        let mut next = || self.state().eblocks.take_for_log(medium);
        let channel = g.channel_of(log.position().candidates[0].eblock);
        let before = log.position().lsn;
        if self.pages().had_long_entries() {
            log.has_long_entries();
        }
        let appended = log.append(medium, group, &mut next);
        let failed = log.take_failed();
        self.env().count(Count::ProgramFailures, failed.len() as u64);
        // What they hold of the log is read from there until a checkpoint truncates it.
        let mut state = self.state();
        state.eblocks.log_took(channel, (log.position().lsn - before) * log.page_bytes(g));
        failed.into_iter().for_each(|e| state.eblocks.retire(e));
        // Others could not be erased.
        state.check_spares(self.env());
        appended
    }
}
