//! A step of an actor: what it asked for, and when that is over.
//!
//! ```text
//!   now ─┬─► read ─► last ┐
//!        ├─► read ────────┼─► done: where all of it ends      a path: an instant, and what the time up to it was spent on
//!        └─► program ─────┘
//! ```
//!
//! Invariant: the parts of a path add up to its time since the step began.

use lode_base::{Part, Split, VirtualDuration, VirtualTime};

/// An instant, and what the time up to it was spent on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    pub(super) at: u64,
    pub(super) split: Split,
}

impl Path {
    /// Up to `at` with a part of the machine.
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

/// A step of an actor under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Where what is asked for next begins.
    pub(super) now: Path,
    /// Where what was asked for last ends.
    pub(super) last: Path,
    /// Where all of it ends.
    pub(super) done: Path,
    /// Where all of its reads end.
    pub(super) read: Path,
    /// Where what it reads goes.
    pub(super) sink: Sink,
    /// In phases: what comes once all reads are over.
    pub(super) later: Later,
    /// Which one it is.
    pub(super) number: u64,
    /// Whether it has a place in a queue of the device.
    pub(super) queued: bool,
}

/// Work of a step in phases that is put off until the phase before it is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Later {
    pub(super) cycles: u64,
    pub(super) up_bytes: u64,
}

/// What overlaps within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Whatever can: each page goes on to the next resource when it has left the one before.
    #[default]
    Pages,
    /// Nothing: a channel reads a page of each way, hands all of them on, and begins anew; when all that the step reads is
    /// there the cores begin, and then the link. Source: equations (1), (6), (8) and (9) of the ISP paper add up phases.
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

    /// When all of it is over, and what the time was spent on.
    pub fn end(&self) -> (VirtualTime, Split) {
        (VirtualTime::from_ps(self.done.at), self.done.split)
    }

    /// This step and another, one after which both are over.
    pub fn join(self, other: Self) -> Self {
        let now = self.now.later(other.now);
        let read = self.read.later(other.read);
        let (last, done) = (self.last.later(other.last), self.done.later(other.done));
        Self { now, last, done, read, ..self }
    }

    /// A step that waits for another one: the time that it waits is the array's.
    pub fn after(self, other: Self) -> Self {
        let path = self.done.with(Part::Media, other.done.at.max(self.done.at));
        Self { now: path, last: path, done: path, read: path, ..self }
    }

    pub(super) fn ends(&mut self, path: Path) {
        self.last = path;
        self.done = self.done.later(path);
    }
}

/// Where the data of a channel go as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sink {
    /// To the memory of the device.
    #[default]
    Dram,
    /// Past the scan unit, which keeps what does not pass.
    ScanUnit,
}
