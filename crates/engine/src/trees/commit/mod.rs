//! Commits to trees.

pub(crate) mod rests;
pub(crate) mod sequencer;
