//! Rows as CSV, which COPY FROM reads back as the same rows: NULL is an empty field, the empty text is `""`.

use std::io::Write;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::format::CsvFormat;

/// Writes batches as CSV.
pub(super) struct CsvWriter<W> {
    output: W,
    format: CsvFormat,
    line: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// A writer that has written the header, if the format has one.
    pub(super) fn new(mut output: W, format: CsvFormat, schema: &Schema) -> std::io::Result<Self> {
        if format.header {
            let mut line = Vec::new();
            for (i, field) in schema.fields().iter().enumerate() {
                if i > 0 {
                    line.push(format.delimiter);
                }
                push_field(&mut line, field.name(), &format);
            }
            line.push(b'\n');
            output.write_all(&line)?;
        }
        Ok(Self { output, format, line: Vec::new() })
    }

    /// Writes the rows of `batch`.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let options = FormatOptions::new().with_display_error(false);
        let columns = batch
            .columns()
            .iter()
            .map(|array| {
                let is_bytes = matches!(
                    array.data_type(),
                    DataType::Binary
                        | DataType::LargeBinary
                        | DataType::BinaryView
                        | DataType::FixedSizeBinary(_)
                );
                Ok((array, ArrayFormatter::try_new(array.as_ref(), &options)?, is_bytes))
            })
            .collect::<Result<Vec<_>, ArrowError>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (i, (array, formatter, is_bytes)) in columns.iter().enumerate() {
                if i > 0 {
                    self.line.push(self.format.delimiter);
                }
                if array.is_null(row) {
                    self.line.extend_from_slice(self.format.null.as_bytes());
                    continue;
                }
                text.clear();
                if *is_bytes {
                    text.push_str("\\x");
                }
                formatter.value(row).write(&mut text)?;
                push_field(&mut self.line, &text, &self.format);
            }
            self.line.push(b'\n');
            self.output.write_all(&self.line)?;
        }
        Ok(())
    }

    /// The output, with everything written.
    pub(super) fn into_inner(self) -> W {
        self.output
    }
}

/// Quotes what would otherwise be read as something else.
fn push_field(line: &mut Vec<u8>, text: &str, format: &CsvFormat) {
    let special = |b: u8| b == format.delimiter || b == format.quote || b == b'\n' || b == b'\r';
    if text != format.null && !text.is_empty() && !text.bytes().any(special) {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(format.quote);
    for b in text.bytes() {
        if b == format.quote {
            line.push(b);
        }
        line.push(b);
    }
    line.push(format.quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, BinaryArray, Int32Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn values_are_quoted_where_they_must_be() {
        let columns: [(&str, ArrayRef); 3] = [
            ("a", Arc::new(Int32Array::from(vec![Some(1), None, Some(-3)]))),
            ("b,c", Arc::new(StringArray::from(vec![Some("x\"y"), Some(""), None]))),
            ("d", Arc::new(BinaryArray::from(vec![Some(&[0u8, 255][..]), None, Some(&[])]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let format = CsvFormat { header: true, ..CsvFormat::default() };
        let mut writer = CsvWriter::new(Vec::new(), format, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let text = String::from_utf8(writer.into_inner()).unwrap();
        assert_eq!(text, "a,\"b,c\",d\n1,\"x\"\"y\",\\x00ff\n,\"\",\n-3,,\\x\n");
    }
}
