//! The database: one drive, its catalog, its pool, the right to commit.
//!
//! ```text
//!   Database ─► Heads: what is read, what commits are made on (`heads.rs`)
//!            ├► the right to write (one commit at a time)
//!            └► Shared { store, pool }, which snapshots share
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lode_base::{CommitNo, ExtentId, Lpid, OwnerId, TableId, ViewId};
use lode_command::{Batch, Device, ExtentInfo, Progress};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::storage::pool::Pool;
use crate::storage::store::Store;
use crate::tables::catalog::{self, Catalog};
use crate::tables::check;
use crate::tables::index;
use crate::trees::commit::sequencer::Sequencer;
use crate::trees::frames::Frames;
use crate::trees::heads::{Heads, SyncEvery};
use crate::trees::page::value;
use crate::trees::redo;
use crate::trees::snapshot::View;
use crate::trees::transaction::{Durability, Transaction};
use crate::trees::writer::state::TreeState;
use crate::trees::{Csn, Tree, TreeLoad};
use crate::{EngineError, HostClock, IndexDef, LinkStats, PoolStats, Snapshot, TableDef, WriteTxn};

/// See [`Database::set_group_ms`].
const GROUP_MS_DEFAULT: u32 = 10;

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Most bytes of pages that the buffer pool holds.
    pub pool_bytes: usize,
    /// Most bytes of key hashes that a check of unsorted keys holds at a time.
    pub key_check_bytes: usize,
    /// The host of a modelled device; none in wall time.
    pub host: Option<Arc<HostClock>>,
    /// Most bytes of pages of trees that are held. What was changed and not written yet is part of it.
    pub frame_bytes: usize,
    /// A node of a tree that has more bytes is split.
    pub node_bytes: usize,
    /// A value of so many bytes is a page of its own.
    pub value_page_bytes_min: usize,
    /// Changed pages are written back in batches of about so many bytes.
    pub write_back_bytes: usize,
    /// Bytes and pages of redo beyond which changed pages are written back, so that a recovery is short.
    pub redo_bytes_max: u64,
    /// See [`DatabaseOptions::redo_bytes_max`].
    pub redo_pages_max: usize,
    /// Memory for the keys of recent commits to trees, about 20 bytes each: a transaction that is older than those that are
    /// remembered, and writes, fails with a conflict.
    pub recent_bytes: usize,
    /// What time it is: the root has the clock. With one, threads that wait for a group of commits let others run a few times
    /// before they sleep, as long as that takes nothing from anybody.
    pub now: Option<fn() -> Instant>,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            pool_bytes: 256 << 20,
            key_check_bytes: 64 << 20,
            host: None,
            frame_bytes: 128 << 20,
            node_bytes: 4096,
            value_page_bytes_min: 256,
            write_back_bytes: 1 << 20,
            redo_bytes_max: 64 << 20,
            redo_pages_max: 16_384,
            // 917,504 keys.
            recent_bytes: 18 << 20,
            now: None,
        }
    }
}

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

/// What the trees of a database hold in memory, and what they owe the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Bytes of pages in memory.
    pub held_bytes: usize,
    /// Of those, changed and not written back.
    pub dirty_bytes: usize,
    /// Bytes of redo that the next open would read.
    pub redo_bytes: u64,
    /// Pages of redo that the next open would read.
    pub redo_pages: usize,
    /// Reads of pages that were not in memory.
    pub misses: u64,
    /// Nodes that commits cut in two.
    pub splits: u64,
    /// Nodes that commits put together with a neighbour.
    pub merges: u64,
}

/// What a database and its snapshots share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) pool: Pool,
    pub(crate) frames: Frames,
    pub(crate) options: DatabaseOptions,
    /// How many views are open at each commit.
    pub(crate) live: Mutex<BTreeMap<CommitNo, u32>>,
    /// Extents of transactions that are under way: no catalog names them yet.
    pub(crate) unpublished: Mutex<BTreeSet<ExtentId>>,
    /// Trees of indexes that were dropped: who still knows one must not rely on what it reads there.
    pub(crate) dropped: Mutex<BTreeSet<TableId>>,
    /// The number of the next table that is created, whether it is ever committed or not.
    pub(crate) next_table: Mutex<u32>,
    /// Nodes that were cut in two, and put together.
    pub(crate) splits: AtomicU64,
    pub(crate) merges: AtomicU64,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) heads: Heads,
    writing: Mutex<Writing>,
    written: Condvar,
    pub(crate) sequencer: Sequencer,
    pub(crate) durability: RwLock<Durability>,
    group_ms: AtomicU32,
    /// What only who has the right to write touches.
    pub(crate) trees: Mutex<TreeState>,
}

/// Who has the right to write.
#[derive(Default)]
struct Writing {
    taken: bool,
    /// Those who wait for it.
    waiting: u32,
}

/// The right to write, given back when it drops.
pub(crate) struct Permit(Arc<Inner>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.writing.lock().taken = false;
        self.0.written.notify_one();
    }
}

impl Shared {
    /// The number of a new table or tree.
    pub(crate) fn new_table(&self) -> TableId {
        let mut next = self.next_table.lock();
        *next += 1;
        TableId::new(*next - 1)
    }

    /// A fresh extent that nothing names yet. [`Database::check`] sees both that it is there and whose it is, or neither.
    pub(crate) fn allocate_unpublished(&self, owner: OwnerId) -> Result<ExtentId, EngineError> {
        let mut unpublished = self.unpublished.lock();
        let extent = self.store.allocate(owner)?;
        unpublished.insert(extent);
        Ok(extent)
    }

    /// Gives back extents that nothing ever named. What the drive does not take back now, the next open gives back.
    pub(crate) fn release_unpublished(&self, releases: Vec<ExtentId>) {
        // Until it is over nobody else gets them, whose they would be then.
        let mut unpublished = self.unpublished.lock();
        unpublished.retain(|e| !releases.contains(e));
        let _ = self.store.write(Batch { releases, ..Batch::default() });
    }

    /// Bytes of the longest value of a tree.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.store.identity().page_bytes_max as usize - value::HEADER_BYTES
    }
}

impl Inner {
    /// Waits for the right to write.
    pub(crate) fn permit(self: &Arc<Self>) -> Permit {
        let mut writing = self.writing.lock();
        writing.waiting += 1;
        while writing.taken {
            self.written.wait(&mut writing);
        }
        writing.waiting -= 1;
        writing.taken = true;
        Permit(self.clone())
    }

    /// Whether someone waits for the right to write.
    pub(crate) fn others_wait(&self) -> bool {
        self.writing.lock().waiting > 0
    }

    /// The state that a commit made. `changed`: the pages that it wrote, trimmed or released. Without a view its readers get one
    /// when they ask.
    pub(crate) fn made(
        &self,
        commit: CommitNo,
        view: Option<ViewId>,
        csn: Option<Csn>,
        catalog: Catalog,
        changed: Vec<Lpid>,
    ) -> Snapshot {
        let shared = &self.shared;
        shared.pool.changed(commit, changed);
        let view = self.view_at(commit, view);
        Snapshot::new(view, csn.unwrap_or_else(|| self.heads.newest().csn()), catalog)
    }

    /// What no snapshot needs of the changes of pages goes.
    pub(crate) fn forget_changes(&self) {
        let oldest = self.shared.live.lock().keys().next().copied();
        self.shared.pool.forget_before(oldest.expect("the current view is counted"));
    }

    /// Writes back a part of the changed pages, if there are many; answers whether it did.
    fn write_back_if_due(self: &Arc<Self>) -> Result<bool, EngineError> {
        if !self.trees.lock().is_due(self) {
            return Ok(false);
        }
        let _permit = self.permit();
        let mut trees = self.trees.lock();
        Ok(trees.is_due(self) && trees.write_back(self)?)
    }

    /// Sees to it that there is room for what comes next. Only for who has the right to write.
    pub(crate) fn make_room(&self, trees: &mut TreeState) -> Result<(), EngineError> {
        let mut wrote = trees.is_due(self);
        while wrote {
            wrote = trees.write_back(self)? && trees.is_overdue(self);
        }
        Ok(())
    }

    /// The view that a batch was answered with; without one its readers get one when they ask.
    pub(crate) fn view_at(&self, commit: CommitNo, view: Option<ViewId>) -> View {
        self.shared.frames.set_view(commit);
        match view {
            Some(view) => View::new(self.shared.clone(), view, commit),
            None => View::closed(self.shared.clone(), commit),
        }
    }

    /// The newest state, behind a fresh view if the drive closed the old one. Only for who has the right to write.
    pub(crate) fn refreshed(&self) -> Result<Snapshot, EngineError> {
        let newest = self.heads.check()?;
        if !newest.is_stale() {
            return Ok(newest);
        }
        self.settle()?;
        let (view, commit) = self.shared.store.open_view()?;
        let fresh = newest.with_view(self.view_at(commit, Some(view)));
        self.heads.show(fresh.clone());
        Ok(fresh)
    }

    /// The state of this number, if there is one to settle, is durable and shows.
    pub(crate) fn settle_at(&self, state: Option<u64>) -> Result<(), EngineError> {
        state.map_or(Ok(()), |number| self.heads.settle(number, &self.shared.store))
    }

    /// All that was committed so far is durable, and shows.
    pub(crate) fn settle(&self) -> Result<(), EngineError> {
        self.heads.settle(self.heads.staged(), &self.shared.store)
    }
}

impl Database {
    /// Opens the database on a drive; an empty drive gets an empty catalog. Extents that the catalog does not name (of
    /// a load that died) are released.
    ///
    /// # Errors
    /// When the drive holds pages but no catalog, when the catalog is damaged or newer, or when the drive fails.
    pub fn open(device: Arc<dyn Device>, options: DatabaseOptions) -> Result<Self, EngineError> {
        let _span = tracing::info_span!("open").entered();
        let store = Store::new(device, options.host.clone());
        let extents = store.extents()?;
        let root = catalog::root_lpid();
        // An extent whose pages nobody can count has some.
        let pages: u64 = extents.iter().map(|e| e.pages_mapped.map_or(1, u64::from)).sum();
        if pages == 0 {
            let first = match extents.iter().find(|e| e.extent == root.extent()) {
                Some(e) if e.owner == OwnerId::CATALOG => e.extent,
                _ => store.allocate(OwnerId::CATALOG)?,
            };
            if first != root.extent() {
                let what = format!("an empty drive handed out extent {first} instead");
                return Err(EngineError::BadCatalog { lpid: root, what });
            }
            store.write(Batch { writes: vec![Catalog::empty().root_page()], ..Batch::default() })?;
        } else if !extents.iter().any(|e| e.extent == root.extent() && e.owner == OwnerId::CATALOG) {
            return Err(EngineError::NoCatalog { pages });
        }
        let pool = Pool::new(options.pool_bytes);
        let frames = Frames::new(options.frame_bytes);
        let shared = Arc::new(Shared {
            store,
            pool,
            frames,
            options,
            live: Mutex::default(),
            unpublished: Mutex::default(),
            dropped: Mutex::default(),
            next_table: Mutex::default(),
            splits: AtomicU64::new(0),
            merges: AtomicU64::new(0),
        });
        let (view, commit) = shared.store.open_view()?;
        shared.frames.set_view(commit);
        let view = View::new(shared.clone(), view, commit);
        let catalog = Catalog::read(&shared.store, view.id())?;
        *shared.next_table.lock() = catalog.next_table;
        release_orphans(&shared.store, &catalog, &extents)?;
        let (current, trees) = TreeState::recover(view, catalog, &extents)?;
        let sequencer = Sequencer::new(current.csn(), &shared.options);
        let heads = Heads::new(current);
        let (writing, written) = (Mutex::default(), Condvar::new());
        let trees = Mutex::new(trees);
        let (durability, group_ms) = (RwLock::default(), AtomicU32::new(GROUP_MS_DEFAULT));
        let inner = Inner { shared, heads, writing, written, sequencer, durability, group_ms, trees };
        let database = Self { inner: Arc::new(inner) };
        if database.inner.heads.current().tables().any(|t| t.index_pending) {
            database.begin_exclusive()?.finish_indexes()?;
        }
        database.drop_unnamed_trees()?;
        Ok(database)
    }

    /// Drops what is left of indexes whose making, or dropping, a crash cut short.
    fn drop_unnamed_trees(&self) -> Result<(), EngineError> {
        let current = self.inner.heads.current();
        let indexes: BTreeSet<String> =
            current.tables().flat_map(|t| t.indexes().iter().map(|i| index::tree_name(&i.name))).collect();
        let left = |t: &&Tree| t.name().starts_with(index::TREE_PREFIX) && !indexes.contains(t.name());
        let left: Vec<Tree> = current.catalog().trees.values().filter(left).cloned().collect();
        left.iter().try_for_each(|t| self.drop_tree(t.name(), true).map(drop))
    }

    /// The newest committed state. Sends no command.
    ///
    /// # Errors
    /// None as a rule; when the drive had closed the view of an idle database, a new one is opened, which can fail.
    pub fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let current = self.inner.heads.current();
        if !current.is_stale() {
            return Ok(current);
        }
        let _permit = self.inner.permit();
        let newest = self.inner.refreshed()?;
        self.inner.settle()?;
        Ok(newest)
    }

    /// Creates a table; answers whether it did (`false`: it was there, and `if_not_exists`).
    pub fn create_table(&self, def: TableDef, if_not_exists: bool) -> Result<bool, EngineError> {
        self.change(|txn| txn.create_table(def, if_not_exists))
    }

    /// Drops a table and its indexes; answers whether it did.
    pub fn drop_table(&self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        self.change(|txn| txn.drop_table(name, if_exists))
    }

    /// Adds columns to the page index of a table and makes the missing entries; answers whether it did.
    pub fn create_index(&self, def: IndexDef, if_not_exists: bool) -> Result<bool, EngineError> {
        self.change(|txn| txn.create_index(def, if_not_exists))
    }

    /// Drops an index; answers whether it did.
    pub fn drop_index(&self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        self.change(|txn| txn.drop_index(name, if_exists))
    }

    fn change(
        &self,
        f: impl FnOnce(&mut WriteTxn) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        let mut txn = self.begin_exclusive()?;
        let did = f(&mut txn)?;
        if did {
            txn.commit()?;
        }
        Ok(did)
    }

    /// Begins a transaction that reads and writes, at the newest committed state. Waits for nobody: what others commit
    /// meanwhile is looked at when it commits.
    pub fn begin_write(&self) -> Result<WriteTxn, EngineError> {
        Ok(WriteTxn::new(self.inner.clone(), None, self.snapshot()?))
    }

    /// Begins a transaction that nobody else commits beside: it waits until the commit that is under way is over, and
    /// others wait until it is. A thread that holds one must not commit another.
    pub fn begin_exclusive(&self) -> Result<WriteTxn, EngineError> {
        let permit = self.inner.permit();
        let snapshot = self.inner.refreshed()?;
        Ok(WriteTxn::new(self.inner.clone(), Some(permit), snapshot))
    }

    /// Begins a transaction over trees, at the newest committed state.
    ///
    /// # Errors
    /// As [`Database::snapshot`].
    pub fn begin(&self) -> Result<Transaction, EngineError> {
        let durability = *self.inner.durability.read();
        Ok(Transaction::new(self.inner.clone(), self.snapshot()?, durability))
    }

    /// Commits transactions of this database, in this order, with one batch as far as that has room for them: they share what
    /// a commit costs, as those of several threads do. Each answers for itself, as [`Transaction::commit`] does; of two that
    /// began together and write one key, the second conflicts with the first.
    pub fn commit_all(
        &self,
        transactions: impl IntoIterator<Item = Transaction>,
    ) -> Vec<Result<Csn, EngineError>> {
        let placed: Vec<_> = transactions.into_iter().map(Transaction::place).collect();
        placed.into_iter().map(|p| p?.finish()).collect()
    }

    /// Creates an empty tree, durably; answers the one that is there, if there is one and `if_not_exists`.
    ///
    /// # Errors
    /// [`EngineError::TreeExists`], or when the drive is full or fails.
    pub fn create_tree(&self, name: &str, if_not_exists: bool) -> Result<Tree, EngineError> {
        let _permit = self.inner.permit();
        match self.inner.refreshed()?.tree(name) {
            Some(tree) if if_not_exists => Ok(tree),
            Some(_) => Err(EngineError::TreeExists(name.into())),
            None => self.inner.trees.lock().create(&self.inner, name),
        }
    }

    /// Begins to load a new tree with keys that come in their order: nodes are made from the leaves up, each once, and go to
    /// the drive in large batches, without redo. Nothing shows before [`TreeLoad::finish`], nor ever if a crash comes before.
    ///
    /// # Errors
    /// [`EngineError::TreeExists`], or when the drive is full or fails.
    pub fn load_tree(&self, name: &str) -> Result<TreeLoad, EngineError> {
        TreeLoad::new(self.inner.clone(), name)
    }

    /// The tree of this name at the newest committed state.
    pub fn tree(&self, name: &str) -> Option<Tree> {
        self.inner.heads.current().tree(name)
    }

    /// Drops a tree and all that is in it, durably; answers whether it did.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTree`] unless `if_exists`, or when the drive fails.
    pub fn drop_tree(&self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        let _permit = self.inner.permit();
        match self.inner.refreshed()?.tree(name) {
            Some(tree) => self.inner.trees.lock().drop_tree(&self.inner, &tree).map(|()| true),
            None if if_exists => Ok(false),
            None => Err(EngineError::NoSuchTree(name.into())),
        }
    }

    /// When commits to trees are durable from now on.
    pub fn set_durability(&self, d: Durability) {
        *self.inner.durability.write() = d;
    }

    /// With [`Durability::Group`]: after how many milliseconds whoever works for this database calls
    /// [`Database::sync`]; nothing here reads a clock.
    pub fn set_group_ms(&self, ms: u32) {
        self.inner.group_ms.store(ms, Ordering::Relaxed);
    }

    /// How often [`Database::sync`] should be called; `None` when no commit waits for that.
    pub fn group(&self) -> Option<Duration> {
        let ms = self.inner.group_ms.load(Ordering::Relaxed);
        let of_trees = (*self.inner.durability.read() == Durability::Group).then_some(ms);
        let ms = of_trees.into_iter().chain(self.inner.heads.shortest_interval()).min()?;
        Some(Duration::from_millis(ms.max(1).into()))
    }

    /// Has [`Database::sync`] called at least every so many milliseconds, as [`Database::set_group_ms`] does, for as long as the
    /// answer lives: for transactions over tables with [`Durability::Group`].
    pub fn sync_every(&self, ms: u32) -> SyncEvery {
        SyncEvery::new(self.inner.clone(), ms)
    }

    /// Makes every commit so far durable.
    ///
    /// # Errors
    /// When the drive is full or fails.
    pub fn sync(&self) -> Result<(), EngineError> {
        {
            let _permit = self.inner.permit();
            self.inner.trees.lock().sync(&self.inner)?;
        }
        self.inner.heads.flush(&self.inner.shared.store)
    }

    /// Writes back every changed page of the trees, so that the next open replays nothing.
    ///
    /// # Errors
    /// When the drive is full or fails.
    pub fn flush(&self) -> Result<(), EngineError> {
        let _span = tracing::debug_span!("flush").entered();
        let _permit = self.inner.permit();
        self.inner.trees.lock().flush(&self.inner)
    }

    /// What the trees hold in memory, and what they owe the drive.
    pub fn tree_stats(&self) -> TreeStats {
        let frames = &self.inner.shared.frames;
        let misses = frames.misses();
        let (dirty_bytes, redo_bytes, redo_pages) = self.inner.trees.lock().backlog();
        let held_bytes = frames.held_bytes();
        let shared = &self.inner.shared;
        let (splits, merges) = (shared.splits.load(Ordering::Relaxed), shared.merges.load(Ordering::Relaxed));
        TreeStats { held_bytes, dirty_bytes, redo_bytes, redo_pages, misses, splits, merges }
    }

    /// What the buffer pool holds, and how well it did.
    pub fn pool(&self) -> PoolStats {
        self.inner.shared.pool.stats()
    }

    /// Has the buffer pool give up so many bytes of its limit, for someone who needs memory for a while; false when it can not
    /// spare them.
    pub fn lend_memory(&self, bytes: usize) -> bool {
        self.inner.shared.pool.lend(bytes)
    }

    /// Gives back what [`Database::lend_memory`] gave up.
    ///
    /// # Panics
    /// When so much was not lent.
    pub fn return_memory(&self, bytes: usize) {
        self.inner.shared.pool.take_back(bytes);
    }

    /// Empties the buffer pool.
    pub fn clear_pool(&self) {
        self.inner.shared.pool.clear();
        self.inner.shared.frames.clear();
    }

    /// What crossed the link since the database was opened.
    pub fn link(&self) -> LinkStats {
        self.inner.shared.store.link()
    }

    /// The host of a modelled device, if it is one.
    pub fn host(&self) -> Option<&Arc<HostClock>> {
        self.inner.shared.store.host()
    }

    /// Asks the drive for a checkpoint, so that the next open is quick.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        self.inner.shared.store.checkpoint()
    }

    /// One bounded step of the drive's background work, which writes some `write_bytes` at most: the drive has no thread of
    /// its own, so whoever has the database calls this now and then.
    pub fn work(&self, write_bytes: u64) -> Progress {
        match self.inner.write_back_if_due() {
            Ok(true) => Progress::More,
            // A drive that fails tells whoever commits next.
            Ok(false) | Err(_) => self.inner.shared.store.work(write_bytes),
        }
    }

    /// Walks the catalog, every page and every index entry; answers what is wrong, one line each. Writers wait.
    pub fn check(&self) -> Result<Vec<String>, EngineError> {
        let _permit = self.inner.permit();
        let trees: Vec<_> = self.inner.trees.lock().extents().collect();
        check::check(&self.inner.refreshed()?, &trees)
    }
}

/// Gives back extents that the catalog does not name: of a load that died.
fn release_orphans(store: &Store, catalog: &Catalog, extents: &[ExtentInfo]) -> Result<(), EngineError> {
    let tables = catalog.tables.values().flat_map(|t| t.extents.iter().map(|e| e.id));
    let named: BTreeSet<ExtentId> = catalog.extents.iter().copied().chain(tables).collect();
    let trees: BTreeSet<OwnerId> = catalog.trees.values().map(Tree::owner).collect();
    let known =
        |e: &ExtentInfo| named.contains(&e.extent) || trees.contains(&e.owner) || e.owner == redo::REDO_OWNER;
    let releases: Vec<ExtentId> = extents.iter().filter(|e| !known(e)).map(|e| e.extent).collect();
    for releases in releases.chunks(1024) {
        store.write(Batch { releases: releases.to_vec(), ..Batch::default() })?;
    }
    Ok(())
}
