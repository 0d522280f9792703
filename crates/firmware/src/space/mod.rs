//! Space: the EBLOCKs of the drive, from one erasure to the next.
//!
//! ```text
//!   pages ─► plan: which EBLOCKs, at which offsets ─► budget: is there room? ─► provision ─► jobs for `append`
//!
//!   Eblocks ─┬─ summary: one descriptor per EBLOCK       ─┬─ free: which EBLOCK is opened next
//!            ├─ unwritten: names of pages, in memory      └─ lanes: which channel takes the next pages
//!            └─ changes, for the next log group
//! ```
//!
//! What must hold: an EBLOCK is erased only when nobody needs it; batches never take the EBLOCKs that the log, a
//! checkpoint, a recovery or GC needs. All of it is under the commit lock; nothing here reads or programs pages.
//!
//! Source: ELEOS §III-B, §IV-A, §VII.

mod budget;
mod eblocks;
mod free;
mod lanes;
mod metadata;
mod plan;
mod summary;
mod unwritten;

pub(crate) use budget::{Budget, LogUse, Purpose, log_bytes_max, spare_eblocks};
pub(crate) use eblocks::Eblocks;
pub(crate) use metadata::{PageName, align_at, align_of};
pub(crate) use plan::{Item, Job, Plan, Provision, page_bytes_max};
pub(crate) use summary::{Descriptor, SUMMARY_PIECE_EBLOCKS, State};

pub(crate) use metadata::read as read_metadata;
pub(crate) use unwritten::decode as decode_unwritten;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use metadata::{decode as decode_metadata, encode as encode_metadata};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use unwritten::encode as encode_unwritten;

/// Fewest EBLOCKs that a drive works with: those of the log, one per stream, and the reserve.
pub(crate) const EBLOCKS_MIN: u32 = 16;
/// With fewer EBLOCKs than this, pages are not separated by temperature: each further stream would hold one open.
pub(crate) const EBLOCKS_FEW: u32 = 64;
/// Smallest EBLOCK, in bytes: a mapping page and an index page must fit.
pub(crate) const EBLOCK_BYTES_MIN: u32 = 64 << 10;
