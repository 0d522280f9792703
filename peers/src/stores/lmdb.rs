//! LMDB.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions, RoTxn, RwTxn, WithTls};
use lode_workload::store::{KeyValue, Reader, StoreError, StoreResult, WriteBatch};

/// Address space for the file.
const MAP_BYTES: usize = 64 << 30;

pub(crate) struct Lmdb {
    env: Env<WithTls>,
    keys: Database<Bytes, Bytes>,
}

fn failed(e: heed::Error) -> StoreError {
    StoreError::failed(e)
}

impl Lmdb {
    pub(crate) fn new(dir: &Path) -> StoreResult<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: the directory was just made, and no other code uses it.
        let env = unsafe { options.open(dir) }.map_err(failed)?;
        let mut txn = env.write_txn().map_err(failed)?;
        let keys = env.create_database(&mut txn, None).map_err(failed)?;
        txn.commit().map_err(failed)?;
        Ok(Self { env, keys })
    }
}

impl KeyValue for Lmdb {
    type Reader<'a> = LmdbReader<'a>;
    type Batch<'a> = LmdbBatch<'a>;

    fn reader(&self) -> StoreResult<LmdbReader<'_>> {
        Ok(LmdbReader { txn: self.env.read_txn().map_err(failed)?, keys: self.keys })
    }

    fn batch(&self) -> StoreResult<LmdbBatch<'_>> {
        Ok(LmdbBatch { txn: self.env.write_txn().map_err(failed)?, keys: self.keys })
    }

    fn settle(&self) -> StoreResult {
        Ok(())
    }
}

pub(crate) struct LmdbReader<'a> {
    txn: RoTxn<'a, WithTls>,
    keys: Database<Bytes, Bytes>,
}

impl Reader for LmdbReader<'_> {
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        Ok(self.keys.get(&self.txn, key).map_err(failed)?.map(f))
    }

    fn scan(&mut self, from: &[u8], mut f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult {
        // LMDB does not allow an empty key.
        let all = match from {
            [] => self.keys.range(&self.txn, &(..)),
            from => self.keys.range(&self.txn, &(Bound::Included(from), Bound::Unbounded)),
        };
        for entry in all.map_err(failed)? {
            let (key, value) = entry.map_err(failed)?;
            if !f(key, value) {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) struct LmdbBatch<'a> {
    txn: RwTxn<'a>,
    keys: Database<Bytes, Bytes>,
}

impl WriteBatch for LmdbBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult {
        self.keys.put(&mut self.txn, key, value).map_err(failed)
    }

    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        Ok(self.keys.get(&self.txn, key).map_err(failed)?.map(f))
    }

    fn commit(self) -> StoreResult {
        self.txn.commit().map_err(failed)
    }
}
