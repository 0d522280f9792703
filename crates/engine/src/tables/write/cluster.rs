//! A table is written anew, in another order: VACUUM FULL.
//!
//! ```text
//!   the rows at the begin, in any order ─► full pages ─► fresh extents ────────────────┐
//!                                      └─► entries ─► sorted runs ─► new trees, loaded ─┴─► right to write: one batch
//! ```
//!
//! The rewritten table has another number, so it has trees of its own, and what others keep of the old one does not fit it. A
//! transaction that changed the table and commits later conflicts. The old pages and trees stay for the snapshots that show them.
//! Before the last batch nothing names what was written, and a crash leaves the old table.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use lode_base::{CommitNo, OwnerId};
use lode_command::{Answer, Batch};
use lode_page::{Column, decode_page};
use lode_program::{IndexRule, Program};

use super::WriteTxn;
use super::cutter::{Cutter, Shape};
use super::delta_commit::RowWrites;
use super::entries::{entries_of_index, entries_of_key, keys_with_entries};
use super::indexes::unnamed_trees;
use super::runs::Sorter;
use super::stream::{Io, Stream};
use crate::EngineError;
use crate::storage::catalog::root_lpid;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{IndexDef, IndexKind};
use crate::tables::delta::{
    Directory, KeyBounds, RowId, Span, Unmerged, page_key, tree_name as rows_tree_name,
};
use crate::tables::index;
use crate::tables::key::chosen;
use crate::tables::planted::{self, Planted};
use crate::tables::read::Whole;
use crate::tables::statistics::TableStatistics;
use crate::tables::table::{EXTENTS_MAX, Table};
use crate::trees::{Snapshot, TreeLoad};

/// Nodes of new trees are filled so far, in percent: later entries come anywhere.
pub(super) const FILL_PERCENT: u8 = 90;

/// A table that is being rewritten. It takes all rows that [`TableRewrite::snapshot`] shows of the table, in their new order. If it is
/// dropped, the table is as it was.
pub struct TableRewrite {
    txn: WriteTxn,
    /// The transaction had the right to write from its begin on.
    is_alone: bool,
    old: Arc<Table>,
    new: Table,
    cutter: Cutter,
    stream: Stream,
    /// With a delta: the pages so far, by their first ids.
    spans: BTreeMap<RowId, Span>,
    /// Whether the bounds of pages lead to primary keys, since the rows come in their order.
    has_bounds: bool,
    /// With a delta: the entries of keys.
    keys: Sorter,
    indexes: Vec<(IndexDef, Sorter)>,
    /// Statistics of the rows so far, unless something is not known.
    statistics: Option<(IndexRule, TableStatistics)>,
    _unmerged: Option<Unmerged>,
}

impl WriteTxn {
    /// Begins to rewrite a table. The transaction does nothing else.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], or when the transaction has changed something.
    pub fn rewrite(self, name: &str) -> Result<TableRewrite, EngineError> {
        if !self.is_unchanged() {
            return Err(EngineError::invalid(name, "a table is rewritten by a transaction of its own"));
        }
        let old = self.catalog.table(name)?.clone();
        let storage = self.trees.committer().storage();
        let id = storage.extents().new_owner();
        let mut def = old.def().clone();
        // Its pages, and their index entries, are made anew, with all columns.
        def.options.narrow_keys = true;
        def.columns.iter_mut().for_each(|c| c.absent = None);
        let mut new = Table::new(id, def, old.indexes().to_vec(), Vec::new(), root_lpid());
        new.is_rewritten = true;
        new.recent_filters = old.recent_filters.clone();
        if let (Some(new), Some(old)) = (new.delta(), old.delta()) {
            new.ids_before(old.next_id());
        }
        let indexes = new.indexes().iter().filter(|i| i.kind != IndexKind::Page).cloned();
        let indexes: Vec<IndexDef> = indexes.collect();
        let limit_bytes = self.limits.key_check_bytes / (1 + indexes.len());
        let sorter = || Sorter::new(OwnerId::from(id), limit_bytes);
        let order = new.def().cluster_columns();
        let has_bounds = !order.is_empty() && order.first() == new.def().primary_key.first();
        let page_bytes_max = storage.store().identity().page_bytes_max as usize;
        let rule = new.index_rule()?;
        Ok(TableRewrite {
            is_alone: self.permit.is_some(),
            cutter: Cutter::new(Shape::of_loads(&new, page_bytes_max)),
            stream: Stream::default(),
            spans: BTreeMap::new(),
            has_bounds,
            keys: sorter(),
            indexes: indexes.into_iter().map(|i| (i, sorter())).collect(),
            statistics: Some((rule, TableStatistics::none(new.schema(), new.size()))),
            _unmerged: old.delta().map(Unmerged::hold),
            txn: self,
            old,
            new,
        })
    }
}

impl TableRewrite {
    /// The state whose rows are written anew.
    pub fn snapshot(&self) -> &Snapshot {
        &self.txn.snapshot
    }

    /// The table as it is.
    pub fn table(&self) -> &Arc<Table> {
        &self.old
    }

    /// Takes the next rows, as all columns of the table, also those that were dropped.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] for other columns than those of the table; or when the drive is full or fails.
    pub fn push(&mut self, columns: Vec<Column>) -> Result<(), EngineError> {
        let types = self.old.schema().columns.iter().map(|c| c.data_type);
        if !columns.iter().map(Column::data_type).eq(types) {
            let what = format!("{} columns were given to rewrite a table of others", columns.len());
            return Err(EngineError::invalid(self.old.name(), what));
        }
        self.cutter.push(columns);
        while self.cutter.has_full() {
            self.cut()?;
        }
        Ok(())
    }

    /// Takes all rows in the order in which the table has them.
    ///
    /// # Errors
    /// When the drive is full or fails.
    pub fn push_all(&mut self) -> Result<(), EngineError> {
        let (snapshot, old) = (self.txn.snapshot.clone(), self.old.clone());
        let all: Vec<u16> = (0..old.schema().columns.len() as u16).collect();
        let program = Program::check(old.schema().clone(), None, all, false)?;
        let mut scan = snapshot.scan(&old, old.all_ranges(), Arc::new(program), Answer::Rows, None)?;
        while let Some(unit) = scan.next()? {
            unit.pages.into_iter().filter(|p| p.rows > 0).try_for_each(|p| self.push(p.columns))?;
        }
        Ok(())
    }

    /// Makes the rows the table. All of it shows at once.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if others changed the table meanwhile, or when the drive is full or fails. The table is as it was.
    pub fn finish(mut self) -> Result<CommitNo, EngineError> {
        while self.cutter.rows() > 0 {
            self.cut()?;
        }
        let (rows, expected) = (self.stream.rows, self.txn.snapshot.rows(&self.old)?);
        if rows != expected {
            let what = format!("{rows} rows were given to rewrite a table of {expected}");
            return Err(EngineError::invalid(self.old.name(), what));
        }
        if self.stream.extents.len() > EXTENTS_MAX {
            let needed = self.stream.extents.len();
            let what = format!("it would need {needed} extents, {EXTENTS_MAX} are allowed");
            return Err(EngineError::invalid(self.old.name(), what));
        }
        self.stream.flush(self.txn.trees.committer().storage().store())?;
        self.make_trees()?;
        self.publish()
    }

    fn cut(&mut self) -> Result<(), EngineError> {
        let mut io = Io::new(self.txn.trees.committer().storage(), &mut self.txn.fresh);
        let lpid = self.stream.next_lpid(&mut io, self.new.id())?;
        let cut = self.cutter.cut(lpid)?;
        let (_, columns) = decode_page(lpid, &cut.data)?;
        if let Some((rule, statistics)) = &mut self.statistics {
            let known = rule.entry(&mut Whole(&columns)).is_ok_and(|e| statistics.widen(rule, &e));
            if !known {
                self.statistics = None;
            }
        }
        let first = self.new.delta().map(|delta| delta.take_ids(cut.rows as u64));
        if let Some(first) = first {
            let def = self.new.def();
            let bounds_of_page = || KeyBounds::of_page(&columns, &def.primary_key);
            let bounds = self.has_bounds.then(bounds_of_page).flatten();
            for (n, key) in keys_with_entries(def, bounds.is_some()) {
                if !planted::is(Planted::RewrittenKeyMissing) {
                    let of_key = chosen(&columns, key);
                    entries_of_key(n, &of_key, first).try_for_each(|e| self.keys.push(&mut io, e))?;
                }
            }
            self.spans.insert(first, Span::dense(lpid, cut.rows as u32, bounds));
        }
        for (index, entries) in &mut self.indexes {
            let columns = chosen(&columns, &index.columns);
            match first {
                Some(first) => {
                    entries_of_index(index, &columns, first).try_for_each(|e| entries.push(&mut io, e))?;
                }
                None => index::keys(&columns, index)
                    .into_iter()
                    .try_for_each(|key| entries.push(&mut io, index::entry(key, lpid)))?,
            }
        }
        self.stream.put(&mut io, lpid, cut.data, cut.rows, self.cutter.shape.align())
    }

    /// Loads the trees of the new table, which nothing names yet.
    fn make_trees(&mut self) -> Result<(), EngineError> {
        let committer = self.txn.trees.committer().clone();
        let none = || Sorter::new(OwnerId::from(self.new.id()), 0);
        let keys = std::mem::replace(&mut self.keys, none());
        let mut sorted: Vec<(String, Sorter)> = Vec::new();
        if self.new.has_delta() {
            sorted.push((rows_tree_name(self.new.id()), keys));
        }
        for (index, entries) in std::mem::take(&mut self.indexes) {
            sorted.push((self.new.index_tree(&index), entries));
        }
        for (n, (name, entries)) in sorted.into_iter().enumerate() {
            let mut tree = TreeLoad::new(committer.clone(), &name)?.fill_percent(FILL_PERCENT);
            let io = Io::new(committer.storage(), &mut self.txn.fresh);
            entries.finish(&io, |entry| tree.put(entry, &[]))?;
            if n == 0 && self.new.has_delta() {
                // The directory sorts behind the keys.
                for (first, span) in &self.spans {
                    tree.put(&page_key(*first), &span.encode())?;
                }
            }
            let made = if self.txn.permit.is_some() { tree.finish_alone() } else { tree.finish() };
            self.txn.made_trees.push(made?);
        }
        Ok(())
    }

    fn publish(self) -> Result<CommitNo, EngineError> {
        let Self { mut txn, is_alone, old, new, stream, spans, statistics, .. } = self;
        let trees = txn.trees.clone();
        if txn.permit.is_none() {
            txn.permit = Some(trees.committer().alone());
        }
        let was = std::mem::replace(&mut txn.snapshot, trees.heads().refreshed()?);
        let mut writes = RowWrites::default();
        if old.has_delta() {
            writes.claim_table(old.id(), true);
        }
        let is_same = || txn.snapshot.table(old.name()).is_some_and(|now| Arc::ptr_eq(&now, &old));
        let is_claimed = || is_alone || trees.committer().conflict(was.csn(), &writes.claims).is_none();
        if !planted::instead(Planted::RewriteNotClaimed, || is_same() && is_claimed(), is_same) {
            let what = format!("table \"{}\": it was changed while it was rewritten", old.name());
            return Err(EngineError::Conflict { what });
        }
        drop(was);
        let mut catalog = TableCatalog::of(&txn.snapshot);
        let mut table = new.next(new.indexes().to_vec(), stream.extents.clone());
        let mut io = Io::new(trees.committer().storage(), &mut txn.fresh);
        catalog.place(&mut table, |owner| io.allocate(owner))?;
        // The pages were written before their rule is registered.
        let mut table = table.with_contents(stream.rows, stream.bytes, None, stream.rows > 0);
        if let Some((rule, mut known)) = statistics {
            let size = table.size();
            (known.rows, known.pages, known.bytes) = (size.rows, size.pages, size.bytes);
            known.name_bounds(table.schema(), &rule);
            table.statistics = OnceLock::from(known);
        }
        if table.has_delta() {
            table.directory = OnceLock::from(Arc::new(Directory::of(spans)));
        }
        txn.index_rules.insert(old.id(), None);
        txn.index_rules.insert(table.id(), Some(table.index_rule()?));
        Arc::make_mut(&mut catalog.tables).insert(table.name().into(), Arc::new(table));
        let dropped = unnamed_trees(&txn.snapshot, &catalog);
        let batch = txn.batch(&catalog, Batch::default(), Vec::new())?;
        let claims = std::mem::take(&mut writes.claims);
        let forced = txn.is_forced();
        let (commit, state) = txn.publish(batch, catalog, Vec::new(), &claims, forced)?;
        txn.end(&dropped, state)?;
        Ok(commit)
    }
}
