//! What is reported of trees.

/// What the trees of a database hold in memory, and what they owe the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Bytes of pages in memory.
    pub held_bytes: usize,
    /// Of those, changed and not written back.
    pub dirty_bytes: usize,
    /// Bytes of redo that the next open would read.
    pub redo_bytes: u64,
    /// Pages of redo that the next open would read.
    pub redo_pages: usize,
    /// Reads of pages that were not in memory.
    pub misses: u64,
    /// Nodes that commits split.
    pub splits: u64,
    /// Nodes that commits merged with a neighbour.
    pub merges: u64,
    /// Bytes of nodes that were written back since the database was opened.
    pub written_bytes: u64,
}
