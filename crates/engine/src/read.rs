//! Reads of single columns of pages, through the pool.

use lode_page::Column;

/// Columns of one page.
#[derive(Clone, Debug)]
pub struct PageColumns {
    /// Rows of the page.
    pub rows: usize,
    /// The columns asked for, in that order.
    pub columns: Vec<Column>,
    /// Bytes that came up the link for them: 0 when the pool held all.
    pub link_bytes_up: u64,
    /// Bytes that went down the link for them.
    pub link_bytes_down: u64,
}
