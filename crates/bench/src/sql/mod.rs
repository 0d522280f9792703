//! Lode's SQL behind the trait of workloads.
//!
//! ```text
//!   SqlConnection ─► Session, on a runtime of the connection's thread ─► record batches ─► rows of values
//!   Loader ─► a CSV file for each table ─► COPY
//! ```
//!
//! The crate `workload` does not know DataFusion, so this implementation is here.

pub mod endure;
pub mod modelled_ch;
pub mod report;
mod turns;

use std::fs::File;
use std::future::poll_fn;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;
use futures::TryStreamExt;
use lode_engine::Database;
use lode_sql::{
    Prepared, Queries, Session, SessionOptions, SqlError, Statement, StatementResult, TransactionStatus,
};
use lode_workload::sql::{
    Answer, Dialect, Loader, Row, SqlConnection, SqlDatabase, StatementId, Value, time_text,
};
use lode_workload::store::{Intent, StoreError, StoreResult};
use tokio::runtime::{Builder, Runtime};
use turns::Place;

/// The SQLSTATE of a conflict: running the transaction again may help.
const CONFLICT: &str = "40001";

/// A database of Lode.
#[derive(Clone)]
pub struct LodeSql {
    database: Database,
    queries: Queries,
    /// The directory for files of loads.
    scratch: PathBuf,
    partitions: usize,
    durability: String,
    /// With several agents on a modelled host: the one that the connections are of.
    place: Option<Arc<Place>>,
}

impl LodeSql {
    /// SQL on a database. The operators of all queries have `query_bytes` together. `scratch` is a directory for files
    /// of loads. Statements run on one thread.
    ///
    /// # Errors
    /// When the directory for spilled data cannot be made.
    pub fn new(database: Database, query_bytes: usize, scratch: &Path) -> Result<Self, SqlError> {
        let queries = Queries::new(database.clone(), query_bytes)?;
        let (scratch, durability) = (scratch.into(), "commit".into());
        Ok(Self { database, queries, scratch, partitions: 1, durability, place: None })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The same database, whose queries run on this many threads.
    #[must_use]
    pub fn with_partitions(&self, partitions: usize) -> Self {
        Self { partitions, ..self.clone() }
    }

    /// The same database, whose connections are of an agent. They end its turn after each statement, and where a scan does.
    #[must_use]
    fn with_place(&self, place: Arc<Place>) -> Self {
        Self { place: Some(place), ..self.clone() }
    }

    /// The same database with another durability: a value of `SET lode.durability`.
    #[must_use]
    pub fn with_durability(self, durability: &str) -> Self {
        Self { durability: durability.into(), ..self }
    }
}

impl SqlDatabase for LodeSql {
    fn connect(&self) -> StoreResult<Box<dyn SqlConnection + '_>> {
        let options = SessionOptions {
            target_partitions: self.partitions,
            may_block: true,
            ..SessionOptions::default()
        };
        let session = self.queries.session(&options).map_err(failed)?;
        // A modelled device begins with the general path for all statements.
        session.set_short_statements(true);
        let mut builder = match self.partitions {
            1 => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        let runtime =
            builder.worker_threads(self.partitions).enable_time().build().map_err(StoreError::failed)?;
        let mut connection = LodeConnection {
            session,
            runtime,
            statements: Vec::new(),
            begin_read: parsed("BEGIN READ ONLY")?,
            begin_write: parsed("BEGIN")?,
            commit: parsed("COMMIT")?,
            scratch: &self.scratch,
            place: self.place.as_deref(),
        };
        connection.execute_text(&format!("SET lode.durability = {}", self.durability))?;
        Ok(Box::new(connection))
    }

    fn dialect(&self) -> &'static Dialect {
        &Dialect::LODE
    }
}

fn parsed(sql: &str) -> StoreResult<Statement> {
    let one = Statement::parse(sql).map_err(failed)?.pop();
    one.ok_or(StoreError::Damaged("a text holds no statement"))
}

fn failed(e: SqlError) -> StoreError {
    if e.sqlstate() == CONFLICT { StoreError::Conflict } else { StoreError::failed(e) }
}

struct LodeConnection<'a> {
    session: Session,
    runtime: Runtime,
    statements: Vec<Prepared>,
    begin_read: Statement,
    begin_write: Statement,
    commit: Statement,
    scratch: &'a Path,
    place: Option<&'a Place>,
}

impl LodeConnection<'_> {
    fn control(&self, statement: &Statement) -> StoreResult {
        self.runs(self.session.run(statement)).map_err(failed)?;
        Ok(())
    }

    /// Runs work of a statement, in the turns of the connection's agent.
    fn runs<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(place) = self.place else { return self.runtime.block_on(work) };
        let mut work = pin!(work);
        let did = self.runtime.block_on(poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() && place.host().turn_ended() {
                place.pass();
            }
            polled
        }));
        place.pass();
        did
    }
}

impl SqlConnection for LodeConnection<'_> {
    fn prepare(&mut self, sql: &str) -> StoreResult<StatementId> {
        let prepared = self.runs(self.session.prepare(sql)).map_err(failed)?;
        self.statements.push(prepared);
        Ok(StatementId(self.statements.len() - 1))
    }

    fn execute(&mut self, statement: StatementId, params: &[Value]) -> StoreResult<Answer> {
        let values: Vec<ScalarValue> = params.iter().map(scalar).collect();
        self.runs(async {
            let prepared = &self.statements[statement.0];
            answer(self.session.execute_prepared(prepared, &values).await.map_err(failed)?).await
        })
    }

    fn execute_text(&mut self, sql: &str) -> StoreResult<Answer> {
        self.runs(async {
            let result = self.session.execute(sql).await.map_err(failed)?.pop();
            answer(result.ok_or(StoreError::Damaged("a text holds no statement"))?).await
        })
    }

    fn begin(&mut self, intent: Intent) -> StoreResult {
        self.control(match intent {
            Intent::Read => &self.begin_read,
            Intent::Write => &self.begin_write,
        })
    }

    fn commit(&mut self) -> StoreResult {
        let committed = self.control(&self.commit);
        assert_eq!(self.session.transaction_status(), TransactionStatus::Idle, "COMMIT ends the transaction");
        committed
    }

    fn rollback(&mut self) -> StoreResult {
        self.session.roll_back();
        Ok(())
    }

    fn loader(&mut self, tables: &[&'static str]) -> StoreResult<Box<dyn Loader + '_>> {
        let dir = tempfile::tempdir_in(self.scratch).map_err(StoreError::failed)?;
        let file = |table: &&'static str| {
            let path = dir.path().join(table).with_extension("csv");
            let file = File::create(&path).map_err(StoreError::failed)?;
            Ok(TableFile { table, path, file: BufWriter::new(file) })
        };
        let files = tables.iter().map(file).collect::<StoreResult<_>>()?;
        Ok(Box::new(CsvLoader { connection: self, files, _dir: dir }))
    }
}

/// A value as a parameter. The session converts numbers to the parameter's type.
fn scalar(value: &Value) -> ScalarValue {
    match value {
        Value::Null => ScalarValue::Null,
        Value::Int(n) => ScalarValue::Int64(Some(*n)),
        Value::Real(n) => ScalarValue::Float64(Some(*n)),
        Value::Text(text) => ScalarValue::Utf8(Some(text.clone())),
        Value::Time(us) => ScalarValue::TimestampMicrosecond(Some(*us), None),
    }
}

async fn answer(result: StatementResult) -> StoreResult<Answer> {
    match result {
        StatementResult::Rows { stream, .. } => {
            let batches: Vec<RecordBatch> =
                stream.try_collect().await.map_err(|e| failed(SqlError::from(e)))?;
            let mut rows = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
            batches.iter().try_for_each(|batch| push_rows(batch, &mut rows))?;
            Ok(Answer::Rows(rows))
        }
        StatementResult::Count { rows, .. } => Ok(Answer::Count(rows)),
        StatementResult::Done { .. } => Ok(Answer::Count(0)),
        StatementResult::CopyIn(_) | StatementResult::CopyOut(_) => {
            Err(StoreError::Missing("a result without rows"))
        }
    }
}

fn push_rows(batch: &RecordBatch, rows: &mut Vec<Row>) -> StoreResult {
    let first = rows.len();
    rows.resize_with(first + batch.num_rows(), || Vec::with_capacity(batch.num_columns()));
    for column in batch.columns() {
        for (at, row) in rows[first..].iter_mut().enumerate() {
            row.push(value(column, at)?);
        }
    }
    Ok(())
}

fn value(column: &dyn Array, at: usize) -> StoreResult<Value> {
    if column.is_null(at) {
        return Ok(Value::Null);
    }
    Ok(match column.data_type() {
        DataType::Int16 => Value::Int(column.as_primitive::<Int16Type>().value(at).into()),
        DataType::Int32 => Value::Int(column.as_primitive::<Int32Type>().value(at).into()),
        DataType::Int64 => Value::Int(column.as_primitive::<Int64Type>().value(at)),
        DataType::Float32 => Value::Real(column.as_primitive::<Float32Type>().value(at).into()),
        DataType::Float64 => Value::Real(column.as_primitive::<Float64Type>().value(at)),
        DataType::Decimal128(_, scale) => {
            let digits = column.as_primitive::<Decimal128Type>().value(at);
            match i64::try_from(digits) {
                Ok(n) if *scale == 0 => Value::Int(n),
                _ => Value::Real(digits as f64 / 10f64.powi((*scale).into())),
            }
        }
        DataType::Utf8 => column.as_string::<i32>().value(at).into(),
        DataType::Utf8View => column.as_string_view().value(at).into(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Value::Time(column.as_primitive::<TimestampMicrosecondType>().value(at))
        }
        _ => return Err(StoreError::Damaged("a column has a type that no workload has")),
    })
}

/// A file with the rows of a table.
struct TableFile {
    table: &'static str,
    path: PathBuf,
    file: BufWriter<File>,
}

struct CsvLoader<'a, 'c> {
    connection: &'a mut LodeConnection<'c>,
    files: Vec<TableFile>,
    _dir: tempfile::TempDir,
}

impl Loader for CsvLoader<'_, '_> {
    fn add(&mut self, table: &'static str, row: &[Value]) -> StoreResult {
        let to = self.files.iter_mut().find(|f| f.table == table);
        let to = to.ok_or(StoreError::Missing("a table of the load"))?;
        write_line(&mut to.file, row).map_err(StoreError::failed)
    }

    fn finish(mut self: Box<Self>) -> StoreResult {
        for TableFile { table, path, file } in &mut self.files {
            file.flush().map_err(StoreError::failed)?;
            let path = path.display().to_string().replace('\'', "''");
            self.connection.execute_text(&format!("COPY {table} FROM '{path}' (FORMAT csv)"))?;
        }
        Ok(())
    }
}

/// Writes a line of CSV. NULL is an empty field, and a text is in quotes.
fn write_line(out: &mut impl Write, row: &[Value]) -> std::io::Result<()> {
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match value {
            Value::Null => {}
            Value::Int(n) => write!(out, "{n}")?,
            Value::Real(n) => write!(out, "{n:?}")?,
            Value::Text(text) => write!(out, "\"{}\"", text.replace('"', "\"\""))?,
            Value::Time(us) => out.write_all(time_text(*us).as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_csv() {
        let row = [Value::Null, Value::Int(-1), Value::from("a\"b,c"), Value::from(""), Value::Time(1)];
        let mut out = Vec::new();
        write_line(&mut out, &row).unwrap();
        let expected = ",-1,\"a\"\"b,c\",\"\",1970-01-01 00:00:00.000001\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
