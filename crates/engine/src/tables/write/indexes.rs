//! B+-tree indexes within a commit: what entries come and go with the pages that it writes.
//!
//! ```text
//!   page as it was ─► keys ─┐                       few: in the commit's own batch
//!                           ├─► entries that differ ┤
//!   page as it is ──► keys ─┘                       many: new ones before the commit, old ones after it
//! ```
//!
//! Entries that come too early or go too late cost a look at a page; so only what is small has to be in the batch, where it costs
//! no sync of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::Answer;
use lode_page::{Column, decode_page};
use lode_program::Program;

use super::WriteTxn;
use super::key_check::check_key;
use super::rewrite::Rewritten;
use crate::EngineError;
use crate::storage::columns::unpublished;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{IndexDef, IndexKind, check_columns};
use crate::tables::index::{entry, keys, tree_name};
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::{Tree, TreeWrites};

/// Bytes of entries in a commit's own batch, or in one before or after it.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Entries of the indexes of one commit.
#[derive(Default)]
pub(super) struct IndexChanges {
    trees: BTreeMap<String, TreeWrites>,
    bytes: usize,
}

impl IndexChanges {
    fn note(&mut self, tree: &Tree, key: Vec<u8>, put: bool) {
        self.bytes += key.len() + 32;
        let none = || TreeWrites::new(tree.clone());
        let of_tree = self.trees.entry(tree.name().into()).or_insert_with(none);
        match put {
            true => of_tree.put(key, &[]),
            false => of_tree.delete(key),
        }
    }

    fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Those that put something in, or those that take something out.
    fn only(&self, puts: bool) -> Self {
        let mut some = Self::default();
        for w in self.trees.values() {
            for (key, _) in w.keys().filter(|(_, put)| *put == puts) {
                some.note(w.tree(), key.to_vec(), puts);
            }
        }
        some
    }

    fn writes(self) -> Vec<TreeWrites> {
        self.trees.into_values().collect()
    }
}

impl WriteTxn {
    fn entry_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX.min(self.snapshot.storage().store().identity().batch_bytes_max as usize / 8)
    }

    /// What happens to the entries of a table's indexes. Entries of pages that nothing names yet are put in at once where
    /// there are many.
    pub(super) fn index_changes(
        &mut self,
        r: &Rewritten,
        written: impl Iterator<Item = Lpid>,
        changes: &mut IndexChanges,
    ) -> Result<(), EngineError> {
        let indexes: Vec<(IndexDef, Tree)> = self.btrees(&r.table);
        if indexes.is_empty() {
            return Ok(());
        }
        for (index, tree) in &indexes {
            let mut old: BTreeSet<Vec<u8>> = BTreeSet::new();
            for &lpid in &r.taken_out {
                let page = read::columns(&self.snapshot, lpid, &index.columns)?;
                old.extend(keys(&page.columns).into_iter().map(|k| entry(k, lpid)));
            }
            for w in &r.writes {
                let (_, columns) = decode_page(w.lpid, &w.data)?;
                let of_index: Vec<Column> =
                    index.columns.iter().map(|&c| columns[usize::from(c)].clone()).collect();
                for key in keys(&of_index).into_iter().map(|k| entry(k, w.lpid)) {
                    if !old.remove(&key) {
                        changes.note(tree, key, true);
                    }
                }
            }
            old.into_iter().for_each(|key| changes.note(tree, key, false));
        }
        for lpid in written.filter(|l| !r.writes.iter().any(|w| w.lpid == *l)) {
            for (index, tree) in &indexes {
                let columns =
                    unpublished(self.snapshot.storage().store(), r.table.page_owner(), lpid, &index.columns)?;
                keys(&columns).into_iter().for_each(|k| changes.note(tree, entry(k, lpid), true));
            }
            if changes.bytes > self.entry_bytes_max() {
                let early = changes.only(true);
                *changes = changes.only(false);
                self.apply(early)?;
            }
        }
        Ok(())
    }

    /// The B+-tree indexes of a table, and their trees.
    fn btrees(&self, t: &Table) -> Vec<(IndexDef, Tree)> {
        let of = |i: &IndexDef| Some((i.clone(), self.snapshot.tree(&tree_name(&i.name))?));
        t.indexes().iter().filter(|i| i.kind != IndexKind::Page).filter_map(of).collect()
    }

    /// What goes with the commit's batch, and what comes after it.
    pub(super) fn divided(
        &mut self,
        changes: IndexChanges,
    ) -> Result<(Vec<TreeWrites>, IndexChanges), EngineError> {
        if changes.bytes <= self.entry_bytes_max() {
            return Ok((changes.writes(), IndexChanges::default()));
        }
        let late = changes.only(false);
        self.apply(changes.only(true))?;
        Ok((Vec::new(), late))
    }

    /// Makes changes of entries on their own. It has the right to write.
    pub(super) fn apply(&self, changes: IndexChanges) -> Result<(), EngineError> {
        if changes.is_empty() {
            return Ok(());
        }
        let most = self.entry_bytes_max();
        let mut part = IndexChanges::default();
        for w in changes.trees.into_values() {
            let (tree, keys) = w.into_keys();
            for (key, put) in keys {
                part.note(&tree, key, put);
                if part.bytes > most {
                    self.trees.committer().commit_alone(std::mem::take(&mut part).writes())?;
                }
            }
        }
        if !part.is_empty() {
            self.trees.committer().commit_alone(part.writes())?;
        }
        Ok(())
    }

    /// Makes a B+-tree index of the rows that are there; a transaction of its own, which has the right to write.
    pub(super) fn create_btree(&mut self, table: &Table, def: IndexDef) -> Result<(), EngineError> {
        if !self.is_unchanged() || self.permit.is_none() {
            let what = "a B+-tree index is made by a transaction of its own";
            return Err(EngineError::invalid(table.name(), what));
        }
        let name = tree_name(&def.name);
        if let Some(left) = self.snapshot.tree(&name) {
            // Of one that could not be finished.
            self.drop_tree(&left)?;
        }
        let tree = self.trees.committer().writer().create(&name)?;
        let made = self.fill(table, &def, &tree);
        self.snapshot = self.trees.heads().refreshed()?;
        self.catalog = TableCatalog::of(&self.snapshot);
        if let Err(e) = made {
            self.drop_tree(&tree)?;
            return Err(e);
        }
        let table = self.catalog.table(table.name())?.clone();
        let indexes = table.indexes().iter().cloned().chain([def]).collect();
        let named =
            Table::new(table.id(), table.def().clone(), indexes, table.extents.clone(), table.descriptor);
        self.put_table(named.with_contents(table.rows, table.bytes, table.tail, table.index_pending));
        Ok(())
    }

    fn fill(&self, t: &Table, def: &IndexDef, tree: &Tree) -> Result<(), EngineError> {
        if let IndexKind::Btree { unique: true } = def.kind {
            check_key(&self.snapshot, self.key_check_bytes, t, Some(&def.name), &def.columns)?;
        }
        let program = Program::check(t.schema().clone(), None, def.columns.clone(), false)?;
        let mut scan = self.snapshot.scan(t, t.page_ranges(), Arc::new(program), Answer::Rows, None)?;
        let mut changes = IndexChanges::default();
        while let Some(unit) = scan.next()? {
            for page in &unit.pages {
                keys(&page.columns).into_iter().for_each(|k| changes.note(tree, entry(k, page.lpid), true));
            }
            if changes.bytes > self.entry_bytes_max() {
                self.apply(std::mem::take(&mut changes))?;
            }
        }
        self.apply(changes)
    }

    /// Drops the trees of indexes that a commit dropped: nothing names them any more, and what a crash leaves of them the
    /// next open drops.
    pub(super) fn drop_trees(&self, trees: &[Tree]) {
        for tree in trees {
            let _ = self.drop_tree(tree);
        }
    }

    /// Older snapshots that know the tree do without it from now on.
    fn drop_tree(&self, tree: &Tree) -> Result<(), EngineError> {
        self.trees.committer().writer().drop_tree(tree)
    }

    /// Trees of indexes that are in the snapshot and not among the tables of `self.catalog`.
    pub(super) fn unnamed_trees(&self) -> Vec<Tree> {
        let indexes = |tables: &BTreeMap<String, Arc<Table>>| -> BTreeSet<String> {
            let all = tables.values().flat_map(|t| t.indexes().iter());
            all.filter(|i| i.kind != IndexKind::Page).map(|i| tree_name(&i.name)).collect()
        };
        let old = indexes(self.snapshot.tables_state().tables());
        let gone = &old - &indexes(&self.catalog.tables);
        gone.iter().filter_map(|name| self.snapshot.tree(name)).collect()
    }
}

/// Columns of an index, checked.
pub(super) fn check_index(t: &Table, def: &IndexDef) -> Result<(), EngineError> {
    if def.columns.is_empty() {
        return Err(EngineError::invalid(&def.table, "an index has at least one column"));
    }
    check_columns(&def.table, "the index", &def.columns, t.schema().columns.len())
}
