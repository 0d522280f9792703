//! The database: assembles storage, trees and tables, and hands each call on to one of them.
//!
//! ```text
//!   Database ─┬─► Tables ─► Trees ─► Storage ─► the drive
//!             ├─► Trees
//!             └─► Storage
//! ```

use std::sync::Arc;
use std::time::Duration;

use lode_command::{Device, Progress};
use parking_lot::Mutex;

use crate::storage::Storage;
use crate::storage::catalog::{Root, prepare};
use crate::storage::view::View;
use crate::tables::{Tables, empty_root, known_extents, read_catalog};
use crate::trees::{Catalog, Trees};
use crate::{
    Csn, DatabaseOptions, Durability, EngineError, HostClock, IndexDef, LinkStats, MergeStats, PoolStats,
    SequenceDef, SequenceNumbers, Snapshot, SyncEvery, TableDef, Transaction, Tree, TreeLoad, TreeStats,
    WriteTxn,
};

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Database {
    parts: Arc<Parts>,
}

/// What a database is made of.
struct Parts {
    storage: Arc<Storage>,
    trees: Arc<Trees>,
    tables: Tables,
    /// Whether deltas are merged.
    merges: bool,
    rest: Mutex<Rests>,
}

/// For how long nothing was written.
#[derive(Default)]
struct Rests {
    /// Bytes in deltas that no survey has seen.
    deltas: Rest,
    /// The newest commit to trees.
    trees: Rest,
}

/// For how many calls of [`Database::work`] something stayed as it was.
#[derive(Default)]
struct Rest {
    was: u64,
    calls: u32,
}

impl Rest {
    /// Takes what it is now. Answers whether it is at rest.
    fn is_at_rest(&mut self, now: u64) -> bool {
        match now == self.was {
            true => self.calls = self.calls.saturating_add(1),
            false => *self = Self { was: now, calls: 0 },
        }
        self.calls >= REST_CALLS
    }
}

/// What nobody wrote to for so many calls of [`Database::work`] is at rest.
const REST_CALLS: u32 = 10;

impl Database {
    /// Opens the database on a drive. An empty drive gets an empty catalog. Extents that the catalog does not name, those of a load
    /// that did not end, are released.
    ///
    /// # Errors
    /// When the drive holds pages but no catalog, when the catalog is damaged or newer, or when the drive fails.
    pub fn open(device: Arc<dyn Device>, options: DatabaseOptions) -> Result<Self, EngineError> {
        let _span = tracing::info_span!("open").entered();
        let storage = Arc::new(Storage::new(device, options.host.clone(), options.pool_bytes));
        let listed = storage.store().extents()?;
        prepare(&storage, &listed, &empty_root())?;
        let view = View::open(&storage)?;
        let root = Root::read(&view)?;
        let tables = read_catalog(&view, &root)?;
        storage.extents().number_owners_from(root.next_owner);
        let catalog = Catalog::decode(root, tables)?;
        storage.extents().release_orphans(&listed, known_extents(&catalog))?;
        let trees = Arc::new(Trees::open(storage.clone(), view, catalog, &listed, options.trees())?);
        let tables = Tables::open(trees.clone(), storage.clone(), &options)?;
        tables.recover()?;
        let (merges, rest) = (options.merges, Mutex::default());
        Ok(Self { parts: Arc::new(Parts { storage, trees, tables, merges, rest }) })
    }

    /// The newest committed state. Sends no command.
    ///
    /// # Errors
    /// None as a rule. If the drive had closed the view of an idle database, a new one is opened, which can fail.
    pub fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.parts.trees.snapshot()
    }

    /// Creates a table; answers whether it did (`false`: it was there, and `if_not_exists`).
    pub fn create_table(&self, def: TableDef, if_not_exists: bool) -> Result<bool, EngineError> {
        self.parts.tables.change(|txn| txn.create_table(def, if_not_exists))
    }

    /// Drops a table and its indexes; answers whether it did.
    pub fn drop_table(&self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        self.parts.tables.change(|txn| txn.drop_table(name, if_exists))
    }

    /// Gives a table another definition, as [`WriteTxn::alter_table`] does.
    ///
    /// # Errors
    /// Those of [`WriteTxn::alter_table`] and of a commit.
    pub fn alter_table(&self, name: &str, def: TableDef) -> Result<(), EngineError> {
        self.parts.tables.change(|txn| txn.alter_table(name, def).map(|()| true)).map(drop)
    }

    /// Adds columns to the page index of a table and makes the missing entries; answers whether it did.
    pub fn create_index(&self, def: IndexDef, if_not_exists: bool) -> Result<bool, EngineError> {
        self.parts.tables.change(|txn| txn.create_index(def, if_not_exists))
    }

    /// Drops an index; answers whether it did.
    pub fn drop_index(&self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        self.parts.tables.change(|txn| txn.drop_index(name, if_exists))
    }

    /// Begins a transaction that reads and writes, at the newest committed state. It waits for nobody: when it commits, it is validated
    /// against the commits of others since then.
    ///
    /// # Errors
    /// As [`Database::snapshot`].
    pub fn begin_write(&self) -> Result<WriteTxn, EngineError> {
        self.parts.tables.begin()
    }

    /// Begins a transaction that has the right to write: it waits until the commit that is under way is over, and other commits wait
    /// until it is over. A thread that has one must not commit another.
    ///
    /// # Errors
    /// As [`Database::snapshot`].
    pub fn begin_exclusive(&self) -> Result<WriteTxn, EngineError> {
        self.parts.tables.begin_exclusive()
    }

    /// Begins a transaction over trees, at the newest committed state.
    ///
    /// # Errors
    /// As [`Database::snapshot`].
    pub fn begin(&self) -> Result<Transaction, EngineError> {
        self.parts.trees.begin()
    }

    /// Commits transactions of this database, in this order, with one batch as far as that has room for them. They share what a commit
    /// costs, like those of several threads. Each has its own answer, as from [`Transaction::commit`]. If two began together and
    /// write one key, the second conflicts with the first.
    pub fn commit_all(
        &self,
        transactions: impl IntoIterator<Item = Transaction>,
    ) -> Vec<Result<Csn, EngineError>> {
        self.parts.trees.commit_all(transactions)
    }

    /// Creates an empty tree, durably. Answers the one that is there, if there is one and `if_not_exists`.
    ///
    /// # Errors
    /// [`EngineError::TreeExists`], or when the drive is full or fails.
    pub fn create_tree(&self, name: &str, if_not_exists: bool) -> Result<Tree, EngineError> {
        self.parts.trees.create_tree(name, if_not_exists)
    }

    /// Begins to load a new tree from keys in their order. Nodes are made from the leaves up, each once, and go to the drive in large
    /// batches, without redo. Nothing shows before [`TreeLoad::finish`], and after a crash before that there is no tree.
    ///
    /// # Errors
    /// [`EngineError::TreeExists`], or when the drive is full or fails.
    pub fn load_tree(&self, name: &str) -> Result<TreeLoad, EngineError> {
        self.parts.trees.load_tree(name)
    }

    /// The tree of this name at the newest committed state.
    pub fn tree(&self, name: &str) -> Option<Tree> {
        self.parts.trees.heads().current().tree(name)
    }

    /// Drops a tree and all that is in it, durably; answers whether it did.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTree`] unless `if_exists`, or when the drive fails.
    pub fn drop_tree(&self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        self.parts.trees.drop_tree(name, if_exists)
    }

    /// When commits to trees are durable from now on.
    pub fn set_durability(&self, d: Durability) {
        self.parts.trees.durability().set_default(d);
    }

    /// With [`Durability::Group`]: after how many milliseconds [`Database::sync`] should be called. The engine reads no clock, so its
    /// holder must call it.
    pub fn set_group_ms(&self, ms: u32) {
        self.parts.trees.durability().set_group_ms(ms);
    }

    /// How often [`Database::sync`] should be called; `None` when no commit waits for that.
    pub fn group(&self) -> Option<Duration> {
        self.parts.trees.durability().interval()
    }

    /// Asks for [`Database::sync`] at least every so many milliseconds, as [`Database::set_group_ms`] does, for as long as the answer
    /// lives. For transactions over tables with [`Durability::Group`].
    pub fn sync_every(&self, ms: u32) -> SyncEvery {
        self.parts.trees.durability().sync_every(ms)
    }

    /// Makes every commit so far durable.
    ///
    /// # Errors
    /// When the drive is full or fails.
    pub fn sync(&self) -> Result<(), EngineError> {
        self.parts.trees.sync()
    }

    /// The next numbers of a sequence, up to `count`: fewer at its end, but at least one. No number is given twice, also not after a
    /// crash. Numbers are not part of transactions. `name` is for the message.
    ///
    /// # Errors
    /// [`EngineError::SequenceEnd`], or when the drive is full or fails.
    pub fn next_numbers(
        &self,
        name: &str,
        of: &SequenceDef,
        count: u64,
    ) -> Result<SequenceNumbers, EngineError> {
        self.parts.tables.sequences().next(name, of, count)
    }

    /// Sets where a sequence stands: its next number is the one after `value`, or without `given` it is `value`.
    ///
    /// # Errors
    /// When the drive is full or fails.
    pub fn set_number(&self, of: &SequenceDef, value: i64, given: bool) -> Result<(), EngineError> {
        self.parts.tables.sequences().set(of, value, given)
    }

    /// The last number of a sequence, and whether it was given: if not, it is the next one.
    pub fn last_number(&self, of: &SequenceDef) -> (i64, bool) {
        self.parts.tables.sequences().last(of)
    }

    /// Writes back every changed page of the trees, so that the next open replays nothing, and takes back numbers that sequences have
    /// reserved.
    ///
    /// # Errors
    /// When the drive is full or fails.
    pub fn flush(&self) -> Result<(), EngineError> {
        let _span = tracing::debug_span!("flush").entered();
        self.parts.trees.flush()?;
        self.parts.tables.sequences().settle()
    }

    /// What the trees hold in memory, and what they owe the drive.
    pub fn tree_stats(&self) -> TreeStats {
        self.parts.trees.stats()
    }

    /// What merges of deltas did.
    pub fn merge_stats(&self) -> MergeStats {
        self.parts.tables.merge_stats()
    }

    /// What the buffer pool holds, and how well it did.
    pub fn pool(&self) -> PoolStats {
        self.parts.storage.pool().stats()
    }

    /// Lends so many bytes of the buffer pool's limit to a caller that needs memory for a while; false if the pool cannot spare them.
    pub fn lend_memory(&self, bytes: usize) -> bool {
        self.parts.storage.pool().lend(bytes)
    }

    /// The most bytes that [`Database::lend_memory`] lends at a time, to all callers together.
    pub fn lent_memory_max(&self) -> usize {
        self.parts.storage.pool().lent_bytes_max()
    }

    /// Takes back what [`Database::lend_memory`] lent.
    ///
    /// # Panics
    /// When so much was not lent.
    pub fn return_memory(&self, bytes: usize) {
        self.parts.storage.pool().take_back(bytes);
    }

    /// Empties the buffer pool, and lets frames of trees leave.
    pub fn clear_pool(&self) {
        self.parts.storage.pool().clear();
        self.parts.trees.clear_frames();
    }

    /// What crossed the link since the database was opened.
    pub fn link(&self) -> LinkStats {
        self.parts.storage.store().link()
    }

    /// The host of a modelled device, if it is one.
    pub fn host(&self) -> Option<&Arc<HostClock>> {
        self.parts.storage.store().host()
    }

    /// Asks the drive for a checkpoint, so that the next open is quick.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        self.parts.storage.store().checkpoint()
    }

    /// One bounded step of background work, which writes about `write_bytes` at most. Neither the engine nor the drive has a thread, so
    /// the holder of the database calls this now and then.
    pub fn work(&self, write_bytes: u64) -> Progress {
        let (deltas_rest, trees_rest) = self.at_rest();
        // The next commit is told of a drive that fails.
        let did = match self.parts.trees.write_back_if_due() {
            Ok(false) if self.parts.merges => self.parts.tables.merge_step(deltas_rest),
            did => did,
        };
        let did = match did {
            Ok(false) if trees_rest => self.parts.trees.write_back_at_rest(),
            did => did,
        };
        match did {
            Ok(true) => Progress::More,
            Ok(false) | Err(_) => self.parts.storage.store().work(write_bytes),
        }
    }

    /// Whether nothing was written for a while to deltas, and to any tree.
    fn at_rest(&self) -> (bool, bool) {
        let unmerged = self.parts.tables.unmerged();
        let newest = self.parts.trees.heads().current().csn().raw();
        let mut rest = self.parts.rest.lock();
        (rest.deltas.is_at_rest(unmerged), rest.trees.is_at_rest(newest))
    }

    /// Merges all that the delta of a table has into its pages. Rows that others write meanwhile stay in the delta. Without a delta there
    /// is nothing to do.
    ///
    /// # Errors
    /// When the drive is full or fails.
    pub fn merge(&self, table: &str) -> Result<(), EngineError> {
        self.parts.tables.merge(table)
    }

    /// Checks the catalog, every page and every index entry. Answers what is wrong, one line each. Writers wait.
    pub fn check(&self) -> Result<Vec<String>, EngineError> {
        self.parts.tables.check()
    }
}
