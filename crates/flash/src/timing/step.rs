//! A step (a command, a unit of a scan task, or a piece of GC): its operations, and their ends.
//!
//! ```text
//!   now ─┬─► read ─► last ┐
//!        ├─► read ────────┼─► done: the latest end
//!        └─► program ─────┘
//! ```
//!
//! A path is an instant, and what the time up to it was spent on.
//!
//! Invariant: the parts of a path add up to its time since the step began.

use lode_base::{Part, Split, VirtualDuration, VirtualTime};

/// An instant, and the parts of the time up to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    pub(super) at: u64,
    pub(super) split: Split,
}

impl Path {
    /// Extends the path to `at`. The added time is charged to `part`.
    pub(super) fn with(mut self, part: Part, at: u64) -> Self {
        assert!(at >= self.at, "{part} ended at {at} ps, before it began at {}", self.at);
        self.split.add(part, VirtualDuration::from_ps(at - self.at));
        self.at = at;
        self
    }

    pub(super) fn later(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }
}

/// A step under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// When the next operation begins.
    pub(super) now: Path,
    /// The end of the operation that began last.
    pub(super) last: Path,
    /// The latest end of its operations so far.
    pub(super) done: Path,
    /// The latest end of its reads so far.
    pub(super) read: Path,
    /// The destination of its reads.
    pub(super) sink: Sink,
    /// With [`Overlap::Phases`]: work that begins after all reads.
    pub(super) later: Later,
    /// The number of the step.
    pub(super) number: u64,
    /// Whether it occupies a place in a queue of the device.
    pub(super) queued: bool,
}

/// Work that is deferred until the phase before it has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Later {
    pub(super) cycles: u64,
    pub(super) up_bytes: u64,
}

/// What overlaps within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Everything: each page moves on to the next resource when it has left the one before.
    #[default]
    Pages,
    /// Nothing. A channel reads one page of each way, transfers all of them, and begins again. After all reads of the
    /// step the cores begin, and after them the link. Source: equations (1), (6), (8) and (9) of the ISP paper add the
    /// times of the phases.
    Phases,
}

impl Step {
    /// A step that begins at `at`.
    pub fn at(at: VirtualTime) -> Self {
        let path = Path { at: at.as_ps(), split: Split::default() };
        Self {
            now: path,
            last: path,
            done: path,
            read: path,
            sink: Sink::Dram,
            later: Later::default(),
            number: 0,
            queued: false,
        }
    }

    /// The end of all operations, and the parts of the time.
    pub fn end(&self) -> (VirtualTime, Split) {
        (VirtualTime::from_ps(self.done.at), self.done.split)
    }

    /// A step that ends when both have ended.
    pub fn join(self, other: Self) -> Self {
        let now = self.now.later(other.now);
        let read = self.read.later(other.read);
        let (last, done) = (self.last.later(other.last), self.done.later(other.done));
        Self { now, last, done, read, ..self }
    }

    /// A step that waits for another one. The waiting time is charged to [`Part::Media`], the flash array.
    pub fn after(self, other: Self) -> Self {
        let path = self.done.with(Part::Media, other.done.at.max(self.done.at));
        Self { now: path, last: path, done: path, read: path, ..self }
    }

    pub(super) fn ends(&mut self, path: Path) {
        self.last = path;
        self.done = self.done.later(path);
    }
}

/// The destination of data that a channel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sink {
    /// To the memory of the device.
    #[default]
    Dram,
    /// Through the scan unit, which drops data that does not pass.
    ScanUnit,
}
