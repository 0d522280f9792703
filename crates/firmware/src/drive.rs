//! The drive: makes and opens images, and dispatches commands.
//!
//! ```text
//!   format │ recover ─► Drive ── open_queue ─► queues ── complete ─► run(command)
//! ```

use std::path::Path;
use std::sync::Arc;

use lode_base::{Geometry, SessionId, VirtualTime};
use lode_command::{Budget, Device, DeviceError, Identity, Progress, Queue};
use lode_flash::Medium;

use crate::core::Core;
use crate::queue::DriveQueue;
use crate::{CheckReport, DriveInfo, DriveOptions, FirmwareError, ScrubReport, check, info, recovery, scrub};

/// A recovered drive. Clones are the same drive. Dropping it loses nothing that was acknowledged;
/// [`Drive::close`] makes the next open fast.
#[derive(Clone)]
pub struct Drive {
    core: Arc<Core>,
}

impl Drive {
    fn of(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    /// A new, empty drive on a fresh medium.
    ///
    /// # Errors
    /// When the medium is too small, or cannot be written.
    ///
    /// # Panics
    /// When the medium is not fresh.
    pub fn format(medium: Medium, options: DriveOptions) -> Result<Self, FirmwareError> {
        recovery::format(medium, options).map(Self::of)
    }

    /// A new image file with an empty drive. `seed` is where its uuid comes from.
    ///
    /// # Errors
    /// When there is a file already, or it cannot be written; then nothing is left behind.
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
        info::info(&self.core)
    }

    /// The sessions that are open. After an opening: those of hosts that may return.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.core.state().sessions().all()
    }

    /// Reads all that counts, mends what has a second copy, and moves what is hard to read. Batches go on meanwhile.
    ///
    /// # Errors
    /// When what was mended cannot be written.
    pub fn scrub(&self) -> Result<ScrubReport, FirmwareError> {
        scrub::scrub(&self.core)
    }

    /// Walks every structure and every page. Batches wait until it is over.
    pub fn check(&self) -> CheckReport {
        check::check(&self.core)
    }

    /// What must hold of everything in memory, at any moment between two commands.
    ///
    /// # Panics
    /// When it does not hold: the drive itself is wrong.
    pub fn check_invariants(&self) {
        self.core.committer().check_invariants();
    }

    /// Writes a checkpoint after which the next open has nothing to replay. All clones then take no more
    /// writes.
    ///
    /// # Errors
    /// When the checkpoint cannot be written, or the drive was read-only; nothing acknowledged is lost.
    pub fn close(self) -> Result<(), FirmwareError> {
        let upkeep = self.core.upkeep();
        let _background = upkeep.lock();
        // The checkpoint tells whether the drive can be written.
        let _ = upkeep.move_log_on();
        upkeep.checkpointer().checkpoint(true)?;
        // The image is closed and whole: space that does not go back now is used first next time.
        let _ = upkeep.committer().discard_free();
        // A clone may be left: what it wrote now would not be looked for.
        self.core.env().stop("it was closed");
        Ok(())
    }

    /// The drive as it would be found after a power cut at this moment; `None` when it lies in a file.
    ///
    /// # Errors
    /// As [`Unrecovered::recover`].
    pub fn after_power_cut(&self) -> Option<Result<Self, FirmwareError>> {
        let medium = self.core.env().medium().after_power_cut()?;
        Some(Unrecovered::new(medium, self.core.env().options().clone()).recover())
    }
}

/// A medium that was opened, and whose state nobody knows yet.
pub struct Unrecovered {
    medium: Medium,
    options: DriveOptions,
}

impl Unrecovered {
    /// A medium to recover.
    pub fn new(medium: Medium, options: DriveOptions) -> Self {
        Self { medium, options }
    }

    /// Finds the state of the drive. A drive that was not closed gets a checkpoint; if there is no space for
    /// it, the drive opens read-only.
    ///
    /// # Errors
    /// When the image is damaged, or cannot be read or written.
    pub fn recover(self) -> Result<Drive, FirmwareError> {
        recovery::recover(self.medium, self.options).map(Drive::of)
    }
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Drive({:?})", self.core.env().medium())
    }
}

impl Device for Drive {
    fn identity(&self) -> &Identity {
        self.core.env().identity()
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        let max = self.core.env().identity().queue_depth_max;
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
        if let Some(m) = core.env().medium().model() {
            _stepping = Some(core.begin_step());
            // As a command would: not before what began already, and not where its time could not be counted.
            let at = at.max(m.earliest());
            if at.max(m.latest()) > VirtualTime::BEGIN_MAX {
                return Progress::Idle;
            }
            m.begin(at);
        }
        core.upkeep().work().unwrap_or_else(|e| {
            core.env().note(&e);
            Progress::Idle
        })
    }
}
