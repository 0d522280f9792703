//! Opens databases and drives for commands, with what they may use of the machine.
//!
//! Invariant: an image that this process made is removed again unless [`Opened::keep`] was called, so that a command
//! that fails leaves nothing half-done; one that was there before is never removed.

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

use crate::error::{CliError, CliResult};
use crate::table::{bytes, parse_bytes};

/// A capacity, as on the command line.
pub(crate) fn parse_capacity(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        n if n < lode::CAPACITY_BYTES_MIN => Err("a drive has a capacity of at least 128MiB".into()),
        n => Ok(n),
    }
}

/// What a command may use of the machine.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Resources {
    /// Memory for buffer pool, indexes and queries together
    ///
    /// Queries get half, nodes of B+-tree indexes a sixteenth (at most 128MB), the buffer pool the rest. A query that needs more
    /// borrows it from the buffer pool while it runs. If that is not enough, it spills to disk where it can, and otherwise fails.
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = parse_bytes)]
    pub(crate) memory: u64,

    /// Threads that run a query, each on its part of the data; by default one a core
    #[arg(long, value_name = "N", default_value_t = cores(), value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) partitions: u16,

    /// Whether the runtime has one thread, so that a modelled device meets its commands in the same order in every run.
    #[arg(skip)]
    one_thread: bool,
}

/// A modelled device, as on the command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct Modelled {
    /// Model a device, and show how long statements take on it: the name of a profile, or its file
    ///
    /// The image must have the units of the profile. `lode drive format --profile` makes such an image. So does this command if there
    /// is none.
    #[arg(long, value_name = "NAME|FILE", default_value = "none")]
    profile: String,
}

impl Modelled {
    /// The profile; nothing for `none`.
    pub(crate) fn profile(&self) -> CliResult<Option<Profile>> {
        match self.profile.as_str() {
            "none" => Ok(None),
            name => Profile::find(name).map(Some).map_err(|e| CliError::Failed(e.to_string())),
        }
    }

    /// What a command may use of the machine: with a modelled device, one thread.
    pub(crate) fn bound(&self, resources: Resources) -> Resources {
        Resources { one_thread: self.profile != "none", ..resources }
    }
}

fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(1024) as u16)
}

impl Resources {
    /// The runtime that queries run on.
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
        // A task that an interrupt left behind is not waited for.
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

/// As [`create`]; with a profile it is the image of a modelled device.
pub(crate) fn create_modelled(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Option<Profile>,
) -> CliResult<Opened> {
    open_with(path, resources, offload, profile, Create::Always)
}

/// Opens the image at `path`, or makes one if nothing is there; with a profile it is that of a modelled device.
pub(crate) fn open_or_create_modelled(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Option<Profile>,
) -> CliResult<Opened> {
    open_with(path, resources, offload, profile, Create::IfMissing)
}

/// Makes an image at `path`, where nothing may be.
pub(crate) fn create(path: &Path, resources: Resources, offload: Offload) -> CliResult<Opened> {
    open_with(path, resources, offload, None, Create::Always)
}

/// Opens the image at `path`, or makes one if nothing is there.
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
    let options = Options {
        memory_bytes: resources.memory,
        division: Division::Queries,
        create,
        profile,
        ..Options::default()
    };
    let whole = lode::Database::open_unkept(path, options).map_err(refused(path))?;
    let options = SessionOptions { target_partitions: usize::from(resources.partitions), offload };
    let session = Arc::new(whole.session(&options)?);
    Ok(Opened { database: (*whole).clone(), whole, session })
}

/// Why the database at a path cannot be had, in a line that names the path.
fn refused(path: &Path) -> impl Fn(Error) -> CliError + '_ {
    move |e| match e {
        Error::ModelledElsewhere { .. } | Error::NotAFile { .. } => CliError::Usage(e.to_string()),
        Error::Units { image, profile, wanted, .. } => {
            let [is, must] = [&image, &wanted].map(|g| shape(g));
            CliError::file(
                path,
                format!(
                    "an image of {is}; {profile} has {must}: lode drive format --profile {profile} makes one"
                ),
            )
        }
        e => CliError::database(path, e),
    }
}

/// The drive of a profile in the image at `path`, and what models it.
pub(crate) fn open_modelled(path: &Path, profile: &Profile) -> CliResult<(Drive, Arc<Model>)> {
    drive::open_modelled(path, profile, DriveOptions::default()).map_err(refused(path))
}

/// A geometry in a few words.
fn shape(g: &Geometry) -> String {
    format!(
        "{} channels x {} ways x {} planes, units of {}, {} and {}, {} of them",
        g.channels(),
        g.ways(),
        g.planes(),
        bytes(g.rblock_bytes().into()),
        bytes(g.wblock_bytes().into()),
        bytes(g.eblock_bytes().into()),
        g.eblock_count()
    )
}

/// The drive alone, without the database on it.
pub(crate) fn open_drive(path: &Path) -> CliResult<Drive> {
    if address(path).is_some() {
        let what = "this needs the image of the drive itself";
        return Err(CliError::Usage(format!("{}: {what}", path.display())));
    }
    Drive::open_file(path, DriveOptions::default()).map_err(CliError::drive(path))
}

/// Makes an image of so many bytes, or that of a profile, and keeps it.
pub(crate) fn format(path: &Path, capacity_bytes: u64, profile: Option<&Profile>) -> CliResult<Drive> {
    let geometry = match profile {
        Some(profile) => profile.geometry,
        None => file_geometry(capacity_bytes)?,
    };
    make(path, geometry, DriveOptions::default())
}

/// Makes an image of so many bytes, and keeps it.
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
    /// From now on the image stays, whatever happens.
    pub(crate) fn keep(&mut self) {
        self.whole.keep();
    }

    /// Closes the image after a command, which may have failed: what it left half-done is cleaned up, and the next opening
    /// has nothing to recover. Of one that was made for a command that failed nothing stays; after an interrupt nobody
    /// waits.
    pub(crate) fn end(self, path: &Path, result: CliResult) -> CliResult {
        match result {
            Err(ref e) if e.is_failure() && self.whole.is_new() => result,
            Err(CliError::Interrupted) => result,
            // The command's own failure is reported, not one that followed from it.
            Err(ref e) if e.is_failure() => result.and(self.close(path)),
            _ => self.close(path).and(result),
        }
    }

    /// Writes what makes the next opening fast, and lets go of the image, which stays.
    pub(crate) fn close(self, path: &Path) -> CliResult {
        let Self { whole, database, session } = self;
        drop((session, database));
        whole.close().map_err(refused(path))
    }
}
