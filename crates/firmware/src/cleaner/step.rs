//! A step of the cleaner: chooses a victim, and has it emptied, whole or in part.

use super::choose::{Cleaner, Need};
use super::due::gc_due;
use super::mover::Emptied;
use crate::FirmwareError;
use crate::checkpoint::Checkpointer;
use crate::gc::Urgency;
use crate::planted::{self, Planted};
use crate::space::State;

impl Cleaner {
    /// Empties EBLOCKs, a step: answers whether anything was gained.
    pub(crate) fn collect(
        &mut self,
        drive: Checkpointer<'_>,
        urgency: Urgency,
    ) -> Result<bool, FirmwareError> {
        let due = urgency == Urgency::Full || gc_due(&drive.state().budget(drive.env(), drive.pages()));
        self.empty_step(drive, if due { Need::Room(urgency) } else { Need::Refresh })
    }

    /// Empties an EBLOCK, whole or a step of it: answers whether there was one.
    pub(crate) fn empty_step(&mut self, drive: Checkpointer<'_>, need: Need) -> Result<bool, FirmwareError> {
        let _span = tracing::debug_span!("gc").entered();
        drive.env().check_writable()?;
        let whole = matches!(need, Need::Refresh | Need::Room(Urgency::Full));
        loop {
            let weak = drive.medium().take_weak();
            planted::unless(Planted::WeakForgotten, || self.note_weak(weak));
            let chosen = self.choose(&drive.state().budget(drive.env(), drive.pages()), need);
            let Some(chosen) = chosen else { return Ok(false) };
            self.begins(&chosen);
            {
                let mut state = drive.state();
                if matches!(state.eblocks().descriptor(chosen.eblock).state, State::Open { .. }) {
                    state.eblocks_mut().end(drive.medium(), chosen.eblock);
                }
            }
            let emptied = match self.empty(drive, &chosen, whole) {
                // Whoever asks for what is damaged is told; here it only stays where it is.
                Err(e) if e.is_damage() => Emptied::Never,
                emptied => emptied?,
            };
            if emptied == Emptied::Never || self.is_stuck {
                let mut state = drive.state();
                let stuck = self.gives_up(&chosen, state.eblocks());
                state.eblocks_mut().set_stuck(stuck);
                continue;
            }
            if emptied == Emptied::InPart {
                self.goes_on(chosen);
                return Ok(true);
            }
            self.emptied(&chosen);
            drive.committer().reclaim()?;
            return Ok(true);
        }
    }
}
