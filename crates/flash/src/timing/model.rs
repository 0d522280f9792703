//! The resources of a modelled device and its host, and the time that operations take on them.
//!
//! ```text
//!   read:     bus (command) ─► plane (tR) ─► bus (data) ∥ scan unit ∥ DRAM       in the page buffer: at once
//!   program:  bus (command, data) ∥ DRAM ─► plane (tPROG)               erase: bus (command) ─► planes (tBERS)
//!   scan:     what was read ─► decompressor, for encoded columns ─► core
//!   command:  link ─► core ─► ... ─► DRAM ∥ link ─► link (completion)           ∥: one passes on to the other as it comes
//! ```
//!
//! A step of an actor (a command, a unit of a task, a piece of GC) begins at an instant of its clock. Its operations
//! start in parallel at that instant, each as soon as its resources are free. [`Model::wait`] moves the instant to
//! the end of all of them. So the time of a step is the sum of its parts, and it is known what the step waited for.
//!
//! An array page that a step read stays in its plane's register until the plane does something else. Reading more of
//! it takes only a transfer.
//!
//! Invariants: planes are taken in the order of requests; all other resources go to the request that is ready first,
//! memory and link in pieces; steps begin in the order of their time, except within a lag. There are no floats here, so the same steps
//! take the same picoseconds on every machine.

use lode_base::{EblockId, Operations, Part, Profile, Split, VirtualDuration, VirtualTime};
use parking_lot::Mutex;

use super::buffer::PageBuffer;
use super::calendar::Calendar;
use super::resources::{Plane, RegisterPage, Resources};
use super::step::{Overlap, Path, Sink, Step};

/// The busy time of resources of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyTime {
    /// Which.
    pub name: &'static str,
    /// Of all of them together, in picoseconds.
    pub busy_ps: u128,
    /// Of the busiest one.
    pub most_ps: u64,
    /// The number of resources.
    pub parts: usize,
}

/// A modelled device and its host.
#[derive(Debug)]
pub struct Model {
    profile: Profile,
    overlap: Overlap,
    resources: Mutex<Resources>,
}

impl Model {
    /// A device at rest, at the start of virtual time.
    pub fn new(profile: Profile) -> Self {
        let g = &profile.geometry;
        let (channels, dies) = (g.channels() as usize, (g.channels() * g.ways()) as usize);
        let planes = if profile.nand.multi_plane { dies * g.planes() as usize } else { dies };
        let resources = Resources {
            planes: vec![Plane::default(); planes],
            buses: vec![Calendar::default(); channels],
            rounds: vec![(0, 0, 0); channels],
            scan_units: vec![Calendar::default(); channels],
            cores: vec![Calendar::default(); profile.cores.count as usize],
            programmed: vec![false; g.eblock_count() as usize],
            buffer: PageBuffer::new(
                (u64::from(profile.dram.buffer_kb) * 1024 / u64::from(g.rblock_bytes())) as usize,
            ),
            ..Resources::default()
        };
        Self { profile, overlap: Overlap::default(), resources: Mutex::new(resources) }
    }

    /// The same device with another degree of overlap.
    pub fn with_overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// Lets a step begin up to so long before the latest one, for a host with several agents. Planes are still taken in the order of
    /// requests. At first it is no time at all.
    pub fn set_lag(&self, lag: VirtualDuration) {
        self.resources.lock().lag = lag.as_ps();
    }

    /// The profile of the device.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Begins a step. The operations that follow are part of it.
    ///
    /// # Panics
    /// When a step before began later than `at` by more than the lag: the actor that is furthest behind must move next. When `at` is
    /// beyond [`VirtualTime::BEGIN_MAX`], since the end of the step might overflow.
    pub fn begin(&self, at: VirtualTime) {
        self.resources.lock().begin(at);
    }

    /// The earliest instant at which the next step may begin: the begin of the latest step, or the lag before it.
    pub fn earliest(&self) -> VirtualTime {
        VirtualTime::from_ps(self.resources.lock().floor)
    }

    /// Suspends the step under way, so that another can begin beside it.
    pub fn step(&self) -> Step {
        self.resources.lock().step
    }

    /// Resumes a step.
    pub fn resume(&self, step: Step) {
        self.resources.lock().step = step;
    }

    /// Waits for all operations of the step.
    pub fn wait(&self) {
        self.resources.lock().wait(&self.profile);
    }

    /// The end of the step, and the parts of its time.
    pub fn end(&self) -> (VirtualTime, Split) {
        self.resources.lock().step.end()
    }

    /// A command arrives over the link, and a core takes it up.
    pub fn command(&self, down_bytes: u64) {
        self.resources.lock().command(&self.profile, down_bytes);
    }

    /// Begins a step with a command: [`Model::begin`] and [`Model::command`]. If the device's queues are full, the
    /// command waits in the host until another one ends. It ends with [`Model::answers`].
    ///
    /// # Panics
    /// As [`Model::begin`].
    pub fn arrives(&self, at: VirtualTime, down_bytes: u64) {
        let r = &mut *self.resources.lock();
        r.begin(at);
        r.enters_queue(&self.profile);
        r.command(&self.profile, down_bytes);
    }

    /// The minimal time of any command, from its submission to its completion.
    pub fn command_time_min(&self) -> VirtualDuration {
        let p = &self.profile;
        p.link.command + p.cores.clock.time(p.cores.command_cycles.into()) + p.link.completion
    }

    /// Ends the step: its completion goes to the host after the last operation.
    pub fn complete(&self) {
        self.resources.lock().complete(&self.profile);
    }

    /// Waits for all operations of the step, and sends `up_bytes` and its completion to the host. Returns the end and
    /// the parts of its time.
    pub fn answers(&self, up_bytes: u64) -> (VirtualTime, Split) {
        let r = &mut *self.resources.lock();
        r.wait(&self.profile);
        r.up(&self.profile, self.overlap, up_bytes);
        r.complete(&self.profile);
        r.leaves_queue();
        r.step.end()
    }

    /// Sends bytes to the host, after the last operation.
    pub fn up(&self, bytes: u64) {
        self.resources.lock().up(&self.profile, self.overlap, bytes);
    }

    /// Sets the destination of the step's reads.
    pub fn read_into(&self, sink: Sink) {
        self.resources.lock().step.sink = sink;
    }

    /// Reads the read units of these bytes of an EBLOCK. Wanted units of one array page are read together.
    pub fn read(&self, e: EblockId, offset: u32, len: u32) {
        let g = &self.profile.geometry;
        let unit = g.rblock_bytes();
        let units_per_page = self.page_bytes() / unit;
        let (mut first, last) = (offset / unit, (offset + len.max(1) - 1) / unit);
        let r = &mut *self.resources.lock();
        let mut latest = Path::default();
        while first <= last {
            let next = (first / units_per_page + 1) * units_per_page;
            let path = self.read_page(r, e, first, next.min(last + 1) - first);
            latest = latest.later(path);
            r.ends(path);
            first = next;
        }
        r.step.last = latest;
        r.step.read = r.step.read.later(latest);
    }

    /// The number of a read unit, counted over all EBLOCKs.
    fn unit(&self, e: EblockId, rblock: u32) -> u64 {
        let g = &self.profile.geometry;
        u64::from(e.raw()) * u64::from(g.eblock_bytes() / g.rblock_bytes()) + u64::from(rblock)
    }

    /// The bytes of an array read.
    fn page_bytes(&self) -> u32 {
        self.profile.nand.page_bytes.max(self.profile.geometry.rblock_bytes())
    }

    /// Reads read units of one array page.
    fn read_page(&self, r: &mut Resources, e: EblockId, rblock: u32, count: u32) -> Path {
        let p = &self.profile;
        let (g, offset) = (&p.geometry, rblock * p.geometry.rblock_bytes());
        let (channel, plane) = self.place(e, offset / g.wblock_bytes());
        let bytes = u64::from(g.rblock_bytes() * count);
        let first = self.unit(e, rblock);
        let units = first..first + u64::from(count);
        // A scan unit filters what passes on its channel.
        if r.step.sink == Sink::Dram
            && let Some(since) = r.buffer.holds(units.clone(), r.step.now.at + p.nand.read.as_ps())
        {
            r.did.buffered += 1;
            return r.step.now.with(Part::Media, r.step.now.at.max(since));
        }
        let page = (u64::from(e.raw()) * u64::from(g.eblock_bytes()) + u64::from(offset))
            / u64::from(self.page_bytes());
        let held = r.planes[plane].register.filter(|h| (h.step, h.page) == (r.step.number, page));
        let mut path = r.step.now;
        if self.overlap == Overlap::Phases {
            let round = &mut r.rounds[channel];
            if held.is_none() {
                if round.0 == p.geometry.ways() || path.at >= round.2 {
                    let begins = path.at.max(round.2);
                    *round = (0, begins, begins);
                }
                round.0 += 1;
            }
            path = path.with(Part::Bus, path.at.max(round.1));
        }
        path = r.on_bus(path, channel, p.bus.command.as_ps());
        // A read waits for its plane, or interrupts a program or an erasure there.
        let occupied = r.planes[plane];
        let interrupts = held.is_none() && p.nand.suspend && occupied.long && occupied.free > path.at;
        // A read that comes during another interruption waits for it.
        let suspend = if path.at < occupied.interrupted { 0 } else { p.nand.suspend_cost.as_ps() };
        let begins = match interrupts {
            true => occupied.interrupted.max(path.at + suspend),
            false => occupied.free.max(path.at),
        };
        let data = match held {
            Some(h) => h.since.max(path.at),
            None => begins + p.nand.read.as_ps(),
        };
        path = path.with(Part::Media, data);
        let transfer = p.bus.rate.time(bytes).as_ps();
        path = r.on_bus(path, channel, transfer);
        r.rounds[channel].2 = r.rounds[channel].2.max(path.at);
        let register = if p.nand.cache_read { data } else { path.at };
        let plane = &mut r.planes[plane];
        match held {
            // The register is occupied until its page is on the bus.
            Some(_) if p.nand.cache_read => {}
            Some(_) => {
                plane.busy += register - (path.at - transfer).max(plane.free).min(register);
                plane.free = plane.free.max(register);
            }
            None => {
                plane.busy += register - begins;
                match interrupts {
                    true => {
                        plane.free += register - begins + suspend;
                        plane.interrupted = register;
                    }
                    false => (plane.free, plane.long) = (register, false),
                }
                // The interrupted operation goes on, and uses the register.
                let held = RegisterPage { step: r.step.number, page, since: data };
                plane.register = Some(held).filter(|_| !interrupts);
                r.did.reads += 1;
            }
        }
        r.did.bus_bytes += bytes;
        match r.step.sink {
            Sink::Dram => {
                let path = r.through_dram(path, transfer, p.dram.rate, bytes);
                units.for_each(|u| r.buffer.read(u, path.at));
                path
            }
            Sink::ScanUnit => {
                // The scan unit filters each byte as it arrives.
                let looks = p.scan_unit.rate.time(bytes).as_ps();
                let begins = path.at.saturating_sub(transfer);
                let at = r.scan_units[channel].take(r.floor, begins, looks);
                r.did.scan_bytes += bytes;
                path.with(Part::Device, path.at.max(at + looks))
            }
        }
    }

    /// Programs WBLOCKs of an EBLOCK. The data may come from earlier reads of the step.
    pub fn program(&self, e: EblockId, first: u32, count: u32) {
        let p = &self.profile;
        let r = &mut *self.resources.lock();
        let bytes = u64::from(p.geometry.wblock_bytes());
        let mut latest = Path::default();
        r.programmed[e.raw() as usize] = true;
        for wblock in first..first + count {
            let (channel, plane) = self.place(e, wblock);
            let transfer = p.bus.command.as_ps() + p.bus.rate.time(bytes).as_ps();
            let mut path = r.step.now.later(r.step.read);
            // The data wait until the register is free.
            if !p.nand.cache_program {
                path = path.with(Part::Media, path.at.max(r.planes[plane].free));
            }
            path = r.on_bus(path, channel, transfer);
            path = r.through_dram(path, transfer, p.dram.rate, bytes);
            let units = p.geometry.wblock_bytes() / p.geometry.rblock_bytes();
            let first = self.unit(e, wblock * units);
            (first..first + u64::from(units)).for_each(|u| r.buffer.programmed(u, path.at));
            let begins = path.at.max(r.planes[plane].free);
            path = path.with(Part::Media, begins + p.nand.program.as_ps());
            let plane = &mut r.planes[plane];
            plane.busy += p.nand.program.as_ps();
            (plane.free, plane.long, plane.register) = (path.at, true, None);
            r.did.programs += 1;
            r.did.bus_bytes += bytes;
            latest = latest.later(path);
            r.ends(path);
        }
        r.step.last = latest;
    }

    /// Erases an EBLOCK on all its planes. If it is erased already, this takes no time.
    pub fn erase(&self, e: EblockId) {
        let p = &self.profile;
        let r = &mut *self.resources.lock();
        if !std::mem::take(&mut r.programmed[e.raw() as usize]) {
            return;
        }
        let (channel, _) = self.place(e, 0);
        let planes: Vec<usize> = match p.striped {
            true => (0..p.geometry.ways() * p.geometry.planes()).map(|w| self.place(e, w).1).collect(),
            false => vec![self.place(e, 0).1],
        };
        let mut latest = Path::default();
        for plane in planes {
            let path = r.on_bus(r.step.now, channel, p.bus.command.as_ps());
            let begins = path.at.max(r.planes[plane].free);
            let path = path.with(Part::Media, begins + p.nand.erase.as_ps());
            let plane = &mut r.planes[plane];
            plane.busy += p.nand.erase.as_ps();
            (plane.free, plane.long, plane.register) = (path.at, true, None);
            latest = latest.later(path);
            r.ends(path);
        }
        r.did.erases += 1;
        r.step.last = latest;
    }

    /// A core computes before the next operation.
    pub fn think(&self, cycles: u64) {
        let r = &mut *self.resources.lock();
        let path = r.compute(r.step.now, self.profile.cores.clock, cycles);
        r.step.now = path;
        r.ends(path);
    }

    /// A core computes after the last operation.
    pub fn compute(&self, cycles: u64) {
        let r = &mut *self.resources.lock();
        let path = r.compute(r.step.last, self.profile.cores.clock, cycles);
        r.ends(path);
    }

    /// As [`Model::compute`], for rows. With [`Overlap::Phases`] it begins after all reads of the step.
    pub fn compute_rows(&self, cycles: u64) {
        match self.overlap {
            Overlap::Pages => self.compute(cycles),
            Overlap::Phases => self.resources.lock().step.later.cycles += cycles,
        }
    }

    /// Charges the decompressor for `bytes` that it puts out, after the last operation. No bytes take no time.
    pub fn unpack(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let r = &mut *self.resources.lock();
        let time = self.profile.decompressor.rate.time(bytes).as_ps();
        let begins = r.decompressor.take(r.floor, r.step.last.at, time);
        let path = r.step.last.with(Part::Device, begins + time);
        r.ends(path);
    }

    /// Moves bytes into or out of the device's memory, after the last operation.
    pub fn dram(&self, bytes: u64) {
        let r = &mut *self.resources.lock();
        let path = r.through_dram(r.step.last, 0, self.profile.dram.rate, bytes);
        r.ends(path);
    }

    /// The host computes for a time, after the last operation.
    pub fn host(&self, time: VirtualDuration) {
        let r = &mut *self.resources.lock();
        let begins = r.host.take(r.floor, r.step.last.at, time.as_ps());
        let path = r.step.last.with(Part::Host, begins + time.as_ps());
        r.did.host_busy += time;
        r.ends(path);
    }

    /// Counts time that the host computed by its own clock, in parallel to commands or not.
    pub fn host_computes(&self, time: VirtualDuration) {
        self.resources.lock().did.host_busy += time;
    }

    /// The operations since the start.
    pub fn operations(&self) -> Operations {
        self.resources.lock().did
    }

    /// The latest end of any operation.
    pub fn latest(&self) -> VirtualTime {
        VirtualTime::from_ps(self.resources.lock().latest)
    }

    /// The busy times since the start, by kind of resource.
    pub fn busy(&self) -> Vec<BusyTime> {
        let r = self.resources.lock();
        let of = |name, busy: Vec<u64>| BusyTime {
            name,
            busy_ps: busy.iter().map(|&b| u128::from(b)).sum(),
            most_ps: busy.iter().copied().max().unwrap_or(0),
            parts: busy.len(),
        };
        let all = |c: &[Calendar]| c.iter().map(Calendar::busy).collect();
        let mut all_of_them = vec![
            of("planes", r.planes.iter().map(|p| p.busy).collect()),
            of("buses", all(&r.buses)),
            of("scan units", all(&r.scan_units)),
            of("cores", all(&r.cores)),
            of("device memory", vec![r.dram.busy()]),
            of("link to the host", vec![r.up.busy()]),
            of("link to the device", vec![r.down.busy()]),
        ];
        // Most devices never unpack anything.
        if r.decompressor.busy() > 0 {
            all_of_them.push(of("decompressor", vec![r.decompressor.busy()]));
        }
        all_of_them
    }

    /// The channel and the plane that a WBLOCK lies on.
    fn place(&self, e: EblockId, wblock: u32) -> (usize, usize) {
        let g = &self.profile.geometry;
        let channel = g.channel_of(e);
        let (way, plane) = match self.profile.striped {
            true => (wblock % g.ways(), wblock / g.ways() % g.planes()),
            false => {
                let die = e.raw() / g.channels();
                (die % g.ways(), die / g.ways() % g.planes())
            }
        };
        let die = channel * g.ways() + way;
        let plane = if self.profile.nand.multi_plane { die * g.planes() + plane } else { die };
        (channel as usize, plane as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(change: impl FnOnce(&mut Profile)) -> Profile {
        let mut p = Profile::find("isp-adms11").unwrap();
        change(&mut p);
        p
    }

    fn ps(ns: u64) -> u64 {
        ns * 1000
    }

    /// Begins a step at the end of a program of a WBLOCK. Returns that time.
    fn programmed(m: &Model, e: EblockId) -> u64 {
        m.begin(VirtualTime::ZERO);
        m.program(e, 0, 1);
        let end = m.end().0;
        m.begin(end);
        end.as_ps()
    }

    /// A page buffer of two read units.
    #[test]
    fn what_was_read_or_programmed_last_is_read_from_memory() {
        let p = profile(|p| p.dram.buffer_kb = 16);
        assert_eq!(p.geometry.rblock_bytes(), 8192);
        let m = Model::new(p.clone());
        let e = EblockId::new(9);
        let took = |unit: u32, sink: Sink| {
            let from = m.latest();
            m.begin(from);
            m.read_into(sink);
            m.read(e, 8192 * unit, 8192);
            m.end().0.as_ps() - from.as_ps()
        };
        let all = p.bus.command.as_ps() + p.nand.read.as_ps() + p.bus.rate.time(8192).as_ps();
        assert_eq!(took(0, Sink::Dram), all);
        assert_eq!((took(0, Sink::Dram), m.operations().buffered), (0, 1));
        // What passes the scan unit is read in any case, and is not kept.
        assert_eq!((took(0, Sink::ScanUnit), took(4, Sink::ScanUnit), took(4, Sink::Dram)), (all, all, all));
        // The third unit takes the place of the first.
        assert_eq!((took(5, Sink::Dram), took(4, Sink::Dram), took(0, Sink::Dram)), (all, 0, all));
        m.begin(m.latest());
        m.program(e, 1, 1);
        assert_eq!((took(1, Sink::Dram), m.operations().reads), (0, 6));
        let none = Model::new(profile(|_| {}));
        for _ in 0..2 {
            none.begin(none.latest());
            none.read(e, 0, 8192);
        }
        assert_eq!((none.operations().reads, none.operations().buffered), (2, 0));
    }

    /// 4 KB of a page, alone.
    #[test]
    fn a_read_takes_the_sum_of_its_parts_to_the_picosecond() {
        let p = profile(|_| {});
        let m = Model::new(p.clone());
        m.begin(VirtualTime::from_ps(77));
        m.command(0);
        m.read(EblockId::new(9), 8192 * 3 + 4096, 4096);
        m.up(4096);
        m.complete();
        let (end, split) = m.end();
        let link = p.link.command.as_ps() + p.link.up.time(4096).as_ps() + p.link.completion.as_ps();
        let core = p.cores.clock.time(p.cores.command_cycles.into()).as_ps();
        let bus = p.bus.command.as_ps() + p.bus.rate.time(8192).as_ps();
        assert_eq!(end.as_ps() - 77, link + core + bus + p.nand.read.as_ps());
        assert_eq!(split.of(Part::Media), p.nand.read);
        assert_eq!((split.of(Part::Bus).as_ps(), split.of(Part::Link).as_ps()), (bus, link));
        assert_eq!(split.total().as_ps(), end.as_ps() - 77);
        let did = m.operations();
        assert_eq!((did.reads, did.bus_bytes, did.up_bytes, did.dram_bytes), (1, 8192, 4096, 8192 + 4096));
    }

    /// Equation (1) with all of its phases: 8 pages of 8 ways, one after the other on their bus.
    #[test]
    fn the_ways_of_a_channel_read_side_by_side_and_share_its_bus() {
        let m = Model::new(profile(|p| p.bus.command = VirtualDuration::ZERO));
        m.begin(VirtualTime::ZERO);
        m.read_into(Sink::ScanUnit);
        m.read(EblockId::new(0), 0, 65_536);
        assert_eq!(m.end().0.as_ps(), ps(50_000 + 8 * 81_920));
        // The same amount from another channel takes the same time.
        m.read(EblockId::new(1), 0, 65_536);
        assert_eq!(m.end().0.as_ps(), ps(50_000 + 8 * 81_920));
        // The next pages of this channel: registers are free once they were read out.
        m.read(EblockId::new(0), 65_536, 65_536);
        assert_eq!(m.end().0.as_ps(), ps(50_000 + 16 * 81_920), "the array hides behind the bus");
        assert_eq!(m.operations().scan_bytes, 3 * 65_536);
    }

    #[test]
    fn within_a_lag_a_step_takes_what_is_free_before_the_latest_one() {
        let at = |us: u64| VirtualTime::ZERO + VirtualDuration::from_ns(us * 1000);
        let took = |m: &Model, us: u64, eblock: u32| {
            m.begin(at(us));
            m.command(100);
            m.read(EblockId::new(eblock), 0, 4096);
            m.answers(4096).0.since(at(us))
        };
        let alone = took(&Model::new(profile(|_| {})), 10, 1);
        let m = Model::new(profile(|_| {}));
        m.set_lag(VirtualDuration::from_ns(1_000_000));
        assert_eq!(took(&m, 900, 0), alone);
        assert_eq!(took(&m, 10, 1), alone, "nobody uses the bus, a core or the link at that time");
        assert!(took(&m, 10, 8) > alone, "the same bus");
        assert!(took(&m, 20, 0) > alone, "a plane is taken in the order of requests");
        took(&m, 5000, 1);
        assert_eq!(m.earliest(), at(4000));
    }

    /// Equations (1), (5), (3), one after the other.
    #[test]
    fn phases_add_up() {
        let m = Model::new(profile(|p| p.bus.command = VirtualDuration::ZERO)).with_overlap(Overlap::Phases);
        m.begin(VirtualTime::ZERO);
        m.read_into(Sink::ScanUnit);
        m.read(EblockId::new(0), 0, 4 * 65_536);
        m.read(EblockId::new(1), 0, 4 * 65_536);
        m.up(1000);
        m.compute_rows(500);
        let flash = ps(4 * (50_000 + 8 * 81_920));
        assert_eq!(m.end().0.as_ps(), flash, "rounds of all ways, channels side by side");
        m.complete();
        let p = m.profile();
        let rest = p.cores.clock.time(500) + p.link.up.time(1000) + p.link.completion;
        assert_eq!(m.end().0.as_ps(), flash + rest.as_ps());
        assert_eq!(m.end().1.total().as_ps(), m.end().0.as_ps());
    }

    /// 4 KB read units in pages of 16 KB: one tR a page and step, and one transfer for what lies together.
    #[test]
    fn a_step_reads_an_array_page_once() {
        for cached in [false, true] {
            let m = Model::new(profile(|p| {
                p.geometry = lode_base::Geometry::new(8, 8, 1, 4096, 32_768, 8 << 20, 1024).unwrap();
                p.bus.command = VirtualDuration::ZERO;
                p.nand.cache_read = cached;
                p.nand.page_bytes = 16_384;
            }));
            let unit = 40_960;
            let reads = |units: &[(u32, u32)]| {
                let (begin, before) = (m.latest(), m.operations());
                m.begin(begin);
                units.iter().for_each(|u| m.read(EblockId::new(0), u.0 * 4096, u.1 * 4096));
                let did = m.operations().since(&before);
                (m.end().0 - begin, did.reads, did.bus_bytes / 4096)
            };
            let took = |ns| VirtualDuration::from_ns(ns);
            assert_eq!(reads(&[(0, 1)]), (took(50_000 + unit), 1, 1));
            assert_eq!(reads(&[(0, 4)]), (took(50_000 + 4 * unit), 1, 4));
            assert_eq!(reads(&[(0, 1), (1, 1), (3, 1)]), (took(50_000 + 3 * unit), 1, 3), "one by one");
            // Two pages of a die, one after the other, the first's transfer beside the second's tR or before it; and of two
            // dies, side by side.
            let before = if cached { 50_000 } else { 50_000 + unit };
            assert_eq!(reads(&[(3, 2)]), (took(before + 50_000 + unit), 2, 2));
            assert_eq!(reads(&[(7, 2)]), (took(50_000 + 2 * unit), 2, 2));
            // Another page came in between; another step cannot use what this one read.
            assert_eq!(reads(&[(0, 1), (4, 1), (1, 1)]).1, 3);
            assert_eq!(reads(&[(1, 1)]), (took(50_000 + unit), 1, 1));
            let busy = m.busy();
            assert!(busy[0].most_ps <= m.latest().as_ps() && busy[1].most_ps <= m.latest().as_ps());
        }
    }

    #[test]
    fn reads_of_one_die_wait_for_each_other_and_a_cache_hides_the_bus() {
        for (cached, expected) in [(false, 2 * (50_000 + 81_920)), (true, 50_000 + 2 * 81_920)] {
            let m = Model::new(profile(|p| {
                p.bus.command = VirtualDuration::ZERO;
                p.nand.cache_read = cached;
            }));
            m.begin(VirtualTime::ZERO);
            for wblock in [0, 8] {
                m.read(EblockId::new(0), wblock * 8192, 8192);
            }
            assert_eq!(m.end().0.as_ps(), ps(expected), "cached: {cached}");
        }
    }

    #[test]
    fn a_read_waits_for_an_erasure_or_interrupts_it() {
        for suspend in [false, true] {
            let m = Model::new(profile(|p| {
                p.bus.command = VirtualDuration::ZERO;
                p.nand.suspend = suspend;
                p.nand.suspend_cost = VirtualDuration::from_ns(5_000);
            }));
            let before = programmed(&m, EblockId::new(0));
            m.erase(EblockId::new(0));
            assert_eq!(m.end().0.as_ps(), before + ps(1_500_000));
            m.begin(VirtualTime::from_ps(before));
            m.read(EblockId::new(0), 0, 8192);
            let waits = if suspend { 5_000 } else { 1_500_000 };
            assert_eq!(m.end().0.as_ps(), before + ps(waits + 50_000 + 81_920));
            // Another read of that die waits for the first, not for the bus alone.
            m.begin(VirtualTime::from_ps(before));
            m.read(EblockId::new(0), 65_536, 8192);
            assert_eq!(m.end().0.as_ps(), before + ps(waits + 2 * (50_000 + 81_920)));
            // The interrupted operation goes on.
            m.begin(VirtualTime::from_ps(before));
            m.program(EblockId::new(0), 8, 1);
            let free = if suspend { 1_500_000 + 5_000 } else { 1_500_000 } + 2 * (50_000 + 81_920);
            assert_eq!(m.end().0.as_ps(), before + ps(free + 81_920 + 200_000));
        }
    }

    #[test]
    fn programs_of_a_channel_overlap_and_reach_what_its_dies_take() {
        let p = profile(|p| p.bus.command = VirtualDuration::ZERO);
        let m = Model::new(p.clone());
        m.begin(VirtualTime::ZERO);
        m.program(EblockId::new(0), 0, 1024);
        let took = m.end().0.as_ps();
        // The bus is the least: 8 dies take 65,536 bytes each 200 us and the time to fill a register.
        let bus = p.bus.rate.time(1024 * 8192).as_ps();
        assert!(took >= bus && took < bus + bus / 100, "{took} against {bus}");
        assert_eq!(m.operations().programs, 1024);
    }

    #[test]
    fn what_a_step_waits_for_comes_before_what_it_asks_next() {
        let m = Model::new(profile(|p| p.bus.command = VirtualDuration::ZERO));
        m.begin(VirtualTime::ZERO);
        m.read(EblockId::new(0), 0, 8192);
        let first = m.end().0;
        m.wait();
        m.read(EblockId::new(1), 0, 8192);
        assert_eq!(m.end().0.as_ps(), 2 * first.as_ps());
        assert_eq!(m.end().1.total().as_ps(), m.end().0.as_ps());
        m.compute(1000);
        m.host(VirtualDuration::from_ns(10));
        let (end, split) = m.end();
        assert_eq!(
            (split.of(Part::Device), split.of(Part::Host).as_ps()),
            (VirtualDuration::from_ns(10_000), 10_000)
        );
        assert_eq!(split.total().as_ps(), end.as_ps());
    }

    /// Two steps that begin at the same time, simulated one after the other.
    #[test]
    fn whoever_is_ready_first_has_the_bus_first() {
        let m = Model::new(profile(|p| {
            p.bus.command = VirtualDuration::ZERO;
            p.striped = false;
        }));
        let before = programmed(&m, EblockId::new(0));
        m.erase(EblockId::new(0));
        m.read(EblockId::new(0), 0, 8192);
        m.begin(VirtualTime::from_ps(before));
        m.read(EblockId::new(8), 0, 8192);
        assert_eq!(m.end().0.as_ps(), before + ps(50_000 + 81_920));
    }

    #[test]
    fn what_was_never_programmed_is_erased() {
        let m = Model::new(profile(|_| {}));
        m.begin(VirtualTime::ZERO);
        m.erase(EblockId::new(3));
        assert_eq!((m.end().0, m.operations()), (VirtualTime::ZERO, Operations::default()));
        let before = programmed(&m, EblockId::new(3));
        m.erase(EblockId::new(3));
        m.erase(EblockId::new(3));
        assert_eq!((m.end().0.as_ps() - before, m.operations().erases), (ps(1_500_000 + 8 * 350), 1));
    }

    #[test]
    fn nothing_is_taken_more_than_all_of_the_time() {
        let m = Model::new(profile(|_| {}));
        for i in 0..200u64 {
            m.begin(VirtualTime::from_ps(i * 1000));
            m.command(100);
            m.read(EblockId::new((i * 7 % 64) as u32), (i * 8192 % (1 << 20)) as u32, 30_000);
            m.compute(500);
            m.up(30_000);
            m.complete();
        }
        let over = m.latest().as_ps() as f64;
        let shares: Vec<f64> = m.busy().iter().map(|b| b.most_ps as f64 / over).collect();
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
        assert!(shares.iter().any(|share| *share > 0.95), "{shares:?}");
        let energy = m.operations().energy(&m.profile().energy, VirtualDuration::from_ns(1_000_000_000));
        assert!((energy.reads - m.operations().reads as f64 * 4125e-9).abs() < 1e-12);
        assert!((energy.total() - energy.device() - energy.host_idle).abs() < 1e-12);
    }

    #[test]
    #[should_panic(expected = "begins behind")]
    fn whoever_is_furthest_behind_moves_next() {
        let m = Model::new(profile(|_| {}));
        m.begin(VirtualTime::from_ps(5));
        m.begin(VirtualTime::from_ps(4));
    }
}
