//! Garbage collection: which EBLOCK is emptied next. Policies choose, one mover acts.
//!
//! ```text
//!   closed EBLOCKs ─► GcView ─► Policy::choose (one file a policy) ─► Choice ─► cleaner: checks it
//!                                                                                 └─► mover: live pages elsewhere, erase
//! ```
//!
//! Invariants: the cleaner, not the policy, keeps the drive going. A choice that names no candidate, or one that gains too
//! little, counts as declined. When a batch waits for room, the EBLOCK that gains most goes if the policy names none that
//! gains enough. No choice takes the EBLOCKs that the log, a checkpoint or a recovery needs.
//!
//! Source: ELEOS §VI-A. A policy of your own is one file here, its `mod`, and one line in [`POLICIES`]; conformance tests,
//! simulation and experiments run over that table. One that stays outside of this crate is a [`GcPolicy::custom`].

#[cfg(test)]
mod conformance;
mod cost_benefit;
mod greedy;
mod min_cost_decline;
mod named;
mod oldest;
mod policy;
mod round_robin;
mod view;

pub use named::GcPolicy;
pub use policy::{NamedPolicy, Policy};
pub use view::{Candidate, Choice, GcStream, GcView, StreamClass, Urgency, Victim};

/// The policies, the default first.
pub const POLICIES: &[NamedPolicy] =
    &[min_cost_decline::POLICY, greedy::POLICY, oldest::POLICY, cost_benefit::POLICY, round_robin::POLICY];
