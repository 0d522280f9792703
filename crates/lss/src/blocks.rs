//! The host's side of a block interface: writes in packets of a few blocks, each a separate command.
//!
//! ```text
//!   write(lba, blocks) ─► packets of up to 15 blocks ─► LPID = 1,024 + LBA ─► a batch each ─► device
//!                         one after the other, or `in_flight` at a time
//! ```
//!
//! The drive's own block interface (`firmware::block`) uses the same commands, so it can read a drive that was
//! written here. Only commands pass through, so the drive may be in the process, modelled, or behind a socket. A
//! packet is atomic, and durable when its command ends; the packets of one write are not atomic together.
//!
//! Source: ELEOS §IX-C, footnote 5: the largest packet is 65,532 bytes, so a write of 1 MB becomes 17 packets, and "a
//! write context needs to be created per each packet".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::{EXTENT_PAGES, Lpid, OwnerId, PageBuf, VirtualDuration};
use lode_command::{
    Align, Batch, Command, CommandError, Completion, Device, Outcome, PageWrite, Queue, ReadRequest, Reply,
    Until,
};
use parking_lot::Mutex;

use crate::{Clock, LssError};

/// The size of a block.
pub const BLOCK_BYTES: usize = 4096;
/// The largest packet of the paper's transport, with its header. A packet carries 15 whole blocks.
const PACKET_BYTES: usize = 65_532;
/// The header of a packet.
const PACKET_HEADER_BYTES: usize = 20;
/// The number of blocks in a packet.
pub const PACKET_BLOCKS: u32 = ((PACKET_BYTES - PACKET_HEADER_BYTES) / BLOCK_BYTES) as u32;

/// The owner of all blocks: the same as in the drive's own block interface.
const OWNER: OwnerId = OwnerId::new(u32::MAX - 1);
/// The number of extents that one command allocates.
const EXTENTS_STEP: u64 = 1 << 16;
/// The most reads under way at a time.
const READS_IN_FLIGHT: u32 = 32;
/// The number of blocks that one command trims.
const TRIM_BLOCKS: u64 = EXTENT_PAGES as u64;
/// The most idle queues that are kept.
const IDLE_QUEUES_MAX: usize = 16;

/// How the host uses a drive of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// The number of blocks in a packet of a write. ELEOS has 15.
    pub packet_blocks: u32,
    /// The most packets of one write that are under way at a time. ELEOS has 1.
    pub in_flight: u32,
    /// The time of the host's CPU that a command costs on a modelled device.
    pub command_cost: VirtualDuration,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self { packet_blocks: PACKET_BLOCKS, in_flight: 1, command_cost: VirtualDuration::ZERO }
    }
}

/// Counts of the traffic through the block interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Commands of any kind.
    pub commands: u64,
    /// Packets written.
    pub packets: u64,
    /// Bytes of blocks written.
    pub bytes_written: u64,
    /// Bytes of blocks read.
    pub bytes_read: u64,
}

/// A drive of 4 KB blocks, over any device.
pub struct Blocks {
    device: Arc<dyn Device>,
    options: BlockOptions,
    capacity: u64,
    idle: Mutex<Vec<Box<dyn Queue>>>,
    commands: AtomicU64,
    packets: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
}

impl Blocks {
    /// Opens the first `capacity` blocks of a device that holds nothing else. Missing blocks are allocated.
    ///
    /// # Errors
    /// If the device holds something else, or fails.
    pub fn new(
        device: Arc<dyn Device>,
        capacity: u64,
        options: BlockOptions,
        clock: &mut Clock,
    ) -> Result<Self, LssError> {
        if options.packet_blocks == 0 || options.in_flight == 0 {
            return Err(LssError::Options {
                what: "`packet_blocks` and `in_flight` must not be zero".into(),
            });
        }
        let zero = || AtomicU64::new(0);
        let (commands, packets, written, read) = (zero(), zero(), zero(), zero());
        let it = Self { device, options, capacity, idle: Mutex::default(), commands, packets, written, read };
        let Reply::ExtentList(found) = it.run(clock, Command::ListExtents)? else {
            return Err(LssError::damaged("the drive does not list its extents"));
        };
        let ours = found.iter().enumerate().all(|(i, e)| e.owner == OWNER && e.extent.raw() == i as u64);
        if !ours {
            return Err(LssError::damaged("the drive holds something other than blocks"));
        }
        let needed = 1 + capacity.div_ceil(EXTENT_PAGES as u64);
        let mut have = found.len() as u64;
        while have < needed {
            let count = (needed - have).min(EXTENTS_STEP) as u32;
            let Reply::Extents(e) = it.run(clock, Command::AllocateExtents { owner: OWNER, count })? else {
                return Err(LssError::damaged("the drive does not answer with the allocated extents"));
            };
            if !e.iter().zip(have..).all(|(e, n)| e.raw() == n) {
                return Err(LssError::damaged("the drive does not allocate extents in order: others use it"));
            }
            have += e.len() as u64;
        }
        Ok(it)
    }

    /// The number of blocks.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The device that holds the blocks.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The counts so far.
    pub fn counts(&self) -> BlockCounts {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        BlockCounts {
            commands: of(&self.commands),
            packets: of(&self.packets),
            bytes_written: of(&self.written),
            bytes_read: of(&self.read),
        }
    }

    /// Writes blocks from `lba` on, in packets. On return all blocks are durable. After an error, any of the packets
    /// may be durable.
    ///
    /// # Errors
    /// The error of the first packet that failed.
    pub fn write(&self, clock: &mut Clock, lba: u64, blocks: Vec<PageBuf>) -> Result<(), CommandError> {
        assert!(lba + blocks.len() as u64 <= self.capacity, "blocks beyond the drive");
        let packet = self.options.packet_blocks as usize;
        self.packets.fetch_add(blocks.len().div_ceil(packet) as u64, Ordering::Relaxed);
        self.written.fetch_add((blocks.len() * BLOCK_BYTES) as u64, Ordering::Relaxed);
        let mut blocks = blocks.into_iter().zip(lba..);
        let packets = std::iter::from_fn(|| {
            let page = |(data, lba): (PageBuf, u64)| {
                assert_eq!(data.len(), BLOCK_BYTES, "a block of another size");
                PageWrite { lpid: lpid(lba), data, align: Align::ReadUnit }
            };
            let writes: Vec<PageWrite> = blocks.by_ref().take(packet).map(page).collect();
            (!writes.is_empty()).then(|| Command::Write(Batch { writes, ..Batch::default() }))
        });
        self.run_all(clock, packets, self.options.in_flight, |_, _| ())
    }

    /// Writes blocks at any places, each with its own command.
    ///
    /// # Errors
    /// The error of the first command that failed.
    pub fn write_each(&self, clock: &mut Clock, blocks: Vec<(u64, PageBuf)>) -> Result<(), CommandError> {
        self.packets.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        self.written.fetch_add((blocks.len() * BLOCK_BYTES) as u64, Ordering::Relaxed);
        let command = |(lba, data)| {
            let page = PageWrite { lpid: lpid(lba), data, align: Align::ReadUnit };
            Command::Write(Batch { writes: vec![page], ..Batch::default() })
        };
        self.run_all(clock, blocks.into_iter().map(command), self.options.in_flight, |_, _| ())
    }

    /// Reads ranges of blocks, each with its own command. A range that contains a block that was never written, or
    /// was trimmed, is `None`.
    ///
    /// # Errors
    /// The error of the first command that failed.
    pub fn read(
        &self,
        clock: &mut Clock,
        ranges: &[(u64, u32)],
    ) -> Result<Vec<Option<Vec<PageBuf>>>, CommandError> {
        let blocks: u64 = ranges.iter().map(|r| u64::from(r.1)).sum();
        self.read.fetch_add(blocks * BLOCK_BYTES as u64, Ordering::Relaxed);
        let mut found: Vec<Option<Vec<PageBuf>>> = vec![None; ranges.len()];
        let command = |&(lba, count): &(u64, u32)| {
            let request = |lba| ReadRequest { lpid: lpid(lba), range: None };
            Command::Read { view: None, pages: (lba..lba + u64::from(count)).map(request).collect() }
        };
        self.run_all(clock, ranges.iter().map(command), READS_IN_FLIGHT, |at, reply| {
            if let Reply::Pages(pages) = reply {
                found[at] = Some(pages);
            }
        })?;
        Ok(found)
    }

    /// Tells the drive that blocks are no longer needed.
    ///
    /// # Errors
    /// The error of the first command that failed.
    pub fn trim(&self, clock: &mut Clock, lba: u64, count: u64) -> Result<(), CommandError> {
        let end = lba + count;
        let command = |from| {
            let trims = (from..end.min(from + TRIM_BLOCKS)).map(lpid).collect();
            Command::Write(Batch { trims, ..Batch::default() })
        };
        let commands = (lba..end).step_by(TRIM_BLOCKS as usize).map(command);
        self.run_all(clock, commands, self.options.in_flight, |_, _| ())
    }

    fn run(&self, clock: &mut Clock, command: Command) -> Result<Reply, CommandError> {
        let mut got = None;
        self.run_all(clock, std::iter::once(command), 1, |_, reply| got = Some(reply))?;
        got.ok_or_else(|| CommandError::Medium("the drive answered nothing".into()))
    }

    /// Runs commands, at most `in_flight` at a time. It does not call `each` for a read of an unmapped page.
    fn run_all(
        &self,
        clock: &mut Clock,
        mut commands: impl Iterator<Item = Command>,
        in_flight: u32,
        mut each: impl FnMut(usize, Reply),
    ) -> Result<(), CommandError> {
        let gone = |e: lode_command::DeviceError| CommandError::Medium(e.to_string());
        let idle = self.idle.lock().pop();
        let mut queue = match idle {
            Some(queue) => queue,
            None => {
                let depth =
                    self.options.in_flight.max(READS_IN_FLIGHT).min(self.device.identity().queue_depth_max);
                self.device.open_queue(depth).map_err(gone)?
            }
        };
        let (mut first, mut sent, mut under_way, mut failed) = (None, 0, 0, None);
        let mut out: Vec<Completion> = Vec::with_capacity(in_flight as usize);
        loop {
            while under_way < in_flight
                && failed.is_none()
                && let Some(command) = commands.next()
            {
                clock.computes(self.options.command_cost);
                let tag = queue.submit(clock.now(), command).expect("the queue has room");
                // The tags of a queue are consecutive.
                first.get_or_insert(tag.0);
                (sent, under_way) = (sent + 1, under_way + 1);
            }
            if under_way == 0 {
                break;
            }
            queue.complete(clock.now(), Until::One, &mut out).map_err(gone)?;
            for c in out.drain(..) {
                under_way -= 1;
                clock.waits(c.at, &c.split);
                match c.outcome {
                    Outcome::Done(Ok(reply)) => each((c.tag.0 - first.unwrap_or(c.tag.0)) as usize, reply),
                    Outcome::Done(Err(CommandError::Unmapped(_))) => {}
                    Outcome::Done(Err(e)) => failed = failed.or(Some(e)),
                    Outcome::Unit(_) => unreachable!("no task was sent"),
                }
            }
        }
        self.commands.fetch_add(sent, Ordering::Relaxed);
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_QUEUES_MAX {
            idle.push(queue);
        }
        failed.map_or(Ok(()), Err)
    }
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blocks({} of {})", self.capacity, self.device.identity().model)
    }
}

/// The page that holds a block.
fn lpid(lba: u64) -> Lpid {
    Lpid::from_raw(EXTENT_PAGES as u64 + lba).expect("an LBA was checked against the capacity")
}
