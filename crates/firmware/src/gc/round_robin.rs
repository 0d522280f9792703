//! Round robin: the next EBLOCK by number, whatever is in it. It wears all alike; IAA's drive does it so.
//!
//! ```text
//!   last victim 9 of 12:  10 ─► 11 ─► 0 ─► ... ─► 9
//! ```
//!
//! Source: the wear table of IAA (JJAP 2014). We differ: one with nothing available is passed over.

use super::{Candidate, Policy, Round};

pub(super) const POLICY: Policy =
    Policy { name: "round-robin", about: "the next by number, which wears all alike", score };

fn score(c: &Candidate, round: &Round) -> f64 {
    if c.available_bytes == 0 {
        return f64::INFINITY;
    }
    let all = u64::from(round.eblocks.max(1));
    let (at, last) = (u64::from(c.eblock.raw()), u64::from(round.last_victim));
    // The last victim itself is `all` - 1 steps away, the one after it none.
    ((at + 2 * all - 1 - last % all) % all) as f64
}
