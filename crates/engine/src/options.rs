//! How a database is opened.

use std::sync::Arc;
use std::time::Instant;

use crate::HostClock;
use crate::trees::TreeOptions;

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Most bytes of pages that the buffer pool holds.
    pub pool_bytes: usize,
    /// Most bytes of key hashes that a check of unsorted keys holds at a time.
    pub key_check_bytes: usize,
    /// Most bytes of new values that an UPDATE holds. More of them go to pages until the commit.
    pub change_bytes: usize,
    /// The host of a modelled device; none in wall time.
    pub host: Option<Arc<HostClock>>,
    /// Most bytes of pages of trees in memory, including those that were changed and not written yet.
    pub frame_bytes: usize,
    /// A node of a tree that has more bytes is split.
    pub node_bytes: usize,
    /// A value of so many bytes is a page of its own.
    pub value_page_bytes_min: usize,
    /// Changed pages are written back in batches of about so many bytes.
    pub write_back_bytes: usize,
    /// Bytes and pages of redo beyond which changed pages are written back, so that a recovery is short.
    pub redo_bytes_max: u64,
    /// See [`DatabaseOptions::redo_bytes_max`].
    pub redo_pages_max: usize,
    /// Memory for the keys of recent commits to trees, about 20 bytes each. A transaction that is older than the commits that are
    /// remembered, and writes, fails with a conflict.
    pub recent_bytes: usize,
    /// A statement that changes more rows of a table with a delta than this edits the pages that have the rows, and its commit writes
    /// these pages anew.
    pub rows_by_id_max: usize,
    /// Whether [`crate::Database::work`] merges deltas into pages.
    pub merges: bool,
    /// A clock, which the program's root has. With one, threads that wait for a group of commits yield a few times before they sleep,
    /// unless other processes want the CPU.
    pub now: Option<fn() -> Instant>,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            pool_bytes: 256 << 20,
            key_check_bytes: 64 << 20,
            change_bytes: 16 << 20,
            host: None,
            frame_bytes: 128 << 20,
            node_bytes: 4096,
            value_page_bytes_min: 256,
            write_back_bytes: 1 << 20,
            redo_bytes_max: 64 << 20,
            redo_pages_max: 16_384,
            // 917,504 keys.
            recent_bytes: 18 << 20,
            rows_by_id_max: 16_384,
            merges: true,
            now: None,
        }
    }
}

impl DatabaseOptions {
    /// Those that concern trees.
    pub(crate) fn trees(&self) -> TreeOptions {
        TreeOptions {
            frame_bytes: self.frame_bytes,
            node_bytes: self.node_bytes,
            value_page_bytes_min: self.value_page_bytes_min,
            write_back_bytes: self.write_back_bytes,
            redo_bytes_max: self.redo_bytes_max,
            redo_pages_max: self.redo_pages_max,
            recent_bytes: self.recent_bytes,
            now: self.now,
        }
    }
}
