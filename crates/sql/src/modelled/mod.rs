//! Modelled time of statements: what their operators cost the host, and how EXPLAIN ANALYZE shows it.
//!
//! ```text
//!   physical plan ─► rule (the last) ─► operators that charge ─► rows ─► HostClock ◄─ completions ─ scans
//!                                                              EXPLAIN ANALYZE ◄─┘
//! ```
//!
//! With a modelled device a statement runs in one partition, and in one thread if its runtime has one. Then the same
//! statements take the same picoseconds in every run. Without a modelled device nothing here is used.

mod charge;
mod explain;
mod rule;

pub(crate) use explain::explained;
pub(crate) use rule::ChargeHost;
