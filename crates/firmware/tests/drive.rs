//! What one command after another can expect: views, index entries, extents, limits, queues, readers beside a
//! writer.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::*;
use lode_base::{Geometry, OwnerId, PageBuf, VirtualTime};
use lode_command::{
    Align, Answer, Batch, Command, CommandError, Device, Outcome, PageRange, PageWrite, Reply, ScanTask,
    Skip, Until,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_page::{DataType, Value};
use lode_program::{CompareOp, Expr, IndexEntry, Program};

fn drive() -> Drive {
    Drive::in_memory(1 << 30)
}

fn cut(d: &Drive) -> Drive {
    d.after_power_cut().unwrap().unwrap()
}

fn program(at_least: i64) -> Arc<Program> {
    let filter =
        Expr::compare(CompareOp::GtEq, Expr::Column(0), Expr::Const(Value::Int(at_least), DataType::BigInt));
    Arc::new(Program::check(schema(), Some(filter), vec![0], false).unwrap())
}

fn rules(owner: u32) -> Batch {
    Batch { index_rules: vec![(OwnerId::new(owner), Some(rule()))], ..Batch::default() }
}

#[test]
fn index_entries_travel_with_versions_and_survive() {
    let d = drive();
    write(&d, rules(5)).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    let lpid = extent.page(3);
    let put = |d: &Drive, values: &[i64]| {
        write(d, Batch { writes: vec![table_page(lpid, 5, values)], ..Batch::default() }).unwrap();
    };
    let ranges = |d: &Drive| {
        let (view, _) = open_view(d);
        let entries = index_entries(d, view, extent);
        close_view(d, view);
        let keys = |e: &IndexEntry| rule().bounds(e, 0).and_then(|b| b.keys);
        entries.iter().map(|(l, e)| (l.page(), e.as_ref().and_then(keys))).collect::<Vec<_>>()
    };
    put(&d, &[1, 2, 3]);
    let (old, _) = open_view(&d);
    let was = index_entries(&d, old, extent);
    put(&d, &[100, 200]);
    let now = ranges(&d);
    assert_eq!(index_entries(&d, old, extent), was);
    assert_ne!(now[0].1, rule().bounds(was[0].1.as_ref().unwrap(), 0).unwrap().keys);
    assert!(now[0].1.is_some());
    let d = cut(&d);
    assert_eq!(ranges(&d), now);
    d.clone().close().unwrap();
    let d = cut(&d);
    assert_eq!(ranges(&d), now);
    sound(&d);
    let bad = write(&d, Batch { writes: vec![page(lpid, &[0; 100])], ..Batch::default() });
    assert!(matches!(bad, Err(CommandError::BadPage { .. })), "{bad:?}");
    assert_eq!(ranges(&d), now);
}

#[test]
fn a_rule_registered_after_its_data_gets_entries_when_asked() {
    let d = drive();
    let extents = allocate(&d, 5, 3);
    for (i, e) in extents.iter().enumerate() {
        let writes = (0..9).map(|p| table_page(e.page(p), 5, &[i64::from(p), i as i64 * 100])).collect();
        write(&d, Batch { writes, ..Batch::default() }).unwrap();
    }
    let none = run(&d, Command::BuildIndex(OwnerId::new(5)));
    assert!(matches!(none, Err(CommandError::NoIndexRule(o)) if o.raw() == 5));
    write(&d, rules(5)).unwrap();
    let with = |d: &Drive| {
        let (view, _) = open_view(d);
        let n: usize =
            extents.iter().map(|e| index_entries(d, view, *e).iter().filter(|e| e.1.is_some()).count()).sum();
        close_view(d, view);
        n
    };
    assert_eq!(with(&d), 0);
    let build = |d: &Drive| match run(d, Command::BuildIndex(OwnerId::new(5))) {
        Ok(Reply::Indexed { pages }) => pages,
        r => panic!("{r:?}"),
    };
    assert_eq!((build(&d), build(&d)), (27, 0));
    assert_eq!(with(&d), 27);
    let d = cut(&d);
    assert_eq!(with(&d), 27);
    sound(&d);
    // A rule registered again has entries of its own.
    write(&d, rules(5)).unwrap();
    assert_eq!((with(&d), build(&d), with(&d)), (0, 27, 27));
    let none = Batch { index_rules: vec![(OwnerId::new(5), None)], ..Batch::default() };
    write(&d, none).unwrap();
    assert_eq!(with(&cut(&d)), 0);
}

#[test]
fn a_scan_skips_answers_and_is_narrowed_and_cancelled() {
    let d = drive();
    write(&d, rules(5)).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    let writes = (0..40).map(|p| table_page(extent.page(p), 5, &[i64::from(p) * 10, i64::from(p) * 10 + 5]));
    write(&d, Batch { writes: writes.collect(), ..Batch::default() }).unwrap();
    let (view, _) = open_view(&d);
    let task = |program| {
        Command::Scan(ScanTask {
            view,
            pages: vec![PageRange { extent, first: 0, count: 1024 }],
            program,
            answer: Answer::Rows,
            unit_pages: 10,
            limit_rows: None,
            hidden: None,
            matcher: None,
            skip: Skip::Levels,
        })
    };
    let mut q = d.open_queue(2).unwrap();
    let at = VirtualTime::ZERO;
    let all = q.submit(at, task(program(0))).unwrap();
    let some = q.submit(at, task(program(300))).unwrap();
    assert!(q.submit(at, Command::OpenView).is_err(), "the queue is full");
    let mut out = Vec::new();
    q.complete(at, Until::One, &mut out).unwrap();
    q.narrow(all, program(200));
    loop {
        let before = out.len();
        q.complete(at, Until::One, &mut out).unwrap();
        if out.len() == before {
            break;
        }
    }
    let end = |tag| {
        let mut done = out.iter().filter(|c| c.tag == tag).filter_map(|c| match &c.outcome {
            Outcome::Done(Ok(Reply::Scanned(counts))) => Some(*counts),
            _ => None,
        });
        let counts = done.next().unwrap();
        assert!(done.next().is_none());
        counts
    };
    assert_eq!(end(some).rows_out, 20);
    assert_eq!((end(some).pages, end(some).pages_skipped), (40, 30));
    assert_eq!(end(all).rows_out, 20 + 40, "ten pages before it was narrowed, twenty after");
    let cancelled = q.submit(at, task(program(0))).unwrap();
    q.cancel(cancelled);
    out.clear();
    q.complete(at, Until::Ready, &mut out).unwrap();
    assert!(matches!(out[..], [ref c] if matches!(c.outcome, Outcome::Done(Err(CommandError::Cancelled)))));
    close_view(&d, view);
    q.submit(at, task(program(0))).unwrap();
    out.clear();
    q.complete(at, Until::One, &mut out).unwrap();
    assert!(
        matches!(out[..], [ref c] if matches!(c.outcome, Outcome::Done(Err(CommandError::ViewClosed(_)))))
    );
}

#[test]
fn a_released_extent_is_issued_again_only_after_older_views_closed() {
    let d = drive();
    let extent = allocate(&d, 5, 1)[0];
    put(&d, extent.page(0), &[1; 64]).unwrap();
    let (view, _) = open_view(&d);
    write(&d, Batch { releases: vec![extent], ..Batch::default() }).unwrap();
    assert_eq!(put(&d, extent.page(0), &[2; 64]), Err(CommandError::NoSuchExtent(extent)));
    assert_ne!(allocate(&d, 6, 1)[0], extent);
    assert_eq!(get(&d, Some(view), extent.page(0)), Some(vec![1; 64]));
    close_view(&d, view);
    assert_eq!(allocate(&d, 6, 1)[0], extent);
    assert_eq!(get(&d, None, extent.page(0)), None);
    sound(&d);
}

#[test]
fn bad_batches_are_refused_whole() {
    let d = drive();
    let extent = allocate(&d, 5, 1)[0];
    let [a, b] = [extent.page(0), extent.page(1)];
    let max = d.identity().page_bytes_max as usize;
    let refused = |batch: Batch, what: &str| {
        let e = write(&d, batch).unwrap_err().to_string();
        assert!(e.contains(what), "{e}");
    };
    let writes = |w: &[PageWrite]| Batch { writes: w.to_vec(), ..Batch::default() };
    refused(writes(&[page(b, &[1; 64]), page(a, &[1; 63])]), "63 bytes");
    refused(writes(&[page(a, &vec![1; max + 1])]), "bytes; 64 to");
    refused(writes(&[page(a, &[1; 64]), page(a, &[2; 64])]), "twice");
    refused(Batch { trims: vec![b, b], ..Batch::default() }, "twice");
    refused(Batch { releases: vec![extent, extent], ..Batch::default() }, "twice");
    let mut both = writes(&[page(a, &[1; 64])]);
    both.releases.push(extent);
    refused(both, "released");
    let other = lode_base::ExtentId::new(77).unwrap();
    refused(writes(&[page(a, &[1; 64]), page(other.page(0), &[1; 64])]), "no owner");
    assert_eq!((get(&d, None, a), get(&d, None, b)), (None, None));
    assert_eq!(d.info().commit.raw(), 0);
    put(&d, a, &vec![3; max]).unwrap();
    assert_eq!(get(&d, None, a).unwrap().len(), max);
}

/// 21 bits hold the length of a page; and its EBLOCK holds its own metadata, too.
#[test]
fn the_longest_page_is_one_that_the_format_and_an_eblock_hold() {
    for (eblock_bytes, longest) in [(8 << 20, (1 << 21) - 1), (1 << 20, (1 << 20) - 4096)] {
        let g = Geometry::new(1, 1, 1, 4096, 4096, eblock_bytes, 24).unwrap();
        let options = DriveOptions { page_bytes_max: u32::MAX, ..DriveOptions::default() };
        let d = Drive::format(Medium::memory(g), options).unwrap();
        assert_eq!((d.identity().page_bytes_max, d.identity().durable), (longest, false));
        let extent = allocate(&d, 5, 1)[0];
        put(&d, extent.page(0), &vec![3; longest as usize]).unwrap();
        let d = d.after_power_cut().unwrap().unwrap();
        assert_eq!(get(&d, None, extent.page(0)).unwrap().len(), longest as usize);
        sound(&d);
    }
}

#[test]
fn when_it_is_full_it_reads_opens_trims_and_writes_again() {
    let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 24).unwrap();
    let mut d = Drive::format(Medium::memory(g), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    let data = |n: u16| vec![n as u8; 200_000];
    for round in 0..3 {
        let mut n = 0;
        let full = loop {
            match put(&d, extent.page(n), &data(n)) {
                Ok(_) => n += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(full, CommandError::OutOfSpace { .. }), "{full}");
        assert!(n > 30, "only {n} pages of 200 KB fit 24 MB in round {round}");
        d = cut(&d);
        sound(&d);
        assert!((0..n).all(|p| get(&d, None, extent.page(p)) == Some(data(p))));
        // What was open, and the log, may have given a little room.
        let refused = (0..20).find_map(|_| {
            let put = put(&d, extent.page(n), &data(n));
            n += u16::from(put.is_ok());
            put.err()
        });
        assert!(matches!(refused, Some(CommandError::OutOfSpace { .. })), "{refused:?}");
        for p in 0..n {
            write(&d, Batch { trims: vec![extent.page(p)], ..Batch::default() }).unwrap();
        }
        d = cut(&d);
        sound(&d);
    }
}

#[test]
fn space_of_overwritten_pages_is_used_again() {
    let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 24).unwrap();
    let d = Drive::format(Medium::memory(g), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    for n in 0..400u16 {
        put(&d, extent.page(n % 10), &vec![n as u8; 500_000]).unwrap();
    }
    for n in 0..3000u16 {
        put(&d, extent.page(n % 10), &[n as u8; 64]).unwrap();
    }
    sound(&d);
    assert_eq!(get(&d, None, extent.page(9)), Some(vec![(2999 % 256) as u8; 64]));
}

/// Pages of one batch hold one number: at a view, all of them hold the same, and it stays the same.
#[test]
fn readers_beside_a_writer_see_whole_batches_at_views() {
    const PAGES: u16 = 12;
    let options = DriveOptions {
        map_cache_bytes: 20 << 10,
        checkpoint_log_bytes: 400 << 10,
        erased_kept: 2,
        ..DriveOptions::default()
    };
    let g = Geometry::new(2, 1, 1, 4096, 4096, 1 << 20, 48).unwrap();
    let d = Drive::format(Medium::memory(g), options).unwrap();
    let extents = allocate(&d, 5, 4);
    let batch = |n: u64| {
        let pages = (0..PAGES).map(|p| extents[usize::from(p) % 4].page(p));
        let data = |p: usize| n.to_le_bytes().repeat(8 + (n as usize * 31 + p * 977) % 3000);
        let align = if n.is_multiple_of(2) { Align::Cell } else { Align::ReadUnit };
        let w = |(i, lpid)| PageWrite { lpid, data: lode_base::PageBuf::copy_from(&data(i)), align };
        Batch { writes: pages.enumerate().map(w).collect(), ..Batch::default() }
    };
    write(&d, batch(0)).unwrap();
    let (over, views) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|s| {
        for reader in 0..3 {
            let (d, extents, over, views) = (&d, &extents, &over, &views);
            s.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let (view, commit) = open_view(d);
                    for _ in 0..1 + reader {
                        for p in 0..PAGES {
                            let b = get(d, Some(view), extents[usize::from(p) % 4].page(p)).unwrap();
                            let n = commit.raw() - 1;
                            assert!(b.chunks(8).all(|c| c == n.to_le_bytes()), "page {p} at {commit:?}");
                        }
                        let newest = get(d, None, extents[0].page(0)).unwrap();
                        assert!(newest.chunks(8).all(|c| c == &newest[..8]), "half a page");
                    }
                    close_view(d, view);
                    views.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 1..1500 {
            match write(&d, batch(n)) {
                Ok((commit, _)) => assert_eq!(commit.raw(), n + 1),
                Err(e) => {
                    over.store(true, Ordering::Relaxed);
                    panic!("batch {n}: {e}");
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(views.load(Ordering::Relaxed) > 10);
    sound(&d);
}

/// Deleting rows writes what is left of a page, and the catalog: a full drive that refused that could not be emptied.
#[test]
fn a_full_drive_takes_batches_that_free_more_than_they_write() {
    let g = Geometry::new(1, 1, 1, 4096, 4096, 512 << 10, 64).unwrap();
    let d = Drive::format(Medium::memory(g), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 1, 1)[0];
    let mut n = 0;
    let full = loop {
        match put(&d, extent.page(n), &[n as u8; 30_000]) {
            Ok(_) => n += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(full, CommandError::OutOfSpace { .. }) && n > 300, "{full} after {n} pages");
    // Of each two pages one goes, and what is left of the other is written anew.
    for p in (0..n - 1).step_by(2) {
        let writes = vec![page(extent.page(p), &[1; 29_000])];
        let trims = vec![extent.page(p + 1)];
        let done = write(&d, Batch { writes, trims, ..Batch::default() });
        done.unwrap_or_else(|e| panic!("page {p} of {n}: {e}"));
    }
    d.check_invariants();
    sound(&d);
}

/// Every second page of half a read unit lies at the start of one, and every page that is written alone: GC took those for
/// pages that were to be aligned, gave each a unit of its own from then on, and gained nothing any more.
#[test]
fn gc_keeps_what_was_to_be_aligned_so_and_packs_what_was_not() {
    let written = |rblock: u32| {
        let g = Geometry::new(1, 1, 1, rblock, 16_384, 1 << 20, 64).unwrap();
        let d = Drive::format(Medium::memory(g), DriveOptions::default()).unwrap();
        let extents = allocate(&d, 1, 9);
        let (count, whole) = (d.info().usable_bytes * 8 / 10 / 4096, extents[8]);
        let of = |n: u64, len, align| PageWrite {
            lpid: extents[(n / 1024) as usize].page((n % 1024) as u16),
            data: PageBuf::copy_from(&vec![n as u8; len]),
            align,
        };
        let whole_of = |n: u16| PageWrite { lpid: whole.page(n), ..of(n.into(), 16_384, Align::ReadUnit) };
        let mut random = Random(1);
        // Pages of whole units lie among the others.
        for first in (0..count).step_by(40) {
            let writes = (first..count.min(first + 40)).map(|n| of(n, 4096, Align::Cell));
            let units = (first / 40 % 8 == 0).then(|| whole_of((first / 320) as u16));
            write(&d, Batch { writes: writes.chain(units).collect(), ..Batch::default() }).unwrap();
        }
        let before = d.info();
        for _ in 0..count * 3 / 16 {
            let pages: BTreeSet<u64> = (0..16).map(|_| random.below(count)).collect();
            let writes = pages.into_iter().map(|n| of(n, 4096, Align::Cell)).collect();
            write(&d, Batch { writes, ..Batch::default() }).unwrap();
        }
        let now = d.info();
        assert!(now.gc_bytes_moved > 0);
        for n in 0..(count / 320) as u16 {
            let before = d.info().media_bytes_read;
            read(&d, None, whole.page(n)).unwrap();
            assert_eq!(
                d.info().media_bytes_read - before,
                16_384,
                "page {n} of whole units lies across others"
            );
        }
        sound(&d);
        let user = now.user_bytes_written - before.user_bytes_written;
        (now.media_bytes_written - before.media_bytes_written) as f64 / user as f64
    };
    let (alike, wide) = (written(4096), written(16_384));
    assert!(
        wide < alike * 1.15,
        "{wide} bytes are programmed for each in units of 16 KB, {alike} in units of 4 KB"
    );
}

/// A batch that found no room for its second part left the EBLOCKs of its first waiting for it, and no test found it.
#[test]
fn a_batch_that_gives_up_leaves_the_eblocks_that_it_took() {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 128).unwrap();
    let d = Drive::format(Medium::memory(geometry), DriveOptions::default()).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    let pages = |from: u16, count: u16, byte: u8| -> Vec<PageWrite> {
        (from..from + count).map(|p| page(extent.page(p), &[byte; 32 << 10])).collect()
    };
    write(&d, Batch { writes: pages(0, 10, 1), ..Batch::default() }).unwrap();
    let mut filled = 10;
    while d.info().free_bytes > 4 << 20 {
        write(&d, Batch { writes: pages(filled, 10, 2), ..Batch::default() }).unwrap();
        filled += 10;
    }
    // What replaces pages fits, what is new does not.
    let writes = [pages(0, 10, 3), pages(filled, 200, 4)].concat();
    let full = write(&d, Batch { writes, ..Batch::default() }).unwrap_err();
    assert!(matches!(full, CommandError::OutOfSpace { .. }), "{full}");
    d.check_invariants();
    assert_eq!(get(&d, None, extent.page(3)), Some(vec![1; 32 << 10]));
    write(&d, Batch { writes: pages(0, 10, 5), ..Batch::default() }).unwrap();
    sound(&d);
}
