//! Kept space: how much of the file erased EBLOCKs hold on to, and when it goes back to the file system.
//!
//! ```text
//!   released ─► kept, and written over next: the file system has nothing to do
//!                 └─ more than a quarter of the EBLOCKs in use, and 4 ─► given back, a few at a time
//!   closed ─► all given back, and what lies behind the last page of each open EBLOCK
//! ```
//!
//! Invariants: a closed image takes the space of what it holds; an open one at most a quarter more, the EBLOCKs that are
//! open, and a few. Nothing that a read, a view or the log still needs is given back.
//!
//! Source: the design ("erased EBLOCKs are recycled before fresh ones; holes are punched for what is not needed soon").

use lode_flash::Medium;

use super::Space;
use crate::FirmwareError;

/// Erased EBLOCKs that are kept however little is in use: one for each stream of batches, one for the log, one for GC.
const KEPT_BESIDES: u32 = 4;
/// EBLOCKs whose space is given back at a time: it takes the file system a while.
const GIVEN_AT_A_TIME: usize = 8;

impl Space {
    /// Erased EBLOCKs whose space is kept, of `most` at most.
    fn kept_max(&self, most: u32) -> usize {
        let in_use = self.summary.len() - self.recycled.len() - self.discarded.len();
        most.min(in_use as u32 / 4 + KEPT_BESIDES) as usize
    }

    /// Whether more is kept than the rule says.
    pub(crate) fn keeps_too_much(&self, most: u32) -> bool {
        self.recycled.len() > self.kept_max(most)
    }

    /// Gives back what is kept beyond the rule, a step; of `most` that are kept at most.
    pub(super) fn give_back_step(&mut self, medium: &Medium, most: u32) -> Result<(), FirmwareError> {
        let more = self.recycled.len().saturating_sub(self.kept_max(most));
        (0..more.min(GIVEN_AT_A_TIME)).try_for_each(|_| self.give_back_one(medium))
    }

    /// Gives back the space of the most worn EBLOCK that is kept.
    fn give_back_one(&mut self, medium: &Medium) -> Result<(), FirmwareError> {
        let Some(last @ (_, raw)) = self.recycled.pop_last() else { return Ok(()) };
        self.discarded.insert(last);
        Ok(medium.discard(lode_base::EblockId::new(raw))?)
    }

    /// Gives back all that holds nothing, once nothing more will be written.
    pub(crate) fn give_back_all(&mut self, medium: &Medium) -> Result<(), FirmwareError> {
        while !self.recycled.is_empty() {
            self.give_back_one(medium)?;
        }
        self.open.values().try_for_each(|o| Ok(medium.discard_behind(o.eblock, o.position)?))
    }
}

#[cfg(test)]
mod tests {
    use lode_base::epochs::Epochs;
    use lode_base::{EblockId, Geometry};

    use super::*;
    use crate::space::{State, Stream};

    /// A space of which `used` EBLOCKs are in use and `kept` are erased and kept.
    fn space(used: u32, kept: u32) -> (Space, Medium) {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 256).unwrap();
        let (m, mut s) = (Medium::memory(g), Space::new(&g));
        for e in 0..used + kept {
            let e = EblockId::new(e);
            m.erase(e).unwrap();
            s.summary.set_state(e, State::Used { stream: Stream::UserHot });
        }
        let epochs = Epochs::new(4);
        (used..used + kept).for_each(|e| s.release(&epochs, EblockId::new(e), 0));
        s.free_released(&m, &epochs, 0, u32::MAX).unwrap();
        (s, m)
    }

    #[test]
    fn a_quarter_of_what_is_in_use_is_kept_and_some() {
        let check = |used, kept, most, expected| {
            let (mut s, m) = space(used, kept);
            for _ in 0..32 {
                s.give_back_step(&m, most).unwrap();
                s.check_invariants(&m);
            }
            assert_eq!(s.recycled.len(), expected, "of {kept} beside {used}, {most} at most");
            assert_eq!(s.free_eblocks(), 256 - used, "all are free still");
        };
        check(0, 3, 32, 3);
        check(0, 40, 32, 4);
        check(20, 40, 32, 9);
        check(20, 40, 6, 6);
        check(20, 40, 0, 0);
        check(200, 50, 32, 32);
    }

    #[test]
    fn a_step_is_bounded_and_the_end_gives_all_back() {
        let (mut s, m) = space(8, 40);
        let before = s.recycled.len();
        s.give_back_step(&m, 0).unwrap();
        assert_eq!(s.recycled.len(), before - GIVEN_AT_A_TIME);
        s.give_back_all(&m).unwrap();
        assert_eq!((s.recycled.len(), s.free_eblocks()), (0, 248));
        s.check_invariants(&m);
    }
}
