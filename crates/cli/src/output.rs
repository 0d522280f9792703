//! Writes the results of statements: as a table for people, or as CSV or JSON for programs.

use std::io::{self, Write};

use clap::ValueEnum;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::JsonArray;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use lode_sql::{SqlError, StatementResult};

use crate::error::{CliError, CliResult};
use crate::table::{TextTable, count};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// An array with an object for each row
    Json,
}

/// Writes a result to standard output and flushes it. A written result is an acknowledgement.
pub(crate) async fn write(result: StatementResult, format: Format) -> CliResult {
    // The lock is not held across awaits, because another thread could not get it.
    let mut out = io::stdout();
    match (result, format) {
        (StatementResult::Rows { schema, stream }, Format::Table) => {
            write_table(&mut out, &schema, stream).await?
        }
        (StatementResult::Rows { schema, stream }, Format::Csv) => {
            write_csv(&mut out, &schema, stream).await?
        }
        (StatementResult::Rows { stream, .. }, Format::Json) => write_json(&mut out, stream).await?,
        // The rows stand alone, so that another COPY can read them.
        (StatementResult::CopyOut(mut copy), _) => {
            while let Some(bytes) = copy.next().await? {
                out.write_all(&bytes)?;
            }
        }
        (StatementResult::Count { verb, rows }, Format::Table) => writeln!(out, "{verb} {rows}")?,
        (StatementResult::Done { verb }, Format::Table) => writeln!(out, "{verb}")?,
        _ => {}
    }
    Ok(out.flush()?)
}

async fn next(stream: &mut SendableRecordBatchStream) -> CliResult<Option<RecordBatch>> {
    match stream.next().await {
        Some(Ok(batch)) => Ok(Some(batch)),
        Some(Err(e)) => Err(failed(e)),
        None => Ok(None),
    }
}

fn failed(e: DataFusionError) -> CliError {
    SqlError::from(e).into()
}

async fn write_table(
    out: &mut impl Write,
    schema: &SchemaRef,
    mut stream: SendableRecordBatchStream,
) -> CliResult {
    let heading = |f: &datafusion::arrow::datatypes::FieldRef| {
        let side = if f.data_type().is_numeric() { ">" } else { "" };
        format!("{side}{}", f.name())
    };
    let headings: Vec<String> = schema.fields().iter().map(heading).collect();
    let mut table = TextTable::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = 0;
    while let Some(batch) = next(&mut stream).await? {
        let formatters = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(arrow)?;
        for row in 0..batch.num_rows() {
            table.row(formatters.iter().map(|f| printable(&f.value(row).to_string())));
        }
        rows += batch.num_rows() as u64;
    }
    let noun = if rows == 1 { "row" } else { "rows" };
    writeln!(out, "{}({} {noun})", table.render(), count(rows))?;
    Ok(())
}

/// Replaces control characters, which would disturb the terminal. Line breaks stay and make the row higher.
fn printable(text: &str) -> String {
    let strange = |c: char| c.is_control() && c != '\n';
    if !text.contains(strange) {
        return text.to_string();
    }
    text.chars().flat_map(|c| if strange(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

async fn write_csv(
    out: &mut impl Write,
    schema: &SchemaRef,
    mut stream: SendableRecordBatchStream,
) -> CliResult {
    let mut line = Vec::new();
    WriterBuilder::new()
        .with_header(true)
        .build(&mut line)
        .write(&RecordBatch::new_empty(schema.clone()))
        .map_err(arrow)?;
    if line.is_empty() {
        // The library's writer writes no header if there was no row.
        let names: Vec<String> = schema.fields().iter().map(|f| csv_field(f.name())).collect();
        line = format!("{}\n", names.join(",")).into_bytes();
    }
    out.write_all(&line)?;
    while let Some(batch) = next(&mut stream).await? {
        line.clear();
        WriterBuilder::new().with_header(false).build(&mut line).write(&batch).map_err(arrow)?;
        out.write_all(&line)?;
    }
    Ok(())
}

fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

async fn write_json(out: &mut impl Write, mut stream: SendableRecordBatchStream) -> CliResult {
    let builder = || datafusion::arrow::json::WriterBuilder::new().with_explicit_nulls(true);
    let mut first = true;
    out.write_all(b"[")?;
    while let Some(batch) = next(&mut stream).await? {
        if batch.num_rows() == 0 {
            continue;
        }
        let mut text = Vec::new();
        let mut writer = builder().build::<_, JsonArray>(&mut text);
        writer.write(&batch).and_then(|()| writer.finish()).map_err(arrow)?;
        drop(writer);
        let rows = text.strip_prefix(b"[").and_then(|t| t.strip_suffix(b"]")).unwrap_or(&text);
        out.write_all(if first { b"\n" } else { b",\n" })?;
        out.write_all(rows)?;
        first = false;
    }
    out.write_all(if first { b"]\n" } else { b"\n]\n" })?;
    Ok(())
}

fn arrow(e: ArrowError) -> CliError {
    failed(DataFusionError::from(e))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;

    fn rows(empty: bool) -> (SchemaRef, SendableRecordBatchStream) {
        let n = Int64Array::from(vec![Some(1), None]);
        let t = StringArray::from(vec!["a\n\"b\"", "c,d"]);
        let batch = RecordBatch::try_from_iter([("n", Arc::new(n) as _), ("t", Arc::new(t) as _)]).unwrap();
        let schema = batch.schema();
        let batches = if empty { vec![] } else { vec![Ok(batch.clone()), Ok(batch)] };
        (schema.clone(), Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches))))
    }

    fn check(format: Format, empty: bool, expected: &str) {
        let (schema, stream) = rows(empty);
        let mut out = Vec::new();
        futures::executor::block_on(async {
            match format {
                Format::Table => write_table(&mut out, &schema, stream).await,
                Format::Csv => write_csv(&mut out, &schema, stream).await,
                Format::Json => write_json(&mut out, stream).await,
            }
        })
        .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn each_format_is_what_its_readers_expect() {
        check(Format::Csv, true, "n,t\n");
        check(Format::Json, true, "[]\n");
        check(Format::Table, true, "n  t\n-  -\n(0 rows)\n");
        let row = "1,\"a\n\"\"b\"\"\"\n,\"c,d\"\n";
        check(Format::Csv, false, &format!("n,t\n{row}{row}"));
        let row = r#"{"n":1,"t":"a\n\"b\""},{"n":null,"t":"c,d"}"#;
        check(Format::Json, false, &format!("[\n{row},\n{row}\n]\n"));
        let row = "   1  a\n      \"b\"\nNULL  c,d\n";
        check(Format::Table, false, &format!("   n  t\n----  ---\n{row}{row}(4 rows)\n"));
    }
}
