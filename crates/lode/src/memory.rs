//! How a limit of memory is divided.
//!
//! ```text
//!   Trees: limit - 64 MB, or a quarter where that is less:
//!   | pages of trees 1/2 | tables 1/8 | mapping 1/16 | index, tags, recent keys 1/32 each | inlined, long buffers 1/64 each | free |
//!   Queries: | queries 1/2 | pages of trees, mapping, index 1/16 each | tags, recent keys 1/32 each | inlined 1/64 | tables: the rest |
//! ```
//!
//! The part that is set aside and the free part cover all memory without a budget: transactions under way, the short
//! buffers that each thread keeps, batches under way, and partly filled pages of the allocator. Some shares have a
//! maximum, because more memory would not help there. Queries borrow from tables, and so do the columns that are kept of
//! deltas. Large changes and checks of keys hold at most 1/32 and 1/16, for as long as they run.

use lode_base::page_buf;
use lode_engine::DatabaseOptions;
use lode_firmware::DriveOptions;

/// The part that is set aside for memory without a budget. It is a quarter of the limit if that is less.
const ASIDE_BYTES: u64 = 64 << 20;

/// What the memory of a database is mainly for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Division {
    /// Transactions over keys and values.
    #[default]
    Trees,
    /// SQL: operators of queries, column pages, and some pages of trees.
    Queries,
}

/// The parts of a limit.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The budgets of the database.
    pub database: DatabaseOptions,
    /// The budgets of its drive.
    pub drive: DriveOptions,
    /// The bytes of long spare buffers that all threads keep together: see [`page_buf::limit_spares`]. `None` leaves
    /// the limit unchanged.
    pub spare_bytes: Option<usize>,
    /// The bytes for the operators of all queries together. While they run, they can borrow more from the pages of
    /// tables.
    pub query_bytes: usize,
}

impl Memory {
    /// The smallest limit that is observed. From it on, at most a fifth more than the limit is resident with nine
    /// threads. With a smaller limit, the fixed memory of each thread is too large a part.
    pub const BYTES_MIN: u64 = 256_000_000;

    /// Divides a limit.
    pub fn divided(limit_bytes: u64, division: Division) -> Self {
        match division {
            Division::Trees => Self::within(limit_bytes),
            Division::Queries => Self::for_queries(limit_bytes),
        }
    }

    fn for_queries(limit_bytes: u64) -> Self {
        let part = |n: u64| usize::try_from(limit_bytes / n).unwrap_or(usize::MAX);
        let (database, drive) = (DatabaseOptions::default(), DriveOptions::default());
        let mut memory = Self {
            database: DatabaseOptions {
                pool_bytes: 0,
                frame_bytes: part(16).min(128 << 20),
                recent_bytes: database.recent_bytes.min(part(32)),
                change_bytes: database.change_bytes.min(part(32)),
                key_check_bytes: database.key_check_bytes.min(part(16)),
                ..database
            },
            drive: DriveOptions {
                map_cache_bytes: drive.map_cache_bytes.min(part(16)),
                index_cache_bytes: drive.index_cache_bytes.min(part(16)),
                tag_cache_bytes: drive.tag_cache_bytes.min(part(32)),
                inline_buffer_bytes: drive.inline_buffer_bytes.min(part(64)),
                ..drive
            },
            spare_bytes: None,
            query_bytes: part(2),
        };
        memory.database.pool_bytes = part(2) - memory.budget_bytes();
        memory
    }

    /// Divides a limit for [`Division::Trees`].
    pub fn within(limit_bytes: u64) -> Self {
        let divided = limit_bytes - ASIDE_BYTES.min(limit_bytes / 4);
        let part = |n: u64| usize::try_from(divided / n).unwrap_or(usize::MAX);
        let (database, drive) = (DatabaseOptions::default(), DriveOptions::default());
        Self {
            database: DatabaseOptions {
                frame_bytes: part(2),
                pool_bytes: part(8),
                recent_bytes: part(32).min(64 << 20),
                key_check_bytes: database.key_check_bytes.min(part(16)),
                ..database
            },
            drive: DriveOptions {
                map_cache_bytes: part(16),
                index_cache_bytes: part(32),
                tag_cache_bytes: drive.tag_cache_bytes.min(part(32)),
                inline_buffer_bytes: drive.inline_buffer_bytes.min(part(64)),
                ..drive
            },
            spare_bytes: Some(part(64).min(64 << 20)),
            query_bytes: part(16),
        }
    }

    /// Applies the parts that concern the whole process, not one database.
    pub fn limit_process(&self) {
        if let Some(bytes) = self.spare_bytes {
            page_buf::limit_spares(bytes);
        }
    }

    /// The sum of all budgets, in bytes.
    pub fn budget_bytes(&self) -> usize {
        let (e, d) = (&self.database, &self.drive);
        let pages =
            e.frame_bytes + e.pool_bytes + d.map_cache_bytes + d.index_cache_bytes + d.tag_cache_bytes;
        pages + e.recent_bytes + d.inline_buffer_bytes + self.spare_bytes.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for limit in [0, 1 << 20, 64 << 20, 256 << 20, 1 << 30, 1 << 40] {
            let budget = Memory::within(limit).budget_bytes() as u64;
            assert!(budget <= limit / 5 * 4, "{budget} of {limit}");
            assert!(budget >= limit / 2, "{budget} of {limit}");
            let queries = Memory::divided(limit, Division::Queries);
            assert!(queries.budget_bytes() as u64 + queries.query_bytes as u64 <= limit, "{queries:?}");
            assert!(queries.database.pool_bytes as u64 >= limit / 8, "{queries:?}");
        }
    }
}
