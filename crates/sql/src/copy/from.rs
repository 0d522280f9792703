//! COPY FROM: a file's rows are read on one thread and loaded on another. All of them are loaded, or none.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, new_null_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::sql::sqlparser::ast::ObjectName;
use lode_engine::{Snapshot, Table};

use super::defaults::{nullable, with_defaults};
use super::format::{Format, LineFormat};
use super::line_rows::{LineRows, Lines, lines_of};
use crate::arrow_convert::arrow_type;
use crate::copy_stream::CopyIn;
use crate::dml::{Change, Checks, Unfit, column_numbers, load, to_array};
use crate::error::state;
use crate::statement::table_name;
use crate::threads::blocking;
use crate::transaction::StatementTxn;
use crate::types::arrow_schema;
use crate::{Session, SqlError};

/// Batches that wait between the reader and the loader.
const WAITING_BATCHES: usize = 2;

/// A load that is about to begin.
struct Load {
    work: StatementTxn,
    snapshot: Snapshot,
    table: Arc<Table>,
    columns: Vec<u16>,
}

impl Load {
    async fn begin(session: &Session, name: &ObjectName, columns: &[String]) -> Result<Self, SqlError> {
        let Change { work, snapshot, table } = Change::begin(session, &table_name(name)?).await?;
        let numbers = if columns.is_empty() {
            (0..table.def().columns.len() as u16).collect()
        } else {
            column_numbers(&table, columns)?
        };
        if let Some(i) = (1..numbers.len()).find(|&i| numbers[..i].contains(&numbers[i])) {
            return Err(SqlError::ColumnTwice { column: columns[i].clone(), how: "named" });
        }
        Ok(Self { work, snapshot, table, columns: numbers })
    }

    async fn run(self, session: &Session, source: Source) -> Result<u64, SqlError> {
        let Self { work, snapshot, table, columns } = self;
        let schema = nullable(&arrow_schema(table.def()));
        let mut rows = open(source, table.clone(), schema.clone(), columns.clone()).await?;
        let mut builder = RecordBatchReceiverStreamBuilder::new(schema, WAITING_BATCHES);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            while let Some(batch) = rows.next_batch()? {
                // The receiver is gone if the load failed or was cancelled.
                if sender.blocking_send(Ok(batch)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        let def = Arc::new(table.def().clone());
        let checks = Checks::of(&session.state(), &def)?;
        let rows = with_defaults(session, snapshot, &def, &columns, builder.build()).await?;
        let (work, rows) = load(&session.state(), work, def, checks, rows).await?;
        blocking(move || work.finish()).await?;
        Ok(rows)
    }
}

/// Where the rows come from.
enum Source {
    File(PathBuf, Format),
    Stream(Lines, LineFormat),
}

/// Loads a file into a table. Returns the number of rows.
pub(super) async fn copy_from(
    session: &Session,
    name: &ObjectName,
    columns: &[String],
    path: PathBuf,
    format: Format,
) -> Result<u64, SqlError> {
    let load = Load::begin(session, name, columns).await?;
    load.run(session, Source::File(path, format)).await
}

/// Begins to load the rows that the caller hands over.
pub(super) async fn copy_in(
    session: &Session,
    name: &ObjectName,
    columns: &[String],
    format: LineFormat,
) -> Result<CopyIn, SqlError> {
    let load = Load::begin(session, name, columns).await?;
    let session = session.clone();
    Ok(CopyIn::new(load.columns.len(), move |pieces| {
        let source = Source::Stream(Box::new(pieces), format);
        tokio::spawn(async move { load.run(&session, source).await })
    }))
}

/// The rows of a file as batches of a table's columns.
enum FileRows {
    Lines(Box<LineRows>),
    Parquet(Box<ParquetRows>),
}

async fn open(
    source: Source,
    table: Arc<Table>,
    schema: SchemaRef,
    columns: Vec<u16>,
) -> Result<FileRows, SqlError> {
    let lines = |name: String, lines: Lines, format: &LineFormat, table, schema, columns| {
        let rows = LineRows::new(name, lines, format, table, schema, columns)?;
        Ok(FileRows::Lines(Box::new(rows)))
    };
    blocking(move || match source {
        Source::File(path, Format::Lines(format)) => {
            lines(path.display().to_string(), lines_of(&path)?, &format, table, schema, columns)
        }
        Source::File(path, Format::Parquet) => {
            Ok(FileRows::Parquet(Box::new(ParquetRows::open(&path, table, schema, &columns)?)))
        }
        Source::Stream(pieces, format) => {
            lines("standard input".into(), pieces, &format, table, schema, columns)
        }
    })
    .await
}

impl FileRows {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        match self {
            Self::Lines(rows) => rows.next_batch(),
            Self::Parquet(rows) => rows.next_batch(),
        }
    }
}

fn bad_file(path: impl AsRef<Path>, error: impl std::fmt::Display) -> SqlError {
    SqlError::file(state::BAD_COPY_FILE_FORMAT, path, error)
}

/// A Parquet file whose columns are matched by name.
struct ParquetRows {
    path: String,
    table: Arc<Table>,
    schema: SchemaRef,
    /// For each column of the table, the column of the file; `None` if it is left NULL.
    sources: Vec<Option<usize>>,
    reader: ParquetRecordBatchReader,
    row: u64,
}

impl ParquetRows {
    fn open(path: &Path, table: Arc<Table>, schema: SchemaRef, columns: &[u16]) -> Result<Self, SqlError> {
        let file = File::open(path).map_err(|e| SqlError::io(path, &e))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| bad_file(path, e))?;
        let fields = builder.schema().clone();
        if fields.fields().len() != columns.len() {
            let message =
                format!("the file has {} columns, COPY takes {}", fields.fields().len(), columns.len());
            return Err(bad_file(path, message));
        }
        let mut sources = vec![None; table.def().columns.len()];
        for &c in columns {
            let name = &table.def().columns[usize::from(c)].name;
            let at = fields.fields().iter().position(|f| f.name() == name);
            let at = at.ok_or_else(|| bad_file(path, format!("the file has no column \"{name}\"")))?;
            sources[usize::from(c)] = Some(at);
        }
        let reader = builder.build().map_err(|e| bad_file(path, e))?;
        Ok(Self { path: path.display().to_string(), table, schema, sources, reader, row: 0 })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        let Some(batch) = self.reader.next() else { return Ok(None) };
        let batch = batch.map_err(|e| bad_file(&self.path, e))?;
        let mut arrays = Vec::with_capacity(self.sources.len());
        for (c, source) in self.sources.iter().enumerate() {
            let def = &self.table.def().columns[c];
            arrays.push(match source {
                None => new_null_array(&arrow_type(def.ty.data_type), batch.num_rows()),
                Some(i) => to_array(self.table.def(), c as u16, batch.column(*i)).map_err(
                    |Unfit { row, state, message }| SqlError::Malformed {
                        table: self.table.name().to_owned(),
                        state,
                        path: self.path.clone(),
                        line: self.row + row as u64 + 1,
                        column: def.name.clone(),
                        message,
                    },
                )?,
            });
        }
        self.row += batch.num_rows() as u64;
        Ok(Some(RecordBatch::try_new(self.schema.clone(), arrays)?))
    }
}
