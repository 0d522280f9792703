//! The commit: all of a transaction in one atomic batch, or in one that publishes what was written before.
//!
//! ```text
//!   right to write ─► rebased ─► keys checked ─► pages rewritten in place ─► fits one batch? ─► batch ─► durable ─► pool
//!                                                   no ─► moved to fresh extents ─► batch             ─► new Snapshot
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::{CommitNo, ExtentId, Lpid, TableId};
use lode_command::Batch;

use super::WriteTxn;
use super::change::Changes;
use super::delta_commit::RowWrites;
use super::followed::FollowedBounds;
use super::foreign::ForeignKeys;
use super::indexes::{IndexChanges, Indexes, unnamed_trees};
use super::rebase::Rebase;
use super::rewrite::{Rewrite, Rewritten};
use super::stream::{Io, Stream};
use crate::EngineError;
use crate::storage::store::SentBatch;
use crate::tables::catalog::TableCatalog;
use crate::tables::planted::{self, Planted};
use crate::tables::planted_cuts::{self, Planted as ForCuts};
use crate::tables::table::{EXTENTS_MAX, Table};
use crate::trees::{CarriedBatch, Claims, Durability, Snapshot, Tree, TreeWrites};

/// A change that writes more bytes than this is not held in memory until its commit.
const IN_PLACE_BYTES_MAX: u64 = 16 << 20;

/// The final batch, the catalog that it makes, and what becomes of the entries of indexes.
type Made = (Batch, TableCatalog, IndexChanges);

impl WriteTxn {
    /// Makes all changes durable and visible, or none. Conflicts with commits of others since the begin, and keys, are checked here.
    ///
    /// # Errors
    /// [`EngineError::Conflict`], [`EngineError::DuplicateKey`], [`EngineError::Unique`], [`EngineError::ForeignKey`],
    /// [`EngineError::OutOfSpace`], or when the drive fails. The database is as it was.
    pub fn commit(mut self) -> Result<CommitNo, EngineError> {
        if self.is_unchanged() {
            return Ok(self.snapshot.commit());
        }
        (self.current, self.loaded_view) = (None, None);
        let mut changes = std::mem::take(&mut self.changes);
        if let Some(commit) = self.commit_short(&mut changes)? {
            return Ok(commit);
        }
        for (&id, change) in &mut changes {
            let t = self.working(id);
            change.finish(&mut Io::new(self.trees.committer().storage(), &mut self.fresh), &t)?;
        }
        if self.permit.is_none() {
            self.permit = Some(self.trees.committer().alone());
        }
        self.make_trees()?;
        let was = self.snapshot.clone();
        let altered = self.altered();
        self.rebase(&mut changes)?;
        self.sequences.prepare(&self.catalog.objects, self.catalog.sequence_page)?;
        self.check_rows_unchanged(&was, &changes)?;
        self.check_altered_unchanged(&was, &altered)?;
        self.fill_trees()?;
        self.check_added_keys(&was, &changes)?;
        self.check_added_references(&was, &changes)?;
        let is_same = (was.csn(), was.commit()) == (self.snapshot.csn(), self.snapshot.commit());
        drop(was);
        let reading = self.with_definitions();
        for (&id, change) in &mut changes {
            let t = self.working(id);
            let base = reading.tables().find(|b| b.id() == id).cloned();
            let mut io = Io::new(self.trees.committer().storage(), &mut self.fresh);
            if planted::is(Planted::KeysNotCheckedAgain) {
                continue;
            }
            change.check_keys(&mut io, &reading, self.limits.key_check_bytes, base.as_deref(), &t)?;
        }
        let deferred_only = is_same && self.has_ended(&changes);
        let (snapshot, catalog) = (&reading, &self.catalog);
        ForeignKeys { snapshot, catalog, changes: &changes, deferred_only }.check()?;
        self.choose_folds(&mut changes);
        let mut of_rows = IndexChanges::default();
        let mut rows = self.row_writes(&reading, &changes, &mut of_rows)?;
        let loaded: Vec<TableId> = changes.iter().filter(|(_, c)| c.is_load()).map(|(id, _)| *id).collect();
        self.claim_tables(&self.catalog, &loaded, &mut rows);
        let (batch, catalog, mut entries) = match self.in_place(&reading, &changes, &mut rows)? {
            Some(done) => done,
            None => self.moved(&reading, &mut changes, &mut rows)?,
        };
        if batch.is_empty() && rows.bytes == 0 {
            return Ok(self.snapshot.commit());
        }
        entries.extend(of_rows);
        let dropped = unnamed_trees(&self.snapshot, &self.catalog);
        if planted_cuts::is(ForCuts::DroppedTreesFirst) {
            self.indexes().drop_trees(&dropped);
            self.snapshot = self.trees.heads().refreshed()?;
        }
        let in_later_batch =
            planted_cuts::is(ForCuts::LoadedEntriesLater).then(|| std::mem::take(&mut entries));
        let (mut with, late) = self.indexes().divided(entries)?;
        let claims = std::mem::take(&mut rows.claims);
        with.extend(rows.into_writes());
        let forced = self.is_forced();
        let (commit, state) = self.publish(batch, catalog, with, &claims, forced)?;
        self.note_written(&changes);
        if let Some(entries) = in_later_batch {
            let _ = self.indexes().apply(entries);
        }
        if let Some(late) = late {
            // The rows are committed. Entries that stay only cost speed.
            let _ = self.remove_entries(&late, &changes);
        }
        self.end(&dropped, state)?;
        Ok(commit)
    }

    /// Whether its last batch is forced. Commits that wait for the right to write share a flush with this one. Alone, a forced batch
    /// takes less.
    pub(super) fn is_forced(&self) -> bool {
        self.durability == Durability::Commit && !self.trees.committer().others_wait()
    }

    /// After [`WriteTxn::publish`]: drops trees that no table names any more, makes index entries that tables lack, and settles the
    /// state of this number.
    pub(super) fn end(self, dropped: &[Tree], state: Option<u64>) -> Result<(), EngineError> {
        self.indexes().drop_trees(dropped);
        let trees = self.trees.clone();
        // Either way the transaction ends here and gives back the right to write: others commit while this is flushed.
        let lacks_entries = self.snapshot.tables().any(|t| t.lacks_index_entries());
        match lacks_entries {
            // The rows are committed. Entries that cannot be made now only cost speed, and the next open tries again.
            true => drop(self.finish_indexes()),
            false => drop(self),
        }
        match state {
            Some(state) => trees.heads().settle(state),
            None => Ok(()),
        }
    }

    /// Makes the index entries that tables lack, and notes in the catalog that they are there.
    pub(crate) fn finish_indexes(mut self) -> Result<(), EngineError> {
        // Trees were dropped since the commit.
        self.snapshot = self.trees.heads().refreshed()?;
        let mut catalog = TableCatalog::of(&self.snapshot);
        for t in self.snapshot.tables().filter(|t| t.index_pending) {
            self.snapshot.storage().store().build_index(t.id().into())?;
            let built = t.same();
            let built = Arc::new(built.with_contents(t.rows, t.bytes, t.tail, false));
            Arc::make_mut(&mut catalog.tables).insert(t.name().into(), built);
        }
        let batch = self.batch(&catalog, Batch::default(), Vec::new())?;
        self.publish(batch, catalog, Vec::new(), &Claims::default(), true).map(drop)
    }

    /// Moves the transaction onto the newest state, which becomes its snapshot. It has the right to write.
    fn rebase(&mut self, changes: &mut Changes) -> Result<(), EngineError> {
        let now = self.trees.heads().refreshed()?;
        let defines = !self.index_rules.is_empty() || !self.has_same_tables();
        let rebase = Rebase { base: &self.snapshot, now: &now, mine: &self.catalog, defines };
        let mut io = Io::new(self.trees.committer().storage(), &mut self.fresh);
        self.catalog = rebase.run(&mut io, changes)?;
        self.snapshot = now;
        Ok(())
    }

    /// All changes in one batch; `None` if they are too large for one.
    fn in_place(
        &mut self,
        reading: &Snapshot,
        changes: &Changes,
        rows: &mut RowWrites,
    ) -> Result<Option<Made>, EngineError> {
        let identity = self.snapshot.storage().store().identity().clone();
        let mut room_bytes = identity.batch_bytes_max.min(IN_PLACE_BYTES_MAX) as i64;
        let mut done = Vec::with_capacity(changes.len());
        for (&id, change) in changes {
            let t = self.working(id);
            let mut io = Io::new(self.trees.committer().storage(), &mut self.fresh);
            let page_bytes_max = identity.page_bytes_max as usize;
            let mut rewrite = Rewrite::new(reading, &t, true, Stream::default(), page_bytes_max, room_bytes);
            rewrite.run(&mut io, change)?;
            room_bytes = rewrite.room_bytes;
            if room_bytes < 0 {
                return Ok(None);
            }
            done.push((rewrite.finish(change.stream.clone()), !change.stream.is_empty()));
        }
        let before = rows.clone();
        let made = self.assemble(done, changes, rows)?;
        let batch = &made.0;
        let pages = batch.writes.len() + batch.trims.len();
        let fits = batch.payload_bytes() as u64 <= identity.batch_bytes_max
            && pages <= identity.batch_pages_max as usize;
        if !fits {
            *rows = before;
            return Ok(None);
        }
        Ok(Some(made))
    }

    /// Writes all changed pages to fresh extents. The batch publishes them.
    fn moved(
        &mut self,
        reading: &Snapshot,
        changes: &mut Changes,
        rows: &mut RowWrites,
    ) -> Result<Made, EngineError> {
        let page_bytes_max = self.snapshot.storage().store().identity().page_bytes_max as usize;
        let mut done = Vec::with_capacity(changes.len());
        for (&id, change) in changes.iter_mut() {
            let t = self.working(id);
            let mut io = Io::new(self.trees.committer().storage(), &mut self.fresh);
            let stream = std::mem::take(&mut change.stream);
            let mut rewrite = Rewrite::new(reading, &t, false, stream, page_bytes_max, i64::MAX);
            rewrite.run(&mut io, change)?;
            let mut rewritten = rewrite.finish(Stream::default());
            let writes = std::mem::take(&mut rewritten.writes);
            if !writes.is_empty() {
                io.store.write(Batch { writes, ..Batch::default() })?;
            }
            done.push((rewritten, true));
        }
        self.assemble(done, changes, rows)
    }

    /// The final batch and the catalog that it makes. `done`: each changed table, and whether pages of it were written before.
    fn assemble(
        &mut self,
        done: Vec<(Rewritten, bool)>,
        changes: &Changes,
        rows: &mut RowWrites,
    ) -> Result<Made, EngineError> {
        let mut catalog = self.catalog.clone();
        let mut batch = Batch::default();
        let mut releases = Vec::new();
        let mut entries = IndexChanges::default();
        // New indexes may be of new columns.
        let reading = self.with_definitions();
        let indexes = Indexes { committer: self.trees.committer(), snapshot: &reading };
        for (mut r, written_before) in done {
            match r.table.has_delta() {
                true => {
                    let sorted = changes.get(&r.table.id()).and_then(|c| c.sorted);
                    self.number_pages(&mut r, sorted, rows, &mut entries)?;
                }
                false => indexes.note_changes(&r, &mut entries)?,
            }
            let mut table = r.table;
            if table.extents.len() > EXTENTS_MAX {
                let what =
                    format!("it would need {} extents, {EXTENTS_MAX} are allowed", table.extents.len());
                return Err(EngineError::invalid(table.name(), what));
            }
            // Pages that were written before their rule was registered have no index entries yet.
            table.index_pending |= written_before && self.index_rules.contains_key(&table.id());
            batch.writes.extend(r.writes);
            batch.trims.extend(r.trims);
            releases.extend(r.releases.iter().map(|e| e.id));
            Arc::make_mut(&mut catalog.tables).insert(table.name().into(), Arc::new(table));
        }
        let batch = self.batch(&catalog, batch, releases)?;
        Ok((batch, catalog, entries))
    }

    /// Adds the pages of this catalog to a batch, and releases the extents that it no longer names.
    pub(super) fn batch(
        &self,
        catalog: &TableCatalog,
        mut batch: Batch,
        mut releases: Vec<ExtentId>,
    ) -> Result<Batch, EngineError> {
        let store = self.snapshot.storage().store();
        let ids: BTreeSet<TableId> = catalog.tables.values().map(|t| t.id()).collect();
        for dropped in self.snapshot.tables().filter(|t| !ids.contains(&t.id())) {
            releases.extend(dropped.extents.iter().map(|e| e.id));
        }
        let named = catalog.named_extents();
        releases.extend(self.fresh.iter().filter(|e| !named.contains(e)));
        releases.sort_unstable();
        releases.dedup();
        let page_bytes_max = store.identity().page_bytes_max as usize;
        let (writes, trims) = catalog.changes_from(&self.snapshot, page_bytes_max)?;
        batch.writes.extend(writes);
        batch.trims.extend(trims);
        batch.releases = releases;
        batch.index_rules = self.index_rules.iter().map(|(&id, rule)| (id.into(), rule.clone())).collect();
        batch.pin = true;
        Ok(batch)
    }

    /// Sends the final batch. Its state becomes the newest one and this transaction's snapshot, and with `forced` the current one.
    /// Answers the number of the state that is to be settled.
    pub(super) fn publish(
        &mut self,
        mut batch: Batch,
        catalog: TableCatalog,
        entries: Vec<TreeWrites>,
        claims: &Claims,
        forced: bool,
    ) -> Result<(CommitNo, Option<u64>), EngineError> {
        batch.unforced = !forced;
        let released: BTreeSet<ExtentId> = batch.releases.iter().copied().collect();
        let old = self.snapshot.tables().flat_map(|t| &t.extents).filter(|e| released.contains(&e.id));
        let mut changed: Vec<Lpid> = old.flat_map(|e| (0..e.used).map(|p| e.id.page(p))).collect();
        changed.extend(batch.writes.iter().map(|w| w.lpid));
        changed.extend(&batch.trims);
        // Before others can get one of those that this releases. No check comes in between, since it needs the right to write.
        self.snapshot.storage().extents().published(&self.fresh);
        let followed = FollowedBounds::of(&self.snapshot, &catalog, &batch);
        batch.answer_entries = followed.wants_entries();
        let CarriedBatch { sent, csn } = self.trees.committer().carry(entries, claims, batch)?;
        let SentBatch { commit, view, entries } = sent;
        followed.finish(&self.snapshot, &entries);
        self.fresh.clear();
        self.index_rules.clear();
        self.made_trees.clear();
        let heads = self.trees.heads();
        let published = catalog.published(&self.snapshot);
        if !Arc::ptr_eq(&catalog.objects, self.snapshot.tables_state().objects().0) {
            self.sequences.published(&catalog.objects);
        }
        self.snapshot = heads.state_of(commit, view, csn, published, changed);
        self.catalog = catalog;
        if !forced {
            heads.sent_unforced();
        }
        let state = match forced || (self.durability != Durability::Commit && heads.is_settled()) {
            true => {
                heads.show(self.snapshot.clone());
                None
            }
            false => Some(heads.stage(self.snapshot.clone())),
        };
        heads.forget_changes();
        Ok((commit, state))
    }

    pub(super) fn working(&self, id: TableId) -> Arc<Table> {
        self.catalog.table_of_id(id).expect("changes are of tables that are there").clone()
    }
}
