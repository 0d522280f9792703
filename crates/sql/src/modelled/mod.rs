//! Modelled time of statements: what their operators take of the host, and how it is told.
//!
//! ```text
//!   physical plan ─► rule (the last) ─► operators that charge ─► rows ─► HostClock ◄─ completions ─ scans
//!                                                              EXPLAIN ANALYZE ◄─┘
//! ```
//!
//! With a modelled device a statement runs in one partition, and in one thread if its runtime has one: then the same
//! statements take the same picoseconds in every run. Without one none of this is there.

mod charge;
mod explain;
mod rule;

pub(crate) use explain::explained;
pub(crate) use rule::physical_rules;
