//! Opens, and makes, the image of a drive with the database on it; or connects to a drive that is served (`remote_drive.rs`).
//!
//! Invariant: an image that this process made is removed again unless [`Opened::keep`] was called, so that a command
//! that fails leaves nothing half-done; one that was there before is never removed.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use lode::Worker;
use lode_base::{Geometry, Profile};
use lode_command::Device;
use lode_engine::{Database, DatabaseOptions, HostClock};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_remote::RemoteDevice;
use lode_sql::{Offload, Session, SessionOptions};

use crate::error::{CliError, CliResult};
use crate::remote_drive;
use crate::table::{bytes, parse_bytes};

/// Capacity of an image that is made without saying which, in bytes. It is a limit: the file grows as it is filled.
pub(crate) const CAPACITY_BYTES: u64 = 64 << 30;

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

/// An open drive, and the database on it.
pub(crate) struct Opened {
    drive: Held,
    pub(crate) database: Database,
    pub(crate) session: Arc<Session>,
    /// None with a modelled device, whose work would come when this machine has time for it: GC there waits for batches.
    worker: Option<Worker>,
    made: Option<NewFile>,
}

/// A drive that this process has.
#[derive(Clone)]
pub(crate) enum Held {
    /// In an image that it opened.
    Image(Drive),
    /// Behind a connection.
    Served(Arc<RemoteDevice>),
}

impl Held {
    /// The drive in the image at `path`, or at an address.
    pub(crate) fn open(path: &Path) -> CliResult<Self> {
        Self::open_with(path, DriveOptions::default())
    }

    /// As [`Held::open`]; the options are those of an image.
    pub(crate) fn open_with(path: &Path, options: DriveOptions) -> CliResult<Self> {
        match remote_drive::address(path) {
            Some(addr) => Ok(Self::Served(Arc::new(remote_drive::connect(addr)?))),
            None => open_image(path, options).map(Self::Image),
        }
    }

    /// The drive of an image that this process opened; who serves another one knows more of it.
    pub(crate) fn image(&self) -> Option<&Drive> {
        match self {
            Self::Image(drive) => Some(drive),
            Self::Served(_) => None,
        }
    }

    /// Lets go of it; the next opening of an image has nothing to recover.
    pub(crate) fn close(self, path: &Path) -> CliResult {
        match self {
            Self::Image(drive) => drive.close().map_err(|e| CliError::file(path, e)),
            Self::Served(device) => {
                drop(device);
                Ok(())
            }
        }
    }

    pub(crate) fn device(&self) -> Arc<dyn Device> {
        match self {
            Self::Image(drive) => Arc::new(drive.clone()),
            Self::Served(device) => device.clone(),
        }
    }
}

/// A file that goes away again when this does.
struct NewFile(PathBuf);

impl Drop for NewFile {
    fn drop(&mut self) {
        // It may be gone already; nothing is to be done if it cannot be removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the image at `path`.
pub(crate) fn open(path: &Path, resources: Resources, offload: Offload) -> CliResult<Opened> {
    assemble(path, Held::open(path)?, None, resources, offload, None)
}

/// As [`create`]; with a profile it is the image of a modelled device.
pub(crate) fn create_modelled(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Option<Profile>,
) -> CliResult<Opened> {
    match profile {
        Some(profile) => modelled(path, resources, offload, profile, true),
        None => create(path, resources, offload),
    }
}

/// Opens the image at `path`, or makes one if nothing is there; with a profile it is that of a modelled device.
pub(crate) fn open_or_create_modelled(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Option<Profile>,
) -> CliResult<Opened> {
    let Some(profile) = profile else { return open_or_create(path, resources, offload) };
    if remote_drive::address(path).is_some() {
        let what = "the device is modelled where it is served: lode drive serve --profile";
        return Err(CliError::Usage(format!("{}: {what}", path.display())));
    }
    let is_there = !matches!(
        std::fs::symlink_metadata(path),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound
    );
    modelled(path, resources, offload, profile, !is_there)
}

/// The device of a profile over the image at `path`, which is made first if it is `new`.
fn modelled(
    path: &Path,
    resources: Resources,
    offload: Offload,
    profile: Profile,
    new: bool,
) -> CliResult<Opened> {
    let geometry = profile.geometry;
    let made = match new {
        true => {
            let (drive, made) = create_drive(path, geometry, DriveOptions::default())?;
            drive.close().map_err(|e| CliError::file(path, e))?;
            Some(made)
        }
        false => None,
    };
    let (drive, model) = open_modelled(path, &profile)?;
    let begun = model.latest();
    let host = HostClock::new(profile, begun, Box::new(move || model.operations()));
    assemble(path, Held::Image(drive), made, resources, offload, Some(Arc::new(host)))
}

/// The drive of a profile in the image at `path`, and what models it.
pub(crate) fn open_modelled(path: &Path, profile: &Profile) -> CliResult<(Drive, Arc<Model>)> {
    let geometry = profile.geometry;
    let medium = Medium::open_file(path).map_err(|e| CliError::file(path, e))?;
    if *medium.geometry() != geometry {
        let [is, must] = [medium.geometry(), &geometry].map(shape);
        let name = &profile.name;
        return Err(CliError::file(
            path,
            format!("an image of {is}; {name} has {must}: lode drive format --profile {name} makes one"),
        ));
    }
    let model = Arc::new(Model::new(profile.clone()));
    let medium = medium.with_model(model.clone());
    let drive =
        Unrecovered::new(medium, DriveOptions::default()).recover().map_err(|e| CliError::file(path, e))?;
    Ok((drive, model))
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

/// Makes an image at `path`, where nothing may be.
pub(crate) fn create(path: &Path, resources: Resources, offload: Offload) -> CliResult<Opened> {
    let (drive, made) = create_drive(path, file_geometry(CAPACITY_BYTES)?, DriveOptions::default())?;
    assemble(path, Held::Image(drive), Some(made), resources, offload, None)
}

/// Opens the image at `path`, or makes one if nothing is there.
pub(crate) fn open_or_create(path: &Path, resources: Resources, offload: Offload) -> CliResult<Opened> {
    match std::fs::symlink_metadata(path) {
        _ if remote_drive::address(path).is_some() => open(path, resources, offload),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => create(path, resources, offload),
        _ => open(path, resources, offload),
    }
}

/// The drive alone, without the database on it.
pub(crate) fn open_drive(path: &Path) -> CliResult<Drive> {
    if remote_drive::address(path).is_some() {
        let what = "this needs the image of the drive itself";
        return Err(CliError::Usage(format!("{}: {what}", path.display())));
    }
    open_image(path, DriveOptions::default())
}

fn open_image(path: &Path, options: DriveOptions) -> CliResult<Drive> {
    Drive::open_file(path, options).map_err(|e| CliError::file(path, e))
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
    let (drive, made) = create_drive(path, geometry, options)?;
    std::mem::forget(made);
    Ok(drive)
}

fn file_geometry(capacity_bytes: u64) -> CliResult<Geometry> {
    lode::file_geometry(capacity_bytes).map_err(|e| CliError::Usage(e.to_string()))
}

fn create_drive(path: &Path, geometry: Geometry, options: DriveOptions) -> CliResult<(Drive, NewFile)> {
    if remote_drive::address(path).is_some() {
        return Err(CliError::Usage(format!("{}: an image is a file", path.display())));
    }
    let existed = std::fs::symlink_metadata(path).is_ok();
    let seed = RandomState::new().hash_one(std::process::id());
    match Drive::create_file(path, geometry, options, seed) {
        Ok(drive) => Ok((drive, NewFile(path.to_path_buf()))),
        Err(e) => {
            if !existed {
                drop(NewFile(path.to_path_buf()));
            }
            Err(CliError::file(path, e))
        }
    }
}

fn assemble(
    path: &Path,
    drive: Held,
    made: Option<NewFile>,
    resources: Resources,
    offload: Offload,
    host: Option<Arc<HostClock>>,
) -> CliResult<Opened> {
    let half = usize::try_from(resources.memory / 2).unwrap_or(usize::MAX);
    let frame_bytes = (half / 8).min(128 << 20);
    // The host of a modelled device has a clock of its own, and one thread.
    let now = host.is_none().then_some(Instant::now as fn() -> Instant);
    let pool_bytes = half - frame_bytes;
    let pool = DatabaseOptions { pool_bytes, frame_bytes, host, now, ..DatabaseOptions::default() };
    let database = Database::open(drive.device(), pool).map_err(|e| CliError::file(path, e))?;
    let options =
        SessionOptions { target_partitions: usize::from(resources.partitions), offload, memory_bytes: half };
    let session = Arc::new(Session::new(database.clone(), &options)?);
    let worker = match database.host() {
        Some(_) => None,
        None => Some(Worker::start(database.clone()).map_err(|e| CliError::file(path, e))?),
    };
    Ok(Opened { drive, database, session, worker, made })
}

impl Opened {
    /// From now on the image stays, whatever happens.
    pub(crate) fn keep(&mut self) {
        std::mem::forget(self.made.take());
    }

    /// Closes the image after a command, which may have failed: what it left half-done is cleaned up, and the next opening
    /// has nothing to recover. Of one that was made for a command that failed nothing stays; after an interrupt nobody
    /// waits.
    pub(crate) fn end(self, path: &Path, result: CliResult) -> CliResult {
        match result {
            Err(CliError::Failed(_) | CliError::Usage(_)) if self.made.is_some() => result,
            Err(CliError::Interrupted) => result,
            // Why the command failed is told, rather than what came of that.
            Err(CliError::Failed(_) | CliError::Usage(_)) => result.and(self.close(path)),
            Ok(()) | Err(CliError::OutputClosed) => self.close(path).and(result),
        }
    }

    /// Writes what makes the next opening fast, and lets go of the image, which stays.
    pub(crate) fn close(mut self, path: &Path) -> CliResult {
        self.keep();
        let Self { drive, database, session, worker, .. } = self;
        let flushed = match (worker, &drive) {
            (Some(worker), Held::Image(_)) => worker.finish(),
            // Whoever serves the drive works for it, too.
            (worker, _) => {
                drop(worker);
                database.flush()
            }
        };
        flushed.map_err(|e| CliError::file(path, e))?;
        drop((session, database));
        drive.close(path)
    }
}
