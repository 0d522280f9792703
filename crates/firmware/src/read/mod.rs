//! Reading: pages and parts of them, what a scan task sees, index entries, and which extents there are.

mod listing;
mod reader;
mod unit;

pub(crate) use reader::Reader;
pub(crate) use unit::UnitAccess;
