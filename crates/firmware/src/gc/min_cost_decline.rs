//! Minimum cost decline: goes first what gains least by waiting.
//!
//! ```text
//!   score = (1 - E) / (E^2 x age)
//! ```
//!
//! Moving an EBLOCK costs (1 - E) / E bytes for each byte gained. An EBLOCK of hot pages becomes cheaper soon,
//! so it waits; one of cold pages stays as dear as it is, so it goes now, even if it is fuller.
//!
//! Source: ELEOS §VI-A; Lomet and Luo, "Efficiently reclaiming space in a log structured store"
//! (arXiv 2005.00044).

use super::{Candidate, Choice, GcView, NamedPolicy, Policy};

pub(super) const POLICY: NamedPolicy = NamedPolicy {
    name: "min-cost-decline",
    about: "smallest expected decline of its cost: (1 - E) / (E^2 x age), E the available fraction",
    make: || Box::new(MinCostDecline),
};

struct MinCostDecline;

impl Policy for MinCostDecline {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        view.smallest(score)
    }
}

fn score(c: &Candidate) -> f64 {
    let e = c.available_fraction();
    (1.0 - e) / (e * e * c.age())
}
