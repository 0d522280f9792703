//! The host's storage engine: trees and tables on a drive, and transactions over both.
//!
//! ```text
//!   Database ─┬─ snapshot ──► Snapshot ── scan ─► drive task, read_columns ─► pool, get ─► frames
//!             ├─ begin_write ─► WriteTxn ── insert, load, update, delete ─► commit ─┐
//!             └─ begin ───────► Transaction ── put, delete ─► commit ──────────────┴─► one atomic batch
//!
//!   tables/ ──► trees/ ──► storage/ ──► the drive         each part knows only those behind it; `database.rs` assembles them
//! ```
//!
//! Entry points: [`Database::open`], [`Snapshot`], [`WriteTxn`], [`Transaction`]. The engine knows a drive only as
//! [`lode_command::Device`]. It reads no clock, draws no randomness and spawns no thread.

mod access;
mod database;
mod error;
mod options;
mod planted;
mod storage;
mod tables;
mod trees;

pub use access::{AccessPath, PATHS, TreeUse};
pub use database::Database;
pub use error::EngineError;
pub use lode_command::Progress;
pub use options::DatabaseOptions;
#[cfg(feature = "planted")]
pub use planted::{Planted, plant};
pub use storage::clock::{Agent, ClockReading, HostClock, HostWork, Meter, ModelledTime, TreePlace};
pub use storage::columns::PageColumns;
pub use storage::pool::PoolStats;
pub use storage::read_ahead::Ahead;
pub use storage::store::LinkStats;
pub use tables::{
    AllObjects, COLUMNS_MAX, Changes, ColumnDef, Composite, Constraint, Deferral, Encodings, EntryOf, Few,
    Fill, Hidden, INDEX_COLUMNS_DEFAULT, IndexDef, IndexKind, IndexOrder, IndexWalk, IndexedPages, KeyIndex,
    KeyOrder, Layout, LookUps, MergeStats, NoMatcher, NullsAt, Object, ObjectKind, OrderBound, OrderColumn,
    OrderKey, OrderedPages, PageBytes, RangeEnd, ReadAhead, ReferenceAction, Relation, RowAddress, RowOrder,
    RowRange, RowsInOrder, Rule, SavedChanges, Scan, SequenceDef, SequenceNumbers, SequenceOwner, Summary,
    Table, TableDef, TableOptions, TableRewrite, TableStatistics, ViewDef, ViewRead, WriteTxn,
};
#[cfg(feature = "planted")]
pub use tables::{PlantedForCuts, PlantedInTables, plant_for_cuts, plant_in_tables};
pub use trees::{
    Csn, Cursor, Durability, KEY_BYTES_MAX, Range, Savepoint, Snapshot, SyncEvery, Transaction, Tree,
    TreeLoad, TreeStats, Value,
};

/// A hash map whose order is the same in every run: nothing here draws randomness.
pub(crate) type Map<K, V> =
    std::collections::HashMap<K, V, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
/// A hash set whose order is the same in every run.
pub(crate) type Set<K> =
    std::collections::HashSet<K, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
