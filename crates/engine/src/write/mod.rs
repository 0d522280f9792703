//! Changes: the one transaction that writes.
//!
//! ```text
//!   insert ─► rows held ──────────────┐
//!   load ───► full pages ─► fresh extents (nothing names them)
//!   update, delete ─► edits by page ──┤
//!                                     └─► commit: keys checked, pages rewritten, one atomic batch ─► new Snapshot
//! ```
//!
//! Invariants: before its last batch a transaction writes only to extents that no published descriptor names; dropped,
//! it gives them back; what a crash leaves of them, the next open gives back.

mod change;
mod commit;
mod cutter;
mod ddl;
mod edit;
mod key;
mod key_check;
mod key_order;
mod rewrite;
mod stream;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::{ExtentId, TableId};
use lode_command::Batch;
use lode_page::Column;
use lode_program::IndexRule;

use crate::catalog::Catalog;
use crate::database::{Inner, Permit, Shared};
use crate::{EngineError, RowAddress, Snapshot, Table};
use change::TableChange;
pub(crate) use key_check::check_table;
use stream::Io;

/// The one transaction that writes. Everything in it takes effect at [`WriteTxn::commit`], whole; dropping it leaves
/// the database as it was. It reads [`WriteTxn::snapshot`], which never shows its own changes, and row addresses are
/// those of that snapshot throughout.
pub struct WriteTxn {
    database: Arc<Inner>,
    snapshot: Snapshot,
    /// The catalog as the transaction has it, its tables' contents as at the snapshot.
    catalog: Catalog,
    changes: BTreeMap<TableId, TableChange>,
    index_rules: BTreeMap<TableId, Option<IndexRule>>,
    /// Extents handed out to this transaction.
    fresh: Vec<ExtentId>,
    /// Given back last of all.
    _permit: Permit,
}

impl WriteTxn {
    pub(crate) fn new(database: Arc<Inner>, permit: Permit, snapshot: Snapshot) -> Self {
        Self {
            database,
            catalog: snapshot.catalog().clone(),
            snapshot,
            changes: BTreeMap::new(),
            index_rules: BTreeMap::new(),
            fresh: Vec::new(),
            _permit: permit,
        }
    }

    /// The state at its begin.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The table of this name, as the transaction has it: with tables that it created, without its changes to rows.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.catalog.tables.get(name).cloned()
    }

    /// Inserts rows, given as all columns of the table in its order; answers how many. They go to row pages, or as a
    /// load when there are very many. NOT NULL and lengths are checked here, keys at the commit.
    pub fn insert(&mut self, table: &str, columns: Vec<Column>) -> Result<u64, EngineError> {
        self.add(table, columns, TableChange::insert)
    }

    /// Inserts many rows: column pages (unless the layout is `row`), written as they come to extents that nothing
    /// names until the commit. May be called again and again.
    pub fn load(&mut self, table: &str, columns: Vec<Column>) -> Result<u64, EngineError> {
        self.add(table, columns, TableChange::load)
    }

    fn add(
        &mut self,
        table: &str,
        columns: Vec<Column>,
        how: impl FnOnce(&mut TableChange, &mut Io<'_>, &Table, Vec<Column>) -> Result<(), EngineError>,
    ) -> Result<u64, EngineError> {
        let t = self.catalog.table(table)?.clone();
        let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
        let rows = validate::check(&t, &all, &columns)?;
        if rows > 0 {
            let mut io = Io { store: &self.database.shared.store, fresh: &mut self.fresh };
            how(self.changes.entry(t.id()).or_default(), &mut io, &t, columns)?;
        }
        Ok(rows as u64)
    }

    /// Deletes rows; answers how many were not deleted before.
    pub fn delete(&mut self, table: &str, rows: &[RowAddress]) -> Result<u64, EngineError> {
        let t = self.catalog.table(table)?.clone();
        edit::delete(&mut self.changes.entry(t.id()).or_default().edits, &t, rows)
    }

    /// Sets `columns` of row `rows[i]` to row `i` of `values`; answers how many rows. A later update of a row wins.
    pub fn update(
        &mut self,
        table: &str,
        rows: &[RowAddress],
        columns: &[u16],
        values: Vec<Column>,
    ) -> Result<u64, EngineError> {
        let t = self.catalog.table(table)?.clone();
        crate::table::check_columns(t.name(), "the update", columns, t.schema().columns.len())?;
        let given = validate::check(&t, columns, &values)?;
        if given != rows.len() && !columns.is_empty() {
            let what = format!("{given} rows of values were given for {} rows", rows.len());
            return Err(EngineError::invalid(t.name(), what));
        }
        let edits = &mut self.changes.entry(t.id()).or_default().edits;
        edit::update(edits, &t, rows, columns, &values)?;
        Ok(rows.len() as u64)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.database.shared
    }

    /// The table of this number at the snapshot.
    fn base(&self, id: TableId) -> Option<Arc<Table>> {
        self.snapshot.tables().find(|t| t.id() == id).cloned()
    }

    fn put_table(&mut self, t: Table) {
        self.catalog.tables.insert(t.name().into(), Arc::new(t));
    }
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        if !self.fresh.is_empty() {
            // What the drive does not take back now, the next open gives back.
            let releases = std::mem::take(&mut self.fresh);
            let _ = self.database.shared.store.write(Batch { releases, ..Batch::default() });
        }
    }
}
