//! Small batches travel whole in the log: what they cost, and that their pages are found wherever they are.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use lode_base::{ExtentId, Geometry, PageBuf};
use lode_command::{Align, Batch, Command, CommandError, PageWrite, ReadRequest, Reply};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{FaultKind, Medium};

const WBLOCK: u64 = 4096;

fn geometry(eblocks: u32) -> Geometry {
    Geometry::new(1, 1, 1, 4096, WBLOCK as u32, 256 << 10, eblocks).unwrap()
}

fn options() -> DriveOptions {
    DriveOptions { inline_bytes_max: 2000, inline_buffer_bytes: 64 << 10, ..DriveOptions::default() }
}

fn drive(options: DriveOptions) -> (Drive, ExtentId) {
    let d = Drive::format(Medium::memory(geometry(64)), options).unwrap();
    let extent = allocate(&d, 7, 1)[0];
    put(&d, extent.page(1000), &[1; 5000]).unwrap();
    (d, extent)
}

/// Bytes that a batch programs.
fn cost(d: &Drive, batch: Batch) -> u64 {
    let before = d.info().media_bytes_written;
    write(d, batch).unwrap();
    d.info().media_bytes_written - before
}

fn after_cut(d: &Drive) -> Drive {
    let d = d.after_power_cut().unwrap().unwrap();
    sound(&d);
    d.check_invariants();
    d
}

#[test]
fn a_small_batch_costs_its_log_pages_and_nothing_else() {
    let (d, e) = drive(options());
    let batch = |pages: &[usize]| Batch {
        writes: pages
            .iter()
            .enumerate()
            .map(|(n, &len)| page(e.page(n as u16), &vec![n as u8; len]))
            .collect(),
        ..Batch::default()
    };
    assert_eq!(cost(&d, batch(&[64])), 2 * WBLOCK, "a log page and its copy");
    assert_eq!(cost(&d, batch(&[1000, 1000])), 2 * WBLOCK);
    assert_eq!(d.info().inlined_bytes, 2 * 1024 + 64, "a reader may still be at the first");
    assert!(cost(&d, batch(&[1000, 1001])) > 2 * WBLOCK, "too many bytes");
    let aligned = PageWrite { lpid: e.page(9), data: PageBuf::copy_from(&[9; 100]), align: Align::ReadUnit };
    assert!(
        cost(&d, Batch { writes: vec![aligned], ..Batch::default() }) > 2 * WBLOCK,
        "it is to be aligned"
    );
    put(&d, e.page(3), &[3; 70]).unwrap();
    let read = d.info().media_bytes_read;
    assert_eq!(get(&d, None, e.page(3)), Some(vec![3; 70]));
    assert_eq!(d.info().media_bytes_read, read, "it is in memory");
    let (off, f) = drive(DriveOptions { inline_bytes_max: 0, ..options() });
    assert!(cost(&off, Batch { writes: vec![page(f.page(1), &[1; 64])], ..Batch::default() }) > 2 * WBLOCK);
}

#[test]
fn inlined_pages_are_found_after_a_cut_a_checkpoint_and_both() {
    let (d, e) = drive(options());
    put(&d, e.page(0), &[1; 100]).unwrap();
    put(&d, e.page(1), &[2; 200]).unwrap();
    put(&d, e.page(0), &[3; 300]).unwrap();
    put(&d, e.page(2), &[4; 400]).unwrap();
    write(&d, Batch { trims: vec![e.page(2)], ..Batch::default() }).unwrap();
    let whole = |d: &Drive| {
        assert_eq!(get(d, None, e.page(0)), Some(vec![3; 300]));
        assert_eq!(get(d, None, e.page(1)), Some(vec![2; 200]));
        assert_eq!(get(d, None, e.page(2)), None);
        assert_eq!(get(d, None, e.page(1000)), Some(vec![1; 5000]));
        sound(d);
        d.check_invariants();
    };
    whole(&d);
    let cut = after_cut(&d);
    whole(&cut);
    assert_eq!(cut.info().inlined_bytes, 0, "recovery ends with a checkpoint");
    whole(&after_cut(&cut));
    run(&d, Command::Checkpoint).unwrap();
    assert_eq!(d.info().inlined_bytes, 0);
    whole(&d);
    put(&d, e.page(5), &[5; 500]).unwrap();
    let cut = after_cut(&d);
    whole(&cut);
    assert_eq!(get(&cut, None, e.page(5)), Some(vec![5; 500]));
}

#[test]
fn a_view_keeps_an_inlined_version_that_was_replaced_or_moved() {
    let (d, e) = drive(options());
    put(&d, e.page(0), &[1; 100]).unwrap();
    let (old, _) = open_view(&d);
    put(&d, e.page(0), &[2; 100]).unwrap();
    let (newer, _) = open_view(&d);
    write(&d, Batch { releases: vec![e], ..Batch::default() }).unwrap();
    for _ in 0..2 {
        assert_eq!(get(&d, Some(old), e.page(0)), Some(vec![1; 100]));
        assert_eq!(get(&d, Some(newer), e.page(0)), Some(vec![2; 100]));
        sound(&d);
        d.check_invariants();
        // The second time both lie in EBLOCKs.
        run(&d, Command::Checkpoint).unwrap();
    }
    assert_eq!(d.info().inlined_bytes, 0);
    let pinned = d.info().pinned_bytes;
    assert!(pinned >= 256, "{pinned} bytes are pinned");
    close_view(&d, old);
    close_view(&d, newer);
    run(&d, Command::Checkpoint).unwrap();
    sound(&d);
    assert_eq!(d.info().pinned_bytes, 0);
}

#[test]
fn an_inlined_version_of_a_closed_view_gives_its_memory_back() {
    let (d, e) = drive(options());
    for n in 0..200u64 {
        put(&d, e.page(0), &[n as u8; 1000]).unwrap();
        let (view, _) = open_view(&d);
        put(&d, e.page(0), &[n as u8; 900]).unwrap();
        assert_eq!(get(&d, Some(view), e.page(0)), Some(vec![n as u8; 1000]));
        close_view(&d, view);
        assert!(d.info().inlined_bytes <= 64 << 10);
        d.check_invariants();
    }
    run(&d, Command::Checkpoint).unwrap();
    assert_eq!((d.info().inlined_bytes, d.info().pinned_bytes), (0, 0));
}

#[test]
fn what_is_inlined_is_bounded_and_moves_in_large_programs() {
    let (d, e) = drive(options());
    let before = d.info();
    for n in 0..1000u16 {
        put(&d, e.page(n), &[n as u8; 500]).unwrap();
        assert!(d.info().inlined_bytes <= 64 << 10);
    }
    let after = d.info();
    let data = after.media_bytes_written - before.media_bytes_written;
    let log = 1000 * 2 * WBLOCK;
    assert!(data < log + 1000 * 600 * 3, "{data} bytes, {log} of them log");
    (0..1000u16).for_each(|n| assert_eq!(get(&d, None, e.page(n)), Some(vec![n as u8; 500])));
    sound(&d);
    d.check_invariants();
}

#[test]
fn a_full_drive_takes_small_trims_and_goes_on() {
    let (d, e) = drive(DriveOptions { inline_buffer_bytes: 1 << 20, ..options() });
    let more = allocate(&d, 7, 3);
    let mut written = Vec::new();
    'fill: for (len, e) in [(100_000, more[0]), (1900, more[1]), (1900, more[2])] {
        for n in 0..1024 {
            match put(&d, e.page(n), &vec![n as u8; len]) {
                Ok(_) => written.push((e.page(n), n as u8, len)),
                Err(_) if len < 2000 => break 'fill,
                Err(_) => continue 'fill,
            }
        }
    }
    assert!(written.len() > 100, "{} pages fit", written.len());
    d.check_invariants();
    let cut = after_cut(&d);
    for d in [&d, &cut] {
        let whole = |of: &[(lode_base::Lpid, u8, usize)]| {
            of.iter().for_each(|&(lpid, n, len)| assert_eq!(get(d, None, lpid), Some(vec![n; len])));
        };
        whole(&written);
        assert!(put(d, e.page(3), &[7; 150_000]).is_err(), "it is full");
        let trims = written[..20].iter().map(|p| p.0).collect();
        write(d, Batch { trims, ..Batch::default() }).unwrap();
        run(d, Command::Checkpoint).unwrap();
        put(d, e.page(3), &[7; 1500]).unwrap();
        put(d, e.page(4), &[7; 150_000]).unwrap();
        whole(&written[20..]);
        sound(d);
        d.check_invariants();
    }
}

#[test]
fn readers_meet_every_version_whole_while_pages_move() {
    let (d, e) = drive(DriveOptions { inline_buffer_bytes: 8 << 10, ..options() });
    for n in 0..8 {
        put(&d, e.page(n), &[0; 600]).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for n in 0..8 {
                        let data = get(&d, None, e.page(n)).unwrap();
                        assert!(data.len() == 600 && data.iter().all(|b| *b == data[0]), "{data:?}");
                    }
                }
            });
        }
        for round in 0..2000u64 {
            put(&d, e.page((round % 8) as u16), &[round as u8; 600]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    sound(&d);
    d.check_invariants();
}

#[test]
fn pages_of_one_command_come_in_order_from_wherever_they_are() {
    let (d, _) = drive(options());
    let extents = allocate(&d, 7, 3);
    let mut random = Random(8);
    // Every seventh page is there as a small batch left it; the others lie on the medium, some over several read units.
    let lpid = |n: usize| extents[n % 3].page(n as u16);
    let old: Vec<Vec<u8>> = (0..100).map(|n| random.bytes(64 + n * 97)).collect();
    let writes = old.iter().enumerate().map(|(n, data)| page(lpid(n), data)).collect();
    write(&d, Batch { writes, ..Batch::default() }).unwrap();
    let (view, _) = open_view(&d);
    let mut new = old.clone();
    for n in (0..100).step_by(7) {
        new[n] = random.bytes(64 + n);
        put(&d, lpid(n), &new[n]).unwrap();
    }
    let read = |view, pages: Vec<(usize, Option<std::ops::Range<u32>>)>| {
        let pages = pages.into_iter().map(|(n, range)| ReadRequest { lpid: lpid(n), range }).collect();
        run(&d, Command::Read { view, pages }).map(|r| match r {
            Reply::Pages(pages) => pages.iter().map(|p| p.to_vec()).collect::<Vec<_>>(),
            other => panic!("{other:?} answers no read"),
        })
    };
    for (view, expected) in [(None, &new), (Some(view), &old)] {
        assert_eq!(&read(view, (0..100).map(|n| (n, None)).collect()).unwrap(), expected);
        let backwards = (0..100).rev().map(|n| (n, Some(n as u32 / 2..expected[n].len() as u32)));
        let tails: Vec<_> = (0..100).rev().map(|n| expected[n][n / 2..].to_vec()).collect();
        assert_eq!(read(view, backwards.collect()).unwrap(), tails);
        assert_eq!(
            read(view, vec![(8, Some(5..5)), (9, Some(0..1)), (7, Some(3..3))]).unwrap(),
            [vec![], expected[9][..1].to_vec(), vec![]]
        );
    }
    // The first error counts.
    let unmapped = CommandError::Unmapped(lpid(100));
    assert_eq!(read(None, vec![(1, None), (100, None), (2, Some(0..10_000))]), Err(unmapped));
    let beyond = read(None, vec![(1, None), (2, Some(0..10_000)), (100, None)]);
    assert!(matches!(beyond, Err(CommandError::Invalid(_))), "{beyond:?}");
}

/// What a lost mapping page names cannot be told; that is no reason to stop.
#[test]
fn a_lost_mapping_page_does_not_keep_others_from_moving() {
    let mut met = 0;
    for seed in 0..300 {
        let (m, faults) = Medium::simulated(geometry(64));
        let options = DriveOptions { map_cache_bytes: 9 << 10, ..options() };
        let d = Drive::format(m, options.clone()).unwrap();
        let e = allocate(&d, 7, 4);
        put(&d, e[0].page(0), &[1; 100]).unwrap();
        for n in 0..40 {
            put(&d, e[1 + n % 3].page(n as u16), &[n as u8; 4000]).unwrap();
        }
        faults.flip(FaultKind::FlipData, seed);
        let lost = |d: &Drive| {
            let read = read(d, None, e[0].page(0));
            read.is_err_and(|e| e.to_string().contains("mapping page 0"))
        };
        if !lost(&d) {
            continue;
        }
        met += 1;
        assert!(d.info().inlined_bytes > 0, "seed {seed}");
        let whole = |d: &Drive| {
            for n in 0..40 {
                assert_eq!(
                    get(d, None, e[1 + n % 3].page(n as u16)),
                    Some(vec![n as u8; 4000]),
                    "seed {seed}"
                );
            }
        };
        let (m, _) = faults.restored(0).unwrap();
        let reopened = Unrecovered::new(m, options).recover().unwrap();
        for d in [&d, &reopened] {
            run(d, Command::Checkpoint).unwrap();
            put(d, e[1].page(500), &[9; 4000]).unwrap();
            put(d, e[2].page(500), &[9; 100]).unwrap();
            run(d, Command::Checkpoint).unwrap();
            whole(d);
            assert!(lost(d));
        }
    }
    assert!(met > 0, "no flip met it");
}
