//! B+-tree indexes within a commit: which entries come and go with the pages that it writes.
//!
//! ```text
//!   page as it was ─► keys ─┐                       few: in the commit's own batch
//!                           ├─► entries that differ ┤
//!   page as it is ──► keys ─┘                       many: new ones before the commit, old ones after it
//! ```
//!
//! An entry without its row costs a look at a page, never an answer. So many entries may come early and go late. Few entries are in
//! the commit's batch, where they cost no sync of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::Answer;
use lode_page::{Column, decode_page};
use lode_program::Program;

use super::rewrite::Rewritten;
use crate::EngineError;
use crate::storage::columns::unpublished;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{IndexDef, IndexKind, check_columns};
use crate::tables::delta;
use crate::tables::index::{KeyChanges, entry, entry_of_row, keys, row_keys};
use crate::tables::overlay::id_at;
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::{Committer, Snapshot, Tree, TreeWrites};

/// Bytes of entries in a commit's own batch, or in one before or after it.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Entries of the indexes of one commit.
#[derive(Default)]
pub(super) struct IndexChanges {
    trees: BTreeMap<String, TreeWrites>,
    bytes: usize,
}

impl IndexChanges {
    pub(super) fn note(&mut self, tree: &Tree, key: Vec<u8>, put: bool) {
        self.bytes += key.len() + 32;
        let none = || TreeWrites::new(tree.clone());
        let of_tree = self.trees.entry(tree.name().into()).or_insert_with(none);
        match put {
            true => of_tree.put(key, &[]),
            false => of_tree.delete(key),
        }
    }

    pub(super) fn extend(&mut self, others: Self) {
        for w in others.trees.into_values() {
            let (tree, keys) = w.into_keys();
            keys.for_each(|(key, put)| self.note(&tree, key, put));
        }
    }

    fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// With `puts` the entries that are put in, else those that are removed.
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

/// The B+-tree indexes of tables at a snapshot. Only the holder of the right to write may change them.
pub(super) struct Indexes<'a> {
    pub(super) committer: &'a Committer,
    pub(super) snapshot: &'a Snapshot,
}

impl Indexes<'_> {
    /// Puts the entries that are put in in at once, if there are many.
    pub(super) fn apply_early(&self, changes: &mut IndexChanges) -> Result<(), EngineError> {
        if changes.bytes > self.entry_bytes_max() {
            let early = changes.only(true);
            *changes = changes.only(false);
            self.apply(early)?;
        }
        Ok(())
    }

    fn entry_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX.min(self.snapshot.storage().store().identity().batch_bytes_max as usize / 8)
    }

    /// Notes what happens to the entries of a table's indexes. If there are many entries of pages that nothing names yet, they are put
    /// in at once.
    pub(super) fn note_changes(&self, r: &Rewritten, changes: &mut IndexChanges) -> Result<(), EngineError> {
        let indexes: Vec<(IndexDef, Tree)> = self.btrees(&r.table);
        if indexes.is_empty() {
            return Ok(());
        }
        let mut written: BTreeMap<Lpid, Vec<Column>> = BTreeMap::new();
        for w in &r.writes {
            written.insert(w.lpid, decode_page(w.lpid, &w.data)?.1);
        }
        let taken_out: BTreeSet<Lpid> = r.taken_out.iter().copied().collect();
        let pages: BTreeSet<Lpid> = taken_out.iter().chain(written.keys()).copied().collect();
        for (index, tree) in &indexes {
            for &lpid in &pages {
                let old = match taken_out.contains(&lpid) {
                    true => read::columns(self.snapshot, lpid, &index.columns)?.columns,
                    false => Vec::new(),
                };
                let new = written.get(&lpid).map_or(Vec::new(), |all| {
                    index.columns.iter().map(|&c| all[usize::from(c)].clone()).collect()
                });
                let KeyChanges { lost, gained } = KeyChanges::between(&old, &new);
                lost.into_iter().for_each(|k| changes.note(tree, entry(k, lpid), false));
                gained.into_iter().for_each(|k| changes.note(tree, entry(k, lpid), true));
            }
        }
        for lpid in r.fresh.iter().copied().filter(|l| !r.writes.iter().any(|w| w.lpid == *l)) {
            for (index, tree) in &indexes {
                let columns =
                    unpublished(self.snapshot.storage().store(), r.table.page_owner(), lpid, &index.columns)?;
                keys(&columns).into_iter().for_each(|k| changes.note(tree, entry(k, lpid), true));
            }
            self.apply_early(changes)?;
        }
        Ok(())
    }

    /// The B+-tree indexes of a table, and their trees.
    fn btrees(&self, t: &Table) -> Vec<(IndexDef, Tree)> {
        let of = |i: &IndexDef| Some((i.clone(), self.snapshot.tree(&t.index_tree(i))?));
        t.indexes().iter().filter(|i| i.kind != IndexKind::Page).filter_map(of).collect()
    }

    /// Divides changes: those that go with the commit's batch, and those that come after it. If there are too many, those that put
    /// something in are made now.
    pub(super) fn divided(
        &self,
        changes: IndexChanges,
    ) -> Result<(Vec<TreeWrites>, IndexChanges), EngineError> {
        if changes.bytes <= self.entry_bytes_max() {
            return Ok((changes.writes(), IndexChanges::default()));
        }
        let late = changes.only(false);
        self.apply(changes.only(true))?;
        Ok((Vec::new(), late))
    }

    /// Makes changes of entries in batches of their own.
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
                    self.committer.commit_alone(std::mem::take(&mut part).writes())?;
                }
            }
        }
        if !part.is_empty() {
            self.committer.commit_alone(part.writes())?;
        }
        Ok(())
    }

    /// Makes the entries of the rows that a table has.
    pub(super) fn fill(&self, t: &Table, def: &IndexDef, tree: &Tree) -> Result<(), EngineError> {
        let directory = self.snapshot.directory_of_entries(t)?;
        let program = Program::check(t.schema().clone(), None, def.columns.clone(), directory.is_some())?;
        let mut scan = self.snapshot.scan(t, t.all_ranges(), Arc::new(program), Answer::Rows, None)?;
        let mut changes = IndexChanges::default();
        while let Some(unit) = scan.next()? {
            for page in &unit.pages {
                let Some(directory) = &directory else {
                    keys(&page.columns)
                        .into_iter()
                        .for_each(|k| changes.note(tree, entry(k, page.lpid), true));
                    continue;
                };
                for (row, key) in row_keys(&page.columns).enumerate() {
                    let slot = page.slots.as_ref().map_or(row as u32, |s| s[row]);
                    if let Some(id) = id_at(directory, page.lpid, slot) {
                        changes.note(tree, entry_of_row(key, id), true);
                    }
                }
            }
            if changes.bytes > self.entry_bytes_max() {
                self.apply(std::mem::take(&mut changes))?;
            }
        }
        self.apply(changes)
    }

    /// Drops trees of indexes that a commit dropped. If that fails, nothing names them, and the next open tries again.
    pub(super) fn drop_trees(&self, trees: &[Tree]) {
        for tree in trees {
            let _ = self.committer.writer().drop_tree(tree);
        }
    }
}

/// Trees of indexes that a snapshot has and these tables do not.
pub(super) fn unnamed_trees(snapshot: &Snapshot, tables: &TableCatalog) -> Vec<Tree> {
    let indexes = |tables: &BTreeMap<String, Arc<Table>>| -> BTreeSet<String> {
        tables.values().flat_map(|t| t.index_trees()).collect()
    };
    let rows = |tables: &BTreeMap<String, Arc<Table>>| -> BTreeSet<String> {
        tables.values().filter(|t| t.has_delta()).map(|t| delta::tree_name(t.id())).collect()
    };
    let of_indexes = &indexes(snapshot.tables_state().tables()) - &indexes(&tables.tables);
    let of_rows = &rows(snapshot.tables_state().tables()) - &rows(&tables.tables);
    of_indexes.iter().chain(&of_rows).filter_map(|name| snapshot.tree(name)).collect()
}

/// Checks the columns of an index.
pub(super) fn check_index(t: &Table, def: &IndexDef) -> Result<(), EngineError> {
    if def.columns.is_empty() {
        return Err(EngineError::invalid(&def.table, "an index has at least one column"));
    }
    check_columns(&def.table, "the index", &def.columns, t.schema().columns.len())
}
