//! What is due: after a batch, and in the background.

use lode_command::Progress;

use super::background::Upkeep;
use super::room::or_full;
use crate::FirmwareError;
use crate::cleaner::{Cleaner, gc_due};
use crate::gc::Urgency;
use crate::space::log_bytes_max;

impl Upkeep<'_> {
    /// Does what is due after a batch of so many bytes: writes pages that take too much memory, and goes on with GC where
    /// space is short. The batch is durable whatever becomes of this: what fails now is tried again.
    pub(crate) fn maintain(self, bytes: u64) {
        let pages = self.pages();
        let write_back = pages.map().wants_writing() || pages.index().wants_writing();
        // What batches left empty is used again before its space goes back, or GC looks for more.
        let (empty, due) = {
            let state = self.state();
            let empty = state.eblocks().may_reclaim();
            (empty, !empty && gc_due(&state.budget(self.env(), pages)))
        };
        if empty && let Err(e) = self.committer().reclaim() {
            return self.env().note(&e);
        }
        let collect = if empty { self.gc_due() } else { due };
        let inlined = pages.inlined().wants_moving();
        if !self.env().is_writable() || !(write_back || collect || inlined) {
            return;
        }
        // Whoever has the background already does it.
        let Some(mut cleaner) = self.try_lock() else { return };
        cleaner.earn(bytes);
        let moved = match inlined {
            true => or_full(self.appender().move_inlined().map(|()| true)).map(drop),
            false => Ok(()),
        };
        let written = moved.and_then(|()| self.checkpointer().write_back());
        let done = written.and_then(|()| self.collect_earned(&mut cleaner));
        if let Err(e) = done {
            self.env().note(&e);
        }
    }

    /// Moves what batches have earned, while it is due.
    fn collect_earned(self, cleaner: &mut Cleaner) -> Result<(), FirmwareError> {
        while self.gc_due() && cleaner.begin_step() {
            if !cleaner.collect(self.checkpointer(), Urgency::Paid)? {
                break;
            }
        }
        Ok(())
    }

    /// A bounded step in the background.
    pub(crate) fn work(self) -> Result<Progress, FirmwareError> {
        let env = self.env();
        env.check_writable()?;
        let reclaimed = self.committer().reclaim()?;
        let due = self.state().log_bytes() > log_bytes_max(env.options(), env.geometry()) / 2;
        if due && self.checkpoint_fits()? {
            return Ok(Progress::More);
        }
        if self.collect(Urgency::Background)? {
            return Ok(Progress::More);
        }
        // While batches come, what is garbage grows by itself.
        if !self.is_idle() {
            return Ok(Progress::Done);
        }
        if or_full(self.tidy())? {
            return Ok(Progress::More);
        }
        let proved = self.committer().prove_newest()?;
        let discards = self.state().eblocks().keeps_too_much(env.options().erased_kept);
        if reclaimed || proved || discards {
            return Ok(Progress::Done);
        }
        let at_rest = self.lock().found_nothing();
        if at_rest && (self.checkpoint_at_rest()? || self.committer().discard_at_rest()?) {
            return Ok(Progress::More);
        }
        Ok(Progress::Idle)
    }

    /// Writes a checkpoint when the log takes more than a drive at rest leaves alone, at most once after a batch. It answers
    /// whether there is less log now.
    fn checkpoint_at_rest(self) -> Result<bool, FirmwareError> {
        let (long, moves_on) = {
            let state = self.state();
            let budget = state.budget(self.env(), self.pages());
            (budget.log.bytes > budget.log_at_rest(), budget.log_moves_on())
        };
        if !(long || moves_on) || !self.lock().begins_checkpoint_at_rest() {
            return Ok(false);
        }
        self.move_log_on()?;
        self.checkpoint_fits()
    }

    /// Has the log go on in another EBLOCK if much of this one is log, so that the next checkpoint needs nothing of it: before one
    /// at rest, or the last. It comes to nothing if there is no room.
    pub(crate) fn move_log_on(self) -> Result<(), FirmwareError> {
        let moves_on = self.state().budget(self.env(), self.pages()).log_moves_on();
        if moves_on && self.rest_steps().is_some() {
            or_full(self.committer().move_log_on().map(|()| true))?;
        }
        Ok(())
    }
}
