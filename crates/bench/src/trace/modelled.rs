//! Runs requests on a modelled drive as on a conventional SSD: blocks of 4 KB, and a command per request.
//!
//! ```text
//!   request ─► blocks ─► LPIDs ─► read command, or batch of its own (a trim, too) ─► held ─► queue ─► when it ended
//! ```
//!
//! A submitted request is held until it could be the next one to end. Every command takes at least the time of the
//! link and of a core, so a request that is submitted within that time cannot end earlier. So requests that shortly
//! follow the answers to other requests reach the drive together, as on a real drive. The writes among them share a
//! group of the log. (This is the lookahead of Chandy and Misra, IEEE TSE 1979.)
//!
//! A request for a part of a block is extended to the whole block. A block that was never written is not read. A
//! flush has nothing to do, because a write is durable when it ends.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, OwnerId, PageBuf, Profile, VirtualDuration, VirtualTime};
use lode_command::{
    Align, Batch, Command, CommandError, Device, Outcome, PageWrite, Queue, ReadRequest, Reply, Until,
};
use lode_firmware::{Drive, DriveInfo, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::{Model, Operations};
use serde::{Serialize, Serializer};

use super::replay::{Busy, Completion, Tag, Target};
use super::{Op, Request, TraceTime};
use crate::drive_host::{DriveError, alone, nth};
use crate::random::Random;

/// The size of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// The number of blocks per batch while the drive is filled.
const FILL_BLOCKS: u64 = 256;
/// There is at least one byte of log between two checkpoints per this many bytes of the device. This matters from 2
/// TB on.
const LOG_SHARE: u64 = 1 << 15;
/// The most extents that a drive allocates at a time.
const ALLOCATED_MAX: u64 = 1 << 20;
/// The capacity that is offered as blocks, in percent of what an empty drive can hold. Pages in flight and the
/// growing mapping need the rest.
const OFFERED_PERCENT: u64 = 90;

/// The part of the blocks that is kept in memory. The choice changes neither the time of requests nor their effect on
/// the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keeps {
    /// The written bytes.
    Blocks,
    /// Only metadata, not the bytes: for drives that are larger than memory.
    #[default]
    MetadataOnly,
}

/// A conventional drive on a modelled device.
pub struct ModelledDrive {
    drive: Drive,
    model: Arc<Model>,
    queue: Box<dyn Queue>,
    extents: Vec<ExtentId>,
    written: Vec<u64>,
    block: PageBuf,
    blocks: u64,
    /// The time at which the requests begin. The next fields are the device's counters at that time.
    begin: VirtualTime,
    before: Operations,
    busy_before: Vec<u128>,
    info_before: DriveInfo,
    /// The number of blocks in reads that were never written.
    unwritten_blocks_read: u64,
    depth: usize,
    /// The submitted requests that were not yet given to the drive, in the order of their times.
    held: VecDeque<(VirtualTime, Tag, Command)>,
    /// The tags of the requests that were given to the drive last.
    given: Vec<Tag>,
    out: Vec<lode_command::Completion>,
    /// The ended requests that were not yet returned.
    ended: BinaryHeap<Reverse<Ended>>,
}

/// An ended request.
struct Ended {
    at: VirtualTime,
    /// Orders requests that end at the same time: the one that was given to the drive first comes first.
    given: u64,
    tag: Tag,
    outcome: Result<(), Box<CommandError>>,
}

impl Ended {
    fn key(&self) -> (VirtualTime, u64) {
        (self.at, self.given)
    }
}

impl Ord for Ended {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Ended {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ended {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ended {}

/// What the device did for the requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeviceReport {
    /// The capacity that the drive offers.
    pub capacity_bytes: u64,
    /// Blocks of 4 KB in reads that were never written, so they were not read from flash.
    pub unwritten_blocks_read: u64,
    /// Bytes programmed per byte written: pages, log, checkpoints and GC.
    pub write_amplification: Option<f64>,
    pub array_reads: u64,
    pub programs: u64,
    pub erasures: u64,
    pub gc_bytes_moved: u64,
    /// The share of all programmed bytes that GC moved.
    pub gc_share: Option<f64>,
    /// The erase count of the least worn erase unit, since the drive was new.
    pub erase_count_min: u32,
    /// The erase count of the most worn one.
    pub erase_count_max: u32,
    /// The energy by use, in joules, without the host's.
    #[serde(serialize_with = "as_map")]
    pub energy_j: Vec<(&'static str, f64)>,
    /// The total energy, in joules.
    pub energy_j_total: f64,
}

fn as_map<S: Serializer>(parts: &[(&'static str, f64)], s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(parts.iter().copied())
}

impl ModelledDrive {
    /// Makes a new drive on the device of a profile. It takes at most `depth` requests at a time.
    ///
    /// # Errors
    /// If such a drive is not possible.
    pub fn new(
        profile: Profile,
        keeps: Keeps,
        options: DriveOptions,
        depth: u32,
    ) -> Result<Self, DriveError> {
        let model = Arc::new(Model::new(profile));
        let medium = match keeps {
            Keeps::Blocks => Medium::memory(model.profile().geometry),
            Keeps::MetadataOnly => Medium::metadata_only(model.profile().geometry),
        };
        let medium = medium.with_model(model.clone());
        // Each checkpoint of a large drive writes a lot for its tables, so checkpoints must be rarer.
        let checkpoint_log_bytes =
            options.checkpoint_log_bytes.max(medium.geometry().capacity_bytes() / LOG_SHARE);
        let drive = Drive::format(medium, DriveOptions { checkpoint_log_bytes, ..options })?;
        let info = drive.info();
        let blocks = info.usable_bytes / BLOCK_BYTES * OFFERED_PERCENT / 100;
        let mut it = Self {
            queue: drive.open_queue(depth)?,
            model,
            extents: Vec::new(),
            written: vec![0; blocks.div_ceil(64) as usize],
            block: PageBuf::copy_from(&[0x5A; BLOCK_BYTES as usize]),
            blocks,
            begin: VirtualTime::ZERO,
            before: Operations::default(),
            busy_before: Vec::new(),
            info_before: info,
            unwritten_blocks_read: 0,
            depth: depth as usize,
            held: VecDeque::new(),
            given: Vec::new(),
            out: Vec::new(),
            ended: BinaryHeap::new(),
            drive,
        };
        let all = blocks.div_ceil(EXTENT_PAGES as u64);
        while (it.extents.len() as u64) < all {
            let count = (all - it.extents.len() as u64).min(ALLOCATED_MAX) as u32;
            let Reply::Extents(extents) =
                it.alone(Command::AllocateExtents { owner: OwnerId::new(1), count })?
            else {
                unreachable!("extents were asked for")
            };
            it.extents.extend(extents);
        }
        it.begin_here();
        Ok(it)
    }

    /// The capacity that it offers, in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// The bytes that [`Self::precondition`] fills, from the first block on.
    pub fn filled_bytes(&self, percent: u32) -> u64 {
        self.filled(percent) * BLOCK_BYTES
    }

    fn filled(&self, percent: u32) -> u64 {
        self.blocks * u64::from(percent.min(100)) / 100
    }

    /// Preconditions the drive: it writes the first `percent` of the blocks in order, then overwrites as many blocks
    /// at random, `times` times. After each batch, `stop` gets the number of blocks written and the total.
    ///
    /// # Errors
    /// If the drive fails, or `stop` returns true.
    pub fn precondition(
        &mut self,
        percent: u32,
        times: f64,
        seed: u64,
        stop: &dyn Fn(u64, u64) -> bool,
    ) -> Result<(), DriveError> {
        self.precondition_blocks(self.filled(percent), times, seed, stop)
    }

    /// As [`ModelledDrive::precondition`], with the number of blocks to fill.
    ///
    /// # Errors
    /// If the drive fails, or `stop` returns true.
    ///
    /// # Panics
    /// If the drive offers fewer blocks.
    pub fn precondition_blocks(
        &mut self,
        filled: u64,
        times: f64,
        seed: u64,
        stop: &dyn Fn(u64, u64) -> bool,
    ) -> Result<(), DriveError> {
        assert!(filled <= self.blocks, "{filled} blocks are to be filled, and there are {}", self.blocks);
        let overwrites = (filled as f64 * times) as u64 / FILL_BLOCKS;
        let all = filled + overwrites * FILL_BLOCKS;
        let go_on = |done: u64| if stop(done.min(all), all) { Err(DriveError::Stopped) } else { Ok(()) };
        for first in (0..filled).step_by(FILL_BLOCKS as usize) {
            let writes = (first..filled.min(first + FILL_BLOCKS)).map(|b| self.write(b)).collect();
            self.alone(Command::Write(Batch { writes, ..Batch::default() }))?;
            go_on(first + FILL_BLOCKS)?;
        }
        self.mark(0..filled, true);
        let mut random = Random(seed);
        for n in 1..=overwrites {
            let mut blocks: Vec<u64> = (0..FILL_BLOCKS).map(|_| random.below(filled)).collect();
            blocks.sort_unstable();
            blocks.dedup();
            let writes = blocks.into_iter().map(|b| self.write(b)).collect();
            self.alone(Command::Write(Batch { writes, ..Batch::default() }))?;
            go_on(filled + n * FILL_BLOCKS)?;
        }
        self.begin_here();
        Ok(())
    }

    /// Begins the time of the requests when all earlier work is done.
    fn begin_here(&mut self) {
        self.begin = self.model.latest();
        self.before = self.model.operations();
        self.busy_before = self.model.busy().iter().map(|b| b.busy_ps).collect();
        self.info_before = self.drive.info();
    }

    fn alone(&self, c: Command) -> Result<Reply, DriveError> {
        alone(&self.drive, &self.model, c)
    }

    fn lpid(&self, block: u64) -> Lpid {
        nth(&self.extents, block)
    }

    fn write(&self, block: u64) -> PageWrite {
        PageWrite { lpid: self.lpid(block), data: self.block.clone(), align: Align::Cell }
    }

    fn is_written(&self, block: u64) -> bool {
        self.written[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Marks blocks as written or not written.
    fn mark(&mut self, blocks: Range<u64>, written: bool) {
        for b in blocks {
            let (word, bit) = (&mut self.written[(b / 64) as usize], 1 << (b % 64));
            *word = if written { *word | bit } else { *word & !bit };
        }
    }

    /// Makes the command of a request. Its blocks count as written from now on.
    fn command(&mut self, r: &Request) -> Command {
        let first = r.offset / BLOCK_BYTES;
        let blocks = first..(r.offset + r.len).div_ceil(BLOCK_BYTES).max(first);
        match r.op {
            Op::Read => {
                let count = blocks.end - blocks.start;
                let mapped = blocks.filter(|&b| self.is_written(b));
                let pages: Vec<_> = mapped.map(|b| ReadRequest { lpid: self.lpid(b), range: None }).collect();
                self.unwritten_blocks_read += count - pages.len() as u64;
                Command::Read { view: None, pages }
            }
            Op::Write => {
                let writes = blocks.clone().map(|b| self.write(b)).collect();
                self.mark(blocks, true);
                Command::Write(Batch { writes, ..Batch::default() })
            }
            Op::Trim => {
                // A trim of a part of a block keeps the block.
                let whole = r.offset.div_ceil(BLOCK_BYTES)..(r.offset + r.len) / BLOCK_BYTES;
                let trims = whole.clone().filter(|&b| self.is_written(b)).map(|b| self.lpid(b)).collect();
                self.mark(whole, false);
                Command::Write(Batch { trims, ..Batch::default() })
            }
            Op::Flush => Command::Write(Batch::default()),
        }
    }

    /// Gives all held requests to the drive and takes the completions.
    fn carry_out(&mut self) -> Result<(), DriveError> {
        self.given.clear();
        let mut first = None;
        for (at, tag, command) in self.held.drain(..) {
            let given = self.queue.submit(at, command);
            let given = given.map_err(|_| CommandError::Invalid("the queue is full".into()))?;
            first.get_or_insert(given.0);
            self.given.push(tag);
        }
        // The end of each request is known as soon as the drive has run it.
        self.queue.complete(VirtualTime::NEVER, Until::Ready, &mut self.out)?;
        let first = first.unwrap_or_default();
        for c in self.out.drain(..) {
            // The queue's tags are consecutive.
            let tag = self.given[(c.tag.0 - first) as usize];
            let outcome = match c.outcome {
                Outcome::Done(done) => done.map(drop).map_err(Box::new),
                Outcome::Unit(_) => unreachable!("no task was submitted"),
            };
            self.ended.push(Reverse(Ended { at: c.at, given: c.tag.0, tag, outcome }));
        }
        Ok(())
    }

    /// What the device did for the requests so far.
    pub fn report(&self) -> DeviceReport {
        let (did, info) = (self.model.operations().since(&self.before), self.drive.info());
        let wblock = u64::from(self.model.profile().geometry.wblock_bytes());
        let programmed = did.programs * wblock;
        let written = info.user_bytes_written - self.info_before.user_bytes_written;
        let moved = info.gc_bytes_moved - self.info_before.gc_bytes_moved;
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        let over: VirtualDuration = self.model.latest().since(self.begin);
        let energy = did.energy(&self.model.profile().energy, over);
        DeviceReport {
            capacity_bytes: self.capacity_bytes(),
            unwritten_blocks_read: self.unwritten_blocks_read,
            write_amplification: ratio(programmed, written),
            array_reads: did.reads,
            programs: did.programs,
            erasures: did.erases,
            gc_bytes_moved: moved,
            gc_share: ratio(moved, programmed),
            erase_count_min: info.erase_counts.0,
            erase_count_max: info.erase_counts.1,
            energy_j: energy.parts().into_iter().filter(|(name, _)| !name.starts_with("host")).collect(),
            energy_j_total: energy.device(),
        }
    }
}

impl Target for ModelledDrive {
    type Error = DriveError;

    fn submit(&mut self, at: TraceTime, tag: Tag, r: &Request) -> Result<(), DriveError> {
        if self.held.len() + self.ended.len() >= self.depth {
            return Err(CommandError::Invalid("the queue is full".into()).into());
        }
        let command = self.command(r);
        self.held.push_back((self.begin + VirtualDuration::from_ps(at.as_ps()), tag, command));
        Ok(())
    }

    fn complete(&mut self, until: Option<TraceTime>) -> Result<Option<Completion<DriveError>>, DriveError> {
        let until = until.map(|t| self.begin + VirtualDuration::from_ps(t.as_ps()));
        let least = self.model.command_time_min();
        while let Some(first) = self.held.front().map(|h| h.0 + least)
            && until.is_none_or(|until| first <= until)
            && self.ended.peek().is_none_or(|Reverse(e)| first < e.at)
        {
            self.carry_out()?;
        }
        let in_time = |e: &Ended| until.is_none_or(|until| e.at <= until);
        if !self.ended.peek().is_some_and(|Reverse(e)| in_time(e)) {
            return Ok(None);
        }
        let Some(Reverse(Ended { at, tag, outcome, .. })) = self.ended.pop() else { return Ok(None) };
        let at = TraceTime::from_ps(at.since(self.begin).as_ps());
        Ok(Some(Completion { tag, at, outcome: outcome.map_err(|e| (*e).into()) }))
    }

    fn busy(&self) -> Vec<Busy> {
        let over = u128::from(self.model.latest().since(self.begin).as_ps());
        let of = self.model.busy().into_iter().zip(&self.busy_before);
        of.map(|(b, before)| Busy {
            resource: b.name.into(),
            busy_ps: b.busy_ps - before,
            of_ps: over * b.parts as u128,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::replay::{Pace, Report, replay};
    use super::super::synthetic::{Pattern, Shape, Synthetic};
    use super::*;

    /// The profile of a small drive of the paper's device, with small command overheads.
    fn profile() -> Profile {
        let mut p = Profile::find("isp-adms11").unwrap();
        p.geometry = lode_base::Geometry::new(8, 8, 1, 8192, 8192, 1 << 20, 512).unwrap();
        p.cores.command_cycles = 100;
        p.link.queue_depth = 64;
        p
    }

    fn drive(fill: u32, overwrites: f64) -> ModelledDrive {
        let mut d = ModelledDrive::new(profile(), Keeps::default(), DriveOptions::default(), 64).unwrap();
        d.precondition(fill, overwrites, 7, &|_, _| false).unwrap();
        d
    }

    fn run(d: &mut ModelledDrive, read_percent: u8, requests: u64, depth: u32) -> Report {
        let shape = Shape {
            pattern: Pattern::Uniform,
            read_percent,
            block_bytes: BLOCK_BYTES,
            region_bytes: d.capacity_bytes() / 2,
            requests,
            interval: TraceTime::ZERO,
        };
        let pace = Pace::Closed { depth: NonZeroU32::new(depth).unwrap() };
        replay(Synthetic::new(shape, 3).unwrap().map(Ok), pace, d, &|| false).unwrap()
    }

    #[test]
    fn reads_one_by_one_take_the_sum_of_their_parts_each() {
        let mut d = drive(60, 0.0);
        let p = profile();
        let report = run(&mut d, 100, 500, 1);
        let latency = report.reads.latency.unwrap();
        let core = p.cores.clock.time(u64::from(p.cores.command_cycles))
            + p.cores.clock.time(u64::from(p.cores.lookup_cycles));
        let bus = p.bus.command + p.bus.rate.time(8192);
        let down = p.link.command + p.link.down.time(80);
        let up = p.link.up.time(4096) + p.link.up.time(16) + p.link.completion;
        let expected = (down + core + bus + p.nand.read + up).as_ps();
        assert_eq!((latency.min_ps, latency.max_ps), (expected, expected));
    }

    #[test]
    fn many_reads_at_a_time_come_near_what_the_buses_give_and_are_the_same_twice() {
        let report = run(&mut drive(60, 0.0), 100, 20_000, 64);
        let p = profile();
        let most = 8.0 / (p.bus.command + p.bus.rate.time(8192)).as_secs_f64();
        let got = report.reads.iops.unwrap();
        println!("{got:.0} of {most:.0} reads a second");
        assert!(got > 0.75 * most && got <= most, "{got} of {most}");
        assert_eq!(report, run(&mut drive(60, 0.0), 100, 20_000, 64));
    }

    #[test]
    fn writes_to_a_full_drive_pay_for_gc() {
        let (mut empty, mut full) = (drive(0, 0.0), drive(95, 1.0));
        let (fresh, steady) = (run(&mut empty, 0, 4000, 16), run(&mut full, 0, 4000, 16));
        let (a, b) = (empty.report(), full.report());
        println!(
            "{:?} {:?}, {:?} {:?}",
            fresh.writes.iops, a.write_amplification, steady.writes.iops, b.write_amplification
        );
        assert!(a.gc_bytes_moved == 0 && b.gc_bytes_moved > 0 && b.erasures > 0);
        assert!(fresh.writes.iops > steady.writes.iops);
        assert!(b.write_amplification > a.write_amplification && b.gc_share.unwrap() > 0.1);
        assert!(b.energy_j.iter().any(|e| e.0 == "erasures" && e.1 > 0.0));
        assert_eq!(steady.all.requests, 4000);
    }

    #[test]
    fn what_was_never_written_or_was_trimmed_takes_no_reading() {
        let mut d = drive(10, 0.0);
        let ask = |d: &mut ModelledDrive, op, block: u64, len| {
            let request = Request { at: TraceTime::ZERO, op, offset: block * BLOCK_BYTES, len, line: 1 };
            let before = d.model.operations().reads;
            let pace = Pace::Closed { depth: NonZeroU32::MIN };
            d.begin_here();
            replay([Ok(request)], pace, d, &|| false).unwrap();
            d.model.operations().reads - before
        };
        assert_eq!(ask(&mut d, Op::Read, 0, 4096), 1);
        let last = d.blocks - 1;
        assert_eq!(ask(&mut d, Op::Read, last, 4096), 0);
        ask(&mut d, Op::Trim, 0, 8192);
        assert_eq!(ask(&mut d, Op::Read, 0, 8192), 0);
        ask(&mut d, Op::Write, 0, 512);
        ask(&mut d, Op::Flush, 0, 0);
        assert_eq!(
            ask(&mut d, Op::Read, 0, 4096),
            1,
            "a request for a part of a block reads the whole block"
        );
    }
}
