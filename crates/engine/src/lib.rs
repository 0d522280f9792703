//! The host's storage engine: catalog, tables, loads, changes, buffer pool.
//!
//! ```text
//!   Database ── snapshot ─► Snapshot ── scan ─► drive task        (programs run in the drive)
//!            │                        └ read_columns ─► pool ─► drive
//!            └ begin_write ─► WriteTxn ── insert, load, update, delete ─► commit: one atomic batch
//! ```
//!
//! Entry points: [`Database::open`], [`Snapshot`], [`WriteTxn`]. The engine knows a drive only as
//! [`lode_command::Device`]; it reads no clock, draws no randomness and spawns no thread.

mod catalog;
mod check;
mod clock;
mod database;
mod error;
mod heads;
mod index;
mod index_order;
mod own;
mod planted;
mod pool;
mod read;
mod read_ahead;
mod redo;
mod rests;
mod scan;
mod sequencer;
mod snapshot;
mod statistics;
mod store;
mod table;
mod transaction;
mod tree;
mod write;

pub use clock::{ClockReading, HostClock, HostWork, Meter, ModelledTime};
pub use database::{Database, DatabaseOptions, TreeStats};
pub use error::EngineError;
pub use heads::SyncEvery;
pub use index::IndexedPages;
pub use index_order::{IndexOrder, IndexWalk, NullsAt, OrderBound, OrderColumn, OrderKey, OrderedPages};
pub use lode_command::Progress;
#[cfg(feature = "planted")]
pub use planted::{Planted, plant};
pub use pool::PoolStats;
pub use read::PageColumns;
pub use read_ahead::ReadAhead;
pub use scan::Scan;
pub use snapshot::Snapshot;
pub use statistics::TableStatistics;
pub use store::LinkStats;
pub use table::{
    COLUMNS_MAX, ColumnDef, Constraint, Encodings, INDEX_COLUMNS_DEFAULT, IndexDef, IndexKind, Layout,
    OnDelete, RowAddress, Rule, Table, TableDef, TableOptions,
};
pub use transaction::{Durability, Range, Savepoint, Transaction};
pub use tree::{Csn, Cursor, KEY_BYTES_MAX, Tree, TreeLoad, Value};
pub use write::{SavedChanges, WriteTxn};

/// A hash map whose order is the same in every run: nothing here draws randomness.
pub(crate) type Map<K, V> =
    std::collections::HashMap<K, V, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
/// A hash set whose order is the same in every run.
pub(crate) type Set<K> =
    std::collections::HashSet<K, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
