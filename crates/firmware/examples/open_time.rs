//! How long an image takes to open after a crash: one of 1 GB and one of 64 GB, with the same log since the checkpoint.
//!
//! ```text
//!   cargo run --release -p lode-firmware --example open_time [FOLDER [BYTES [BATCHES]]]
//! ```
//!
//! The large image is filled with `BYTES` (2 GB) in as many extents as pages of 2 KB take; the small one up to half of
//! it. Then come `BATCHES` (2,000) batches of 8 pages each. Claim: the large one opens within twice the time of the small.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lode_base::{ExtentId, Geometry, Lpid, OwnerId, PageBuf, VirtualTime};
use lode_command::{Align, Batch, Command, Device, Outcome, PageWrite, Reply, Until};
use lode_firmware::{Drive, DriveOptions};

const PAGE_BYTES: usize = 2048;
const OPENINGS: usize = 7;

fn run(d: &Drive, c: Command) -> Reply {
    let mut q = d.open_queue(1).expect("a queue");
    q.submit(VirtualTime::ZERO, c).expect("an empty queue takes a command");
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).expect("a drive that runs");
    match out.pop().expect("one answer").outcome {
        Outcome::Done(r) => r.expect("nothing fails"),
        Outcome::Unit(_) => unreachable!("nothing was scanned"),
    }
}

fn write(d: &Drive, pages: impl Iterator<Item = Lpid>, data: &PageBuf) {
    let page = |lpid| PageWrite { lpid, data: data.clone(), align: Align::Cell };
    run(d, Command::Write(Batch { writes: pages.map(page).collect(), ..Batch::default() }));
}

/// An image with `bytes` of pages, a checkpoint, and `batches` batches after it.
fn make(path: &Path, capacity: u64, bytes: u64, batches: u64) {
    let geometry = Geometry::file(capacity).expect("a capacity that is possible");
    let d = Drive::create_file(path, geometry, DriveOptions::default(), 1).expect("a new image");
    let data = PageBuf::copy_from(&[7; PAGE_BYTES]);
    let extents = bytes.div_ceil(1024 * PAGE_BYTES as u64);
    let owner = OwnerId::new(1);
    let Reply::Extents(extents) = run(&d, Command::AllocateExtents { owner, count: extents as u32 }) else {
        unreachable!("extents were asked for")
    };
    for some in extents.chunks(8) {
        write(&d, some.iter().flat_map(|e| (0..1024).map(|p| e.page(p))), &data);
    }
    run(&d, Command::Checkpoint);
    let few: Vec<ExtentId> = extents.iter().copied().step_by(extents.len().div_ceil(64)).collect();
    for n in 0..batches {
        let lpid = |i: u64| few[((n * 8 + i) % few.len() as u64) as usize].page((n % 1024) as u16);
        write(&d, (0..8).map(lpid), &data);
    }
}

/// The median of some openings of copies of an image, all as it was left.
fn open(path: &Path) -> Duration {
    let copy = path.with_extension("copy");
    let mut times = Vec::new();
    for n in 0..OPENINGS {
        let copied = std::process::Command::new("cp").args(["--sparse=always"]).arg(path).arg(&copy).status();
        assert!(copied.is_ok_and(|s| s.success()), "the image cannot be copied");
        std::fs::File::open(&copy).and_then(|f| f.sync_all()).expect("a copy");
        let begun = Instant::now();
        let d = Drive::open_file(&copy, DriveOptions::default()).expect("an image that opens");
        times.push(begun.elapsed());
        if n == 0 {
            let i = d.info();
            println!(
                "{}: {:?}, {} extents, {} bytes read, {} written, {} of mapping pages in memory",
                path.display(),
                i.recovery,
                i.extents,
                i.media_bytes_read,
                i.media_bytes_written,
                i.map_bytes
            );
        }
        drop(d);
        std::fs::remove_file(&copy).expect("the copy was there");
    }
    times.sort_unstable();
    println!("  {times:?}");
    times[OPENINGS / 2]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let mut number = |default| args.next().map_or(default, |a| a.parse().expect("a number"));
    let (bytes, batches) = (number(2 << 30), number(2000));
    let mut medians = Vec::new();
    for (name, capacity, bytes) in
        [("small.lode", 1 << 30, bytes.min(512 << 20)), ("large.lode", 64 << 30, bytes)]
    {
        let path = folder.join(name);
        // One may be left of a run that was stopped.
        let _ = std::fs::remove_file(&path);
        make(&path, capacity, bytes, batches);
        medians.push(open(&path));
        std::fs::remove_file(&path).expect("it was made");
    }
    let ratio = medians[1].as_secs_f64() / medians[0].as_secs_f64();
    println!("1 GB: {:?}; 64 GB: {:?}; {ratio:.2} times", medians[0], medians[1]);
}
