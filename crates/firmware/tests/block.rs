//! The block interface, held against a vector of bytes: ranges, zeroes, power cuts between and within commands,
//! reads beside writes.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{Random, run, sound};
use lode_base::{Geometry, OwnerId, PageBuf};
use lode_command::{Command, CommandError};
use lode_firmware::{BlockDrive, BlockError, BlockOptions, Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;

fn geometry(rblock: u32, eblocks: u32) -> Geometry {
    Geometry::new(1, 1, 1, rblock, rblock, 1 << 20, eblocks).unwrap()
}

fn options() -> DriveOptions {
    DriveOptions { map_cache_bytes: 40 << 10, checkpoint_log_bytes: 200 << 10, ..DriveOptions::default() }
}

fn make(geometry: Geometry, block_bytes: u32, capacity_blocks: u64) -> BlockDrive {
    let drive = Drive::format(Medium::memory(geometry), options()).unwrap();
    let capacity_blocks = Some(capacity_blocks);
    BlockDrive::make(drive, BlockOptions { block_bytes, capacity_blocks }).unwrap()
}

/// Blocks that say where and when they were written.
fn blocks(lba: u64, count: u64, block_bytes: u32, stamp: u64) -> PageBuf {
    let block = |at: u64| (0..block_bytes as u64 / 16).flat_map(move |i| [at ^ (i << 40), stamp]);
    PageBuf::from_values(&(lba..lba + count).flat_map(block).collect::<Vec<u64>>())
}

/// What every block holds.
struct Oracle {
    random: Random,
    block_bytes: u64,
    bytes: Vec<u8>,
    stamp: u64,
}

/// A command that changes blocks: which, and what they become.
enum Change {
    Write { lba: u64, data: PageBuf },
    Trim { lba: u64, count: u64 },
}

impl Oracle {
    fn new(seed: u64, d: &BlockDrive) -> Self {
        let block_bytes = u64::from(d.block_bytes());
        let bytes = vec![0; (d.capacity_blocks() * block_bytes) as usize];
        Self { random: Random(seed), block_bytes, bytes, stamp: 0 }
    }

    /// Up to `max` blocks that lie on the drive; often near an end of it or of an extent.
    fn range(&mut self, max: u64) -> (u64, u64) {
        let capacity = self.bytes.len() as u64 / self.block_bytes;
        let lba = match self.random.below(6) {
            0 => 0,
            1 => capacity - 1 - self.random.below(capacity.min(4)),
            2 => 1024u64.saturating_sub(self.random.below(4)).min(capacity - 1),
            _ => self.random.below(capacity),
        };
        (lba, (1 + self.random.below(max)).min(capacity - lba))
    }

    fn change(&mut self) -> Change {
        self.stamp += 1;
        match self.random.below(5) {
            0 => {
                let (lba, count) = self.range(60);
                Change::Trim { lba, count }
            }
            kind => {
                let (lba, count) = self.range(if kind == 1 { 30 } else { 2 });
                Change::Write { lba, data: blocks(lba, count, self.block_bytes as u32, self.stamp) }
            }
        }
    }

    fn issue(d: &BlockDrive, change: &Change) -> Result<(), BlockError> {
        match change {
            Change::Write { lba, data } => d.write(*lba, data),
            Change::Trim { lba, count } => d.trim(*lba, *count),
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Write { lba, data } => {
                let at = (lba * self.block_bytes) as usize;
                self.bytes[at..at + data.len()].copy_from_slice(&data);
            }
            Change::Trim { lba, count } => self.of_mut(lba, count).fill(0),
        }
    }

    fn of_mut(&mut self, lba: u64, count: u64) -> &mut [u8] {
        &mut self.bytes[(lba * self.block_bytes) as usize..][..(count * self.block_bytes) as usize]
    }

    fn check(&mut self, d: &BlockDrive, lba: u64, count: u64) {
        let found = d.read(lba, count as u32).unwrap();
        assert!(found[..] == *self.of_mut(lba, count), "blocks {lba} to {}", lba + count);
    }

    fn check_all(&mut self, d: &BlockDrive) {
        let step = u64::from(d.transfer_blocks_max());
        for lba in (0..d.capacity_blocks()).step_by(step as usize) {
            self.check(d, lba, step.min(d.capacity_blocks() - lba));
        }
    }
}

#[test]
fn blocks_are_what_a_vector_says_through_power_cuts() {
    for (seed, rblock, block_bytes, capacity) in
        [(1, 4096, 4096, 2100), (2, 4096, 16_384, 300), (3, 16_384, 4096, 1500), (4, 16_384, 16_384, 1030)]
    {
        let mut d = make(geometry(rblock, 64), block_bytes, capacity);
        let mut oracle = Oracle::new(seed, &d);
        for _ in 0..12 {
            for _ in 0..40 {
                let change = oracle.change();
                Oracle::issue(&d, &change).unwrap();
                oracle.apply(change);
                let (lba, count) = oracle.range(20);
                oracle.check(&d, lba, count);
                oracle.check(&d, lba, 1);
            }
            let found = d.drive().after_power_cut().expect("it lies in memory").unwrap();
            if oracle.random.below(3) == 0 {
                d.close().unwrap();
            }
            d = BlockDrive::open(found).unwrap();
            assert_eq!((d.block_bytes(), d.capacity_blocks()), (block_bytes, capacity));
            oracle.check_all(&d);
        }
        sound(d.drive());
    }
}

#[test]
fn a_cut_within_a_command_leaves_it_whole_or_undone() {
    let mut undone = 0;
    for seed in 0..60 {
        let (medium, mut power) = Medium::with_power(geometry(4096, 40));
        let drive = Drive::format(medium, options()).unwrap();
        let mut d =
            BlockDrive::make(drive, BlockOptions { capacity_blocks: Some(2000), ..Default::default() })
                .unwrap();
        let mut oracle = Oracle::new(seed, &d);
        for _ in 0..4 {
            power.cut_after(oracle.random.below(200));
            let change = loop {
                let change = oracle.change();
                let issued = Oracle::issue(&d, &change);
                if power.is_cut() {
                    break change;
                }
                issued.unwrap();
                oracle.apply(change);
            };
            let (medium, next) = power.restored(seed).unwrap();
            power = next;
            d = BlockDrive::open(Unrecovered::new(medium, options()).recover().unwrap()).unwrap();
            let (lba, count) = match &change {
                Change::Write { lba, data } => (*lba, data.len() as u64 / 4096),
                Change::Trim { lba, count } => (*lba, *count),
            };
            let before = oracle.of_mut(lba, count).to_vec();
            if d.read(lba, count as u32).unwrap()[..] != before[..] {
                oracle.apply(change);
            } else {
                undone += 1;
            }
            oracle.check_all(&d);
        }
    }
    assert!(undone > 20, "{undone} commands were undone");
}

#[test]
fn a_read_beside_a_write_sees_all_of_it_or_nothing() {
    const COUNT: u64 = 32;
    let d = make(geometry(4096, 256), 4096, 4096);
    d.write(1000, &blocks(1000, COUNT, 4096, 0)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for stamp in 1..300 {
                match stamp % 7 {
                    0 => d.trim(1000, COUNT).unwrap(),
                    _ => d.write(1000, &blocks(1000, COUNT, 4096, stamp)).unwrap(),
                }
            }
            stop.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    let found = d.read(1000, COUNT as u32).unwrap();
                    let stamp = found.try_values::<u64>().unwrap()[1];
                    let trimmed = found.iter().all(|b| *b == 0);
                    assert!(trimmed || found == blocks(1000, COUNT, 4096, stamp), "a torn read");
                }
            });
        }
    });
}

#[test]
fn bad_commands_are_refused_by_name_and_change_nothing() {
    let d = make(geometry(4096, 40), 4096, 2000);
    let data = |count| blocks(0, count, 4096, 7);
    let max = u64::from(d.transfer_blocks_max());
    let check = |r: Result<(), BlockError>, expected: &str| assert_eq!(r.unwrap_err().to_string(), expected);
    let read = |lba, count| d.read(lba, count).map(|_| ());
    check(read(2000, 1), "blocks 2000 to 2000 + 1 are beyond the drive, which has 2000");
    check(read(1999, 2), "blocks 1999 to 1999 + 2 are beyond the drive, which has 2000");
    check(
        read(u64::MAX, 2),
        "blocks 18446744073709551615 to 18446744073709551615 + 2 are beyond the drive, which has 2000",
    );
    check(read(0, 0), "a command of 0 blocks; 1 to 1024 are allowed");
    check(d.write(1999, &data(2)), "blocks 1999 to 1999 + 2 are beyond the drive, which has 2000");
    check(d.write(0, &data(max + 1)), "a command of 1025 blocks; 1 to 1024 are allowed");
    check(d.write(0, &data(1).slice(..4095)), "4095 bytes are not a multiple of the block size, 4096");
    check(d.trim(1, 2000), "blocks 1 to 1 + 2000 are beyond the drive, which has 2000");
    check(d.trim(2, u64::MAX), "blocks 2 to 2 + 18446744073709551615 are beyond the drive, which has 2000");
    d.trim(2000, 0).unwrap();
    d.trim(0, 2000).unwrap();
    d.flush().unwrap();
    assert!(d.read(0, 1024).unwrap().iter().all(|b| *b == 0));
    let other = d.drive().clone();
    d.close().unwrap();
    let d = BlockDrive::open(other).unwrap();
    assert!(matches!(d.flush(), Err(BlockError::Command(CommandError::ReadOnly(_)))));
}

#[test]
fn blocks_are_made_of_empty_drives_and_opened_where_they_were_made() {
    let drive = || Drive::format(Medium::memory(geometry(4096, 40)), options()).unwrap();
    let refused = |d: Drive, o| BlockDrive::make(d, o).unwrap_err();
    let default = BlockOptions::default();
    assert_eq!(
        refused(drive(), BlockOptions { block_bytes: 512, ..default }),
        BlockError::BlockBytes { got: 512 }
    );
    for got in [0, 10_241] {
        let max = 10_240;
        let o = BlockOptions { capacity_blocks: Some(got), ..default };
        assert_eq!(refused(drive(), o), BlockError::Capacity { got, max });
    }
    let used = drive();
    run(&used, Command::AllocateExtents { owner: OwnerId::new(3), count: 2 }).unwrap();
    assert_eq!(refused(used.clone(), default), BlockError::NotEmpty { extents: 2 });
    assert_eq!(BlockDrive::open(used).unwrap_err(), BlockError::NoBlocks { extents: 2 });
    assert_eq!(BlockDrive::open(drive()).unwrap_err(), BlockError::NoBlocks { extents: 0 });

    let d = BlockDrive::make(drive(), default).unwrap();
    assert!(d.capacity_blocks() > 5000 && d.capacity_blocks() < 10_240, "{}", d.capacity_blocks());
    assert_eq!(refused(d.drive().clone(), default), BlockError::NotEmpty { extents: 1 });
}

#[test]
fn every_block_of_a_new_drive_can_be_written_from_the_last_to_the_first() {
    let drive = Drive::format(Medium::memory(geometry(4096, 40)), options()).unwrap();
    let d = BlockDrive::make(drive, BlockOptions::default()).unwrap();
    let (step, mut end) = (u64::from(d.transfer_blocks_max()) / 2, d.capacity_blocks());
    while end > 0 {
        let lba = end.saturating_sub(step);
        d.write(lba, &blocks(lba, end - lba, 4096, 1)).unwrap();
        end = lba;
    }
    for lba in (0..d.capacity_blocks()).step_by(97) {
        assert_eq!(d.read(lba, 1).unwrap(), blocks(lba, 1, 4096, 1));
    }
}

#[test]
fn a_drive_that_is_full_of_blocks_is_overwritten_for_ever() {
    for (channels, eblock_kb, eblocks, block_bytes) in
        [(1, 1024, 64, 4096), (1, 256, 128, 16_384), (4, 256, 160, 4096)]
    {
        let g = Geometry::new(channels, 1, 1, 4096, 4096, eblock_kb << 10, eblocks).unwrap();
        let drive = Drive::format(Medium::memory(g), options()).unwrap();
        let mut d = BlockDrive::make(drive, BlockOptions { block_bytes, capacity_blocks: None }).unwrap();
        let mut stamps = vec![0; d.capacity_blocks() as usize];
        let mut random = Random(9);
        for lba in 0..d.capacity_blocks() {
            d.write(lba, &blocks(lba, 1, block_bytes, 0)).unwrap();
        }
        for stamp in 1..=3 {
            for _ in 0..d.capacity_blocks() / 4 {
                let lba = random.below(d.capacity_blocks());
                let count = (1 + random.below(7)).min(d.capacity_blocks() - lba);
                d.write(lba, &blocks(lba, count, block_bytes, stamp)).unwrap();
                stamps[lba as usize..(lba + count) as usize].fill(stamp);
            }
            let found = d.drive().after_power_cut().expect("it lies in memory").unwrap();
            d = BlockDrive::open(found).unwrap();
            for (lba, stamp) in (0..).zip(&stamps) {
                assert!(d.read(lba, 1).unwrap() == blocks(lba, 1, block_bytes, *stamp), "block {lba}");
            }
        }
        sound(d.drive());
    }
}
