//! A request to a block device, with its time.

use std::fmt;

use super::error::Fault;

/// A time, in picoseconds since the start of the trace. The ticks of every format (100 ns, 1 us, 1 ns) and of the
/// modelled device are whole picoseconds. The largest time is 213 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TraceTime(u64);

impl TraceTime {
    /// The start of the trace.
    pub const ZERO: Self = Self(0);

    /// The time this many picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// The picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The time after `ticks` of `tick_ps` each, if it is in range.
    pub(super) fn from_ticks(ticks: u64, tick_ps: u64) -> Result<Self, Fault> {
        ticks.checked_mul(tick_ps).map(Self).ok_or(Fault::TimeRange)
    }
}

impl fmt::Display for TraceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000_000;
        write!(f, "{}.{:012} s", self.0 / SECOND, self.0 % SECOND)
    }
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Tells that bytes are no longer needed.
    Trim,
    /// Makes all written bytes durable.
    Flush,
}

impl Op {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Trim, Self::Flush];

    /// Its name in Lode's own format and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
        }
    }
}

/// A request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its time.
    pub at: TraceTime,
    /// Its operation.
    pub op: Op,
    /// The offset of the first byte, or 0 for a flush.
    pub offset: u64,
    /// The length in bytes, or 0 for a flush.
    pub len: u64,
    /// The number of its line in the trace, from 1. Two requests may come from one line.
    pub line: u64,
}
