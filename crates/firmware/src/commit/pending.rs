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

use lode_base::checksum::crc32c;
use parking_lot::MutexGuard;

use crate::FirmwareError;
use crate::codec::Put;
use crate::core::{Core, Counts, Sequencer};
use crate::log::{LogWriter, PAYLOAD_AT};
use crate::planted::{self, Planted};

const MAGIC: [u8; 4] = *b"LPRT";
const RECORDS_AT: usize = 16;

/// What the buffer holds while `records` are pending, which will be log page `lsn`.
fn encode(lsn: u64, records: &[u8]) -> Vec<u8> {
    let mut b = MAGIC.to_vec();
    b.put_u32(0);
    b.put_u64(lsn);
    b.extend_from_slice(records);
    let crc = crc32c(&b[8..]);
    b[4..8].copy_from_slice(&crc.to_le_bytes());
    b
}

/// The LSN and the records in a buffer; `None` when nothing was ever put there.
pub(crate) fn decode(b: &[u8]) -> Option<(u64, &[u8])> {
    let lsn = u64::from_le_bytes(b.get(8..RECORDS_AT)?.try_into().ok()?);
    let crc = u32::from_le_bytes(b[4..8].try_into().ok()?);
    (b[..4] == MAGIC && crc32c(&b[8..]) == crc).then_some((lsn, &b[RECORDS_AT..]))
}

impl Core {
    /// Bytes of records that may be pending: none where there is no buffer, or recovery needs what is in it.
    pub(crate) fn pending_max(&self, recovering: bool) -> usize {
        let buffer = (self.medium.protected_bytes() as usize).saturating_sub(RECORDS_AT);
        let page = self.geometry().wblock_bytes() as usize - PAYLOAD_AT;
        if recovering { 0 } else { buffer.min(page) }
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
        log.pending.extend_from_slice(group);
        let lsn = log.place().lsn;
        self.medium.protect(&encode(lsn, &log.pending));
        if let Some(m) = self.medium.model() {
            m.dram((RECORDS_AT + group.len()) as u64);
        }
        Ok(lsn)
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
        if log.pending.is_empty() {
            self.seq.lock().sealed = false;
            return Ok(());
        }
        let group = std::mem::take(&mut log.pending);
        let before = log.place().lsn;
        let last = match self.append_group(log, &group) {
            Ok(last) => last,
            Err(e) => {
                // It stays durable where it is.
                planted::unless(Planted::PendingForgotten, || log.pending = group);
                return Err(self.log_failed(e));
            }
        };
        assert_eq!(last, before, "what is pending is one page");
        self.sync_log()?;
        log.synced();
        Counts::add(&self.counts.groups, 1);
        let mut w = self.seq.lock();
        w.sealed = false;
        w.log_place = log.place();
        w.log_bytes += log.page_bytes(self.geometry());
        Ok(())
    }

    /// Appends a group to the log, and takes note of programs that failed.
    pub(crate) fn append_group(&self, log: &mut LogWriter, group: &[u8]) -> Result<u64, FirmwareError> {
        let mut next = || self.seq.lock().space.take_for_log(&self.medium);
        let channel = self.geometry().channel_of(log.place().spots[0].eblock);
        let before = log.place().lsn;
        let appended = log.append(&self.medium, group, &mut next);
        let failed = log.take_failed();
        Counts::add(&self.counts.program_failures, failed.len() as u64);
        // What they hold of the log is read from there until a checkpoint truncates it.
        let mut w = self.seq.lock();
        w.space.log_took(channel, (log.place().lsn - before) * log.page_bytes(self.geometry()));
        failed.into_iter().for_each(|e| w.space.retire(e));
        // Others could not be erased.
        self.check_spares(&w);
        appended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_comes_back_and_changed_bytes_do_not() {
        let b = encode(77, b"records");
        assert_eq!(decode(&b), Some((77, &b"records"[..])));
        assert_eq!(decode(&[]), None);
        for at in 0..b.len() {
            let mut changed = b.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None, "byte {at}");
            assert_eq!(decode(&b[..at]), None, "cut to {at} bytes");
        }
    }
}
