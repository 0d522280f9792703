//! RocksDB, with and without blob files.

use std::path::Path;

use lode_workload::store::{KeyValue, Reader, StoreError, StoreResult, WriteBatch};
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteOptions};

use super::{BACKGROUND_THREADS, SEPARATE_BYTES_MIN, settled};

/// The bits of the Bloom filter per key.
const FILTER_BITS: f64 = 10.0;
/// The number of log files that are kept for reuse.
const LOG_FILES: usize = 4;

pub(crate) struct Rocks {
    db: DB,
    write: WriteOptions,
}

fn failed(e: rocksdb::Error) -> StoreError {
    StoreError::failed(e)
}

impl Rocks {
    pub(crate) fn new(dir: &Path, cache_bytes: usize, blobs: bool) -> StoreResult<Self> {
        let cache = Cache::new_lru_cache(cache_bytes);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        table.set_bloom_filter(FILTER_BITS, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::None);
        options.increase_parallelism(BACKGROUND_THREADS as i32);
        options.set_recycle_log_file_num(LOG_FILES);
        if blobs {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(SEPARATE_BYTES_MIN.into());
            options.set_enable_blob_gc(true);
            options.set_blob_compression_type(DBCompressionType::None);
            options.set_blob_cache(&cache);
        }
        let mut write = WriteOptions::default();
        write.set_sync(true);
        Ok(Self { db: DB::open(&options, dir).map_err(failed)?, write })
    }
}

impl KeyValue for Rocks {
    type Reader<'a> = RocksReader<'a>;
    type Batch<'a> = RocksBatch<'a>;

    fn reader(&self) -> StoreResult<RocksReader<'_>> {
        Ok(RocksReader(&self.db))
    }

    fn batch(&self) -> StoreResult<RocksBatch<'_>> {
        Ok(RocksBatch { store: self, batch: rocksdb::WriteBatch::default() })
    }

    fn settle(&self) -> StoreResult {
        const BUSY: [&str; 4] = [
            "rocksdb.mem-table-flush-pending",
            "rocksdb.num-running-flushes",
            "rocksdb.compaction-pending",
            "rocksdb.num-running-compactions",
        ];
        settled(|| {
            for name in BUSY {
                if self.db.property_int_value(name).map_err(failed)?.unwrap_or(0) > 0 {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}

pub(crate) struct RocksReader<'a>(&'a DB);

fn get<R>(db: &DB, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
    Ok(db.get_pinned(key).map_err(failed)?.map(|v| f(&v)))
}

impl Reader for RocksReader<'_> {
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        get(self.0, key, f)
    }

    fn scan(&mut self, from: &[u8], mut f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult {
        // The raw iterator lends keys and values, while the usual one copies them.
        let mut iterator = self.0.raw_iterator();
        iterator.seek(from);
        while let (Some(key), Some(value)) = (iterator.key(), iterator.value()) {
            if !f(key, value) {
                break;
            }
            iterator.next();
        }
        iterator.status().map_err(failed)
    }
}

pub(crate) struct RocksBatch<'a> {
    store: &'a Rocks,
    batch: rocksdb::WriteBatch,
}

impl WriteBatch for RocksBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult {
        self.batch.put(key, value);
        Ok(())
    }

    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        get(&self.store.db, key, f)
    }

    fn commit(self) -> StoreResult {
        self.store.db.write_opt(self.batch, &self.store.write).map_err(failed)
    }
}
