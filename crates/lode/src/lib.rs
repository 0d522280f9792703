//! Lode, embedded: transactions over ordered keys and values, and SQL, in one crash-safe file.
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
//! A load fills a new tree from keys in their order. Its nodes are packed and written once, without transactions. The
//! tree becomes visible as a whole when the load is finished, or not at all:
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
//! With the feature `sql` the same database answers SQL. All sessions share one limit of memory:
//!
#![cfg_attr(feature = "sql", doc = "```")]
#![cfg_attr(not(feature = "sql"), doc = "```ignore")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = lode::Database::in_memory(lode::Options { division: lode::Division::Queries, ..Default::default() })?;
//! let session = db.session(&lode::sql::SessionOptions::default())?;
//! session.execute("CREATE TABLE fruit (name TEXT PRIMARY KEY, price INT); INSERT INTO fruit VALUES ('pear', 3)").await?;
//! let rows = session.collect("SELECT price FROM fruit WHERE name = 'pear'").await?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A path `tcp://HOST:PORT` is a drive that `lode drive serve` serves. Only one process can have a file open at a time.

mod database;
pub mod drive;
mod error;
mod file;
mod memory;
mod options;
mod worker;

pub use database::Database;
pub use drive::AnyDrive;
pub use error::Error;
pub use file::{CAPACITY_BYTES, CAPACITY_BYTES_MIN, file_geometry};
pub use lode_engine::{
    Csn, Cursor, Durability, EngineError, KEY_BYTES_MAX, Range, Savepoint, Snapshot, Transaction, Tree,
    TreeLoad, TreeStats, Value,
};
/// SQL over a database: sessions, statements and their results.
#[cfg(feature = "sql")]
pub use lode_sql as sql;
pub use memory::{Division, Memory};
pub use options::{Create, Options};
pub use worker::{Upkeep, Worker};
