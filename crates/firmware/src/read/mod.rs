//! Reading: pages and parts of them, what a scan task sees, index entries, and which extents there are.
//!
//! What must hold: no lock is held over I/O. A read registers in an epoch, so that no EBLOCK that it may read is programmed
//! again before it ended.

mod indexed;
mod listing;
mod reader;
mod unit;

pub(crate) use reader::Reader;
pub(crate) use unit::UnitAccess;
