//! A drive at rest: what `work` cleans up, what an image takes on disk, and that work comes to an end.

mod common;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use common::{allocate, get, put, write};
use lode_base::{ExtentId, Geometry, PageBuf, VirtualTime};
use lode_command::{Align, Batch, Budget, Device, PageWrite, Progress};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;

const PAGE: usize = 100_000;

fn geometry() -> Geometry {
    Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 256).unwrap()
}

/// Works until there is nothing to do; answers the steps that it took.
fn rest(d: &Drive) -> usize {
    let steps =
        (1..5000).find(|_| d.work(VirtualTime::ZERO, Budget { write_bytes: 1 << 20 }) == Progress::Idle);
    d.check_invariants();
    steps.expect("work comes to an end")
}

fn fill(d: &Drive, extent: ExtentId, pages: std::ops::Range<u16>) {
    for n in pages {
        put(d, extent.page(n), &vec![n as u8; PAGE]).unwrap();
    }
}

fn trim(d: &Drive, extent: ExtentId, pages: impl Iterator<Item = u16>) {
    write(d, Batch { trims: pages.map(|n| extent.page(n)).collect(), ..Batch::default() }).unwrap();
}

#[test]
fn eblocks_that_are_mostly_garbage_are_emptied_and_the_rest_is_left_alone() {
    let d = Drive::format(Medium::memory(geometry()), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    fill(&d, extent, 0..200);
    rest(&d);
    assert_eq!(d.info().gc_victims, 0, "nothing is garbage");
    let full = d.info().eblocks_used;
    // A tenth of each EBLOCK dies: not worth while.
    trim(&d, extent, (0..200).filter(|n| n % 10 == 0));
    rest(&d);
    assert_eq!(d.info().gc_victims, 0);
    // Seven in ten.
    trim(&d, extent, (0..200).filter(|n| (1..7).contains(&(n % 10))));
    rest(&d);
    let info = d.info();
    assert!(info.gc_victims > 10 && info.eblocks_used < full * 2 / 3, "{info:?}");
    for n in 0..200 {
        let expected = (n % 10 >= 7).then(|| vec![n as u8; PAGE]);
        assert_eq!(get(&d, None, extent.page(n)), expected, "page {n}");
    }
    assert!(d.check().problems.is_empty());
    assert_eq!(rest(&d), 1, "a drive at rest has nothing to do");
}

#[test]
fn a_drive_that_is_written_to_is_not_tidied() {
    let d = Drive::format(Medium::memory(geometry()), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    fill(&d, extent, 0..100);
    for n in 0..100 {
        trim(&d, extent, n..n + 1);
        put(&d, extent.page(500), &[1; 64]).unwrap();
        assert_eq!(d.work(VirtualTime::ZERO, Budget { write_bytes: 1 << 20 }), Progress::Done);
    }
    assert_eq!(d.info().gc_victims, 0);
}

/// What pages do not fill cannot be gained: work ends all the same.
#[test]
fn pages_that_waste_most_of_their_space_do_not_keep_it_busy() {
    let d = Drive::format(Medium::memory(geometry()), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    let small = |n| PageWrite { lpid: n, data: PageBuf::copy_from(&[9; 100]), align: Align::ReadUnit };
    for round in 0..4 {
        for n in 0..250 {
            let batch = Batch { writes: vec![small(extent.page(round * 250 + n))], ..Batch::default() };
            write(&d, batch).unwrap();
        }
        rest(&d);
    }
    let victims = d.info().gc_victims;
    rest(&d);
    let info = d.info();
    assert!(info.gc_victims <= victims + 1 && victims < 12, "{victims} victims, then {info:?}");
    // One that no other fits beside.
    let wide = Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 64).unwrap();
    let d = Drive::format(Medium::memory(wide), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    for n in 0..20 {
        put(&d, extent.page(n), &[1; 31 << 10]).unwrap();
    }
    rest(&d);
}

fn on_disk(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn an_image_takes_what_it_holds_once_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let d = Drive::create_file(&path, geometry(), DriveOptions::default(), 1).unwrap();
    let extents = allocate(&d, 5, 2);
    put(&d, extents[1].page(0), &[3; 5000]).unwrap();
    d.close().unwrap();
    let empty = on_disk(&path);
    let mut d = Drive::open_file(&path, DriveOptions::default()).unwrap();
    for round in 0..6u16 {
        fill(&d, extents[0], 0..400);
        let full = on_disk(&path);
        assert!(full > 400 * PAGE as u64, "{full} bytes for 40 MB");
        trim(&d, extents[0], 0..400);
        rest(&d);
        let open = on_disk(&path);
        assert!(open < full / 3, "{open} bytes are kept of {full} while it is open");
        if round % 2 == 0 {
            d.close().unwrap();
            let closed = on_disk(&path);
            assert!(closed < empty + (2 << 20), "round {round}: {closed} bytes, {empty} when it was empty");
        } else {
            drop(d);
        }
        d = Drive::open_file(&path, DriveOptions::default()).unwrap();
        assert_eq!(d.info().recovery.clean, round % 2 == 0);
        assert_eq!(get(&d, None, extents[1].page(0)), Some(vec![3; 5000]));
        assert!(d.check().problems.is_empty());
        d.check_invariants();
        put(&d, extents[1].page(1), &[round as u8; 5000]).unwrap();
    }
}

/// Rests until the drive at rest has nothing to do either.
fn rest_long(d: &Drive) {
    let looks = DriveOptions::default().rest_steps.unwrap() + 2;
    let mut idle = 0;
    for _ in 0..10_000 {
        match d.work(VirtualTime::ZERO, Budget { write_bytes: 1 << 20 }) {
            Progress::Idle => idle += 1,
            _ => idle = 0,
        }
        if idle == looks {
            d.check_invariants();
            return;
        }
    }
    panic!("work comes to no end");
}

/// Replaces pages of 8 KB, in one batch. A page is named by its number, its contents by another.
fn replace(d: &Drive, extents: &[ExtentId], pages: impl Iterator<Item = (u64, u64)>) {
    let page = |(slot, content): (u64, u64)| PageWrite {
        lpid: extents[(slot / 1000) as usize].page((slot % 1000) as u16),
        data: PageBuf::copy_from(&contents(content)),
        align: Align::Cell,
    };
    write(d, Batch { writes: pages.map(page).collect(), ..Batch::default() }).unwrap();
}

fn contents(of: u64) -> Vec<u8> {
    vec![(of % 251) as u8; 8000 + (of % 7) as usize * 64]
}

/// 24 MB in pages of 8 KB. A tenth of them is replaced between two long rests, in small batches, scattered.
#[test]
fn an_aged_image_at_rest_takes_little_more_than_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let create = |name: &str| {
        let path = dir.path().join(name);
        let g = Geometry::file(64 << 30).unwrap();
        (Drive::create_file(&path, g, DriveOptions::default(), 1).unwrap(), path)
    };
    let (new, new_path) = create("new");
    let extents = allocate(&new, 5, 3);
    replace(&new, &extents, (0..3000).map(|s| (s, s)));
    rest_long(&new);
    let fresh = on_disk(&new_path);
    let live = new.info().live_bytes;
    assert!(fresh * 20 <= live * 21 + (20 << 20), "{fresh} bytes for {live} live ones of a new image");

    let (aged, path) = create("aged");
    let extents = allocate(&aged, 5, 3);
    replace(&aged, &extents, (0..3000).map(|s| (s, s)));
    let mut random = 7u64;
    for round in 0..20u64 {
        for part in 0..30 {
            let some: BTreeMap<_, _> = (0..10)
                .map(|i| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((random >> 33) % 3000, round * 30 + part + i)
                })
                .collect();
            replace(&aged, &extents, some.into_iter());
        }
        rest_long(&aged);
    }
    let (info, at_rest) = (aged.info(), on_disk(&path));
    assert!(at_rest * 10 <= fresh * 11, "{at_rest} bytes, {fresh} of a new one: {info:?}");
    // For each byte that died at most 16 are moved, and about half of that of pages that die at random.
    let died = info.user_bytes_written - info.live_bytes;
    assert!(info.gc_bytes_moved < 9 * died, "{died} bytes died: {info:?}");
    rest_long(&aged);
    assert_eq!(aged.info().media_bytes_written, info.media_bytes_written, "a second rest writes nothing");
    // A small change is not worth rewriting anything.
    replace(&aged, &extents, (0..10).map(|s| (s, s)));
    rest_long(&aged);
    let after = aged.info();
    assert_eq!((info.checkpoints, info.gc_victims), (after.checkpoints, after.gc_victims));
    assert!(after.media_bytes_written - info.media_bytes_written < 200_000, "{after:?}");
    assert!(aged.check().problems.is_empty());
    aged.close().unwrap();
    let closed = on_disk(&path);
    assert!(closed * 10 <= fresh * 11, "{closed} bytes once it is closed, {fresh} of a new one");
    let d = Drive::open_file(&path, DriveOptions::default()).unwrap();
    assert!(d.info().recovery.clean && d.check().problems.is_empty());
    assert_eq!(get(&d, None, extents[0].page(3)), Some(contents(3)));
}

/// 90 MB of large pages that are overwritten at random, with EBLOCKs of 1 MB: at rest some erased ones keep their space. Garbage, they,
/// log and tags together stay below a tenth of what is held.
#[test]
fn a_drive_at_rest_keeps_some_erased_space_and_is_no_more_than_a_tenth_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let options = DriveOptions { rest_steps: Some(3), ..DriveOptions::default() };
    let d = Drive::create_file(&path, geometry(), options, 1).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    fill(&d, extent, 0..900);
    for round in 0..4u32 {
        for n in 0..300u32 {
            let page = (n * 7919 + round * 104_729) % 900;
            put(&d, extent.page(page as u16), &vec![page as u8; PAGE]).unwrap();
        }
        rest_long(&d);
        let (info, taken) = (d.info(), on_disk(&path));
        assert!(taken * 10 <= info.live_bytes * 11, "round {round}: {taken} bytes at rest: {info:?}");
    }
    for n in 0..900 {
        assert_eq!(get(&d, None, extent.page(n)), Some(vec![n as u8; PAGE]), "page {n}");
    }
    assert!(d.check().problems.is_empty());
}
