//! Compares the medium with plain calls of the same file system: random cached reads of 4 KB, and synced programs of
//! 1 MB in new and in old space. Also measures how long it takes to make a simulated medium.
//!
//! `cargo run --release -p lode-flash --example speed [directory]`

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lode_base::{EblockId, Geometry, PageBuf};
use lode_flash::Medium;

const EBLOCKS: u32 = 32;
const EBLOCK_BYTES: u32 = 8 << 20;
const READS: u64 = 200_000;
const MB: usize = 1 << 20;

/// The median of five runs.
fn median(mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = (0..5).map(|_| run()).collect();
    times.sort();
    times[2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let (image, plain) = (dir.join("speed.lode"), dir.join("speed.plain"));
    let geometry = Geometry::file(u64::from(EBLOCKS) * u64::from(EBLOCK_BYTES))?;
    let m = Medium::create_file(&image, geometry, 1)?;
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&plain)?;
    let data = PageBuf::copy_from(&(0..MB).map(|i| (i * 31) as u8).collect::<Vec<_>>());

    for space in ["new", "old"] {
        let (mut medium, mut host) = (Vec::new(), Vec::new());
        for n in 0..EBLOCKS {
            m.erase(EblockId::new(n))?;
            for i in 0..EBLOCK_BYTES / MB as u32 {
                let start = Instant::now();
                m.program(EblockId::new(n), i * 256, &data)?;
                m.sync()?;
                medium.push(start.elapsed());
                let start = Instant::now();
                file.write_all_at(&data, u64::from(n * EBLOCK_BYTES) + u64::from(i) * MB as u64)?;
                file.sync_data()?;
                host.push(start.elapsed());
            }
        }
        let total = |t: &[Duration]| t.len() as f64 / t.iter().sum::<Duration>().as_secs_f64();
        let (medium, host) = (total(&medium), total(&host));
        println!("1 MB, synced, {space} space: {medium:.0} MB/s, plain {host:.0} MB/s: {:.2}", medium / host);
    }

    let pages = u64::from(EBLOCKS) * u64::from(EBLOCK_BYTES) / 4096;
    let order = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % pages;
    let medium = median(|| {
        let start = Instant::now();
        for i in 0..READS {
            let at = geometry.ppa_from_cell(order(i) * 64).expect("a page of the medium");
            std::hint::black_box(m.read(at, 4096).expect("it was programmed"));
        }
        start.elapsed()
    });
    let host = median(|| {
        let start = Instant::now();
        let mut b = vec![0; 4096];
        for i in 0..READS {
            file.read_exact_at(&mut b, order(i) * 4096).expect("it was written");
            std::hint::black_box(&b);
        }
        start.elapsed()
    });
    let each = |d: Duration| d.as_nanos() as u64 / READS;
    println!(
        "4 KB, cached: {} ns, pread {} ns: {:.2}",
        each(medium),
        each(host),
        each(host) as f64 / each(medium) as f64
    );

    let small = Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 64)?;
    let made = median(|| {
        let start = Instant::now();
        for _ in 0..100 {
            std::hint::black_box(Medium::simulated(small));
        }
        start.elapsed() / 100
    });
    println!("a simulated medium of 4 MB: {} us", made.as_micros());
    std::fs::remove_file(image)?;
    std::fs::remove_file(plain)?;
    Ok(())
}
