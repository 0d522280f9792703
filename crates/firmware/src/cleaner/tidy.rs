//! Tidying: while nothing else is to be done, EBLOCKs that are mostly garbage are emptied, so that the image of a drive at
//! rest takes little more than what it holds.
//!
//! ```text
//!   idle ─► the EBLOCK, open or used, with the most garbage, half of it at least ─► mover ─► space goes back (kept.rs)
//!             └─ nothing was gained by the last one: not again before half an EBLOCK more died
//! ```
//!
//! Invariants: it comes to an end: each victim but the last takes a quarter of an EBLOCK of garbage away; a drive that is
//! written to is left alone. Garbage is what was programmed and is neither live nor pinned: also what pages do not fill.
//!
//! Source: ours. ELEOS collects when space is short; a file shares its space with others, and is short of it always.

use lode_base::{EblockId, Geometry};

use crate::space::{Descriptor, Eblocks, State};

#[derive(Default)]
pub(super) struct Tidy {
    /// The newest commit when it was asked last.
    commit: u64,
    /// Garbage that the drive is to have at most once the last victim is emptied, if that gained anything.
    expected: Option<u64>,
    /// Garbage that is left alone.
    left: u64,
}

/// Bytes of an EBLOCK that nobody needs any more.
fn garbage(g: &Geometry, d: &Descriptor) -> u64 {
    match d.state {
        State::Open { .. } | State::Used { .. } => {
            let held = u64::from(d.live) + u64::from(d.pinned);
            (u64::from(d.data_end) * u64::from(g.wblock_bytes())).saturating_sub(held)
        }
        _ => 0,
    }
}

impl Tidy {
    /// Whether no batch came since this was asked last.
    pub(super) fn is_idle(&mut self, commit: u64) -> bool {
        std::mem::replace(&mut self.commit, commit) == commit
    }

    /// The EBLOCK that is emptied next, if any is to be.
    pub(super) fn choose(
        &mut self,
        eblocks: &Eblocks,
        movable: impl Fn(EblockId) -> bool,
    ) -> Option<EblockId> {
        let g = eblocks.geometry();
        let half = u64::from(g.eblock_bytes()) / 2;
        let total: u64 = eblocks.descriptors().map(|(_, d)| garbage(g, d)).sum();
        if self.expected.take().is_some_and(|expected| total > expected) {
            self.left = total;
        }
        self.left = self.left.min(total);
        if total - self.left < half {
            return None;
        }
        let candidates = eblocks.descriptors().filter(|(e, _)| movable(*e)).map(|(e, d)| (garbage(g, d), e));
        let (most, victim) = candidates.max_by_key(|(garbage, _)| *garbage).filter(|(n, _)| *n >= half)?;
        self.expected = Some(total - most / 2);
        Some(victim)
    }
}
