//! What a drive may use, and what it says of itself.

use std::fmt;

use lode_base::{CommitNo, Geometry};

/// Budgets and limits of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveOptions {
    /// Memory for mapping pages, in bytes.
    pub map_cache_bytes: usize,
    /// Memory for pages of the page index, in bytes.
    pub index_cache_bytes: usize,
    /// A checkpoint is due after this much log, in bytes; on small media sooner.
    pub checkpoint_log_bytes: u64,
    /// Largest batch, in bytes of payload.
    pub batch_bytes_max: u64,
    /// Most pages (writes, trims) in a batch.
    pub batch_pages_max: u32,
    /// Longest page, in bytes: at most 2 MB - 1.
    pub page_bytes_max: u32,
    /// Most views open at a time; past it the oldest is closed.
    pub views_max: u32,
    /// Deepest queue.
    pub queue_depth_max: u32,
    /// Erased EBLOCKs that keep their space in the file, ready to be written over; further ones give it back.
    pub erased_kept: u32,
}

impl Default for DriveOptions {
    fn default() -> Self {
        Self {
            map_cache_bytes: 64 << 20,
            index_cache_bytes: 64 << 20,
            checkpoint_log_bytes: 64 << 20,
            batch_bytes_max: 256 << 20,
            batch_pages_max: 65_536,
            page_bytes_max: (2 << 20) - 64,
            views_max: 1024,
            queue_depth_max: 1024,
            erased_kept: 32,
        }
    }
}

/// What a drive holds and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveInfo {
    /// Units and capacity.
    pub geometry: Geometry,
    /// The image's identity.
    pub uuid: [u8; 16],
    /// How often it was opened.
    pub open_epoch: u32,
    /// The newest commit.
    pub commit: CommitNo,
    /// Extents with an owner.
    pub extents: u64,
    /// Bytes of pages that are mapped, and of the drive's own pages.
    pub live_bytes: u64,
    /// Bytes that can still be written by batches.
    pub free_bytes: u64,
    /// EBLOCKs that hold something, the log's included.
    pub eblocks_used: u32,
    /// Bytes of log since the last checkpoint.
    pub log_bytes: u64,
    /// Length of the image, holes included.
    pub image_bytes: u64,
    /// Bytes read from the medium since it was opened.
    pub media_bytes_read: u64,
    /// Bytes programmed since it was opened.
    pub media_bytes_written: u64,
    /// Open read views.
    pub views: u32,
}

impl fmt::Display for DriveInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = &self.geometry;
        write!(f, "uuid            ")?;
        for (i, b) in self.uuid.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{b:02x}")?;
        }
        writeln!(f)?;
        writeln!(f, "capacity        {} bytes", g.capacity_bytes())?;
        writeln!(
            f,
            "units           RBLOCK {}, WBLOCK {}, EBLOCK {} bytes; {} channels",
            g.rblock_bytes(),
            g.wblock_bytes(),
            g.eblock_bytes(),
            g.channels()
        )?;
        writeln!(f, "EBLOCKs         {} used of {}", self.eblocks_used, g.eblock_count())?;
        writeln!(f, "live            {} bytes", self.live_bytes)?;
        writeln!(f, "free            {} bytes", self.free_bytes)?;
        writeln!(f, "image           {} bytes", self.image_bytes)?;
        writeln!(f, "extents         {}", self.extents)?;
        writeln!(f, "newest commit   {}", self.commit)?;
        writeln!(f, "opened          {} times", self.open_epoch)?;
        writeln!(f, "log to replay   {} bytes", self.log_bytes)
    }
}

/// What a walk over every structure found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, a line each; none when all is well.
    pub problems: Vec<String>,
    /// Logical pages read and verified, the drive's own included.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
}
