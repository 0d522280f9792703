//! The default text output of blkparse: one line per event in the life of a request, and a summary at the end.
//!
//! ```text
//!     8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//!     maj,min CPU  sequence  s.ns          PID │ RWBS │       │  └ process ([error] if completed)
//!                                         action  sector    sectors of 512 bytes
//! ```
//!
//! One action counts as the request ([`super::Action`], Q by default). Records of other actions are skipped, and so
//! are commands that move no blocks (SCSI pass-through). RWBS is: F, a flush before the request; then R, W, D (discard:
//! our trim) or N (nothing); then F (forced unit access), A (read ahead), S (synchronous), M (metadata), B (barrier),
//! E (secure). The letters after the operation do not change the request. So `FWS` with sectors is a flush and a
//! write, both from this line; a flush without sectors is only a flush. A write with forced unit access is a plain
//! write, because this drive answers a write only when its data is durable.
//!
//! The summary is recognised by its labels and skipped. A line that is neither a record, nor the summary, nor `Input
//! file ... added` is an error.
//!
//! Source: blkparse(1), and blkparse_fmt.c and blkparse.c of blktrace.

use std::collections::VecDeque;

use super::error::Fault;
use super::fields::{Device, number, shown, word, words};
use super::format::{Action, Options, Parse};
use super::lines::Line;
use super::request::{Op, Request, TraceTime};

const SECTOR_BYTES: u64 = 512;
const RECORD: &str = "maj,min CPU sequence time PID action RWBS";

/// All actions of records: remapped, bounced, completed, issued, front-merged, got, inserted, back-merged, plugged,
/// queued, requeued, slept, unplugged (by a timer), split, a message.
const ACTIONS: [&[u8]; 16] =
    [b"A", b"B", b"C", b"D", b"F", b"G", b"I", b"M", b"P", b"Q", b"R", b"S", b"U", b"UT", b"X", b"m"];

/// The beginnings of the summary's lines.
const SUMMARY: [&[u8]; 5] = [b"CPU", b"Total (", b"Throughput (R/W):", b"Events (", b"Skips:"];
const SUMMARY_INDENTED: [&[u8]; 14] = [
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"PC Reads Queued:",
    b"PC Read Disp.:",
    b"PC Reads Req.:",
    b"PC Reads Compl.:",
    b"IO unplugs:",
    b"Allocation wait:",
    b"Dispatch wait:",
    b"Completion wait:",
];

/// Whether a trace with this first line has this format.
pub(super) fn recognises(first: &[u8]) -> bool {
    is_input(first) || (word(first).is_some_and(|(w, _)| is_device(w)) && words(first).nth(6).is_some())
}

fn is_input(line: &[u8]) -> bool {
    line.starts_with(b"Input file ") && line.ends_with(b" added")
}

fn is_device(word: &[u8]) -> bool {
    let mut numbers = word.split(|b| *b == b',');
    let mut next = || numbers.next().is_some_and(|n| number("", n).is_ok());
    next() && next() && numbers.next().is_none()
}

fn is_summary(line: &[u8]) -> bool {
    let begins = |with: &[&[u8]], line: &[u8]| with.iter().any(|w| line.starts_with(w));
    match line.first() {
        Some(b' ') => begins(&SUMMARY_INDENTED, line.trim_ascii_start()),
        _ => begins(&SUMMARY, line) || is_process(line),
    }
}

/// Whether a line heads the summary of a process: `name (pid):`-like, `fio (123)` or `fio (123, ...)`.
fn is_process(line: &[u8]) -> bool {
    let Some(inner) = line.trim_ascii_end().strip_suffix(b")") else { return false };
    let inner = inner.strip_suffix(b", ...").unwrap_or(inner);
    let digits = inner.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && inner[..inner.len() - digits].ends_with(b" (")
}

/// The parser of the format.
pub(super) struct Blkparse {
    action: Action,
    device: Device,
    summary: bool,
}

impl Blkparse {
    pub(super) fn new(options: &Options) -> Self {
        Self { action: options.action, device: Device::new(options.device.as_ref()), summary: false }
    }
}

/// The request in the letters of RWBS.
struct Rwbs {
    flush: bool,
    op: Option<Op>,
}

impl Rwbs {
    fn parse(text: &[u8]) -> Result<Self, Fault> {
        let unknown = || Fault::Unknown { what: "RWBS", got: shown(text) };
        let (flush, rest) = match text {
            [b'F', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (op, rest) = match rest {
            [b'R', rest @ ..] => (Some(Op::Read), rest),
            [b'W', rest @ ..] => (Some(Op::Write), rest),
            [b'D', rest @ ..] => (Some(Op::Trim), rest),
            [b'N', rest @ ..] => (None, rest),
            rest if flush => (None, rest),
            _ => return Err(unknown()),
        };
        match rest.iter().all(|b| b"FASMBE".contains(b)) {
            true => Ok(Self { flush, op }),
            false => Err(unknown()),
        }
    }
}

/// Parses seconds and nanoseconds, such as `12.345678901`.
fn time(text: &[u8]) -> Result<TraceTime, Fault> {
    let wrong = || Fault::NotANumber { field: "time", got: shown(text) };
    let point = text.iter().position(|b| *b == b'.').ok_or_else(wrong)?;
    let (seconds, fraction) = (&text[..point], &text[point + 1..]);
    if fraction.len() != 9 {
        return Err(wrong());
    }
    let (seconds, ns) =
        (number("time", seconds).map_err(|_| wrong())?, number("time", fraction).map_err(|_| wrong())?);
    let ns = seconds.checked_mul(1_000_000_000).and_then(|s| s.checked_add(ns));
    TraceTime::from_ticks(ns.ok_or(Fault::TimeRange)?, 1000)
}

/// The blocks of a record, which follow RWBS.
enum Blocks {
    /// The first sector and the number of sectors.
    Some(u64, u64),
    /// A request without blocks.
    Zero,
    /// A command that is passed through to the device.
    PassThrough,
}

impl Blocks {
    fn parse(action: Action, rest: &[u8]) -> Result<Self, Fault> {
        let rest = rest.trim_ascii();
        let unknown = || Fault::Unknown { what: "end of a record", got: shown(rest) };
        // The blocks end before the process, the error or the time taken.
        let ends = |text: &[u8]| matches!(text.trim_ascii_start(), [b'[' | b'(', ..]);
        let (first, after) = word(rest).ok_or_else(unknown)?;
        if let Some((b"+", after)) = word(after) {
            let (count, _) = word(after).filter(|(_, after)| ends(after)).ok_or_else(unknown)?;
            return Ok(Self::Some(number("sector", first)?, number("sectors", count)?));
        }
        // Without blocks, a completion still has its sector, and other records have none. With the bytes of a
        // command, it is the opposite.
        let numbered = number("", first).is_ok() && ends(after);
        match (numbered, action == Action::Completed) {
            (true, true) => Ok(Self::Zero),
            (true, false) => Ok(Self::PassThrough),
            (false, completed) if ends(first) => Ok(if completed { Self::PassThrough } else { Self::Zero }),
            (false, _) => Err(unknown()),
        }
    }
}

impl Parse for Blkparse {
    fn line(&mut self, line: Line<'_>, out: &mut VecDeque<Request>) -> Result<(), Fault> {
        let text = line.text;
        let Some((device, rest)) = word(text).filter(|(w, _)| is_device(w)) else {
            if is_input(text) {
                return Ok(());
            }
            self.summary |= is_summary(text);
            return match is_summary(text) {
                true => Ok(()),
                false => Err(Fault::Unknown { what: "line", got: shown(text) }),
            };
        };
        if self.summary {
            return Err(Fault::AfterSummary);
        }
        let mut rest = rest;
        let mut fields = [&b""[..]; 6];
        for (count, field) in (1..).zip(&mut fields) {
            (*field, rest) = word(rest).ok_or(Fault::Fields { expected: RECORD, got: count })?;
        }
        let [cpu, _sequence, at, pid, action, rwbs] = fields;
        number("CPU", cpu)?;
        number("PID", pid)?;
        let at = time(at)?;
        if !ACTIONS.contains(&action) {
            return Err(Fault::Unknown { what: "action", got: shown(action) });
        }
        if action != [self.action.letter() as u8] || !self.device.takes(device)? {
            return Ok(());
        }
        let rwbs = Rwbs::parse(rwbs)?;
        let blocks = Blocks::parse(self.action, rest)?;
        if rwbs.flush {
            out.push_back(Request { at, op: Op::Flush, offset: 0, len: 0, line: line.number });
        }
        match (rwbs.op, blocks) {
            (Some(op), Blocks::Some(sector, count)) => {
                let bytes = |field, n: u64| {
                    let too_large = || Fault::TooLarge { field, got: n.to_string() };
                    n.checked_mul(SECTOR_BYTES).ok_or_else(too_large)
                };
                let (offset, len) = (bytes("sector", sector)?, bytes("sectors", count)?);
                out.push_back(Request { at, op, offset, len, line: line.number });
            }
            (None, Blocks::Some(..)) => {
                return Err(Fault::Unknown { what: "operation on blocks", got: shown(fields[5]) });
            }
            (Some(_), Blocks::Zero) if !rwbs.flush => return Err(Fault::ZeroLength),
            (_, Blocks::Zero | Blocks::PassThrough) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, read, request};
    use super::*;

    const EXAMPLE: &str = "\
Input file sda.blktrace.0 added
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   N [kjournald]
  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]
  8,0    3        4     0.000005000   697  A  WS 223498 + 8 <- (8,1) 30
  8,0    1        1     0.000005000   698  Q  RA 16 + 256 [a [b] c]
  8,0    1        2     0.000006000   698  X  RA 16 / 144 [a [b] c]
  8,0    1        0     0.000006500     0  m   N cfq698 slice expired t=0
  8,0    3        5     1.000000001   697  U   N [kjournald] 1
  8,0    3        6     1.000000001   697  I   W 223490 + 8 (     368) [kjournald]
  8,0    3        7     1.000000002   697  D   W 223490 + 8 (     368) [kjournald]
  8,0    3        8     1.000000003  1697  Q FWS [jbd2/sda1-8]
  8,0    3        9     1.000000004  1697  Q FWFS 8 + 8 [jbd2/sda1-8]
  8,0    3       10     2.000000000  1700  Q  DS 2048 + 8388608 [fstrim]
  8,0    3       11     2.000000001  1701  Q   R 36 (12 00 00 00 24 00 ..) [hdparm]
  8,0    3       12     2.000000002  1701  Q   N [hdparm]
  8,0    0        1     2.100000000     0  C   W 223490 + 8 ( 1100000) [0]
  8,0    0        2     2.100000001     0  C FWS 0 [0]
  8,0    0        3     2.100000002     0  C   R (12 00 ..) [0]
  8,0    0        4     2.100000003     0 UT   N [swapper] 2
fio (1234, ...)
 Reads Queued:           1,      128KiB\t Writes Queued:           2,        8KiB
 Allocation wait:        0        \t Allocation wait:         0

CPU0 (8,0):
 Reads Queued:           1,      128KiB\t Writes Queued:           2,        8KiB
 Read Dispatches:        0,        0KiB\t Write Dispatches:        1,        4KiB
 Reads Requeued:         0\t\t Writes Requeued:         0
 Reads Completed:        0,        0KiB\t Writes Completed:        1,        4KiB
 Read Merges:            0,        0KiB\t Write Merges:            0,        0KiB
 Read depth:             1        \t Write depth:             1
 PC Reads Queued:        1,        0KiB\t PC Writes Queued:        0,        0KiB
 IO unplugs:             1        \t Timer unplugs:           1

Total (8,0):
 Reads Queued:           1,      128KiB\t Writes Queued:           2,        8KiB

Throughput (R/W): 0KiB/s / 2KiB/s
Events (8,0): 20 entries
Skips: 0 forward (0 -   0.0%)
";

    fn with(action: Action) -> Options {
        Options { action, ..Options::default() }
    }

    #[test]
    fn the_chosen_action_counts_and_nothing_else() {
        let s = 1_000_000_000_000;
        let queued = [
            request(2_197_000, Op::Write, 223_490 * 512, 4096, 4),
            request(5_000_000, Op::Read, 16 * 512, 131_072, 6),
            request(s + 3000, Op::Flush, 0, 0, 12),
            request(s + 4000, Op::Flush, 0, 0, 13),
            request(s + 4000, Op::Write, 4096, 4096, 13),
            request(2 * s, Op::Trim, 1 << 20, 4 << 30, 14),
        ];
        check(EXAMPLE, "blkparse", &Options::default(), &queued);
        check(
            EXAMPLE,
            "blkparse",
            &with(Action::Inserted),
            &[request(s + 1000, Op::Write, 223_490 * 512, 4096, 10)],
        );
        check(
            EXAMPLE,
            "blkparse",
            &with(Action::Issued),
            &[request(s + 2000, Op::Write, 223_490 * 512, 4096, 11)],
        );
        let completed = [
            request(2 * s + s / 10, Op::Write, 223_490 * 512, 4096, 17),
            request(2 * s + s / 10 + 1000, Op::Flush, 0, 0, 18),
        ];
        check(EXAMPLE, "blkparse", &with(Action::Completed), &completed);
    }

    #[test]
    fn one_device_of_several_is_chosen() {
        let both = "8,0 0 1 0.000000000 1 Q R 8 + 8 [a]\n8,16 0 1 0.000000001 1 Q R 16 + 8 [a]\n";
        let error = read(both.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert_eq!(error, "line 2: the trace has requests to 8,0 and to 8,16: choose one device");
        let options = Options { device: Some("8,16".into()), ..Options::default() };
        check(both, "blkparse", &options, &[request(1000, Op::Read, 8192, 4096, 2)]);
    }

    #[test]
    fn what_is_malformed_is_named() {
        let good = "8,0 0 1 0.000000005 1 Q R 8 + 8 [a]\n";
        for (line, expected) in [
            ("8,0 0 2 0.000000006 1 Q R 8 + 0 [a]", "the length is zero"),
            ("8,0 0 2 0.000000006 1 Q R 8 - 8 [a]", "unknown end of a record '8 - 8 [a]'"),
            ("8,0 0 2 0.000000006 1 Q R 8 + 8", "unknown end of a record '8 + 8'"),
            ("8,0 0 2 0.000000006 1 Q R 8 +", "unknown end of a record '8 +'"),
            ("8,0 0 2 0.000000006 1 Q R", "unknown end of a record ''"),
            ("8,0 0 2 0.000000006 1 Q W [a]", "the length is zero"),
            ("8,0 0 2 0.000000006 1 Q R x + 8 [a]", "sector 'x' is not a number"),
            ("8,0 0 2 0.000000006 1 Q R 8 + x [a]", "sectors 'x' is not a number"),
            (
                "8,0 0 2 0.000000006 1 Q R 99999999999999999 + 8 [a]",
                "sector 99999999999999999 is out of range",
            ),
            ("8,0 0 2 0.000000006 1 Q N 8 + 8 [a]", "unknown operation on blocks 'N'"),
            ("8,0 0 2 0.000000006 1 Q Z 8 + 8 [a]", "unknown RWBS 'Z'"),
            ("8,0 0 2 0.000000006 1 Q RX 8 + 8 [a]", "unknown RWBS 'RX'"),
            ("8,0 0 2 0.000000006 1 K R 8 + 8 [a]", "unknown action 'K'"),
            ("8,0 0 2 0.000000006 x Q R 8 + 8 [a]", "PID 'x' is not a number"),
            ("8,0 0 2 0.00006 1 Q R 8 + 8 [a]", "time '0.00006' is not a number"),
            ("8,0 0 2 6 1 Q R 8 + 8 [a]", "time '6' is not a number"),
            (
                "8,0 0 2 99999999.000000006 1 Q R 8 + 8 [a]",
                "the time is out of range: more than 213 days after the beginning",
            ),
            (
                "8,0 0 2 0.000000006 1",
                "5 fields where 'maj,min CPU sequence time PID action RWBS' is expected",
            ),
            ("8,0,1 0 2 0.000000006 1 Q R 8 + 8 [a]", "unknown line '8,0,1 0 2 0.000000006 1 Q R 8 + 8 [a]'"),
            ("something else", "unknown line 'something else'"),
            (" Pages Queued: 1", "unknown line ' Pages Queued: 1'"),
        ] {
            let error =
                read(format!("{good}{line}\n").as_bytes(), &Options::default()).unwrap_err().to_string();
            assert_eq!(error, format!("line 2: {expected}"), "{line}");
        }
        let two = format!("{good}CPU0 (8,0):\n{good}");
        let error = read(two.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert_eq!(error, "line 3: a record after the summary that ends a trace");
        let earlier = format!("{good}8,0 0 2 0.000000004 1 Q R 8 + 8 [a]\n");
        let error = read(earlier.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert!(error.starts_with("line 2: time goes back: 0.000000004000 s"), "{error}");
        let error = read(good.as_bytes(), &with(Action::Issued)).unwrap_err().to_string();
        assert_eq!(error, "no request in its 1 lines");
    }
}
