//! The state of a drive: what readers share, and what the one writer at a time changes.
//!
//! ```text
//!   readers:  epoch ─► map, index (resident pages) ─► versions ─► medium        no lock over I/O
//!   writer:   one lock: space, log, numbers                                      system actions, one at a time
//! ```
//!
//! A failure that leaves it open what is durable makes the drive read-only until it is opened again.

use std::sync::{Arc, OnceLock};

use lode_base::{CELL_BYTES, Geometry};
use lode_command::{Align, Identity};
use lode_flash::Medium;
use parking_lot::{Mutex, RwLock};

use crate::append::Space;
use crate::checkpoint::Tables;
use crate::drive_page;
use crate::epochs::Epochs;
use crate::extents::Extents;
use crate::index::{IndexPage, Rules};
use crate::log::LogWriter;
use crate::map::{Entry, MapPage, PageCache, Resident};
use crate::summary::Stream;
use crate::versions::Versions;
use crate::{DriveInfo, DriveOptions, FirmwareError};

/// Fewest EBLOCKs that a drive works with: two of the log, one a stream, and what is kept in reserve.
pub(crate) const EBLOCKS_MIN: u32 = 16;
/// Smallest EBLOCK: an index page must fit.
pub(crate) const EBLOCK_BYTES_MIN: u32 = 1 << 20;
/// Bytes of the drive's own pages that are written at a time.
const FLUSH_BYTES: usize = 4 << 20;

pub(crate) struct Core {
    pub(crate) medium: Medium,
    pub(crate) options: DriveOptions,
    pub(crate) identity: Identity,
    pub(crate) map: PageCache<MapPage>,
    pub(crate) index: PageCache<IndexPage>,
    pub(crate) rules: RwLock<Arc<Rules>>,
    pub(crate) extents: RwLock<Extents>,
    pub(crate) versions: Versions,
    pub(crate) epochs: Epochs,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) read_only: OnceLock<String>,
}

/// What only the holder of the writer's lock knows and changes.
pub(crate) struct Writer {
    pub(crate) space: Space,
    pub(crate) log: LogWriter,
    /// The newest commit.
    pub(crate) commit: u64,
    /// Where the pieces of the tables lie.
    pub(crate) tables: Tables,
    /// Whether they changed since the root was written.
    pub(crate) root_due: bool,
    /// Pages of the drive that were replaced since the last checkpoint, which still names them: pinned.
    pub(crate) superseded: Vec<Entry>,
    pub(crate) rules_changed: bool,
}

impl Core {
    pub(crate) fn geometry(&self) -> &Geometry {
        self.medium.geometry()
    }

    /// Log that may be written between two checkpoints, in bytes.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.options.checkpoint_log_bytes.min(self.geometry().capacity_bytes() / 16)
    }

    pub(crate) fn check_writable(&self) -> Result<(), FirmwareError> {
        match self.read_only.get() {
            None => Ok(()),
            Some(why) => Err(FirmwareError::ReadOnly(why.clone())),
        }
    }

    /// Takes note of a failed write: one that was not for want of space makes the drive read-only.
    pub(crate) fn failed(&self, e: FirmwareError) -> FirmwareError {
        if !e.is_no_space() {
            self.fatal(&e);
        }
        e
    }

    /// Makes the drive read-only.
    pub(crate) fn fatal(&self, e: &FirmwareError) {
        // The first failure is the cause; a later one says nothing new.
        let _ = self.read_only.set(e.to_string());
    }

    /// EBLOCKs that batches of pages may not take: the log until the next checkpoint, that checkpoint with
    /// every page of the drive written anew, and a recovery after it.
    pub(crate) fn reserve_eblocks(&self, w: &Writer) -> u32 {
        let eblock = u64::from(self.geometry().eblock_bytes());
        let log = self.log_bytes_max().saturating_sub(w.log.bytes).div_ceil(eblock) + 3;
        let tables = self.extents.read().media_bytes() + w.space.summary.len() as u64 * 32;
        let own = self.map.media_bytes() + self.index.media_bytes() + tables;
        (log + (2 * own).div_ceil(eblock) + 1).min(u64::from(u32::MAX)) as u32
    }

    /// Bytes that batches can still write, about.
    pub(crate) fn free_bytes(&self, w: &Writer) -> u64 {
        let free = w.space.free_eblocks().saturating_sub(self.reserve_eblocks(w));
        u64::from(free) * u64::from(self.geometry().eblock_bytes())
            + w.space.open_bytes(&self.medium, Stream::User)
    }

    /// Appends pages of the drive's own, which now count as live; answers where they lie.
    pub(crate) fn append_own(&self, w: &mut Writer, pages: &[Vec<u8>]) -> Result<Vec<Entry>, FirmwareError> {
        let lens: Vec<_> = pages.iter().map(|p| (p.len(), Align::Cell)).collect();
        let items: Vec<&[u8]> = pages.iter().map(|p| &p[..]).collect();
        let commit = w.commit;
        let append = |w: &mut Writer| {
            let layout = w.space.layout(&self.medium, Stream::Drive, &lens);
            w.space.write(&self.medium, Stream::Drive, &items, &layout, commit)
        };
        let places = match append(w) {
            Err(e) if e.is_no_space() && w.space.give_up_open(Stream::Drive, commit) => append(w)?,
            written => written?,
        };
        let entry = |(ppa, p): (lode_base::Ppa, &Vec<u8>)| {
            let e = Entry::new(ppa, p.len(), false);
            w.space.summary.add_live(self.geometry().locate(ppa).0, e.cells_bytes());
            e
        };
        Ok(places.into_iter().zip(pages).map(entry).collect())
    }

    /// A page of the drive has another home: the old one is needed until the next checkpoint is durable.
    pub(crate) fn supersede(&self, w: &mut Writer, old: Option<Entry>) {
        if let Some(old) = old {
            let (e, _) = self.geometry().locate(old.ppa(self.geometry()));
            w.space.summary.sub_live(e, old.cells_bytes(), true);
            w.superseded.push(old);
        }
    }

    /// Writes the dirty pages of a cache.
    pub(crate) fn flush<T: Resident>(
        &self,
        w: &mut Writer,
        cache: &PageCache<T>,
    ) -> Result<(), FirmwareError> {
        let mut dirty = cache.dirty().into_iter().peekable();
        while dirty.peek().is_some() {
            let (mut numbers, mut pages, mut bytes) = (Vec::new(), Vec::new(), 0);
            while bytes < FLUSH_BYTES
                && let Some((number, page)) = dirty.next()
            {
                if page.is_vacant() {
                    self.supersede(w, cache.written(number, None));
                    continue;
                }
                let page = drive_page::encode(T::KIND, number, &page.encode());
                bytes += page.len().next_multiple_of(CELL_BYTES);
                numbers.push(number);
                pages.push(page);
            }
            let homes = self.append_own(w, &pages)?;
            for (number, home) in numbers.into_iter().zip(homes) {
                self.supersede(w, cache.written(number, Some(home)));
            }
        }
        Ok(())
    }

    /// Writes dirty mapping and index pages when they take too much of their budgets. They are found from the next
    /// checkpoint on; until then the log has what they say. What they replace is free only after that checkpoint
    /// too: it is made now where there is no room to wait for it.
    pub(crate) fn write_back(&self, w: &mut Writer) -> Result<(), FirmwareError> {
        let (map, index) = (self.map.wants_writing(), self.index.wants_writing());
        if !map && !index {
            return Ok(());
        }
        let eblock = u64::from(self.geometry().eblock_bytes());
        let dirty = (self.map.dirty_bytes() + self.index.dirty_bytes()).div_ceil(eblock) + 1;
        if u64::from(w.space.free_eblocks()) < u64::from(self.reserve_eblocks(w)) + dirty {
            self.checkpoint(w, false)?;
        }
        if map {
            self.flush(w, &self.map)?;
            self.map.make_room();
        }
        if index {
            self.flush(w, &self.index)?;
            self.index.make_room();
        }
        Ok(())
    }

    pub(crate) fn info(&self) -> DriveInfo {
        let w = self.writer.lock();
        let in_use = w.space.summary.all().filter(|(_, d)| d.state != crate::summary::State::Free);
        let (mut eblocks_used, mut live_bytes) = (0, 0);
        for (_, d) in in_use {
            eblocks_used += 1;
            live_bytes += u64::from(d.live);
        }
        DriveInfo {
            geometry: *self.geometry(),
            uuid: self.medium.uuid(),
            open_epoch: self.medium.open_epoch(),
            commit: self.versions.newest(),
            extents: self.extents.read().all().count() as u64,
            live_bytes,
            free_bytes: self.free_bytes(&w),
            eblocks_used,
            log_bytes: w.log.bytes,
            image_bytes: self.medium.image_bytes(),
            media_bytes_read: self.medium.media_bytes_read(),
            media_bytes_written: self.medium.media_bytes_written(),
            views: self.versions.open_count(),
        }
    }
}
