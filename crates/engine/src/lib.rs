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

mod database;
mod error;
mod planted;
mod storage;
mod tables;
mod trees;

pub use database::{Database, DatabaseOptions, TreeStats};
pub use error::EngineError;
pub use lode_command::Progress;
#[cfg(feature = "planted")]
pub use planted::{Planted, plant};
pub use storage::clock::{ClockReading, HostClock, HostWork, Meter, ModelledTime};
pub use storage::columns::PageColumns;
pub use storage::pool::PoolStats;
pub use storage::read_ahead::ReadAhead;
pub use storage::store::LinkStats;
pub use tables::index::IndexedPages;
pub use tables::index_order::{
    IndexOrder, IndexWalk, NullsAt, OrderBound, OrderColumn, OrderKey, OrderedPages,
};
pub use tables::scan::Scan;
pub use tables::statistics::TableStatistics;
pub use tables::table::{
    COLUMNS_MAX, ColumnDef, Constraint, INDEX_COLUMNS_DEFAULT, IndexDef, IndexKind, Layout, OnDelete,
    RowAddress, Rule, Table, TableDef, TableOptions,
};
pub use tables::write::{SavedChanges, WriteTxn};
pub use trees::heads::SyncEvery;
pub use trees::snapshot::Snapshot;
pub use trees::transaction::{Durability, Range, Savepoint, Transaction};
pub use trees::{Csn, Cursor, KEY_BYTES_MAX, Tree, TreeLoad, Value};

/// A hash map whose order is the same in every run: nothing here draws randomness.
pub(crate) type Map<K, V> =
    std::collections::HashMap<K, V, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
/// A hash set whose order is the same in every run.
pub(crate) type Set<K> =
    std::collections::HashSet<K, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
