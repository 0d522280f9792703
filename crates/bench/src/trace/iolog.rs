//! The output of fio's `write_iolog`: versions 2 and 3. The first line tells the version.
//!
//! ```text
//!   fio version 2 iolog                 fio version 3 iolog
//!   /dev/sda add                        0 /dev/sda add             time in us since the run began, file, action
//!   /dev/sda open                       12 /dev/sda open
//!   /dev/sda read 4096 8192             130 /dev/sda read 4096 8192          offset and length in bytes
//!   /dev/sda wait 500 0                 630 /dev/sda trim 0 1048576
//!   /dev/sda sync 0 0                   631 /dev/sda datasync 0 0
//!   /dev/sda close                      700 /dev/sda close
//! ```
//!
//! A file is added and opened before its requests, and has no requests after it is closed. sync and datasync are
//! flushes.
//!
//! Version 2 has no time stamps. All requests have the same time until a `wait`, which advances the time by its
//! offset, in us. Waits below 100 us are discarded, as fio's manual says. (fio's code reads a wait as milliseconds
//! since the start, but fio writes none; existing traces with waits were made after the manual.) So in an open loop,
//! all requests between two waits arrive at once. Without waits, only a closed loop makes sense. Version 3 has no
//! `wait`.
//!
//! Source: fio's HOWTO, "Trace file format v2" and "v3". The HOWTO does not name the unit of the time stamps; it
//! comes from `log_io_u` in fio's iolog.c.

use std::collections::{HashMap, VecDeque};

use super::error::Fault;
use super::fields::{Device, number, shown, words};
use super::format::{Options, Parse};
use super::lines::Line;
use super::request::{Op, Request, TraceTime};

const MICROSECOND_PS: u64 = 1_000_000;
/// Shorter waits are discarded.
const WAIT_US_MIN: u64 = 100;
const HEADERS: [(&[u8], Version); 2] =
    [(b"fio version 2 iolog", Version::Two), (b"fio version 3 iolog", Version::Three)];

/// Whether a trace with this first line has this format, in any version.
pub(super) fn recognises(first: &[u8]) -> bool {
    first.starts_with(b"fio version ")
}

/// Whether a trace with this first line has time stamps.
pub(super) fn is_stamped(first: &[u8]) -> bool {
    HEADERS.iter().any(|(h, version)| *h == first.trim_ascii_end() && *version == Version::Three)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl Version {
    /// The names of a request's fields, and of the fields of an action on a file.
    fn fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Two => ("file action offset length", "file add|open|close"),
            Self::Three => ("time file action offset length", "time file add|open|close"),
        }
    }
}

/// The state of a file that was added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum File {
    Closed,
    Open,
}

/// The parser of the format.
pub(super) struct Iolog {
    version: Option<Version>,
    files: HashMap<Vec<u8>, File>,
    device: Device,
    /// In version 2, the sum of the waits so far.
    waited_us: u64,
}

impl Iolog {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            version: None,
            files: HashMap::new(),
            device: Device::new(options.device.as_ref()),
            waited_us: 0,
        }
    }

    /// Handles a line with a file and an action, without its time.
    fn file(&mut self, file: &[u8], action: &[u8], expected: &'static str) -> Result<(), Fault> {
        let state = match action {
            b"add" => {
                self.files.entry(file.to_vec()).or_insert(File::Closed);
                return Ok(());
            }
            b"open" => File::Open,
            b"close" => File::Closed,
            b"read" | b"write" | b"trim" | b"sync" | b"datasync" | b"wait" => {
                return Err(Fault::Fields { expected, got: words(expected.as_bytes()).count() - 2 });
            }
            _ => return Err(Fault::Unknown { what: "action", got: shown(action) }),
        };
        let not = |action, missing| Fault::NotReady { action, file: shown(file), missing };
        match (self.files.get_mut(file), state) {
            (None, File::Open) => Err(not("open", "added")),
            (None | Some(File::Closed), File::Closed) => Err(not("close", "open")),
            (Some(file), state) => {
                *file = state;
                Ok(())
            }
        }
    }
}

impl Parse for Iolog {
    fn line(&mut self, line: Line<'_>, out: &mut VecDeque<Request>) -> Result<(), Fault> {
        let Some(version) = self.version else {
            let known = HEADERS.iter().find(|(h, _)| *h == line.text.trim_ascii_end());
            let wrong = || Fault::Header {
                expected: "fio version 3 iolog' or 'fio version 2 iolog",
                got: shown(line.text),
            };
            self.version = Some(known.ok_or_else(wrong)?.1);
            return Ok(());
        };
        let (expected, expected_file) = version.fields();
        let mut fields = [&b""[..]; 5];
        let mut count = 0;
        // Version 2 is version 3 without the first field.
        let first = usize::from(version == Version::Two);
        for word in words(line.text) {
            if let Some(field) = fields.get_mut(first + count) {
                *field = word;
            }
            count += 1;
        }
        let at_us = match version {
            Version::Two => self.waited_us,
            Version::Three => number("time", fields[0])?,
        };
        let at = TraceTime::from_ticks(at_us, MICROSECOND_PS)?;
        let [_, file, action, offset, len] = fields;
        match first + count {
            3 => return self.file(file, action, expected),
            5 => {}
            _ if matches!(action, b"add" | b"open" | b"close") => {
                return Err(Fault::Fields { expected: expected_file, got: count });
            }
            _ => return Err(Fault::Fields { expected, got: count }),
        }
        let (offset, len) = (number("offset", offset)?, number("length", len)?);
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Flush,
            b"wait" if version == Version::Two => {
                if offset >= WAIT_US_MIN {
                    self.waited_us = self.waited_us.checked_add(offset).ok_or(Fault::TimeRange)?;
                }
                return Ok(());
            }
            b"wait" => return Err(Fault::Wait),
            b"add" | b"open" | b"close" => return Err(Fault::Fields { expected: expected_file, got: count }),
            _ => return Err(Fault::Unknown { what: "action", got: shown(action) }),
        };
        if self.files.get(file) != Some(&File::Open) {
            return Err(Fault::NotReady { action: op.name(), file: shown(file), missing: "open" });
        }
        if self.device.takes(file)? {
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
            out.push_back(Request { at, op, offset, len, line: line.number });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, read, request};
    use super::*;

    const TWO: &str = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 4096 8192\n/dev/sda wait 99 0\n\
                       /dev/sda write 0 512\n/dev/sda wait 500 0\n/dev/sda sync 0 0\n/dev/sda wait 100 0\n\
                       /dev/sda trim 0 1048576\n/dev/sda close\n";
    const THREE: &str = "fio version 3 iolog\n0 /dev/sda add\n12 /dev/sda open\n130 /dev/sda read 4096 8192\n\
                         630 /dev/sda write 0 512\n630 /dev/sda datasync 0 0\n700 /dev/sda close\n\
                         701 /dev/sda open\n702 /dev/sda trim 0 1048576\n703 /dev/sda close\n";
    const US: u64 = 1_000_000;

    #[test]
    fn time_is_that_of_the_waits_in_version_2() {
        let expected = [
            request(0, Op::Read, 4096, 8192, 4),
            request(0, Op::Write, 0, 512, 6),
            request(500 * US, Op::Flush, 0, 0, 8),
            request(600 * US, Op::Trim, 0, 1 << 20, 10),
        ];
        check(TWO, "iolog", &Options::default(), &expected);
    }

    #[test]
    fn time_is_that_of_the_stamps_in_version_3() {
        let expected = [
            request(130 * US, Op::Read, 4096, 8192, 4),
            request(630 * US, Op::Write, 0, 512, 5),
            request(630 * US, Op::Flush, 0, 0, 6),
            request(702 * US, Op::Trim, 0, 1 << 20, 9),
        ];
        check(THREE, "iolog", &Options::default(), &expected);
    }

    #[test]
    fn one_file_of_several_is_chosen() {
        let both = "fio version 2 iolog\na add\nb add\na open\nb open\na read 0 1\nb read 7 1\n";
        let error = read(both.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert_eq!(error, "line 7: the trace has requests to a and to b: choose one device");
        let options = Options { device: Some("b".into()), ..Options::default() };
        check(both, "iolog", &options, &[request(0, Op::Read, 7, 1, 7)]);
    }

    fn wrong(version: u32, line: &str, expected: &str) {
        let stamp = |n: u32| if version == 3 { format!("{n} ") } else { String::new() };
        let text = format!(
            "fio version {version} iolog\n{}a add\n{}a open\n{}a read 0 1\n{line}\n",
            stamp(0),
            stamp(1),
            stamp(2)
        );
        let error = read(text.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert_eq!(error, format!("line 5: {expected}"), "version {version}: {line}");
    }

    #[test]
    fn what_is_malformed_is_named() {
        for (line, expected) in [
            ("a read 0", "3 fields where 'file action offset length' is expected"),
            ("a read", "2 fields where 'file action offset length' is expected"),
            ("a open 0 0", "4 fields where 'file add|open|close' is expected"),
            ("a", "1 fields where 'file action offset length' is expected"),
            ("a raed 0 1", "unknown action 'raed'"),
            ("a unlink", "unknown action 'unlink'"),
            ("a read x 1", "offset 'x' is not a number"),
            ("a read 0 1k", "length '1k' is not a number"),
            ("a read 0 0", "the length is zero"),
            (
                "a read 0 4294967296",
                "a length of 4294967296 bytes is more than a request may have (1073741824)",
            ),
            ("b read 0 1", "read of file 'b', which is not open"),
            ("b open", "open of file 'b', which is not added"),
            ("b close", "close of file 'b', which is not open"),
        ] {
            wrong(2, line, expected);
        }
        for (line, expected) in [
            ("3 a read 0", "4 fields where 'time file action offset length' is expected"),
            ("3 a read", "3 fields where 'time file action offset length' is expected"),
            ("3 a add 0 0", "5 fields where 'time file add|open|close' is expected"),
            ("a read 0 1", "time 'a' is not a number"),
            ("3 a wait 500 0", "'wait' is not part of version 3"),
            ("99999999999999 a read 0 1", "the time is out of range: more than 213 days after the beginning"),
            (
                "1 a read 0 1",
                "time goes back: 0.000001000000 s after 0.000002000000 s (the trace is not sorted)",
            ),
        ] {
            wrong(3, line, expected);
        }
        for (text, expected) in [
            (
                "fio version 4 iolog\n",
                "line 1: 'fio version 4 iolog' where 'fio version 3 iolog' or 'fio version 2 iolog' is expected",
            ),
            ("fio version 3 iolog\n0 a add\n", "no request in its 2 lines"),
        ] {
            assert_eq!(read(text.as_bytes(), &Options::default()).unwrap_err().to_string(), expected);
        }
        let closed = "fio version 2 iolog\na add\na open\na close\na read 0 1\n";
        let error = read(closed.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert_eq!(error, "line 5: read of file 'a', which is not open");
    }
}
