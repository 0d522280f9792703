//! Transactions over tables. They work on the state at their begin until they commit.
//!
//! ```text
//!   insert ─► rows held ──────────────┐
//!   load ───► full pages ─► fresh extents (nothing names them)
//!   update, delete ─► edits by page ──┤
//!                                     └─► commit: right to write ─► validated, moved onto the current state ─► constraints
//!                                                 ─► pages rewritten ─► one atomic batch ─► new Snapshot
//! ```
//!
//! Invariants: before its last batch a transaction writes only to extents that no published descriptor names. If it is dropped, it
//! releases them; after a crash the next open does. Of two transactions that change one row, the one that commits first wins.

mod alter;
mod change;
mod cluster;
mod commit;
mod constraints;
mod cutter;
mod ddl;
mod delta;
mod delta_commit;
mod entries;
mod fold;
mod followed;
mod foreign;
mod held_rows;
mod indexes;
mod key_check;
mod key_order;
mod merge;
mod near;
mod objects;
mod rebase;
mod references;
mod rewrite;
mod runs;
mod savepoint;
mod spill;
mod statement;
mod stream;
mod touched;
mod unchecked;
mod unread;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, TableId};
use lode_page::Column;
use lode_program::IndexRule;

use super::catalog::TableCatalog;
use super::definition::check_columns;
use super::delta::{Unmerged, is_delta};
use super::own::{self, OwnChanges, ValueStore};
use super::read;
use super::sequences::Sequences;
use super::snapshot::{TablesState, shown};
use super::table::{RowAddress, Table};
use crate::EngineError;
use crate::storage::columns::without_pool;
use crate::storage::view::View;
use crate::trees::{Alone, Durability, Snapshot, Tree, Trees};
use change::TableChange;
use indexes::Indexes;
use stream::{FreshPages, Io};
use touched::Referenced;

pub use cluster::TableRewrite;
pub(super) use foreign::check_table as check_foreign_keys;
pub(super) use indexes::longest_entry;
pub(super) use key_check::check_table as check_keys;
pub(super) use merge::{Merged, survey};
pub use savepoint::SavedChanges;

/// What transactions may hold in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::tables) struct Limits {
    /// Hashes that a check of unsorted keys holds at a time.
    pub(in crate::tables) key_check_bytes: usize,
    /// Bytes of new values that are held at a time.
    pub(in crate::tables) change_bytes: usize,
    /// A statement that changes more rows of a table with a delta edits pages.
    pub(in crate::tables) rows_by_id_max: usize,
}

/// A transaction over tables. Everything in it takes effect at [`WriteTxn::commit`], as a whole. Dropping it leaves the database as
/// it was. [`WriteTxn::snapshot`] is the state at its begin, [`WriteTxn::current`] that with its own changes.
pub struct WriteTxn {
    trees: Arc<Trees>,
    sequences: Arc<Sequences>,
    limits: Limits,
    snapshot: Snapshot,
    /// The catalog as the transaction has it. The contents of its tables are those at the snapshot.
    catalog: TableCatalog,
    changes: BTreeMap<TableId, TableChange>,
    index_rules: BTreeMap<TableId, Option<IndexRule>>,
    /// Extents that this transaction got.
    fresh: Vec<ExtentId>,
    /// What it sees, since its last change.
    current: Option<Snapshot>,
    /// A view that shows what it loaded so far.
    loaded_view: Option<Arc<View>>,
    /// When it is durable.
    durability: Durability,
    /// Trees that it made for new tables and indexes, which nothing in the catalog has yet.
    made_trees: Vec<Tree>,
    /// The columns that foreign keys reference, once they were asked for.
    referenced: Option<Referenced>,
    /// Whether the end of a statement has found a foreign key kept by a newer state than the snapshot.
    looked_at_newer: bool,
    /// Deltas of tables that it alters.
    unmerged: BTreeMap<TableId, Unmerged>,
    /// New values of rows that it updates.
    values: Arc<ValueStore>,
    /// Pages that these values go to if they are many.
    spilled: FreshPages,
    /// The right to write, if it has it: from its begin or from its commit on. It is given back last of all.
    permit: Option<Alone>,
}

impl WriteTxn {
    /// A transaction that begins at a snapshot.
    pub(super) fn new(
        trees: Arc<Trees>,
        sequences: Arc<Sequences>,
        limits: Limits,
        permit: Option<Alone>,
        snapshot: Snapshot,
    ) -> Self {
        let values = ValueStore::new(trees.committer().storage().clone());
        Self {
            trees,
            sequences,
            limits,
            catalog: TableCatalog::of(&snapshot),
            snapshot,
            changes: BTreeMap::new(),
            index_rules: BTreeMap::new(),
            fresh: Vec::new(),
            current: None,
            loaded_view: None,
            durability: Durability::Commit,
            made_trees: Vec::new(),
            referenced: None,
            looked_at_newer: false,
            unmerged: BTreeMap::new(),
            values,
            spilled: FreshPages::default(),
            permit,
        }
    }

    /// Sets when the commit is durable. The default is when it returns. For [`Durability::Group`], see
    /// [`crate::Database::sync_every`].
    pub fn set_durability(&mut self, d: Durability) {
        self.durability = d;
    }

    /// The state at its begin.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The table of this name, as the transaction has it: with tables that it created, without its changes to rows.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.catalog.tables.get(name).cloned()
    }

    /// What the transaction sees: the state at its begin, and its own changes so far. Later changes do not show in it.
    /// Addresses of rows that were there at the begin are those of [`WriteTxn::snapshot`]. Addresses of its own rows
    /// are valid until it inserts more.
    ///
    /// # Errors
    /// When rows that it loads cannot be written.
    pub fn current(&mut self) -> Result<Snapshot, EngineError> {
        if let Some(current) = &self.current {
            return Ok(current.clone());
        }
        let current = match self.is_unchanged() {
            true => self.snapshot.clone(),
            false => self.with_own()?,
        };
        self.current = Some(current.clone());
        Ok(current)
    }

    /// Whether it has changed nothing yet.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
            && self.index_rules.is_empty()
            && self.has_same_tables()
            && self.has_same_objects()
    }

    /// Whether its tables have the definitions that they had at its begin.
    fn has_same_tables(&self) -> bool {
        let (now, at_begin) = (&self.catalog.tables, self.snapshot.tables_state().tables());
        let all_same = || now.values().zip(at_begin.values()).all(|(a, b)| Arc::ptr_eq(a, b));
        Arc::ptr_eq(now, at_begin) || now.len() == at_begin.len() && all_same()
    }

    /// Whether it has made, changed and dropped no object beside tables.
    fn has_same_objects(&self) -> bool {
        Arc::ptr_eq(&self.catalog.objects, self.snapshot.tables_state().objects().0)
    }

    fn with_own(&mut self) -> Result<Snapshot, EngineError> {
        let mut own = OwnChanges::new(self.snapshot.clone());
        let mut tables = self.catalog.tables.clone();
        let same_tables = self.has_same_tables();
        for t in self.catalog.tables.values() {
            if !same_tables && self.snapshot.table(t.name()).is_none_or(|b| !Arc::ptr_eq(&b, t)) {
                own.change_table(t.id());
            }
            let Some(change) = self.changes.get_mut(&t.id()) else { continue };
            let mut io = Io::new(self.trees.committer().storage(), &mut self.fresh);
            change.settle(&mut io, t)?;
            if change.changes_pages() {
                Arc::make_mut(&mut tables).insert(t.name().into(), Arc::new(change.visible(t)));
            }
            own.change_table(t.id());
            own.add(&change.edits, change.held.pages(t), change.stream.extents.iter().map(|e| e.id));
            if t.has_delta() {
                own.add_rows(t.id(), &change.rows);
            }
        }
        if own.has_loaded() {
            let view = match &self.loaded_view {
                Some(view) => view.clone(),
                None => {
                    let view = Arc::new(View::open(self.trees.committer().storage())?);
                    self.loaded_view.insert(view).clone()
                }
            };
            own.show_loaded(view);
        }
        let TableCatalog { objects, sequence_page, .. } = &self.catalog;
        let state = TablesState::new(tables, objects.clone(), *sequence_page, Some(own));
        Ok(self.snapshot.with_catalog(shown(self.snapshot.catalog(), state)))
    }

    /// Inserts rows, given as all columns of the table in its order; answers how many. They go to row pages. Very many rows become a
    /// load. NOT NULL and lengths are checked here, keys and foreign keys at the end of the statement and at the commit.
    pub fn insert(&mut self, table: &str, columns: Vec<Column>) -> Result<u64, EngineError> {
        self.add(table, columns, TableChange::insert)
    }

    /// Loads many rows. They become column pages (row pages if the layout is `row`), which are written at once to extents that nothing
    /// names until the commit. A load may take any number of calls.
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
            self.changes();
            let mut io = Io::new(self.trees.committer().storage(), &mut self.fresh);
            let change = self.changes.entry(t.id()).or_default();
            change.unchecked.note_rows(&t, &columns);
            change.touched.note_new(&t, &columns);
            how(change, &mut io, &t, columns)?;
            if change.is_load() {
                change.unchecked.note_load();
            }
        }
        Ok(rows as u64)
    }

    /// Notes that there will be changes: a snapshot that was taken before does not show them.
    fn changes(&mut self) {
        self.current = None;
        self.loaded_view = None;
    }

    /// Deletes rows; answers how many were not deleted before.
    pub fn delete(&mut self, table: &str, rows: &[RowAddress]) -> Result<u64, EngineError> {
        let t = self.addressed(table, rows)?;
        if rows.is_empty() {
            return Ok(0);
        }
        if t.has_delta() {
            return self.delete_rows(&t, rows);
        }
        self.note_rows_of_pages(&t, rows, None)?;
        self.current = None;
        Ok(own::delete(&mut self.changes.entry(t.id()).or_default().edits, &t, rows))
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
        check_columns(t.name(), "the update", columns, t.schema().columns.len())?;
        let given = validate::check(&t, columns, &values)?;
        if given != rows.len() && !columns.is_empty() {
            let what = format!("{given} rows of values were given for {} rows", rows.len());
            return Err(EngineError::invalid(t.name(), what));
        }
        let t = self.addressed(table, rows)?;
        if rows.is_empty() {
            return Ok(0);
        }
        if t.has_delta() {
            self.update_rows(&t, rows, columns, &values)?;
            self.spill_values()?;
            return Ok(rows.len() as u64);
        }
        self.note_rows_of_pages(&t, rows, Some((columns, &values)))?;
        self.current = None;
        let change = self.changes.entry(t.id()).or_default();
        change.unchecked.note_edits(&t, rows, columns);
        own::update(&mut change.edits, &self.values, &t, rows, columns, &values);
        self.spill_values()?;
        Ok(rows.len() as u64)
    }

    /// The table that row addresses refer to. Checks that all of `rows` are rows, which are about to be changed.
    fn addressed(&mut self, table: &str, rows: &[RowAddress]) -> Result<Table, EngineError> {
        let t = self.catalog.table(table)?.clone();
        let change = self.changes.get(&t.id());
        let visible = change.map_or_else(|| t.same(), |c| c.visible(&t));
        let rows_of = |lpid: Lpid| match change.and_then(|c| c.held.rows_of(&t, lpid)) {
            Some(rows) => Ok(rows),
            // Whether the delta has the row turns out when the row is read.
            None if is_delta(lpid.extent()) => Ok(usize::MAX),
            None if t.extent_index(lpid.extent()).is_some() => Ok(read::page(&self.snapshot, lpid)?.rows()),
            None => {
                let store = self.snapshot.storage().store();
                Ok(without_pool(store, None, t.page_owner(), lpid, &[])?.rows)
            }
        };
        own::check_addresses(&visible, rows, rows_of)?;
        self.current = None;
        Ok(visible)
    }

    /// The B+-tree indexes at the snapshot.
    fn indexes(&self) -> Indexes<'_> {
        Indexes { committer: self.trees.committer(), snapshot: &self.snapshot }
    }

    /// The table of this number at the snapshot.
    fn base(&self, id: TableId) -> Option<Arc<Table>> {
        self.snapshot.tables().find(|t| t.id() == id).cloned()
    }

    fn put_table(&mut self, t: Table) {
        self.current = None;
        Arc::make_mut(&mut self.catalog.tables).insert(t.name().into(), Arc::new(t));
    }
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        self.current = None;
        self.loaded_view = None;
        let made = std::mem::take(&mut self.made_trees);
        let _permit = (!made.is_empty() && self.permit.is_none()).then(|| self.trees.committer().permit());
        for tree in made {
            // If this fails, the next open drops the tree.
            let _ = self.trees.committer().writer().drop_tree(&tree);
        }
        if !self.fresh.is_empty() {
            self.trees.committer().storage().extents().release_unpublished(std::mem::take(&mut self.fresh));
        }
    }
}
