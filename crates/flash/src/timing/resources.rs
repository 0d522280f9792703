//! The resources of a modelled device and its host, and how a step takes them.
//!
//! Invariants: those of the model, whose state this is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lode_base::profile::{Frequency, Rate};
use lode_base::{Operations, Part, Profile, VirtualTime};

use super::buffer::PageBuffer;
use super::calendar::Calendar;
use super::step::{Later, Overlap, Path, Step};

/// A plane, or a die whose planes work one at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plane {
    /// When it is free.
    pub(super) free: u64,
    /// Whether its operation until then can be interrupted by a read.
    pub(super) long: bool,
    /// The end of the interruptions by reads.
    pub(super) interrupted: u64,
    /// The array page in its register.
    pub(super) register: Option<RegisterPage>,
    pub(super) busy: u64,
}

/// An array page in a register: a step that reads more of it need not read it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterPage {
    /// The step that read it.
    pub(super) step: u64,
    /// Its number, counted over all EBLOCKs.
    pub(super) page: u64,
    /// The time since when it is in the register.
    pub(super) since: u64,
}

/// All resources, and the step under way.
#[derive(Debug, Default)]
pub(super) struct Resources {
    pub(super) planes: Vec<Plane>,
    pub(super) buses: Vec<Calendar>,
    pub(super) scan_units: Vec<Calendar>,
    pub(super) cores: Vec<Calendar>,
    pub(super) decompressor: Calendar,
    /// EBLOCKs that were programmed since they were erased. Those of a new device are erased.
    pub(super) programmed: Vec<bool>,
    pub(super) dram: Calendar,
    /// What lies in memory of what was read into it, or programmed.
    pub(super) buffer: PageBuffer,
    pub(super) up: Calendar,
    pub(super) down: Calendar,
    pub(super) host: Calendar,
    pub(super) did: Operations,
    /// With [`Overlap::Phases`](super::Overlap::Phases), for each channel: the pages of its current round, and the
    /// round's begin and end.
    pub(super) rounds: Vec<(u32, u64, u64)>,
    /// There will be no request before this.
    pub(super) floor: u64,
    /// How long before the latest step another may begin.
    pub(super) lag: u64,
    /// The latest end of anything.
    pub(super) latest: u64,
    /// Steps that began.
    pub(super) steps: u64,
    pub(super) step: Step,
    /// The ends of the commands in the device's queues; below, the number of commands whose end is unknown.
    pub(super) queued: BinaryHeap<Reverse<u64>>,
    pub(super) queued_open: usize,
}

impl Resources {
    pub(super) fn begin(&mut self, at: VirtualTime) {
        assert!(at.as_ps() >= self.floor, "a step at {} ps begins behind one at {}", at.as_ps(), self.floor);
        assert!(at <= VirtualTime::BEGIN_MAX, "a step begins at {} ps", at.as_ps());
        self.floor = self.floor.max(at.as_ps().saturating_sub(self.lag));
        self.steps += 1;
        self.step = Step { number: self.steps, ..Step::at(at) };
    }

    pub(super) fn wait(&mut self, p: &Profile) {
        let Later { cycles, up_bytes } = std::mem::take(&mut self.step.later);
        if cycles > 0 {
            let path = self.compute(self.step.done, p.cores.clock, cycles);
            self.ends(path);
        }
        if up_bytes > 0 {
            let path = self.transfer(self.step.done, true, p.link.up, p.dram.rate, up_bytes);
            self.ends(path);
        }
        self.step.now = self.step.done;
        self.step.last = self.step.done;
    }

    /// Takes a place in the queues, of a command that has ended.
    pub(super) fn enters_queue(&mut self, p: &Profile) {
        let places = p.link.queue_depth as usize * p.link.queue_pairs as usize;
        let mut at = self.step.now.at;
        while let Some(Reverse(end)) = self.queued.peek() {
            let is_full = self.queued.len() + self.queued_open >= places;
            if *end > at && !is_full {
                break;
            }
            at = at.max(*end);
            self.queued.pop();
        }
        self.step.now = self.step.now.with(Part::Link, at);
        (self.step.queued, self.queued_open) = (true, self.queued_open + 1);
    }

    /// Returns the place at the end of the command, if it has one.
    pub(super) fn leaves_queue(&mut self) {
        if std::mem::take(&mut self.step.queued) {
            self.queued_open -= 1;
            self.queued.push(Reverse(self.step.end().0.as_ps()));
        }
    }

    pub(super) fn command(&mut self, p: &Profile, down_bytes: u64) {
        let mut path = self.step.now;
        path = path.with(Part::Link, path.at + p.link.command.as_ps());
        if down_bytes > 0 {
            path = self.transfer(path, false, p.link.down, p.dram.rate, down_bytes);
        }
        path = self.compute(path, p.cores.clock, p.cores.command_cycles.into());
        self.step.now = path;
        self.ends(path);
    }

    pub(super) fn up(&mut self, p: &Profile, overlap: Overlap, bytes: u64) {
        if overlap == Overlap::Phases {
            self.step.later.up_bytes += bytes;
            return;
        }
        let path = self.transfer(self.step.last, true, p.link.up, p.dram.rate, bytes);
        self.ends(path);
    }

    pub(super) fn complete(&mut self, p: &Profile) {
        self.wait(p);
        let done = self.step.done;
        let path = done.with(Part::Link, done.at + p.link.completion.as_ps());
        self.step.now = path;
        self.ends(path);
    }

    pub(super) fn ends(&mut self, path: Path) {
        self.step.ends(path);
        self.latest = self.latest.max(path.at);
    }

    pub(super) fn on_bus(&mut self, path: Path, channel: usize, time: u64) -> Path {
        let begins = self.buses[channel].take(self.floor, path.at, time);
        path.with(Part::Bus, begins + time)
    }

    /// Moves bytes that arrived during the last `source` picoseconds through the device's memory. The transfers
    /// overlap as far as the memory is free and fast enough.
    pub(super) fn through_dram(&mut self, path: Path, source: u64, rate: Rate, bytes: u64) -> Path {
        let time = rate.time(bytes).as_ps();
        // The last byte arrives now, the others earlier.
        let ready = path.at - time.min(source);
        let ends = self.dram.fill(self.floor, ready.max(self.floor), time);
        self.did.dram_bytes += bytes;
        path.with(Part::Dram, path.at.max(ends))
    }

    /// Moves bytes between the device's memory and the host.
    pub(super) fn transfer(&mut self, path: Path, up: bool, link: Rate, dram: Rate, bytes: u64) -> Path {
        let time = link.time(bytes).as_ps();
        let (calendar, counted) = match up {
            true => (&mut self.up, &mut self.did.up_bytes),
            false => (&mut self.down, &mut self.did.down_bytes),
        };
        *counted += bytes;
        let ends = calendar.fill(self.floor, path.at, time);
        let path = path.with(Part::Link, ends);
        self.through_dram(path, time, dram, bytes)
    }

    /// Computes on the core that is free first.
    pub(super) fn compute(&mut self, path: Path, clock: Frequency, cycles: u64) -> Path {
        let time = clock.time(cycles).as_ps();
        let first = |c: &Calendar| c.first_fit(path.at, time);
        let best = (0..self.cores.len()).min_by_key(|&i| first(&self.cores[i])).expect("a device has cores");
        let begins = self.cores[best].take(self.floor, path.at, time);
        self.did.core_cycles += cycles;
        path.with(Part::Device, begins + time)
    }
}
