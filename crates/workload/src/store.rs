//! The interface between workloads and stores: trees of ordered byte strings, with transactions.
//!
//! ```text
//!   Transactional ── tree(name) ─► Tree
//!        └ begin ─► Txn: get, scan, put, delete ─► commit (durable, or Conflict)
//!
//!   KeyValue: one tree, a reader for many reads, a batch for many writes, as in any key-value store
//! ```
//!
//! A transaction reads one state with its own writes on top. Dropping it rolls it back.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use crate::measure::Causes;
use crate::upkeep::Upkeep;

/// Why an operation of a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another transaction has committed a write to the same key. The failed transaction had no effect and can be
    /// retried.
    #[error("another transaction committed first")]
    Conflict,
    /// The read bytes are not in the format that this program writes.
    #[error("a damaged row: {0}")]
    Damaged(&'static str),
    /// Something that must exist is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The store failed.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// A failure of a store.
    pub fn failed(e: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(e))
    }
}

/// The result of every operation of a store.
pub type StoreResult<T = ()> = Result<T, StoreError>;

/// Tells a store at the beginning of a transaction what the transaction will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// A store with transactions over several trees.
pub trait Transactional: Send + Sync {
    /// A tree: a small handle.
    type Tree: Clone + Send + Sync;
    /// A transaction, for one thread.
    type Txn<'a>: Txn<Tree = Self::Tree>
    where
        Self: 'a;

    /// The tree with this name. It is made if it does not exist.
    ///
    /// # Errors
    /// When the store fails.
    fn tree(&self, name: &str) -> StoreResult<Self::Tree>;

    /// Begins a transaction on the committed state.
    ///
    /// # Errors
    /// When the store fails.
    fn begin(&self) -> StoreResult<Self::Txn<'_>>;
}

/// A transaction. Every operation fails if the store fails.
#[expect(clippy::missing_errors_doc, reason = "all fail when the store does")]
pub trait Txn {
    /// A tree.
    type Tree;

    /// Passes the value of a key to `f` and returns the result of `f`, or `None` if the key has no value.
    fn get<R>(&mut self, tree: &Self::Tree, key: &[u8], f: impl FnOnce(&[u8]) -> R)
    -> StoreResult<Option<R>>;

    /// Passes the keys from `from` to before `to`, with their values, to `f` in order, until `f` returns false.
    fn scan(
        &mut self,
        tree: &Self::Tree,
        from: &[u8],
        to: &[u8],
        f: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult;

    /// Sets the value of a key.
    fn put(&mut self, tree: &Self::Tree, key: &[u8], value: &[u8]) -> StoreResult;

    /// Removes a key, if it exists.
    fn delete(&mut self, tree: &Self::Tree, key: &[u8]) -> StoreResult;

    /// Makes the writes of the transaction durable, all or none. Fails with [`StoreError::Conflict`] if another
    /// transaction has committed a write to the same key.
    fn commit(self) -> StoreResult;
}

/// A store of one tree.
#[expect(clippy::missing_errors_doc, reason = "all fail when the store does")]
pub trait KeyValue: Send + Sync {
    /// Reads one state: the state at its creation or a later one.
    type Reader<'a>: Reader
    where
        Self: 'a;
    /// Writes that take effect together.
    type Batch<'a>: WriteBatch
    where
        Self: 'a;

    /// Begins to read.
    fn reader(&self) -> StoreResult<Self::Reader<'_>>;

    /// Begins to write.
    fn batch(&self) -> StoreResult<Self::Batch<'_>>;

    /// Does the background work of a store without threads, on the caller's thread, until `over` is set.
    fn background(&self, over: &AtomicBool) -> StoreResult {
        let _ = over;
        Ok(())
    }

    /// Does the remaining background work, or waits for it. It causes no further background work.
    fn settle(&self) -> StoreResult;

    /// The bytes written since the store was opened, by cause, if the store reports them.
    fn causes(&self) -> Option<Causes> {
        None
    }
}

/// Reads of a [`KeyValue`].
#[expect(clippy::missing_errors_doc, reason = "all fail when the store does")]
pub trait Reader {
    /// Passes the value of a key to `f` and returns the result of `f`, or `None` if the key has no value.
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>>;

    /// Passes the keys from `from` on, with their values, to `f` in order, until `f` returns false.
    fn scan(&mut self, from: &[u8], f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult;
}

/// Writes of a [`KeyValue`].
#[expect(clippy::missing_errors_doc, reason = "all fail when the store does")]
pub trait WriteBatch {
    /// Sets the value of a key.
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult;

    /// Reads a key between the writes, as updates in place do. The read may or may not see the writes of this batch.
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>>;

    /// Makes the writes durable, all or none.
    fn commit(self) -> StoreResult;
}

/// A key after all keys of workloads, which begin with a lower byte.
pub(crate) const PAST_ALL: [u8; 1] = [0xFF];

/// One tree of a store with transactions.
pub struct OneTree<S: Transactional, U> {
    store: S,
    tree: S::Tree,
    upkeep: U,
}

impl<S: Transactional, U: Upkeep> OneTree<S, U> {
    /// The tree with this name. It is made if it does not exist.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(store: S, name: &str, upkeep: U) -> StoreResult<Self> {
        let tree = store.tree(name)?;
        Ok(Self { store, tree, upkeep })
    }
}

impl<S: Transactional, U: Upkeep> KeyValue for OneTree<S, U> {
    type Reader<'a>
        = TreeTxn<'a, S>
    where
        Self: 'a;
    type Batch<'a>
        = TreeTxn<'a, S>
    where
        Self: 'a;

    fn reader(&self) -> StoreResult<Self::Reader<'_>> {
        Ok(TreeTxn { txn: self.store.begin()?, tree: &self.tree })
    }

    fn batch(&self) -> StoreResult<Self::Batch<'_>> {
        self.reader()
    }

    fn background(&self, over: &AtomicBool) -> StoreResult {
        self.upkeep.background(over)
    }

    fn settle(&self) -> StoreResult {
        self.upkeep.settle()
    }

    fn causes(&self) -> Option<Causes> {
        self.upkeep.causes()
    }
}

/// A transaction on one tree.
pub struct TreeTxn<'a, S: Transactional + 'a> {
    txn: S::Txn<'a>,
    tree: &'a S::Tree,
}

impl<S: Transactional> Reader for TreeTxn<'_, S> {
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        self.txn.get(self.tree, key, f)
    }

    fn scan(&mut self, from: &[u8], f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult {
        self.txn.scan(self.tree, from, &PAST_ALL, f)
    }
}

impl<S: Transactional> WriteBatch for TreeTxn<'_, S> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult {
        self.txn.put(self.tree, key, value)
    }

    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        self.txn.get(self.tree, key, f)
    }

    fn commit(self) -> StoreResult {
        self.txn.commit()
    }
}
