//! Unions of index entries exclude many pages at once, and never one with a row that passes: at any view, between writes, trims and rules.

mod common;

use std::collections::BTreeMap;

use common::*;
use lode_base::{ExtentId, OwnerId, ViewId, VirtualTime};
use lode_command::{
    Answer, Batch, Command, Device, Outcome, PageRange, Reply, ScanCounts, ScanTask, Skip, Until,
};
use lode_firmware::Drive;
use lode_page::Value;

const OWNER: u32 = 5;
const PAGES: u64 = 150;

/// The values of each page, as a view shows them.
type State = BTreeMap<u16, Vec<i64>>;

/// The values from `from` to `to` that a scan of these pages answers, and its counts.
fn scan(
    d: &Drive,
    view: ViewId,
    pages: PageRange,
    values: (i64, i64),
    unit_pages: u32,
) -> (Vec<i64>, ScanCounts) {
    let task = ScanTask {
        view,
        pages: vec![pages],
        program: program(values.0, values.1),
        answer: Answer::Rows,
        unit_pages,
        limit_rows: None,
        hidden: None,
        matcher: None,
        skip: Skip::Levels,
    };
    let mut q = d.open_queue(1).unwrap();
    q.submit(VirtualTime::ZERO, Command::Scan(task)).unwrap();
    let (mut out, mut rows) = (Vec::new(), Vec::new());
    loop {
        q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
        for c in out.drain(..) {
            match c.outcome {
                Outcome::Unit(u) => rows.extend(u.pages.iter().flat_map(|p| {
                    (0..p.rows as usize).map(|row| match p.columns[0].value(row) {
                        Value::Int(v) => v,
                        v => panic!("{v:?}"),
                    })
                })),
                Outcome::Done(Ok(Reply::Scanned(counts))) => return (rows, counts),
                Outcome::Done(r) => panic!("{r:?}"),
            }
        }
    }
}

fn rules(d: &Drive) {
    write(d, Batch { index_rules: vec![(OwnerId::new(OWNER), Some(rule()))], ..Batch::default() }).unwrap();
}

/// Changes some pages: each has values near its number, and now and then one from far away.
fn change(d: &Drive, extent: ExtentId, state: &mut State, r: &mut Random) {
    let (mut writes, mut trims) = (Vec::new(), Vec::new());
    let mut pages: Vec<u16> = (0..1 + r.skewed(0, 20)).map(|_| r.below(PAGES) as u16).collect();
    pages.sort_unstable();
    pages.dedup();
    for page in pages {
        if r.once_in(5) {
            state.remove(&page);
            trims.push(extent.page(page));
            continue;
        }
        let near = i64::from(page) * 10;
        let mut values: Vec<i64> = (0..1 + r.below(4)).map(|_| near + r.below(12) as i64).collect();
        if r.once_in(20) {
            values.push(r.below(PAGES * 10) as i64);
        }
        writes.push(table_page(extent.page(page), OWNER, &values));
        state.insert(page, values);
    }
    write(d, Batch { writes, trims, ..Batch::default() }).unwrap();
}

#[test]
fn scans_at_any_view_find_what_passes_between_changes() {
    let (mut together, mut scans) = (0, 0);
    for seed in 0..60 {
        let r = &mut Random::of_seed(seed);
        let mut d = Drive::in_memory(1 << 30);
        let extent = allocate(&d, OWNER, 1)[0];
        let mut state = State::new();
        let mut views: Vec<(ViewId, State)> = Vec::new();
        if !r.once_in(4) {
            rules(&d);
        }
        let all = (0..PAGES as u16).filter(|p| *p % 7 != 3 || seed % 3 > 0);
        for page in all {
            state.insert(page, vec![i64::from(page) * 10, i64::from(page) * 10 + 9]);
        }
        let writes =
            state.iter().map(|(&page, values)| table_page(extent.page(page), OWNER, values)).collect();
        write(&d, Batch { writes, ..Batch::default() }).unwrap();
        for _ in 0..40 {
            match r.below(12) {
                0..4 => change(&d, extent, &mut state, r),
                4 => views.push((open_view(&d).0, state.clone())),
                5 if !views.is_empty() => {
                    close_view(&d, views.remove(r.below(views.len() as u64) as usize).0)
                }
                6 if r.once_in(4) => rules(&d),
                7 if r.once_in(4) => {
                    // Without a rule there is nothing to build.
                    let _ = run(&d, Command::BuildIndex(OwnerId::new(OWNER)));
                }
                8 if r.once_in(8) => {
                    d = d.after_power_cut().unwrap().unwrap();
                    views.clear();
                }
                _ => {
                    views.push((open_view(&d).0, state.clone()));
                    let (view, shown) = &views[r.below(views.len() as u64) as usize];
                    let first = if r.once_in(2) { 0 } else { r.below(PAGES) as u16 };
                    let count = if r.once_in(2) { 1024 - first } else { 1 + r.below(60) as u16 };
                    let pages = PageRange { extent, first, count };
                    let from = r.below(PAGES * 10) as i64;
                    let to = from + r.skewed(1, 400) as i64;
                    let (rows, counts) = scan(&d, *view, pages, (from, to), 1 + r.skewed(0, 40) as u32);
                    let of: Vec<&Vec<i64>> = shown.range(first..first + count).map(|(_, v)| v).collect();
                    let expected: Vec<i64> = of
                        .iter()
                        .flat_map(|v| v.iter().copied())
                        .filter(|v| (from..to).contains(v))
                        .collect();
                    assert_eq!(rows, expected, "seed {seed}: {from}..{to} of pages from {first}");
                    assert_eq!(counts.pages, of.len() as u64, "seed {seed}");
                    assert_eq!(counts.pages_read + counts.pages_skipped, counts.pages, "seed {seed}");
                    scans += 1;
                    together += counts.pages_skipped;
                }
            }
        }
        sound(&d);
    }
    assert!(scans > 300 && together > 10_000, "{scans} scans excluded {together} pages");
}
