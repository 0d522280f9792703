//! Traces: files of requests to a block device, and what a replay of one measures.
//!
//! ```text
//!   file ─► lines ─► msr | blkparse | iolog | own ─► check ─┐
//!   seed ─► synthetic ──────────────────────────────────────┴─► Request ─► replay ─► Target
//! ```
//!
//! A trace is read as it is replayed, never held in memory. Of the requests that it gives holds: time never goes back;
//! a read, write or trim has a length and ends within the address space (and the capacity, if one is given), a flush
//! has neither offset nor length. What breaks this, or is not understood, is an error that names the line.
//!
//! Offsets past the capacity may be folded into it on demand ([`Options::wrap`]).
//!
//! Equal time stamps are allowed in every format: each counts in ticks (100 ns, 1 ns, 1 us), so that requests of one
//! tick say nothing of their order but that of their lines. Stamps that go back are refused, not sorted: a trace that
//! is not in order was cut or merged by something, and its reader would have to hold it all.

mod blkparse;
mod check;
mod error;
mod fields;
mod iolog;
mod lines;
pub mod modelled;
mod msr;
mod own;
mod read;
pub mod replay;
pub mod synthetic;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

pub use check::TRANSFER_BYTES_MAX;
pub use error::{Fault, TraceError};
pub use own::Writer;
pub use read::Trace;

use lines::Line;

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
    fn from_ticks(ticks: u64, tick_ps: u64) -> Result<Self, Fault> {
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

/// How a trace is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its format; found out from the first line otherwise.
    pub format: Option<&'static Format>,
    /// Bytes of the device on which it will be replayed: requests past them are errors.
    pub capacity: Option<u64>,
    /// Whether requests past the capacity are folded back into it instead: their offsets count modulo the capacity, and
    /// one that would lie across its end lies at its end.
    pub wrap: bool,
    /// The device, of those that the trace names, whose requests are read: `8,0` (blkparse), `hm_0` (host and disk,
    /// MSR), or a file name (fio). Without it a trace that names two is an error: their offsets are not of one space.
    pub device: Option<String>,
    /// The event of a blkparse trace that counts as a request.
    pub action: Action,
}

/// The event of a request's life that blkparse lines are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Action {
    /// `Q`: the block layer was asked.
    #[default]
    Queued,
    /// `I`: put on the scheduler's queue, after merging.
    Inserted,
    /// `D`: sent to the driver.
    Issued,
    /// `C`: completed; its time is then that of the completion.
    Completed,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Inserted, Self::Issued, Self::Completed];

    /// The action of this letter.
    pub fn by_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| letter.chars().eq([a.letter()]))
    }

    /// The letter of blkparse.
    pub fn letter(self) -> char {
        match self {
            Self::Queued => 'Q',
            Self::Inserted => 'I',
            Self::Issued => 'D',
            Self::Completed => 'C',
        }
    }
}

/// A format that traces come in.
pub struct Format {
    /// By which it is chosen.
    pub name: &'static str,
    /// What writes it.
    pub about: &'static str,
    /// Whether a trace that begins with this line is one.
    recognises: fn(&[u8]) -> bool,
    /// Whether a trace that begins with this line has a time stamp in each.
    stamped: fn(&[u8]) -> bool,
    parser: fn(&Options) -> Box<dyn Parse>,
}

/// All formats: a new one is a file and a line here.
pub static FORMATS: [Format; 4] = [
    Format {
        name: "lode",
        about: "our own: time in ps, what, offset and length in bytes",
        recognises: own::recognises,
        stamped: |_| true,
        parser: |_| Box::new(own::Own::default()),
    },
    Format {
        name: "iolog",
        about: "fio's write_iolog, versions 2 and 3",
        recognises: iolog::recognises,
        stamped: iolog::is_stamped,
        parser: |o| Box::new(iolog::Iolog::new(o)),
    },
    Format {
        name: "msr",
        about: "MSR-Cambridge CSV",
        recognises: msr::recognises,
        stamped: |_| true,
        parser: |o| Box::new(msr::Msr::new(o)),
    },
    Format {
        name: "blkparse",
        about: "blkparse's default text output",
        recognises: blkparse::recognises,
        stamped: |_| true,
        parser: |o| Box::new(blkparse::Blkparse::new(o)),
    },
];

impl Format {
    /// The format of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|f| f.name == name)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Makes requests of the lines of one format.
trait Parse: Send {
    /// Reads the next line, which is not blank, and adds the requests that it stands for: none, one or two.
    fn line(&mut self, line: Line<'_>, out: &mut VecDeque<Request>) -> Result<(), Fault>;
}
