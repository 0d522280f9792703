//! Lode's side of the races: the drive in an image file, used directly.

use std::path::Path;
use std::time::Instant;

use lode_base::{EXTENT_PAGES, ExtentId, Geometry, Lpid, PageBuf};
use lode_command::{Align, Batch, Command, PageWrite, ReadRequest};
use lode_firmware::{Drive, DriveOptions, FirmwareError};

use super::case::{Contestant, Done};
use super::plain::{READS_AT_A_TIME, SOURCE_BYTES, Threads, noise};
use crate::drive_host::{DriveError, Host, nth};
use crate::random::Random;

/// Pages have 64 to 3,760 bytes, 1,912 on average: TPC-C pages of 4 KB, compressed (ELEOS, Table II).
const PAGE_BYTES: [u64; 2] = [64, 3760];
/// The number of pages in a batch: a megabyte on average.
const BATCH_PAGES: u64 = 548;
/// The number of batches in the ring of the recycled case.
const RING_BATCHES: u64 = 256;
/// The number of pages that the commits of one thread overwrite.
const COMMIT_PAGES: u64 = 4096;
/// The number of pages to read from.
const READ_PAGES: u64 = 65_536;
/// The capacity of a drive with much more space than is written.
const WIDE_BYTES: u64 = 64 << 30;
/// The capacity of a drive that is soon full. It has 256 EBLOCKs, of which the open and reserved ones are a small part.
const NARROW_BYTES: u64 = 2 << 30;
/// The filled share of the narrow drive.
const FILL: f64 = 0.8;

fn make(dir: &Path, capacity_bytes: u64) -> Result<Drive, DriveError> {
    let geometry = Geometry::file(capacity_bytes).map_err(FirmwareError::from)?;
    Ok(Drive::create_file(&dir.join("raw.lode"), geometry, DriveOptions::default(), 1)?)
}

/// The source of page contents and lengths.
struct Source {
    bytes: PageBuf,
    random: Random,
}

impl Source {
    fn new(seed: u64) -> Self {
        Self { bytes: PageBuf::copy_from(&noise(SOURCE_BYTES, seed)), random: Random(seed) }
    }

    /// A page of this length, with different bytes each time.
    fn page(&mut self, lpid: Lpid, len: u64, align: Align) -> PageWrite {
        let cells = (self.bytes.len() as u64 - len) / 64;
        let at = (self.random.below(cells) * 64) as usize;
        PageWrite { lpid, data: self.bytes.slice(at..at + len as usize), align }
    }

    fn small_page(&mut self, lpid: Lpid) -> PageWrite {
        let [least, most] = PAGE_BYTES;
        let len = least + self.random.below(most - least + 1);
        self.page(lpid, len, Align::Cell)
    }
}

/// Writes batches of a megabyte, one after the other.
struct Batches {
    host: Host,
    source: Source,
    extents: Vec<ExtentId>,
    next: u64,
    order: Order,
}

/// The order in which pages are written.
#[derive(Clone, Copy)]
enum Order {
    /// New pages.
    New,
    /// This many pages in a cycle.
    Ring(u64),
    /// Random pages out of this many.
    Random(u64),
}

impl Batches {
    fn new(drive: &Drive, order: Order) -> Result<Self, DriveError> {
        let mut host = Host::new(drive, 1)?;
        let extents = match order {
            Order::New => Vec::new(),
            Order::Ring(pages) | Order::Random(pages) => host.extents_for(pages)?,
        };
        Ok(Self { host, source: Source::new(4), extents, next: 0, order })
    }

    /// Writes the next batch and returns its bytes.
    fn batch(&mut self) -> Result<u64, DriveError> {
        let each = EXTENT_PAGES as u64;
        if matches!(self.order, Order::New) && self.next + BATCH_PAGES > self.extents.len() as u64 * each {
            self.extents.extend(self.host.extents_for(64 * each)?);
        }
        let mut writes: Vec<PageWrite> = Vec::with_capacity(BATCH_PAGES as usize);
        match self.order {
            Order::New | Order::Ring(_) => {
                for n in self.next..self.next + BATCH_PAGES {
                    writes.push(self.source.small_page(nth(&self.extents, n)));
                }
                self.next += BATCH_PAGES;
                if let Order::Ring(pages) = self.order {
                    self.next %= pages;
                }
            }
            Order::Random(pages) => {
                let mut picked: Vec<u64> =
                    (0..BATCH_PAGES).map(|_| self.source.random.below(pages)).collect();
                picked.sort_unstable();
                picked.dedup();
                writes.extend(picked.into_iter().map(|n| self.source.small_page(nth(&self.extents, n))));
            }
        }
        let bytes = writes.iter().map(|w| w.data.len() as u64).sum();
        self.host.write(Batch { writes, ..Batch::default() })?;
        Ok(bytes)
    }
}

impl Contestant for Batches {
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError> {
        let mut now = Instant::now();
        while now < end {
            done.bytes += self.batch()?;
            done.ops += 1;
            let before = std::mem::replace(&mut now, Instant::now());
            done.latencies.push(now - before);
        }
        Ok(())
    }
}

pub(super) fn append(dir: &Path, _: u32, _: u32) -> Result<Box<dyn Contestant>, DriveError> {
    Ok(Box::new(Batches::new(&make(dir, WIDE_BYTES)?, Order::New)?))
}

pub(super) fn overwrite(dir: &Path, _: u32, _: u32) -> Result<Box<dyn Contestant>, DriveError> {
    let drive = make(dir, WIDE_BYTES)?;
    let mut b = Batches::new(&drive, Order::Ring(RING_BATCHES * BATCH_PAGES))?;
    // Goes around three times, and until a checkpoint has freed the log written so far. From then on, EBLOCKs of
    // pages and of the log become free as fast as they are filled.
    let (mut batches, made) = (0, drive.info().checkpoints);
    while batches < 3 * RING_BATCHES || drive.info().checkpoints == made {
        b.batch()?;
        batches += 1;
    }
    Ok(Box::new(b))
}

/// A narrow drive in its steady state: it is overwritten at random until as many bytes were written as it has space.
pub(super) fn collecting(dir: &Path, _: u32, _: u32) -> Result<Box<dyn Contestant>, DriveError> {
    let drive = make(dir, NARROW_BYTES)?;
    let mean = (PAGE_BYTES[0] + PAGE_BYTES[1]) / 2;
    // Pages occupy cells of 64 bytes, so on average each page wastes half a cell.
    let pages = (drive.info().free_bytes as f64 * FILL) as u64 / (mean + 32) / BATCH_PAGES * BATCH_PAGES;
    let mut b = Batches::new(&drive, Order::Ring(pages))?;
    (0..pages / BATCH_PAGES).try_for_each(|_| b.batch().map(drop))?;
    b.order = Order::Random(pages);
    (0..NARROW_BYTES / (mean * BATCH_PAGES)).try_for_each(|_| b.batch().map(drop))?;
    Ok(Box::new(b))
}

/// Commits of one page each, with `depth` under way.
struct Commits {
    host: Host,
    source: Source,
    extents: Vec<ExtentId>,
    bytes: u64,
    depth: u32,
}

impl Contestant for Commits {
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError> {
        let mut now = Instant::now();
        while now < end {
            let mut commit = |i: u32| {
                // The pages under way at a time are different pages.
                let depth = u64::from(self.depth);
                let n = self.source.random.below(COMMIT_PAGES / depth) * depth + u64::from(i);
                let page = self.source.page(nth(&self.extents, n), self.bytes, Align::Cell);
                Command::Write(Batch { writes: vec![page], ..Batch::default() })
            };
            let commits = (0..self.depth).map(&mut commit).collect();
            self.host.run_all(commits)?;
            let before = std::mem::replace(&mut now, Instant::now());
            done.latencies.push(now - before);
            done.ops += u64::from(self.depth);
            done.bytes += u64::from(self.depth) * self.bytes;
        }
        Ok(())
    }
}

fn commits(dir: &Path, threads: u32, depth: u32, bytes: u64) -> Result<Box<dyn Contestant>, DriveError> {
    let drive = make(dir, WIDE_BYTES)?;
    let of = |i: u32| {
        let mut host = Host::new(&drive, depth)?;
        let extents = host.extents_for(COMMIT_PAGES)?;
        let mut source = Source::new(u64::from(i) + 5);
        let pages = (0..COMMIT_PAGES).map(|n| source.page(nth(&extents, n), bytes, Align::Cell));
        host.write(Batch { writes: pages.collect(), ..Batch::default() })?;
        Ok(Commits { host, source, extents, bytes, depth })
    };
    Ok(Box::new(Threads((0..threads).map(of).collect::<Result<_, DriveError>>()?)))
}

pub(super) fn commits_of_100(
    dir: &Path,
    threads: u32,
    depth: u32,
) -> Result<Box<dyn Contestant>, DriveError> {
    commits(dir, threads, depth, 100)
}

pub(super) fn commits_of_4096(
    dir: &Path,
    threads: u32,
    depth: u32,
) -> Result<Box<dyn Contestant>, DriveError> {
    commits(dir, threads, depth, 4096)
}

/// Reads random pages, `depth` per command.
struct Reads {
    host: Host,
    extents: Vec<ExtentId>,
    random: Random,
    depth: u64,
}

impl Contestant for Reads {
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError> {
        let mut now = Instant::now();
        while now < end {
            for _ in 0..READS_AT_A_TIME / self.depth {
                let lpid = |_| nth(&self.extents, self.random.below(READ_PAGES));
                let pages = (0..self.depth).map(lpid).map(|lpid| ReadRequest { lpid, range: None }).collect();
                let reply = self.host.run(Command::Read { view: None, pages })?;
                std::hint::black_box(&reply);
            }
            done.bytes += READS_AT_A_TIME * 4096;
            let before = std::mem::replace(&mut now, Instant::now());
            done.latencies.push((now - before) / READS_AT_A_TIME as u32);
            done.ops += READS_AT_A_TIME;
        }
        Ok(())
    }
}

pub(super) fn reads(dir: &Path, threads: u32, depth: u32) -> Result<Box<dyn Contestant>, DriveError> {
    let drive = make(dir, WIDE_BYTES)?;
    let (mut host, mut source) = (Host::new(&drive, 1)?, Source::new(6));
    let extents = host.extents_for(READ_PAGES)?;
    for first in (0..READ_PAGES).step_by(256) {
        let page = |n| source.page(nth(&extents, n), 4096, Align::ReadUnit);
        host.write(Batch { writes: (first..first + 256).map(page).collect(), ..Batch::default() })?;
    }
    // Reads everything once, so that the file and its tags are cached.
    (0..READ_PAGES).try_for_each(|n| host.read(nth(&extents, n)).map(drop))?;
    let of = |i| {
        Ok(Reads {
            host: Host::new(&drive, 1)?,
            extents: extents.clone(),
            random: Random(i),
            depth: depth.into(),
        })
    };
    Ok(Box::new(Threads((0..u64::from(threads)).map(of).collect::<Result<_, DriveError>>()?)))
}
