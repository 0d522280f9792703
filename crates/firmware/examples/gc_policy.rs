//! A GC policy of one's own, in a drive, beside those that Lode has.
//!
//! ```text
//!   DChoices (this file) ─► GcPolicy::custom ─► DriveOptions::gc_policy ─► Drive ─► random overwrites ─► write amplification
//! ```
//!
//! The policy looks at `d` candidates that it draws at random, and takes the one of which most is available. With d = 1
//! that is random choice; with d above 10 it comes close to greedy, and need not look at every EBLOCK.
//!
//! `cargo run --release -p lode-firmware --example gc_policy -- [MEGABYTES] [SEED]`
//!
//! Source: Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid state drives"
//! (SIGMETRICS 2013).

use std::error::Error;

use lode_base::random::Random;
use lode_base::{EXTENT_PAGES, ExtentId, Geometry, OwnerId, PageBuf, VirtualTime};
use lode_command::{Align, Batch, Command, Device, Outcome, PageWrite, Queue, Reply, Until};
use lode_firmware::gc::{Choice, GcView, Policy};
use lode_firmware::{Drive, DriveOptions, GcPolicy, POLICIES};
use lode_flash::Medium;

/// Of `d` candidates that are drawn at random, the one of which most is available.
struct DChoices {
    d: u32,
    random: Random,
}

impl Policy for DChoices {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        let count = view.candidates.len() as u64;
        if count == 0 {
            return Choice::Decline;
        }
        let drawn = (0..self.d).map(|_| &view.candidates[self.random.below(count) as usize]);
        let most = drawn.max_by_key(|c| c.available_bytes);
        most.map_or(Choice::Decline, |c| Choice::empty(c.eblock))
    }
}

/// The policy as an option of a drive: each drive that is opened has one of its own, which begins with `seed`.
fn d_choices(name: &'static str, d: u32, seed: u64) -> GcPolicy {
    GcPolicy::custom(name, move || DChoices { d, random: Random(seed) })
}

/// What is run.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// Bytes of the drive, which is in memory.
    pub(crate) capacity_bytes: u64,
    /// Bytes of an EBLOCK.
    pub(crate) eblock_bytes: u32,
    /// How often its pages are overwritten in all; the second half is measured.
    pub(crate) overwrites: u64,
    /// Where all that is random begins.
    pub(crate) seed: u64,
}

const PAGE_BYTES: u32 = 4096;
const BATCH_PAGES: u64 = 64;
/// Of what the drive takes at most, so much is filled.
const FILL_PERCENT: u64 = 80;

/// One queue of a drive, and the pages that are written through it.
struct Host {
    queue: Box<dyn Queue>,
    extents: Vec<ExtentId>,
}

impl Host {
    fn new(drive: &Drive, pages: u64) -> Result<Self, Box<dyn Error>> {
        let mut host = Self { queue: drive.open_queue(1)?, extents: Vec::new() };
        let count = pages.div_ceil(EXTENT_PAGES as u64) as u32;
        match host.run(Command::AllocateExtents { owner: OwnerId::new(1), count })? {
            Reply::Extents(extents) => host.extents = extents,
            other => unreachable!("{other:?} answers no allocation"),
        }
        Ok(host)
    }

    fn run(&mut self, command: Command) -> Result<Reply, Box<dyn Error>> {
        let mut out = Vec::new();
        self.queue.submit(VirtualTime::ZERO, command).expect("the queue has room");
        self.queue.complete(VirtualTime::ZERO, Until::One, &mut out)?;
        match out.pop().expect("a command was submitted").outcome {
            Outcome::Done(reply) => Ok(reply?),
            Outcome::Unit(_) => unreachable!("no task was submitted"),
        }
    }

    /// Writes pages, each once, in one batch.
    fn write(&mut self, mut pages: Vec<u64>) -> Result<(), Box<dyn Error>> {
        pages.sort_unstable();
        pages.dedup();
        let each = EXTENT_PAGES as u64;
        let data = PageBuf::copy_from(&[7; PAGE_BYTES as usize]);
        let write = |n: u64| PageWrite {
            lpid: self.extents[(n / each) as usize].page((n % each) as u16),
            data: data.clone(),
            align: Align::ReadUnit,
        };
        let writes = pages.into_iter().map(write).collect();
        self.run(Command::Write(Batch { writes, ..Batch::default() })).map(drop)
    }
}

/// Bytes that host and GC write for each byte of the host, under uniform random overwrites.
fn write_amplification(setup: &Setup, policy: &GcPolicy) -> Result<f64, Box<dyn Error>> {
    let eblocks = (setup.capacity_bytes / u64::from(setup.eblock_bytes)) as u32;
    let geometry = Geometry::new(1, 1, 1, PAGE_BYTES, PAGE_BYTES, setup.eblock_bytes, eblocks)?;
    let options = DriveOptions { gc_policy: policy.clone(), ..DriveOptions::default() };
    let drive = Drive::format(Medium::memory(geometry), options)?;
    let pages = drive.info().usable_bytes * FILL_PERCENT / 100 / u64::from(PAGE_BYTES);
    let mut host = Host::new(&drive, pages)?;
    for first in (0..pages).step_by(BATCH_PAGES as usize) {
        host.write((first..pages.min(first + BATCH_PAGES)).collect())?;
    }
    let mut random = Random(setup.seed);
    let mut overwrite = |host: &mut Host, batches: u64| {
        (0..batches).try_for_each(|_| host.write((0..BATCH_PAGES).map(|_| random.below(pages)).collect()))
    };
    let half = (pages * setup.overwrites / 2).div_ceil(BATCH_PAGES);
    overwrite(&mut host, half)?;
    let before = drive.info();
    overwrite(&mut host, half)?;
    let after = drive.info();
    let written = (after.user_bytes_written - before.user_bytes_written) as f64;
    let moved = (after.gc_bytes_moved - before.gc_bytes_moved) as f64;
    Ok((written + moved) / written)
}

/// The write amplification of each policy, ours and Lode's.
pub(crate) fn run(setup: &Setup) -> Result<Vec<(&'static str, f64)>, Box<dyn Error>> {
    let own = [("1-choice", 1), ("2-choices", 2), ("10-choices", 10)];
    let own = own.into_iter().map(|(name, d)| d_choices(name, d, setup.seed));
    let all = own.chain(POLICIES.iter().map(GcPolicy::from));
    all.map(|policy| Ok((policy.name(), write_amplification(setup, &policy)?))).collect()
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |or: u64| args.next().map_or(Ok(or), |arg| arg.parse::<u64>());
    let capacity_bytes = number(128)? << 20;
    let setup = Setup { capacity_bytes, eblock_bytes: 1 << 20, overwrites: 8, seed: number(1)? };
    println!("{:<18} write amplification", "policy");
    for (name, amplification) in run(&setup)? {
        println!("{name:<18} {amplification:>19.3}");
    }
    Ok(())
}
