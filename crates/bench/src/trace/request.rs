//! A request to a block device, and when it was made.

use std::fmt;

use super::error::Fault;

/// An instant, in picoseconds since the trace began: what every format counts in (100 ns, 1 us, 1 ns) and what the
/// modelled device counts in is a whole number of them. The largest is 213 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TraceTime(u64);

impl TraceTime {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// The instant this many picoseconds after the beginning.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the beginning.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The instant after `ticks` of `tick_ps` each, if there is one.
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

/// What is asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Bytes come back.
    Read,
    /// Bytes go there.
    Write,
    /// Bytes are needed no more.
    Trim,
    /// All that was written is to be durable.
    Flush,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Trim, Self::Flush];

    /// As in our own format and in reports.
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
    /// When it was made.
    pub at: TraceTime,
    /// What it asks.
    pub op: Op,
    /// The first byte; 0 for a flush.
    pub offset: u64,
    /// How many bytes; 0 for a flush.
    pub len: u64,
    /// The line of the trace that it was read from, from 1; two requests may come from one line.
    pub line: u64,
}
