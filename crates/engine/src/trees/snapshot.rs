//! Snapshots: the database at one commit.
//!
//! ```text
//!   Snapshot ─► Seen ─► View (pinned in the drive, closed when the last clone drops)
//!            │       └ the newest commit to trees
//!            ├► Catalog (immutable tables)
//!            └► Own (within a transaction: its own changes)
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lode_base::{CommitNo, Lpid, ViewId};
use lode_command::{Answer, PageRange, ScanTask};
use lode_program::{IndexEntry, Program};

use crate::database::Shared;
use crate::storage::columns as read;
use crate::storage::store::Store;
use crate::tables::catalog::Catalog;
use crate::tables::own::Own;
use crate::tables::statistics;
use crate::trees::frames::Sight;
use crate::trees::upper::Upper;
use crate::trees::{Csn, Tree};
use crate::{EngineError, HostClock, PageColumns, ReadAhead, Scan, Table, TableStatistics};

/// Pages of a unit of a scan: often enough for a run-time filter to take hold, rarely enough to cost nothing.
pub(crate) const UNIT_PAGES: u32 = 16;

/// The database at one commit: a pinned view of the drive, and the catalog that goes with it. Clones share both; the
/// view closes when the last one drops.
#[derive(Clone)]
pub struct Snapshot {
    seen: Arc<Seen>,
    catalog: Arc<Catalog>,
    own: Option<Arc<Own>>,
}

/// What a snapshot sees of the drive and of the frames; both keep it for as long as this lives.
struct Seen {
    csn: Csn,
    view: Arc<View>,
    upper: Upper,
}

impl Seen {
    fn new(view: Arc<View>, csn: Csn) -> Self {
        view.shared.frames.enter(Sight { csn, view: view.commit });
        Self { csn, view, upper: Upper::default() }
    }

    fn sight(&self) -> Sight {
        Sight { csn: self.csn, view: self.view.commit }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.view.shared.frames.leave(self.sight());
    }
}

/// A view of the drive, open as long as this lives.
pub(crate) struct View {
    shared: Arc<Shared>,
    id: ViewId,
    commit: CommitNo,
    /// The drive said that the view is closed.
    stale: AtomicBool,
}

impl View {
    pub(crate) fn new(shared: Arc<Shared>, id: ViewId, commit: CommitNo) -> Self {
        *shared.live.lock().entry(commit).or_default() += 1;
        Self { shared, id, commit, stale: AtomicBool::new(false) }
    }

    /// A view that is closed from the start: whoever uses it is told that it is too old.
    pub(crate) fn closed(shared: Arc<Shared>, commit: CommitNo) -> Self {
        let view = Self::new(shared, ViewId::new(u64::MAX), commit);
        view.stale.store(true, Ordering::Relaxed);
        view
    }

    pub(crate) fn id(&self) -> ViewId {
        self.id
    }
}

impl Drop for View {
    fn drop(&mut self) {
        {
            let mut live = self.shared.live.lock();
            let count = live.get_mut(&self.commit).expect("every view is counted");
            *count -= 1;
            if *count == 0 {
                live.remove(&self.commit);
            }
        }
        if !self.stale.load(Ordering::Relaxed) {
            // A view that can not be closed goes with the drive; nothing is left to tell.
            let _ = self.shared.store.close_view(self.id);
        }
    }
}

impl Snapshot {
    pub(crate) fn new(view: View, csn: Csn, catalog: Catalog) -> Self {
        Self { seen: Arc::new(Seen::new(Arc::new(view), csn)), catalog: Arc::new(catalog), own: None }
    }

    /// What a transaction sees: the state at its begin, and its own changes. `catalog` is that with these.
    pub(crate) fn with_own(catalog: Catalog, own: Own) -> Self {
        let seen = own.base.seen.clone();
        Self { seen, catalog: Arc::new(catalog), own: Some(Arc::new(own)) }
    }

    /// The same catalog behind another view of the same state.
    pub(crate) fn with_view(&self, view: View) -> Self {
        let seen = Seen::new(Arc::new(view), self.seen.csn);
        Self { seen: Arc::new(seen), catalog: self.catalog.clone(), own: None }
    }

    /// The same catalog after commits to trees; without a view, behind the one of this snapshot.
    pub(crate) fn with_commits(&self, csn: Csn, view: Option<View>) -> Self {
        let view = view.map_or_else(|| self.seen.view.clone(), Arc::new);
        Self { seen: Arc::new(Seen::new(view, csn)), catalog: self.catalog.clone(), own: None }
    }

    /// The newest commit to trees that is shown.
    pub fn csn(&self) -> Csn {
        self.seen.csn
    }

    pub(crate) fn sight(&self) -> Sight {
        self.seen.sight()
    }

    /// Inner nodes of trees that it has met.
    pub(crate) fn upper(&self) -> &Upper {
        &self.seen.upper
    }

    pub(crate) fn own(&self) -> Option<&Own> {
        self.own.as_deref()
    }

    /// Whether a table has changes that only the reading transaction sees.
    pub fn has_own_changes(&self, t: &Table) -> bool {
        self.own().is_some_and(|own| own.changed.contains(&t.id()))
    }

    /// The commit that is shown.
    pub fn commit(&self) -> CommitNo {
        self.seen.view.commit
    }

    /// The tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.catalog.tables.values()
    }

    /// The tree of this name.
    pub fn tree(&self, name: &str) -> Option<Tree> {
        self.catalog.trees.get(name).cloned()
    }

    /// The trees, by name.
    pub fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.catalog.trees.values()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.catalog.tables.get(name).cloned()
    }

    /// The pages of a table of this snapshot. A partition may take any part of them.
    pub fn page_ranges(&self, t: &Table) -> Vec<PageRange> {
        t.page_ranges()
    }

    /// A scan of these pages in the drive. It submits nothing before its first [`Scan::next`].
    ///
    /// # Errors
    /// When the program is for another schema than the table's.
    pub fn scan(
        &self,
        t: &Table,
        pages: Vec<PageRange>,
        program: Arc<Program>,
        answer: Answer,
        limit: Option<u64>,
    ) -> Result<Scan, EngineError> {
        if program.schema() != t.schema() {
            return Err(EngineError::invalid(t.name(), "the program is for another schema"));
        }
        let limit_rows = limit.filter(|_| answer == Answer::Rows);
        let task =
            ScanTask { view: self.seen.view.id, pages, program, answer, unit_pages: UNIT_PAGES, limit_rows };
        Ok(Scan::new(self.clone(), task))
    }

    /// The host of a modelled device, if it is one.
    pub fn host(&self) -> Option<&Arc<HostClock>> {
        self.store().host()
    }

    /// Rows, sizes, bounds of values; from the page index, once for each version of a table.
    pub fn statistics(&self, t: &Table) -> Result<TableStatistics, EngineError> {
        if let Some(known) = t.statistics.get() {
            return Ok(known.clone());
        }
        let collected = match self.own() {
            Some(own) if own.changed.contains(&t.id()) => own.statistics(self, t)?,
            _ => statistics::collect(self, t)?,
        };
        Ok(t.statistics.get_or_init(|| collected).clone())
    }

    /// Columns of one page, through the buffer pool: only what is not held there crosses the link.
    pub fn read_columns(&self, lpid: Lpid, columns: &[u16]) -> Result<PageColumns, EngineError> {
        match self.own() {
            Some(own) if own.covers(lpid) => own.read(self, lpid, columns),
            _ => read::columns(self, lpid, columns),
        }
    }

    /// With a modelled device: reads of these columns ahead of [`Snapshot::read_columns`], as many pages at a time as the host's
    /// queue is deep; with `few`, at first one at a time.
    pub fn read_ahead(&self, columns: Vec<u16>, few: bool) -> Option<ReadAhead> {
        let depth = self.host()?.depth().min(self.store().identity().queue_depth_max);
        Some(ReadAhead::new(self.clone(), columns, depth, few))
    }

    pub(crate) fn read_index(
        &self,
        ranges: Vec<PageRange>,
    ) -> Result<Vec<(Lpid, Option<IndexEntry>)>, EngineError> {
        self.noting_age(self.store().read_index(self.seen.view.id, ranges))
    }

    /// Passes a result on; a view that the drive closed is remembered, so that the next snapshot gets another.
    pub(crate) fn noting_age<T>(&self, r: Result<T, EngineError>) -> Result<T, EngineError> {
        if matches!(r, Err(EngineError::SnapshotTooOld)) {
            self.mark_stale();
        }
        r
    }

    pub(crate) fn mark_stale(&self) {
        self.seen.view.stale.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.seen.view.stale.load(Ordering::Relaxed)
    }

    pub(crate) fn view_id(&self) -> ViewId {
        self.seen.view.id
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.seen.view.shared
    }

    pub(crate) fn store(&self) -> &Store {
        &self.seen.view.shared.store
    }
}
