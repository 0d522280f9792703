//! How commits to trees are put in order, grouped, and seen through.
//!
//! - `claims.rs`: what commits of tables need that others leave alone
//! - `recent.rs`: the keys of recent commits, against which the next ones are validated
//! - `sequencer.rs`: the order of commits, and who leads a group
//! - `right.rs`: the right to write
//! - `committer.rs`: carries out groups, and batches of the part above trees
//! - `yields.rs`: what a thread does before it sleeps

mod claims;
mod committer;
mod recent;
mod right;
mod sequencer;
mod yields;

pub(crate) use claims::Claims;
pub(crate) use committer::{Alone, CarriedBatch, Committer};
pub(crate) use sequencer::{Pending, Sequenced};
