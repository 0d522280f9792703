//! The traces of MSR Cambridge: CSV, one line per request.
//!
//! ```text
//!   128166372003061629,hm,0,Read,383496192,32768,413
//!   Timestamp          │  │ │    Offset    │     ResponseTime
//!                Hostname │ Type           Size
//!                  DiskNumber
//! ```
//!
//! Timestamp is the time at which the request was issued, as a Windows file time: ticks of 100 ns since 1601. Our
//! time counts from the first request. Offset and Size are in bytes. ResponseTime, also in ticks, is the traced
//! machine's; it must be a number and is not used. There are no trims and no flushes. The first line may hold column
//! names. A device is a host and a disk, as in the names of the published files: `hm_0`.
//!
//! A file whose lines are not in the order of time is refused. `sort -s -t, -k1,1n` sorts it.
//!
//! Source: the README of the traces in the SNIA IOTTA repository (Narayanan, Donnelly, Rowstron, "Write Off-Loading",
//! FAST 2008).

use std::collections::VecDeque;

use super::error::Fault;
use super::fields::{Device, number, shown};
use super::format::{Options, Parse};
use super::lines::Line;
use super::request::{Op, Request, TraceTime};

const TICK_PS: u64 = 100_000;
const COLUMNS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
const COLUMN_COUNT: usize = 7;

/// Whether a trace with this first line has this format.
pub(super) fn recognises(first: &[u8]) -> bool {
    let mut fields = first.split(|b| *b == b',');
    is_header(first)
        || (fields.next().is_some_and(|f| number("", f).is_ok()) && fields.count() == COLUMN_COUNT - 1)
}

fn is_header(line: &[u8]) -> bool {
    line.eq_ignore_ascii_case(COLUMNS.as_bytes())
}

/// The parser of the format.
pub(super) struct Msr {
    begun: bool,
    /// The ticks of the first request.
    start: Option<u64>,
    device: Device,
    /// The host and disk of the line, joined.
    name: Vec<u8>,
}

impl Msr {
    pub(super) fn new(options: &Options) -> Self {
        Self { begun: false, start: None, device: Device::new(options.device.as_ref()), name: Vec::new() }
    }
}

impl Parse for Msr {
    fn line(&mut self, line: Line<'_>, out: &mut VecDeque<Request>) -> Result<(), Fault> {
        if !std::mem::replace(&mut self.begun, true) && is_header(line.text) {
            return Ok(());
        }
        let mut fields = [&b""[..]; COLUMN_COUNT];
        let mut count = 0;
        for field in line.text.split(|b| *b == b',') {
            if let Some(place) = fields.get_mut(count) {
                *place = field.trim_ascii();
            }
            count += 1;
        }
        if count != COLUMN_COUNT {
            return Err(Fault::Fields { expected: COLUMNS, got: count });
        }
        let [time, host, disk, op, offset, size, response] = fields;
        let ticks = number("Timestamp", time)?;
        number("DiskNumber", disk)?;
        let op = match op {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            _ => return Err(Fault::Unknown { what: "Type", got: shown(op) }),
        };
        let (offset, len) = (number("Offset", offset)?, number("Size", size)?);
        number("ResponseTime", response)?;
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'_');
        self.name.extend_from_slice(disk);
        if self.device.takes(&self.name)? {
            let start = *self.start.get_or_insert(ticks);
            let ticks = ticks.checked_sub(start).ok_or(Fault::BeforeFirst)?;
            let at = TraceTime::from_ticks(ticks, TICK_PS)?;
            out.push_back(Request { at, op, offset, len, line: line.number });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, read, request};
    use super::*;

    const EXAMPLE: &str = "128166372003061629,hm,0,Read,383496192,32768,413\n\
                           128166372003061629,hm,0,Write,0,512,413\r\n\
                           128166372003061640,hm,0,Write,4096,4096,0\n";

    #[test]
    fn ticks_are_a_tenth_of_a_microsecond_since_the_first_request() {
        let expected = [
            request(0, Op::Read, 383_496_192, 32768, 1),
            request(0, Op::Write, 0, 512, 2),
            request(1_100_000, Op::Write, 4096, 4096, 3),
        ];
        check(EXAMPLE, "msr", &Options::default(), &expected);
        let headed = format!("{COLUMNS}\n{}", EXAMPLE.lines().next().unwrap());
        check(&headed, "msr", &Options::default(), &[request(0, Op::Read, 383_496_192, 32768, 2)]);
    }

    #[test]
    fn one_disk_of_several_is_chosen() {
        let both = "5,a,0,Read,0,1,0\n6,a,1,Read,7,1,0\n";
        let error = read(both.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert_eq!(error, "line 2: the trace has requests to a_0 and to a_1: choose one device");
        let options = Options { device: Some("a_1".into()), ..Options::default() };
        check(both, "msr", &options, &[request(0, Op::Read, 7, 1, 2)]);
        let options = Options { device: Some("b_1".into()), ..Options::default() };
        let error = read(both.as_bytes(), &options).unwrap_err().to_string();
        assert_eq!(error, "no request in its 2 lines");
    }

    #[test]
    fn what_is_malformed_is_named() {
        let good = "100,hm,0,Read,0,1,0\n";
        for (line, expected) in [
            (
                "100,hm,0,Read,0,1",
                "6 fields where 'Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime' is expected",
            ),
            (
                "100,hm,0,Read,0,1,0,0",
                "8 fields where 'Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime' is expected",
            ),
            ("100,hm,0,read,0,1,0", "unknown Type 'read'"),
            ("1e2,hm,0,Read,0,1,0", "Timestamp '1e2' is not a number"),
            ("100,hm,,Read,0,1,0", "DiskNumber '' is not a number"),
            ("100,hm,0,Read,-4,1,0", "Offset '-4' is not a number"),
            ("100,hm,0,Read,0,18446744073709551616,0", "Size 18446744073709551616 is out of range"),
            ("100,hm,0,Read,0,0,0", "the length is zero"),
            ("100,hm,0,Read,0,1,x", "ResponseTime 'x' is not a number"),
            (
                "18446744073709551615,hm,0,Read,0,1,0",
                "the time is out of range: more than 213 days after the beginning",
            ),
            ("99,hm,0,Read,0,1,0", "time goes back to before the first request (the trace is not sorted)"),
            (COLUMNS, "Timestamp 'Timestamp' is not a number"),
        ] {
            let text = format!("{good}{line}\n");
            let error = read(text.as_bytes(), &Options::default()).unwrap_err().to_string();
            assert_eq!(error, format!("line 2: {expected}"), "{line}");
        }
    }
}
