//! How trees are kept.

use std::time::Instant;

/// The options of [`crate::DatabaseOptions`] that concern trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeOptions {
    pub(crate) frame_bytes: usize,
    pub(crate) node_bytes: usize,
    pub(crate) value_page_bytes_min: usize,
    pub(crate) write_back_bytes: usize,
    pub(crate) redo_bytes_max: u64,
    pub(crate) redo_pages_max: usize,
    pub(crate) recent_bytes: usize,
    pub(crate) now: Option<fn() -> Instant>,
}
