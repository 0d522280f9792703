//! Power cuts that lose any part of what was not synced, and damage planted anywhere.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use common::*;
use lode_base::{ExtentId, Geometry, Lpid, OwnerId};
use lode_command::{Batch, Command, CommandError, Device};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{FaultKind, Medium};

const BLOCK: usize = 4096;

fn geometry() -> Geometry {
    Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 24).unwrap()
}

fn create(path: &Path) -> Drive {
    Drive::create_file(path, geometry(), DriveOptions::default(), 3).unwrap()
}

fn open(path: &Path) -> Result<Drive, lode_firmware::FirmwareError> {
    Drive::open_file(path, DriveOptions::default())
}

fn holds(d: &Drive, state: &HashMap<Lpid, Vec<u8>>, extent: ExtentId) -> bool {
    (0..40).all(|p| get(d, None, extent.page(p)).as_ref() == state.get(&extent.page(p)))
}

/// Between two syncs any block may reach the file, or not. Whatever does, the batch is there whole or not at
/// all.
#[test]
fn a_batch_is_whole_or_absent_whichever_blocks_reached_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, torn) = (dir.path().join("a.lode"), dir.path().join("torn.lode"));
    let mut random = Random(5);
    let d = create(&path);
    let extent = allocate(&d, 1, 1)[0];
    let mut state: HashMap<Lpid, Vec<u8>> = HashMap::new();
    put(&d, extent.page(0), &[7; 64]).unwrap();
    state.insert(extent.page(0), vec![7; 64]);
    let (mut whole, mut absent) = (0, 0);
    for _ in 0..40 {
        let before = fs::read(&path).unwrap();
        let mut batch = Batch::default();
        let mut after = state.clone();
        for _ in 0..1 + random.below(4) {
            let lpid = extent.page(random.below(40) as u16);
            if batch.writes.iter().all(|p| p.lpid != lpid) {
                let len = 64 + random.below(20_000) as usize;
                let data = random.bytes(len);
                batch.writes.push(page(lpid, &data));
                after.insert(lpid, data);
            }
        }
        write(&d, batch).unwrap();
        let now = fs::read(&path).unwrap();
        for _ in 0..6 {
            let mut bytes = now.clone();
            let odds = random.below(4);
            for (i, block) in bytes.chunks_mut(BLOCK).enumerate() {
                let at = i * BLOCK;
                let old = before.get(at..at + block.len());
                if old != Some(block) && random.below(4) <= odds {
                    match old {
                        Some(old) => block.copy_from_slice(old),
                        None => block.fill(0),
                    }
                }
            }
            fs::write(&torn, &bytes).unwrap();
            for _ in 0..2 {
                // Twice, since recovery itself may be cut short.
                let t = open(&torn).unwrap();
                sound(&t);
                let (is_whole, is_absent) = (holds(&t, &after, extent), holds(&t, &state, extent));
                assert!(is_whole || is_absent, "a part of a batch took effect");
                whole += u32::from(is_whole);
                absent += u32::from(is_absent);
            }
            let t = open(&torn).unwrap();
            let lpid = extent.page(39);
            put(&t, lpid, &[9; 5000]).unwrap();
            assert_eq!(read(&t, None, lpid).unwrap().len(), 5000, "the drive goes on");
        }
        state = after;
    }
    assert!(whole > 10 && absent > 10, "{whole} whole, {absent} absent");
}

/// Erasures that failed were not held against the spares until a program failed too: the drive went on until nothing had
/// room.
#[test]
fn a_drive_that_can_not_erase_more_eblocks_than_it_has_spares_is_read_only_and_opens_so() {
    let options = || DriveOptions { spare_eblocks: Some(2), ..DriveOptions::default() };
    let (medium, faults) = Medium::simulated(geometry());
    let d = Drive::format(medium, options()).unwrap();
    let extent = allocate(&d, 1, 1)[0];
    let (mut acknowledged, mut armed) = (HashMap::new(), 0);
    let refused = loop {
        assert!(acknowledged.len() < 200, "{} EBLOCKs failed", d.info().eblocks_retired);
        let (lpid, data) = (extent.page(acknowledged.len() as u16), vec![7; 100_000]);
        if d.info().eblocks_retired == armed {
            faults.arm(FaultKind::EraseFails, 0, 1);
            armed += 1;
        }
        match put(&d, lpid, &data) {
            Ok(_) => acknowledged.insert(lpid, data),
            Err(e) => break e,
        };
    };
    let why = "the drive is read-only until it is opened again: 3 EBLOCKs failed, and there are 2 spares";
    assert_eq!(refused.to_string(), why);
    let reads =
        |d: &Drive| acknowledged.iter().all(|(lpid, data)| get(d, None, *lpid).as_ref() == Some(data));
    assert!(reads(&d) && d.info().spares == 0 && acknowledged.len() > 10);
    drop(d);
    for seed in 0..3 {
        let (medium, _) = faults.restored(seed).unwrap();
        let d = Unrecovered::new(medium, options()).recover().unwrap();
        assert!(reads(&d) && d.info().read_only.is_some(), "{:?}", d.info().read_only);
        assert_eq!(put(&d, extent.page(300), &[1; 64]).unwrap_err().to_string(), why);
    }
}

/// A file with pages of every kind in it: mapping, index, tables, log (when it is not closed).
fn populated(path: &Path, close: bool) -> (ExtentId, HashMap<Lpid, Vec<u8>>) {
    let d = create(path);
    let extent = allocate(&d, 9, 1)[0];
    let mut state = HashMap::new();
    let rules = vec![(OwnerId::new(9), Some(rule()))];
    write(&d, Batch { index_rules: rules, ..Batch::default() }).unwrap();
    for p in 0..30u16 {
        let lpid = extent.page(p);
        let w = table_page(lpid, 9, &(0..300).map(|v| v * i64::from(p)).collect::<Vec<_>>());
        state.insert(lpid, w.data.to_vec());
        write(&d, Batch { writes: vec![w], ..Batch::default() }).unwrap();
        if p == 20 {
            run(&d, Command::Checkpoint).unwrap();
        }
    }
    if close {
        d.close().unwrap();
    }
    (extent, state)
}

fn find(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle).map(|(i, _)| i).collect()
}

enum Found {
    Refused,
    Told,
    Harmless,
}

fn with_flip(
    path: &Path,
    bytes: &[u8],
    at: usize,
    state: &HashMap<Lpid, Vec<u8>>,
    extent: ExtentId,
) -> Found {
    let mut flipped = bytes.to_vec();
    flipped[at] ^= 0x41;
    fs::write(path, &flipped).unwrap();
    let d = match open(path) {
        Ok(d) => d,
        Err(e) => {
            let text = e.to_string();
            assert!(!text.contains('\n') && text.contains(&*path.display().to_string()), "{text}");
            return Found::Refused;
        }
    };
    if !d.check().problems.is_empty() {
        // What cannot be read says so, and nothing else is answered.
        for p in 0..40 {
            match read(&d, None, extent.page(p)) {
                Ok(b) => {
                    assert!(state.get(&extent.page(p)).is_some_and(|s| s[..] == b[..]), "byte {at}: a lie")
                }
                Err(CommandError::Unmapped(l)) => {
                    assert!(!state.contains_key(&l), "byte {at}: page {l} is gone")
                }
                Err(_) => {}
            }
        }
        return Found::Told;
    }
    assert!(holds(&d, state, extent), "byte {at}: nobody noticed");
    Found::Harmless
}

#[test]
fn damage_of_a_closed_image_is_found_or_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let (extent, state) = populated(&path, true);
    let bytes = fs::read(&path).unwrap();
    let flipped = dir.path().join("flipped.lode");
    let flip = |at| with_flip(&flipped, &bytes, at, &state, extent);

    let page_at = |p: u16| find(&bytes, &state[&extent.page(p)][..200]);
    for p in [0, 13, 29] {
        let at = *page_at(p).last().unwrap();
        for d in [0, 70, 1500] {
            assert!(matches!(flip(at + d), Found::Told), "page {p}, byte {d}");
        }
    }
    // Tags: the read unit of page 13 is block n of its group, and its tag is at 16 n.
    let at = *page_at(13).last().unwrap();
    let group = (at - (512 << 10)) / ((1 << 20) + 4096) * ((1 << 20) + 4096) + (512 << 10);
    let tag = group + (at - group - 4096) / 4096 * 16;
    for d in 0..16 {
        assert!(matches!(flip(tag + d), Found::Told), "byte {d} of a tag");
    }
    // Checkpoint slots: one copy is repaired from the other, and without either the damage shows.
    for (slot, copy) in [(64 << 10, 320 << 10), (192 << 10, 416 << 10)] {
        for d in [0, 9, 13, 20, 40, 60, 100] {
            assert!(matches!(flip(slot + d), Found::Harmless), "byte {d} of slot {slot}");
            let mut both = bytes.clone();
            both[copy + d] ^= 1;
            let found = with_flip(&flipped, &both, slot + d, &state, extent);
            assert!(matches!(found, Found::Told | Found::Refused), "byte {d} of slot {slot} and its copy");
        }
    }
    let (mut found, mut harmless) = (0, 0);
    for at in find(&bytes, b"LDPG") {
        for d in [0, 5, 9, 17, 21, 33, 40] {
            match flip(at + d) {
                Found::Harmless => harmless += 1,
                _ => found += 1,
            }
        }
    }
    assert!(found > 30, "{found} found; {harmless} in pages that were replaced since");
    let mut random = Random(1);
    for _ in 0..100 {
        flip(random.below(bytes.len() as u64) as usize);
    }
}

/// Every version of a structure is damaged, so the one that counts is too. Whoever meets it first tells it by name, or by
/// that of a page in the same read unit.
#[test]
fn damage_of_each_structure_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let d = create(&path);
    let extent = allocate(&d, 9, 1)[0];
    let rules = vec![(OwnerId::new(9), Some(rule()))];
    write(&d, Batch { index_rules: rules, ..Batch::default() }).unwrap();
    run(&d, Command::OpenSession).unwrap();
    for p in 0..100u16 {
        let values: Vec<i64> = (0..1500).map(|v| v + i64::from(p)).collect();
        write(&d, Batch { writes: vec![table_page(extent.page(p), 9, &values)], ..Batch::default() })
            .unwrap();
    }
    d.close().unwrap();
    let bytes = fs::read(&path).unwrap();
    sound(&open(&path).unwrap());

    let own = |tag: u8| {
        let pages = find(&bytes, b"LDPG");
        pages.into_iter().filter(|&at| bytes[at + 4] == tag).map(|at| at + 40).collect::<Vec<_>>()
    };
    let names = [
        "mapping page 0",
        "index page 0",
        "piece of the table of mapping pages 0",
        "piece of the table of index pages 0",
        "piece of the table of extent owners 0",
        "piece of the index rules 0",
        "piece of the EBLOCK summary 0",
        "piece of the metadata of open EBLOCKs 0",
        "piece of the session table 0",
        "checkpoint root 0",
    ];
    let mut structures: Vec<_> = names.into_iter().zip((1..).map(own)).collect();
    structures.push(("metadata of EBLOCK", find(&bytes, b"LEBM").into_iter().map(|at| at + 36).collect()));
    for (name, places) in structures {
        assert!(!places.is_empty(), "there is no {name} on the image");
        let mut damaged = bytes.clone();
        places.iter().for_each(|&at| damaged[at] ^= 0x41);
        fs::write(&path, &damaged).unwrap();
        let told = match open(&path) {
            Ok(d) => d.check().problems.join("; "),
            Err(e) => e.to_string(),
        };
        assert!(names.iter().chain(&[name]).any(|n| told.contains(n)), "{name}: {told:?}");
    }
}

/// Found by the simulation (seed 274): with one mapping page destroyed, no extent was listed any more.
#[test]
fn an_extent_whose_mapping_page_is_lost_is_listed_with_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let d = create(&path);
    let extents = allocate(&d, 7, 2);
    for extent in &extents {
        for p in 0..3 {
            put(&d, extent.page(p), &[7; 5000]).unwrap();
        }
    }
    d.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let mapping_page_0 = |at: &usize| bytes[at + 4] == 1 && bytes[at + 8..at + 16] == [0; 8];
    let places: Vec<usize> = find(&bytes, b"LDPG").into_iter().filter(mapping_page_0).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|&at| bytes[at + 40] ^= 0x41);
    fs::write(&path, &bytes).unwrap();
    let d = open(&path).unwrap();
    let Ok(lode_command::Reply::ExtentList(list)) = run(&d, Command::ListExtents) else { panic!("no list") };
    let counts: Vec<_> = list.iter().map(|i| (i.extent, i.pages_mapped)).collect();
    assert_eq!(counts, [(extents[0], None), (extents[1], Some(3))]);
    assert!(read(&d, None, extents[0].page(0)).is_err());
    assert_eq!(get(&d, None, extents[1].page(0)).unwrap(), [7; 5000]);
}

#[test]
fn a_damaged_log_never_loses_what_a_later_page_says_was_durable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let (extent, state) = populated(&path, false);
    let bytes = fs::read(&path).unwrap();
    let flipped = dir.path().join("flipped.lode");
    let pages = find(&bytes, b"LLOG");
    assert!(pages.len() >= 30);
    let last = extent.page(29);
    let mut without_last = state.clone();
    without_last.remove(&last);
    // Each page lies there twice, one copy behind the other.
    let (pages, _) = pages.as_chunks::<2>();
    for (i, &[at, copy]) in pages.iter().enumerate() {
        assert_eq!(copy, at + 4096);
        for d in [0, 17, 61, 70] {
            let mut b = bytes.clone();
            for one in [at, copy] {
                b[one + d] ^= 1;
                fs::write(&flipped, &b).unwrap();
                assert!(holds(&open(&flipped).unwrap(), &state, extent), "log page {i} has another copy");
                b[one + d] ^= 1;
            }
            b[at + d] ^= 1;
            b[copy + d] ^= 1;
            fs::write(&flipped, &b).unwrap();
            match open(&flipped) {
                Err(e) => assert!(e.to_string().contains("log page"), "{e}"),
                // Only the very last page can pass for a batch that was never acknowledged.
                Ok(d) if i + 1 == pages.len() => assert!(holds(&d, &without_last, extent)),
                Ok(d) => assert!(holds(&d, &state, extent), "log page {i} was needed"),
            }
        }
    }
}

#[test]
fn an_image_whose_making_was_cut_short_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    drop(lode_flash::Medium::create_file(&path, geometry(), 1).unwrap());
    let d = open(&path).unwrap();
    assert_eq!(allocate(&d, 0, 1)[0].raw(), 0);
    sound(&d);
}

/// Without either copy of either record, a drive that was used is refused, however little was written to it.
#[test]
fn an_image_that_lost_all_its_checkpoint_records_is_not_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let g = Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 40).unwrap();
    let d = Drive::create_file(&path, g, DriveOptions::default(), 3).unwrap();
    let extent = allocate(&d, 1, 1)[0];
    put(&d, extent.page(0), &[7; 64]).unwrap();
    d.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    assert!(bytes.len() < 4 << 20, "an image whose making was cut short can be as long");
    for at in [64 << 10, 320 << 10, 192 << 10, 416 << 10] {
        bytes[at + 9] ^= 1;
    }
    fs::write(&path, &bytes).unwrap();
    for _ in 0..2 {
        let e = open(&path).unwrap_err();
        assert!(matches!(e, lode_firmware::FirmwareError::NoCheckpoint { .. }), "{e}");
    }
}

#[test]
fn the_least_geometry_is_taken_and_anything_less_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let made = |eblock_bytes, eblocks| {
        let g = Geometry::new(1, 1, 1, 4096, 4096, eblock_bytes, eblocks).unwrap();
        Drive::create_file(&path, g, DriveOptions::default(), 1)
    };
    for (eblock_bytes, eblocks) in [(1 << 20, 16), (64 << 10, 64)] {
        let d = made(eblock_bytes, eblocks).unwrap();
        assert!(d.identity().durable, "it lies in a file");
        sound(&d);
        fs::remove_file(&path).unwrap();
    }
    for (eblock_bytes, eblocks) in [(1 << 20, 15), (32 << 10, 64)] {
        let e = made(eblock_bytes, eblocks).unwrap_err();
        assert!(matches!(e, lode_firmware::FirmwareError::TooSmall { .. }), "{e}");
    }
}

#[test]
fn a_fresh_image_is_small_and_a_small_medium_is_refused() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    let d = Drive::create_file(&path, Geometry::file(1 << 40).unwrap(), DriveOptions::default(), 1).unwrap();
    let extent = allocate(&d, 0, 1)[0];
    put(&d, extent.page(0), &[1; 100]).unwrap();
    d.close().unwrap();
    let taken = fs::metadata(&path).unwrap().blocks() * 512;
    assert!(taken < 8 << 20, "{taken} bytes");
    let small = Geometry::file(64 << 20).unwrap();
    let path = dir.path().join("small.lode");
    let e = Drive::create_file(&path, small, DriveOptions::default(), 1).unwrap_err();
    assert!(e.to_string().contains("at least 16"), "{e}");
    assert!(!path.exists());
}

/// What the newest group replaced is still there when that group is lost: its EBLOCKs are not written over before a later
/// group says that it was durable.
#[test]
fn a_log_that_loses_its_newest_group_takes_nothing_older_along() {
    const PAGES: u16 = 12;
    let g = Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 32).unwrap();
    let options = DriveOptions { log_copies: 1, ..DriveOptions::default() };
    let mut lost = 0;
    for cut in 0.. {
        let (medium, faults) = Medium::simulated(g);
        let d = Drive::format(medium, options.clone()).unwrap();
        let (extent, other) = (allocate(&d, 5, 1)[0], allocate(&d, 5, 1)[0]);
        let batch = |extent: ExtentId, n| {
            let writes = (0..PAGES).map(|p| page(extent.page(p), &[n; 20_000])).collect();
            write(&d, Batch { writes, ..Batch::default() })
        };
        batch(extent, 1).unwrap();
        put(&d, other.page(900), &[7; 64]).unwrap();
        faults.arm(FaultKind::FlipLog, 0, cut);
        batch(extent, 2).unwrap();
        faults.cut_after(cut);
        if batch(other, 3).is_ok() && !faults.is_cut() {
            break;
        }
        faults.cut();
        let (medium, _) = faults.restored(cut).unwrap();
        match Unrecovered::new(medium, options.clone()).recover() {
            Ok(d) => {
                let first = get(&d, None, extent.page(0)).unwrap()[0];
                for p in 0..PAGES {
                    let expected = Some(vec![first; 20_000]);
                    assert!(get(&d, None, extent.page(p)) == expected, "page {p}, cut {cut}");
                }
                lost += u32::from(first == 1);
                sound(&d);
            }
            // The next group was durable: it says that this one was.
            Err(e) => assert!(e.to_string().contains("log page"), "{e}"),
        }
    }
    assert!(lost > 0, "no newest group was lost");
}
