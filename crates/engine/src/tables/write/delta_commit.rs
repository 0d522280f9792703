//! Commits of tables with a delta.
//!
//! ```text
//!   few rows ─► constraints at the snapshot ─► claims, entries ─► sequencer ─► a group of commits ─► one batch
//!                                                └ too old, or more than rows: the right to write, as all other commits
//! ```
//!
//! A short commit needs no right to write: its claims say what others must have left alone since its snapshot.
//!
//! | claim | of | by whom |
//! |---|---|---|
//! | row | a row that is updated or deleted | exclusive |
//! | key | a key that comes or goes | exclusive; shared by who references it |
//! | table | a table that is changed, or whose rows were looked up for a constraint | shared; exclusive by loads and definitions |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use lode_base::{CommitNo, Lpid, TableId};
use lode_page::{Column, DataType, Value, row};

use super::WriteTxn;
use super::alter::adds_foreign_keys;
use super::change::{Changes, TableChange};
use super::entries::{entries_of_index, entries_of_key, keys_with_entries};
use super::fold::Folded;
use super::foreign::{Foreign, ForeignKeys};
use super::indexes::{IndexChanges, Indexes, LateRemovals};
use super::key_check::Checked;
use super::rewrite::Rewritten;
use crate::EngineError;
use crate::storage::columns::without_pool;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{Constraint, IndexDef, IndexKind, Rule};
use crate::tables::delta::{
    Directory, KeyBounds, RowId, Sorted, Span, delta_key, key_entry, page_key, tree_name,
};
use crate::tables::delta::{Image, RowChange, values_of};
use crate::tables::index;
use crate::tables::key::{chosen, numbered, show_values};
use crate::tables::own::PageEdit;
use crate::tables::planted::{self, Planted};
use crate::tables::planted_cuts::{self, Planted as ForCuts};
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::{Claims, Durability, Sequenced, Snapshot, Tree, TreeWrites};

const ROW: u8 = 1;
const KEY: u8 = 2;
const TABLE: u8 = 3;
/// A transaction that changed rows of more bytes than this makes pages of them.
const FOLDED_BYTES_MIN: u64 = 8 << 20;
/// More changed rows than this are not claimed one by one.
const ROWS_CLAIMED_MAX: usize = 1 << 14;

/// What a commit does to the trees of its tables.
#[derive(Clone, Default)]
pub(super) struct RowWrites {
    trees: BTreeMap<String, TreeWrites>,
    pub(super) claims: Claims,
    /// What each claim is of.
    pub(super) claimed: Vec<Claimed>,
    pub(super) bytes: usize,
}

/// What a claim is of.
#[derive(Clone, Copy)]
pub(super) enum Claimed {
    Row(TableId, RowId),
    /// A key, or a table.
    Other,
}

impl RowWrites {
    fn put(&mut self, tree: &Tree, key: Vec<u8>, value: &[u8]) {
        self.bytes += key.len() + value.len();
        self.of(tree).put(key, value);
    }

    fn delete(&mut self, tree: &Tree, key: Vec<u8>) {
        self.bytes += key.len();
        self.of(tree).delete(key);
    }

    fn of(&mut self, tree: &Tree) -> &mut TreeWrites {
        let none = || TreeWrites::new(tree.clone());
        self.trees.entry(tree.name().into()).or_insert_with(none)
    }

    pub(super) fn into_writes(self) -> Vec<TreeWrites> {
        self.trees.into_values().collect()
    }

    pub(super) fn claim_table(&mut self, t: TableId, exclusive: bool) {
        match exclusive {
            true => self.claims.exclusive(t, TABLE, &[]),
            false => self.claims.shared(t, TABLE, &[]),
        }
        self.claimed.push(Claimed::Other);
    }

    fn claim_key(&mut self, t: &Table, n: usize, key: &[u16], values: &[Value], exclusive: bool) {
        let Some(bytes) = t.key_bytes(key, values) else { return };
        let what = [&(n as u16).to_be_bytes()[..], &bytes].concat();
        match exclusive {
            true => self.claims.exclusive(t.id(), KEY, &what),
            false => self.claims.shared(t.id(), KEY, &what),
        }
        self.claimed.push(Claimed::Other);
    }
}

impl WriteTxn {
    /// Whether the commit changes nothing but few rows of tables with deltas.
    fn is_short(&self, changes: &Changes) -> bool {
        let same_catalog = self.index_rules.is_empty() && self.has_same_tables() && self.has_same_objects();
        let few = |c: &TableChange| {
            c.edits.is_empty()
                && c.held.rows() == 0
                && c.load.is_none()
                && c.stream.is_empty()
                && c.rows.merged().len() <= ROWS_CLAIMED_MAX
        };
        let bytes: usize = changes.values().map(|c| c.rows_bytes).sum();
        let identity = self.snapshot.storage().store().identity();
        let bytes_max = identity.batch_bytes_max as usize / 8;
        let rows: usize = changes.values().map(|c| c.rows.merged().len()).sum();
        self.permit.is_none()
            && same_catalog
            && bytes <= bytes_max
            && rows <= identity.batch_pages_max as usize / 16
            && changes.iter().all(|(id, c)| {
                let t = self.catalog.table_of_id(*id).expect("changes are of tables that are there");
                t.has_delta() && few(c) && self.neighbours(t).all(|n| n.has_delta())
            })
    }

    /// The tables that a table references, and those that reference it.
    fn neighbours<'a>(&'a self, t: &'a Table) -> impl Iterator<Item = &'a Table> + 'a {
        let parents = t.def().constraints.iter().filter_map(|c| match &c.rule {
            Rule::ForeignKey { parent, .. } => self.catalog.tables.get(parent).map(|p| &**p),
            _ => None,
        });
        let references = |child: &&Table| {
            child
                .def()
                .constraints
                .iter()
                .any(|c| matches!(&c.rule, Rule::ForeignKey { parent, .. } if parent == t.name()))
        };
        parents.chain(self.catalog.tables.values().map(|c| &**c).filter(references))
    }

    /// Commits few rows of tables with deltas without the right to write. `None` if that is not possible.
    pub(super) fn commit_short(&mut self, changes: &mut Changes) -> Result<Option<CommitNo>, EngineError> {
        if !self.is_short(changes) {
            return Ok(None);
        }
        let trees = self.trees.clone();
        if let Err(e) = self.check_rows(changes) {
            // Others may have freed the key, or made the row that is missing, since the snapshot. The newest state tells.
            return if e.is_of_constraint() { Ok(None) } else { Err(e) };
        }
        let mut later = IndexChanges::default();
        let writes = self.row_writes(&self.snapshot, changes, &mut later)?;
        if writes.trees.is_empty() {
            return Ok(Some(self.snapshot.commit()));
        }
        let durable = self.durability == Durability::Commit;
        let newest = || trees.heads().current().csn();
        let at = planted::instead(Planted::ValidatedTooLate, || self.snapshot.csn(), newest);
        let (claims, claimed, bytes) = (writes.claims.clone(), writes.claimed.clone(), writes.bytes);
        let committer = trees.committer();
        match committer.sequence_claims(at, writes.into_writes(), &claims, bytes, durable) {
            Sequenced::Waits(pending) => {
                committer.finish(&pending)?;
                if planted_cuts::is(ForCuts::KeysLater) {
                    let _alone = committer.alone();
                    self.indexes().apply(later)?;
                }
                self.note_written(changes);
                Ok(Some(trees.heads().current().commit()))
            }
            Sequenced::TooOld => Ok(None),
            Sequenced::Conflicts(claim) => match claimed[claim] {
                Claimed::Row(t, id) => Err(self.row_conflict(t, id, changes)?),
                // The newest state tells whether a constraint is broken.
                Claimed::Other => Ok(None),
            },
        }
    }

    /// Tells the deltas how much was written to them.
    pub(super) fn note_written(&self, changes: &Changes) {
        for (id, change) in changes.iter().filter(|(_, c)| !c.rows.is_empty() && !c.folds) {
            if let Some(delta) = self.working(*id).delta() {
                delta.wrote(change.rows_bytes);
            }
        }
    }

    /// Checks keys and foreign keys of changed rows at the transaction's snapshot.
    fn check_rows(&self, changes: &Changes) -> Result<(), EngineError> {
        for (id, change) in changes {
            let t = self.working(*id);
            // The ends of statements have checked the others at this snapshot.
            let which = if change.unchecked.is_empty() { Checked::Deferred } else { Checked::All };
            change.check_flushed(&self.snapshot, self.limits.key_check_bytes, Some(&t), &t, which)?;
        }
        let deferred_only = self.has_ended(changes);
        ForeignKeys { snapshot: &self.snapshot, catalog: &self.catalog, changes, deferred_only }.check()
    }

    /// Whether the ends of statements have checked all foreign keys at the transaction's snapshot that are not deferred.
    pub(super) fn has_ended(&self, changes: &Changes) -> bool {
        !self.looked_at_newer && changes.values().all(|c| c.touched.is_empty())
    }

    /// A commit that conflicts, since another one changed a row of a table.
    fn row_conflict(&self, t: TableId, id: RowId, changes: &Changes) -> Result<EngineError, EngineError> {
        let table = self.working(t);
        let image = changes.get(&t).and_then(|c| c.rows.get(id)).and_then(|c| c.before.as_ref());
        let key = &table.def().primary_key;
        let what = match image.filter(|_| !key.is_empty()) {
            Some(image) => {
                let shown = show_key(&table, key, &values_of(table.schema(), image, key)?);
                format!("table \"{}\": row {shown} was changed", table.name())
            }
            None => format!("table \"{}\": a row was changed", table.name()),
        };
        Ok(EngineError::Conflict { what })
    }

    /// What changed rows do to the trees of their tables, and what they claim.
    pub(super) fn row_writes(
        &self,
        at: &Snapshot,
        changes: &Changes,
        entries: &mut IndexChanges,
    ) -> Result<RowWrites, EngineError> {
        let mut writes = RowWrites::default();
        for (id, change) in changes {
            let t = self.working(*id);
            let rows = change.rows.merged();
            if !t.has_delta() || rows.is_empty() && change.edits.is_empty() {
                continue;
            }
            let claims_each = rows.len() <= ROWS_CLAIMED_MAX && change.edits.is_empty();
            let tree = at.rows_tree(&t).ok_or_else(|| EngineError::NoSuchTree(tree_name(t.id())))?;
            let sources = RowSources::of(at, &t, &tree);
            for (&id, row) in &rows {
                sources.write(id, row, claims_each, change.folds, entries, &mut writes)?;
                self.indexes().apply_early(entries)?;
            }
            for (&lpid, edit) in &change.edits {
                sources.note_edit(at, lpid, edit, entries)?;
                self.indexes().apply_early(entries)?;
            }
            writes.claim_table(t.id(), !claims_each);
            for constraint in &t.def().constraints {
                let Rule::ForeignKey { columns, parent, parent_columns, .. } = &constraint.rule else {
                    continue;
                };
                let parent = self.catalog.table(parent)?.clone();
                if !parent.has_delta() {
                    continue;
                }
                writes.claim_table(parent.id(), false);
                let n = parent.keys().position(|(_, key)| key == parent_columns);
                let Some(n) = n.filter(|_| claims_each) else { continue };
                for row in rows.values() {
                    if let Some(values) = new_values(&t, row, columns)? {
                        planted::unless(Planted::ParentNotClaimed, || {
                            writes.claim_key(&parent, n, parent_columns, &values, false);
                        });
                    }
                }
            }
            // Who takes a row away has looked for rows that reference it.
            if !change.edits.is_empty() || rows.values().any(|r| r.before.is_some()) {
                let children: Vec<TableId> =
                    self.neighbours(&t).filter(|n| n.has_delta()).map(|n| n.id()).collect();
                planted::unless(Planted::ChildTableNotClaimed, || {
                    children.into_iter().for_each(|child| writes.claim_table(child, false));
                });
            }
        }
        Ok(writes)
    }

    /// Removes the entries that a commit's changes left behind, since they are many.
    pub(super) fn remove_entries(&self, late: &LateRemovals, changes: &Changes) -> Result<(), EngineError> {
        let mut entries = IndexChanges::default();
        for (id, change) in changes {
            let Some(t) = late.was.tables().find(|t| t.id() == *id && t.has_delta()) else { continue };
            let Some(tree) = late.was.rows_tree(t) else { continue };
            let sources = RowSources::of(&late.was, t, &tree);
            // The entries of rows that are not folded went with the commit.
            for (&id, row) in change.rows.merged().iter().filter(|_| change.folds) {
                sources.write(id, row, false, true, &mut entries, &mut RowWrites::default())?;
                self.indexes().apply_late(&mut entries)?;
            }
            for (&lpid, edit) in &change.edits {
                sources.note_edit(&late.was, lpid, edit, &mut entries)?;
                self.indexes().apply_late(&mut entries)?;
            }
        }
        self.indexes().apply_only(&mut entries, false)?;
        self.indexes().remove_rewritten(late)
    }

    /// Checks, with the right to write, that nobody changed the rows of deltas that the transaction changed, since its snapshot `was`.
    pub(super) fn check_rows_unchanged(&self, was: &Snapshot, changes: &Changes) -> Result<(), EngineError> {
        let mut claims = Claims::default();
        let mut claimed = Vec::new();
        for (t, change) in changes {
            for (id, row) in change.rows.merged() {
                if row.before.is_some() {
                    claims.exclusive(*t, ROW, &id.raw().to_be_bytes());
                    claimed.push((*t, id));
                }
            }
            let table = self.working(*t);
            for (&lpid, edit) in edits_by_id(&table, change) {
                // The rows of one page at a time: of all pages they may be many.
                let ids = edited_ids(&self.snapshot, &table, lpid, edit)?;
                let mut of_page = Claims::default();
                ids.iter().for_each(|id| of_page.exclusive(*t, ROW, &id.raw().to_be_bytes()));
                match self.trees.committer().conflict(was.csn(), &of_page) {
                    None | Some(Sequenced::Waits(_)) => {}
                    Some(Sequenced::Conflicts(claim)) => {
                        return Err(self.row_conflict(*t, ids[claim], changes)?);
                    }
                    Some(Sequenced::TooOld) if planted::is(Planted::TooOldUnchecked) => {}
                    Some(Sequenced::TooOld) => return self.compare_rows(was, changes),
                }
            }
        }
        // Behind the rows. A change of many rows claims its table instead of them.
        changes.keys().for_each(|t| claims.shared(*t, TABLE, &[]));
        match self.trees.committer().conflict(was.csn(), &claims) {
            None | Some(Sequenced::Waits(_)) => Ok(()),
            Some(Sequenced::Conflicts(claim)) if claim < claimed.len() => {
                let (t, id) = claimed[claim];
                Err(self.row_conflict(t, id, changes)?)
            }
            // Which rows were changed is not known, or was forgotten. The rows tell.
            Some(Sequenced::TooOld) if planted::is(Planted::TooOldUnchecked) => Ok(()),
            Some(Sequenced::Conflicts(_) | Sequenced::TooOld) => self.compare_rows(was, changes),
        }
    }

    /// Checks, with the right to write, that nobody changed rows of the tables that the transaction `altered`, since its snapshot `was`.
    pub(super) fn check_altered_unchanged(
        &self,
        was: &Snapshot,
        altered: &[Arc<Table>],
    ) -> Result<(), EngineError> {
        for t in altered.iter().filter(|t| t.has_delta()) {
            let mut claims = Claims::default();
            claims.exclusive(t.id(), TABLE, &[]);
            let is_overtaken = || self.trees.committer().conflict(was.csn(), &claims).is_some();
            if planted_cuts::instead(ForCuts::AlteredOvertaken, is_overtaken, || false) {
                let what = format!("table \"{}\": it is altered here, and was changed", t.name());
                return Err(EngineError::Conflict { what });
            }
        }
        Ok(())
    }

    /// Compares the rows of deltas that the transaction changed with what they were at its snapshot `was`.
    fn compare_rows(&self, was: &Snapshot, changes: &Changes) -> Result<(), EngineError> {
        for (id, change) in changes {
            let t = self.working(*id);
            if !t.has_delta() {
                continue;
            }
            let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
            for (row, c) in change.rows.merged() {
                let Some(before) = &c.before else { continue };
                let now = self.snapshot.values_of_row(&t, row, &all)?;
                if now.is_none_or(|now| row::encode(t.schema(), &now) != before[..]) {
                    return Err(self.row_conflict(*id, row, changes)?);
                }
            }
            for (&lpid, edit) in edits_by_id(&t, change) {
                for id_of_row in edited_ids(&self.snapshot, &t, lpid, edit)? {
                    let image = |at: &Snapshot| -> Result<Option<Vec<u8>>, EngineError> {
                        Ok(at
                            .values_of_row(&t, id_of_row, &all)?
                            .map(|values| row::encode(t.schema(), &values)))
                    };
                    if image(was)? != image(&self.snapshot)? {
                        return Err(self.row_conflict(*id, id_of_row, changes)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Decides of which tables the changed rows are so many that pages are made of them.
    pub(super) fn choose_folds(&self, changes: &mut Changes) {
        let identity = self.snapshot.storage().store().identity();
        let (bytes_max, rows_max) = (identity.batch_bytes_max / 8, identity.batch_pages_max as usize / 16);
        let (mut bytes, mut rows) = (0, 0);
        for (id, change) in changes.iter_mut().filter(|(_, c)| !c.rows.is_empty() || !c.edits.is_empty()) {
            bytes += change.rows_bytes as u64;
            rows += change.rows.merged().len();
            let is_large = bytes > bytes_max.min(FOLDED_BYTES_MIN) || rows > rows_max;
            change.folds = self.working(*id).has_delta() && (is_large || !change.edits.is_empty());
        }
    }

    /// Makes the trees of new tables with deltas, and of new indexes. The transaction has the right to write. If it does not commit, it
    /// drops them.
    pub(super) fn make_trees(&mut self) -> Result<(), EngineError> {
        let mut new: Vec<String> = Vec::new();
        for t in self.catalog.tables.values() {
            let base = self.base(t.id());
            if base.as_ref().is_some_and(|b| Arc::ptr_eq(b, t)) {
                continue;
            }
            new.extend((t.has_delta() && base.is_none()).then(|| tree_name(t.id())));
            new.extend(t.index_trees().filter(|tree| self.snapshot.tree(tree).is_none()));
        }
        for name in new {
            let made = self.trees.committer().writer().create(&name)?;
            self.made_trees.push(made);
        }
        Ok(())
    }

    /// Makes the entries that new indexes and keys have of rows before the transaction's changes. No catalog names the indexes and the
    /// keys yet.
    pub(super) fn fill_trees(&mut self) -> Result<(), EngineError> {
        let made: BTreeSet<&str> = self.made_trees.iter().map(Tree::name).collect();
        let (mut is_filled, mut filled) = (false, Vec::new());
        // New indexes and keys may be of new columns.
        let reading = self.with_definitions();
        let indexes = Indexes { committer: self.trees.committer(), snapshot: &reading };
        for t in self.catalog.tables.values() {
            let Some(base) = reading.tables().find(|b| b.id() == t.id()) else { continue };
            let new: Vec<usize> = (0..t.def().keys().count()).filter(|n| t.is_new_key(*n)).collect();
            if !new.is_empty() && !planted::is(Planted::KeyEntryMissing) {
                let tree = reading.rows_tree(base);
                let tree = tree.ok_or_else(|| EngineError::NoSuchTree(tree_name(t.id())))?;
                for n in new {
                    let (_, key) = t.def().keys().nth(n).expect("it is one of the keys");
                    indexes.fill_key(base, t.key_number(n), key, &tree)?;
                }
                is_filled = true;
                filled.push(t.with_entries());
            }
            for index in t.indexes().iter().filter(|i| i.kind != IndexKind::Page) {
                let name = t.index_tree(index);
                if !made.contains(&name[..]) {
                    continue;
                }
                let tree = reading.tree(&name).ok_or(EngineError::NoSuchTree(name))?;
                indexes.fill(base, index, &tree)?;
                is_filled = true;
            }
        }
        for t in filled {
            self.put_table(t);
        }
        if is_filled {
            self.snapshot = self.trees.heads().refreshed()?;
        }
        self.forget_bounds();
        Ok(())
    }

    /// Pages of tables that have another primary key now have bounds of the old one. New row ids tell pages of the new one apart.
    fn forget_bounds(&mut self) {
        let primary = |t: &Table| (t.def().primary_key.clone(), t.key_number(0));
        let mut changed = Vec::new();
        for t in self.catalog.tables.values() {
            if let (Some(base), Some(delta)) = (self.base(t.id()), t.delta())
                && !base.def().primary_key.is_empty()
                && primary(&base) != primary(t)
            {
                changed.push(t.same().with_bounds_from(delta.next_id()));
            }
        }
        changed.into_iter().for_each(|t| self.put_table(t));
    }

    /// Checks the keys that the transaction gave to tables. Its statements did so at its snapshot `was`. So this is about tables of which
    /// others have changed rows since.
    pub(super) fn check_added_keys(&self, was: &Snapshot, changes: &Changes) -> Result<(), EngineError> {
        let none = TableChange::default();
        for t in self.catalog.tables.values() {
            let Some(base) = self.base(t.id()) else { continue };
            if Arc::ptr_eq(&base, t) || !self.is_changed_since(was, &base) {
                continue;
            }
            let may_be_null =
                |c: &u16| base.def().columns.get(usize::from(*c)).is_some_and(|c| c.ty.nullable);
            if t.def().primary_key.iter().any(may_be_null) {
                let what = format!("table \"{}\": it gets a primary key here, and was changed", t.name());
                return Err(EngineError::Conflict { what });
            }
            let change = changes.get(&t.id()).unwrap_or(&none);
            let bytes = self.limits.key_check_bytes;
            change.check_flushed(&self.snapshot, bytes, Some(&base), t, Checked::Added)?;
        }
        Ok(())
    }

    /// Checks the foreign keys that the transaction added, if others have changed rows of their tables since its snapshot `was`.
    pub(super) fn check_added_references(
        &self,
        was: &Snapshot,
        changes: &Changes,
    ) -> Result<(), EngineError> {
        let keys =
            ForeignKeys { snapshot: &self.snapshot, catalog: &self.catalog, changes, deferred_only: false };
        for child in self.catalog.tables.values() {
            let Some(base) = self.base(child.id()).filter(|b| !Arc::ptr_eq(b, child)) else { continue };
            let is_added = |c: &&Constraint| base.def().constraints.iter().all(|of| of.rule != c.rule);
            for c in child.def().constraints.iter().filter(is_added) {
                let of_name = |name: &str| self.catalog.tables.get(name).cloned();
                let Some(f) = Foreign::of(child, c, of_name)? else { continue };
                if self.is_changed_since(was, child) || self.is_changed_since(was, &f.parent) {
                    keys.check_all_children(&f)?;
                }
            }
        }
        Ok(())
    }

    /// Whether others may have changed rows of a table since a snapshot. The transaction has the right to write.
    pub(super) fn is_changed_since(&self, was: &Snapshot, t: &Table) -> bool {
        let of = |s: &Snapshot| s.tables().find(|b| b.id() == t.id()).cloned();
        let mut claims = Claims::default();
        claims.exclusive(t.id(), TABLE, &[]);
        match (of(was), of(&self.snapshot)) {
            (Some(was), Some(now)) if !Arc::ptr_eq(&was, &now) => return true,
            _ => {}
        }
        self.trees.committer().conflict(was.csn(), &claims).is_some()
    }

    /// Claims of a commit with the right to write: of tables that it loads, alters, drops or references.
    pub(super) fn claim_tables(&self, catalog: &TableCatalog, loaded: &[TableId], claims: &mut RowWrites) {
        let old = self.snapshot.tables_state().tables();
        for t in old.values().filter(|t| t.has_delta()) {
            let now = catalog.table_of_id(t.id());
            let defined = now.is_none_or(|n| !n.is_defined_as(t));
            if defined || loaded.contains(&t.id()) {
                planted::unless(Planted::LoadNotClaimed, || claims.claim_table(t.id(), true));
            }
        }
        let references_more = |t: &&Arc<Table>| match old.values().find(|o| o.id() == t.id()) {
            Some(old) => adds_foreign_keys(old.def(), t.def()),
            None => true,
        };
        for t in catalog.tables.values().filter(references_more) {
            let parents: Vec<TableId> =
                self.neighbours(t).filter(|n| n.has_delta()).map(|n| n.id()).collect();
            parents.into_iter().for_each(|p| claims.claim_table(p, true));
        }
    }

    /// Gives the rows of the new pages of a table ids, and notes their entries. Folded pages have ids and entries.
    pub(super) fn number_pages(
        &self,
        r: &mut Rewritten,
        sorted: Option<Sorted>,
        writes: &mut RowWrites,
        entries: &mut IndexChanges,
    ) -> Result<(), EngineError> {
        let store = self.snapshot.storage().store();
        let t = &r.table;
        let tree = self.snapshot.rows_tree(t).ok_or_else(|| EngineError::NoSuchTree(tree_name(t.id())))?;
        let of_folds: BTreeSet<Lpid> = r.folded.added.iter().map(|(_, span)| span.lpid).collect();
        let fresh: BTreeSet<Lpid> = r.fresh.iter().copied().collect();
        let mut placed: Vec<Lpid> = r.fresh.clone();
        placed.extend(r.writes.iter().map(|w| w.lpid).filter(|l| !fresh.contains(l)));
        placed.retain(|l| !of_folds.contains(l));
        let mut spans: BTreeMap<RowId, Span> = self.snapshot.directory(t)?.spans().clone();
        note_fold(t, &mut spans, &tree, std::mem::take(&mut r.folded), writes, false)?;
        let delta = t.delta().expect("the table has a delta");
        let sources = RowSources::of(&self.snapshot, t, &tree);
        let columns = sources.columns();
        for lpid in placed {
            let (rows, columns_of) = match r.writes.iter().find(|w| w.lpid == lpid) {
                Some(w) => {
                    let (page, mut all) = lode_page::decode_page(lpid, &w.data)?;
                    t.schema().complete(&mut all, page.rows());
                    (page.rows(), chosen(&all, &columns))
                }
                None => {
                    let page = without_pool(store, None, t.page_owner(), lpid, &columns)?;
                    (page.rows, page.columns)
                }
            };
            let first = delta.take_ids(rows as u64);
            let key = &t.def().primary_key;
            let keys = sorted
                .filter(|_| !key.is_empty())
                .and_then(|sorted| KeyBounds::of_sorted(&numbered(&columns, &columns_of, key), sorted));
            sources.write_page(first, &columns, &columns_of, keys.is_some(), entries);
            self.indexes().apply_early(entries)?;
            let span = Span::dense(lpid, rows as u32, keys);
            writes.put(&tree, page_key(first).to_vec(), &span.encode());
            spans.insert(first, span);
        }
        r.table.directory = OnceLock::from(Arc::new(Directory::of(spans)));
        Ok(())
    }
}

/// The edits of pages whose rows have ids.
fn edits_by_id<'a>(
    t: &Table,
    change: &'a TableChange,
) -> impl Iterator<Item = (&'a Lpid, &'a Arc<PageEdit>)> {
    let has_ids = t.has_delta();
    change.edits.iter().filter(move |_| has_ids)
}

/// The ids of the rows of a page of the main that a transaction edits.
fn edited_ids(at: &Snapshot, t: &Table, lpid: Lpid, edit: &PageEdit) -> Result<Vec<RowId>, EngineError> {
    let directory = at.directory(t)?;
    Ok(edit.touched().into_iter().filter_map(|s| directory.id_of(lpid, s)).collect())
}

/// Notes what a fold did to the directory and to the delta. With `if_same`, an entry that changed since the fold stays.
pub(super) fn note_fold(
    t: &Table,
    spans: &mut BTreeMap<RowId, Span>,
    tree: &Tree,
    folded: Folded,
    writes: &mut RowWrites,
    if_same: bool,
) -> Result<(), EngineError> {
    for first in folded.removed {
        spans.remove(&first);
        if !folded.added.iter().any(|(added, _)| *added == first) {
            planted::unless(Planted::OldSpanStays, || writes.delete(tree, page_key(first).to_vec()));
        }
    }
    for (first, span) in folded.added {
        writes.put(tree, page_key(first).to_vec(), &span.encode());
        spans.insert(first, span);
    }
    for (id, image) in folded.entries {
        // From now on the page index leads to the row, whatever became of it since the fold.
        for (n, (_, key)) in
            t.def().keys().enumerate().filter(|_| t.finds_keys_by_page() && !image.is_empty())
        {
            if let Some(bytes) = t.key_bytes(key, &values_of(t.schema(), &image, key)?) {
                writes.delete(tree, key_entry(t.key_number(n), &bytes, id));
            }
        }
        match if_same {
            true => writes.of(tree).delete_if(delta_key(id).to_vec(), &image),
            false => writes.delete(tree, delta_key(id).to_vec()),
        }
    }
    Ok(())
}

fn show_key(t: &Table, key: &[u16], values: &[Value]) -> String {
    show_values(key.iter().map(|&c| t.schema().columns[usize::from(c)].data_type), values)
}

/// The values of a changed row in some columns, if they are new and none is NULL.
fn new_values(t: &Table, row: &RowChange, columns: &[u16]) -> Result<Option<Vec<Value>>, EngineError> {
    let of = |image: &Option<Image>| match image {
        Some(image) => values_of(t.schema(), image, columns).map(Some),
        None => Ok(None),
    };
    let (before, after) = (of(&row.before)?, of(&row.after)?);
    Ok(after.filter(|a| before.as_ref() != Some(a) && !a.contains(&Value::Null)))
}

/// The trees that have entries of the rows of a table.
struct RowSources<'a> {
    t: &'a Table,
    tree: &'a Tree,
    types: Vec<DataType>,
    /// The keys of the definition: number and columns. Their entries are in the table's tree.
    keys: Vec<(usize, Vec<u16>)>,
    /// Those that have entries of rows of pages too.
    page_keys: Vec<(usize, Vec<u16>)>,
    /// All keys.
    claimed: Vec<(usize, Vec<u16>)>,
    indexes: Vec<(IndexDef, Tree)>,
}

/// What entries belong to.
#[derive(Clone, Copy)]
enum Entries<'a> {
    /// The key of this number.
    OfKey(usize),
    OfIndex(&'a IndexDef),
}

impl<'a> RowSources<'a> {
    fn of(at: &Snapshot, t: &'a Table, tree: &'a Tree) -> Self {
        let numbered = |keys: &mut dyn Iterator<Item = &[u16]>| -> Vec<(usize, Vec<u16>)> {
            keys.map(<[u16]>::to_vec).enumerate().collect()
        };
        let keys = numbered(&mut t.def().keys().map(|(_, key)| key));
        let claimed = numbered(&mut t.keys().map(|(_, key)| key));
        let btrees = t.indexes().iter().filter(|i| i.kind != IndexKind::Page);
        let indexes = btrees.filter_map(|i| Some((i.clone(), at.tree(&t.index_tree(i))?))).collect();
        let types = t.types();
        let page_keys = if t.finds_keys_by_page() { Vec::new() } else { keys.clone() };
        Self { t, tree, types, keys, page_keys, claimed, indexes }
    }

    /// The columns that entries and bounds of keys are made of.
    fn columns(&self) -> Vec<u16> {
        let of_keys = self.keys.iter().flat_map(|(_, key)| key.iter().copied());
        let of_indexes = self.indexes.iter().flat_map(|(index, _)| index.columns.iter().copied());
        let mut columns: Vec<u16> = of_keys.chain(of_indexes).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Notes a changed row, with its entries and claims. A row that is `folded` into a page is none of the delta, and its `entries`
    /// are noted apart.
    fn write(
        &self,
        id: RowId,
        row: &RowChange,
        claims: bool,
        folded: bool,
        entries: &mut IndexChanges,
        writes: &mut RowWrites,
    ) -> Result<(), EngineError> {
        if row.before.is_none() && row.after.is_none() {
            return Ok(());
        }
        if !folded {
            writes.put(self.tree, delta_key(id).to_vec(), row.after.as_deref().unwrap_or_default());
        }
        let apart = folded || planted_cuts::is(ForCuts::KeysLater);
        let mut note = |writes: &mut RowWrites, tree: &Tree, key: Vec<u8>, put: bool| match apart {
            true => entries.note(tree, key, put),
            false if put => writes.put(tree, key, &[]),
            false => writes.delete(tree, key),
        };
        if row.before.is_some() && claims && !planted::is(Planted::RowNotClaimed) {
            writes.claims.exclusive(self.t.id(), ROW, &id.raw().to_be_bytes());
            writes.claimed.push(Claimed::Row(self.t.id(), id));
        }
        let values =
            |image: &Option<Image>| image.as_ref().map(|i| row::decode(self.t.schema(), i)).transpose();
        let (before, after) = (values(&row.before)?, values(&row.after)?);
        let of = |values: &Option<Vec<Value>>, columns: &[u16]| -> Option<Vec<Value>> {
            values.as_ref().map(|v| columns.iter().map(|&c| v[usize::from(c)].clone()).collect())
        };
        for (n, key) in &self.claimed {
            let (was, is) = (of(&before, key), of(&after, key));
            if was == is {
                continue;
            }
            let is_rekeyed = was.is_some() && is.is_some();
            for (values, is_new) in [(was, false), (is, true)] {
                let Some(values) = values else { continue };
                let Some(bytes) = self.t.key_bytes(key, &values) else { continue };
                let with_entries = if folded { &self.page_keys } else { &self.keys };
                let is_left_out = planted::is(Planted::KeyEntryMissing)
                    || is_rekeyed && planted::is(Planted::RekeyedEntryMissing);
                if with_entries.len() > *n && !(is_new && is_left_out) {
                    let entry = key_entry(self.t.key_number(*n), &bytes, id);
                    note(writes, self.tree, entry, is_new);
                }
                if claims && !planted::is(Planted::KeyNotClaimed) {
                    writes.claim_key(self.t, *n, key, &values, true);
                }
            }
        }
        for (index, tree) in &self.indexes {
            let columns = &index.columns;
            let types: Vec<DataType> = columns.iter().map(|&c| self.types[usize::from(c)]).collect();
            let entry = |values: Vec<Value>| index::row_entry(index, &types, &values, id);
            let (was, is) = (of(&before, columns).map(entry), of(&after, columns).map(entry));
            if was != is {
                was.into_iter().for_each(|e| note(writes, tree, e, false));
                planted::unless(Planted::IndexEntryMissing, || {
                    is.into_iter().for_each(|e| note(writes, tree, e, true));
                });
            }
        }
        Ok(())
    }

    /// Notes how an edit of a page of the main changes entries.
    fn note_edit(
        &self,
        at: &Snapshot,
        lpid: Lpid,
        edit: &PageEdit,
        entries: &mut IndexChanges,
    ) -> Result<(), EngineError> {
        let directory = at.directory(self.t)?;
        let id = |slot: u32| directory.id_of(lpid, slot).expect("the page is one of the table's");
        let has_bounds = directory.span_of(lpid).is_some_and(|s| s.keys.is_some());
        let of_keys = self.page_keys.iter().map(|(n, key)| (Entries::OfKey(*n), key, self.tree));
        let of_indexes =
            self.indexes.iter().map(|(index, tree)| (Entries::OfIndex(index), &index.columns, tree));
        for (of, columns, tree) in of_keys.chain(of_indexes) {
            let (gone, mut rekeyed): (Vec<u32>, Vec<u32>) = (edit.deleted.to_vec(), edit.rekeyed(columns));
            // The bounds of the page lead to its primary keys. An entry that stays without its row does not count.
            let is_first = matches!(of, Entries::OfKey(0));
            if is_first && has_bounds && *columns == self.t.def().primary_key {
                rekeyed.clear();
            }
            let old_only: &[u32] = if rekeyed.is_empty() && is_first && has_bounds { &[] } else { &gone };
            if old_only.is_empty() && rekeyed.is_empty() {
                continue;
            }
            let page = read::columns(at, lpid, columns)?.columns;
            let after = columns.iter().zip(&page).map(|(&c, column)| edit.updated(c, column.clone()));
            let after = after.collect::<Result<Vec<Column>, EngineError>>()?;
            let entry = |page: &[Column], slot: u32| -> Option<Vec<u8>> {
                let values: Vec<Value> = page.iter().map(|c| c.value(slot as usize)).collect();
                match of {
                    Entries::OfKey(n) => {
                        let n = self.t.key_number(n);
                        self.t.key_bytes(columns, &values).map(|key| key_entry(n, &key, id(slot)))
                    }
                    Entries::OfIndex(index) => {
                        let types: Vec<DataType> = page.iter().map(Column::data_type).collect();
                        Some(index::row_entry(index, &types, &values, id(slot)))
                    }
                }
            };
            for &slot in old_only.iter().chain(&rekeyed) {
                entry(&page, slot).into_iter().for_each(|e| entries.note(tree, e, false));
            }
            for &slot in &rekeyed {
                entry(&after, slot).into_iter().for_each(|e| entries.note(tree, e, true));
            }
        }
        Ok(())
    }

    /// Notes the entries of the rows of a new page, of which some columns are given. If the page `has_bounds`, they lead to its primary
    /// keys.
    fn write_page(
        &self,
        first: RowId,
        numbers: &[u16],
        columns: &[Column],
        has_bounds: bool,
        entries: &mut IndexChanges,
    ) {
        for (n, key) in keys_with_entries(self.t.def(), has_bounds) {
            planted::unless(Planted::PageKeysMissing, || {
                let of_key = numbered(numbers, columns, key);
                let n = self.t.key_number(n);
                entries_of_key(n, &of_key, first).for_each(|e| entries.note(self.tree, e, true));
            });
        }
        for (index, tree) in &self.indexes {
            let of_index = numbered(numbers, columns, &index.columns);
            entries_of_index(index, &of_index, first).for_each(|e| entries.note(tree, e, true));
        }
    }
}
