//! What a drive may use, and what it says of itself.

use std::fmt;

use lode_base::{CommitNo, Geometry};

use crate::gc::GcPolicy;
use crate::record::Record;

/// Budgets and limits of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveOptions {
    /// Memory for mapping pages, in bytes.
    pub map_cache_bytes: usize,
    /// Memory for pages of the page index, in bytes.
    pub index_cache_bytes: usize,
    /// Memory for tags of the medium, in bytes: 4 KB per MB of data. More than 16 MB is of no use.
    pub tag_cache_bytes: usize,
    /// A checkpoint is due after this much log, in bytes; on small media sooner.
    pub checkpoint_log_bytes: u64,
    /// Largest batch, in bytes of payload.
    pub batch_bytes_max: u64,
    /// Most pages (writes, trims) in a batch.
    pub batch_pages_max: u32,
    /// Longest page, in bytes: at most 2 MB - 1.
    pub page_bytes_max: u32,
    /// Most views open at a time; one more closes the oldest.
    pub views_max: u32,
    /// Commits after which a view is closed, since it keeps ever more old versions from GC.
    pub view_commits_max: u64,
    /// Deepest queue.
    pub queue_depth_max: u32,
    /// Most erased EBLOCKs that keep their space in the file, ready for reuse. When little is in use, fewer keep it. Once the
    /// drive is closed, none does.
    pub erased_kept: u32,
    /// Steps of background work in a row, without a batch, that find nothing to do: after them the drive is at rest. It then gives
    /// back what its image takes beyond what it holds. `None`: it never is.
    pub rest_steps: Option<u32>,
    /// Most batches that a queue has under way at a time.
    pub in_flight_max: u32,
    /// Most sessions open at a time.
    pub sessions_max: u32,
    /// A batch of at most so many bytes of pages is inlined: it travels whole in the log, and its pages move to EBLOCKs later.
    /// At most 16 KB; 0: no batch is inlined.
    pub inline_bytes_max: u32,
    /// Memory for inlined pages, in bytes; at most half an EBLOCK.
    pub inline_buffer_bytes: usize,
    /// How often each log page is written, 1 or 2: a damaged page is read from its copy.
    pub log_copies: u32,
    /// Memory for index rules, in bytes.
    pub rules_bytes_max: u64,
    /// Memory for programs and sets of keys that hosts register, in bytes.
    pub registered_bytes_max: u64,
    /// Which EBLOCK GC empties next.
    pub gc_policy: GcPolicy,
    /// Share of the EBLOCKs that is never filled, in percent, so that GC always finds something to gain.
    pub over_provision_percent: u32,
    /// GC begins when fewer EBLOCKs than a tenth of all are free, or than this.
    pub gc_free_eblocks_max: u32,
    /// GC begins when EBLOCKs take more than this share of the bytes that are needed of them, in percent. It bounds the
    /// length of the image.
    pub space_percent_max: u32,
    /// EBLOCKs that may fail before the drive is read-only, set aside from the usable capacity. `None`: one in 32, at most 64.
    pub spare_eblocks: Option<u32>,
    /// Where tasks run, on a modelled device.
    pub scan_placement: ScanPlacement,
}

/// What filters the rows of a task on a modelled device. The answers are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ScanPlacement {
    /// In the scan unit of each channel, as they pass, if it has comparators. If it has a pattern matcher, by a core.
    #[default]
    ScanUnit,
    /// By a core of the device, in its memory.
    Core,
}

impl Default for DriveOptions {
    fn default() -> Self {
        Self {
            map_cache_bytes: 64 << 20,
            index_cache_bytes: 64 << 20,
            tag_cache_bytes: 16 << 20,
            checkpoint_log_bytes: 64 << 20,
            batch_bytes_max: 256 << 20,
            batch_pages_max: 65_536,
            page_bytes_max: (2 << 20) - 64,
            views_max: 1024,
            view_commits_max: 1 << 30,
            queue_depth_max: 1024,
            erased_kept: 32,
            rest_steps: Some(50),
            in_flight_max: 32,
            sessions_max: 1024,
            inline_bytes_max: 2 << 10,
            inline_buffer_bytes: 4 << 20,
            log_copies: 2,
            rules_bytes_max: 64 << 20,
            registered_bytes_max: 16 << 20,
            gc_policy: GcPolicy::default(),
            over_provision_percent: 7,
            gc_free_eblocks_max: 8,
            space_percent_max: 200,
            spare_eblocks: None,
            scan_placement: ScanPlacement::default(),
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
    /// Bytes that only read views still need.
    pub pinned_bytes: u64,
    /// Bytes of pages that are inlined in the log, and in memory.
    pub inlined_bytes: u64,
    /// Bytes that can still be written by batches.
    pub free_bytes: u64,
    /// Bytes of pages that the drive takes at most.
    pub usable_bytes: u64,
    /// EBLOCKs that hold something, the log's included.
    pub eblocks_used: u32,
    /// EBLOCKs that can be opened now.
    pub eblocks_free: u32,
    /// EBLOCKs that failed.
    pub eblocks_retired: u32,
    /// Further EBLOCKs that may fail.
    pub spares: u32,
    /// Erasures of the least and the most worn EBLOCK that was ever used.
    pub erase_counts: (u32, u32),
    /// Bytes of log since the last checkpoint.
    pub log_bytes: u64,
    /// Memory that mapping pages take, in bytes.
    pub map_bytes: u64,
    /// Length of the image, holes included.
    pub image_bytes: u64,
    /// Bytes read from the medium since it was opened.
    pub media_bytes_read: u64,
    /// Bytes programmed since it was opened.
    pub media_bytes_written: u64,
    /// Bytes programmed for pages of batches, dead or alive, in EBLOCKs that hold them now.
    pub data_bytes: u64,
    /// Bytes of pages that batches wrote since it was opened.
    pub user_bytes_written: u64,
    /// Bytes of pages that GC moved since.
    pub gc_bytes_moved: u64,
    /// EBLOCKs that GC emptied since.
    pub gc_victims: u64,
    /// Programs that failed since.
    pub program_failures: u64,
    /// Groups that the log took since, each with one sync.
    pub log_groups: u64,
    /// System actions in them.
    pub log_actions: u64,
    /// Checkpoints that became durable since.
    pub checkpoints: u64,
    /// Open read views.
    pub views: u32,
    /// Open sessions.
    pub sessions: u32,
    /// Why it takes no writes, if it takes none.
    pub read_only: Option<String>,
    /// What its opening took.
    pub recovery: RecoveryReport,
}

/// What recovery read, and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whether the drive had been closed.
    pub clean: bool,
    /// Log pages read, in the first of two passes.
    pub log_pages: u64,
    /// Groups of records in them that count.
    pub log_groups: u64,
    /// Records in those.
    pub log_records: u64,
    /// Mapping and index pages that lacked some of them.
    pub pages: u64,
    /// Structures that were read from their second copy.
    pub repaired: u64,
    /// Groups at the log's end that do not count, since their data is not whole: 0 or 1.
    pub log_groups_rejected: u64,
    /// The kinds of the records of the last group that counts, a bit each.
    pub(crate) last_kinds: u16,
}

impl RecoveryReport {
    /// Names of all kinds of log records.
    pub const RECORD_KINDS: &[&str] = &Record::KINDS;

    /// The kinds of records that the last group of the log held which counts.
    pub fn last_kinds(&self) -> impl Iterator<Item = &'static str> {
        let kinds = self.last_kinds;
        Record::KINDS.into_iter().enumerate().filter(move |(k, _)| kinds & 1 << k != 0).map(|(_, name)| name)
    }
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
        writeln!(
            f,
            "EBLOCKs         {} used of {}, {} failed",
            self.eblocks_used,
            g.eblock_count(),
            self.eblocks_retired
        )?;
        writeln!(f, "erasures        {} to {} an EBLOCK", self.erase_counts.0, self.erase_counts.1)?;
        writeln!(f, "live            {} bytes", self.live_bytes)?;
        writeln!(f, "free            {} bytes", self.free_bytes)?;
        writeln!(f, "image           {} bytes", self.image_bytes)?;
        writeln!(f, "extents         {}", self.extents)?;
        writeln!(f, "newest commit   {}", self.commit)?;
        writeln!(f, "opened          {} times", self.open_epoch)?;
        writeln!(f, "log to replay   {} bytes", self.log_bytes)?;
        let r = &self.recovery;
        let how = if r.clean { "after a clean close" } else { "after a crash, or new" };
        writeln!(
            f,
            "opening         {how}: {} log pages, {} records, {} pages",
            r.log_pages, r.log_records, r.pages
        )?;
        match &self.read_only {
            Some(why) => writeln!(f, "read-only       {why}"),
            None => Ok(()),
        }
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

/// What a scrub found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// What cannot be read any more, a line each; none when all is well.
    pub lost: Vec<String>,
    /// Pages read and verified, the drive's own included.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Structures that were damaged in one copy, and are whole again.
    pub mended: u64,
    /// EBLOCKs that were emptied because they failed or were hard to read.
    pub refreshed: u64,
}
