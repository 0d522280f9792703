//! Formats of traces, and the options for reading one.

use std::collections::VecDeque;
use std::fmt;

use super::error::Fault;
use super::lines::Line;
use super::request::Request;

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format. With `None`, it is detected from the first line.
    pub format: Option<&'static Format>,
    /// The capacity of the device for the replay, in bytes. Requests past it are errors.
    pub capacity: Option<u64>,
    /// Whether to fold requests past the capacity back into it instead. Offsets are taken modulo the capacity. A
    /// request that would cross the end is moved to end there.
    pub wrap: bool,
    /// The device whose requests are read, of those in the trace: `8,0` (blkparse), `hm_0` (host and disk, MSR), or a
    /// file name (fio). Without it, a trace with two devices is an error, because each has its own address space.
    pub device: Option<String>,
    /// The event of a blkparse trace that counts as the request.
    pub action: Action,
}

/// The event in a request's life whose blkparse records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Action {
    /// `Q`: the request was queued in the block layer.
    #[default]
    Queued,
    /// `I`: it was put on the scheduler's queue, after merging.
    Inserted,
    /// `D`: it was sent to the driver.
    Issued,
    /// `C`: it was completed. Its time is then the time of the completion.
    Completed,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Inserted, Self::Issued, Self::Completed];

    /// The action with this letter.
    pub fn by_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| letter.chars().eq([a.letter()]))
    }

    /// Its letter in blkparse.
    pub fn letter(self) -> char {
        match self {
            Self::Queued => 'Q',
            Self::Inserted => 'I',
            Self::Issued => 'D',
            Self::Completed => 'C',
        }
    }
}

/// A format of traces.
pub struct Format {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// The program that writes it.
    pub about: &'static str,
    /// Whether a trace with this first line has the format.
    pub(super) recognises: fn(&[u8]) -> bool,
    /// Whether the lines of a trace with this first line have time stamps.
    pub(super) stamped: fn(&[u8]) -> bool,
    pub(super) parser: fn(&Options) -> Box<dyn Parse>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A parser: it makes requests from the lines of a format.
pub(super) trait Parse: Send {
    /// Reads the next line, which is not blank, and adds its requests: none, one or two.
    fn line(&mut self, line: Line<'_>, out: &mut VecDeque<Request>) -> Result<(), Fault>;
}
