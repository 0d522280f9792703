//! Greedy: most available space first. Best for uniform random writes, blind to which pages are hot.
//!
//! Source: ELEOS §VI-A, its second strategy; Bux and Iliadis, "Performance of greedy garbage collection in
//! flash-based solid-state drives" (2010).

use super::{Candidate, Policy, Round};

pub(super) const POLICY: Policy = Policy { name: "greedy", about: "most available space first", score };

fn score(c: &Candidate, _: &Round) -> f64 {
    let e = c.available_fraction();
    if e == 0.0 { f64::INFINITY } else { -e }
}
