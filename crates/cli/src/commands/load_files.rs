//! Loads CSV and Parquet files into a table. If the table does not exist, it is made with the columns of the first
//! file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use lode_sql::{Session, StatementResult};

use crate::error::{CliError, CliResult};
use crate::interrupt;

/// The format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// Apache Parquet.
    Parquet,
}

/// Loads the files in order, each in one commit, and returns the number of rows. If a file fails, a table that was
/// made for the load is dropped again.
pub(crate) async fn load(
    session: &Arc<Session>,
    kind: FileFormat,
    table: &str,
    paths: &[PathBuf],
) -> CliResult<u64> {
    // A missing file is reported before anything is loaded.
    for path in paths {
        File::open(path).map_err(|e| CliError::file(path, e))?;
    }
    let name = identifier(table);
    let known = session.database().snapshot()?.table(&folded(table)).is_some();
    if !known {
        let schema = schema(kind, &paths[0])?;
        session.execute(&create_table(&name, &schema, &paths[0])?).await?;
    }
    let mut rows = 0;
    for path in paths {
        match copy(session, kind, &name, path).await {
            Ok(n) => rows += n,
            Err(e) => {
                if !known {
                    // The first error is the one to report, so an error of this statement is ignored.
                    let _ = session.execute(&format!("DROP TABLE {name}")).await;
                }
                return Err(e);
            }
        }
    }
    Ok(rows)
}

async fn copy(session: &Arc<Session>, kind: FileFormat, table: &str, path: &Path) -> CliResult<u64> {
    let text = path.to_str().ok_or_else(|| CliError::file(path, "the name is not UTF-8"))?;
    let options = match kind {
        FileFormat::Csv => "FORMAT csv, HEADER true",
        FileFormat::Parquet => "FORMAT parquet",
    };
    let sql = format!("COPY {table} FROM '{}' ({options})", text.replace('\'', "''"));
    let session = Arc::clone(session);
    let results = interrupt::until_signal(async move { Ok(session.execute(&sql).await?) }).await?;
    Ok(match results.last() {
        Some(StatementResult::Count { rows, .. }) => *rows,
        _ => 0,
    })
}

/// The columns of a file.
fn schema(kind: FileFormat, path: &Path) -> CliResult<Schema> {
    let file = File::open(path).map_err(|e| CliError::file(path, e))?;
    match kind {
        FileFormat::Csv => {
            // The types are inferred from all rows. Types from the first thousand rows could refuse a good file.
            let (schema, _) = Format::default()
                .with_header(true)
                .infer_schema(file, None)
                .map_err(|e| CliError::file(path, e))?;
            Ok(schema)
        }
        FileFormat::Parquet => {
            let reader =
                ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| CliError::file(path, e))?;
            Ok(reader.schema().as_ref().clone())
        }
    }
}

fn create_table(name: &str, schema: &Schema, path: &Path) -> CliResult<String> {
    if schema.fields().is_empty() {
        return Err(CliError::file(path, "it has no columns"));
    }
    let columns = schema
        .fields()
        .iter()
        .map(|f| {
            let ty = sql_type(f.data_type()).ok_or_else(|| {
                CliError::file(
                    path,
                    format!("column {} has the type {}, which Lode lacks", f.name(), f.data_type()),
                )
            })?;
            let null = if f.is_nullable() { "" } else { " NOT NULL" };
            Ok(format!("{} {ty}{null}", quoted(&f.name().to_lowercase())))
        })
        .collect::<CliResult<Vec<_>>>()?;
    Ok(format!("CREATE TABLE {name} ({})", columns.join(", ")))
}

/// The SQL type for the values of a file's column.
fn sql_type(t: &DataType) -> Option<String> {
    Some(match t {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "SMALLINT".into(),
        DataType::Int32 | DataType::UInt16 => "INTEGER".into(),
        DataType::Int64 | DataType::UInt32 => "BIGINT".into(),
        DataType::UInt64 => "DECIMAL(20,0)".into(),
        DataType::Float16 | DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) if *s >= 0 => {
            format!("DECIMAL({p},{s})")
        }
        DataType::Date32 => "DATE".into(),
        DataType::Timestamp(_, _) | DataType::Date64 => "TIMESTAMP".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "TEXT".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BYTEA".into()
        }
        DataType::Dictionary(_, value) => return sql_type(value),
        _ => return None,
    })
}

/// The name of a table in the catalog: in lower case, unless it was given in quotes.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(exact) => exact.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// The name of a table as SQL text.
fn identifier(name: &str) -> String {
    quoted(&folded(name))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn a_table_has_the_columns_of_its_file() {
        let schema = Schema::new(vec![
            Field::new("Id", DataType::Int64, false),
            Field::new("a \"b\"", DataType::Utf8, true),
            Field::new("d", DataType::Decimal128(12, 3), true),
        ]);
        let sql = create_table(&identifier("Trips"), &schema, Path::new("x")).unwrap();
        let expected =
            "CREATE TABLE \"trips\" (\"id\" BIGINT NOT NULL, \"a \"\"b\"\"\" TEXT, \"d\" DECIMAL(12,3))";
        assert_eq!(sql, expected);
        let odd = Schema::new(vec![Field::new(
            "d",
            DataType::Duration(datafusion::arrow::datatypes::TimeUnit::Second),
            true,
        )]);
        assert!(create_table("t", &odd, Path::new("x.parquet")).is_err());
    }
}
