//! Lode's own format: text, one line per request, times in picoseconds.
//!
//! ```text
//!   lode trace 1                      the first line: the format and its version
//!   0 read 4096 8192                  time in ps, operation, offset and length in bytes
//!   1500000 write 0 4096              1.5 us later
//!   1500000 trim 1048576 1048576
//!   2000000 flush                     all written bytes: no offset, no length
//! ```
//!
//! Every line ends with a line feed, including the last one. A line without it was cut, and its last number may be
//! cut, too.

use std::collections::VecDeque;
use std::io::Write;

use super::check::Check;
use super::error::{Fault, TraceError};
use super::fields::{number, shown, words};
use super::format::Parse;
use super::lines::Line;
use super::request::{Op, Request, TraceTime};

const HEADER: &str = "lode trace 1";
const FIELDS: &str = "time read|write|trim offset length";

/// Whether a trace with this first line has this format, in any version.
pub(super) fn recognises(first: &[u8]) -> bool {
    first.starts_with(b"lode trace")
}

/// The parser of the format.
#[derive(Default)]
pub(super) struct Own {
    begun: bool,
}

impl Parse for Own {
    fn line(&mut self, line: Line<'_>, out: &mut VecDeque<Request>) -> Result<(), Fault> {
        if !line.ended {
            return Err(Fault::Cut);
        }
        if !std::mem::replace(&mut self.begun, true) {
            return match line.text == HEADER.as_bytes() {
                true => Ok(()),
                false => Err(Fault::Header { expected: HEADER, got: shown(line.text) }),
            };
        }
        let mut fields = [&b""[..]; 4];
        let mut count = 0;
        for word in words(line.text) {
            if let Some(field) = fields.get_mut(count) {
                *field = word;
            }
            count += 1;
        }
        let at = TraceTime::from_ps(number("time", fields[0])?);
        let op = Op::ALL.into_iter().find(|op| op.name().as_bytes() == fields[1]);
        let (offset, len) = match (op, count) {
            (Some(Op::Flush), 2) => (0, 0),
            (Some(Op::Flush), _) => return Err(Fault::Fields { expected: "time flush", got: count }),
            (Some(_), 4) => (number("offset", fields[2])?, number("length", fields[3])?),
            (Some(_), _) | (None, 1) => return Err(Fault::Fields { expected: FIELDS, got: count }),
            (None, _) => return Err(Fault::Unknown { what: "request", got: shown(fields[1]) }),
        };
        out.extend(op.map(|op| Request { at, op, offset, len, line: line.number }));
        Ok(())
    }
}

/// Writes a trace in Lode's own format. It refuses what [`super::Trace`] would refuse.
pub struct Writer<W> {
    out: W,
    check: Check,
    line: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace with its header.
    pub fn new(mut out: W) -> Result<Self, TraceError> {
        writeln!(out, "{HEADER}").map_err(|source| TraceError::Io { line: 1, source })?;
        Ok(Self { out, check: Check::new(None), line: 1 })
    }

    /// Adds a request. Its line number is not written.
    pub fn write(&mut self, r: &Request) -> Result<(), TraceError> {
        self.line += 1;
        let line = self.line;
        self.check.next(r).map_err(|fault| TraceError::Line { line, fault })?;
        let (at, op) = (r.at.as_ps(), r.op.name());
        let written = match r.op {
            Op::Flush => writeln!(self.out, "{at} {op}"),
            _ => writeln!(self.out, "{at} {op} {} {}", r.offset, r.len),
        };
        written.map_err(|source| TraceError::Io { line, source })
    }

    /// Ends the trace and flushes it.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.out.flush().map_err(|source| TraceError::Io { line: self.line, source })?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Options;
    use super::super::tests::{check, read, request};
    use super::*;

    const EXAMPLE: &str = "lode trace 1\n0 read 4096 8192\n1500000 write 0 4096\n\
                           1500000 trim 1048576 1048576\n2000000 flush\n";

    #[test]
    fn the_example_of_the_header_is_read() {
        let expected = [
            request(0, Op::Read, 4096, 8192, 2),
            request(1_500_000, Op::Write, 0, 4096, 3),
            request(1_500_000, Op::Trim, 1 << 20, 1 << 20, 4),
            request(2_000_000, Op::Flush, 0, 0, 5),
        ];
        check(EXAMPLE, "lode", &Options::default(), &expected);
    }

    #[test]
    fn what_is_malformed_is_named() {
        let wrong = |text: &str| read(text.as_bytes(), &Options::default()).unwrap_err().to_string();
        for (text, expected) in [
            ("lode trace 2\n", "line 1: 'lode trace 2' where 'lode trace 1' is expected"),
            ("lode trace 1\n", "no request in its 1 lines"),
            (
                "lode trace 1\n1 read 2\n",
                "line 2: 3 fields where 'time read|write|trim offset length' is expected",
            ),
            ("lode trace 1\n1\n", "line 2: 1 fields where 'time read|write|trim offset length' is expected"),
            ("lode trace 1\n1 flush 0 0\n", "line 2: 4 fields where 'time flush' is expected"),
            ("lode trace 1\n1 raed 0 1\n", "line 2: unknown request 'raed'"),
            (
                "lode trace 1\n1 read 0 1 9\n",
                "line 2: 5 fields where 'time read|write|trim offset length' is expected",
            ),
            ("lode trace 1\n-1 read 0 1\n", "line 2: time '-1' is not a number"),
            ("lode trace 1\n1 read 0 1\n\n1 read x 1\n", "line 4: offset 'x' is not a number"),
            (
                "lode trace 1\n1 read 0 99999999999999999999\n",
                "line 2: length 99999999999999999999 is out of range",
            ),
            ("lode trace 1\n1 read 0 0\n", "line 2: the length is zero"),
            ("lode trace 1\n1 read 0 4096\n2 read 0 40", "line 3: the line has no end: the file was cut"),
        ] {
            assert_eq!(wrong(text), expected, "{text:?}");
        }
        let unsorted = wrong("lode trace 1\n2 read 0 1\n1 read 0 1\n");
        assert!(unsorted.starts_with("line 3: time goes back"), "{unsorted}");
    }

    #[test]
    fn what_would_not_be_read_is_not_written() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.write(&request(5, Op::Read, 0, 1, 9)).unwrap();
        assert!(
            writer.write(&request(5, Op::Read, 0, 0, 9)).unwrap_err().to_string().starts_with("line 3: ")
        );
        assert!(writer.write(&request(4, Op::Read, 0, 1, 9)).is_err());
    }

    fn any_request() -> impl Strategy<Value = (u64, Op, u64, u64)> {
        let op = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Trim), Just(Op::Flush)];
        let offset = prop_oneof![0u64..1 << 40, Just(u64::MAX - (1 << 31))];
        (0u64..1 << 50, op, offset, 1u64..=1 << 30).prop_map(|(at, op, offset, len)| match op {
            Op::Flush => (at, op, 0, 0),
            _ => (at, op, offset, len),
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(mut all in proptest::collection::vec(any_request(), 1..60)) {
            all.sort_by_key(|r| r.0);
            let all: Vec<Request> = (2..).zip(all).map(|(line, (at, op, o, l))| request(at, op, o, l, line)).collect();
            let mut writer = Writer::new(Vec::new()).unwrap();
            all.iter().try_for_each(|r| writer.write(r)).unwrap();
            let bytes = writer.finish().unwrap();
            prop_assert_eq!(read(&bytes, &Options::default()).unwrap(), all);
        }
    }
}
