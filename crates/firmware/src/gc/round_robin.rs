//! Round robin: the next EBLOCK by number, whatever is in it. It wears all alike; IAA's drive does it so.
//!
//! ```text
//!   last victim 9 of 12:  10 ─► 11 ─► 0 ─► ... ─► 9
//! ```
//!
//! Source: the wear table of IAA (JJAP 2014). We differ: one with nothing available is no candidate.

use lode_base::EblockId;

use super::{Choice, GcView, NamedPolicy, Policy};

pub(super) const POLICY: NamedPolicy = NamedPolicy {
    name: "round-robin",
    about: "the next by number, which wears all alike",
    make: || Box::new(RoundRobin { last_victim: EblockId::new(0) }),
};

struct RoundRobin {
    /// The victim before, whatever it was chosen for.
    last_victim: EblockId,
}

impl Policy for RoundRobin {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        let all = u64::from(view.eblock_count.max(1));
        let last = u64::from(self.last_victim.raw());
        // The last victim itself is `all` - 1 steps away, the one after it none.
        view.smallest(|c| ((u64::from(c.eblock.raw()) + 2 * all - 1 - last % all) % all) as f64)
    }

    fn step_begins(&mut self, victim: EblockId) {
        self.last_victim = victim;
    }
}
