//! The drive: makes and opens images, and dispatches commands.
//!
//! ```text
//!   format │ recover ─► Drive ── open_queue ─► queues ── complete ─► run(command)
//! ```

use std::path::Path;
use std::sync::Arc;

use lode_base::{Geometry, Lpid, VirtualTime};
use lode_base::{SessionId, ViewId};
use lode_command::{
    Budget, Command, CommandError, Device, DeviceError, ExtentInfo, Identity, PageRange, Progress, Queue,
    Reply, check_answer,
};
use lode_flash::Medium;
use lode_program::IndexEntry;

use crate::compute::PageAccess;
use crate::core::Core;
use crate::queue::DriveQueue;
use crate::read::UnitAccess;
use crate::recovery::{self, Unrecovered};
use crate::{CheckReport, DriveInfo, DriveOptions, FirmwareError, ScrubReport};

/// A recovered drive. Clones are the same drive. Dropping it loses nothing that was acknowledged;
/// [`Drive::close`] makes the next open fast.
#[derive(Clone)]
pub struct Drive {
    core: Arc<Core>,
}

impl Drive {
    pub(crate) fn of(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    /// A new, empty drive on a fresh medium.
    ///
    /// # Errors
    /// When the medium is too small, or can not be written.
    ///
    /// # Panics
    /// When the medium is not fresh.
    pub fn format(medium: Medium, options: DriveOptions) -> Result<Self, FirmwareError> {
        recovery::format(medium, options).map(Self::of)
    }

    /// A new image file with an empty drive. `seed` is where its uuid comes from.
    ///
    /// # Errors
    /// When there is a file already, or it can not be written; then nothing is left behind.
    pub fn create_file(
        path: &Path,
        geometry: Geometry,
        options: DriveOptions,
        seed: u64,
    ) -> Result<Self, FirmwareError> {
        recovery::check_geometry(&geometry)?;
        let medium = Medium::create_file(path, geometry, seed)?;
        Self::format(medium, options).inspect_err(|_| {
            // The first error is the one to tell.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Opens an image file and recovers the drive in it.
    ///
    /// # Errors
    /// When it is no image, is damaged, or is open elsewhere. Each message is one line that names the
    /// problem.
    pub fn open_file(path: &Path, options: DriveOptions) -> Result<Self, FirmwareError> {
        Unrecovered::new(Medium::open_file(path)?, options).recover()
    }

    /// A volatile drive of up to `capacity_bytes`, in memory.
    ///
    /// # Panics
    /// When the capacity is too small for a drive, or beyond 256 TB.
    pub fn in_memory(capacity_bytes: u64) -> Self {
        let geometry = Geometry::file(capacity_bytes).expect("a capacity up to 256 TB");
        Self::format(Medium::memory(geometry), DriveOptions::default())
            .expect("a capacity that is enough for a drive")
    }

    /// What the drive holds and did.
    pub fn info(&self) -> DriveInfo {
        self.core.info()
    }

    /// The sessions that are open. After an opening: those of hosts that may return.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.core.seq.lock().sessions.all()
    }

    /// Reads all that counts, mends what has a second copy, and moves what is hard to read. Batches go on meanwhile.
    ///
    /// # Errors
    /// When what was mended can not be written.
    pub fn scrub(&self) -> Result<ScrubReport, FirmwareError> {
        self.core.scrub()
    }

    /// Walks every structure and every page. Batches wait until it is over.
    pub fn check(&self) -> CheckReport {
        self.core.check()
    }

    /// What must hold of everything in memory, at any moment between two commands.
    ///
    /// # Panics
    /// When it does not hold: the drive itself is wrong.
    pub fn check_invariants(&self) {
        self.core.check_invariants();
    }

    /// Writes a checkpoint after which the next open has nothing to replay. All clones then take no more
    /// writes.
    ///
    /// # Errors
    /// When the checkpoint can not be written, or the drive was read-only; nothing acknowledged is lost.
    pub fn close(self) -> Result<(), FirmwareError> {
        let core = &self.core;
        let _background = core.background.lock();
        core.checkpoint_now(true)?;
        // The image is closed and whole: space that does not go back now is used first next time.
        let _ = core.give_back();
        // A clone may be left: what it wrote now would not be looked for.
        let _ = core.read_only.set("it was closed".into());
        Ok(())
    }

    /// The drive as it would be found after a power cut at this moment; `None` when it lies in a file.
    ///
    /// # Errors
    /// As [`Unrecovered::recover`].
    pub fn after_power_cut(&self) -> Option<Result<Self, FirmwareError>> {
        let medium = self.core.medium.after_power_cut()?;
        Some(Unrecovered::new(medium, self.core.options.clone()).recover())
    }
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Drive({:?})", self.core.medium)
    }
}

impl Device for Drive {
    fn identity(&self) -> &Identity {
        &self.core.identity
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        let max = self.core.identity.queue_depth_max;
        if !(1..=max).contains(&depth) {
            return Err(DeviceError::QueueDepth { got: depth, max });
        }
        Ok(Box::new(DriveQueue::new(self.core.clone(), depth)))
    }

    fn work(&self, at: VirtualTime, budget: Budget) -> Progress {
        let core = &self.core;
        if budget.write_bytes == 0 {
            return Progress::Idle;
        }
        let mut _stepping = None;
        if let Some(m) = core.medium.model() {
            _stepping = Some(core.stepping.lock());
            // As a command would: not before what began already, and not where its time could not be counted.
            let at = at.max(m.earliest());
            if at.max(m.latest()) > VirtualTime::BEGIN_MAX {
                return Progress::Idle;
            }
            m.begin(at);
        }
        core.work(at).unwrap_or_else(|e| {
            core.note(&e);
            Progress::Idle
        })
    }
}

impl Core {
    /// Refuses what needs the bytes of pages, on a medium that does not keep them.
    pub(crate) fn check_content(&self) -> Result<(), CommandError> {
        match self.medium.keeps_user_data() {
            true => Ok(()),
            false => Err(CommandError::NoContent),
        }
    }

    /// Runs a command that completes at once. Scans are the queue's.
    pub(crate) fn run(&self, c: Command) -> Result<Reply, CommandError> {
        match c {
            Command::Write(batch) => self.write(batch),
            Command::Read { view, pages } => self.read_pages(view, &pages),
            Command::Scan(_) => unreachable!("a queue runs scans itself"),
            Command::OpenView => {
                let (view, commit) = self.versions.open();
                Ok(Reply::View { view, commit })
            }
            Command::CloseView(view) => match self.versions.close(view) {
                true => Ok(Reply::Done),
                false => Err(CommandError::ViewClosed(view)),
            },
            Command::AllocateExtents { owner, count } => self.allocate(owner, count),
            Command::ListExtents => self.list_extents(),
            Command::BuildIndex(owner) => self.check_content().and_then(|()| self.build_index(owner)),
            Command::ReadIndex { view, pages } => {
                self.check_content()?;
                self.read_index(view, &pages)
            }
            Command::Checkpoint => {
                self.checkpoint(false)?;
                Ok(Reply::Done)
            }
            Command::Flush => {
                self.flush_log()?;
                Ok(Reply::Done)
            }
            Command::OpenSession => self.open_session(),
            Command::CloseSession(session) => self.close_session(session),
            Command::ResumeSession(session) => {
                let highest = self.seq.lock().sessions.highest(session)?;
                Ok(Reply::Session { session, highest })
            }
        }
    }

    fn list_extents(&self) -> Result<Reply, CommandError> {
        let all: Vec<_> = {
            let extents = self.extents.read();
            check_answer(extents.owned() * size_of::<ExtentInfo>() as u64)?;
            extents.all().collect()
        };
        let info = |(extent, owner): (lode_base::ExtentId, lode_base::OwnerId)| {
            let pages_mapped = match self.map.get(&self.medium, &self.epochs, extent.raw()) {
                Ok(map) => Some(map.map_or(0, |m| m.mapped().count() as u32)),
                // Whoever reads its pages is told; the other extents are listed all the same.
                Err(e) if e.is_damage() => None,
                Err(e) => return Err(e.into()),
            };
            Ok(ExtentInfo { extent, owner, pages_mapped })
        };
        all.into_iter().map(info).collect::<Result<_, CommandError>>().map(Reply::ExtentList)
    }

    fn read_index(&self, view: ViewId, pages: &[PageRange]) -> Result<Reply, CommandError> {
        // As they lie in memory, which is more than they take on the link: an entry is a block of its own there.
        let entry_bytes = size_of::<(Lpid, Option<IndexEntry>)>() as u64 + ENTRY_BLOCK_BYTES_MIN;
        let pages_max: u64 = pages.iter().map(|r| u64::from(r.count)).sum();
        if check_answer(pages_max * entry_bytes).is_err() {
            let mut mapped = 0;
            for range in pages {
                mapped += UnitAccess::new(self, view, self.options.scan_placement)
                    .mapped(view, checked(range)?)?
                    .len() as u64;
                check_answer(mapped * entry_bytes)?;
            }
        }
        let mut entries = Vec::new();
        let mut bytes = 0;
        let rules = self.rules.read().clone();
        for range in pages {
            let range = checked(range)?;
            let access = UnitAccess::new(self, view, self.options.scan_placement);
            // A version that a view shows may have an entry of a rule that is no more: the host could not read it.
            let mapped = access.mapped(view, range)?;
            bytes += mapped.len() as u64 * entry_bytes;
            check_answer(bytes)?;
            for at in mapped {
                let entry = access.index_entry(&at)?.filter(|(r, _)| rules.stands(r));
                bytes += entry.as_ref().map_or(0, |(_, e)| e.encoded_bytes() as u64);
                check_answer(bytes)?;
                entries.push((at.lpid, entry.map(|(_, e)| e)));
            }
        }
        Ok(Reply::IndexEntries(entries))
    }
}

/// The least that the bytes of an index entry take in memory: one column's range, as an allocator rounds it up.
const ENTRY_BLOCK_BYTES_MIN: u64 = 32;

/// Pages of one extent.
fn checked(range: &PageRange) -> Result<PageRange, CommandError> {
    match usize::from(range.first) + usize::from(range.count) > lode_base::EXTENT_PAGES {
        true => {
            let (count, first) = (range.count, range.first);
            Err(CommandError::Invalid(format!("{count} pages from {first} of an extent")))
        }
        false => Ok(*range),
    }
}
