//! fjall, with and without key-value separation.

use std::path::Path;

use fjall::config::CompressionPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, OwnedWriteBatch,
    PersistMode,
};
use lode_workload::store::{KeyValue, Reader, StoreError, StoreResult, WriteBatch};

use super::{BACKGROUND_THREADS, SEPARATE_BYTES_MIN, settled};

pub(crate) struct Fjall {
    db: Database,
    keys: Keyspace,
}

fn failed(e: fjall::Error) -> StoreError {
    StoreError::failed(e)
}

impl Fjall {
    pub(crate) fn new(dir: &Path, cache_bytes: usize, separated: bool) -> StoreResult<Self> {
        let db = Database::builder(dir)
            .cache_size(cache_bytes as u64)
            .worker_threads(BACKGROUND_THREADS)
            .open()
            .map_err(failed)?;
        let options = || {
            let options = KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None));
            let apart = KvSeparationOptions::default()
                .compression(CompressionType::None)
                .separation_threshold(SEPARATE_BYTES_MIN);
            options.with_kv_separation(separated.then_some(apart))
        };
        let keys = db.keyspace("kv", options).map_err(failed)?;
        Ok(Self { db, keys })
    }
}

impl KeyValue for Fjall {
    type Reader<'a> = FjallReader<'a>;
    type Batch<'a> = FjallBatch<'a>;

    fn reader(&self) -> StoreResult<FjallReader<'_>> {
        Ok(FjallReader(&self.keys))
    }

    fn batch(&self) -> StoreResult<FjallBatch<'_>> {
        let batch = self.db.batch().durability(Some(PersistMode::SyncData));
        Ok(FjallBatch { keys: &self.keys, batch })
    }

    fn settle(&self) -> StoreResult {
        settled(|| Ok(self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0))
    }
}

pub(crate) struct FjallReader<'a>(&'a Keyspace);

impl Reader for FjallReader<'_> {
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        Ok(self.0.get(key).map_err(failed)?.map(|v| f(&v)))
    }

    fn scan(&mut self, from: &[u8], mut f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult {
        for entry in self.0.range(from..) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            if !f(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) struct FjallBatch<'a> {
    keys: &'a Keyspace,
    batch: OwnedWriteBatch,
}

impl WriteBatch for FjallBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult {
        self.batch.insert(self.keys, key, value);
        Ok(())
    }

    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        Ok(self.keys.get(key).map_err(failed)?.map(|v| f(&v)))
    }

    fn commit(self) -> StoreResult {
        self.batch.commit().map_err(failed)
    }
}
