//! The buffer pool.

/// What the buffer pool holds, and how well it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes held.
    pub bytes: u64,
    /// Bytes that may be held.
    pub limit_bytes: u64,
    /// Frames held: headers and columns of pages.
    pub frames: u64,
    /// Lookups that found their frame.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Frames that had to go for others.
    pub evictions: u64,
}
