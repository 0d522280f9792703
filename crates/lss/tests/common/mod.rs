//! What the tests share: a host that speaks to a device, and drives for blocks.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::sync::Arc;

use lode_base::{CommitNo, ExtentId, Geometry, Lpid, OwnerId, PageBuf, ViewId, VirtualTime};
use lode_command::{
    Align, Batch, Command, CommandError, Device, Outcome, PageWrite, ReadRequest, Reply, Until,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_lss::{BlockOptions, Cleaning, Clock, Lss, LssError, LssOptions};

/// Blocks of the drives of these tests.
pub const BLOCKS: u64 = 2 + 32 * 32;

pub fn drive_options() -> DriveOptions {
    DriveOptions { checkpoint_log_bytes: 200 << 10, erased_kept: 2, ..DriveOptions::default() }
}

pub fn geometry() -> Geometry {
    Geometry::new(2, 1, 1, 4096, 4096, 256 << 10, 64).unwrap()
}

pub fn drive() -> Drive {
    Drive::format(Medium::memory(geometry()), drive_options()).unwrap()
}

/// Small segments, so that they are cleaned.
pub fn options(cleaning: Cleaning, whole_blocks: bool) -> LssOptions {
    LssOptions {
        segment_blocks: 32,
        whole_blocks,
        cleaning,
        checkpoint_bytes: Some(400 << 10),
        views_max: 4,
        ..LssOptions::default()
    }
}

pub fn format(d: &Drive, blocks: BlockOptions, options: LssOptions) -> Lss {
    Lss::format(Arc::new(d.clone()), BLOCKS, blocks, options, 99, &mut Clock::default()).unwrap()
}

pub fn open(d: &Drive, blocks: BlockOptions, options: LssOptions) -> Result<Lss, LssError> {
    Lss::open(Arc::new(d.clone()), BLOCKS, blocks, options, &mut Clock::default())
}

pub fn run(d: &dyn Device, c: Command) -> Result<Reply, CommandError> {
    let mut q = d.open_queue(1).unwrap();
    q.submit(VirtualTime::ZERO, c).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    match out.pop().unwrap().outcome {
        Outcome::Done(r) => r,
        Outcome::Unit(_) => panic!("a unit of no scan"),
    }
}

pub fn write(d: &dyn Device, batch: Batch) -> Result<(CommitNo, Option<ViewId>), CommandError> {
    match run(d, Command::Write(batch))? {
        Reply::Committed { commit, view } => Ok((commit, view)),
        r => panic!("{r:?}"),
    }
}

pub fn page(lpid: Lpid, data: &[u8]) -> PageWrite {
    PageWrite { lpid, data: PageBuf::copy_from(data), align: Align::Cell }
}

/// The page, or `None` when it is not mapped.
pub fn get(d: &dyn Device, view: Option<ViewId>, lpid: Lpid) -> Option<Vec<u8>> {
    match run(d, Command::Read { view, pages: vec![ReadRequest { lpid, range: None }] }) {
        Ok(Reply::Pages(mut p)) => Some(p.remove(0).to_vec()),
        Err(CommandError::Unmapped(_)) => None,
        r => panic!("{r:?}"),
    }
}

pub fn open_view(d: &dyn Device) -> (ViewId, CommitNo) {
    match run(d, Command::OpenView) {
        Ok(Reply::View { view, commit }) => (view, commit),
        r => panic!("{r:?}"),
    }
}

pub fn close_view(d: &dyn Device, view: ViewId) {
    run(d, Command::CloseView(view)).unwrap();
}

pub fn allocate(d: &dyn Device, owner: u32, count: u32) -> Vec<ExtentId> {
    match run(d, Command::AllocateExtents { owner: OwnerId::new(owner), count }) {
        Ok(Reply::Extents(e)) => e,
        r => panic!("{r:?}"),
    }
}

/// Numbers that only a seed decides (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let seed = self.next();
        (0..len).map(|i| (seed.rotate_left(i as u32 % 61) as u8) ^ (i as u8)).collect()
    }
}
