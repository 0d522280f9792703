//! Tables and indexes that a transaction creates and drops.

use std::sync::Arc;

use lode_page::Column;
use lode_program::{IndexRule, ProgramError};

use super::WriteTxn;
use super::cluster::FILL_PERCENT;
use super::cutter::Shape;
use super::foreign::check_unreferenced;
use super::indexes::{check_entry_bytes, check_index};
use super::key_check::{check_key, duplicate};
use super::runs::Sorter;
use super::stream::Io;
use crate::EngineError;
use crate::storage::catalog::root_lpid;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{IndexDef, IndexKind, TableDef};
use crate::tables::delta::Unmerged;
use crate::tables::index::numbered_tree;
use crate::tables::table::Table;
use crate::trees::TreeLoad;

impl WriteTxn {
    /// Creates a table; answers whether it did (`false`: it was there, and `if_not_exists`). Rows can be inserted into
    /// it in the same transaction.
    pub fn create_table(&mut self, def: TableDef, if_not_exists: bool) -> Result<bool, EngineError> {
        if self.catalog.tables.contains_key(&def.name) {
            return if if_not_exists { Ok(false) } else { Err(EngineError::TableExists(def.name)) };
        }
        def.check()?;
        self.catalog.check_parents(&def)?;
        let id = self.snapshot.storage().extents().new_owner();
        // The commit decides where its descriptor lies.
        let mut def = def.completed();
        def.options.narrow_keys = true;
        let table = Table::new(id, def, Vec::new(), Vec::new(), root_lpid());
        let rule = table.index_rule()?;
        self.check_entry_bytes(&table, &rule)?;
        self.index_rules.insert(id, Some(rule));
        self.put_table(table);
        Ok(true)
    }

    /// Checks that batches, whose log records carry the entries of their pages, are not mostly entries.
    fn check_entry_bytes(&self, t: &Table, rule: &IndexRule) -> Result<(), EngineError> {
        let page_bytes_max = self.snapshot.storage().store().identity().page_bytes_max as usize;
        check_entry_bytes(rule.entry_bytes(), Shape::of_loads(t, page_bytes_max).limit_bytes)
            .map_err(|what| EngineError::invalid(t.name(), what))
    }

    /// Drops a table and its indexes; answers whether it did.
    pub fn drop_table(&mut self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        check_unreferenced(&self.catalog, name)?;
        let Some(table) = Arc::make_mut(&mut self.catalog.tables).remove(name) else {
            return if if_exists { Ok(false) } else { Err(EngineError::NoSuchTable(name.into())) };
        };
        self.changes.remove(&table.id());
        self.changes();
        match self.base(table.id()) {
            Some(_) => self.index_rules.insert(table.id(), None),
            None => self.index_rules.remove(&table.id()),
        };
        Ok(true)
    }

    /// Creates an index: adds columns to the page index of a table, or defines a B+-tree. The commit makes the entries of the rows that are
    /// there. A transaction that has the right to write, and has changed nothing, makes a B+-tree at once. Answers whether it did.
    ///
    /// # Errors
    /// [`EngineError::IndexExists`]; [`EngineError::Unique`] if rows, also of the transaction itself, have equal values in a unique
    /// index; or when the drive fails.
    pub fn create_index(&mut self, def: IndexDef, if_not_exists: bool) -> Result<bool, EngineError> {
        let table = self.catalog.table(&def.table)?.clone();
        let exists = self.catalog.tables.values().any(|t| t.indexes().iter().any(|i| i.name == def.name));
        if exists {
            return if if_not_exists { Ok(false) } else { Err(EngineError::IndexExists(def.name)) };
        }
        check_index(&table, &def)?;
        if def.kind != IndexKind::Page {
            match self.is_unchanged() && self.permit.is_some() {
                true => self.create_btree(&table, def)?,
                false => self.define_btree(&table, def)?,
            }
            return Ok(true);
        }
        let indexes = table.indexes().iter().cloned().chain([def]).collect();
        self.reindex(&table, indexes)?;
        Ok(true)
    }

    /// Drops an index; answers whether it did. The page index that the table was created with stays.
    pub fn drop_index(&mut self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        let has = |t: &Table| t.indexes().iter().any(|i| i.name == name);
        let Some(table) = self.catalog.tables.values().find(|t| has(t)).cloned() else {
            return if if_exists { Ok(false) } else { Err(EngineError::NoSuchIndex(name.into())) };
        };
        let indexes = table.indexes().iter().filter(|i| i.name != name).cloned().collect();
        self.reindex(&table, indexes)?;
        Ok(true)
    }

    fn reindex(&mut self, t: &Table, indexes: Vec<IndexDef>) -> Result<(), EngineError> {
        let remade = t.next(indexes, t.extents.clone());
        let rule = remade.index_rule().map_err(|e| match e {
            EngineError::Program(ProgramError::TooLarge { what, got, max }) => {
                let what = format!("its page index would have {got} {what}; at most {max} are allowed");
                EngineError::invalid(t.name(), what)
            }
            e => e,
        })?;
        let before = t.index_rule()?;
        if rule.entry_bytes() > before.entry_bytes() {
            self.check_entry_bytes(&remade, &rule)?;
        }
        let differs = rule.entry_form() != before.entry_form();
        let remade = remade.with_contents(t.rows, t.bytes, t.tail, t.index_pending || differs);
        if differs {
            self.index_rules.insert(t.id(), Some(rule));
        }
        self.put_table(remade);
        Ok(())
    }

    /// Defines a B+-tree index. Until the commit, which makes its tree, nothing is found by it.
    fn define_btree(&mut self, table: &Table, def: IndexDef) -> Result<(), EngineError> {
        if def.kind.is_unique() {
            self.check_distinct(table.name(), Some(&def.name), &def.columns)?;
        }
        let number = self.snapshot.storage().extents().new_owner();
        let (name, tree) = (def.name.clone(), numbered_tree(number, &def.name));
        let indexes = table.indexes().iter().cloned().chain([def]).collect();
        self.put_table(table.next(indexes, table.extents.clone()).with_index_tree(&name, tree));
        if let Some(change) = self.changes.get_mut(&table.id()) {
            change.forget_keys(false);
        }
        self.hold_merges(table);
        Ok(())
    }

    /// Checks that no two rows that the transaction sees have the same values in these columns. `constraint`: the name of the key; the
    /// primary key has none.
    pub(super) fn check_distinct(
        &mut self,
        table: &str,
        constraint: Option<&str>,
        columns: &[u16],
    ) -> Result<(), EngineError> {
        let now = self.current()?;
        let t = now.table(table).ok_or_else(|| EngineError::NoSuchTable(table.into()))?;
        let twice = |of_key: &[Column], row: usize| duplicate(&t, constraint, of_key, row);
        check_key(&now, self.limits.key_check_bytes, &t, columns, twice)
    }

    /// Keeps background work from merging the delta of a table that the transaction alters: the commit would conflict with the merge.
    pub(super) fn hold_merges(&mut self, t: &Table) {
        if let Some(delta) = t.delta() {
            self.unmerged.entry(t.id()).or_insert_with(|| Unmerged::hold(delta));
        }
    }

    /// Makes a B+-tree index of the rows that are there. The transaction has the right to write, and has changed nothing.
    fn create_btree(&mut self, table: &Table, def: IndexDef) -> Result<(), EngineError> {
        let plain = table.index_tree(&def);
        let trees = self.trees.clone();
        let committer = trees.committer();
        // An index that was renamed keeps its tree.
        let is_taken = self.catalog.tables.values().any(|t| t.index_trees().any(|tree| tree == plain));
        let name = match is_taken {
            true => numbered_tree(self.snapshot.storage().extents().new_owner(), &def.name),
            false => plain,
        };
        if let Some(left) = self.snapshot.tree(&name) {
            // The tree of an index that could not be finished.
            committer.writer().drop_tree(&left)?;
        }
        self.load_btree(table, &def, &name)?;
        self.snapshot = trees.heads().refreshed()?;
        self.catalog = TableCatalog::of(&self.snapshot);
        let table = self.catalog.table(table.name())?.clone();
        let index = def.name.clone();
        let indexes = table.indexes().iter().cloned().chain([def]).collect();
        let next = table.next(indexes, table.extents.clone());
        self.put_table(if is_taken { next.with_index_tree(&index, name) } else { next });
        Ok(())
    }

    /// Loads the tree of an index from its sorted entries: each node is written once.
    fn load_btree(&self, table: &Table, def: &IndexDef, name: &str) -> Result<(), EngineError> {
        if let IndexKind::Btree { unique: true } = def.kind {
            let twice = |columns: &[Column], row: usize| duplicate(table, Some(&def.name), columns, row);
            check_key(&self.snapshot, self.limits.key_check_bytes, table, &def.columns, twice)?;
        }
        let committer = self.trees.committer();
        let extents = committer.storage().extents();
        // Runs that do not fit memory go to extents that nobody else sees.
        let mut aside = Vec::new();
        let mut io = Io::new(committer.storage(), &mut aside);
        let mut sorter = Sorter::new(extents.new_owner().into(), self.limits.key_check_bytes);
        let made =
            self.indexes().entries_of(table, def, |entry| sorter.push(&mut io, entry)).and_then(|()| {
                let mut tree = TreeLoad::new(committer.clone(), name)?.fill_percent(FILL_PERCENT);
                sorter.finish(&io, |entry| tree.put(entry, &[]))?;
                tree.finish_alone()
            });
        if !aside.is_empty() {
            extents.release_unpublished(aside);
        }
        made.map(drop)
    }
}
