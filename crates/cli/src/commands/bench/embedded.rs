//! The embedded API over an image file or a served drive, for workloads. It opens the database, does background work
//! while the workload runs, and closes it.
//!
//! ```text
//!   --drive FILE or ADDRESS, which stays | one that goes away ─► drive ─► Database ─► LodeStore, with its background work on a thread
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lode::{AnyDrive, CAPACITY_BYTES, Memory};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_workload::disk::Disk;
use lode_workload::harness::{Probes, RunError, Schedule};
use lode_workload::lode::LodeStore;
use lode_workload::measure::Causes;
use lode_workload::store::StoreError;
use lode_workload::upkeep::Upkeep;

use crate::allocator;
use crate::drive_file::format_with;
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::table::{bytes, parse_bytes};

/// The place of a workload's database, and its memory.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct DatabasePlace {
    /// A drive to use, or to make and keep, or tcp://HOST:PORT; by default a temporary one
    #[arg(long, value_name = "FILE")]
    drive: Option<PathBuf>,

    /// The directory of a temporary drive, whose file system is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Limit of memory: half for pages of trees, an eighth for tables, the rest for the drive and the workload; below 256MB
    /// the process needs more than the limit
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = parse_bytes)]
    pub(super) memory: u64,
}

/// The times of a workload.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Times {
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds, allow_negative_numbers = true)]
    seconds: Duration,

    /// Seconds to run before the measurement
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds, allow_negative_numbers = true)]
    warm_up: Duration,

    /// Seconds per interval of the throughput over time
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds, allow_negative_numbers = true)]
    interval: Duration,
}

impl Times {
    pub(super) fn schedule(&self) -> Schedule {
        // A measurement of zero length has no rate, and with a zero interval there would be infinitely many.
        let least = Duration::from_millis(1);
        Schedule {
            warm_up: self.warm_up,
            length: self.seconds.max(least),
            interval: self.interval.max(least),
        }
    }
}

/// Parses a time of the command line.
pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("seconds are a number from 0 to 86400, such as 0.5".into()),
    }
}

/// An open database.
pub(super) struct Embedded {
    drive: AnyDrive,
    pub(super) store: LodeStore,
    pub(super) path: PathBuf,
    /// The directory of a temporary drive. It is removed when this is dropped.
    dir: Option<tempfile::TempDir>,
}

impl Embedded {
    /// Opens the named drive, or makes one.
    pub(super) fn open(place: &DatabasePlace) -> CliResult<Self> {
        allocator::keep_to_a_limit();
        let memory = Memory::within(place.memory);
        Self::open_within(place.drive.as_deref(), &place.dir, &memory, CAPACITY_BYTES)
    }

    /// Opens the drive at a path, or makes a temporary one of this capacity in a directory.
    pub(super) fn open_within(
        drive: Option<&Path>,
        dir: &Path,
        memory: &Memory,
        capacity_bytes: u64,
    ) -> CliResult<Self> {
        memory.limit_process();
        let (path, dir) = match drive {
            Some(path) => (path.to_path_buf(), None),
            None => {
                let dir = tempfile::tempdir_in(dir).map_err(|e| CliError::file(dir, e))?;
                (dir.path().join("bench.lode"), Some(dir))
            }
        };
        let is_there = lode::drive::address(&path).is_some() || std::fs::symlink_metadata(&path).is_ok();
        let drive = match is_there {
            true => AnyDrive::open(&path, memory.drive.clone())?,
            false => AnyDrive::Local(format_with(&path, capacity_bytes, memory.drive.clone())?),
        };
        let options = DatabaseOptions { now: Some(Instant::now), ..memory.database.clone() };
        let database = Database::open(drive.device(), options).map_err(|e| CliError::database(&path, e))?;
        Ok(Self { drive, store: LodeStore(database), path, dir })
    }

    /// Runs `work` with probes of the disk and the drive, while a thread does background work.
    pub(super) fn run<R>(&self, work: impl FnOnce(&Probes<'_>) -> Result<R, RunError>) -> CliResult<R> {
        let (upkeep, over) = (self.store.upkeep(causes(self.drive.local())), AtomicBool::new(false));
        let disk = self
            .drive
            .local()
            .and_then(|_| self.path.parent())
            .and_then(|dir| Disk::under(if dir.as_os_str().is_empty() { Path::new(".") } else { dir }));
        let probes = Probes {
            disk: &|| disk.as_ref().and_then(Disk::bytes_written),
            causes: &|| upkeep.causes(),
            settle: &|| upkeep.settle(),
            stop: &|| interrupt::signal().is_some(),
        };
        std::thread::scope(|s| {
            let background = s.spawn(|| upkeep.background(&over));
            let result = work(&probes);
            over.store(true, Ordering::Relaxed);
            background.join().expect("background work does not panic").map_err(failed)?;
            result.map_err(run_failed)
        })
    }

    /// Closes the database and the drive, so that the next opening is fast.
    pub(super) fn close(self) -> CliResult {
        let Self { drive, store, path, dir } = self;
        store.0.flush()?;
        drop(store);
        let goes_away = dir.is_some();
        drop(dir);
        match drive.close(&path) {
            _ if goes_away => Ok(()),
            closed => Ok(closed?),
        }
    }

    /// The drive, if its firmware runs in this process.
    pub(super) fn local(&self) -> Option<&Drive> {
        self.drive.local()
    }

    /// The note on what is not measured, if the drive is served elsewhere.
    pub(super) fn note(&self) -> Option<&'static str> {
        self.drive.local().is_none().then_some(SERVED)
    }
}

/// The note below the figures of a drive that is served elsewhere.
pub(super) const SERVED: &str = "The drive is served elsewhere: what it programmed, its disk, and the memory of its server, are not measured here.";

/// A probe of the bytes that a drive programmed, by cause. It answers `None` if the drive is not in this process.
pub(super) fn causes(drive: Option<&Drive>) -> impl Fn() -> Option<Causes> + Send + Sync + use<> {
    let drive = drive.cloned();
    move || {
        let info = drive.as_ref()?.info();
        let (pages, collection) = (info.user_bytes_written, info.gc_bytes_moved);
        Some(Causes { pages, collection, all: info.media_bytes_written })
    }
}

pub(super) fn failed(e: StoreError) -> CliError {
    CliError::Failed(e.to_string())
}

pub(super) fn run_failed(e: RunError) -> CliError {
    match e {
        RunError::Stopped => CliError::Interrupted,
        RunError::Store(e) => failed(e),
    }
}

/// Formats bytes by cause.
pub(super) fn causes_text(c: Option<Causes>) -> String {
    c.map_or_else(
        || "-".into(),
        |c| {
            format!(
                "pages {}, GC {}, log and the rest {}",
                bytes(c.pages),
                bytes(c.collection),
                bytes(c.rest())
            )
        },
    )
}
