//! Opens databases and drives for commands, with their limits of memory and threads.
//!
//! Invariant: an image that this process made is removed again unless [`Opened::keep`] was called, so a failed
//! command leaves nothing half-done. An image that existed before is never removed.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use lode::drive::{self, address};
use lode::{Create, Division, Error, Options};
use lode_base::{Geometry, Profile};
use lode_engine::Database;
use lode_firmware::{Drive, DriveOptions};
use lode_flash::timing::Model;
use lode_sql::{Offload, Session, SessionOptions};

use crate::allocator;
use crate::error::{CliError, CliResult};
use crate::table::{bytes, parse_bytes};

/// Parses a capacity of the command line.
pub(crate) fn parse_capacity(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        n if n < lode::CAPACITY_BYTES_MIN => Err("a drive has a capacity of at least 128MiB".into()),
        n => Ok(n),
    }
}

/// The memory and threads that a command may use.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Resources {
    /// Memory for buffer pool, indexes and queries together
    ///
    /// Queries get half, nodes of B+-tree indexes a sixteenth (at most 128MB), the buffer pool the rest. A query that needs more
    /// borrows it from the buffer pool while it runs. If that is not enough, it spills to disk where it can, and otherwise fails.
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = parse_bytes)]
    pub(crate) memory: u64,

    /// Threads that run a query, each on its part of the data; by default one per core
    #[arg(long, value_name = "N", default_value_t = cores(), value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) partitions: u16,

    /// Whether the runtime has one thread, so that a modelled device gets its commands in the same order in every
    /// run.
    #[arg(skip)]
    one_thread: bool,
}

/// The option for a modelled device.
#[derive(Args, Clone, Debug)]
pub(crate) struct Modelled {
    /// Model the device of a profile: the name of a shipped profile, or the path of a file
    ///
    /// Statements then also show how long they take on the device. The geometry of the image must be that of the profile. `lode drive
    /// format --profile` makes such an image, and so does this command if there is no image.
    #[arg(long, value_name = "NAME|FILE", default_value = "none")]
    profile: String,
}

impl Modelled {
    /// The profile, or `None` for `none`.
    pub(crate) fn profile(&self) -> CliResult<Option<Profile>> {
        match self.profile.as_str() {
            "none" => Ok(None),
            name => Profile::find(name).map(Some).map_err(|e| CliError::Failed(e.to_string())),
        }
    }

    /// What the user named.
    pub(crate) fn name(&self) -> &str {
        &self.profile
    }

    /// The resources of the command, reduced to one thread with a modelled device.
    pub(crate) fn bound(&self, resources: Resources) -> Resources {
        Resources { one_thread: self.profile != "none", ..resources }
    }
}

fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(1024) as u16)
}

impl Resources {
    /// Runs `work` on a runtime with these threads.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = CliResult<T>>) -> CliResult<T> {
        let mut builder = match self.one_thread {
            true => tokio::runtime::Builder::new_current_thread(),
            false => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder
            .worker_threads(usize::from(self.partitions))
            .enable_time()
            .build()
            .map_err(|e| CliError::Failed(format!("cannot start threads: {e}")))?;
        let result = runtime.block_on(work);
        // This does not wait for a task that an interrupt has left behind.
        runtime.shutdown_background();
        result
    }
}

/// An open database, and a session on it.
pub(crate) struct Opened {
    whole: lode::Database,
    pub(crate) database: Database,
    pub(crate) session: Arc<Session>,
}

/// As [`create`]. With a profile, it makes the image of a modelled device.
pub(crate) fn create_modelled(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Option<Profile>,
) -> CliResult<Opened> {
    open_with(path, resources, offload, profile, Create::Always)
}

/// As [`open_or_create`]. With a profile, it opens or makes the image of a modelled device.
pub(crate) fn open_or_create_modelled(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Option<Profile>,
) -> CliResult<Opened> {
    open_with(path, resources, offload, profile, Create::IfMissing)
}

/// Makes an image at `path`. No file may exist there.
pub(crate) fn create(path: &Path, resources: Resources, offload: Offload) -> CliResult<Opened> {
    open_with(path, resources, offload, None, Create::Always)
}

/// Opens the image at `path`, or makes one if there is no file.
pub(crate) fn open_or_create(path: &Path, resources: Resources, offload: Offload) -> CliResult<Opened> {
    open_with(path, resources, offload, None, Create::IfMissing)
}

fn open_with(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Option<Profile>,
    create: Create,
) -> CliResult<Opened> {
    allocator::keep_to_small_limit(resources.memory);
    let options = Options {
        memory_bytes: resources.memory,
        division: Division::Queries,
        create,
        profile,
        ..Options::default()
    };
    let whole = lode::Database::open_unkept(path, options).map_err(refused(path))?;
    // A command has one session, on the thread that waits for it.
    let options =
        SessionOptions { target_partitions: usize::from(resources.partitions), offload, may_block: true };
    let session = Arc::new(whole.session(&options)?);
    Ok(Opened { database: (*whole).clone(), whole, session })
}

/// Turns an error of opening into a line that names the path.
fn refused(path: &Path) -> impl Fn(Error) -> CliError + '_ {
    move |e| match e {
        Error::ModelledElsewhere { .. } | Error::NotAFile { .. } => CliError::Usage(e.to_string()),
        Error::Units { image, profile, wanted, .. } => {
            let [is, must] = [&image, &wanted].map(|g| shape(g));
            CliError::file(
                path,
                format!(
                    "the image has {is}, but {profile} has {must}: make one with lode drive format --profile {profile}"
                ),
            )
        }
        e => CliError::database(path, e),
    }
}

/// Opens the image at `path` as a drive with a profile. Returns it with its model.
pub(crate) fn open_modelled(path: &Path, profile: &Profile) -> CliResult<(Drive, Arc<Model>)> {
    drive::open_modelled(path, profile, DriveOptions::default()).map_err(refused(path))
}

/// Describes a geometry in a few words.
fn shape(g: &Geometry) -> String {
    format!(
        "{} channels x {} ways x {} planes and {} EBLOCKs of {} (RBLOCK {}, WBLOCK {})",
        g.channels(),
        g.ways(),
        g.planes(),
        g.eblock_count(),
        bytes(g.eblock_bytes().into()),
        bytes(g.rblock_bytes().into()),
        bytes(g.wblock_bytes().into())
    )
}

/// Opens the drive without the database on it.
pub(crate) fn open_drive(path: &Path) -> CliResult<Drive> {
    if address(path).is_some() {
        let what = "this needs the image of the drive itself";
        return Err(CliError::Usage(format!("{}: {what}", path.display())));
    }
    Drive::open_file(path, DriveOptions::default()).map_err(CliError::drive(path))
}

/// Makes and keeps an image of `capacity_bytes`, or of a profile.
pub(crate) fn format(path: &Path, capacity_bytes: u64, profile: Option<&Profile>) -> CliResult<Drive> {
    let geometry = match profile {
        Some(profile) => profile.geometry,
        None => file_geometry(capacity_bytes)?,
    };
    make(path, geometry, DriveOptions::default())
}

/// Makes and keeps an image of `capacity_bytes`, with options of the drive.
pub(crate) fn format_with(path: &Path, capacity_bytes: u64, options: DriveOptions) -> CliResult<Drive> {
    make(path, file_geometry(capacity_bytes)?, options)
}

fn make(path: &Path, geometry: Geometry, options: DriveOptions) -> CliResult<Drive> {
    let (drive, made) = drive::create(path, geometry, options).map_err(refused(path))?;
    made.keep();
    Ok(drive)
}

fn file_geometry(capacity_bytes: u64) -> CliResult<Geometry> {
    lode::file_geometry(capacity_bytes).map_err(|e| CliError::Usage(e.to_string()))
}

impl Opened {
    /// The drive, if its firmware runs in this process.
    pub(crate) fn drive(&self) -> Option<&Drive> {
        self.whole.drive()
    }

    /// Keeps the image, whatever happens later.
    pub(crate) fn keep(&mut self) {
        self.whole.keep();
    }

    /// Closes the image after a command, so that the next opening has nothing to recover. If the command failed, an
    /// image that was made for it is removed. After an interrupt, the image is left to the next opening's recovery.
    pub(crate) fn end(self, path: &Path, result: CliResult) -> CliResult {
        match result {
            Err(ref e) if e.is_failure() && self.whole.is_new() => result,
            Err(CliError::Interrupted) => result,
            // The command's own failure is reported, not a later one that it caused.
            Err(ref e) if e.is_failure() => result.and(self.close(path)),
            _ => self.close(path).and(result),
        }
    }

    /// Keeps and closes the image, so that the next opening is fast.
    pub(crate) fn close(self, path: &Path) -> CliResult {
        let Self { whole, database, session } = self;
        drop((session, database));
        whole.close().map_err(refused(path))
    }
}
