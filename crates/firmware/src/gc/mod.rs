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
mod oldest;
mod policy;
mod round_robin;
mod view;

use lode_base::EblockId;

pub use policy::{GcPolicy, NamedPolicy};
pub use view::{Candidate, Choice, GcStream, GcView, StreamClass, Urgency, Victim};

/// The policies, the default first.
pub const POLICIES: &[NamedPolicy] =
    &[min_cost_decline::POLICY, greedy::POLICY, oldest::POLICY, cost_benefit::POLICY, round_robin::POLICY];

/// A way to choose what GC empties. A drive has one of its own, made when it is opened: its state is not kept on the medium.
///
/// The drive holds its lock while it asks. A policy takes no lock that is held while a drive is used, and looks at no clock:
/// the same views in the same order give the same choices.
pub trait Policy: Send {
    /// What is emptied next, and how; or nothing now. One victim is emptied to its end before the next choice.
    fn choose(&mut self, view: &GcView<'_>) -> Choice;

    /// A step of emptying `victim` begins: the one that was chosen, or one that goes first whatever the policy says (an
    /// EBLOCK that failed, the least worn, garbage of a drive at rest).
    fn step_begins(&mut self, victim: EblockId) {
        let _ = victim;
    }
}
