//! The database: one drive, its catalog, its pool, the right to commit.
//!
//! ```text
//!   Database ─► current: Snapshot (replaced by each commit)
//!            ├► the right to write (one commit at a time)
//!            └► Shared { store, pool }, which snapshots share
//! ```
//!
//! Invariant: a snapshot becomes current only after the batch that made it is durable and the pool knows what it
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::{CommitNo, ExtentId, Lpid, OwnerId, ViewId};
use lode_command::{Batch, Device, Progress};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::catalog::{self, Catalog};
use crate::pool::Pool;
use crate::snapshot::View;
use crate::store::Store;
use crate::{EngineError, HostClock, IndexDef, LinkStats, PoolStats, Snapshot, TableDef, WriteTxn, check};

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Most bytes of pages that the buffer pool holds.
    pub pool_bytes: usize,
    /// Most bytes of key hashes that a check of unsorted keys holds at a time.
    pub key_check_bytes: usize,
    /// The host of a modelled device; none in wall time.
    pub host: Option<Arc<HostClock>>,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self { pool_bytes: 256 << 20, key_check_bytes: 64 << 20, host: None }
    }
}

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

/// What a database and its snapshots share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) pool: Pool,
    pub(crate) options: DatabaseOptions,
    /// How many views are open at each commit.
    pub(crate) live: Mutex<BTreeMap<CommitNo, u32>>,
    /// Extents of transactions that are under way: no catalog names them yet.
    pub(crate) unpublished: Mutex<BTreeSet<ExtentId>>,
    /// The number of the next table that is created, whether it is ever committed or not.
    pub(crate) next_table: Mutex<u32>,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    current: RwLock<Snapshot>,
    writing: Mutex<bool>,
    written: Condvar,
}

/// The right to write, given back when it drops.
pub(crate) struct Permit(Arc<Inner>);

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.writing.lock() = false;
        self.0.written.notify_one();
    }
}

impl Inner {
    /// Waits for the right to write.
    pub(crate) fn permit(self: &Arc<Self>) -> Permit {
        let mut writing = self.writing.lock();
        while *writing {
            self.written.wait(&mut writing);
        }
        *writing = true;
        Permit(self.clone())
    }

    /// Makes a durable commit the current state. `changed`: the pages that it wrote, trimmed or released. Without a view
    /// its readers get one when they ask.
    pub(crate) fn publish(
        &self,
        commit: CommitNo,
        view: Option<ViewId>,
        catalog: Catalog,
        changed: Vec<Lpid>,
    ) -> Snapshot {
        let shared = &self.shared;
        shared.pool.changed(commit, changed);
        let view = match view {
            Some(view) => View::new(shared.clone(), view, commit),
            None => View::closed(shared.clone(), commit),
        };
        let snapshot = Snapshot::new(view, catalog);
        let old = std::mem::replace(&mut *self.current.write(), snapshot.clone());
        drop(old);
        let oldest = shared.live.lock().keys().next().copied();
        shared.pool.forget_before(oldest.expect("the current view is counted"));
        snapshot
    }

    pub(crate) fn current(&self) -> Snapshot {
        self.current.read().clone()
    }

    /// The current state, behind a fresh view if the drive closed the old one. Only for who has the right to write.
    pub(crate) fn refreshed(&self) -> Result<Snapshot, EngineError> {
        let current = self.current();
        if !current.is_stale() {
            return Ok(current);
        }
        let (view, commit) = self.shared.store.open_view()?;
        let fresh = current.with_view(View::new(self.shared.clone(), view, commit));
        *self.current.write() = fresh.clone();
        Ok(fresh)
    }
}

impl Database {
    /// Opens the database on a drive; an empty drive gets an empty catalog. Extents that the catalog does not name (of
    /// a load that died) are released.
    ///
    /// # Errors
    /// When the drive holds pages but no catalog, when the catalog is damaged or newer, or when the drive fails.
    pub fn open(device: Arc<dyn Device>, options: DatabaseOptions) -> Result<Self, EngineError> {
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
        let shared = Arc::new(Shared {
            store,
            pool,
            options,
            live: Mutex::default(),
            unpublished: Mutex::default(),
            next_table: Mutex::default(),
        });
        let (view, commit) = shared.store.open_view()?;
        let view = View::new(shared.clone(), view, commit);
        let catalog = Catalog::read(&shared.store, view.id())?;
        *shared.next_table.lock() = catalog.next_table;
        release_orphans(&shared.store, &catalog, extents.iter().map(|e| e.extent))?;
        let current = RwLock::new(Snapshot::new(view, catalog));
        let inner = Inner { shared, current, writing: Mutex::new(false), written: Condvar::new() };
        let database = Self { inner: Arc::new(inner) };
        if database.inner.current().tables().any(|t| t.index_pending) {
            database.begin_exclusive()?.finish_indexes()?;
        }
        Ok(database)
    }

    /// The newest committed state. Sends no command.
    ///
    /// # Errors
    /// None as a rule; when the drive had closed the view of an idle database, a new one is opened, which can fail.
    pub fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let current = self.inner.current();
        if !current.is_stale() {
            return Ok(current);
        }
        let _permit = self.inner.permit();
        self.inner.refreshed()
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

    /// What the buffer pool holds, and how well it did.
    pub fn pool(&self) -> PoolStats {
        self.inner.shared.pool.stats()
    }

    /// Empties the buffer pool.
    pub fn clear_pool(&self) {
        self.inner.shared.pool.clear();
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
        self.inner.shared.store.work(write_bytes)
    }

    /// Walks the catalog, every page and every index entry; answers what is wrong, one line each. Writers wait.
    pub fn check(&self) -> Result<Vec<String>, EngineError> {
        let _permit = self.inner.permit();
        check::check(&self.inner.refreshed()?)
    }
}

/// Gives back extents that the catalog does not name: of a load that died.
fn release_orphans(
    store: &Store,
    catalog: &Catalog,
    extents: impl Iterator<Item = ExtentId>,
) -> Result<(), EngineError> {
    let tables = catalog.tables.values().flat_map(|t| t.extents.iter().map(|e| e.id));
    let named: BTreeSet<ExtentId> = catalog.extents.iter().copied().chain(tables).collect();
    let releases: Vec<ExtentId> = extents.filter(|e| !named.contains(e)).collect();
    for releases in releases.chunks(1024) {
        store.write(Batch { releases: releases.to_vec(), ..Batch::default() })?;
    }
    Ok(())
}
