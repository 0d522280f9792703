//! Garbage collection: which EBLOCK is emptied next. Policies choose, one mover acts.
//!
//! ```text
//!   Used EBLOCKs ─► Candidate ─► score (one file a policy) ─► victim ─► mover: live pages elsewhere, erase
//! ```
//!
//! Source: ELEOS §VI-A. A policy of your own is one file, and one line in [`POLICIES`]; conformance tests,
//! simulation and experiments run over that table.

mod cleaner;
mod cost_benefit;
mod greedy;
mod min_cost_decline;
mod mover;
mod oldest;
mod policy;
mod round_robin;
mod tidy;

pub(crate) use cleaner::{Cleaner, MOVE_BYTES, Urgency};
pub(crate) use mover::Valid;
pub use policy::{Candidate, POLICIES, Policy, Round};
