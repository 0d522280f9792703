//! The systems that the paper compares, and three of ours: one drive, and seven ways to write to it.
//!
//! ```text
//!   batch, variable size    pages as they are ─────────────────────────► batches ─► drive
//!   batch, fixed size       each page padded to 4 KB, at a read unit ──► batches ─► drive
//!   block                   log-structured store in the host, pages of 4 KB ─► packets of 15 blocks, one by one ─► drive
//!   block, packed           the same with pages of any size packed into its segments
//!   block, pipelined        packed, packets side by side, and cleaning by cost and benefit: the best of blocks
//!   block, page by page     no store: a page is a block, written in place, a command each
//!   block, in sequence      no store, always the next blocks: the highest rate of the block interface
//! ```
//!
//! All systems have the same medium, firmware and options. The device may be in the process, modelled, or behind a
//! socket.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use lode_base::{ExtentId, Geometry, Lpid, PageBuf, Profile, VirtualDuration, VirtualTime};
use lode_command::{
    Align, Batch, Command, CommandError, Device, Outcome, PageWrite, Queue, ReadRequest, Reply, Until,
};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::timing::Model;
use lode_flash::{Medium, Power};
use lode_lss::{BLOCK_BYTES, BlockOptions, Blocks, Cleaning, Clock, Lss, LssError, LssOptions};
use lode_remote::{ClientOptions, RemoteDevice, Server, ServerOptions};

use super::pages::Page;
use crate::drive_host::{DriveError, nth};

/// The number of packets of a write of 1 MB that the pipelined host has under way.
const IN_FLIGHT: u32 = 18;
/// The share of the drive that a store on blocks takes, as in `BlockDrive`. The drive needs the rest for its own
/// cleaning.
const STORE_EIGHTHS: u64 = 7;

/// A way to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Batches of pages of any size.
    BatchVariable,
    /// Batches of pages of 4 KB.
    BatchFixed,
    /// A log-structured store above blocks, as in the paper.
    Block,
    /// The same store with packed pages.
    BlockPacked,
    /// The best store above blocks that we can make.
    BlockPipelined,
    /// Pages in place, each a command.
    BlockPages,
    /// Blocks in sequence.
    BlockSequence,
}

impl System {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchVariable => "Batch (VP)",
            Self::BatchFixed => "Batch (FP)",
            Self::Block => "Block",
            Self::BlockPacked => "Block, packed",
            Self::BlockPipelined => "Block, pipelined",
            Self::BlockPages => "Block, page by page",
            Self::BlockSequence => "Block, in sequence",
        }
    }

    /// Whether each page takes 4 KB, however full it is.
    pub fn whole_pages(self) -> bool {
        matches!(self, Self::BatchFixed | Self::Block | Self::BlockPages | Self::BlockSequence)
    }

    fn has_store(self) -> bool {
        matches!(self, Self::Block | Self::BlockPacked | Self::BlockPipelined)
    }
}

/// The setup on which the systems run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device. Its time is modelled if `modelled` is set.
    pub profile: Profile,
    /// Whether there is modelled time.
    pub modelled: bool,
    /// Erase units of the device.
    pub eblock_count: u32,
    /// Bytes of an erase unit.
    pub eblock_bytes: u32,
    /// Pages that may be written.
    pub pages: u64,
    /// Blocks of a segment of the store.
    pub segment_blocks: u32,
    /// Whether the store cleans and writes checkpoints when they are due. The drive always does both.
    pub store_cleans: bool,
    /// Whether the power of the device may be cut.
    pub power: bool,
    /// Whether host and drive communicate over TCP, on the loopback.
    pub loopback: bool,
}

/// The cost of a recovery.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// The time of the drive's recovery, in modelled time.
    pub drive: VirtualDuration,
    /// The time of the recovery of the store in the host, in modelled time.
    pub store: VirtualDuration,
    /// Bytes that the drive read from its medium, including the store's reads.
    pub media_bytes_read: u64,
    /// Records of the drive's log that were replayed.
    pub log_records: u64,
    /// Units of the store's log that were replayed.
    pub units: u64,
}

/// A system with its drive.
pub struct Rig {
    /// The system.
    pub system: System,
    drive: Drive,
    model: Option<Arc<Model>>,
    power: Option<Power>,
    queue: Option<Box<dyn Queue>>,
    lss: Option<Lss>,
    blocks: Option<Blocks>,
    extents: Vec<ExtentId>,
    block_options: BlockOptions,
    store_options: LssOptions,
    store_blocks: u64,
    loopback: bool,
    command_cost: VirtualDuration,
    now: VirtualTime,
    next_lba: u64,
    /// The server of a drive on the loopback. It ends when its clients have ended.
    server: Option<Server>,
}

/// Serves a drive on the loopback, and connects to it.
fn over_loopback(drive: &Drive) -> Result<(Server, RemoteDevice), DriveError> {
    let gone = |what: String| DriveError::Device(lode_command::DeviceError::Gone(what));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| gone(e.to_string()))?;
    let begin = Instant::now();
    let options = ServerOptions::new(Arc::new(move || begin.elapsed()));
    let opening = drive.info().open_epoch.into();
    let served = Server::start(listener, Arc::new(drive.clone()), opening, Vec::new(), options);
    let server = served.map_err(|e| gone(e.to_string()))?;
    let options = ClientOptions::new(Arc::new(std::thread::sleep));
    let device =
        RemoteDevice::connect(&server.addr().to_string(), options).map_err(|e| gone(e.to_string()))?;
    Ok((server, device))
}

fn store_error(e: LssError) -> DriveError {
    match e {
        LssError::Command(e) => e.into(),
        LssError::Device(e) => e.into(),
        e => CommandError::Medium(e.to_string()).into(),
    }
}

/// The firmware's options. They are the same for all systems. The log has one copy, as in ELEOS. GC begins when a
/// tenth of the device is free (section IX-C2). It does not begin earlier to keep an image file short.
pub fn drive_options() -> DriveOptions {
    DriveOptions {
        log_copies: 1,
        space_percent_max: u32::MAX,
        erased_kept: u32::MAX,
        ..DriveOptions::default()
    }
}

impl Rig {
    /// A new system.
    ///
    /// # Errors
    /// When there is no such drive.
    pub fn new(system: System, setup: &Setup) -> Result<Self, DriveError> {
        let g = &setup.profile.geometry;
        let geometry = Geometry::new(
            g.channels(),
            g.ways(),
            g.planes(),
            g.rblock_bytes(),
            g.wblock_bytes(),
            setup.eblock_bytes,
            setup.eblock_count,
        )?;
        let profile = Profile { geometry, ..setup.profile.clone() };
        let (command, page) = match setup.modelled {
            true => (profile.host.command, profile.host.join),
            false => (VirtualDuration::ZERO, VirtualDuration::ZERO),
        };
        let model = setup.modelled.then(|| Arc::new(Model::new(profile)));
        let (medium, power) = match setup.power {
            true => {
                let (medium, power) = Medium::with_power(geometry);
                (medium, Some(power))
            }
            false => (Medium::memory(geometry), None),
        };
        let medium = match &model {
            Some(model) => medium.with_model(model.clone()),
            None => medium,
        };
        let drive = Drive::format(medium, drive_options())?;
        let pipelined = system == System::BlockPipelined;
        let block_options = BlockOptions {
            in_flight: if pipelined || system == System::BlockSequence { IN_FLIGHT } else { 1 },
            command_cost: command,
            ..BlockOptions::default()
        };
        let store_options = LssOptions {
            segment_blocks: setup.segment_blocks,
            whole_blocks: system.whole_pages(),
            cleaning: if pipelined { Cleaning::CostBenefit } else { Cleaning::OldestWhole },
            free_percent: if setup.store_cleans { 10 } else { 0 },
            checkpoint_bytes: setup.store_cleans.then_some(64 << 20),
            page_cost: page,
            ..LssOptions::default()
        };
        let store_blocks = drive.info().free_bytes / 8 * STORE_EIGHTHS / BLOCK_BYTES as u64;
        let now = model.as_ref().map_or(VirtualTime::ZERO, |m| m.latest());
        let mut it = Self {
            system,
            drive,
            model,
            power,
            queue: None,
            lss: None,
            blocks: None,
            extents: Vec::new(),
            block_options,
            store_options,
            store_blocks,
            loopback: setup.loopback,
            command_cost: command,
            now,
            next_lba: 0,
            server: None,
        };
        it.attach(true)?;
        if it.queue.is_some() {
            it.allocate(setup.pages)?;
        }
        Ok(it)
    }

    /// Makes the layers between host and drive, or opens them again.
    fn attach(&mut self, new: bool) -> Result<(), DriveError> {
        let device: Arc<dyn Device> = match self.loopback {
            true => {
                let (server, device) = over_loopback(&self.drive)?;
                self.server = Some(server);
                Arc::new(device)
            }
            false => Arc::new(self.drive.clone()),
        };
        let (capacity, blocks, mut clock) = (self.store_blocks, self.block_options, Clock::at(self.now));
        match self.system {
            s if s.has_store() => {
                let options = self.store_options.clone();
                let lss = match new {
                    true => Lss::format(device, capacity, blocks, options, 7, &mut clock),
                    false => Lss::open(device, capacity, blocks, options, &mut clock),
                };
                let lss = lss.map_err(store_error)?;
                self.queue = Some(lss.open_queue(1)?);
                self.lss = Some(lss);
            }
            System::BlockPages | System::BlockSequence => {
                self.blocks = Some(Blocks::new(device, capacity, blocks, &mut clock).map_err(store_error)?);
            }
            _ => self.queue = Some(device.open_queue(1)?),
        }
        self.now = clock.now();
        Ok(())
    }

    fn allocate(&mut self, pages: u64) -> Result<(), DriveError> {
        let count = pages.div_ceil(lode_base::EXTENT_PAGES as u64) as u32;
        let owner = lode_base::OwnerId::new(1);
        match self.run(Command::AllocateExtents { owner, count })? {
            Reply::Extents(extents) => self.extents = extents,
            other => unreachable!("{other:?} answers no allocation"),
        }
        Ok(())
    }

    /// The time of a modelled device.
    pub fn now(&self) -> VirtualTime {
        self.now
    }

    /// Adds time that the host computes.
    pub fn computes(&mut self, time: VirtualDuration) {
        self.now += time;
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The store in the host, if there is one.
    pub fn store(&self) -> Option<&Lss> {
        self.lss.as_ref()
    }

    /// Runs one command and waits for its answer.
    fn run(&mut self, c: Command) -> Result<Reply, DriveError> {
        // A store charges the cost of its commands itself.
        if self.lss.is_none() {
            self.now += self.command_cost;
        }
        let queue = self.queue.as_mut().expect("a system of batches");
        queue.submit(self.now, c).expect("the queue is empty");
        let mut out = Vec::with_capacity(1);
        queue.complete(self.now, Until::One, &mut out)?;
        let c = out.pop().expect("a command was under way");
        self.now = self.now.max(c.at);
        match c.outcome {
            Outcome::Done(reply) => Ok(reply?),
            Outcome::Unit(_) => unreachable!("no task was submitted"),
        }
    }

    /// The LPID of page `n`.
    pub fn lpid(&self, n: u64) -> Lpid {
        nth(&self.extents, n)
    }

    /// Writes a buffer of pages with distinct numbers `n`. They are durable on return.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn write(&mut self, pages: &[(u64, &Page)]) -> Result<(), DriveError> {
        match self.system {
            System::BlockPages => {
                let blocks = pages.iter().map(|(n, p)| (*n, p.whole.clone())).collect();
                let mut clock = Clock::at(self.now);
                self.blocks.as_ref().expect("a system of blocks").write_each(&mut clock, blocks)?;
                self.now = clock.now();
                Ok(())
            }
            System::BlockSequence => {
                let blocks = self.blocks.as_ref().expect("a system of blocks");
                if self.next_lba + pages.len() as u64 > blocks.capacity() / 2 {
                    self.next_lba = 0;
                }
                let mut clock = Clock::at(self.now);
                blocks.write(
                    &mut clock,
                    self.next_lba,
                    pages.iter().map(|(_, p)| p.whole.clone()).collect(),
                )?;
                self.next_lba += pages.len() as u64;
                self.now = clock.now();
                Ok(())
            }
            _ => {
                let fixed = self.system == System::BatchFixed;
                let page = |(n, p): &(u64, &Page)| {
                    let (data, align) = match fixed {
                        true => (p.whole.clone(), Align::ReadUnit),
                        false if self.system.whole_pages() => (p.whole.clone(), Align::Cell),
                        false => (p.packed.clone(), Align::Cell),
                    };
                    PageWrite { lpid: self.lpid(*n), data, align }
                };
                let writes = pages.iter().map(page).collect();
                self.run(Command::Write(Batch { writes, ..Batch::default() })).map(drop)
            }
        }
    }

    /// Writes a buffer of pages of any contents, for a host that maps pages itself.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn write_batch(&mut self, writes: Vec<(u64, PageBuf)>) -> Result<(), DriveError> {
        let align = if self.system == System::BatchFixed { Align::ReadUnit } else { Align::Cell };
        let page = |(n, data): (u64, PageBuf)| PageWrite { lpid: self.lpid(n), data, align };
        let writes = writes.into_iter().map(page).collect();
        self.run(Command::Write(Batch { writes, ..Batch::default() })).map(drop)
    }

    /// Reads a page.
    ///
    /// # Errors
    /// When the page is missing, or the drive fails.
    pub fn read(&mut self, n: u64) -> Result<PageBuf, DriveError> {
        let lpid = self.lpid(n);
        match self.run(Command::Read { view: None, pages: vec![ReadRequest { lpid, range: None }] })? {
            Reply::Pages(mut pages) if pages.len() == 1 => Ok(pages.remove(0)),
            other => unreachable!("{other:?} answers no read"),
        }
    }

    /// Cuts the power after this many operations of the medium from now on.
    pub fn cut_after(&self, operations: u64) {
        self.power.as_ref().expect("a device whose power may be cut").cut_after(operations);
    }

    /// Whether the power was cut.
    pub fn is_cut(&self) -> bool {
        self.power.as_ref().is_some_and(Power::is_cut)
    }

    /// Recovers after the power was cut. `seed` decides which unsynced writes survive.
    ///
    /// # Errors
    /// When recovery fails.
    pub fn recover(&mut self, seed: u64) -> Result<Recovered, DriveError> {
        (self.queue, self.lss, self.blocks) = (None, None, None);
        let restored = self.power.as_ref().expect("a device whose power may be cut").restored(seed);
        let (medium, power) = restored.map_err(lode_firmware::FirmwareError::from)?;
        let model = self.model.as_ref().map(|m| Arc::new(Model::new(m.profile().clone())));
        let medium = match &model {
            Some(model) => medium.with_model(model.clone()),
            None => medium,
        };
        self.drive = Unrecovered::new(medium, drive_options()).recover()?;
        (self.power, self.model) = (Some(power), model);
        self.now = self.model.as_ref().map_or(VirtualTime::ZERO, |m| m.latest());
        let drive = self.now.since(VirtualTime::ZERO);
        let log_records = self.drive.info().recovery.log_records;
        self.attach(false)?;
        Ok(Recovered {
            drive,
            store: self.now.since(VirtualTime::ZERO + drive),
            media_bytes_read: self.drive.info().media_bytes_read,
            log_records,
            units: self.lss.as_ref().map_or(0, |l| l.info().replayed_units),
        })
    }

    /// Writes a checkpoint of the drive, and of the store if there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn checkpoint(&mut self) -> Result<(), DriveError> {
        self.run(Command::Checkpoint)?;
        if self.lss.is_some() {
            let mut queue = self.drive.open_queue(1)?;
            queue.submit(self.now, Command::Checkpoint).expect("the queue is empty");
            let mut out = Vec::new();
            queue.complete(self.now, Until::One, &mut out)?;
            self.now = self.now.max(out.pop().expect("a command was under way").at);
        }
        Ok(())
    }
}
