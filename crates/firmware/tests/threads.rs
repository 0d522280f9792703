//! Many threads on one drive: writers, a reader at views, background work, checkpoints and scrubs, until the power goes.
//!
//! ```text
//!   writer t, batch n ─► some of its own pages, and all shared ones, say so     view: whole batches, all shared pages alike
//!   power cut ─► recover: of each writer what was acknowledged, and whole batches after it, in order
//! ```
//!
//! A seed decides what is written and when the power goes, not how threads take turns. `LODE_SEEDS=500` tries more.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use common::*;
use lode_base::{ExtentId, Geometry, Lpid, PageBuf, ViewId, VirtualTime};
use lode_command::{Align, Batch, Budget, Command, Device, Outcome, PageWrite, Until};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{Medium, Power};
use parking_lot::Mutex;

const WRITERS: usize = 4;
const OWN_PAGES: u16 = 24;
const SHARED_PAGES: u16 = 3;

/// Own pages of a writer: the batch that wrote each.
type Pages = BTreeMap<u16, u64>;

struct Writer {
    extent: ExtentId,
    random: Mutex<Random>,
    /// Its pages after each batch, the first of which is number 0.
    states: Mutex<Vec<Pages>>,
    acknowledged: AtomicU64,
}

/// What a page of batch `n` of writer `t` holds: its length follows from what is in it.
fn content(t: usize, n: u64, page: u16) -> Vec<u8> {
    let long = if n.is_multiple_of(9) { 30_000 } else { 1500 };
    let len = 64 + (n * 131 + u64::from(page) * 977) % long;
    (n << 8 | t as u64).to_le_bytes().into_iter().cycle().take(len as usize).collect()
}

/// The writer and the batch of a page's content, of which nothing is wrong.
fn origin(b: &[u8], page: u16) -> (usize, u64) {
    let word = u64::from_le_bytes(b[..8].try_into().unwrap());
    let (t, n) = ((word & 0xff) as usize, word >> 8);
    assert!(b == content(t, n, page), "page {page} of batch {n} of writer {t} is another");
    (t, n)
}

impl Writer {
    /// The next batch.
    fn batch(&self, t: usize, random: &mut Random, shared: ExtentId) -> Batch {
        let n = self.states.lock().len() as u64;
        let mut pages = self.states.lock().last().unwrap().clone();
        let mut batch = Batch::default();
        let mut add = |lpid: Lpid, page| {
            let align = if n.is_multiple_of(2) { Align::Cell } else { Align::ReadUnit };
            batch.writes.push(PageWrite { lpid, data: PageBuf::copy_from(&content(t, n, page)), align });
        };
        // Page 0 names the batch.
        for page in 0..OWN_PAGES {
            if page == 0 || random.below(4) == 0 {
                add(self.extent.page(page), page);
                pages.insert(page, n);
            }
        }
        (0..SHARED_PAGES).for_each(|page| add(shared.page(page), page));
        for page in 1..OWN_PAGES {
            if random.below(12) == 0 && pages.get(&page).is_some_and(|&m| m < n) {
                batch.trims.push(self.extent.page(page));
                pages.remove(&page);
            }
        }
        self.states.lock().push(pages);
        batch
    }

    /// Writes a batch, or a few that are in flight at a time; false once the power is cut.
    fn write(&self, t: usize, d: &Drive, shared: ExtentId, power: &Power) -> bool {
        let random = &mut *self.random.lock();
        let mut queue = d.open_queue(4).unwrap();
        let first = self.states.lock().len() as u64;
        let count = [1, 1, 2, 4][random.below(4) as usize];
        for _ in 0..count {
            let batch = self.batch(t, random, shared);
            queue.submit(VirtualTime::ZERO, Command::Write(batch)).unwrap();
        }
        let mut done = Vec::new();
        while done.len() < count as usize {
            queue.complete(VirtualTime::ZERO, Until::One, &mut done).unwrap();
        }
        for (n, completion) in (first..).zip(done) {
            match completion.outcome {
                Outcome::Done(Ok(_)) if !power.is_cut() => self.acknowledged.store(n, Ordering::Release),
                Outcome::Done(Ok(_)) => {}
                Outcome::Done(Err(e)) => assert!(power.is_cut(), "batch {n} of writer {t}: {e}"),
                Outcome::Unit(_) => panic!("a unit of no scan"),
            }
        }
        !power.is_cut()
    }
}

/// The pages of a writer, all of one batch; its number.
fn look(d: &Drive, view: Option<ViewId>, t: usize, w: &Writer) -> u64 {
    let (of, n) = get(d, view, w.extent.page(0)).map_or((t, 0), |b| origin(&b, 0));
    assert_eq!(of, t, "a page of writer {t}");
    let state = w.states.lock()[n as usize].clone();
    for page in 1..OWN_PAGES {
        let found = get(d, view, w.extent.page(page)).map(|b| origin(&b, page));
        assert_eq!(found, state.get(&page).map(|&m| (t, m)), "page {page} of writer {t} as of batch {n}");
    }
    n
}

fn look_at_shared(d: &Drive, view: Option<ViewId>, shared: ExtentId) {
    let of = |page| get(d, view, shared.page(page)).map(|b| origin(&b, page));
    let first = of(0);
    assert!((1..SHARED_PAGES).all(|page| of(page) == first), "shared pages are of several batches");
}

/// What holds at any view: answers the batch of each writer that it shows.
fn look_at_all(d: &Drive, view: Option<ViewId>, writers: &[Writer], shared: ExtentId) -> Vec<u64> {
    look_at_shared(d, view, shared);
    writers.iter().enumerate().map(|(t, w)| look(d, view, t, w)).collect()
}

/// Looks at views until the power goes; answers how many.
fn read_views(d: &Drive, writers: &[Writer], shared: ExtentId, power: &Power) -> u64 {
    let mut views = 0;
    while !power.is_cut() {
        let acknowledged: Vec<u64> = writers.iter().map(|w| w.acknowledged.load(Ordering::Acquire)).collect();
        let (view, _) = open_view(d);
        let shown = look_at_all(d, Some(view), writers, shared);
        assert!(
            shown.iter().zip(&acknowledged).all(|(s, a)| s >= a),
            "{shown:?}, but {acknowledged:?} are over"
        );
        assert_eq!(look_at_all(d, Some(view), writers, shared), shown, "a view changed");
        close_view(d, view);
        views += 1;
    }
    views
}

/// Checkpoints, scrubs and background work until the power goes.
fn maintain(d: &Drive, random: &mut Random, power: &Power) {
    while !power.is_cut() {
        let done = match random.below(8) {
            0 => run(d, Command::Checkpoint).map(drop).map_err(|e| e.to_string()),
            1 => match d.scrub() {
                Ok(r) if r.lost.is_empty() => Ok(()),
                Ok(r) => Err(r.lost.join(", ")),
                Err(e) => Err(e.to_string()),
            },
            _ => {
                let budget = Budget { write_bytes: 1 << random.below(20) };
                d.work(VirtualTime::ZERO, budget);
                Ok(())
            }
        };
        if let Err(e) = done {
            assert!(power.is_cut(), "{e}");
        }
    }
}

/// Fills the drive up to `left` bytes with pages that stay, every other page of what was written going again.
fn fill(d: &Drive, left: u64) {
    let extent = allocate(d, 6, 1)[0];
    for page in 0.. {
        if d.info().free_bytes < left {
            break;
        }
        put(d, extent.page(page), &[page as u8; 20_000]).unwrap();
        if page % 3 == 2 {
            write(d, Batch { trims: vec![extent.page(page - 1)], ..Batch::default() }).unwrap();
        }
    }
}

fn cuts(seed: u64) -> u64 {
    let mut random = Random(seed);
    let eblocks = if seed.is_multiple_of(2) { 48 } else { 40 };
    let g = Geometry::new(2, 1, 1, 4096, 4096, 256 << 10, eblocks).unwrap();
    let options = DriveOptions {
        map_cache_bytes: 20 << 10,
        checkpoint_log_bytes: 200 << 10,
        inline_buffer_bytes: 16 << 10,
        erased_kept: 2,
        ..DriveOptions::default()
    };
    let (medium, mut power) = Medium::with_power(g);
    let buffer_bytes = if seed % 8 == 7 { 16 << 10 } else { 0 };
    let mut d = Drive::format(medium.with_protected_buffer(buffer_bytes), options.clone()).unwrap();
    let shared = allocate(&d, 5, 1)[0];
    let writer = |extent| Writer {
        extent,
        random: Mutex::new(Random(random.next())),
        states: Mutex::new(vec![Pages::new()]),
        acknowledged: AtomicU64::new(0),
    };
    let writers: Vec<Writer> = allocate(&d, 5, WRITERS as u32).into_iter().map(writer).collect();
    if seed % 4 < 2 {
        // What is in flight at a time, and what a view keeps, is less.
        fill(&d, 3 << 20);
    }
    let mut views = 0;
    for _ in 0..3 {
        power.cut_after(random.below(1500));
        std::thread::scope(|s| {
            let (d, power) = (&d, &power);
            for (t, w) in writers.iter().enumerate() {
                s.spawn(move || while w.write(t, d, shared, power) {});
            }
            let reader = s.spawn(|| read_views(d, &writers, shared, power));
            maintain(d, &mut random, power);
            views += reader.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        });
        let (medium, next) = power.restored(random.next()).unwrap();
        power = next;
        d = Unrecovered::new(medium, options.clone()).recover().unwrap();
        let found = look_at_all(&d, None, &writers, shared);
        for ((t, w), n) in writers.iter().enumerate().zip(found) {
            let mut states = w.states.lock();
            let (acknowledged, last) = (w.acknowledged.load(Ordering::Acquire), states.len() as u64 - 1);
            let between = (acknowledged..=last).contains(&n);
            assert!(between, "writer {t} was at {acknowledged} to {last}, but is at {n}");
            states.truncate(n as usize + 1);
            w.acknowledged.store(n, Ordering::Release);
        }
        d.check_invariants();
        sound(&d);
    }
    views
}

#[test]
fn what_any_thread_was_told_is_durable_survives_a_cut() {
    let seeds = std::env::var("LODE_SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(12);
    let mut views = 0;
    for seed in 0..seeds {
        let tried = std::panic::catch_unwind(|| cuts(seed));
        views += tried.unwrap_or_else(|_| panic!("seed {seed} failed"));
    }
    assert!(views > seeds, "readers saw {views} views in {seeds} seeds");
}
