//! B+-tree indexes within a commit: which entries come and go with the pages that it writes.
//!
//! ```text
//!   page as it was ─► keys ─┐                       few: in the commit's own batch
//!                           ├─► entries that differ ┤
//!   page as it is ──► keys ─┘                       many: new ones before the commit, old ones after it
//! ```
//!
//! An entry without its row costs a look at a page, never an answer. So many entries may come early and go late. Few entries are in
//! the commit's batch, where they cost no sync of their own. Many old entries are not kept until then: they are found again in the
//! pages as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::{Lpid, TableId};
use lode_command::Answer;
use lode_page::{Column, decode_page};
use lode_program::Program;
use lode_program::index::SHORT_ENTRY_BYTES_MAX;

use super::rewrite::Rewritten;
use crate::EngineError;
use crate::storage::columns::unpublished;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{IndexDef, IndexKind, Summary, check_columns};
use crate::tables::delta::{self, key_entry};
use crate::tables::entries::EntryOf;
use crate::tables::index::{KeyChanges, entry, entry_of_row, keys, row_keys};
use crate::tables::key::{chosen, has_null};
use crate::tables::overlay::id_at;
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::{Committer, Snapshot, Tree, TreeWrites};

/// Bytes of entries in a commit's own batch, or in one before or after it.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// More entries than this many batches have are made before the commit. They are sorted first, so that each of these batches changes
/// few leaves, also where keys come in no order.
const RUN_BATCHES: usize = 16;
/// Long entries of the page index take at most this fraction of a page.
const LONG_ENTRY_OF_PAGE: usize = 16;

/// Entries of the indexes of one commit.
#[derive(Default)]
pub(super) struct IndexChanges {
    trees: BTreeMap<String, TreeWrites>,
    bytes: usize,
    /// Entries that are removed were forgotten, since there are many. See [`LateRemovals`].
    forgot_removals: bool,
    /// Pages of tables without a delta that lost rows.
    rewritten: Vec<RewrittenPages>,
}

/// Pages of a table without a delta that a commit wrote anew or moved.
pub(super) struct RewrittenPages {
    table: TableId,
    taken_out: Vec<Lpid>,
    /// Those of them that are written again in place, among others.
    written: BTreeSet<Lpid>,
}

/// What finds the entries that a commit must remove, once it is durable: the state that it followed has the old values.
pub(super) struct LateRemovals {
    pub(super) was: Snapshot,
    rewritten: Vec<RewrittenPages>,
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
        self.forgot_removals |= others.forgot_removals;
        self.rewritten.extend(others.rewritten);
    }

    /// Leaves the entries that are put in, or those that are removed.
    fn retain(&mut self, puts: bool) {
        let all = std::mem::take(&mut self.trees);
        self.bytes = 0;
        for w in all.into_values() {
            let (tree, keys) = w.into_keys();
            keys.filter(|(_, put)| *put == puts).for_each(|(key, put)| self.note(&tree, key, put));
        }
    }

    fn is_empty(&self) -> bool {
        self.trees.is_empty()
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
    /// If there are many entries: puts in those that are put in at once, and forgets those that are removed. They are found again after
    /// the commit.
    pub(super) fn apply_early(&self, changes: &mut IndexChanges) -> Result<(), EngineError> {
        if changes.bytes > RUN_BATCHES * self.entry_bytes_max() {
            changes.forgot_removals = true;
            self.apply_only(changes, true)?;
        }
        Ok(())
    }

    /// If there are many entries: removes those that are removed, and forgets those that are put in.
    pub(super) fn apply_late(&self, changes: &mut IndexChanges) -> Result<(), EngineError> {
        match changes.bytes > RUN_BATCHES * self.entry_bytes_max() {
            true => self.apply_only(changes, false),
            false => Ok(()),
        }
    }

    /// Makes some of the changes, and forgets the others.
    pub(super) fn apply_only(&self, changes: &mut IndexChanges, puts: bool) -> Result<(), EngineError> {
        changes.retain(puts);
        changes.bytes = 0;
        self.apply(IndexChanges { trees: std::mem::take(&mut changes.trees), ..IndexChanges::default() })
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
            let (page, mut all) = decode_page(w.lpid, &w.data)?;
            r.table.schema().complete(&mut all, page.rows());
            written.insert(w.lpid, all);
        }
        let taken_out: BTreeSet<Lpid> = r.taken_out.iter().copied().collect();
        let pages: BTreeSet<Lpid> = taken_out.iter().chain(written.keys()).copied().collect();
        for &lpid in &pages {
            let old = taken_out.contains(&lpid).then_some((self.snapshot, lpid));
            for (index, tree) in &indexes {
                let new = written.get(&lpid).map_or(Vec::new(), |all| chosen(all, &index.columns));
                note_page(index, tree, lpid, old, &new, changes)?;
            }
            self.apply_early(changes)?;
        }
        let written = written.into_keys().collect();
        changes.rewritten.push(RewrittenPages {
            table: r.table.id(),
            taken_out: r.taken_out.clone(),
            written,
        });
        for lpid in r.fresh.iter().copied().filter(|l| !r.writes.iter().any(|w| w.lpid == *l)) {
            for (index, tree) in &indexes {
                let columns =
                    unpublished(self.snapshot.storage().store(), r.table.page_owner(), lpid, &index.columns)?;
                keys(&columns, index).into_iter().for_each(|k| changes.note(tree, entry(k, lpid), true));
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

    /// Divides changes: those that go with the commit's batch, and what finds those that come after it. If there are too many, those
    /// that put something in are made now.
    pub(super) fn divided(
        &self,
        mut changes: IndexChanges,
    ) -> Result<(Vec<TreeWrites>, Option<LateRemovals>), EngineError> {
        if changes.bytes <= self.entry_bytes_max() && !changes.forgot_removals {
            return Ok((changes.writes(), None));
        }
        self.apply_only(&mut changes, true)?;
        Ok((Vec::new(), Some(LateRemovals { was: self.snapshot.clone(), rewritten: changes.rewritten })))
    }

    /// Removes the entries of the old values of pages that a commit wrote anew. This is the state after the commit.
    pub(super) fn remove_rewritten(&self, late: &LateRemovals) -> Result<(), EngineError> {
        let before = Indexes { committer: self.committer, snapshot: &late.was };
        let mut changes = IndexChanges::default();
        for of in &late.rewritten {
            let Some(t) = late.was.tables().find(|t| t.id() == of.table) else { continue };
            for (index, tree) in before.btrees(t) {
                for &lpid in &of.taken_out {
                    let new = match of.written.contains(&lpid) {
                        true => read::columns(self.snapshot, lpid, &index.columns)?.columns,
                        false => Vec::new(),
                    };
                    note_page(&index, &tree, lpid, Some((&late.was, lpid)), &new, &mut changes)?;
                    self.apply_late(&mut changes)?;
                }
            }
        }
        self.apply_only(&mut changes, false)
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
        let mut changes = IndexChanges::default();
        let run_bytes = RUN_BATCHES * self.entry_bytes_max();
        self.entries_of(t, def, |entry| {
            changes.note(tree, entry, true);
            match changes.bytes > run_bytes {
                true => self.apply(std::mem::take(&mut changes)),
                false => Ok(()),
            }
        })?;
        self.apply(changes)
    }

    /// Calls `each` with the entry of an index of each row that a table has; of rows of a page with the same key once.
    pub(super) fn entries_of(
        &self,
        t: &Table,
        def: &IndexDef,
        mut each: impl FnMut(Vec<u8>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let directory = self.snapshot.directory_of_entries(t)?;
        let program = Program::check(t.schema().clone(), None, def.columns.clone(), directory.is_some())?;
        let mut scan = self.snapshot.scan(t, t.all_ranges(), Arc::new(program), Answer::Rows, None)?;
        while let Some(unit) = scan.next()? {
            for page in &unit.pages {
                match &directory {
                    None => {
                        let keys = keys(&page.columns, def).into_iter();
                        keys.map(|k| entry(k, page.lpid)).try_for_each(&mut each)?;
                    }
                    Some(directory) => {
                        for (row, key) in row_keys(&page.columns, &def.orders).enumerate() {
                            let slot = page.slots.as_ref().map_or(row as u32, |s| s[row]);
                            if let Some(id) = id_at(directory, page.lpid, slot) {
                                each(entry_of_row(key, id))?;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the entries that rows of a table with a delta have in a key, of this number.
    pub(super) fn fill_key(
        &self,
        t: &Table,
        number: usize,
        key: &[u16],
        tree: &Tree,
    ) -> Result<(), EngineError> {
        // The page index finds rows of pages.
        let ranges = match t.finds_keys_by_page() {
            true => t.delta_range().into_iter().collect(),
            false => t.all_ranges(),
        };
        let directory = self.snapshot.directory(t)?;
        let program = Program::check(t.schema().clone(), None, key.to_vec(), true)?;
        let mut scan = self.snapshot.scan(t, ranges, Arc::new(program), Answer::Rows, None)?;
        let mut changes = IndexChanges::default();
        let run_bytes = RUN_BATCHES * self.entry_bytes_max();
        while let Some(unit) = scan.next()? {
            for page in &unit.pages {
                let keys = row_keys(&page.columns, &[])
                    .enumerate()
                    .filter(|(row, _)| !has_null(&page.columns, *row));
                for (row, key) in keys {
                    let slot = page.slots.as_ref().map_or(row as u32, |s| s[row]);
                    if let Some(id) = id_at(&directory, page.lpid, slot) {
                        changes.note(tree, key_entry(number, &key, id), true);
                    }
                }
                if changes.bytes > run_bytes {
                    self.apply(std::mem::take(&mut changes))?;
                }
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

/// Notes the entries that a page loses and gains. `old`: where its old columns are, if it had any.
fn note_page(
    index: &IndexDef,
    tree: &Tree,
    lpid: Lpid,
    old: Option<(&Snapshot, Lpid)>,
    new: &[Column],
    changes: &mut IndexChanges,
) -> Result<(), EngineError> {
    let old = match old {
        Some((snapshot, lpid)) => read::columns(snapshot, lpid, &index.columns)?.columns,
        None => Vec::new(),
    };
    let KeyChanges { lost, gained } = KeyChanges::between(&old, new, index);
    lost.into_iter().for_each(|k| changes.note(tree, entry(k, lpid), false));
    gained.into_iter().for_each(|k| changes.note(tree, entry(k, lpid), true));
    Ok(())
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
    check_columns(&def.table, "the index", &def.columns, t.schema().columns.len())?;
    if def.entries == EntryOf::Rows && (def.kind.is_page() || t.has_delta()) {
        let what = match def.kind.is_page() {
            true => "the page index has no entries of rows",
            false => "entries of a table with changes = 'delta' name rows by their ids already",
        };
        return Err(EngineError::invalid(&def.table, what));
    }
    for (n, &column) in def.columns.iter().enumerate().filter(|(n, _)| *def.summary(*n) != Summary::Range) {
        let (summary, c) = (def.summary(n), &t.def().columns[usize::from(column)]);
        let kind = summary.kind();
        let what = |s: &str| {
            EngineError::invalid(&def.table, format!("{} of column \"{}\": {s}", kind.name(), c.name))
        };
        if !kind.keeps(c.ty.data_type) {
            return Err(what(&format!("the page index has none of type {}", c.declared)));
        }
        kind.check_form(c.ty.data_type, &summary.form()).map_err(what)?;
        let same = |(of, s): (u16, &Summary)| of == column && s.kind().id() == kind.id();
        if t.summaries().any(same) {
            return Err(what("the page index has it already"));
        }
    }
    Ok(())
}

/// The longest entries of a page index, where pages are filled to so many bytes.
pub(in crate::tables) fn longest_entry(page_bytes: usize) -> usize {
    SHORT_ENTRY_BYTES_MAX.max(page_bytes / LONG_ENTRY_OF_PAGE)
}

/// Checks the length of the entries of a page index, where pages are filled to so many bytes.
pub(super) fn check_entry_bytes(entry_bytes: usize, page_bytes: usize) -> Result<(), String> {
    match entry_bytes <= longest_entry(page_bytes) {
        true => Ok(()),
        false => Err(format!(
            "entries of {entry_bytes} bytes are too long for pages of {page_bytes} bytes: more than {SHORT_ENTRY_BYTES_MAX} bytes only \
             up to a sixteenth of a page"
        )),
    }
}
