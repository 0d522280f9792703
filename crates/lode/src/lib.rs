//! Lode, embedded: transactions over ordered keys and values, in one crash-safe file.
//!
//! ```
//! # fn main() -> Result<(), lode::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("my.lode");
//! let db = lode::Database::open(&path)?;
//! let fruit = db.create_tree("fruit", true)?;
//!
//! let mut txn = db.begin()?;
//! txn.put(&fruit, b"apple", b"red")?;
//! txn.put(&fruit, b"pear", b"green")?;
//! txn.commit()?;                                   // durable when it returns
//!
//! let txn = db.begin()?;
//! assert_eq!(txn.get(&fruit, b"apple")?.as_deref(), Some(&b"red"[..]));
//! let mut range = txn.scan(&fruit, "b"..)?;
//! while let Some((key, value)) = range.next()? {
//!     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
//! }
//! drop(range);
//! drop(txn);
//! db.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Any number of threads may have transactions open at a time, and readers never wait for writers. Two transactions that write one
//! key conflict. The one that commits later gets [`EngineError::Conflict`], and its caller runs it again:
//!
//! ```
//! # fn main() -> Result<(), lode::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = lode::Database::open(dir.path().join("my.lode"))?;
//! # let counters = db.create_tree("counters", true)?;
//! use lode::EngineError;
//! loop {
//!     let mut txn = db.begin()?;
//!     let n = txn.get(&counters, b"n")?.map_or(0, |v| u64::from_le_bytes(v[..].try_into().unwrap()));
//!     txn.put(&counters, b"n", &(n + 1).to_le_bytes())?;
//!     match txn.commit() {
//!         Ok(_) => break,
//!         Err(EngineError::Conflict { .. }) => continue,
//!         Err(e) => return Err(e.into()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A load fills a new tree from keys in their order. Its nodes are packed and written once, without transactions. The tree is there
//! as a whole when the load is finished, or not at all:
//!
//! ```
//! # fn main() -> Result<(), lode::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = lode::Database::open(dir.path().join("my.lode"))?;
//! let mut load = db.load_tree("squares")?.fill_percent(90);
//! load.extend((0..100_000u64).map(|n| (n.to_be_bytes(), (n * n).to_le_bytes())))?;
//! let squares = load.finish()?;                    // durable when it returns
//! assert_eq!(db.begin()?.get(&squares, &7u64.to_be_bytes())?.as_deref(), Some(&49u64.to_le_bytes()[..]));
//! # Ok(())
//! # }
//! ```
//!
//! The same file is a SQL database: `lode sql my.lode`. One process has it open at a time.

mod file;
mod memory;
mod worker;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

pub use file::{CAPACITY_BYTES_MIN, file_geometry};
pub use lode_engine::{
    Csn, Cursor, Durability, EngineError, KEY_BYTES_MAX, Range, Savepoint, Snapshot, Transaction, Tree,
    TreeLoad, TreeStats, Value,
};
pub use memory::Memory;
pub use worker::{Upkeep, Worker};

use lode_engine::DatabaseOptions;
use lode_firmware::{Drive, FirmwareError};

/// Why a database could not be opened, used or closed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not an image, is damaged, in use, or cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FirmwareError,
    },
    /// The database on it failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The thread for background work could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A capacity that is too small or too large for an image.
    #[error("{0}")]
    Capacity(String),
}

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limit of memory for the whole database, in bytes, divided as [`Memory`] says. From [`Memory::BYTES_MIN`] on, at most a fifth
    /// more is resident, beside what the process needs for itself.
    pub memory_bytes: usize,
    /// Capacity of the file if it is made, in bytes. The file grows as it is filled.
    pub capacity_bytes: u64,
    /// When commits are durable.
    pub durability: Durability,
    /// With [`Durability::Group`]: milliseconds after which a commit is durable at the latest.
    pub group_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            capacity_bytes: 64 << 30,
            durability: Durability::Commit,
            group_ms: 10,
        }
    }
}

/// An open database in a file, with a thread for its background work. Dropping it leaves a file that the next opening
/// recovers; [`Database::close`] leaves one that opens at once.
pub struct Database {
    path: PathBuf,
    drive: Drive,
    database: lode_engine::Database,
    worker: Option<Worker>,
}

impl Database {
    /// Opens the database in a file, which is made if it does not exist.
    ///
    /// # Errors
    /// When the file is not an image of Lode, is damaged, is open elsewhere, or cannot be made.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, Options::default())
    }

    /// As [`Database::open`], with options.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::File { path: path.into(), source };
        let memory = Memory::within(options.memory_bytes as u64);
        memory.limit_process();
        let drive = match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                file::create(path, options.capacity_bytes, memory.drive)?
            }
            _ => Drive::open_file(path, memory.drive).map_err(failed)?,
        };
        let parts = DatabaseOptions { now: Some(Instant::now), ..memory.database };
        let database = lode_engine::Database::open(Arc::new(drive.clone()), parts)?;
        database.set_durability(options.durability);
        database.set_group_ms(options.group_ms);
        let worker = Some(Worker::start(database.clone()).map_err(Error::Thread)?);
        Ok(Self { path: path.into(), drive, database, worker })
    }

    /// Writes a checkpoint, so that the next opening has nothing to recover, and closes the file.
    ///
    /// # Errors
    /// When something could not be written. What was committed is safe all the same.
    pub fn close(mut self) -> Result<(), Error> {
        if let Some(worker) = self.worker.take() {
            worker.finish()?;
        }
        let Self { path, drive, database, .. } = self;
        drop(database);
        drive.close().map_err(|source| Error::File { path, source })
    }

    /// The drive below, with its reports.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
}

impl Deref for Database {
    type Target = lode_engine::Database;

    fn deref(&self) -> &lode_engine::Database {
        &self.database
    }
}
