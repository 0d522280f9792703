//! The host of a modelled device: its virtual clock, and what its time was spent on.
//!
//! ```text
//!   host     ─ computes ─┬─ waits ──────┬─ computes ─┬─ waits ─►  now       the parts of its time add up to it
//!                submit  ▼              ▲ completion ▼
//!   device               ─ takes its resources ──────
//! ```
//!
//! The host has one clock. Everything that the host does advances it: each row that an operator takes in, and each completion. The
//! host waits for a completion that comes later. Commands begin at the time of the clock, so the device works while the host
//! computes.
//!
//! Attribution: time in which the host computes is the host's. Time in which it waits for a completion is the last part of that
//! command's life, and is divided in the proportions of the whole life ([`Split::share`]). So no time counts twice, and what the
//! device did while the host computed does not count.
//!
//! Invariants: the clock never goes back. At any moment the parts add up to the time since its start, to the picosecond.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use lode_base::profile::Host;
use lode_base::{EnergyUse, Operations, Part, Profile, Split, VirtualDuration, VirtualTime};
use lode_command::Completion;
use parking_lot::Mutex;

/// What the host computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWork {
    /// Sends a command and takes its completion.
    Command,
    /// Turns a row that came from the drive into columns.
    Scan,
    /// Filters a row.
    Filter,
    /// Projects a row.
    Project,
    /// Aggregates a row.
    Aggregate,
    /// Puts a row into a hash table, or looks one up.
    Join,
    /// Sorts a row.
    Sort,
    /// Takes a row through any other operator.
    Other,
}

impl HostWork {
    /// All kinds of work.
    pub const ALL: [Self; 8] = [
        Self::Command,
        Self::Scan,
        Self::Filter,
        Self::Project,
        Self::Aggregate,
        Self::Join,
        Self::Sort,
        Self::Other,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "commands",
            Self::Scan => "scan",
            Self::Filter => "filter",
            Self::Project => "project",
            Self::Aggregate => "aggregate",
            Self::Join => "join",
            Self::Sort => "sort",
            Self::Other => "other",
        }
    }

    /// The time that it takes once.
    const fn cost(self, host: &Host) -> VirtualDuration {
        match self {
            Self::Command => host.command,
            Self::Scan => host.scan,
            Self::Filter => host.filter,
            Self::Project => host.project,
            Self::Aggregate => host.aggregate,
            Self::Join => host.join,
            Self::Sort => host.sort,
            Self::Other => host.other,
        }
    }
}

/// Reads what a device has done so far.
pub type Meter = Box<dyn Fn() -> Operations + Send + Sync>;

/// The host's clock. Everything that runs on one database shares it, in one thread: so commands are submitted in the order of their
/// times.
pub struct HostClock {
    profile: Profile,
    meter: Meter,
    depth: AtomicU32,
    begun: VirtualTime,
    time: Mutex<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Time {
    now: VirtualTime,
    split: Split,
    work: [VirtualDuration; HostWork::ALL.len()],
}

/// The clock at a moment, and all that was counted up to it.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    time: Time,
    operations: Operations,
}

/// A stretch of modelled time, by what it was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelledTime {
    /// How long it was.
    pub total: VirtualDuration,
    /// What it was spent on. The parts add up to `total`.
    pub split: Split,
    /// What the host computed, in the order of [`HostWork::ALL`]. It adds up to the host's part.
    pub work: [VirtualDuration; HostWork::ALL.len()],
    /// What device and host did meanwhile.
    pub operations: Operations,
}

impl HostClock {
    /// The host of a profile. `meter` reads what its device did. The device was ready at `begun`.
    pub fn new(profile: Profile, begun: VirtualTime, meter: Meter) -> Self {
        let depth = AtomicU32::new(profile.link.queue_depth);
        let work = [VirtualDuration::ZERO; HostWork::ALL.len()];
        let time = Time { now: begun, split: Split::default(), work };
        Self { profile, meter, depth, begun, time: Mutex::new(time) }
    }

    /// What is modelled.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The time.
    pub fn now(&self) -> VirtualTime {
        self.time.lock().now
    }

    /// Sets how many tasks of a scan the host keeps under way, at most as many as a queue of the profile takes.
    pub fn set_depth(&self, depth: u32) {
        self.depth.store(depth.clamp(1, self.profile.link.queue_depth), Ordering::Relaxed);
    }

    /// Tasks of a scan that are under way at a time, at most.
    pub fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// The host does something so many times.
    pub fn computes(&self, work: HostWork, times: u64) {
        self.time.lock().computes(work, work.cost(&self.profile.host) * times);
    }

    /// The host takes a completion, and waits for it if it comes later.
    pub(crate) fn takes(&self, c: &Completion) {
        let t = &mut *self.time.lock();
        t.split += c.split.share(c.at.since(t.now));
        t.now = t.now.max(c.at);
        t.computes(HostWork::Command, self.profile.host.command);
    }

    /// The time, and what was counted up to it.
    pub fn read(&self) -> ClockReading {
        let time = *self.time.lock();
        assert_eq!(time.split.total(), time.now - self.begun, "the parts of the host's time add up to it");
        // The device does not know what the host computed.
        let host_busy = time.split.of(Part::Host);
        ClockReading { time, operations: Operations { host_busy, ..(self.meter)() } }
    }
}

impl Time {
    fn computes(&mut self, work: HostWork, time: VirtualDuration) {
        self.now += time;
        self.split.add(Part::Host, time);
        self.work[work as usize] += time;
    }
}

impl ClockReading {
    /// What happened since an earlier reading of the same clock.
    pub fn since(&self, earlier: &Self) -> ModelledTime {
        let (a, b) = (&earlier.time, &self.time);
        let total = b.now - a.now;
        let split = b.split.since(&a.split);
        let work = std::array::from_fn(|i| b.work[i] - a.work[i]);
        assert_eq!(split.total(), total, "the parts of a stretch of time add up to it");
        ModelledTime { total, split, work, operations: self.operations.since(&earlier.operations) }
    }
}

impl ModelledTime {
    /// What the host spent on a kind of work.
    pub fn work(&self, work: HostWork) -> VirtualDuration {
        self.work[work as usize]
    }

    /// What device and host used.
    pub fn energy(&self, profile: &Profile) -> EnergyUse {
        self.operations.energy(&profile.energy, self.total)
    }
}

impl fmt::Debug for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostClock({} at {} ps)", self.profile.name, self.now().as_ps())
    }
}

#[cfg(test)]
mod tests {
    use lode_command::{Outcome, Reply, Tag};

    use super::*;

    fn ns(n: u64) -> VirtualDuration {
        VirtualDuration::from_ns(n)
    }

    fn completion(at: VirtualDuration, parts: &[(Part, VirtualDuration)]) -> Completion {
        let mut split = Split::default();
        parts.iter().for_each(|p| split.add(p.0, p.1));
        let at = VirtualTime::ZERO + at;
        Completion { tag: Tag(1), at, split, outcome: Outcome::Done(Ok(Reply::Done)) }
    }

    #[test]
    fn the_host_waits_for_what_it_did_not_compute_through() {
        let mut profile = Profile::find("isp-adms11").unwrap();
        (profile.host.command, profile.host.join) = (ns(1), ns(10));
        let clock = HostClock::new(profile, VirtualTime::ZERO, Box::new(Operations::default));
        let before = clock.read();
        // A command of 100 ns, 60 of them on the array; the host joins 6 rows meanwhile.
        clock.computes(HostWork::Join, 6);
        clock.takes(&completion(ns(100), &[(Part::Media, ns(60)), (Part::Link, ns(40))]));
        let t = clock.read().since(&before);
        assert_eq!(t.total, ns(101));
        let part = |p| t.split.of(p);
        assert_eq!((part(Part::Media), part(Part::Link), part(Part::Host)), (ns(24), ns(16), ns(61)));
        assert_eq!((t.work(HostWork::Join), t.work(HostWork::Command)), (ns(60), ns(1)));
        assert_eq!(t.operations.host_busy, ns(61));
        // The host does not wait for a completion that came meanwhile.
        clock.takes(&completion(ns(90), &[(Part::Media, ns(90))]));
        assert_eq!(clock.read().since(&before).total, ns(102));
    }

    #[test]
    fn a_queue_is_no_deeper_than_the_profile_has_it() {
        let profile = Profile::find("isp-adms11").unwrap();
        let deepest = profile.link.queue_depth;
        let clock = HostClock::new(profile, VirtualTime::ZERO, Box::new(Operations::default));
        for (asked, given) in [(0, 1), (4, 4), (1 << 20, deepest)] {
            clock.set_depth(asked);
            assert_eq!(clock.depth(), given);
        }
    }
}
