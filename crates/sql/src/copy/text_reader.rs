//! PostgreSQL's text format, split into fields.
//!
//! ```text
//!   1 ⇥ a\tb ⇥ \N        ─►  "1", "a⇥b", NULL
//!   \.                   ─►  the end
//! ```
//!
//! A backslash before a line break makes it part of the value.

use std::io::BufRead;

use super::csv_reader::{CsvError, RECORD_BYTES_MAX, Records, check_fields, malformed, wrong_count};
use super::format::LineFormat;

/// Splits rows in the text format.
pub(super) struct TextReader<R> {
    input: R,
    delimiter: u8,
    null: Vec<u8>,
    /// The line of the next row.
    line: u64,
    ended: bool,
    row: Vec<u8>,
}

impl<R: BufRead> TextReader<R> {
    pub(super) fn new(input: R, format: &LineFormat) -> Self {
        let null = format.null.clone().into_bytes();
        Self { input, delimiter: format.delimiter, null, line: 1, ended: false, row: Vec::new() }
    }

    /// Reads up to `rows_max` rows of `fields` fields each into `records`; none at the end. What is not NULL counts as
    /// quoted.
    pub(super) fn read(
        &mut self,
        fields: usize,
        rows_max: usize,
        records: &mut Records,
    ) -> Result<(), CsvError> {
        records.clear();
        while records.lines.len() < rows_max && self.next_row(fields, records)? {
            let row = std::mem::take(&mut self.row);
            self.split(&row, fields, records)?;
            self.row = row;
        }
        Ok(())
    }

    /// Reads the next row, without its line break. False at the end.
    fn next_row(&mut self, fields: usize, records: &mut Records) -> Result<bool, CsvError> {
        self.row.clear();
        let first = self.line;
        while !self.ended {
            let before = self.row.len();
            if self.input.read_until(b'\n', &mut self.row).map_err(CsvError::Io)? == 0 {
                self.ended = true;
                if before == 0 {
                    return Ok(false);
                }
                break;
            }
            self.line += 1;
            if self.row.pop_if(|b| *b == b'\n').is_some() {
                self.row.pop_if(|b| *b == b'\r');
            }
            if self.row == b"\\." {
                self.ended = true;
                return Ok(false);
            }
            if self.row.len() > RECORD_BYTES_MAX {
                records.lines.push(first);
                return Err(malformed(first, fields, records, "a row of more than 64 MB"));
            }
            let escapes = self.row.iter().rev().take_while(|b| **b == b'\\').count();
            if escapes % 2 == 0 {
                break;
            }
            self.row.push(b'\n');
        }
        if self.ended && self.row.is_empty() {
            return Ok(false);
        }
        records.lines.push(first);
        Ok(true)
    }

    fn split(&self, row: &[u8], fields: usize, records: &mut Records) -> Result<(), CsvError> {
        let mut at = 0;
        loop {
            let start = at;
            let from = records.bytes.len();
            while at < row.len() && row[at] != self.delimiter {
                at = unescape(row, at, &mut records.bytes);
            }
            let is_null = row[start..at] == *self.null;
            if is_null {
                records.bytes.truncate(from);
                records.bytes.extend_from_slice(&self.null);
            }
            records.ends.push(records.bytes.len());
            records.quoted.push(!is_null);
            if at >= row.len() {
                return check_fields(fields, records);
            }
            if records.ends.len() == records.lines.len() * fields {
                return Err(wrong_count(fields, records, "more"));
            }
            at += 1;
        }
    }
}

/// Appends the character at `at`, which a backslash may escape. Returns where the next one is.
fn unescape(row: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let Some(&escaped) = row.get(at + 1).filter(|_| row[at] == b'\\') else {
        out.push(row[at]);
        return at + 1;
    };
    let run = |from: usize, digits_max: usize, radix: u32| {
        let digits = row[from..].iter().take(digits_max).map_while(|b| char::from(*b).to_digit(radix));
        digits.fold((0u32, from), |(value, at), digit| (value * radix + digit, at + 1))
    };
    let (byte, next) = match escaped {
        b'b' => (8, at + 2),
        b'f' => (12, at + 2),
        b'n' => (b'\n', at + 2),
        b'r' => (b'\r', at + 2),
        b't' => (b'\t', at + 2),
        b'v' => (11, at + 2),
        b'0'..=b'7' => {
            let (value, next) = run(at + 1, 3, 8);
            ((value & 0xff) as u8, next)
        }
        b'x' => match run(at + 2, 2, 16) {
            (_, next) if next == at + 2 => (b'x', next),
            (value, next) => (value as u8, next),
        },
        other => (other, at + 2),
    };
    out.push(byte);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, fields: usize) -> Result<Vec<String>, String> {
        let mut reader = TextReader::new(text.as_bytes(), &LineFormat::text());
        let (mut records, mut out) = (Records::default(), Vec::new());
        loop {
            reader.read(fields, 2, &mut records).map_err(|e| match e {
                CsvError::Io(e) => e.to_string(),
                CsvError::Malformed { line, field, message } => format!("{line}:{field}: {message}"),
            })?;
            if records.lines.is_empty() {
                return Ok(out);
            }
            for (r, line) in records.lines.iter().enumerate() {
                let texts = (0..fields).map(|f| match records.field(r * fields + f) {
                    (_, false) => "NULL".to_owned(),
                    (bytes, true) => String::from_utf8_lossy(bytes).into_owned(),
                });
                out.push(format!("{line}: {}", texts.collect::<Vec<_>>().join("|")));
            }
        }
    }

    #[test]
    fn rows_are_split_and_unescaped() {
        let check = |text: &str, fields, expected: &[&str]| {
            assert_eq!(split(text, fields).unwrap(), expected, "{text:?}");
        };
        check("", 2, &[]);
        check("1\ta\n2\t\\N\n3\t\n", 2, &["1: 1|a", "2: 2|NULL", "3: 3|"]);
        check("1\t\\\\N\n", 2, &["1: 1|\\N"]);
        check("a\\tb\\n\\x41\\101\\q\t\\\\\r\n", 2, &["1: a\tb\nAAq|\\"]);
        check("a\\\nb\tc\nd\te", 2, &["1: a\nb|c", "3: d|e"]);
        check("1\t2\n\\.\n3\t4\n", 2, &["1: 1|2"]);
        check("a\n\nb\n", 1, &["1: a", "2: ", "3: b"]);
    }

    #[test]
    fn malformed_lines_are_named() {
        assert_eq!(split("a\tb\nc\n", 2).unwrap_err(), "2:1: the line has 1 of 2 values");
        assert_eq!(split("a\tb\nc\td\te\n", 2).unwrap_err(), "2:2: the line has more than 2 values");
        assert_eq!(split("\n", 2).unwrap_err(), "1:1: the line has 1 of 2 values");
    }
}
