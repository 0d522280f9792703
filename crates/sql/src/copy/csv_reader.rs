//! CSV, split into fields: RFC 4180 and PostgreSQL's rules, with the line of each record.
//!
//! ```text
//!   bytes ─► records of fields (text, was it quoted) and their lines
//! ```
//!
//! Invariants: all records of a batch have the same number of fields; memory is bounded by the batch's rows and the
//! longest record allowed.

use std::io::BufRead;

use super::format::{LineFormat, Quotes};

/// Most bytes of one record. A longer one most likely has a quote that is never closed.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 20;

/// Why a CSV file cannot be split.
#[derive(Debug)]
pub(super) enum CsvError {
    /// It cannot be read.
    Io(std::io::Error),
    /// It is malformed.
    Malformed {
        /// From 1.
        line: u64,
        /// The field's number, from 0.
        field: usize,
        /// What is wrong.
        message: String,
    },
}

/// Some records. Field `f` of record `r` is number `r * fields + f`.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) bytes: Vec<u8>,
    /// Where each field ends in `bytes`.
    pub(super) ends: Vec<usize>,
    pub(super) quoted: Vec<bool>,
    /// The line that each record begins at, from 1.
    pub(super) lines: Vec<u64>,
}

impl Records {
    /// The bytes of field number `i`, and whether they were quoted.
    pub(super) fn field(&self, i: usize) -> (&[u8], bool) {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        (&self.bytes[start..self.ends[i]], self.quoted[i])
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.quoted.clear();
        self.lines.clear();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ParserState {
    /// Before a record's first byte.
    RecordStart,
    FieldStart,
    Unquoted,
    Quoted,
    /// Behind a quote within a quoted field. The quote ends the field, or is the first of two that stand for one.
    QuoteInQuoted,
    /// Behind an escape, which is not the quote, within a quoted field.
    EscapeInQuoted,
}

/// Splits a CSV file.
pub(super) struct CsvReader<R> {
    input: R,
    delimiter: u8,
    quotes: Quotes,
    /// The line of the next byte.
    line: u64,
    at_start: bool,
}

impl<R: BufRead> CsvReader<R> {
    pub(super) fn new(input: R, format: &LineFormat, quotes: Quotes) -> Self {
        Self { input, delimiter: format.delimiter, quotes, line: 1, at_start: true }
    }

    /// Reads up to `rows_max` records of `fields` fields each into `records`; none at the end of the file. Empty
    /// lines are skipped, unless a record has one field: then an empty line is an empty field.
    pub(super) fn read(
        &mut self,
        fields: usize,
        rows_max: usize,
        records: &mut Records,
    ) -> Result<(), CsvError> {
        records.clear();
        self.skip_byte_order_mark()?;
        let Quotes { quote, escape } = self.quotes;
        let mut state = ParserState::RecordStart;
        let mut quote_line = self.line;
        let mut record_start = 0;
        while records.lines.len() < rows_max || state != ParserState::RecordStart {
            let buffer = self.input.fill_buf().map_err(CsvError::Io)?;
            if buffer.is_empty() {
                return self.finish(fields, state, quote_line, records);
            }
            let mut used = 0;
            for &b in buffer {
                if state == ParserState::RecordStart {
                    if records.lines.len() == rows_max {
                        break;
                    }
                    if fields > 1 && (b == b'\n' || b == b'\r') {
                        used += 1;
                        self.line += u64::from(b == b'\n');
                        continue;
                    }
                    records.lines.push(self.line);
                    record_start = records.bytes.len();
                    state = ParserState::FieldStart;
                }
                used += 1;
                let ends_field = match state {
                    ParserState::FieldStart if b == quote => {
                        (state, quote_line) = (ParserState::Quoted, self.line);
                        false
                    }
                    ParserState::FieldStart | ParserState::Unquoted => {
                        if b == quote {
                            return Err(malformed(
                                self.line,
                                fields,
                                records,
                                "a quote inside an unquoted value",
                            ));
                        }
                        let ends = b == self.delimiter || b == b'\n';
                        if !ends {
                            records.bytes.push(b);
                            state = ParserState::Unquoted;
                        }
                        ends
                    }
                    ParserState::Quoted if b == escape && escape != quote => {
                        state = ParserState::EscapeInQuoted;
                        false
                    }
                    ParserState::EscapeInQuoted => {
                        if b != quote && b != escape {
                            records.bytes.push(escape);
                        }
                        records.bytes.push(b);
                        state = ParserState::Quoted;
                        false
                    }
                    ParserState::Quoted if b == quote => {
                        state = ParserState::QuoteInQuoted;
                        false
                    }
                    ParserState::Quoted => {
                        records.bytes.push(b);
                        false
                    }
                    ParserState::QuoteInQuoted if b == quote && escape == quote => {
                        records.bytes.push(b);
                        state = ParserState::Quoted;
                        false
                    }
                    ParserState::QuoteInQuoted if b == self.delimiter || b == b'\n' => true,
                    ParserState::QuoteInQuoted if b == b'\r' => false,
                    ParserState::QuoteInQuoted => {
                        return Err(malformed(self.line, fields, records, "text behind the closing quote"));
                    }
                    ParserState::RecordStart => unreachable!("a record has begun"),
                };
                if ends_field {
                    let was_quoted = state == ParserState::QuoteInQuoted;
                    if b == b'\n' && !was_quoted && records.bytes.len() > field_start(records) {
                        // \r\n ends a line as \n does.
                        records.bytes.pop_if(|last| *last == b'\r');
                    }
                    records.ends.push(records.bytes.len());
                    records.quoted.push(was_quoted);
                    state = ParserState::FieldStart;
                    if b == b'\n' {
                        check_fields(fields, records)?;
                        state = ParserState::RecordStart;
                    } else if records.ends.len() == records.lines.len() * fields {
                        return Err(wrong_count(fields, records, "more"));
                    }
                }
                self.line += u64::from(b == b'\n');
                if records.bytes.len() - record_start > RECORD_BYTES_MAX && state != ParserState::RecordStart
                {
                    return Err(malformed(quote_line, fields, records, "a record of more than 64 MB"));
                }
            }
            self.input.consume(used);
        }
        Ok(())
    }

    /// Ends the file, whose last record may have no line break.
    fn finish(
        &mut self,
        fields: usize,
        state: ParserState,
        quote_line: u64,
        records: &mut Records,
    ) -> Result<(), CsvError> {
        match state {
            ParserState::RecordStart => return Ok(()),
            ParserState::Quoted | ParserState::EscapeInQuoted => {
                return Err(malformed(quote_line, fields, records, "a quote that is never closed"));
            }
            ParserState::FieldStart | ParserState::Unquoted | ParserState::QuoteInQuoted => {}
        }
        if state != ParserState::QuoteInQuoted && records.bytes.len() > field_start(records) {
            records.bytes.pop_if(|last| *last == b'\r');
        }
        records.ends.push(records.bytes.len());
        records.quoted.push(state == ParserState::QuoteInQuoted);
        check_fields(fields, records)
    }

    fn skip_byte_order_mark(&mut self) -> Result<(), CsvError> {
        if self.at_start {
            self.at_start = false;
            if self.input.fill_buf().map_err(CsvError::Io)?.starts_with(b"\xef\xbb\xbf") {
                self.input.consume(3);
            }
        }
        Ok(())
    }
}

/// Where the field under way begins.
fn field_start(records: &Records) -> usize {
    records.ends.last().copied().unwrap_or(0)
}

pub(super) fn check_fields(fields: usize, records: &Records) -> Result<(), CsvError> {
    if records.ends.len() == records.lines.len() * fields {
        return Ok(());
    }
    Err(wrong_count(fields, records, "fewer"))
}

pub(super) fn wrong_count(fields: usize, records: &Records, which: &str) -> CsvError {
    let line = records.lines.last().copied().unwrap_or(1);
    let found = records.ends.len() + fields - records.lines.len() * fields;
    let message = match which {
        "more" => format!("the line has more than {fields} values"),
        _ => format!("the line has {found} of {fields} values"),
    };
    CsvError::Malformed { line, field: found.min(fields), message }
}

pub(super) fn malformed(line: u64, fields: usize, records: &Records, message: &str) -> CsvError {
    let field = records.ends.len().saturating_sub(records.lines.len().saturating_sub(1) * fields);
    CsvError::Malformed { line, field, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields as text, quoted ones in `<>`, with the line of each record. The input arrives in pieces of `piece`
    /// bytes.
    fn split(text: &str, fields: usize, piece: usize) -> Result<Vec<String>, String> {
        split_with(text, fields, piece, Quotes { quote: b'"', escape: b'"' })
    }

    fn split_with(text: &str, fields: usize, piece: usize, quotes: Quotes) -> Result<Vec<String>, String> {
        let input = std::io::BufReader::with_capacity(piece, text.as_bytes());
        let mut reader = CsvReader::new(input, &LineFormat::csv(), quotes);
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
                let texts: Vec<String> = (0..fields)
                    .map(|f| {
                        let (bytes, quoted) = records.field(r * fields + f);
                        let text = String::from_utf8_lossy(bytes);
                        if quoted { format!("<{text}>") } else { text.into_owned() }
                    })
                    .collect();
                out.push(format!("{line}: {}", texts.join("|")));
            }
        }
    }

    #[test]
    fn records_are_split_however_the_bytes_arrive() {
        let check = |text: &str, fields, expected: &[&str]| {
            for piece in [1, 3, 4096] {
                assert_eq!(split(text, fields, piece.max(3)).unwrap(), expected, "{text:?} in {piece}");
            }
        };
        check("", 2, &[]);
        check("a,b\nc,d\ne,f", 2, &["1: a|b", "2: c|d", "3: e|f"]);
        check("a,b\r\nc,\r\n", 2, &["1: a|b", "2: c|"]);
        check("\"a\",\"\"\n\"x\"\"y\",\"1\n2\"\nz,\n", 2, &["1: <a>|<>", "2: <x\"y>|<1\n2>", "4: z|"]);
        check("\n\na,b\n\n", 2, &["3: a|b"]);
        check("a\n\nb\n", 1, &["1: a", "2: ", "3: b"]);
        check("\u{feff}a,b\n", 2, &["1: a|b"]);
        check("a,b", 2, &["1: a|b"]);
        check("a,", 2, &["1: a|"]);
        check("ä,\"ö\"\n", 2, &["1: ä|<ö>"]);
    }

    #[test]
    fn an_escape_stands_before_a_quote() {
        let quotes = Quotes { quote: b'"', escape: b'\\' };
        let got = split_with("\"a\\\"b\\\\\\c\",d\n", 2, 3, quotes).unwrap();
        assert_eq!(got, ["1: <a\"b\\\\c>|d"]);
    }

    #[test]
    fn malformed_lines_are_named() {
        let check = |text: &str, expected: &str| {
            assert_eq!(split(text, 2, 4096).unwrap_err(), expected, "{text:?}");
        };
        check("a,b\nc\n", "2:1: the line has 1 of 2 values");
        check("a,b\nc,d,e\n", "2:2: the line has more than 2 values");
        check("a,b\n\"c\nd,e\n", "2:0: a quote that is never closed");
        check("a,\"b\" c\n", "1:1: text behind the closing quote");
        check("a,b\"c\n", "1:1: a quote inside an unquoted value");
    }
}
