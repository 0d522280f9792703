//! Upkeep: what keeps the drive going. Checkpoints when they are due, GC when space is short, and room for whoever needs it.
//!
//! ```text
//!   batch, no room ─► make room: reclaim, wait for reads, GC, checkpoint ─► still none: OutOfSpace
//!   batch is over  ─► maintain: reclaim, write back, GC as far as batches earned it
//!   nobody asks    ─► work: one bounded step of what is due; while idle, tidy
//! ```
//!
//! What must hold: one checkpoint, GC step or scrub is at work at a time (the background lock). The log since the newest
//! checkpoint stays within its bound, but for the records of batches that are in flight at a time.

mod background;
mod maintain;
mod room;

pub(crate) use background::{Background, Upkeep};
