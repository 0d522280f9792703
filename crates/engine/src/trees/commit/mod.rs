//! How commits to trees are put in order, grouped, and seen through.
//!
//! - `recent.rs`: the keys of recent commits, against which the next ones are validated
//! - `sequencer.rs`: the order of commits, and who leads a group
//! - `right.rs`: the right to write
//! - `committer.rs`: carries out groups, and batches of the part above trees
//! - `yields.rs`: what a thread does before it sleeps

mod committer;
mod recent;
mod right;
mod sequencer;
mod yields;

pub(crate) use committer::{CarriedBatch, Committer};
pub(crate) use right::Permit;
pub(crate) use sequencer::Pending;
