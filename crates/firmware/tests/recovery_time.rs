//! What an opening after a crash takes: it grows with the log since the last checkpoint, and not with the drive; and
//! mapping pages keep to their budget, in use and in recovery.
//!
//! Counts, and no clocks: `examples/open_time.rs` measures.

mod common;

use std::path::Path;

use allocation_counter::measure;
use common::*;
use lode_base::Geometry;
use lode_command::{Batch, Command};
use lode_firmware::{Drive, DriveInfo, DriveOptions};

/// An image with a page of each of `extents` extents, a checkpoint, and `batches` small batches after it.
fn make(path: &Path, capacity: u64, extents: u32, page_bytes: usize, batches: u64) {
    let d = Drive::create_file(path, Geometry::file(capacity).unwrap(), DriveOptions::default(), 1).unwrap();
    let all = allocate(&d, 1, extents);
    let data = vec![7; page_bytes];
    for some in all.chunks(256) {
        let writes = some.iter().map(|e| page(e.page(5), &data)).collect();
        write(&d, Batch { writes, ..Batch::default() }).unwrap();
    }
    run(&d, Command::Checkpoint).unwrap();
    for n in 0..batches {
        let lpid = |i: u64| all[((n * 4 + i) % 32) as usize].page((n / 32) as u16);
        let writes = (0..4).map(|i| page(lpid(i), &[n as u8; 500])).collect();
        write(&d, Batch { writes, ..Batch::default() }).unwrap();
    }
}

/// What opening an image took, and the most memory that it held meanwhile. On a thread of its own: one that wrote has buffers
/// left that it would use.
fn open(path: &Path) -> (DriveInfo, u64) {
    let open = || {
        let mut info = None;
        let memory = measure(|| info = Some(Drive::open_file(path, DriveOptions::default()).unwrap().info()));
        (info.unwrap(), memory.bytes_max)
    };
    std::thread::scope(|s| s.spawn(open).join().unwrap())
}

#[test]
fn an_opening_grows_with_the_log_and_not_with_the_drive() {
    let dir = tempfile::tempdir().unwrap();
    let opened = |name, capacity, extents, page_bytes, batches| {
        let path = dir.path().join(name);
        make(&path, capacity, extents, page_bytes, batches);
        let (info, memory) = open(&path);
        std::fs::remove_file(&path).unwrap();
        println!("{name}: {:?}, {} bytes read, {memory} of memory", info.recovery, info.media_bytes_read);
        (info, memory)
    };
    let small = opened("small", 1 << 30, 256, 4000, 300);
    let large = opened("large", 64 << 30, 4096, 16_000, 300);
    let long = opened("long", 1 << 30, 256, 4000, 1500);
    assert!(!small.0.recovery.clean && !large.0.recovery.clean);
    let (s, l, n) = (small.0.recovery, large.0.recovery, long.0.recovery);
    assert!(l.log_pages <= 2 * s.log_pages && l.log_records <= 2 * s.log_records && l.pages <= 2 * s.pages);
    let read = |i: &(DriveInfo, u64)| i.0.media_bytes_read;
    assert!(read(&large) <= 2 * read(&small), "{} and {} bytes", read(&small), read(&large));
    assert!(large.1 <= 2 * small.1, "{} and {} bytes of memory", small.1, large.1);
    assert!(n.log_records > 4 * s.log_records && n.log_pages > 3 * s.log_pages, "{s:?} and {n:?}");
}
