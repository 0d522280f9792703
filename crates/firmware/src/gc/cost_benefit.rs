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

use super::{Candidate, Policy, Round};

pub(super) const POLICY: Policy = Policy {
    name: "cost-benefit",
    about: "largest E x age / (2 - E), as in the log-structured file system",
    score,
};

fn score(c: &Candidate, _: &Round) -> f64 {
    let e = c.available_fraction();
    match c.available_bytes {
        0 => f64::INFINITY,
        all if all == c.eblock_bytes => f64::MIN,
        _ => -(e * c.age() / (2.0 - e)),
    }
}
