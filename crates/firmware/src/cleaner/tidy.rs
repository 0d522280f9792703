//! Tidying: while nothing else is to be done, EBLOCKs with much garbage are emptied, so that the image of a drive at rest takes
//! little more than what it holds.
//!
//! ```text
//!   idle:    an EBLOCK of which half an EBLOCK at least is garbage ─► mover ─► its space goes back
//!   at rest: while a sixteenth of what is held is garbage, the EBLOCK with the most ─► mover ─► its space goes back
//!              └─ nothing was gained by the last one: not again before as much more died
//! ```
//!
//! Invariants: it comes to an end: each victim but the last takes half of its garbage away; a drive that is written to is left
//! alone; at rest at most 16 bytes are moved for each that died. Garbage is what was programmed and is neither live nor
//! pinned: also what pages do not fill.
//!
//! Why a sixteenth ([`GAIN_MIN`]). A share s of what is held costs space s, and 1/s bytes moved for each that died: while there
//! is more, some EBLOCK has at least that share of garbage. Where pages die at random it is about half of 1/s, since the
//! EBLOCKs that are emptied have twice the mean garbage. GC empties no EBLOCK for less than a sixteenth, and a full drive has
//! little more over-provisioning. So rest never costs more than what GC does for a byte on a full drive.
//!
//! Source: ours. ELEOS collects when space is short; a file shares its space with others, and is short of it always.

use lode_base::{EblockId, Geometry};

use super::choose::GAIN_MIN;
use crate::space::{Budget, Descriptor, State};

#[derive(Default)]
pub(super) struct Tidy {
    /// The newest commit when it was asked last.
    commit: u64,
    /// Steps since that commit that found nothing to do.
    idle_steps: u32,
    /// Whether there were enough of them for the drive to be at rest.
    at_rest: bool,
    /// The newest commit when the drive at rest last tried a checkpoint.
    checkpointed: Option<u64>,
    /// Garbage that the drive is to have at most once the last victim is emptied, if that gained anything.
    expected: Option<u64>,
    /// Garbage that is left alone.
    left: u64,
}

/// Bytes of an EBLOCK that were programmed, and those of them that nobody needs any more.
fn garbage(g: &Geometry, d: &Descriptor) -> (u64, u64) {
    match d.state {
        State::Open { .. } | State::Used { .. } => {
            let held = u64::from(d.live) + u64::from(d.pinned);
            let programmed = u64::from(d.data_end) * u64::from(g.wblock_bytes());
            (programmed, programmed.saturating_sub(held))
        }
        _ => (0, 0),
    }
}

impl Tidy {
    /// Whether no batch came since this was asked last. If so, and `rest_steps` steps since found nothing to do, the drive is at
    /// rest.
    pub(super) fn is_idle(&mut self, commit: u64, rest_steps: Option<u32>) -> bool {
        let idle = std::mem::replace(&mut self.commit, commit) == commit;
        if !idle {
            self.idle_steps = 0;
        }
        self.at_rest = idle && rest_steps.is_some_and(|steps| self.idle_steps >= steps);
        idle
    }

    /// A step of an idle drive found nothing to do. Answers whether the drive is at rest.
    pub(super) fn found_nothing(&mut self) -> bool {
        self.idle_steps = self.idle_steps.saturating_add(1);
        self.at_rest
    }

    /// Whether the drive at rest tried no checkpoint since the last batch: now it does.
    pub(super) fn begins_checkpoint(&mut self) -> bool {
        self.checkpointed.replace(self.commit) != Some(self.commit)
    }

    /// The EBLOCK that is emptied next, if any is to be.
    pub(super) fn choose(
        &mut self,
        budget: &Budget<'_>,
        movable: impl Fn(EblockId) -> bool,
    ) -> Option<EblockId> {
        let eblocks = budget.eblocks;
        let g = eblocks.geometry();
        let at_rest = self.at_rest;
        let half = u64::from(g.eblock_bytes()) / 2;
        let share = u64::from(GAIN_MIN);
        let left_alone =
            if at_rest { (budget.held_bytes() / share).max(budget.least_at_rest()) } else { half };
        let total: u64 = eblocks.descriptors().map(|(_, d)| garbage(g, d).1).sum();
        if self.expected.take().is_some_and(|expected| total > expected) {
            self.left = total;
        }
        self.left = self.left.min(total);
        if total - self.left <= left_alone {
            return None;
        }
        let gains = |d: &Descriptor| {
            let (programmed, garbage) = garbage(g, d);
            garbage > 0 && if at_rest { programmed - garbage <= garbage * share } else { garbage >= half }
        };
        let candidates = eblocks.descriptors().filter(|(e, d)| gains(d) && movable(*e));
        let (most, victim) = candidates.map(|(e, d)| (garbage(g, d).1, e)).max_by_key(|(most, _)| *most)?;
        self.expected = Some(total - most / 2);
        Some(victim)
    }
}
