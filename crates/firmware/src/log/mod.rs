//! The log: what makes a system action durable.
//!
//! ```text
//!   EBLOCK a: [page 7][8][9][ 10 ✗ failed            each page names three candidates for the next page:
//!                      │  └─► [10 again][11]...        1  the next WBLOCK here, or the first of spare 1 when this EBLOCK is full
//!   EBLOCK b (spare) ──┴──────┘                        2  the first of spare 1       3  the first of spare 2
//!
//!   groups:   |first ... last|first, last|first ...       one group per sync, whole or not at all
//! ```
//!
//! What must hold:
//!
//! - The LSN goes up by one per page, and no LSN comes twice in one log.
//! - Page `lsn` lies at the first candidate of page `lsn - 1` that holds it. So after a failed program the writer goes on
//!   from what the medium holds, and not from what it meant to write.
//! - A page counts only in the generation that was named, and only if no page before it is of a later opening.
//! - A group counts only whole.
//! - Each page says up to which LSN the log was known to be durable when the page was written. One sync may persist a
//!   record before the data that it names, so recovery verifies the data of the groups beyond. A hole before is damage.
//!
//! Source: ELEOS §VIII-A (three forward pointers, forced commit records), §VII (a failed WBLOCK ends its EBLOCK). We
//! differ: a page may be programmed twice, against a read that fails; the opening in each page, and the read-back after
//! a failure, are ours.

mod buffer;
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

pub(crate) use buffer::{
    RECORDS_AT as BUFFER_RECORDS_AT, decode as decode_buffer, records_max as buffer_records_max,
};
pub(crate) use candidate::{Candidate, LogPosition, NUMBER_MAX};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use page::decodes as decodes_page;
#[cfg(test)]
pub(crate) use reader::read_log;
pub(crate) use reader::{Group, LogEnd, check_log, read_log_judged, read_log_to};
pub(crate) use writer::LogWriter;
