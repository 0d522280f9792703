//! The log: what makes a system action durable.
//!
//! ```text
//!   EBLOCK a: [page 7][8][9][ 10 ✗ failed            each page names three places for the next:
//!                      │  └─► [10 again][11]...        1  the next WBLOCK here, or the first of spare 1 when this is full
//!   EBLOCK b (spare) ──┴──────┘                        2  the first of spare 1       3  the first of spare 2
//!
//!   groups:   |first ... last|first, last|first ...       one group a forced commit, whole or not at all
//! ```
//!
//! What must hold: the LSN goes up by one a page and none comes twice in one log; page `lsn` lies at the first of the
//! places that page `lsn - 1` names which holds it, so the writer goes on from what the medium holds and not from what
//! it meant to write; a page counts only in the generation that was named, and when no page before it is of a later
//! opening; a group counts only whole. Each page says up to which LSN the log was known to be durable when it was
//! written: one sync may persist a record before the data that it speaks of, so recovery verifies the data of what lies
//! beyond, and a hole before is damage.
//!
//! Source: ELEOS §VIII-A (three forward pointers, forced commit records), §VII (a failed WBLOCK ends its EBLOCK). We
//! differ: a page may be programmed twice, against a read that fails; the opening in each page, and the read-back after
//! a failure, are ours.

mod candidate;
mod medium;
mod page;
mod reader;
mod trail;
mod writer;

#[cfg(test)]
mod model;
#[cfg(test)]
mod testing;

pub(crate) use candidate::{NUMBER_MAX, Place, Spot};
pub(crate) use page::PAYLOAD_AT;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use page::decodes as decodes_page;
#[cfg(test)]
pub(crate) use reader::read_log;
pub(crate) use reader::{Group, LogEnd, check_log, read_log_judged, read_log_to};
pub(crate) use writer::LogWriter;
