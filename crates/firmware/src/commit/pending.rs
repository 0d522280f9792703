//! Commits in the power-protected buffer: where a medium has one, records are durable on arrival, and go to a log page
//! once they fill it.
//!
//! ```text
//!   group ─┬─ fits behind what is pending ─► [sync, if pages were programmed] ─► buffer: LSN of the next page, all that is
//!          │                                                                           pending ─► durable, installed
//!          └─ does not ─► what is pending: a log page, synced ─► pending anew, or the group to pages of its own
//!
//!   buffer: | magic 4 | CRC-32C of the rest 4 | LSN 8 | records |
//! ```
//!
//! Invariants: what is pending fits one log page, so its LSN is known before it has one; a page of the drive's own that
//! was taken as of that LSN, and a checkpoint, are told apart from records that come later (`Sequencer::sealed`): those
//! get the next LSN; the buffer is not written to before a recovery that needs what is in it is over.
//!
//! Source: the design, "power-protected buffer".

use parking_lot::MutexGuard;

use crate::FirmwareError;
use crate::core::{Core, Counts, Sequencer};
use crate::log::{BUFFER_RECORDS_AT, LogWriter, buffer_records_max};
use crate::planted::{self, Planted};

impl Core {
    /// Bytes of records that may be pending: none where there is no buffer, or recovery needs what is in it.
    pub(crate) fn pending_max(&self, recovering: bool) -> usize {
        if recovering { 0 } else { buffer_records_max(&self.medium) }
    }

    /// Makes a group durable in the buffer; answers its LSN. With `programs`, it speaks of what was programmed before.
    pub(crate) fn pend(
        &self,
        log: &mut LogWriter,
        group: &[u8],
        programs: bool,
    ) -> Result<u64, FirmwareError> {
        // The LSN says that all pages before it are durable.
        if (programs || !log.is_synced()) && !planted::is(Planted::PendingNotSynced) {
            self.medium.sync()?;
            log.synced();
        }
        self.medium.protect(&log.pend(group));
        if let Some(m) = self.medium.model() {
            m.dram((BUFFER_RECORDS_AT + group.len()) as u64);
        }
        Ok(log.position().lsn)
    }

    /// Seals the pending records, if that was asked for, so that later records start a new log page.
    pub(crate) fn seal(&self, log: &mut LogWriter) -> Result<(), FirmwareError> {
        let sealed = self.seq.lock().sealed;
        if sealed { self.write_pending(log) } else { Ok(()) }
    }

    /// The sequencer, while no group is on its way to the log: for [`Sequencer::as_of`].
    pub(crate) fn settled(&self) -> (Option<MutexGuard<'_, LogWriter>>, MutexGuard<'_, Sequencer>) {
        // Without a buffer each group has an LSN of its own.
        let log = (self.medium.protected_bytes() > 0).then(|| self.log.lock());
        (log, self.seq.lock())
    }

    /// Writes what is pending to its log page.
    pub(crate) fn write_pending(&self, log: &mut LogWriter) -> Result<(), FirmwareError> {
        if log.pending_bytes() == 0 {
            self.seq.lock().sealed = false;
            return Ok(());
        }
        let group = log.take_pending();
        let before = log.position().lsn;
        let last = match self.append_group(log, &group) {
            Ok(last) => last,
            Err(e) => {
                // It stays durable where it is.
                planted::unless(Planted::PendingForgotten, || log.restore_pending(group));
                return Err(self.log_failed(e));
            }
        };
        assert_eq!(last, before, "what is pending is one page");
        self.sync_log()?;
        log.synced();
        Counts::add(&self.counts.groups, 1);
        let mut w = self.seq.lock();
        w.sealed = false;
        w.log_position = log.position();
        w.log_bytes += log.page_bytes(self.geometry());
        Ok(())
    }

    /// Appends a group to the log, and takes note of programs that failed.
    pub(crate) fn append_group(&self, log: &mut LogWriter, group: &[u8]) -> Result<u64, FirmwareError> {
        let mut next = || self.seq.lock().space.take_for_log(&self.medium);
        let channel = self.geometry().channel_of(log.position().candidates[0].eblock);
        let before = log.position().lsn;
        let appended = log.append(&self.medium, group, &mut next);
        let failed = log.take_failed();
        Counts::add(&self.counts.program_failures, failed.len() as u64);
        // What they hold of the log is read from there until a checkpoint truncates it.
        let mut w = self.seq.lock();
        w.space.log_took(channel, (log.position().lsn - before) * log.page_bytes(self.geometry()));
        failed.into_iter().for_each(|e| w.space.retire(e));
        // Others could not be erased.
        self.check_spares(&w);
        appended
    }
}
