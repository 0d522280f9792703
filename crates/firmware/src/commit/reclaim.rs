//! Space that comes back: EBLOCKs that nobody needs any more, and the proof that they may be reused.
//!
//! ```text
//!   last view closed, last page replaced ─► EBLOCK empty ─► released at the installed LSN
//!                                                             └─ that LSN proven, reads ended ─► free
//! ```

use std::time::Duration;

use lode_base::EblockId;
use lode_flash::{FirstGroup, Medium};

use super::committer::Committer;
use crate::FirmwareError;
use crate::log::LogWriter;

/// Turns that are given to reads under way, so that they end: most end within a few.
const TURNS_FOR_READS: u32 = 2_000;

/// Rests after these turns: a reader on a busy machine gets no turn for milliseconds, and a slow medium takes as long.
const RESTS_FOR_READS: u32 = 1_000;

/// Length of a rest.
const REST: Duration = Duration::from_micros(50);

/// Space that the log finds in the file system before it moves on, in EBLOCKs: it takes one, a spare and the own pages may each begin
/// one, and others write files, too.
const EBLOCKS_LEFT: u64 = 4;

impl Committer<'_> {
    /// Frees EBLOCKs that nobody needs and nobody reads. Answers whether any is free, or waits, that was not before.
    pub(crate) fn reclaim(self) -> Result<bool, FirmwareError> {
        let (env, epochs) = (self.env(), self.env().epochs());
        let mut state = self.state();
        for old in self.pages().versions().take_freed() {
            state.eblocks.unpin(old);
            self.pages().inlined().forget_entries(epochs, std::iter::once(old));
        }
        let before = state.eblocks.free_eblocks();
        // A recovery that is cut begins again with the same log.
        let lsn = if state.recovering { 0 } else { state.log.installed() };
        let released = state.eblocks.release_empty(epochs, lsn);
        let proven = state.log.proven();
        state.eblocks.free_released(self.medium(), epochs, proven, env.options().erased_kept)?;
        Ok(released || state.eblocks.free_eblocks() > before)
    }

    /// If EBLOCKs wait for it, writes a group that proves the one before it durable.
    pub(crate) fn prove(self) -> Result<(), FirmwareError> {
        let waits = || {
            let state = self.state();
            (!state.recovering && state.eblocks.waits_for_proof(state.log.proven())).then_some(state)
        };
        if waits().is_none() {
            return Ok(());
        }
        self.flush()?;
        if let Some(state) = waits() {
            self.log_nothing(state)?;
        }
        self.reclaim().map(drop)
    }

    /// The same for the newest group of a drive at rest; answers whether there was one.
    pub(crate) fn prove_newest(self) -> Result<bool, FirmwareError> {
        let unproven = || {
            let state = self.state();
            state.log.newest_is_unproven().then_some(state)
        };
        if unproven().is_none() {
            return Ok(false);
        }
        self.flush()?;
        let newest = unproven();
        let proves = newest.is_some();
        if let Some(state) = newest {
            self.log_nothing(state)?;
        }
        Ok(proves)
    }

    /// Waits, a while, until reads of EBLOCKs that nobody needs have ended, or of `all` of them: answers whether one is free
    /// now that was not.
    pub(crate) fn wait_for_reads(self, all: bool) -> Result<bool, FirmwareError> {
        let before = self.state().eblocks.free_eblocks();
        self.prove()?;
        for turn in 0..TURNS_FOR_READS + RESTS_FOR_READS {
            {
                let eblocks = &self.state().eblocks;
                if eblocks.released() == 0 || (!all && eblocks.free_eblocks() > before) {
                    break;
                }
            }
            if turn < TURNS_FOR_READS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(REST);
            }
            self.reclaim()?;
        }
        Ok(self.state().eblocks.free_eblocks() > before)
    }

    /// Gives the space of what holds nothing back to the file system, a step, while the drive is at rest: answers whether there
    /// was some.
    pub(crate) fn discard_at_rest(self) -> Result<bool, FirmwareError> {
        let medium = self.medium();
        let log = self.commits.log.lock();
        let mut state = self.state();
        let kept = state.budget(self.env(), self.pages()).erased_at_rest();
        state.eblocks.discard_at_rest(medium, kept, log_ahead(&log, medium))
    }

    /// Has the log go on in another EBLOCK, so that the next checkpoint needs nothing of this one. Only if the file system has space
    /// for that and for the checkpoint: this EBLOCK may have some left, and a log without space ends.
    pub(crate) fn move_log_on(self) -> Result<(), FirmwareError> {
        let needed_bytes = {
            let state = self.state();
            let own_bytes = state.budget(self.env(), self.pages()).own_bytes();
            own_bytes + EBLOCKS_LEFT * u64::from(self.env().geometry().eblock_bytes())
        };
        if self.medium().space_left().is_some_and(|left| left < needed_bytes) {
            return Ok(());
        }
        self.flush()?;
        self.commits.log.lock().leave_eblock(self.medium());
        self.log_nothing(self.state())
    }

    /// Gives the space of what holds nothing back to the file system, once nothing more will be written.
    pub(crate) fn discard_free(self) -> Result<(), FirmwareError> {
        let medium = self.medium();
        let log = self.commits.log.lock();
        self.state().eblocks.discard_all(medium)?;
        let mut ahead = log_ahead(&log, medium);
        ahead.try_for_each(|(e, end)| Ok(medium.discard_behind(e, end, FirstGroup::Stays)?))
    }
}

/// The EBLOCKs that the log may go on in, and the WBLOCK of each from which on. A candidate whose program failed has ended.
fn log_ahead(log: &LogWriter, medium: &Medium) -> impl Iterator<Item = (EblockId, u32)> {
    let candidates = log.position().candidates.into_iter();
    candidates.filter(|c| medium.next_wblock(c.eblock) <= c.wblock).map(|c| (c.eblock, c.wblock))
}
