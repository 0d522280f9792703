//! Connections that break at any byte, and drives that are opened anew. Every batch takes effect once, in order;
//! every view shows the commit at which it was opened, or is closed.
//!
//! ```text
//!   writers (a queue each, several batches under way) ─► a network that cuts ─► server ─► drive ─ power cut ─► drive
//! ```
//!
//! The oracle is the drive's count of commits. It must equal the number of batches that were answered. A lost batch
//! makes the count lower, and a batch that is applied twice makes it higher. The test writes no other batches.
//! `LODE_CUTS` sets how many connections are cut, `LODE_RESTARTS` how often the drive is opened anew, and `LODE_SEED`
//! the random sequence.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lode_base::{ExtentId, OwnerId, PageBuf, ViewId, VirtualTime};
use lode_command::{
    Align, Batch, Command, CommandError, Device, Outcome, PageWrite, Queue, ReadRequest, Reply, Until,
};
use lode_firmware::Drive;
use lode_remote::RemoteDevice;
use support::*;

const DEPTH: u32 = 6;

/// The pages of a writer. Each batch writes one whole page. Now and then, all pages together, some 48 KB, must pass
/// without a cut.
const PAGES: u64 = 20;

fn page(e: ExtentId, n: u64) -> PageWrite {
    let data = PageBuf::from_values(&vec![n; 8 + (n % 300) as usize]);
    PageWrite { lpid: e.page((n % PAGES) as u16), data, align: Align::Cell }
}

fn value(b: &PageBuf) -> u64 {
    let values = b.try_values::<u64>().unwrap();
    assert!(values.iter().all(|v| *v == values[0]));
    values[0]
}

struct Writer<'a> {
    queue: Box<dyn Queue>,
    random: Random,
    extent: ExtentId,
    nowhere: ExtentId,
    acknowledged: &'a AtomicU64,
    /// The open views and the newest batch that each shows.
    views: Vec<(ViewId, u64)>,
    /// The number of views that the drive closed by itself.
    closed: u64,
    /// The commits in the answers to batches.
    commits: BTreeSet<u64>,
    commits_repeat: bool,
}

/// The kind of a command in the queue.
enum Asked {
    Write(u64, bool),
    Fails,
}

impl Writer<'_> {
    fn run(&mut self, batches: u64, go_on: impl Fn() -> bool) -> u64 {
        let mut under_way: BTreeMap<u64, Asked> = BTreeMap::new();
        let (mut next, mut newest) = (1, 0);
        let mut out = Vec::new();
        while next <= batches || go_on() || !under_way.is_empty() {
            while under_way.len() < DEPTH as usize && (next <= batches || go_on()) {
                let (c, asked) = match self.random.below(12) {
                    // A batch that fails, with other batches behind it.
                    0 => {
                        let writes = vec![page(self.nowhere, 1)];
                        (Command::Write(Batch { writes, ..Batch::default() }), Asked::Fails)
                    }
                    r => {
                        let writes = vec![page(self.extent, next)];
                        let batch = Batch { writes, pin: r < 4, ..Batch::default() };
                        next += 1;
                        (Command::Write(batch), Asked::Write(next - 1, r < 4))
                    }
                };
                let tag = self.queue.submit(VirtualTime::ZERO, c).unwrap();
                under_way.insert(tag.0, asked);
            }
            self.queue.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
            for c in out.drain(..) {
                let Outcome::Done(result) = c.outcome else { panic!("a batch has no parts") };
                match (under_way.remove(&c.tag.0).expect("each is answered once"), result) {
                    (Asked::Fails, Err(CommandError::NoSuchExtent(_))) => {}
                    (Asked::Write(n, pin), Ok(Reply::Committed { commit, view, .. })) => {
                        self.acknowledged.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(n, newest + 1, "batches are answered in order");
                        newest = n;
                        assert!(self.commits.insert(commit.raw()) || self.commits_repeat, "{commit:?} twice");
                        assert_eq!(view.is_some(), pin);
                        self.views.extend(view.map(|v| (v, n)));
                    }
                    (_, other) => panic!("batch: {other:?}"),
                }
            }
            if self.views.len() > 6 && under_way.is_empty() || self.views.len() > 40 {
                // `run` requires an empty queue.
                while !under_way.is_empty() {
                    self.queue.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
                    for c in out.drain(..) {
                        match (under_way.remove(&c.tag.0).unwrap(), c.outcome) {
                            (Asked::Fails, Outcome::Done(Err(_))) => {}
                            (Asked::Write(n, _), Outcome::Done(Ok(Reply::Committed { view, .. }))) => {
                                self.acknowledged.fetch_add(1, Ordering::SeqCst);
                                newest = n;
                                self.views.extend(view.map(|v| (v, n)));
                            }
                            (_, other) => panic!("batch: {other:?}"),
                        }
                    }
                }
                self.look();
            }
        }
        self.look();
        newest
    }

    /// Checks that every view shows the batch at which it was opened, or is closed.
    fn look(&mut self) {
        for (view, newest) in std::mem::take(&mut self.views) {
            let first = newest.saturating_sub(PAGES - 1).max(1);
            let pages: Vec<_> = (first..=newest)
                .map(|n| ReadRequest { lpid: self.extent.page((n % PAGES) as u16), range: None })
                .collect();
            match ask(&mut *self.queue, Command::Read { view: Some(view), pages }) {
                Ok(Reply::Pages(pages)) => {
                    let found: Vec<u64> = pages.iter().map(value).collect();
                    if !self.commits_repeat {
                        assert_eq!(found, (first..=newest).collect::<Vec<_>>(), "at {view:?}");
                    } else {
                        // The drive may have been found with later batches, which were under way together with this
                        // one.
                        let of = |n: u64, v: u64| {
                            v >= n && (v - n).is_multiple_of(PAGES) && v < n + u64::from(DEPTH) + PAGES
                        };
                        assert!((first..=newest).zip(&found).all(|(n, v)| of(n, *v)), "{newest}: {found:?}");
                    }
                }
                Err(CommandError::ViewClosed(v)) => {
                    assert_eq!(v, view);
                    self.closed += 1;
                }
                other => panic!("{other:?}"),
            }
            match ask(&mut *self.queue, Command::CloseView(view)) {
                Ok(Reply::Done) | Err(CommandError::ViewClosed(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn allocate(device: &RemoteDevice, owner: u32) -> ExtentId {
    let mut q = device.open_queue(1).unwrap();
    match ask(&mut *q, Command::AllocateExtents { owner: OwnerId::new(owner), count: 1 }) {
        Ok(Reply::Extents(e)) => e[0],
        other => panic!("{other:?}"),
    }
}

/// Runs writers until `go_on` returns false, then checks the drive. Returns how many views the drive closed by
/// itself.
fn write(
    device: &RemoteDevice,
    threads: u32,
    seed: u64,
    commits_repeat: bool,
    acknowledged: &AtomicU64,
    go_on: impl Fn() -> bool + Sync,
) -> u64 {
    let closed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for t in 0..threads {
            let (closed, go_on) = (&closed, &go_on);
            scope.spawn(move || {
                let extent = allocate(device, t + 1);
                let mut w = Writer {
                    queue: device.open_queue(DEPTH).unwrap(),
                    random: Random::of_seed(seed * 100 + u64::from(t)),
                    extent,
                    nowhere: ExtentId::new(1 << 20).unwrap(),
                    acknowledged,
                    views: Vec::new(),
                    closed: 0,
                    commits: BTreeSet::new(),
                    commits_repeat,
                };
                let newest = w.run(60, go_on);
                closed.fetch_add(w.closed, Ordering::SeqCst);
                let pages = (newest + 1 - PAGES..=newest)
                    .map(|n| ReadRequest { lpid: extent.page((n % PAGES) as u16), range: None })
                    .collect();
                match ask(&mut *w.queue, Command::Read { view: None, pages }) {
                    Ok(Reply::Pages(pages)) => {
                        let found: Vec<u64> = pages.iter().map(value).collect();
                        assert_eq!(found, (newest + 1 - PAGES..=newest).collect::<Vec<_>>());
                    }
                    other => panic!("{other:?}"),
                }
            });
        }
    });
    closed.into_inner()
}

#[test]
fn connections_break_at_any_byte_and_cost_time_alone() {
    let (cuts, seed) = (number("LODE_CUTS", 1000), number("LODE_SEED", 1));
    let drive = Drive::in_memory(1 << 30);
    let server = serve(Arc::new(drive.clone()), 1, Vec::new());
    let network = Network::new(seed, server.addr(), 60_000);
    let device = connect(network.addr);
    let done = || network.cuts.load(Ordering::SeqCst) >= cuts;
    let acknowledged = AtomicU64::new(0);
    let closed = write(&device, 3, seed, false, &acknowledged, || !done());
    let acknowledged = acknowledged.into_inner();
    assert_eq!(drive.info().commit.raw(), acknowledged, "seed {seed}: lost, or applied twice");
    assert_eq!(closed, 0, "seed {seed}: views outlive connections");
    println!("{} cuts, {acknowledged} batches", network.cuts.load(Ordering::SeqCst));
    network.bytes.store(0, Ordering::SeqCst);
    drop(device);
    wait_until(|| drive.info().views == 0 && drive.info().sessions <= 1);
    server.stop();
}

#[test]
fn drives_are_opened_anew_and_nothing_is_lost_or_done_twice() {
    let (restarts, seed) = (number("LODE_RESTARTS", 150), number("LODE_SEED", 1));
    let mut drive = Drive::in_memory(1 << 30);
    let mut server = serve(Arc::new(drive.clone()), 1, Vec::new());
    let network = Network::new(seed, server.addr(), 300_000);
    let device = connect(network.addr);
    let left = AtomicU64::new(restarts);
    let mut random = Random::of_seed(seed ^ 0x5EED);
    let acknowledged = AtomicU64::new(0);
    let closed = std::thread::scope(|scope| {
        let (device, left, acknowledged) = (&device, &left, &acknowledged);
        let writers = scope
            .spawn(move || write(device, 3, seed, true, acknowledged, || left.load(Ordering::SeqCst) > 0));
        for opening in 2..2 + restarts {
            // Some openings end before a client has reconnected. Most last longer.
            let enough = acknowledged.load(Ordering::SeqCst) + random.below(30);
            for _ in 0..400 {
                if acknowledged.load(Ordering::SeqCst) >= enough {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(random.below(3_000)));
            if random.below(2) == 0 {
                // From now on answers are lost, so many batches are applied but unanswered when the drive is opened
                // anew.
                network.mute();
                std::thread::sleep(Duration::from_millis(3));
            }
            network.cut();
            let found = drive.after_power_cut().expect("it lies in memory").unwrap();
            let old = std::mem::replace(&mut drive, found);
            std::mem::replace(&mut server, serve(Arc::new(drive.clone()), opening, drive.sessions())).stop();
            drop(old);
            network.lead_to(server.addr());
            if writers.is_finished() {
                break;
            }
            left.fetch_sub(1, Ordering::SeqCst);
        }
        left.store(0, Ordering::SeqCst);
        writers.join().unwrap()
    });
    let acknowledged = acknowledged.into_inner();
    assert_eq!(drive.info().commit.raw(), acknowledged, "seed {seed}: lost, or applied twice");
    println!("{restarts} restarts, {acknowledged} batches, {closed} views closed by them");
    assert!(acknowledged > restarts, "too few batches were written to test anything");
    network.bytes.store(0, Ordering::SeqCst);
    drop(device);
    wait_until(|| drive.info().views == 0);
    server.stop();
}

fn wait_until(f: impl Fn() -> bool) {
    for _ in 0..400 {
        if f() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the condition was not met in time");
}
