//! Options and statistics of a store.

use lode_base::VirtualDuration;

/// How cleaning chooses and reads a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// Cleans the oldest segment and reads it whole. Its units tell which pages it holds (ELEOS §IX-C, LLAMA).
    OldestWhole,
    /// Cleans the segment with the best ratio of benefit, weighted by age, to cost, and reads only its current pages.
    /// The host keeps the names of the pages of each segment in memory. A segment without current pages is not read.
    CostBenefit,
}

/// Options of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LssOptions {
    /// The number of blocks in a segment.
    pub segment_blocks: u32,
    /// Whether every page begins at a block. A page of up to 4 KB then takes a whole block.
    pub whole_blocks: bool,
    /// How segments are cleaned.
    pub cleaning: Cleaning,
    /// Cleaning begins when less than this share of the segments is free, in percent.
    pub free_percent: u32,
    /// The share of the segments that is never filled, in percent.
    pub over_provision_percent: u32,
    /// A checkpoint is due after this many bytes of log. With `None`, a checkpoint is written only when segments run
    /// short.
    pub checkpoint_bytes: Option<u64>,
    /// The time of the host's CPU that placing, finding or moving a page costs on a modelled device.
    pub page_cost: VirtualDuration,
    /// The most views open at a time.
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

/// Statistics of a store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LssInfo {
    /// All segments.
    pub segments: u32,
    /// Free segments.
    pub segments_free: u32,
    /// Live bytes.
    pub live_bytes: u64,
    /// Bytes of pages in batches.
    pub user_bytes: u64,
    /// Units written.
    pub units: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Bytes that cleaning read.
    pub cleaning_bytes_read: u64,
    /// Bytes of pages that cleaning moved.
    pub cleaning_bytes_moved: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes of mapping pages and roots in checkpoints.
    pub checkpoint_bytes: u64,
    /// Units replayed when the store was opened.
    pub replayed_units: u64,
    /// Bytes read when the store was opened.
    pub opening_bytes_read: u64,
}
