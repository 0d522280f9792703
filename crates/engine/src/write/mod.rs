//! Changes.

use lode_base::CommitNo;
use lode_page::Column;

use crate::{EngineError, IndexDef, RowAddress, Snapshot, TableDef};

/// The one transaction that writes. Everything in it takes effect at [`WriteTxn::commit`], whole; dropping it leaves
/// the database as it was. It reads [`WriteTxn::snapshot`], which never shows its own changes, and row addresses are
/// those of that snapshot throughout.
pub struct WriteTxn {}

impl WriteTxn {
    /// The state at its begin.
    pub fn snapshot(&self) -> &Snapshot {
        unimplemented!()
    }

    /// As [`crate::Database::create_table`], in this transaction: rows can be inserted into it at once.
    pub fn create_table(&mut self, _def: TableDef, _if_not_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// As [`crate::Database::drop_table`], in this transaction.
    pub fn drop_table(&mut self, _name: &str, _if_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// As [`crate::Database::create_index`], in this transaction.
    pub fn create_index(&mut self, _def: IndexDef, _if_not_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// As [`crate::Database::drop_index`], in this transaction.
    pub fn drop_index(&mut self, _name: &str, _if_exists: bool) -> Result<bool, EngineError> {
        unimplemented!()
    }

    /// Inserts rows, given as all columns of the table in its order; answers how many. They go to row pages, or to
    /// column pages when there are very many. NOT NULL and lengths are checked here, keys at the commit.
    pub fn insert(&mut self, _table: &str, _columns: Vec<Column>) -> Result<u64, EngineError> {
        unimplemented!()
    }

    /// Inserts many rows: column pages (unless the layout is `row`), written as they come to extents that nothing
    /// names until the commit. May be called again and again.
    pub fn load(&mut self, _table: &str, _columns: Vec<Column>) -> Result<u64, EngineError> {
        unimplemented!()
    }

    /// Deletes rows; answers how many were not deleted before.
    pub fn delete(&mut self, _table: &str, _rows: &[RowAddress]) -> Result<u64, EngineError> {
        unimplemented!()
    }

    /// Sets `columns` of row `rows[i]` to row `i` of `values`; answers how many rows. A later update of a row wins.
    pub fn update(
        &mut self,
        _table: &str,
        _rows: &[RowAddress],
        _columns: &[u16],
        _values: Vec<Column>,
    ) -> Result<u64, EngineError> {
        unimplemented!()
    }

    /// Makes everything durable and visible, or nothing. Primary keys are checked here.
    pub fn commit(self) -> Result<CommitNo, EngineError> {
        unimplemented!()
    }
}
