//! COPY TO: rows into a file that appears whole, or not at all.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, Statement as Sql};
use futures::StreamExt;

use super::Source;
use super::format::{Format, LineFormat};
use super::line_writer::LineWriter;
use crate::copy_stream::CopyOut;
use crate::error::state;
use crate::modifying_with::{self, change_of, modifies};
use crate::statement::{Statement, StatementResult};
use crate::threads::blocking;
use crate::{Session, SqlError, dml};

/// Writes a table or the rows of a query to a file. Returns the number of rows.
pub(super) async fn copy_to(
    session: &Session,
    source: Source,
    path: PathBuf,
    format: Format,
) -> Result<u64, SqlError> {
    let (schema, mut stream) = rows_of(session, source).await?;
    let mut output = blocking(move || Output::create(&path, format, &schema)).await?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        output = blocking(move || output.write(&batch).map(|()| output)).await?;
    }
    blocking(move || output.finish()).await?;
    Ok(rows)
}

/// The rows of a table or a query as bytes.
pub(super) async fn copy_out(
    session: &Session,
    source: Source,
    format: LineFormat,
) -> Result<CopyOut, SqlError> {
    let (schema, stream) = rows_of(session, source).await?;
    let unwritable = |e: &dyn std::fmt::Display| SqlError::failed(state::INTERNAL_ERROR, e.to_string());
    let mut writer = LineWriter::new(Vec::new(), format, &schema).map_err(|e| unwritable(&e))?;
    let header = Bytes::from(std::mem::take(writer.output_mut()));
    let rows = stream.map(move |batch| {
        writer.write(&batch?)?;
        Ok(Bytes::from(std::mem::take(writer.output_mut())))
    });
    let pieces = futures::stream::iter([Ok(header)]).chain(rows);
    let pieces = pieces.filter(|piece| std::future::ready(!matches!(piece, Ok(bytes) if bytes.is_empty())));
    Ok(CopyOut::new(schema.fields().len(), pieces.boxed()))
}

async fn rows_of(
    session: &Session,
    source: Source,
) -> Result<(SchemaRef, SendableRecordBatchStream), SqlError> {
    let query = match source {
        Source::Query(query) => query,
        Source::Table { name, columns } => select(&name, &columns)?,
    };
    let change = change_of(&query);
    let returns = |change: &Sql| match change {
        Sql::Insert(insert) => insert.returning.is_some(),
        Sql::Update(update) => update.returning.is_some(),
        Sql::Delete(delete) => delete.returning.is_some(),
        _ => false,
    };
    if change.is_some_and(|change| !returns(change)) {
        let message = "COPY query must have a RETURNING clause";
        return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
    }
    let result = match change {
        _ if modifies(&query) => modifying_with::run(session, &query).await?,
        Some(change) => dml::change(session, change, query.with.clone()).await?,
        None => {
            let statement = datafusion::sql::parser::Statement::Statement(Box::new(Sql::Query(query)));
            session.query(statement).await?
        }
    };
    match result {
        StatementResult::Rows { schema, stream } => Ok((schema, stream)),
        _ => unreachable!("a query answers rows"),
    }
}

/// `SELECT columns FROM name`.
fn select(name: &ObjectName, columns: &[String]) -> Result<Box<Query>, SqlError> {
    let list: Vec<String> = columns.iter().map(|c| Ident::with_quote('"', c).to_string()).collect();
    let list = if list.is_empty() { "*".to_owned() } else { list.join(", ") };
    let statement = Statement::parse(&format!("SELECT {list} FROM {name}"))?.remove(0);
    match Arc::unwrap_or_clone(statement.parsed) {
        datafusion::sql::parser::Statement::Statement(sql) => match *sql {
            Sql::Query(query) => Ok(query),
            other => unreachable!("{other} is not a query"),
        },
        other => unreachable!("{other} is not a query"),
    }
}

/// A file under way. It is written beside its final place, and moved there once it is whole.
struct Output {
    writer: Option<Writer>,
    written: Written,
}

enum Writer {
    Lines(LineWriter<BufWriter<File>>),
    Parquet(Box<ArrowWriter<File>>),
}

/// Where the bytes go. If this is dropped before the file is published, the unfinished file is removed.
struct Written {
    /// The unfinished file; `None` where the target is written in place (a device, a pipe).
    unfinished: Option<PathBuf>,
    path: PathBuf,
}

impl Output {
    fn create(path: &Path, format: Format, schema: &SchemaRef) -> Result<Self, SqlError> {
        let failed = |e: &dyn std::fmt::Display| unwritable(path, e);
        let in_place = fs::metadata(path).is_ok_and(|m| !m.is_file());
        let (file, unfinished) = if in_place {
            (File::options().write(true).open(path).map_err(|e| SqlError::io(path, &e))?, None)
        } else {
            let name = path.file_name();
            let is_none = || SqlError::file(state::WRONG_OBJECT_TYPE, path, "not the name of a file");
            let name = name.ok_or_else(is_none)?;
            let hidden = format!(".{}.{}.unfinished", name.to_string_lossy(), std::process::id());
            let unfinished = path.with_file_name(hidden);
            (File::create(&unfinished).map_err(|e| SqlError::io(path, &e))?, Some(unfinished))
        };
        // From here on, a failure removes the file.
        let written = Written { unfinished, path: path.to_owned() };
        let writer = match format {
            Format::Lines(lines) => {
                Writer::Lines(LineWriter::new(BufWriter::new(file), lines, schema).map_err(|e| failed(&e))?)
            }
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(|e| failed(&e))?))
            }
        };
        Ok(Self { writer: Some(writer), written })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let path = &self.written.path;
        match self.writer.as_mut().expect("not finished yet") {
            Writer::Lines(writer) => writer.write(batch).map_err(|e| unwritable(path, e)),
            Writer::Parquet(writer) => writer.write(batch).map_err(|e| unwritable(path, e)),
        }
    }

    fn finish(mut self) -> Result<(), SqlError> {
        let path = self.written.path.clone();
        match self.writer.take().expect("not finished yet") {
            Writer::Lines(writer) => writer.into_inner().flush().map_err(|e| SqlError::io(&path, &e))?,
            Writer::Parquet(writer) => {
                writer.close().map_err(|e| unwritable(&path, e))?;
            }
        }
        if let Some(unfinished) = &self.written.unfinished {
            fs::rename(unfinished, &path).map_err(|e| SqlError::io(&path, &e))?;
            self.written.unfinished = None;
        }
        Ok(())
    }
}

fn unwritable(path: &Path, error: impl std::fmt::Display) -> SqlError {
    SqlError::file(state::IO_ERROR, path, error)
}

impl Drop for Written {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            // A file that cannot be removed stays under a name that says that it is unfinished.
            let _ = fs::remove_file(unfinished);
        }
    }
}
