//! The behaviour of SQL, in `slt/*.slt` (sqllogictest). Each file runs on a new drive at each offload level, with the
//! same answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions, SqlError, StatementResult};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

const DRIVE_BYTES: u64 = 256 << 20;
const LEVELS: [Offload; 5] = [Offload::Off, Offload::Index, Offload::Pages, Offload::Rows, Offload::Auto];

/// A session on a drive in memory, as a database of sqllogictest.
struct Lode(Session);

impl Lode {
    fn new(offload: Offload) -> Result<Self, SqlError> {
        let drive = Drive::in_memory(DRIVE_BYTES);
        let db = Database::open(Arc::new(drive), DatabaseOptions::default())?;
        let options = SessionOptions { target_partitions: 2, offload, ..SessionOptions::default() };
        Ok(Self(Queries::new(db, 1 << 30).and_then(|q| q.session(&options))?))
    }
}

#[async_trait]
impl AsyncDB for Lode {
    type Error = SqlError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, SqlError> {
        let Some(result) = self.0.execute(sql).await?.pop() else {
            return Ok(DBOutput::StatementComplete(0));
        };
        let (schema, mut stream) = match result {
            StatementResult::Rows { schema, stream } => (schema, stream),
            StatementResult::Count { rows, .. } => return Ok(DBOutput::StatementComplete(rows)),
            StatementResult::Done { .. } | StatementResult::CopyIn(_) | StatementResult::CopyOut(_) => {
                return Ok(DBOutput::StatementComplete(0));
            }
        };
        let types = schema.fields().iter().map(|f| column_type(f.data_type())).collect();
        let options = FormatOptions::new().with_display_error(false);
        let mut rows = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let formatters = batch
                .columns()
                .iter()
                .map(|a| ArrayFormatter::try_new(a.as_ref(), &options))
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let line = batch.columns().iter().zip(&formatters).map(|(array, formatter)| {
                    let text = formatter.value(row).to_string();
                    match text.as_str() {
                        _ if array.is_null(row) => "NULL".to_owned(),
                        "" => "(empty)".to_owned(),
                        _ => text,
                    }
                });
                rows.push(line.collect());
            }
        }
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "lode"
    }
}

fn column_type(t: &DataType) -> DefaultColumnType {
    match t {
        t if t.is_integer() => DefaultColumnType::Integer,
        t if t.is_numeric() => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Text,
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of tests")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn run_all(offload: Offload) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let only = std::env::var("SLT").unwrap_or_default();
    let mut failures = Vec::new();
    for file in files().into_iter().filter(|f| f.to_string_lossy().contains(&only)) {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let mut runner = Runner::new(|| async { Lode::new(offload) });
        runner.set_var("dir".into(), scratch.path().to_string_lossy().into_owned());
        if let Err(e) = runtime.block_on(runner.run_file_async(&file)) {
            failures.push(format!("offload {offload}: {}", e.display(false)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn answers_with_offload_off() {
    run_all(LEVELS[0]);
}

#[test]
fn answers_with_offload_index() {
    run_all(LEVELS[1]);
}

#[test]
fn answers_with_offload_pages() {
    run_all(LEVELS[2]);
}

#[test]
fn answers_with_offload_rows() {
    run_all(LEVELS[3]);
}

#[test]
fn answers_with_offload_auto() {
    run_all(LEVELS[4]);
}
