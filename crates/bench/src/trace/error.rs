//! Why a trace cannot be read.

use super::request::TraceTime;

/// Why a trace cannot be read, or made.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line is not what it must be.
    #[error("line {line}: {fault}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The trace ends and asked nothing.
    #[error("no request in its {lines} lines")]
    Empty {
        /// How many lines it has.
        lines: u64,
    },
    /// The file cannot be read or written.
    #[error("line {line}: {source}")]
    Io {
        /// The line that was to be read or written.
        line: u64,
        /// What was wrong.
        source: std::io::Error,
    },
    /// No such workload can be made.
    #[error("{0}")]
    Workload(&'static str),
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first line is of no known format.
    #[error("no known trace format ({known}): '{got}'")]
    NoFormat {
        /// The line.
        got: String,
        /// Those that are known.
        known: String,
    },
    /// The file is packed.
    #[error("the file is compressed (gzip): unpack it first")]
    Compressed,
    /// The first line is not the format's.
    #[error("'{got}' where '{expected}' is expected")]
    Header {
        /// What it must be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// Too few fields, or too many.
    #[error("{got} fields where '{expected}' is expected")]
    Fields {
        /// What there must be.
        expected: &'static str,
        /// How many there are.
        got: usize,
    },
    /// A field that must be a number is none.
    #[error("{field} '{got}' is not a number")]
    NotANumber {
        /// Which.
        field: &'static str,
        /// What it is.
        got: String,
    },
    /// A number that does not fit 64 bits.
    #[error("{field} {got} is out of range")]
    TooLarge {
        /// Which.
        field: &'static str,
        /// What it is.
        got: String,
    },
    /// A word that has no meaning here.
    #[error("unknown {what} '{got}'")]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// What it is.
        got: String,
    },
    /// Time goes back.
    #[error("time goes back: {at} after {before} (the trace is not sorted)")]
    Unsorted {
        /// This line's.
        at: TraceTime,
        /// The request's before it.
        before: TraceTime,
    },
    /// Time goes back behind the first request.
    #[error("time goes back behind that of the first request (the trace is not sorted)")]
    BeforeFirst,
    /// Time does not fit.
    #[error("the time is out of range: more than 213 days after the beginning")]
    TimeRange,
    /// Nothing is asked.
    #[error("the length is zero")]
    ZeroLength,
    /// No device takes this much at once.
    #[error("a length of {bytes} bytes: more than the {max} that a request may have")]
    TooLong {
        /// The length.
        bytes: u64,
        /// The largest.
        max: u64,
    },
    /// Beyond any device.
    #[error("offset {offset} and length {len} go past 2^64 bytes")]
    PastAll {
        /// The first byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Beyond this device.
    #[error("the request ends at byte {end}, past the device's {capacity}")]
    PastEnd {
        /// Its end.
        end: u64,
        /// The device's.
        capacity: u64,
    },
    /// Requests to two devices.
    #[error("a request to {got} beside those to {first}: choose one device of the trace")]
    SecondDevice {
        /// The second.
        got: String,
        /// The one before.
        first: String,
    },
    /// A record behind the summary.
    #[error("a record after the summary that ends a trace")]
    AfterSummary,
    /// A file of an iolog that may not be used yet, or no more.
    #[error("{action} of file '{file}', which is not {missing}")]
    NotReady {
        /// What was to be done.
        action: &'static str,
        /// With which.
        file: String,
        /// What has to come before.
        missing: &'static str,
    },
    /// Version 3 has time stamps instead.
    #[error("'wait' is not part of version 3")]
    Wait,
    /// A line without end.
    #[error("longer than {max} bytes")]
    LongLine {
        /// The longest.
        max: u64,
    },
    /// The last line is not ended.
    #[error("the line has no end: the file was cut")]
    Cut,
}
