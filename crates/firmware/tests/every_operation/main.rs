//! A fixed workload, and at every single one of its media operations: a power cut, a failed program, erasure, write or
//! sync, or a full file system; and again a power cut at every operation of the recovery that follows.
//!
//! ```text
//!   workload ─► fault at operation n ─► opened again (cut at operation m, opened again) ─► all that was acknowledged is there
//! ```
//!
//! By default some of the operations are tried, others with each `LODE_FROM`; `LODE_EVERY=1` tries all.

#[path = "../common/mod.rs"]
mod common;
mod host;
mod workload;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host::{Fault, Host};
use lode_firmware::DriveInfo;
use lode_flash::FaultKind;
use workload::{Part, Shape};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

/// Every which operation is tried, from which on.
fn stride(default: u64) -> (u64, u64) {
    let every = number("LODE_EVERY").unwrap_or(default);
    (every, number("LODE_FROM").unwrap_or(default / 2) % every)
}

/// Says where it was when a test fails.
struct At(String);

impl Drop for At {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Does `each` for `from`, `from + every`, ... until it answers false, on two threads.
fn spread((every, from): (u64, u64), each: impl Fn(u64) -> bool + Sync) {
    let (next, over) = (AtomicU64::new(from), AtomicBool::new(false));
    let failed = Mutex::new(None);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let n = next.fetch_add(every, Ordering::Relaxed);
                    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| each(n)));
                    if !tried.unwrap_or_else(|e| {
                        failed.lock().unwrap().get_or_insert(e);
                        false
                    }) {
                        over.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    if let Some(e) = failed.into_inner().unwrap() {
        std::panic::resume_unwind(e);
    }
}

#[derive(Default)]
struct Counts {
    tried: AtomicU64,
    recoveries: AtomicU64,
    cut_recoveries: AtomicU64,
}

impl Counts {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let (tried, cut) = (get(&self.tried), get(&self.cut_recoveries));
        write!(f, "{tried} tried, {} recoveries, {cut} cuts in recoveries", get(&self.recoveries))
    }
}

/// Cuts the power at operation `n` of an opening, and at each `every`th operation of the recovery that follows.
fn cut_at(shape: &Shape, opening: usize, n: u64, seeds: u64, every: Option<(u64, u64)>, counts: &Counts) {
    let _at = At(format!("power is cut at operation {n} of opening {opening}"));
    let (h, _) = shape.run(Some(Fault::cut(opening, n)));
    assert!(h.faults.is_cut(), "it has fewer operations");
    Counts::add(&counts.tried);
    for i in 0..seeds {
        let seed = n * 31 + i;
        let _at = At(format!("found by seed {seed}"));
        let mut found = h.branch(None);
        found.open(seed).expect("the power stays on");
        Counts::add(&counts.recoveries);
        if i == 0 {
            found.goes_on(seed);
        }
    }
    let Some((every, from)) = every else { return };
    for m in (from..).step_by(every as usize) {
        let seed = n * 31 + m % seeds;
        let _at = At(format!("found by seed {seed}, and power is cut at operation {m} of the recovery"));
        let mut found = h.branch(Some(Fault::cut(0, m)));
        if found.open(seed).is_ok() {
            break;
        }
        found.fault = None;
        found.open(m * 17 + seed).expect("the power stays on");
        Counts::add(&counts.cut_recoveries);
        if m % 8 == n % 8 {
            found.goes_on(seed);
        }
    }
}

/// The workload has all that it is meant to have.
fn is_all_there(h: &Host, parts: &[Part]) {
    let sum = |of: fn(&DriveInfo) -> u64| parts.iter().map(|p| of(&p.info)).sum::<u64>();
    let (victims, moved) = (sum(|i| i.gc_victims), sum(|i| i.gc_bytes_moved));
    let (failures, checkpoints) = (sum(|i| i.program_failures), sum(|i| i.checkpoints));
    println!("{victims} victims, {moved} bytes moved, {checkpoints} checkpoints, {} refused", h.refused);
    assert!(victims >= 20 && moved > 500_000 && checkpoints >= 10 && h.refused >= 2);
    assert!(failures == 2 && parts[0].info.eblocks_retired == 1, "{failures} failures");
    let recovered: Vec<bool> = parts.iter().map(|p| p.info.recovery.clean).collect();
    assert_eq!(recovered, [false, true, false], "made, closed, cut");
}

fn cuts(shape: &Shape, every: u64, recoveries: u64) {
    let (h, parts) = shape.run(None);
    assert_eq!(parts, shape.run(None).1, "two runs are the same");
    is_all_there(&h, &parts);
    let operations: Vec<u64> = parts.iter().map(|p| p.operations).collect();
    println!("{operations:?} operations");
    let counts = Counts::default();
    let all = number("LODE_EVERY").is_some();
    for (opening, &operations) in operations.iter().enumerate() {
        spread(stride(every), |n| {
            if n >= operations {
                return false;
            }
            // The recovery is cut, too: each time at other operations, or at all.
            let within = match (all, n / every % recoveries) {
                (true, _) => Some((1, 0)),
                (_, 0) => Some((7, n % 7)),
                _ => None,
            };
            cut_at(shape, opening, n, if all { 3 } else { 1 }, within, &counts);
            true
        });
    }
    println!("{} operations: {counts}", operations.iter().sum::<u64>());
}

/// A fault of this kind strikes at every operation that it counts.
fn strikes(shape: &Shape, kind: FaultKind, every: u64) {
    let (tried, failed, reopened) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    for opening in 0..3 {
        spread(stride(every), |after| {
            let fault = Fault { opening, kind, after, seed: after * 5 + after / 2 };
            let _at = At(format!("{fault:?}"));
            let (mut h, _) = shape.run(Some(fault));
            if !h.has_struck() {
                return false;
            }
            Counts::add(&tried);
            failed.fetch_add(h.failed, Ordering::Relaxed);
            reopened.fetch_add(h.reopened, Ordering::Relaxed);
            h.fault = None;
            if h.is_open() {
                h.open(after).expect("the power stays on");
                h.goes_on(after);
            }
            true
        });
    }
    let get = |c: AtomicU64| c.into_inner();
    println!("{}: {} struck, {} failed, {} reopened", kind.name(), get(tried), get(failed), get(reopened));
}

#[test]
fn power_is_cut_at_every_operation() {
    cuts(&Shape::small(), 11, 8);
}

#[test]
fn power_is_cut_at_every_operation_of_a_wide_drive() {
    cuts(&Shape::wide(), 23, 8);
}

#[test]
fn every_program_fails() {
    strikes(&Shape::small(), FaultKind::ProgramFails, 23);
}

#[test]
fn every_erasure_fails() {
    strikes(&Shape::small(), FaultKind::EraseFails, 7);
}

#[test]
fn every_write_of_the_host_fails() {
    strikes(&Shape::small(), FaultKind::WriteError, 37);
}

#[test]
fn every_write_finds_the_file_system_full() {
    strikes(&Shape::small(), FaultKind::NoSpace, 37);
}

#[test]
fn every_sync_fails() {
    strikes(&Shape::small(), FaultKind::SyncError, 23);
}
