//! The log: what makes a system action durable.
//!
//! ```text
//!   EBLOCK a: [page lsn 7][8][9][10]      EBLOCK b (named in every page of a): [11][12] ...
//!                      group: |first ........... last|    one group a system action, forced by one sync
//! ```
//!
//! A group begins on a page of its own and counts only whole. Each page says up to which LSN the log was
//! known to be durable when it was written: one sync may persist a record before the data that it speaks of,
//! so recovery verifies the data of what lies beyond.
//!
//! Source: ELEOS §VIII-A (forward pointers, forced commit records). We name the next log EBLOCK in every page
//! instead of three next pages, since a failed log write ends the session.

mod page;
mod reader;
mod record;
mod writer;

pub(crate) use page::PAYLOAD_AT;
pub(crate) use reader::{Group, read_log};
pub(crate) use record::{Commit, Indexed, LoggedWrite, Record};
pub(crate) use writer::{LogWriter, Place};
