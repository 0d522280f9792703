//! Lode's embedded API behind the traits of workloads.
//!
//! ```text
//!   Transactional ─► Database: begin, get, put, delete, scan, commit         Upkeep ─► Database::work
//! ```

use lode_engine::{Database, EngineError, Progress, Transaction, Tree};

use crate::measure::Causes;
use crate::store::{StoreError, StoreResult, Transactional, Txn};
use crate::upkeep::{Steps, Upkeep};

/// About how many bytes a step of background work may write.
const STEP_BYTES: u64 = 1 << 20;

/// A database of Lode.
#[derive(Clone)]
pub struct LodeStore(pub Database);

/// A transaction on it.
pub struct LodeTxn(Transaction);

impl From<EngineError> for StoreError {
    fn from(e: EngineError) -> Self {
        match e {
            EngineError::Conflict { .. } => Self::Conflict,
            e => Self::failed(e),
        }
    }
}

impl LodeStore {
    /// The background work of the database, which the caller's threads do. `causes` reads the drive's counters, if
    /// there are any.
    pub fn upkeep<C: Fn() -> Option<Causes> + Send + Sync>(&self, causes: C) -> impl Upkeep + use<C> {
        let database = self.0.clone();
        Steps::new(move || -> Progress { database.work(STEP_BYTES) }, causes)
    }
}

impl Transactional for LodeStore {
    type Tree = Tree;
    type Txn<'a> = LodeTxn;

    fn tree(&self, name: &str) -> StoreResult<Tree> {
        Ok(self.0.create_tree(name, true)?)
    }

    fn begin(&self) -> StoreResult<LodeTxn> {
        Ok(LodeTxn(self.0.begin()?))
    }
}

impl Txn for LodeTxn {
    type Tree = Tree;

    fn get<R>(&mut self, tree: &Tree, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        Ok(self.0.get_with(tree, key, f)?)
    }

    fn scan(
        &mut self,
        tree: &Tree,
        from: &[u8],
        to: &[u8],
        mut f: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult {
        let mut entries = self.0.scan(tree, from..to)?;
        while let Some((key, value)) = entries.next()? {
            if !f(key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> StoreResult {
        Ok(self.0.put(tree, key, value)?)
    }

    fn delete(&mut self, tree: &Tree, key: &[u8]) -> StoreResult {
        Ok(self.0.delete(tree, key)?)
    }

    fn commit(self) -> StoreResult {
        self.0.commit()?;
        Ok(())
    }
}
