//! Own pages: the pages of the drive's own metadata, on the medium and in memory.
//!
//! ```text
//!   mapping pages, index pages ─► cache, within a budget of memory         homes: where each lies = the small table
//!   pieces of the tables       ─► Tables: where each lies                  root: names every piece
//! ```
//!
//! Who writes them, and when, is told in `checkpoint`.
//!
//! Source: ELEOS §III-B (mapping, small and tiny table), §VIII-B (tables are flushed as pages of the log-structured store).

mod cache;
mod homes;
mod kind;
mod page;
mod tables;

pub(crate) use cache::{PageCache, Resident};
pub(crate) use kind::{EXTENT_PARTS, OwnKind, PART_PIECES_FROM, PARTS_FROM, TABLE_PIECE_ENTRIES, TABLES};
pub(crate) use tables::Tables;

pub(crate) use page::{encode as encode_page, read as read_page};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use page::decode as decode_page;
