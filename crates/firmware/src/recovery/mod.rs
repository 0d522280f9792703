//! Recovery: from an image to a drive, in two passes over the log.
//!
//! ```text
//!   newest checkpoint record ─► root
//!   pass 1: the log's end; newest homes of the drive's own pages; what happened to EBLOCKs ─► tables, summary, ends
//!   pass 2: what the records say of mapping, index, owners, rules, sessions, where the page on the medium lacks it
//!   ─► a new log, a new checkpoint                                         (neither after a clean close)
//! ```
//!
//! What must hold:
//!
//! - Nothing is written before the summary is whole, and then only where nothing is that counts. So a recovery that is cut
//!   short can begin again.
//! - Every acknowledged batch that was forced is found, or the image is refused.
//! - Every other batch is found whole or not at all, and none behind one that is not. The last groups of the log, which no
//!   later page says were durable, count only as far as their data verifies.
//! - A record is applied to a page exactly where it came after the LSN as of which the page was written.
//!
//! Source: ELEOS §VIII-C. Pass 1 restores addresses because own pages move while the log that recovery reads is written.

mod context;
mod open;
mod pass_1;
mod pass_2;
mod space;
mod tables;

pub(crate) use open::{check_geometry, format, recover};
