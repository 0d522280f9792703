//! redb.
//!
//! A table borrows its transaction, so a batch keeps a copy of its writes until it commits. The copy takes far less
//! time than redb's own work.

use std::path::Path;

use lode_workload::store::{KeyValue, Reader, StoreError, StoreResult, WriteBatch};
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

const KEYS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("kv");

pub(crate) struct Redb(Database);

fn failed(e: impl Into<redb::Error>) -> StoreError {
    StoreError::failed(e.into())
}

impl Redb {
    pub(crate) fn new(dir: &Path, cache_bytes: usize) -> StoreResult<Self> {
        let db =
            Database::builder().set_cache_size(cache_bytes).create(dir.join("kv.redb")).map_err(failed)?;
        let txn = db.begin_write().map_err(failed)?;
        txn.open_table(KEYS).map_err(failed)?;
        txn.commit().map_err(failed)?;
        Ok(Self(db))
    }
}

impl KeyValue for Redb {
    type Reader<'a> = RedbReader;
    type Batch<'a> = RedbBatch<'a>;

    fn reader(&self) -> StoreResult<RedbReader> {
        let txn = self.0.begin_read().map_err(failed)?;
        Ok(RedbReader(txn.open_table(KEYS).map_err(failed)?))
    }

    fn batch(&self) -> StoreResult<RedbBatch<'_>> {
        Ok(RedbBatch { store: self, bytes: Vec::new(), entries: Vec::new(), reader: None })
    }

    fn settle(&self) -> StoreResult {
        Ok(())
    }
}

pub(crate) struct RedbReader(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Reader for RedbReader {
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        Ok(self.0.get(key).map_err(failed)?.map(|v| f(v.value())))
    }

    fn scan(&mut self, from: &[u8], mut f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult {
        for entry in self.0.range::<&[u8]>(from..).map_err(failed)? {
            let (key, value) = entry.map_err(failed)?;
            if !f(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) struct RedbBatch<'a> {
    store: &'a Redb,
    bytes: Vec<u8>,
    /// The offsets of keys and values in the bytes.
    entries: Vec<(usize, usize, usize)>,
    reader: Option<RedbReader>,
}

impl WriteBatch for RedbBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push((at, at + key.len(), self.bytes.len()));
        Ok(())
    }

    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        if self.reader.is_none() {
            self.reader = Some(self.store.reader()?);
        }
        self.reader.as_mut().expect("it was just made").get(key, f)
    }

    fn commit(self) -> StoreResult {
        // Durability::Immediate is the default.
        let txn = self.store.0.begin_write().map_err(failed)?;
        let mut table = txn.open_table(KEYS).map_err(failed)?;
        for (key, value, end) in self.entries {
            table.insert(&self.bytes[key..value], &self.bytes[value..end]).map_err(failed)?;
        }
        drop(table);
        txn.commit().map_err(failed)
    }
}
