//! Tests for all formats, and helpers for the tests of each.

use proptest::prelude::*;

use super::*;

/// Makes a request.
pub(super) fn request(ps: u64, op: Op, offset: u64, len: u64, line: u64) -> Request {
    Request { at: TraceTime::from_ps(ps), op, offset, len, line }
}

/// Reads all requests of a trace.
pub(super) fn read(bytes: &[u8], options: &Options) -> Result<Vec<Request>, TraceError> {
    Trace::open(bytes, options)?.collect()
}

/// Checks that a text is recognised as this format and has these requests, also if the format is given.
pub(super) fn check(text: &str, format: &str, options: &Options, expected: &[Request]) {
    assert_eq!(Trace::open(text.as_bytes(), options).unwrap().format().name, format);
    assert_eq!(read(text.as_bytes(), options).unwrap(), expected);
    let named = Options { format: Format::by_name(format), ..options.clone() };
    assert_eq!(read(text.as_bytes(), &named).unwrap(), expected);
}

#[test]
fn formats_are_known_by_name_and_by_their_first_line() {
    assert!(FORMATS.iter().all(|f| Format::by_name(f.name).is_some_and(|g| g.name == f.name)));
    assert!(Format::by_name("csv").is_none());
    let wrong = |bytes: &[u8]| read(bytes, &Options::default()).unwrap_err().to_string();
    let unknown = "no known trace format (lode, iolog, msr, blkparse)";
    assert_eq!(wrong(b"\n0, 4096, 512\n"), format!("line 2: {unknown}: '0, 4096, 512'"));
    assert_eq!(wrong(b"\x1f\x8b\x08\x00"), "line 1: the file is compressed (gzip): unpack it first");
    assert_eq!(wrong(b""), "no request in its 0 lines");
    assert_eq!(wrong(b"\n\n"), "no request in its 2 lines");
    // A trace that is read with the wrong format is an error.
    let msr = Options { format: Format::by_name("msr"), ..Options::default() };
    assert!(
        read(b"lode trace 1\n0 read 0 1\n", &msr).unwrap_err().to_string().starts_with("line 1: 1 fields")
    );
}

#[test]
fn a_trace_ends_with_its_first_error() {
    let text = b"lode trace 1\n0 read 0 1\nx\n2 read 0 1\n";
    let mut trace = Trace::open(&text[..], &Options::default()).unwrap();
    assert!(trace.next().unwrap().is_ok());
    assert_eq!(trace.next().unwrap().unwrap_err().to_string(), "line 3: time 'x' is not a number");
    assert!(trace.next().is_none());
}

#[test]
fn requests_past_the_end_of_the_device_are_errors() {
    let text = b"lode trace 1\n0 flush\n0 read 4096 4096\n1 trim 4096 4097\n";
    let options = Options { capacity: Some(8192), ..Options::default() };
    let error = read(text, &options).unwrap_err().to_string();
    assert_eq!(error, "line 4: the request ends at byte 8193, past the device's 8192");
}

/// A reader that fails at its second line, as a disk may.
struct Broken(&'static [u8]);

impl std::io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        unreachable!("it is read by lines")
    }
}

impl std::io::BufRead for Broken {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.0.is_empty() { Err(std::io::Error::other("the disk failed")) } else { Ok(self.0) }
    }

    fn consume(&mut self, n: usize) {
        self.0 = &self.0[n..];
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_a_short_trace() {
    let mut trace = Trace::open(Broken(b"lode trace 1\n0 read 0 1\n"), &Options::default()).unwrap();
    assert!(trace.next().unwrap().is_ok());
    assert_eq!(trace.next().unwrap().unwrap_err().to_string(), "line 3: the disk failed");
    assert!(trace.next().is_none());
}

/// Pieces of lines of all formats, so that random texts pass the first checks.
const PIECES: [&str; 44] = [
    "lode trace 1",
    "fio version 2 iolog",
    "fio version 3 iolog",
    "CPU0 (8,0):",
    "Input file a added",
    "\n",
    "\n",
    "\n",
    "\r\n",
    " ",
    " ",
    " ",
    "\t",
    ",",
    ",",
    "0",
    "1",
    "4096",
    "18446744073709551615",
    "99999999999999999999",
    "-1",
    "0.000000001",
    "18446744.073709551",
    "read",
    "write",
    "trim",
    "flush",
    "sync",
    "wait",
    "add",
    "open",
    "close",
    "Read",
    "Write",
    "8,0",
    "Q",
    "C",
    "FWS",
    "R",
    "+",
    "[a]",
    "(1)",
    "128166372003061629,hm,0,Read,383496192,32768,413",
    "8,0 3 1 0.000000000 697 Q W 223490 + 8 [k]",
];

fn texts() -> impl Strategy<Value = Vec<u8>> {
    let pieces =
        prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40).prop_map(|p| p.concat().into_bytes());
    prop_oneof![prop::collection::vec(any::<u8>(), 0..300), pieces]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_bytes_panic_a_reader_and_what_it_gives_is_sound(
        bytes in texts(),
        format in prop::option::of(0..FORMATS.len()),
        capacity in prop::option::of(any::<u64>()),
        action in prop::sample::select(&Action::ALL[..]),
    ) {
        let options = Options { format: format.map(|f| &FORMATS[f]), capacity, action, ..Options::default() };
        let lines = bytes.split(|b| *b == b'\n').count() as u64;
        let mut before = TraceTime::ZERO;
        let trace = Trace::open(&bytes[..], &options);
        for next in trace.into_iter().flatten() {
            let r = match next {
                Ok(r) => r,
                Err(TraceError::Line { line, .. }) => {
                    prop_assert!((1..=lines).contains(&line));
                    break;
                }
                Err(e) => {
                    prop_assert!(matches!(e, TraceError::Empty { .. }), "{e}");
                    break;
                }
            };
            prop_assert!(r.at >= before && (1..=lines).contains(&r.line));
            before = r.at;
            let end = r.offset.checked_add(r.len);
            prop_assert!(end.is_some_and(|e| capacity.is_none_or(|c| e <= c)));
            prop_assert_eq!(r.op == Op::Flush, r.len == 0);
            prop_assert!(r.op == Op::Trim || r.len <= TRANSFER_BYTES_MAX);
        }
    }
}
