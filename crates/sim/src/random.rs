//! The random numbers of a simulation, which depend only on a seed.

use lode_base::random::STEP;
pub(crate) use lode_base::random::{Random, mix};

/// The `i`-th number of a seed.
pub(crate) fn nth(seed: u64, i: u64) -> u64 {
    mix(seed.wrapping_add(STEP.wrapping_mul(i.wrapping_add(1))))
}
