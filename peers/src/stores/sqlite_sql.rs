//! SQLite behind the trait of SQL workloads: WAL, a connection per thread, statements prepared once per connection,
//! `BEGIN IMMEDIATE` for transactions that write. A writer that finds another one waits in SQLite's busy handler; where that
//! gives up, the transaction is run again and counted.

use std::path::{Path, PathBuf};

use lode_workload::sql::{Answer, Dialect, Loader, Row, SqlConnection, SqlDatabase, StatementId, Value};
use lode_workload::store::{Intent, StoreError, StoreResult};
use parking_lot::Mutex;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement, ToSql, params_from_iter};

use super::sqlite::open;

/// Megabytes that the write-ahead log gets at the beginning: a little more than it has between two checkpoints.
const LOG_MB: u64 = 72;

/// A database.
pub(crate) struct SqliteSql {
    /// As long as a connection is open, SQLite keeps the file of its log and writes over it. Commits that extend the file
    /// take many times as long on some file systems.
    _held: Mutex<Connection>,
    path: PathBuf,
    cache_bytes: usize,
    /// Whether a commit is durable when it returns.
    durable: bool,
    foreign_keys: bool,
}

impl SqliteSql {
    pub(crate) fn new(
        dir: &Path,
        cache_bytes: usize,
        durable: bool,
        foreign_keys: bool,
    ) -> StoreResult<Self> {
        let path = dir.join("peer.sqlite");
        let held = open(&path, cache_bytes)?;
        let fill = format!(
            "CREATE TABLE filling (b BLOB); BEGIN;
             INSERT INTO filling WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LOG_MB})
             SELECT zeroblob(1048576) FROM n;
             COMMIT; DROP TABLE filling;"
        );
        held.execute_batch(&fill).map_err(failed)?;
        // It answers a row, which does not matter here.
        held.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).map_err(failed)?;
        Ok(Self { _held: Mutex::new(held), path, cache_bytes, durable, foreign_keys })
    }
}

impl SqlDatabase for SqliteSql {
    fn connect(&self) -> StoreResult<Box<dyn SqlConnection + '_>> {
        let connection = open(&self.path, self.cache_bytes)?;
        if !self.durable {
            connection.execute_batch("PRAGMA synchronous = NORMAL").map_err(failed)?;
        }
        let all = SqliteConnection { connection, statements: Vec::new(), foreign_keys: self.foreign_keys };
        all.set_foreign_keys(self.foreign_keys)?;
        Ok(Box::new(all))
    }

    fn dialect(&self) -> &'static Dialect {
        &Dialect::SQLITE
    }
}

struct SqliteConnection {
    connection: Connection,
    /// The texts of prepared statements. The connection keeps them prepared.
    statements: Vec<String>,
    foreign_keys: bool,
}

/// A value as a parameter.
struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Int(n) | Value::Time(n) => ValueRef::Integer(*n),
            Value::Real(n) => ValueRef::Real(*n),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

fn failed(e: rusqlite::Error) -> StoreError {
    match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Conflict,
        _ => StoreError::failed(e),
    }
}

/// Executes a statement.
fn answer(statement: &mut Statement<'_>, params: &[Value]) -> rusqlite::Result<Answer> {
    let params = params_from_iter(params.iter().map(Param));
    let columns = statement.column_count();
    if columns == 0 {
        return Ok(Answer::Count(statement.execute(params)? as u64));
    }
    let mut found = statement.query(params)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push((0..columns).map(|at| value(row.get_ref(at)?)).collect::<rusqlite::Result<Row>>()?);
    }
    Ok(Answer::Rows(rows))
}

fn value(of: ValueRef<'_>) -> rusqlite::Result<Value> {
    Ok(match of {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => Value::Int(n),
        ValueRef::Real(n) => Value::Real(n),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(_) => return Err(rusqlite::Error::InvalidQuery),
    })
}

impl SqliteConnection {
    fn set_foreign_keys(&self, on: bool) -> StoreResult {
        let value = if on { "ON" } else { "OFF" };
        self.connection.execute_batch(&format!("PRAGMA foreign_keys = {value}")).map_err(failed)
    }

    fn control(&self, sql: &str) -> StoreResult {
        self.connection.prepare_cached(sql).and_then(|mut s| s.execute([])).map_err(failed)?;
        Ok(())
    }
}

impl SqlConnection for SqliteConnection {
    fn prepare(&mut self, sql: &str) -> StoreResult<StatementId> {
        // SQLite numbers parameters with `?1`.
        let sql = sql.replace('$', "?");
        self.connection.prepare_cached(&sql).map_err(failed)?;
        self.statements.push(sql);
        Ok(StatementId(self.statements.len() - 1))
    }

    fn execute(&mut self, statement: StatementId, params: &[Value]) -> StoreResult<Answer> {
        let sql = &self.statements[statement.0];
        self.connection.prepare_cached(sql).and_then(|mut s| answer(&mut s, params)).map_err(failed)
    }

    fn execute_text(&mut self, sql: &str) -> StoreResult<Answer> {
        self.connection.prepare(sql).and_then(|mut s| answer(&mut s, &[])).map_err(failed)
    }

    fn begin(&mut self, intent: Intent) -> StoreResult {
        self.control(match intent {
            Intent::Read => "BEGIN",
            Intent::Write => "BEGIN IMMEDIATE",
        })
    }

    fn commit(&mut self) -> StoreResult {
        let committed = self.control("COMMIT");
        if committed.is_err() {
            self.rollback()?;
        }
        committed
    }

    fn rollback(&mut self) -> StoreResult {
        // Some errors have ended the transaction already.
        if self.connection.is_autocommit() { Ok(()) } else { self.control("ROLLBACK") }
    }

    fn loader(&mut self, _: &[&'static str]) -> StoreResult<Box<dyn Loader + '_>> {
        // The rows of a table to which others refer may come later.
        self.set_foreign_keys(false)?;
        self.begin(Intent::Write)?;
        Ok(Box::new(Rows(self)))
    }
}

/// A load: prepared inserts in one transaction.
struct Rows<'a>(&'a mut SqliteConnection);

impl Loader for Rows<'_> {
    fn add(&mut self, table: &'static str, row: &[Value]) -> StoreResult {
        let params = vec!["?"; row.len()].join(", ");
        let sql = format!("INSERT INTO {table} VALUES ({params})");
        self.0.connection.prepare_cached(&sql).and_then(|mut s| answer(&mut s, row)).map_err(failed)?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> StoreResult {
        self.0.commit()?;
        self.0.set_foreign_keys(self.0.foreign_keys)
    }
}
