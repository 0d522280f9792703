//! Lines of CSV or text as typed columns. A value that its column cannot hold is named with its line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, BinaryViewBuilder, RecordBatch, StringBuilder, StringViewBuilder, new_null_array,
};
use datafusion::arrow::datatypes::{DataType as Arrow, SchemaRef};
use lode_engine::{ColumnDef, Table};
use lode_page::DataType;

use super::csv_reader::{CsvError, CsvReader, Records};
use super::format::LineFormat;
use super::text_reader::TextReader;
use crate::SqlError;
use crate::arrow_convert::arrow_type;
use crate::error::state;
use crate::semantics::{cast_or_null, unfit};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// Characters of a value that a message shows.
const SHOWN_CHARS: usize = 40;

/// The rows of a file or a stream as batches of a table's columns.
pub(super) struct LineRows {
    path: String,
    table: Arc<Table>,
    schema: SchemaRef,
    /// The table's column that each field is for.
    columns: Vec<u16>,
    null: String,
    reader: Reader,
    records: Records,
}

/// Where the lines come from.
pub(super) type Lines = Box<dyn BufRead + Send>;

enum Reader {
    Csv(CsvReader<Lines>),
    Text(TextReader<Lines>),
}

/// The lines of a file.
pub(super) fn lines_of(path: &Path) -> Result<Lines, SqlError> {
    let file = File::open(path).map_err(|e| SqlError::io(path, &e))?;
    Ok(Box::new(BufReader::with_capacity(1 << 18, file)))
}

impl LineRows {
    /// The rows of `lines`, whose fields are for `columns` of `table`. A header is skipped. `name` is for messages.
    pub(super) fn new(
        name: String,
        lines: Lines,
        format: &LineFormat,
        table: Arc<Table>,
        schema: SchemaRef,
        columns: Vec<u16>,
    ) -> Result<Self, SqlError> {
        let reader = match format.quotes {
            Some(quotes) => Reader::Csv(CsvReader::new(lines, format, quotes)),
            None => Reader::Text(TextReader::new(lines, format)),
        };
        let records = Records::default();
        let mut rows =
            Self { path: name, table, schema, columns, null: format.null.clone(), reader, records };
        if format.header {
            rows.read(1)?;
        }
        Ok(rows)
    }

    /// The next batch, or `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        self.read(BATCH_ROWS)?;
        let rows = self.records.lines.len();
        if rows == 0 {
            return Ok(None);
        }
        let mut arrays = Vec::with_capacity(self.table.def().columns.len());
        for (c, def) in self.table.def().columns.iter().enumerate() {
            match self.columns.iter().position(|&column| usize::from(column) == c) {
                Some(field) => arrays.push(self.column(field, def)?),
                None => arrays.push(new_null_array(&arrow_type(def.ty.data_type), rows)),
            }
        }
        Ok(Some(RecordBatch::try_new(self.schema.clone(), arrays)?))
    }

    fn read(&mut self, rows_max: usize) -> Result<(), SqlError> {
        let fields = self.columns.len();
        let read = match &mut self.reader {
            Reader::Csv(reader) => reader.read(fields, rows_max, &mut self.records),
            Reader::Text(reader) => reader.read(fields, rows_max, &mut self.records),
        };
        read.map_err(|e| match e {
            CsvError::Io(e) => match e.downcast::<SqlError>() {
                Ok(e) => e,
                Err(e) => SqlError::io(&self.path, &e),
            },
            CsvError::Malformed { line, field, message } => {
                let column = match self.columns.get(field) {
                    Some(&c) => self.table.def().columns[usize::from(c)].name.clone(),
                    None => (field + 1).to_string(),
                };
                let (state, path) = (state::BAD_COPY_FILE_FORMAT, self.path.clone());
                let table = self.table.name().to_owned();
                SqlError::Malformed { table, state, path, line, column, message }
            }
        })
    }

    /// Field `field` of every record, as a column of `def`'s type.
    fn column(&self, field: usize, def: &ColumnDef) -> Result<ArrayRef, SqlError> {
        match def.ty.data_type {
            DataType::Text => self.text(field, def),
            DataType::Bytea => self.bytea(field, def),
            other => self.cast(field, def, &arrow_type(other)),
        }
    }

    fn text(&self, field: usize, def: &ColumnDef) -> Result<ArrayRef, SqlError> {
        let mut builder = StringViewBuilder::with_capacity(self.records.lines.len());
        for r in 0..self.records.lines.len() {
            let value = self.value(r, field, def)?;
            if let (Some(text), Some(max)) = (value, def.max_chars)
                && text.len() > max as usize
                && text.chars().count() > max as usize
            {
                let message = format!("{} is longer than {}", shown(text), def.declared);
                return Err(self.malformed(r, def, state::STRING_DATA_RIGHT_TRUNCATION, message));
            }
            builder.append_option(value);
        }
        Ok(Arc::new(builder.finish()))
    }

    fn bytea(&self, field: usize, def: &ColumnDef) -> Result<ArrayRef, SqlError> {
        let mut builder = BinaryViewBuilder::with_capacity(self.records.lines.len());
        for r in 0..self.records.lines.len() {
            match self.value(r, field, def)? {
                None => builder.append_null(),
                Some(text) => match unhex(text) {
                    Some(bytes) => builder.append_value(bytes),
                    None => {
                        let message =
                            format!("{} is not of type BYTEA (\\x and hexadecimal digits)", shown(text));
                        return Err(self.malformed(r, def, state::INVALID_TEXT_REPRESENTATION, message));
                    }
                },
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Casts as SQL's CAST does.
    fn cast(&self, field: usize, def: &ColumnDef, to: &Arrow) -> Result<ArrayRef, SqlError> {
        let mut builder = StringBuilder::new();
        for r in 0..self.records.lines.len() {
            builder.append_option(self.value(r, field, def)?);
        }
        let texts: ArrayRef = Arc::new(builder.finish());
        let (values, first_unfit) = cast_or_null(&texts, to)?;
        let Some(row) = first_unfit else { return Ok(values) };
        let state = unfit(&texts, row, to).sqlstate();
        let message =
            format!("{} is not of type {}", shown(texts.as_string::<i32>().value(row)), def.declared);
        Err(self.malformed(row, def, state, message))
    }

    /// The text of a field; `None` for NULL.
    fn value(&self, row: usize, field: usize, def: &ColumnDef) -> Result<Option<&str>, SqlError> {
        let (bytes, quoted) = self.records.field(row * self.columns.len() + field);
        if !quoted && bytes == self.null.as_bytes() {
            if !def.ty.nullable {
                let message = "NULL in a column that is NOT NULL".into();
                return Err(self.malformed(row, def, state::NOT_NULL_VIOLATION, message));
            }
            return Ok(None);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => {
                let message = "the value is not UTF-8".into();
                Err(self.malformed(row, def, state::CHARACTER_NOT_IN_REPERTOIRE, message))
            }
        }
    }

    fn malformed(&self, row: usize, def: &ColumnDef, state: &'static str, message: String) -> SqlError {
        SqlError::Malformed {
            table: self.table.name().to_owned(),
            state,
            path: self.path.clone(),
            line: self.records.lines[row],
            column: def.name.clone(),
            message,
        }
    }
}

/// A value as a message shows it: quoted, on one line, not too long.
pub(super) fn shown(text: &str) -> String {
    let mut start: String = text.chars().take(SHOWN_CHARS).collect();
    if start.len() < text.len() {
        start.push_str("...");
    }
    format!("'{}'", start.escape_debug())
}

/// The bytes of `\x` and hexadecimal digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    if digits.len() % 2 != 0 {
        return None;
    }
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_hexadecimal() {
        assert_eq!(unhex("\\x00fF"), Some(vec![0, 255]));
        assert_eq!(unhex("\\x"), Some(vec![]));
        assert_eq!(unhex("\\x0"), None);
        assert_eq!(unhex("00"), None);
        assert_eq!(unhex("\\xzz"), None);
    }

    #[test]
    fn shown_values_stay_on_one_line() {
        assert_eq!(shown("a\nb"), r"'a\nb'");
        assert_eq!(shown(&"x".repeat(50)).len(), SHOWN_CHARS + 5);
    }
}
