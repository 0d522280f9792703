//! Greedy: most available space first. Best for uniform random writes, blind to which pages are hot.
//!
//! Source: ELEOS §VI-A, its second strategy; Bux and Iliadis, "Performance of greedy garbage collection in
//! flash-based solid-state drives" (2010).

use super::{Choice, GcView, NamedPolicy, Policy};

pub(super) const POLICY: NamedPolicy =
    NamedPolicy { name: "greedy", about: "most available space first", make: || Box::new(Greedy) };

struct Greedy;

impl Policy for Greedy {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        view.most_available()
    }
}
