//! Media with a power-protected buffer: what commits cost, and that power may go at any moment.

mod common;

use common::*;
use lode_base::{ExtentId, Geometry, VirtualTime};
use lode_command::{Batch, Command, Device, Outcome, Until};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{FaultKind, Medium};

const WBLOCK: u64 = 4096;
const BUFFER: u32 = 8 << 10;
const COMMITS: u16 = 60;

fn geometry() -> Geometry {
    Geometry::new(1, 1, 1, 4096, WBLOCK as u32, 256 << 10, 64).unwrap()
}

fn drive(buffer: u32) -> (Drive, ExtentId) {
    let m = Medium::memory(geometry()).with_protected_buffer(buffer);
    let d = Drive::format(m, DriveOptions::default()).unwrap();
    let e = allocate(&d, 7, 1)[0];
    put(&d, e.page(1000), &[1; 5000]).unwrap();
    (d, e)
}

#[test]
fn small_commits_share_log_pages_where_a_buffer_protects_them() {
    let cost = |buffer| {
        let (d, e) = drive(buffer);
        let before = d.info();
        (0..COMMITS).for_each(|n| drop(put(&d, e.page(n), &[n as u8; 100])));
        let after = d.info();
        sound(&d);
        d.check_invariants();
        let cut = d.after_power_cut().unwrap().unwrap();
        (0..COMMITS).for_each(|n| assert_eq!(get(&cut, None, e.page(n)), Some(vec![n as u8; 100])));
        sound(&cut);
        (after.media_bytes_written - before.media_bytes_written, after.log_groups - before.log_groups)
    };
    assert_eq!(
        cost(0),
        (u64::from(COMMITS) * 2 * WBLOCK, u64::from(COMMITS)),
        "each forces a page and its copy"
    );
    let (bytes, groups) = cost(BUFFER);
    assert!(groups <= 4 && bytes == groups * 2 * WBLOCK, "{bytes} bytes in {groups} groups");
}

#[test]
fn power_is_cut_at_every_operation_and_nothing_acknowledged_is_lost() {
    for buffer in [100, 1000, BUFFER] {
        let mut recovered = 0;
        for cut in 0.. {
            let (m, faults) = Medium::simulated(geometry());
            let m = m.with_protected_buffer(buffer);
            let options = DriveOptions { checkpoint_log_bytes: 200 << 10, ..DriveOptions::default() };
            let d = Drive::format(m, options.clone()).unwrap();
            let e = allocate(&d, 7, 1)[0];
            faults.cut_after(cut);
            let mut done = Vec::new();
            for n in 0..40u16 {
                let len = if n % 7 == 3 { 9000 } else { 64 + 9 * usize::from(n) };
                let trims = if n % 5 == 4 { vec![e.page(n - 3)] } else { Vec::new() };
                let writes = vec![page(e.page(n), &vec![n as u8; len]), page(e.page(500), &[n as u8; 80])];
                if write(&d, Batch { writes, trims, ..Batch::default() }).is_err() || faults.is_cut() {
                    break;
                }
                if n % 16 == 9 && (run(&d, Command::Checkpoint).is_err() || faults.is_cut()) {
                    done.push((n, len));
                    break;
                }
                done.push((n, len));
            }
            let over = !faults.is_cut();
            let (m, again) = faults.restored(cut).unwrap();
            // And once more in the recovery.
            again.cut_after(cut % 23);
            let first = Unrecovered::new(m, options.clone()).recover();
            drop(first);
            let (m, _) = again.restored(cut + 1).unwrap();
            let d = Unrecovered::new(m, options).recover().unwrap();
            recovered += u64::from(d.info().recovery.log_records > 0);
            let whole = |d: &Drive| {
                for &(n, len) in &done {
                    // The batch under way when power went may have trimmed it, or not.
                    let trimmed = done.iter().any(|&(t, _)| t % 5 == 4 && t == n + 3);
                    let may = n % 5 == 1 && usize::from(n) + 3 == done.len();
                    let got = get(d, None, e.page(n));
                    let expected = if trimmed { None } else { Some(vec![n as u8; len]) };
                    assert!(got == expected || may && got.is_none(), "cut at {cut}: page {n}");
                }
                sound(d);
                d.check_invariants();
            };
            whole(&d);
            // An extent is only known once a batch was durable.
            let e = if done.is_empty() { allocate(&d, 7, 1)[0] } else { e };
            put(&d, e.page(600), &[9; 70]).unwrap();
            d.clone().close().unwrap();
            whole(&d);
            if over {
                break;
            }
        }
        assert!(recovered > 20, "{recovered} recoveries read something");
    }
}

#[test]
fn a_drive_that_was_closed_has_nothing_pending() {
    let (m, faults) = Medium::simulated(geometry());
    let d = Drive::format(m.with_protected_buffer(BUFFER), DriveOptions::default()).unwrap();
    let e = allocate(&d, 7, 1)[0];
    for round in 0..5u16 {
        put(&d, e.page(round), &[round as u8; 300]).unwrap();
    }
    d.close().unwrap();
    let mut faults = faults;
    for round in 5..9u16 {
        let (m, next) = faults.restored(0).unwrap();
        let d = Unrecovered::new(m, DriveOptions::default()).recover().unwrap();
        assert!(d.info().recovery.clean);
        put(&d, e.page(round), &[round as u8; 300]).unwrap();
        (0..=round).for_each(|n| assert_eq!(get(&d, None, e.page(n)), Some(vec![n as u8; 300])));
        sound(&d);
        d.close().unwrap();
        faults = next;
    }
}

/// A sync that fails while what is pending goes to its page leaves the log's end in doubt: nothing is acknowledged behind it.
#[test]
fn nothing_is_acknowledged_behind_a_pending_page_whose_sync_failed() {
    let mut failed = 0;
    for after in 0..70 {
        let (m, faults) = Medium::simulated(geometry());
        let m = m.with_protected_buffer(1000);
        let options = DriveOptions { checkpoint_log_bytes: 200 << 10, ..DriveOptions::default() };
        let d = Drive::format(m, options.clone()).unwrap();
        let e = allocate(&d, 7, 1)[0];
        put(&d, e.page(0), &[1; 100]).unwrap();
        faults.arm(FaultKind::SyncError, after, 0);
        let mut done = Vec::new();
        for flight in 0..100u16 {
            let lpid = |n: u16| e.page(1 + flight * 4 + n);
            let len = |n: u16| if (flight + n) % 9 == 8 { 9000 } else { 120 };
            let mut q = d.open_queue(4).unwrap();
            for n in 0..4 {
                let batch = Batch { writes: vec![page(lpid(n), &vec![n as u8; len(n)])], ..Batch::default() };
                q.submit(VirtualTime::ZERO, Command::Write(batch)).unwrap();
            }
            let mut out = Vec::new();
            while out.len() < 4 {
                q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
            }
            for (n, c) in (0..4).zip(&out) {
                match &c.outcome {
                    Outcome::Done(Ok(_)) => done.push((lpid(n), n as u8, len(n))),
                    _ => failed += 1,
                }
            }
        }
        let (m, _) = faults.restored(after).unwrap();
        let d = Unrecovered::new(m, options).recover().unwrap();
        done.iter()
            .for_each(|&(lpid, n, len)| assert_eq!(get(&d, None, lpid), Some(vec![n; len]), "{after}"));
        sound(&d);
        d.check_invariants();
    }
    assert!(failed > 100, "{failed} batches failed");
}
