//! Cost and benefit, as the log-structured file system weighs them: space gained, times how long it will
//! stay gained (the age stands for that), over the bytes that are read and written.
//!
//! ```text
//!   benefit / cost = E x age / (1 + u) = E x age / (2 - E)       u = 1 - E is live; the largest goes
//! ```
//!
//! An EBLOCK without live pages need not be read at all: it costs nothing, and goes before any other.
//!
//! Source: Rosenblum and Ousterhout, "The design and implementation of a log-structured file system" (1992), §3.5.

use super::{Candidate, Choice, GcView, NamedPolicy, Policy};

pub(super) const POLICY: NamedPolicy = NamedPolicy {
    name: "cost-benefit",
    about: "largest E x age / (2 - E), as in the log-structured file system",
    make: || Box::new(CostBenefit),
};

struct CostBenefit;

impl Policy for CostBenefit {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        view.smallest(score)
    }
}

fn score(c: &Candidate) -> f64 {
    let e = c.available_fraction();
    if c.available_bytes == c.eblock_bytes { f64::MIN } else { -(e * c.age() / (2.0 - e)) }
}
