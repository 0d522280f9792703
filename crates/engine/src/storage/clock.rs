//! The host of a modelled device: its virtual clock, and what its time was spent on.
//!
//! ```text
//!   host     ─ computes ─┬─ waits ──────┬─ computes ─┬─ waits ─►  now       the parts of its time add up to it
//!                submit  ▼              ▲ completion ▼
//!   device               ─ takes its resources ──────
//! ```
//!
//! Each agent of the host has a clock. Everything that the agent does advances it: each row that an operator takes in, and each
//! completion. The agent waits for a completion that comes later. Commands begin at the time of its clock, so the device works while
//! the host computes. Most hosts have one agent.
//!
//! ```text
//!   agents   A ──1──►        ──3──►          the agent that is furthest behind has the next turn;
//!            B        ──2─────────►──4──►    all share the device, and each computes on a core of its own
//! ```
//!
//! Attribution: time in which the host computes is the host's. Time in which it waits for a completion is the last part of that
//! command's life, and is divided in the proportions of the whole life ([`Split::share`]). So no time counts twice, and what the
//! device did while the host computed does not count.
//!
//! An agent that is given a turn may be behind the latest command of another. Its next command begins with that one, since the device
//! begins commands in the order of time. If the agent furthest behind always has the next turn, a command is late by less than the
//! longest turn.
//!
//! Invariants: a clock never goes back. At any moment its parts add up to the time since its start, to the picosecond.

use std::fmt;

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
    /// Searches a node of a tree.
    Node,
    /// Makes the address of a row or page of an index entry.
    Entry,
    /// Puts a row into a page.
    Place,
}

impl HostWork {
    /// All kinds of work.
    pub const ALL: [Self; 11] = [
        Self::Command,
        Self::Scan,
        Self::Filter,
        Self::Project,
        Self::Aggregate,
        Self::Join,
        Self::Sort,
        Self::Other,
        Self::Node,
        Self::Entry,
        Self::Place,
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
            Self::Node => "nodes",
            Self::Entry => "entries",
            Self::Place => "placing",
        }
    }

    /// The time that it takes once.
    pub const fn cost(self, host: &Host) -> VirtualDuration {
        match self {
            Self::Command => host.command,
            Self::Scan => host.scan,
            Self::Filter => host.filter,
            Self::Project => host.project,
            Self::Aggregate => host.aggregate,
            Self::Join => host.join,
            Self::Sort => host.sort,
            Self::Other => host.other,
            Self::Node => host.node,
            Self::Entry => host.entry,
            Self::Place => host.place,
        }
    }
}

/// Where trees are searched, in modelled time. The same code does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TreePlace {
    /// In the host. Nodes that it has not in memory come over the link.
    #[default]
    Host,
    /// In the device, by its cores. Nodes that are not in memory take the array and the bus, and no command. A look-up takes one. The memory of
    /// nodes ([`crate::DatabaseOptions::frame_bytes`]) counts as the device's. What a commit writes crosses the link all the same.
    Device,
}

/// Reads what a device has done so far.
pub type Meter = Box<dyn Fn() -> Operations + Send + Sync>;

/// One of those who use a database at a time, such as a terminal. It computes on a core of the host that nobody else uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agent(usize);

/// The clocks of the host's agents. Everything that runs on one database shares them, in one thread.
pub struct HostClock {
    profile: Profile,
    meter: Meter,
    agents: Mutex<Agents>,
}

#[derive(Debug)]
struct Agents {
    /// Whose turn it is.
    turn: Agent,
    /// Whether it has given its turn back.
    turn_ended: bool,
    times: Vec<Time>,
    /// The tasks of a scan that each keeps under way.
    depths: Vec<u32>,
    trees_in: TreePlace,
    /// Whether the device reads a node for itself.
    within_device: bool,
    watch: Option<Watch>,
}

/// Readings of an agent's clock at a steady interval.
#[derive(Debug)]
struct Watch {
    of: Agent,
    every: VirtualDuration,
    /// When the next reading is due.
    due: VirtualTime,
    readings: Vec<ClockReading>,
}

#[derive(Clone, Copy, Debug)]
struct Time {
    begun: VirtualTime,
    now: VirtualTime,
    /// Time in which it had nothing to do. It is no part.
    rested: VirtualDuration,
    /// Waits behind commands of other agents. The link's part has them.
    behind: VirtualDuration,
    split: Split,
    work: [VirtualDuration; HostWork::ALL.len()],
}

/// The clock at a moment, and all that was counted up to it.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    agent: Agent,
    time: Time,
    operations: Operations,
}

/// A stretch of modelled time, by what it was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelledTime {
    /// How long it was, without rests.
    pub total: VirtualDuration,
    /// What it was spent on. The parts add up to `total`.
    pub split: Split,
    /// Of the link's part, waits for the begin of other agents' commands.
    pub behind: VirtualDuration,
    /// What the host computed, in the order of [`HostWork::ALL`]. It adds up to the host's part.
    pub work: [VirtualDuration; HostWork::ALL.len()],
    /// What the device did meanwhile for all agents, and the host for this one.
    pub operations: Operations,
}

impl HostClock {
    /// The host of a profile. `meter` reads what its device did. The device was ready at `begun`.
    pub fn new(profile: Profile, begun: VirtualTime, meter: Meter) -> Self {
        let depths = vec![profile.link.queue_depth];
        let times = vec![Time::new(begun)];
        let (trees_in, within_device) = Default::default();
        let agents =
            Agents { turn: Agent(0), turn_ended: false, times, depths, trees_in, within_device, watch: None };
        Self { profile, meter, agents: Mutex::new(agents) }
    }

    /// A further agent. Its clock begins at the time of the one whose turn it is.
    pub fn new_agent(&self) -> Agent {
        let agents = &mut *self.agents.lock();
        let now = agents.current().now;
        agents.times.push(Time::new(now));
        agents.depths.push(self.profile.link.queue_depth);
        Agent(agents.times.len() - 1)
    }

    /// The agent whose turn it is. A host begins with one agent.
    pub fn turn(&self) -> Agent {
        self.agents.lock().turn
    }

    /// Gives an agent the turn: what the host does from here on, this agent does.
    pub fn give_turn(&self, agent: Agent) {
        let agents = &mut *self.agents.lock();
        assert!(agent.0 < agents.times.len(), "{agent:?} is of another host");
        (agents.turn, agents.turn_ended) = (agent, false);
    }

    /// The agent whose turn it is gives it back.
    pub fn end_turn(&self) {
        self.agents.lock().turn_ended = true;
    }

    /// Whether the agent whose turn it is has given it back. Until then a program must poll nobody else, even if that agent's
    /// future is pending: it may compute on another thread.
    pub fn turn_ended(&self) -> bool {
        self.agents.lock().turn_ended
    }

    /// Of some agents the one that is furthest behind; of several the one that is named first.
    pub fn furthest_behind(&self, of: impl IntoIterator<Item = Agent>) -> Option<Agent> {
        let agents = self.agents.lock();
        of.into_iter().min_by_key(|a| agents.times[a.0].now)
    }

    /// Whether the host has several agents. Then work that takes long gives the turn back between its completions.
    pub fn takes_turns(&self) -> bool {
        self.agents.lock().times.len() > 1
    }

    /// The agent whose turn it is has nothing to do for so long.
    pub fn rests(&self, time: VirtualDuration) {
        let agents = &mut *self.agents.lock();
        let t = agents.current();
        t.now += time;
        t.rested += time;
    }

    /// What is modelled.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The time of the agent whose turn it is.
    pub fn now(&self) -> VirtualTime {
        self.agents.lock().current().now
    }

    /// Sets how many tasks of a scan the agent whose turn it is keeps under way, at most as many as a queue of the profile takes.
    pub fn set_depth(&self, depth: u32) {
        let agents = &mut *self.agents.lock();
        agents.depths[agents.turn.0] = depth.clamp(1, self.profile.link.queue_depth);
    }

    /// Tasks of a scan that the agent whose turn it is has under way at a time, at most.
    pub fn depth(&self) -> u32 {
        let agents = self.agents.lock();
        agents.depths[agents.turn.0]
    }

    /// The host does something so many times.
    pub fn computes(&self, work: HostWork, times: u64) {
        let agents = &mut *self.agents.lock();
        match (agents.trees_in, work) {
            (TreePlace::Device, HostWork::Node | HostWork::Entry) => {
                let cores = &self.profile.cores;
                let cycles = if work == HostWork::Node { cores.node_cycles } else { cores.entry_cycles };
                agents.current().waits(Part::Device, cores.clock.time(u64::from(cycles) * times));
            }
            _ => agents.current().computes(work, work.cost(&self.profile.host) * times),
        }
        self.look(agents);
    }

    /// From here on trees are searched in this place. Answers the one before.
    pub fn search_trees_in(&self, place: TreePlace) -> TreePlace {
        std::mem::replace(&mut self.agents.lock().trees_in, place)
    }

    /// A look-up in a tree begins. In the device it takes a command of its own.
    pub(crate) fn begins_look_up(&self) {
        let agents = &mut *self.agents.lock();
        if agents.trees_in == TreePlace::Device {
            let (p, t) = (&self.profile, agents.current());
            t.computes(HostWork::Command, p.host.command);
            t.waits(Part::Link, p.link.command + p.link.completion);
            t.waits(Part::Device, p.cores.clock.time(p.cores.command_cycles.into()));
        }
    }

    /// Reads nodes of trees, where trees are searched.
    pub(crate) fn reads_nodes<T>(&self, read: impl FnOnce() -> T) -> T {
        {
            let agents = &mut *self.agents.lock();
            agents.within_device = agents.trees_in == TreePlace::Device;
        }
        let read = read();
        self.agents.lock().within_device = false;
        read
    }

    /// The host takes a completion, and waits for it if it comes later.
    pub(crate) fn takes(&self, c: &Completion) {
        let agents = &mut *self.agents.lock();
        if agents.within_device {
            let t = agents.current();
            [Part::Media, Part::Bus, Part::Dram].into_iter().for_each(|part| t.waits(part, c.split.of(part)));
            self.look(agents);
            return;
        }
        let t = agents.current();
        let wait = c.at.since(t.now);
        // A command that began late, behind one of another agent, did not live as long as its agent waited.
        let in_its_life = wait.min(c.split.total());
        t.split += c.split.share(in_its_life);
        t.split.add(Part::Link, wait - in_its_life);
        t.behind += wait - in_its_life;
        t.now = t.now.max(c.at);
        t.computes(HostWork::Command, self.profile.host.command);
        self.look(agents);
    }

    /// From here on the clock of the agent whose turn it is is read each time that so much time has passed, and now.
    pub fn watch(&self, every: VirtualDuration) {
        let agents = &mut *self.agents.lock();
        let (of, now) = (agents.turn, agents.current().now);
        let readings = vec![self.reading(agents, of)];
        agents.watch = Some(Watch { of, every, due: now + every, readings });
    }

    /// Ends [`watch`](Self::watch), with a last reading. The readings are in the order of time. Two of them are further apart than asked for
    /// where the agent waited or computed for longer without a break.
    pub fn watched(&self) -> Vec<ClockReading> {
        let agents = &mut *self.agents.lock();
        let Some(watch) = agents.watch.take() else { return Vec::new() };
        let last = self.reading(agents, watch.of);
        let mut readings = watch.readings;
        readings.push(last);
        readings
    }

    /// Reads the clock of the agent that is watched, if that is due.
    fn look(&self, agents: &mut Agents) {
        let Some(watch) = &agents.watch else { return };
        let (of, now) = (watch.of, agents.times[watch.of.0].now);
        if now < watch.due {
            return;
        }
        let reading = self.reading(agents, of);
        let watch = agents.watch.as_mut().expect("it is watched");
        watch.readings.push(reading);
        watch.due = now + watch.every;
    }

    /// The time of the agent whose turn it is, and what was counted up to it.
    pub fn read(&self) -> ClockReading {
        self.read_of(self.turn())
    }

    /// The time of an agent, and what was counted up to it.
    pub fn read_of(&self, agent: Agent) -> ClockReading {
        self.reading(&self.agents.lock(), agent)
    }

    fn reading(&self, agents: &Agents, agent: Agent) -> ClockReading {
        let time = agents.times[agent.0];
        let total = time.split.total() + time.rested;
        assert_eq!(total, time.now - time.begun, "the parts of an agent's time and its rests add up to it");
        // The device does not know what the host computed.
        let host_busy = time.split.of(Part::Host);
        ClockReading { agent, time, operations: Operations { host_busy, ..(self.meter)() } }
    }

    /// What happened since an earlier reading, by the clock of the reading's agent.
    pub fn since(&self, earlier: &ClockReading) -> ModelledTime {
        self.read_of(earlier.agent).since(earlier)
    }
}

impl Agents {
    fn current(&mut self) -> &mut Time {
        &mut self.times[self.turn.0]
    }
}

impl Time {
    fn new(begun: VirtualTime) -> Self {
        Self {
            begun,
            now: begun,
            rested: VirtualDuration::ZERO,
            behind: VirtualDuration::ZERO,
            split: Split::default(),
            work: [VirtualDuration::ZERO; HostWork::ALL.len()],
        }
    }

    fn waits(&mut self, part: Part, time: VirtualDuration) {
        self.now += time;
        self.split.add(part, time);
    }

    fn computes(&mut self, work: HostWork, time: VirtualDuration) {
        self.now += time;
        self.split.add(Part::Host, time);
        self.work[work as usize] += time;
    }
}

impl ClockReading {
    /// What happened since an earlier reading of the same clock.
    ///
    /// # Panics
    /// If the readings are of two agents.
    pub fn since(&self, earlier: &Self) -> ModelledTime {
        assert_eq!(self.agent, earlier.agent, "both readings are of one agent");
        let (a, b) = (&earlier.time, &self.time);
        let total = (b.now - a.now) - (b.rested - a.rested);
        let (split, behind) = (b.split.since(&a.split), b.behind - a.behind);
        let work = std::array::from_fn(|i| b.work[i] - a.work[i]);
        assert_eq!(split.total(), total, "the parts of a stretch of time add up to it");
        ModelledTime { total, split, behind, work, operations: self.operations.since(&earlier.operations) }
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
    fn trees_that_are_searched_in_the_device_take_its_cores_and_no_link() {
        let mut profile = Profile::find("isp-adms11").unwrap();
        (profile.host.command, profile.host.node, profile.host.entry) = (ns(1), ns(10), ns(3));
        (profile.link.command, profile.link.completion) = (ns(5), ns(6));
        (profile.cores.command_cycles, profile.cores.node_cycles, profile.cores.entry_cycles) =
            (200, 400, 20);
        let cycles = |n| profile.cores.clock.time(n);
        let (of_command, of_nodes) = (cycles(200), cycles(2 * 400 + 7 * 20));
        let clock = HostClock::new(profile.clone(), VirtualTime::ZERO, Box::new(Operations::default));
        let search = || {
            let before = clock.read();
            clock.begins_look_up();
            clock.computes(HostWork::Node, 2);
            clock.computes(HostWork::Entry, 7);
            let read = [(Part::Media, ns(60)), (Part::Device, ns(30)), (Part::Link, ns(40))];
            clock.reads_nodes(|| {
                clock.takes(&completion(clock.now().since(VirtualTime::ZERO) + ns(130), &read))
            });
            let t = clock.read().since(&before);
            assert_eq!(t.split.total(), t.total);
            [Part::Media, Part::Device, Part::Link, Part::Host].map(|part| t.split.of(part))
        };
        assert_eq!(search(), [ns(60), ns(30), ns(40), ns(20 + 21 + 1)]);
        assert_eq!(clock.search_trees_in(TreePlace::Device), TreePlace::Host);
        assert_eq!(search(), [ns(60), of_command + of_nodes, ns(11), ns(1)]);
        assert_eq!(clock.search_trees_in(TreePlace::Host), TreePlace::Device);
        assert_eq!(search(), [ns(60), ns(30), ns(40), ns(42)]);
    }

    #[test]
    fn a_clock_that_is_watched_is_read_at_each_interval() {
        let mut profile = Profile::find("isp-adms11").unwrap();
        profile.host.join = ns(10);
        let clock = HostClock::new(profile, VirtualTime::ZERO, Box::new(Operations::default));
        clock.computes(HostWork::Join, 1);
        clock.watch(ns(25));
        for _ in 0..7 {
            clock.computes(HostWork::Join, 1);
        }
        // A stretch that is longer than the interval is one.
        clock.computes(HostWork::Join, 20);
        clock.computes(HostWork::Join, 1);
        let readings = clock.watched();
        let apart: Vec<_> = readings.windows(2).map(|pair| pair[1].since(&pair[0]).total).collect();
        assert_eq!(apart, [ns(30), ns(30), ns(210), ns(10)]);
        clock.computes(HostWork::Join, 9);
        assert!(clock.watched().is_empty(), "it is not watched any more");
    }

    #[test]
    fn each_agent_has_a_time_and_parts_of_its_own() {
        let mut profile = Profile::find("isp-adms11").unwrap();
        (profile.host.command, profile.host.join) = (ns(1), ns(10));
        let clock = HostClock::new(profile, VirtualTime::ZERO, Box::new(Operations::default));
        assert!(!clock.takes_turns());
        let first = clock.turn();
        clock.computes(HostWork::Join, 5);
        let second = clock.new_agent();
        let (a, b) = (clock.read_of(first), clock.read_of(second));
        assert_eq!(clock.furthest_behind([first, second]), Some(first), "of equals the one named first");
        clock.computes(HostWork::Join, 3);
        assert_eq!(clock.furthest_behind([first, second]), Some(second));
        clock.end_turn();
        assert!(clock.turn_ended());
        clock.give_turn(second);
        assert!(!clock.turn_ended());
        assert_eq!(
            (clock.turn(), clock.now(), clock.takes_turns()),
            (second, VirtualTime::ZERO + ns(50), true)
        );
        // It waits 100 ns, half for the array; the first agent's 30 ns on another core take none of its time.
        clock.takes(&completion(ns(150), &[(Part::Media, ns(60)), (Part::Bus, ns(60))]));
        let (a, b) = (clock.since(&a), clock.since(&b));
        assert_eq!((a.total, a.split.of(Part::Host)), (ns(30), ns(30)));
        let part = |p| b.split.of(p);
        assert_eq!(
            (part(Part::Media), part(Part::Bus), part(Part::Host), b.total),
            (ns(50), ns(50), ns(1), ns(101))
        );
        assert_eq!(clock.furthest_behind([second, first]), Some(first));
    }

    #[test]
    fn a_wait_behind_the_command_of_another_agent_is_for_the_link() {
        let profile = Profile::find("isp-adms11").unwrap();
        let command = profile.host.command;
        let clock = HostClock::new(profile, VirtualTime::ZERO, Box::new(Operations::default));
        let before = clock.read();
        // A command of 80 ns whose completion comes after 100 began 20 ns late.
        clock.takes(&completion(ns(100), &[(Part::Media, ns(40)), (Part::Bus, ns(40))]));
        // A rest is no part of its time.
        clock.rests(ns(1000));
        let t = clock.since(&before);
        let parts = [Part::Media, Part::Bus, Part::Link, Part::Host].map(|p| t.split.of(p));
        assert_eq!((parts, t.total), ([ns(40), ns(40), ns(20), command], ns(100) + command));
        assert_eq!((t.behind, clock.now()), (ns(20), VirtualTime::ZERO + ns(1100) + command));
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
