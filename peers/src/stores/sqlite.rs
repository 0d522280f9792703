//! SQLite. Keys are rowids, its fastest kind of key. Statements are prepared once per connection.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lode_workload::store::{KeyValue, Reader, StoreError, StoreResult, WriteBatch};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension};

/// The pages of log between two checkpoints: 64 MiB. With the default of 4 MiB, SQLite would checkpoint every few
/// batches.
const CHECKPOINT_PAGES: u32 = 16_384;
/// The number of prepared statements that a connection keeps.
const STATEMENTS: usize = 64;

pub(super) fn failed(e: rusqlite::Error) -> StoreError {
    StoreError::failed(e)
}

/// Opens a connection whose commits are durable.
pub(super) fn open(path: &Path, cache_bytes: usize) -> StoreResult<Connection> {
    let connection = Connection::open(path).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(Duration::from_secs(60)).map_err(failed)?;
    let (cache_kib, mmap_bytes) = (cache_bytes >> 10, cache_bytes);
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -{cache_kib}; \
             PRAGMA mmap_size = {mmap_bytes}; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; \
             PRAGMA temp_store = MEMORY;"
        ))
        .map_err(failed)?;
    Ok(connection)
}

/// The connections to a database. There is one writer at a time; others wait for a lock instead of retrying.
pub(crate) struct Connections {
    path: PathBuf,
    cache_bytes: usize,
    idle: Mutex<Vec<Connection>>,
    writer: Mutex<()>,
}

impl Connections {
    pub(crate) fn new(dir: &Path, cache_bytes: usize, schema: &str) -> StoreResult<Self> {
        let path = dir.join("peer.sqlite");
        let all = Self { path, cache_bytes, idle: Mutex::default(), writer: Mutex::default() };
        let first = all.take()?;
        first.execute_batch(schema).map_err(failed)?;
        all.give(first);
        Ok(all)
    }

    pub(crate) fn take(&self) -> StoreResult<Connection> {
        if let Some(connection) = self.idle.lock().pop() {
            return Ok(connection);
        }
        open(&self.path, self.cache_bytes)
    }

    pub(crate) fn give(&self, connection: Connection) {
        self.idle.lock().push(connection);
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, ()> {
        self.writer.lock()
    }
}

/// A connection that is returned to the pool when it is dropped.
pub(crate) struct PooledConnection<'a> {
    all: &'a Connections,
    connection: Option<Connection>,
}

impl<'a> PooledConnection<'a> {
    pub(crate) fn new(all: &'a Connections) -> StoreResult<Self> {
        Ok(Self { all, connection: Some(all.take()?) })
    }

    pub(crate) fn get(&self) -> &Connection {
        self.connection.as_ref().expect("it is held")
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.all.give(connection);
        }
    }
}

pub(crate) struct Sqlite(Connections);

impl Sqlite {
    pub(crate) fn new(dir: &Path, cache_bytes: usize) -> StoreResult<Self> {
        let schema = "CREATE TABLE kv (k INTEGER PRIMARY KEY, v BLOB NOT NULL)";
        Ok(Self(Connections::new(dir, cache_bytes, schema)?))
    }
}

fn rowid(key: &[u8]) -> StoreResult<i64> {
    match key {
        [] => Ok(i64::MIN),
        key => Ok(i64::from_be_bytes(key.try_into().map_err(|_| StoreError::Damaged("a key of 8 bytes"))?)),
    }
}

fn get<R>(c: &Connection, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
    let mut statement = c.prepare_cached("SELECT v FROM kv WHERE k = ?").map_err(failed)?;
    let row = |row: &rusqlite::Row<'_>| Ok(f(row.get_ref(0)?.as_blob()?));
    statement.query_row([rowid(key)?], row).optional().map_err(failed)
}

impl KeyValue for Sqlite {
    type Reader<'a> = SqliteReader<'a>;
    type Batch<'a> = SqliteBatch<'a>;

    fn reader(&self) -> StoreResult<SqliteReader<'_>> {
        let held = PooledConnection::new(&self.0)?;
        held.get().execute_batch("BEGIN").map_err(failed)?;
        Ok(SqliteReader(held))
    }

    fn batch(&self) -> StoreResult<SqliteBatch<'_>> {
        let (writer, held) = (self.0.writer(), PooledConnection::new(&self.0)?);
        held.get().prepare_cached("BEGIN IMMEDIATE").map_err(failed)?.execute([]).map_err(failed)?;
        Ok(SqliteBatch { held, _writer: writer })
    }

    fn settle(&self) -> StoreResult {
        Ok(())
    }
}

pub(crate) struct SqliteReader<'a>(PooledConnection<'a>);

impl Reader for SqliteReader<'_> {
    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        get(self.0.get(), key, f)
    }

    fn scan(&mut self, from: &[u8], mut f: impl FnMut(&[u8], &[u8]) -> bool) -> StoreResult {
        let c = self.0.get();
        let mut statement =
            c.prepare_cached("SELECT k, v FROM kv WHERE k >= ? ORDER BY k").map_err(failed)?;
        let mut rows = statement.query([rowid(from)?]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let key = row.get::<_, i64>(0).map_err(failed)?.to_be_bytes();
            let value = row.get_ref(1).map_err(failed)?.as_blob().map_err(|e| failed(e.into()))?;
            if !f(&key, value) {
                break;
            }
        }
        Ok(())
    }
}

impl Drop for SqliteReader<'_> {
    fn drop(&mut self) {
        // An error here is ignored: if the transaction cannot end, the next one cannot begin and returns the error.
        let _ = self.0.get().execute_batch("COMMIT");
    }
}

pub(crate) struct SqliteBatch<'a> {
    held: PooledConnection<'a>,
    _writer: MutexGuard<'a, ()>,
}

impl WriteBatch for SqliteBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult {
        let sql = "INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
        let mut statement = self.held.get().prepare_cached(sql).map_err(failed)?;
        statement.execute((rowid(key)?, value)).map_err(failed)?;
        Ok(())
    }

    fn get<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        get(self.held.get(), key, f)
    }

    fn commit(self) -> StoreResult {
        self.held.get().prepare_cached("COMMIT").map_err(failed)?.execute([]).map_err(failed)?;
        Ok(())
    }
}
