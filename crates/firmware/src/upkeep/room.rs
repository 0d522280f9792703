//! Room for batches: in the log, and in EBLOCKs. Makes some, or reports that there is none.

use lode_command::CommandError;

use super::background::Upkeep;
use crate::FirmwareError;
use crate::gc::Urgency;
use crate::space::log_bytes_max;

/// No EBLOCK is left even for this: nothing was gained.
pub(super) fn or_full(r: Result<bool, FirmwareError>) -> Result<bool, FirmwareError> {
    match r {
        Err(FirmwareError::Full { .. } | FirmwareError::Refused(CommandError::OutOfSpace { .. })) => {
            Ok(false)
        }
        r => r,
    }
}

impl Upkeep<'_> {
    /// Makes room in the log for a record.
    ///
    /// # Errors
    /// [`CommandError::OutOfSpace`] when there is none.
    pub(crate) fn log_room(self, record_bytes: usize) -> Result<(), CommandError> {
        let env = self.env();
        // What a checkpoint itself writes is log that only the next one lets go.
        let mut in_vain = 0;
        loop {
            let before = {
                let state = self.state();
                if state.log_fits(env, record_bytes) {
                    return Ok(());
                }
                (state.commit(), state.log_bytes())
            };
            // Without room for the checkpoint, GC makes some.
            while !self.checkpoint_fits()? && or_full(self.collect(Urgency::Full))? {}
            let state = self.state();
            // The log was truncated, or other batches had what room there was.
            let went_on = state.log_bytes() < before.1 || state.commit() > before.0;
            in_vain += u32::from(!went_on);
            if in_vain > 1 && !state.log_fits(env, record_bytes) {
                let needed_bytes = record_bytes as u64;
                let most = log_bytes_max(env.options(), env.geometry());
                let left = most.saturating_sub(state.log_bytes());
                let free_bytes = left.min(needed_bytes.saturating_sub(1));
                return Err(CommandError::OutOfSpace { free_bytes, needed_bytes });
            }
        }
    }

    /// Makes room for a batch, a step: answers whether something was gained, by this batch or by others.
    pub(crate) fn make_room(self, record_bytes: usize) -> Result<bool, FirmwareError> {
        let (log_fits, commit, free_eblocks) = {
            let state = self.state();
            let log_fits = state.log_fits(self.env(), record_bytes);
            (log_fits, state.commit(), state.eblocks().free_eblocks())
        };
        if !log_fits {
            return or_full(self.log_room(record_bytes).map(|()| true).map_err(FirmwareError::Refused));
        }
        let committer = self.committer();
        if committer.reclaim()? || committer.wait_for_reads(false)? {
            return Ok(true);
        }
        if or_full(self.collect(Urgency::Full))? {
            return Ok(true);
        }
        self.checkpoint_fits()?;
        committer.reclaim()?;
        committer.wait_for_reads(true)?;
        let state = self.state();
        Ok(state.eblocks().free_eblocks() > free_eblocks || state.commit() > commit)
    }

    /// Writes a checkpoint, if there is room for it.
    pub(super) fn checkpoint_fits(self) -> Result<bool, FirmwareError> {
        or_full(self.checkpoint(false).map(|()| true))
    }
}
