//! What a store may be told, and what it says of itself.

use lode_base::VirtualDuration;

/// Which segment is cleaned next, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// The oldest segment: it is read whole, and its units tell which of its pages are current (ELEOS §IX-C, LLAMA).
    OldestWhole,
    /// The segment that gains most for what it costs by age, of which current pages alone are read: the host keeps the names
    /// of what is in a segment in memory. A segment with nothing current is let go unread.
    CostBenefit,
}

/// Options of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LssOptions {
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Every page begins at a block: a page of up to 4 KB takes one.
    pub whole_blocks: bool,
    /// Which segments are cleaned.
    pub cleaning: Cleaning,
    /// Cleaning begins when fewer segments than this share are free, in percent.
    pub free_percent: u32,
    /// Share of the segments that is never filled, in percent.
    pub over_provision_percent: u32,
    /// A checkpoint is due after so many bytes of log; none otherwise than by need, if there is no number.
    pub checkpoint_bytes: Option<u64>,
    /// What placing, finding or moving a page costs the host's CPU, on a modelled device.
    pub page_cost: VirtualDuration,
    /// Most views open at a time.
    pub views_max: u32,
}

impl Default for LssOptions {
    fn default() -> Self {
        Self {
            segment_blocks: 1020,
            whole_blocks: false,
            cleaning: Cleaning::OldestWhole,
            free_percent: 10,
            over_provision_percent: 7,
            checkpoint_bytes: Some(64 << 20),
            page_cost: VirtualDuration::ZERO,
            views_max: 1024,
        }
    }
}

/// What a store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LssInfo {
    /// Segments, and those that are free.
    pub segments: u32,
    /// Segments that can be written.
    pub segments_free: u32,
    /// Bytes of pages that something needs.
    pub live_bytes: u64,
    /// Bytes of pages of batches.
    pub user_bytes: u64,
    /// Units written.
    pub units: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Bytes that cleaning read, and moved.
    pub cleaning_bytes_read: u64,
    /// Bytes of pages that cleaning moved.
    pub cleaning_bytes_moved: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes of mapping and roots in them.
    pub checkpoint_bytes: u64,
    /// Units that opening replayed.
    pub replayed_units: u64,
    /// Bytes that opening read.
    pub opening_bytes_read: u64,
}
