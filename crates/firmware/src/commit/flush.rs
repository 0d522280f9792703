//! Flushes: what is in the log becomes durable, while others go on to write it.
//!
//! ```text
//!   flush ─┬─ durable already ─► done
//!          └─ sync ─► durable up to the last page before the sync        flushes that come meanwhile share the next sync
//! ```
//!
//! Invariant: a sync that fails, for want of space too, leaves open what is durable: it is never tried again.

use super::committer::{Committer, Settled};
use crate::FirmwareError;
use crate::planted::at;

impl<'a> Committer<'a> {
    /// Makes everything durable that is in the log.
    pub(crate) fn flush(self) -> Result<(), FirmwareError> {
        let asked = self.commits.log.lock().last();
        let _syncing = self.commits.syncing.lock();
        self.env().check_writable()?;
        let last = {
            let log = self.commits.log.lock();
            if log.durable() >= asked {
                return Ok(());
            }
            log.last()
        };
        at!(FlushLies => return Ok(()), self.sync_log())?;
        self.commits.log.lock().synced_to(last);
        Ok(())
    }

    /// Syncs the medium for the log.
    pub(super) fn sync_log(self) -> Result<(), FirmwareError> {
        self.medium().sync().map_err(|e| {
            let e = FirmwareError::from(e);
            self.env().fatal(&e);
            self.log_failed(e)
        })
    }

    /// The commit state once what was pending has its log page.
    pub(crate) fn without_pending(self) -> Result<Settled<'a>, FirmwareError> {
        let mut log = self.commits.log.lock();
        self.write_pending(&mut log)?;
        Ok(self.settled_with(log))
    }

    /// Gives what is pending its log page.
    pub(crate) fn flush_pending(self) -> Result<(), FirmwareError> {
        self.write_pending(&mut self.commits.log.lock())
    }

    /// The commit state once all of the log is durable.
    pub(crate) fn durable(self) -> Result<Settled<'a>, FirmwareError> {
        let mut log = self.commits.log.lock();
        if !log.is_synced() {
            at!(CheckpointBeforeForce => (), { self.sync_log()?; log.synced() });
        }
        Ok(self.settled_with(log))
    }
}
