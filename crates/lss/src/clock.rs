//! The host's time while the store works: what it waits for, and what it computes.
//!
//! ```text
//!   now ─ computes ─► now + d        now ─ waits for a completion ─► its time, if that is later
//! ```
//!
//! In wall time every completion comes at 0, and the clock stands still.

use lode_base::{Part, Split, VirtualDuration, VirtualTime};

/// A clock that moves on, and what the time since its beginning was spent on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    now: VirtualTime,
    split: Split,
}

impl Clock {
    /// A clock that begins at `at`.
    pub fn at(at: VirtualTime) -> Self {
        Self { now: at, split: Split::default() }
    }

    /// The time.
    pub fn now(&self) -> VirtualTime {
        self.now
    }

    /// What was spent since the beginning: the parts add up to it.
    pub fn split(&self) -> Split {
        self.split
    }

    /// The host computes for so long.
    pub fn computes(&mut self, time: VirtualDuration) {
        self.now += time;
        self.split.add(Part::Host, time);
    }

    /// The host waits for what comes at `end`, whose life was `life`.
    pub(crate) fn waits(&mut self, end: VirtualTime, life: &Split) {
        self.split += life.share(end.since(self.now));
        self.now = self.now.max(end);
    }
}
