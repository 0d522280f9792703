//! The host's time while the store works, split into waiting and computing.
//!
//! ```text
//!   now ─ computes ─► now + d        now ─ waits for a completion ─► its time, if that is later
//! ```
//!
//! On a device that is not modelled, every completion comes at time 0, and the clock stands still.

use lode_base::{Part, Split, VirtualDuration, VirtualTime};

/// A clock. It also records what the time since its start was spent on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    now: VirtualTime,
    split: Split,
}

impl Clock {
    /// A clock that starts at `at`.
    pub fn at(at: VirtualTime) -> Self {
        Self { now: at, split: Split::default() }
    }

    /// The time.
    pub fn now(&self) -> VirtualTime {
        self.now
    }

    /// The time since the start, by what it was spent on. The parts add up to that time.
    pub fn split(&self) -> Split {
        self.split
    }

    /// Adds time that the host computes.
    pub fn computes(&mut self, time: VirtualDuration) {
        self.now += time;
        self.split.add(Part::Host, time);
    }

    /// Waits until `end`, when a command completes. `life` says what the command spent its time on.
    pub(crate) fn waits(&mut self, end: VirtualTime, life: &Split) {
        self.split += life.share(end.since(self.now));
        self.now = self.now.max(end);
    }
}
