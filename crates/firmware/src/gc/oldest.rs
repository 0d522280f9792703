//! Oldest first: the storage as a circular buffer, which LLAMA does. It moves cold pages again and again.
//!
//! Source: ELEOS §VI-A, its first strategy. We differ: one with nothing available is no candidate.

use super::{Choice, GcView, NamedPolicy, Policy};

pub(super) const POLICY: NamedPolicy =
    NamedPolicy { name: "oldest", about: "oldest first, as a circular buffer", make: || Box::new(Oldest) };

struct Oldest;

impl Policy for Oldest {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        view.smallest(|c| -c.age())
    }
}
