//! A drive on a medium that keeps no pages of users does everything that one on a medium which keeps them does, at the same
//! time, and is found again.

mod common;

use std::sync::Arc;

use common::*;
use lode_base::{ExtentId, Geometry, OwnerId, PageBuf, Profile, VirtualTime};
use lode_command::{
    Align, Answer, Batch, Command, CommandError, Device, Outcome, PageRange, PageWrite, ReadRequest, Reply,
    ScanTask, Skip, Until,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_program::Program;

const EXTENTS: u32 = 16;
const DEPTH: u32 = 8;

fn profile() -> Profile {
    let mut p = Profile::find("isp-adms11").unwrap();
    p.geometry = Geometry::new(2, 2, 1, 4096, 8192, 1 << 20, 128).unwrap();
    p
}

/// Commands of all kinds that need no bytes: small batches, which are inlined, large ones, reads, trims, checkpoints.
fn command(r: &mut Random, extents: &[ExtentId]) -> Command {
    let lpid = |r: &mut Random| extents[r.below(EXTENTS.into()) as usize].page(r.below(900) as u16);
    match r.below(100) {
        0..40 => {
            let count = if r.below(20) == 0 { 200 } else { 1 + r.below(4) };
            let mut lpids: Vec<_> = (0..count).map(|_| lpid(r)).collect();
            lpids.sort_unstable();
            lpids.dedup();
            let size = |r: &mut Random| if r.below(3) == 0 { 100 + r.below(3000) } else { 4096 } as usize;
            let align = |r: &mut Random| if r.below(2) == 0 { Align::Cell } else { Align::ReadUnit };
            let write = |lpid| PageWrite {
                lpid,
                data: PageBuf::copy_from(&vec![r.below(256) as u8; size(r)]),
                align: align(r),
            };
            Command::Write(Batch { writes: lpids.into_iter().map(write).collect(), ..Batch::default() })
        }
        40..50 => Command::Write(Batch { trims: vec![lpid(r)], ..Batch::default() }),
        50..99 => Command::Read { view: None, pages: vec![ReadRequest { lpid: lpid(r), range: None }] },
        _ => Command::Checkpoint,
    }
}

fn every_row() -> Arc<Program> {
    Arc::new(Program::check(schema(), None, vec![0, 1], false).unwrap())
}

struct Run {
    drive: Drive,
    extents: Vec<ExtentId>,
    /// What came of each command: when, on what the time was spent, how many bytes or which error.
    ends: Vec<String>,
}

/// The same work on a medium.
fn work(medium: Medium, commands: u32) -> Run {
    let model = Arc::new(Model::new(profile()));
    let options =
        DriveOptions { map_cache_bytes: 64 << 10, gc_free_eblocks_max: 64, ..DriveOptions::default() };
    let drive = Drive::format(medium.with_model(model), options).unwrap();
    let extents = allocate(&drive, 1, EXTENTS);
    let mut r = Random(5);
    let mut queue = drive.open_queue(DEPTH).unwrap();
    let (mut now, mut out, mut ends) = (VirtualTime::ZERO, Vec::new(), Vec::new());
    for n in 0..commands {
        queue.submit(now, command(&mut r, &extents)).unwrap();
        if n < DEPTH - 1 {
            continue;
        }
        queue.complete(now, Until::One, &mut out).unwrap();
        for c in out.drain(..) {
            now = now.max(c.at);
            let what = match c.outcome {
                Outcome::Done(Ok(Reply::Pages(p))) => format!("{} bytes", p[0].len()),
                Outcome::Done(done) => format!("{done:?}"),
                Outcome::Unit(_) => panic!("a unit of no scan"),
            };
            ends.push(format!("{:?} at {:?} {:?}: {what}", c.tag, c.at, c.split));
        }
    }
    while queue.complete(now, Until::One, &mut out).is_ok() && !out.is_empty() {
        out.clear();
    }
    drop(queue);
    Run { drive, extents, ends }
}

/// The lengths of all pages.
fn lengths(d: &Drive, extents: &[ExtentId]) -> Vec<Option<usize>> {
    let pages = extents.iter().flat_map(|e| (0..900).map(|p| e.page(p)));
    pages.map(|l| get(d, None, l).map(|p| p.len())).collect()
}

#[test]
fn the_same_work_ends_at_the_same_time_and_wears_the_same() {
    let all = work(Medium::memory(profile().geometry), 12_000);
    let none = work(Medium::metadata_only(profile().geometry), 12_000);
    for (n, (a, b)) in all.ends.iter().zip(&none.ends).enumerate() {
        assert_eq!(a, b, "completion {n}");
    }
    let (a, b) = (all.drive.info(), none.drive.info());
    assert!(a.gc_victims > 20 && a.checkpoints > 10, "{a:?}");
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
}

#[test]
fn it_is_found_again_after_a_power_cut() {
    for commands in [40, 2000, 6000] {
        let all = work(Medium::memory(profile().geometry), commands);
        let none = work(Medium::metadata_only(profile().geometry), commands);
        let again = |r: &Run| r.drive.after_power_cut().unwrap().unwrap();
        let (all, found) = (again(&all), again(&none));
        found.check_invariants();
        assert_eq!(found.check().problems, all.check().problems);
        assert_eq!(found.check().problems.len(), 0);
        assert_eq!(lengths(&found, &none.extents), lengths(&all, &none.extents));
        assert_eq!(format!("{:?}", found.info().recovery), format!("{:?}", all.info().recovery));
        // And goes on, and again.
        put(&found, none.extents[3].page(5), &[1; 4096]).unwrap();
        run(&found, Command::Checkpoint).unwrap();
        let found = found.after_power_cut().unwrap().unwrap();
        found.check_invariants();
        assert_eq!(read(&found, None, none.extents[3].page(5)).unwrap().len(), 4096);
    }
}

#[test]
fn pages_read_as_nothing_and_what_needs_their_bytes_is_refused() {
    let d = Drive::format(Medium::metadata_only(profile().geometry), DriveOptions::default()).unwrap();
    let e = allocate(&d, 1, 1);
    for (n, len) in [100, 4096, 5000, 700_000].into_iter().enumerate() {
        put(&d, e[0].page(n as u16), &vec![1; len]).unwrap();
        let read = read(&d, None, e[0].page(n as u16)).unwrap();
        assert!(read.len() == len && read.iter().all(|&b| b == 0xA5), "{len} bytes");
    }
    let view = open_view(&d).0;
    let program = every_row();
    let pages = vec![PageRange { extent: e[0], first: 0, count: 4 }];
    let scan = ScanTask {
        view,
        pages: pages.clone(),
        program,
        answer: Answer::Rows,
        unit_pages: 8,
        limit_rows: None,
        hidden: None,
        matcher: None,
        skip: Skip::Levels,
    };
    let index_rules = vec![(OwnerId::new(1), Some(rule()))];
    for c in [
        Command::Scan(scan),
        Command::BuildIndex(OwnerId::new(1)),
        Command::ReadIndex { view, pages: pages.clone() },
        Command::Write(Batch { index_rules, ..Batch::default() }),
    ] {
        assert_eq!(run(&d, c).unwrap_err(), CommandError::NoContent);
    }
}
