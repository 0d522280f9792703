//! Oldest first: the storage as a circular buffer, which LLAMA does. It moves cold pages again and again.
//!
//! Source: ELEOS §VI-A, its first strategy. We differ: one with nothing available is passed over.

use super::{Candidate, Policy, Round};

pub(super) const POLICY: Policy =
    Policy { name: "oldest", about: "oldest first, as a circular buffer", score };

fn score(c: &Candidate, _: &Round) -> f64 {
    if c.available_bytes == 0 { f64::INFINITY } else { -c.age() }
}
