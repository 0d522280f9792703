//! Measures the cost of a connection over the loopback: batches of 1 MB and commits of 4 KB, remotely and in the same
//! process.
//!
//! ```text
//!   cargo run --release -p lode-remote --example loopback [SECONDS [DIRECTORY]]
//! ```
//!
//! A drive in memory costs little, so the difference is the transport. On an image file, each group of commits is one
//! sync. The cases take turns, and the program prints the median of five runs.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lode_base::{ExtentId, Geometry, OwnerId, PageBuf, VirtualTime};
use lode_command::{Align, Batch, Command, Device, Outcome, PageWrite, ReadRequest, Reply, Until};
use lode_firmware::{Drive, DriveOptions};
use lode_remote::{ClientOptions, RemoteDevice, Server, ServerOptions};

const RUNS: usize = 5;

/// The commands that one queue sends.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// The number of pages of a batch.
    pages: usize,
    /// The size of a page.
    page_bytes: usize,
    depth: u32,
    reads: bool,
}

const CASES: [Case; 6] = [
    Case {
        name: "1 MB batches of 4 KB pages, 1 under way",
        pages: 256,
        page_bytes: 4096,
        depth: 1,
        reads: false,
    },
    Case {
        name: "1 MB batches of 4 KB pages, 8 under way",
        pages: 256,
        page_bytes: 4096,
        depth: 8,
        reads: false,
    },
    Case { name: "4 KB commits, 1 under way", pages: 1, page_bytes: 4096, depth: 1, reads: false },
    Case { name: "4 KB commits, 32 under way", pages: 1, page_bytes: 4096, depth: 32, reads: false },
    Case { name: "4 KB reads, 1 under way", pages: 1, page_bytes: 4096, depth: 1, reads: true },
    Case { name: "4 KB reads, 32 under way", pages: 1, page_bytes: 4096, depth: 32, reads: true },
];

/// Returns the commands per second.
fn rate(device: &dyn Device, case: Case, extents: &[ExtentId], seconds: f64) -> f64 {
    let mut q = device.open_queue(case.depth).expect("a queue");
    let data = PageBuf::copy_from(&vec![0x5A; case.page_bytes]);
    let (mut at, mut done, mut under_way) = (0, 0u64, 0);
    let mut out = Vec::new();
    let mut next = || {
        let pages: Vec<_> = (at..at + case.pages)
            .map(|n| extents[n / 1024 % extents.len()].page((n % 1024) as u16))
            .collect();
        at += case.pages;
        match case.reads {
            true => Command::Read {
                view: None,
                pages: pages.into_iter().map(|lpid| ReadRequest { lpid, range: None }).collect(),
            },
            false => Command::Write(Batch {
                writes: pages
                    .into_iter()
                    .map(|lpid| PageWrite { lpid, data: data.clone(), align: Align::Cell })
                    .collect(),
                ..Batch::default()
            }),
        }
    };
    let began = Instant::now();
    let end = Duration::from_secs_f64(seconds);
    while began.elapsed() < end || under_way > 0 {
        while under_way < case.depth && began.elapsed() < end {
            q.submit(VirtualTime::ZERO, next()).expect("room in the queue");
            under_way += 1;
        }
        if under_way == 0 {
            break;
        }
        q.complete(VirtualTime::ZERO, Until::One, &mut out).expect("the device is there");
        for c in out.drain(..) {
            let Outcome::Done(result) = c.outcome else { unreachable!("nothing is scanned") };
            result.expect("it succeeds");
            done += 1;
            under_way -= 1;
        }
    }
    done as f64 / began.elapsed().as_secs_f64()
}

fn extents(device: &dyn Device) -> Vec<ExtentId> {
    let mut q = device.open_queue(1).expect("a queue");
    let c = Command::AllocateExtents { owner: OwnerId::new(1), count: 16 };
    q.submit(VirtualTime::ZERO, c).expect("room in the queue");
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).expect("the device is there");
    match out.pop().map(|c| c.outcome) {
        Some(Outcome::Done(Ok(Reply::Extents(extents)))) => extents,
        other => panic!("{other:?}"),
    }
}

fn compare(what: &str, drive: &Drive, seconds: f64) {
    let began = Instant::now();
    let options = ServerOptions::new(Arc::new(move || began.elapsed()));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server =
        Server::start(listener, Arc::new(drive.clone()), 1, drive.sessions(), options).expect("a server");
    let options = ClientOptions::new(Arc::new(std::thread::sleep));
    let remote = RemoteDevice::connect(&server.addr().to_string(), options).expect("a connection");
    let extents = extents(&remote);
    // All pages are written before the measurement begins.
    let fill = CASES[1];
    rate(&remote, fill, &extents, 0.5);
    println!("{what:44}  in the process   loopback   ratio");
    for case in CASES {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            rates[0].push(rate(drive, case, &extents, seconds));
            rates[1].push(rate(&remote, case, &extents, seconds));
        }
        let [a, b] = rates.map(|mut r| {
            r.sort_by(f64::total_cmp);
            r[RUNS / 2]
        });
        println!("{:44}  {a:12.0}/s  {b:8.0}/s   {:5.2}", case.name, b / a);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(0.5, |s| s.parse().expect("seconds"));
    let dir = args.next().unwrap_or_else(|| std::env::temp_dir().display().to_string());
    compare("a drive in memory", &Drive::in_memory(4 << 30), seconds);
    let path = Path::new(&dir).join(format!("loopback-{}.lode", std::process::id()));
    let geometry = Geometry::file(8 << 30).expect("a geometry");
    let drive = Drive::create_file(&path, geometry, DriveOptions::default(), 7).expect("an image");
    compare("an image file", &drive, seconds);
    drop(drive);
    std::fs::remove_file(&path).expect("the image can be removed");
}
