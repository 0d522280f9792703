//! Rows as lines of CSV or of PostgreSQL's text format, which COPY FROM reads back as the same rows.
//!
//! In CSV, NULL is an empty field and the empty text is `""`. In the text format NULL is `\N`. Values are spelled as
//! PostgreSQL's COPY does.

use std::io::Write;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::format::{LineFormat, Quotes};
use crate::semantics::as_copied;

/// Writes batches as lines.
pub(super) struct LineWriter<W> {
    output: W,
    format: LineFormat,
    line: Vec<u8>,
}

impl<W: Write> LineWriter<W> {
    /// A writer that has written the header, if the format has one.
    pub(super) fn new(mut output: W, format: LineFormat, schema: &Schema) -> std::io::Result<Self> {
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
        let spelled = batch.columns().iter().map(|array| Ok(as_copied(array)?));
        let spelled = spelled.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
        let columns = spelled
            .iter()
            .map(|array| ArrayFormatter::try_new(array.as_ref(), &options))
            .collect::<Result<Vec<_>, ArrowError>>()?;
        // A column of nothing but NULL has no bits that say so.
        let nulls: Vec<_> = spelled.iter().map(|array| array.logical_nulls()).collect();
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (i, formatter) in columns.iter().enumerate() {
                if i > 0 {
                    self.line.push(self.format.delimiter);
                }
                if nulls[i].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    self.line.extend_from_slice(self.format.null.as_bytes());
                    continue;
                }
                text.clear();
                formatter.value(row).write(&mut text)?;
                push_field(&mut self.line, &text, &self.format);
            }
            self.line.push(b'\n');
            self.output.write_all(&self.line)?;
        }
        Ok(())
    }

    /// What was written to.
    pub(super) fn output_mut(&mut self) -> &mut W {
        &mut self.output
    }

    /// The output, with everything written.
    pub(super) fn into_inner(self) -> W {
        self.output
    }
}

fn push_field(line: &mut Vec<u8>, text: &str, format: &LineFormat) {
    match format.quotes {
        Some(quotes) => push_quoted(line, text, format, quotes),
        None => push_escaped(line, text, format.delimiter),
    }
}

/// Quotes what would otherwise be read as something else.
fn push_quoted(line: &mut Vec<u8>, text: &str, format: &LineFormat, Quotes { quote, escape }: Quotes) {
    let special = |b: u8| b == format.delimiter || b == quote || b == b'\n' || b == b'\r';
    if text != format.null && !text.bytes().any(special) {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(quote);
    for b in text.bytes() {
        if b == quote || b == escape {
            line.push(escape);
        }
        line.push(b);
    }
    line.push(quote);
}

/// A backslash before what would be read as something else.
fn push_escaped(line: &mut Vec<u8>, text: &str, delimiter: u8) {
    for b in text.bytes() {
        let letter = match b {
            8 => b'b',
            11 => b'v',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            b if b == b'\\' || b == delimiter => b,
            b => {
                line.push(b);
                continue;
            }
        };
        line.extend_from_slice(&[b'\\', letter]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{BinaryArray, BooleanArray, Int32Array, StringArray};

    use super::*;

    fn check(format: LineFormat, expected: &str) {
        let columns: [(&str, ArrayRef); 4] = [
            ("a", Arc::new(Int32Array::from(vec![Some(1), None, Some(-3)]))),
            ("b,c", Arc::new(StringArray::from(vec![Some("x\"y\\\n"), Some(""), None]))),
            ("d", Arc::new(BinaryArray::from(vec![Some(&[0u8, 255][..]), None, Some(&[])]))),
            ("e", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = LineWriter::new(Vec::new(), format, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        assert_eq!(String::from_utf8(writer.into_inner()).unwrap(), expected);
    }

    #[test]
    fn values_are_quoted_where_they_must_be() {
        check(
            LineFormat { header: true, ..LineFormat::csv() },
            "a,\"b,c\",d,e\n1,\"x\"\"y\\\n\",\\x00ff,t\n,\"\",,f\n-3,,\\x,t\n",
        );
        let quotes = Some(Quotes { quote: b'\'', escape: b'\\' });
        check(
            LineFormat { quotes, null: "-".into(), ..LineFormat::csv() },
            "1,'x\"y\\\\\n',\\x00ff,t\n-,,-,f\n-3,-,\\x,t\n",
        );
    }

    #[test]
    fn values_of_the_text_format_are_escaped() {
        check(LineFormat::text(), "1\tx\"y\\\\\\n\t\\\\x00ff\tt\n\\N\t\t\\N\tf\n-3\t\\N\t\\\\x\tt\n");
    }
}
