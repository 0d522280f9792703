//! Every GC policy in a drive, and some that no drive should depend on: a full drive goes on under random overwrites, and
//! the same run ends the same. The example of a policy of one's own runs, too.

mod common;
#[path = "../examples/gc_policy.rs"]
mod example;

use common::*;
use lode_base::{EXTENT_PAGES, EblockId, ExtentId, Geometry, Lpid, VirtualTime};
use lode_command::{Align, Batch, Budget, Device, PageWrite};
use lode_firmware::gc::{Choice, GcStream, GcView, Policy, StreamClass, Victim};
use lode_firmware::{Drive, DriveInfo, DriveOptions, GcPolicy, POLICIES};
use lode_flash::Medium;

const PAGE_BYTES: usize = 4096;
const BATCH_PAGES: usize = 16;
const EBLOCKS: u32 = 64;
const EBLOCK_BYTES: u32 = 256 << 10;

/// Never has anything emptied.
struct Declines;

impl Policy for Declines {
    fn choose(&mut self, _: &GcView<'_>) -> Choice {
        Choice::Decline
    }
}

/// Names EBLOCKs that are not offered: free ones, open ones, those of the log, some that the drive does not have.
struct Stranger(u32);

impl Policy for Stranger {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        let mut all = (0..=view.eblock_count).map(|n| EblockId::new((self.0 + n) % (view.eblock_count + 1)));
        let other = all.find(|&e| view.candidate(e).is_none()).expect("one is beyond the drive");
        self.0 = other.raw() + 1;
        Choice::empty(other)
    }
}

/// Chooses what gains least of all that is not refused, in the shortest steps, and to the streams by turns.
struct Worst(usize);

impl Policy for Worst {
    fn choose(&mut self, view: &GcView<'_>) -> Choice {
        let some = view.candidates.iter().filter(|c| c.available_bytes > view.gain_bytes_min);
        let Some(c) = some.min_by_key(|c| c.available_bytes) else {
            return Choice::Decline;
        };
        self.0 += 1;
        Choice::Empty(Victim {
            eblock: c.eblock,
            stream: GcStream::Class(StreamClass::new(self.0 % StreamClass::COUNT).unwrap()),
            step_bytes_max: Some(0),
        })
    }
}

fn all() -> Vec<GcPolicy> {
    let odd = [
        GcPolicy::custom("declines", || Declines),
        GcPolicy::custom("stranger", || Stranger(0)),
        GcPolicy::custom("worst", || Worst(0)),
    ];
    POLICIES.iter().map(GcPolicy::from).chain(odd).collect()
}

/// A drive that is as full as it takes, and what its pages are to hold.
struct Full {
    drive: Drive,
    extents: Vec<ExtentId>,
    /// The stamp of each page.
    stamps: Vec<u64>,
    stamp: u64,
}

impl Full {
    fn new(policy: &GcPolicy) -> Self {
        let geometry = Geometry::new(1, 1, 1, 4096, 4096, EBLOCK_BYTES, EBLOCKS).unwrap();
        let options = DriveOptions { gc_policy: policy.clone(), ..DriveOptions::default() };
        let drive = Drive::format(Medium::memory(geometry), options).unwrap();
        let extents = allocate(&drive, 5, EBLOCKS * EBLOCK_BYTES / (EXTENT_PAGES * PAGE_BYTES) as u32);
        let mut full = Self { drive, extents, stamps: Vec::new(), stamp: 0 };
        // Up to the batch that is refused.
        loop {
            let first = full.stamps.len();
            full.stamps.resize(first + BATCH_PAGES, 0);
            if full.write((first..first + BATCH_PAGES).collect()).is_err() {
                full.stamps.truncate(first);
                return full;
            }
        }
    }

    fn lpid(&self, n: usize) -> Lpid {
        self.extents[n / EXTENT_PAGES].page((n % EXTENT_PAGES) as u16)
    }

    fn bytes(n: usize, stamp: u64) -> Vec<u8> {
        let mut bytes = vec![n as u8; PAGE_BYTES];
        bytes[..8].copy_from_slice(&stamp.to_le_bytes());
        bytes
    }

    /// Writes pages, each once.
    fn write(&mut self, mut pages: Vec<usize>) -> Result<(), lode_command::CommandError> {
        pages.sort_unstable();
        pages.dedup();
        self.stamp += 1;
        let stamp = self.stamp;
        let written =
            |&n: &usize| PageWrite { align: Align::ReadUnit, ..page(self.lpid(n), &Self::bytes(n, stamp)) };
        let writes = pages.iter().map(written).collect();
        write(&self.drive, Batch { writes, ..Batch::default() })?;
        pages.iter().for_each(|&n| self.stamps[n] = stamp);
        Ok(())
    }

    /// Overwrites pages at random; between some batches the drive works by itself.
    fn overwrite(&mut self, batches: usize, name: &str) {
        let mut random = Random(11);
        let pages = self.stamps.len() as u64;
        for n in 0..batches {
            let before = self.drive.info();
            let some = (0..BATCH_PAGES).map(|_| random.below(pages) as usize).collect();
            if let Err(e) = self.write(some) {
                panic!("{name}, batch {n}: {e}");
            }
            let moved = self.drive.info().gc_bytes_moved - before.gc_bytes_moved;
            let capacity = u64::from(EBLOCKS * EBLOCK_BYTES);
            assert!(moved < capacity, "{name}, batch {n}: all was moved for one batch");
            if n % 5 == 0 {
                self.drive.work(VirtualTime::ZERO, Budget { write_bytes: 1 << 20 });
            }
        }
    }

    fn check(&self, drive: &Drive, name: &str) {
        for (n, &stamp) in self.stamps.iter().enumerate() {
            assert!(get(drive, None, self.lpid(n)) == Some(Self::bytes(n, stamp)), "{name}, page {n}");
        }
        drive.check_invariants();
        sound(drive);
    }
}

fn run_of(policy: &GcPolicy) -> (Full, DriveInfo) {
    let mut full = Full::new(policy);
    full.overwrite(400, policy.name());
    let info = full.drive.info();
    (full, info)
}

#[test]
fn a_full_drive_goes_on_under_every_policy_and_ends_the_same() {
    for policy in all() {
        let name = policy.name();
        let (full, info) = run_of(&policy);
        assert!(info.gc_victims > 60, "{name}: {info:?}");
        full.check(&full.drive, name);
        // Recovery begins with a new policy.
        let mut recovered = Full { drive: full.drive.after_power_cut().unwrap().unwrap(), ..full };
        recovered.overwrite(100, name);
        recovered.check(&recovered.drive, name);
        let again = run_of(&policy).1;
        assert_eq!(again, info, "{name}");
    }
}

#[test]
fn the_example_of_a_policy_of_ones_own_runs() {
    let setup = example::Setup { capacity_bytes: 32 << 20, eblock_bytes: 256 << 10, overwrites: 4, seed: 1 };
    let all = example::run(&setup).unwrap();
    let of = |name: &str| all.iter().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!(all.len(), 3 + POLICIES.len());
    assert!(all.iter().all(|(_, amplification)| *amplification > 1.0), "{all:?}");
    assert!(of("1-choice") > of("2-choices") && of("2-choices") > of("10-choices"), "{all:?}");
    assert!(of("10-choices") < of("greedy") * 1.1, "{all:?}");
    assert_eq!(example::run(&setup).unwrap(), all, "the seed decides all of it");
}
