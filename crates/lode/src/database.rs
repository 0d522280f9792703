//! A database: a drive, the engine on it, a thread for background work, and the memory that all queries share.
//!
//! ```text
//!   path | tcp:// | memory ─► AnyDrive ─► engine ─┬─► transactions over trees
//!                      └ Profile ─► HostClock ────┤
//!                                       Worker ───┤
//!                                       Queries ──┴─► any number of SQL sessions
//! ```

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "sql")]
use std::sync::OnceLock;
use std::time::Instant;

use lode_engine::{DatabaseOptions, HostClock};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;

use crate::drive::{self, AnyDrive, NewFile};
use crate::file::chosen_geometry;
use crate::{Create, Error, Memory, Options, Worker};

/// An open database with a thread for background work. If it is dropped, the next opening of its file runs recovery.
/// After [`Database::close`], the next opening has nothing to recover.
pub struct Database {
    path: PathBuf,
    drive: AnyDrive,
    database: lode_engine::Database,
    /// `None` with a modelled device, whose GC runs between commands, so that it happens at the same time in every
    /// run.
    worker: Option<Worker>,
    made: Option<NewFile>,
    #[cfg(feature = "sql")]
    queries: OnceLock<lode_sql::Queries>,
    #[cfg(feature = "sql")]
    query_bytes: usize,
}

impl Database {
    /// Opens the database in a file, which is created if it does not exist, or on the drive that is served at
    /// `tcp://HOST:PORT`.
    ///
    /// # Errors
    /// If the file is not an image of Lode, is damaged, is open in another process, or cannot be created.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, Options::default())
    }

    /// As [`Database::open`], with options.
    ///
    /// # Errors
    /// As [`Database::open`], or if the units of the image differ from those of the profile.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let mut database = Self::open_unkept(path, options)?;
        database.keep();
        Ok(database)
    }

    /// As [`Database::open_with`], except that a newly created image is removed again unless [`Database::keep`] is
    /// called.
    ///
    /// # Errors
    /// As [`Database::open_with`].
    pub fn open_unkept(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let memory = Memory::divided(options.memory_bytes, options.division);
        memory.limit_process();
        let (drive, model, made) = open_drive(path, &options, &memory)?;
        Self::assemble(path, drive, model, made, &options, memory)
    }

    /// A database in memory. Dropping it loses its data.
    ///
    /// # Errors
    /// If the capacity is too small.
    pub fn in_memory(options: Options) -> Result<Self, Error> {
        let memory = Memory::divided(options.memory_bytes, options.division);
        let path = Path::new(":memory:");
        let geometry = match &options.profile {
            Some(profile) => profile.geometry,
            None => chosen_geometry(options.capacity_bytes)?,
        };
        let model = options.profile.clone().map(|p| Arc::new(Model::new(p)));
        let medium = Medium::memory(geometry);
        let medium = match &model {
            Some(model) => medium.with_model(model.clone()),
            None => medium,
        };
        let drive = Drive::format(medium, memory.drive.clone()).map_err(Error::file(path))?;
        Self::assemble(path, AnyDrive::Local(drive), model, None, &options, memory)
    }

    fn assemble(
        path: &Path,
        drive: AnyDrive,
        model: Option<Arc<Model>>,
        made: Option<NewFile>,
        options: &Options,
        memory: Memory,
    ) -> Result<Self, Error> {
        let host = match (&options.profile, model) {
            (Some(profile), Some(model)) => {
                let begun = model.latest();
                model.set_lag(options.lag);
                Some(Arc::new(HostClock::new(profile.clone(), begun, Box::new(move || model.operations()))))
            }
            _ => None,
        };
        // The host of a modelled device has its own clock.
        let now = host.is_none().then_some(Instant::now as fn() -> Instant);
        let parts = DatabaseOptions { now, host, ..memory.database };
        let database = lode_engine::Database::open(drive.device(), parts)?;
        database.set_durability(options.durability);
        database.set_group_ms(options.group_ms);
        let worker = match database.host() {
            Some(_) => None,
            None => Some(Worker::start(database.clone()).map_err(Error::Thread)?),
        };
        Ok(Self {
            path: path.into(),
            drive,
            database,
            worker,
            made,
            #[cfg(feature = "sql")]
            queries: OnceLock::new(),
            #[cfg(feature = "sql")]
            query_bytes: memory.query_bytes,
        })
    }

    /// Opens a SQL session. All sessions of the database share the memory for queries.
    ///
    /// # Errors
    /// If the directory for spilled data cannot be created.
    #[cfg(feature = "sql")]
    pub fn session(
        &self,
        options: &lode_sql::SessionOptions,
    ) -> Result<lode_sql::Session, lode_sql::SqlError> {
        let queries = match self.queries.get() {
            Some(queries) => queries,
            None => {
                let made = lode_sql::Queries::new(self.database.clone(), self.query_bytes)?;
                // If two threads get here at once, the first value is kept.
                self.queries.get_or_init(|| made)
            }
        };
        queries.session(options)
    }

    /// Keeps a newly created image, whatever happens later.
    pub fn keep(&mut self) {
        if let Some(made) = self.made.take() {
            made.keep();
        }
    }

    /// Whether the image was newly created and is not yet kept.
    pub fn is_new(&self) -> bool {
        self.made.is_some()
    }

    /// Writes a checkpoint, so that the next opening has nothing to recover, and closes the file. A new image is
    /// kept.
    ///
    /// # Errors
    /// If something cannot be written. All commits are safe even then.
    pub fn close(mut self) -> Result<(), Error> {
        self.keep();
        match (self.worker.take(), &self.drive) {
            (Some(worker), AnyDrive::Local(_)) => worker.finish()?,
            // The server of a drive does its background work.
            (worker, _) => {
                drop(worker);
                self.database.flush()?;
            }
        }
        let Self { path, drive, database, .. } = self;
        drop(database);
        drive.close(&path)
    }

    /// The drive, with its reports, if its firmware runs in this process.
    pub fn drive(&self) -> Option<&Drive> {
        self.drive.local()
    }
}

impl Deref for Database {
    type Target = lode_engine::Database;

    fn deref(&self) -> &lode_engine::Database {
        &self.database
    }
}

type Opened = (AnyDrive, Option<Arc<Model>>, Option<NewFile>);

/// Opens the drive at a path. Returns it with its model, if it is modelled, and the file, if it was created.
fn open_drive(path: &Path, options: &Options, memory: &Memory) -> Result<Opened, Error> {
    let is_served = drive::address(path).is_some();
    if is_served && options.profile.is_some() {
        return Err(Error::ModelledElsewhere { path: path.into() });
    }
    let is_missing = !is_served
        && matches!(std::fs::symlink_metadata(path), Err(e) if e.kind() == std::io::ErrorKind::NotFound);
    let creates = match options.create {
        Create::Never => false,
        Create::IfMissing => is_missing,
        Create::Always => true,
    };
    match &options.profile {
        Some(profile) => {
            let made = match creates {
                true => Some(make_modelled(path, profile)?),
                false => None,
            };
            let (drive, model) = drive::open_modelled(path, profile, memory.drive.clone())?;
            Ok((AnyDrive::Local(drive), Some(model), made))
        }
        None if creates => {
            let geometry = chosen_geometry(options.capacity_bytes)?;
            let (drive, made) = drive::create(path, geometry, memory.drive.clone())?;
            Ok((AnyDrive::Local(drive), None, Some(made)))
        }
        None => Ok((AnyDrive::open(path, memory.drive.clone())?, None, None)),
    }
}

/// Creates an image for a profile and closes it.
fn make_modelled(path: &Path, profile: &lode_base::Profile) -> Result<NewFile, Error> {
    let (drive, made) = drive::create(path, profile.geometry, DriveOptions::default())?;
    drive.close().map_err(Error::file(path))?;
    Ok(made)
}
