//! The reference store: in memory, with snapshot isolation, and as simple as possible.
//!
//! ```text
//!   tree ─► key ─► versions: (commit, value or deleted), oldest first
//! ```
//!
//! A transaction reads the newest version up to its snapshot. It conflicts if a key that it wrote has a newer
//! version.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use parking_lot::Mutex;

use crate::store::{StoreError, StoreResult, Transactional, Txn};

type Versions = Vec<(u64, Option<Vec<u8>>)>;

/// The store.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<StoreState>,
}

#[derive(Default)]
struct StoreState {
    commit: u64,
    names: Vec<String>,
    trees: Vec<BTreeMap<Vec<u8>, Versions>>,
    /// The snapshots of open transactions, each with a unique number.
    open: BTreeSet<(u64, u64)>,
    begun: u64,
}

/// A transaction on it.
pub struct MemoryTxn<'a> {
    store: &'a MemoryStore,
    snapshot: (u64, u64),
    writes: BTreeMap<(usize, Vec<u8>), Option<Vec<u8>>>,
}

impl Transactional for MemoryStore {
    type Tree = usize;
    type Txn<'a> = MemoryTxn<'a>;

    fn tree(&self, name: &str) -> StoreResult<usize> {
        let state = &mut *self.state.lock();
        if let Some(at) = state.names.iter().position(|n| n == name) {
            return Ok(at);
        }
        state.names.push(name.into());
        state.trees.push(BTreeMap::new());
        Ok(state.trees.len() - 1)
    }

    fn begin(&self) -> StoreResult<MemoryTxn<'_>> {
        let state = &mut *self.state.lock();
        state.begun += 1;
        let snapshot = (state.commit, state.begun);
        state.open.insert(snapshot);
        Ok(MemoryTxn { store: self, snapshot, writes: BTreeMap::new() })
    }
}

fn at(versions: &Versions, snapshot: u64) -> Option<&[u8]> {
    versions.iter().rev().find(|(commit, _)| *commit <= snapshot)?.1.as_deref()
}

impl Txn for MemoryTxn<'_> {
    type Tree = usize;

    fn get<R>(&mut self, tree: &usize, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        if let Some(own) = self.writes.get(&(*tree, key.to_vec())) {
            return Ok(own.as_deref().map(f));
        }
        let state = self.store.state.lock();
        Ok(state.trees[*tree].get(key).and_then(|v| at(v, self.snapshot.0)).map(f))
    }

    fn scan(
        &mut self,
        tree: &usize,
        from: &[u8],
        to: &[u8],
        mut f: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult {
        if from >= to {
            return Ok(());
        }
        let state = self.store.state.lock();
        let range = (Bound::Included(from), Bound::Excluded(to));
        let committed = state.trees[*tree].range::<[u8], _>(range);
        let mut all: BTreeMap<&[u8], Option<&[u8]>> =
            committed.map(|(k, v)| (k.as_slice(), at(v, self.snapshot.0))).collect();
        let own = (Bound::Included((*tree, from.to_vec())), Bound::Excluded((*tree, to.to_vec())));
        all.extend(self.writes.range(own).map(|((_, k), v)| (k.as_slice(), v.as_deref())));
        for (key, value) in all {
            if value.is_some_and(|v| !f(key, v)) {
                break;
            }
        }
        Ok(())
    }

    fn put(&mut self, tree: &usize, key: &[u8], value: &[u8]) -> StoreResult {
        self.writes.insert((*tree, key.to_vec()), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, tree: &usize, key: &[u8]) -> StoreResult {
        self.writes.insert((*tree, key.to_vec()), None);
        Ok(())
    }

    fn commit(mut self) -> StoreResult {
        let writes = std::mem::take(&mut self.writes);
        let state = &mut *self.store.state.lock();
        let newest = |(tree, key): &(usize, Vec<u8>)| state.trees[*tree].get(key)?.last().map(|v| v.0);
        if writes.keys().any(|k| newest(k).is_some_and(|commit| commit > self.snapshot.0)) {
            return Err(StoreError::Conflict);
        }
        if writes.is_empty() {
            return Ok(());
        }
        state.commit += 1;
        let (commit, oldest) = (state.commit, state.open.first().map_or(state.commit, |(s, _)| *s));
        for ((tree, key), value) in writes {
            let versions = state.trees[tree].entry(key).or_default();
            versions.push((commit, value));
            // Keeps the version that the oldest snapshot sees, and all newer ones.
            let seen = versions.iter().rposition(|(c, _)| *c <= oldest).unwrap_or(0);
            versions.drain(..seen);
        }
        Ok(())
    }
}

impl Drop for MemoryTxn<'_> {
    fn drop(&mut self) {
        self.store.state.lock().open.remove(&self.snapshot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &MemoryStore, tree: usize, key: &[u8], value: &[u8]) {
        let mut txn = store.begin().unwrap();
        txn.put(&tree, key, value).unwrap();
        txn.commit().unwrap();
    }

    fn all(txn: &mut MemoryTxn<'_>, tree: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        txn.scan(&tree, b"", b"\xFF", |k, v| {
            all.push((k.to_vec(), v.to_vec()));
            true
        })
        .unwrap();
        all
    }

    #[test]
    fn a_transaction_sees_its_snapshot_and_its_own_writes() {
        let store = MemoryStore::default();
        let tree = store.tree("a").unwrap();
        assert_eq!(store.tree("a").unwrap(), tree);
        put(&store, tree, b"k", b"1");
        let mut txn = store.begin().unwrap();
        put(&store, tree, b"k", b"2");
        put(&store, tree, b"n", b"3");
        assert_eq!(txn.get(&tree, b"k", <[u8]>::to_vec).unwrap(), Some(b"1".to_vec()));
        txn.put(&tree, b"m", b"own").unwrap();
        assert_eq!(all(&mut txn, tree), [(b"k".to_vec(), b"1".to_vec()), (b"m".to_vec(), b"own".to_vec())]);
        txn.delete(&tree, b"k").unwrap();
        assert_eq!(all(&mut txn, tree).len(), 1);
        assert!(matches!(txn.commit(), Err(StoreError::Conflict)), "k was committed by another one first");
        let mut after = store.begin().unwrap();
        assert_eq!(all(&mut after, tree), [(b"k".to_vec(), b"2".to_vec()), (b"n".to_vec(), b"3".to_vec())]);
    }

    #[test]
    fn versions_that_nobody_sees_go() {
        let store = MemoryStore::default();
        let tree = store.tree("a").unwrap();
        (0..100).for_each(|_| put(&store, tree, b"k", b"1"));
        assert!(store.state.lock().trees[tree][b"k".as_slice()].len() <= 3);
        assert!(store.state.lock().open.is_empty());
    }
}
