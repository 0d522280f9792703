//! Errors of reading and making traces.

use super::request::TraceTime;

/// Why a trace cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line is wrong.
    #[error("line {line}: {fault}")]
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The trace has no requests.
    #[error("no request in its {lines} lines")]
    Empty {
        /// The number of its lines.
        lines: u64,
    },
    /// The file cannot be read or written.
    #[error("line {line}: {source}")]
    Io {
        /// The number of the line that was to be read or written.
        line: u64,
        /// What is wrong.
        source: std::io::Error,
    },
    /// The workload is not possible.
    #[error("{0}")]
    Workload(&'static str),
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first line has no known format.
    #[error("no known trace format ({known}): '{got}'")]
    NoFormat {
        /// The line.
        got: String,
        /// The known formats.
        known: String,
    },
    /// The file is compressed.
    #[error("the file is compressed (gzip): unpack it first")]
    Compressed,
    /// The first line does not fit the format.
    #[error("'{got}' where '{expected}' is expected")]
    Header {
        /// What it should be.
        expected: &'static str,
        /// The line.
        got: String,
    },
    /// The line has too few or too many fields.
    #[error("{got} fields where '{expected}' is expected")]
    Fields {
        /// The expected fields.
        expected: &'static str,
        /// The number of fields in the line.
        got: usize,
    },
    /// A field is not a number.
    #[error("{field} '{got}' is not a number")]
    NotANumber {
        /// The name of the field.
        field: &'static str,
        /// The field.
        got: String,
    },
    /// A number does not fit in 64 bits.
    #[error("{field} {got} is out of range")]
    TooLarge {
        /// The name of the field.
        field: &'static str,
        /// The field.
        got: String,
    },
    /// A word is not known here.
    #[error("unknown {what} '{got}'")]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// The word.
        got: String,
    },
    /// Time goes back.
    #[error("time goes back: {at} after {before} (the trace is not sorted)")]
    Unsorted {
        /// The time of this line.
        at: TraceTime,
        /// The time of the request before it.
        before: TraceTime,
    },
    /// Time goes back to before the first request.
    #[error("time goes back to before the first request (the trace is not sorted)")]
    BeforeFirst,
    /// A time is out of range.
    #[error("the time is out of range: more than 213 days after the beginning")]
    TimeRange,
    /// The request has no length.
    #[error("the length is zero")]
    ZeroLength,
    /// The request is longer than any device allows.
    #[error("a length of {bytes} bytes is more than a request may have ({max})")]
    TooLong {
        /// The length.
        bytes: u64,
        /// The largest.
        max: u64,
    },
    /// The request ends past the address space.
    #[error("offset {offset} and length {len} go past 2^64 bytes")]
    PastAll {
        /// Its first byte.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// The request ends past the device's capacity.
    #[error("the request ends at byte {end}, past the device's {capacity}")]
    PastEnd {
        /// The end of the request.
        end: u64,
        /// The capacity of the device.
        capacity: u64,
    },
    /// The trace has requests to two devices.
    #[error("the trace has requests to {first} and to {got}: choose one device")]
    SecondDevice {
        /// The second device.
        got: String,
        /// The first device.
        first: String,
    },
    /// A record follows the summary.
    #[error("a record after the summary that ends a trace")]
    AfterSummary,
    /// A file of an iolog is used before it is opened or after it is closed.
    #[error("{action} of file '{file}', which is not {missing}")]
    NotReady {
        /// The action.
        action: &'static str,
        /// The file.
        file: String,
        /// The action that must come before.
        missing: &'static str,
    },
    /// A `wait` in version 3, which has time stamps instead.
    #[error("'wait' is not part of version 3")]
    Wait,
    /// A line is too long.
    #[error("longer than {max} bytes")]
    LongLine {
        /// The longest allowed length.
        max: u64,
    },
    /// The last line has no line feed.
    #[error("the line has no end: the file was cut")]
    Cut,
}
