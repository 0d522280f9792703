//! The state of each EBLOCK on the die: its generation, and the next WBLOCK to program.
//!
//! Invariants (asserted): an EBLOCK is programmed only after an erasure, or after recovery set its generation; its
//! WBLOCKs are programmed in order, each once; a failed program ends it. Memory is used only for EBLOCKs that were
//! accessed, not for all that a superblock declares. Source: ELEOS §II-A (NAND programs in order within an erase
//! unit), §VII (a failed WBLOCK ends its EBLOCK).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lode_base::{EblockId, Geometry};

use crate::Generation;

struct Eblock {
    generation: AtomicU64,
    next_wblock: AtomicU32,
}

/// EBLOCKs whose states are allocated together.
const PART_EBLOCKS: usize = 1024;

pub(crate) struct DieState {
    parts: Vec<OnceLock<Box<[Eblock]>>>,
    eblock_count: u32,
    wblocks_per_eblock: u32,
}

impl DieState {
    /// The state of a die whose EBLOCKs are all unknown.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let eblock_count = geometry.eblock_count();
        let parts = (eblock_count as usize).div_ceil(PART_EBLOCKS);
        Self {
            parts: (0..parts).map(|_| OnceLock::new()).collect(),
            eblock_count,
            wblocks_per_eblock: geometry.wblocks_per_eblock(),
        }
    }

    fn eblock(&self, e: EblockId) -> &Eblock {
        assert!(e.raw() < self.eblock_count, "{e:?} lies beyond the medium");
        let unknown = || Eblock {
            generation: AtomicU64::new(Generation::UNKNOWN.raw()),
            next_wblock: AtomicU32::new(self.wblocks_per_eblock),
        };
        let e = e.raw() as usize;
        let part =
            self.parts[e / PART_EBLOCKS].get_or_init(|| (0..PART_EBLOCKS).map(|_| unknown()).collect());
        &part[e % PART_EBLOCKS]
    }

    pub(crate) fn generation(&self, e: EblockId) -> Generation {
        Generation::from_raw(self.eblock(e).generation.load(Ordering::Acquire))
    }

    pub(crate) fn set_generation(&self, e: EblockId, g: Generation) {
        self.eblock(e).generation.store(g.raw(), Ordering::Release);
    }

    pub(crate) fn next_wblock(&self, e: EblockId) -> u32 {
        self.eblock(e).next_wblock.load(Ordering::Acquire)
    }

    pub(crate) fn set_next_wblock(&self, e: EblockId, wblock: u32) {
        assert!(wblock <= self.wblocks_per_eblock, "{e:?} has {} WBLOCKs", self.wblocks_per_eblock);
        self.eblock(e).next_wblock.store(wblock, Ordering::Release);
    }

    pub(crate) fn erase(&self, e: EblockId, g: Generation) {
        self.set_generation(e, g);
        self.set_next_wblock(e, 0);
    }

    /// Claims `count` WBLOCKs from `wblock` on for programming, once and in order.
    pub(crate) fn claim(&self, e: EblockId, wblock: u32, count: u32) -> Generation {
        let g = self.generation(e);
        assert!(g != Generation::UNKNOWN, "{e:?} is programmed without being erased");
        assert!(
            count <= self.wblocks_per_eblock.saturating_sub(wblock),
            "{e:?} is programmed beyond its end"
        );
        let next = &self.eblock(e).next_wblock;
        let claimed = next.compare_exchange(wblock, wblock + count, Ordering::AcqRel, Ordering::Acquire);
        if let Err(next) = claimed {
            panic!("{e:?} is programmed out of order: WBLOCK {wblock}, where {next} is next");
        }
        g
    }

    /// Ends an EBLOCK after a failed program: nothing more is programmed until it is erased.
    pub(crate) fn end(&self, e: EblockId) {
        self.set_next_wblock(e, self.wblocks_per_eblock);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    /// Found by fuzzing: a superblock of 4,096 million EBLOCKs took 64 GB of memory.
    #[test]
    fn eblocks_that_nobody_asks_for_take_no_memory() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, Geometry::EBLOCKS_MAX).unwrap();
        let made = || {
            let die = DieState::new(&g);
            let last = EblockId::new(Geometry::EBLOCKS_MAX - 1);
            assert_eq!((die.generation(last), die.next_wblock(last)), (Generation::UNKNOWN, 256));
        };
        let used = allocation_counter::measure(made).bytes_max;
        assert!(used < 1 << 20, "{used} bytes");
    }

    #[test]
    fn only_erased_eblocks_are_programmed_and_only_in_order() {
        let g = Geometry::new(1, 1, 1, 4096, 8192, 1 << 20, 8).unwrap();
        let die = DieState::new(&g);
        let e = EblockId::new(3);
        let refused = |wblock, count| {
            catch_unwind(std::panic::AssertUnwindSafe(|| die.claim(e, wblock, count))).is_err()
        };
        assert!(refused(0, 1), "not erased");
        die.erase(e, Generation::new(1, 1));
        assert!(refused(1, 1), "a WBLOCK was passed over");
        die.claim(e, 0, 2);
        assert!(refused(1, 1), "programmed twice");
        assert!(refused(2, 127), "beyond the end");
        die.claim(e, 2, 126);
        die.erase(e, Generation::new(1, 2));
        die.end(e);
        assert!(refused(0, 1), "ended");
    }
}
