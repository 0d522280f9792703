//! What a format of traces is, and how a trace of one is read.

use std::collections::VecDeque;
use std::fmt;

use super::error::Fault;
use super::lines::Line;
use super::request::Request;

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
    pub(super) recognises: fn(&[u8]) -> bool,
    /// Whether a trace that begins with this line has a time stamp in each.
    pub(super) stamped: fn(&[u8]) -> bool,
    pub(super) parser: fn(&Options) -> Box<dyn Parse>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Makes requests of the lines of one format.
pub(super) trait Parse: Send {
    /// Reads the next line, which is not blank, and adds the requests that it stands for: none, one or two.
    fn line(&mut self, line: Line<'_>, out: &mut VecDeque<Request>) -> Result<(), Fault>;
}
