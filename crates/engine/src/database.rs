//! The database: one drive, its catalog, its pool, its one writer.

use std::sync::Arc;

use lode_command::Device;

use crate::{EngineError, IndexDef, LinkStats, PoolStats, Snapshot, TableDef, WriteTxn};

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Most bytes of pages that the buffer pool holds.
    pub pool_bytes: usize,
    /// Most bytes of key hashes that a check of unsorted keys holds at a time.
    pub key_check_bytes: usize,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self { pool_bytes: 256 << 20, key_check_bytes: 64 << 20 }
    }
}

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Database {}

impl Database {
    /// Opens the database on a drive; an empty drive gets an empty catalog. Extents that the catalog does not name (of
    /// a load that died) are released.
    pub fn open(_device: Arc<dyn Device>, _options: DatabaseOptions) -> Result<Self, EngineError> {
        unimplemented!()
    }

    /// The newest committed state. Sends no command.
    pub fn snapshot(&self) -> Result<Snapshot, EngineError> {
        unimplemented!()
    }

    /// Creates a table; answers whether it did (`false`: it was there, and `if_not_exists`).
    pub fn create_table(&self, _def: TableDef, _if_not_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// Drops a table and its indexes; answers whether it did.
    pub fn drop_table(&self, _name: &str, _if_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// Adds columns to the page index of a table and makes the missing entries; answers whether it did.
    pub fn create_index(&self, _def: IndexDef, _if_not_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// Drops an index; answers whether it did.
    pub fn drop_index(&self, _name: &str, _if_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// Begins a transaction that writes; waits until the one before is over. A thread that holds one must not begin
    /// another.
    pub fn begin_write(&self) -> Result<WriteTxn, EngineError> {
        unimplemented!()
    }

    /// What the buffer pool holds, and how well it did.
    pub fn pool(&self) -> PoolStats {
        unimplemented!()
    }

    /// Empties the buffer pool.
    pub fn clear_pool(&self) {
        unimplemented!()
    }

    /// What crossed the link since the database was opened.
    pub fn link(&self) -> LinkStats {
        unimplemented!()
    }

    /// Asks the drive for a checkpoint, so that the next open is quick.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Walks the catalog, every page and every index entry; answers what is wrong, one line each.
    pub fn check(&self) -> Result<Vec<String>, EngineError> {
        unimplemented!()
    }
}
