//! A store in the races: it loads data and runs slices of each case.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::pages::{BATCH_PAGES, Order, PageBatches, SOURCE_BYTES, noise};
use super::{Case, Sizes};
use crate::choose::THETA;
use crate::measure::{Causes, Latencies};
use crate::random::Random;
use crate::store::{KeyValue, Reader, StoreError, StoreResult, WriteBatch};
use crate::zipf::{Scatter, Zipf};

/// The operations per commit of case B.
const ZIPF_COMMIT: u64 = 512;
/// The percentage of writes among the operations of case B.
const ZIPF_WRITES: u64 = 95;
/// After this many reads of case C, the reader starts on a new state.
const READS_A_STATE: u64 = 1000;
/// The reads of case C per measured latency, so that reading the clock does not matter.
const READS_A_LATENCY: u64 = 100;
/// The bytes of a record of case E.
const SMALL_BYTES: usize = 100;
/// The records per commit of a load.
const LOAD_RECORDS: u64 = 1000;

/// The work done in a slice or in total.
#[derive(Default)]
pub struct Done {
    /// The amount in the case's unit, or in bytes for case D.
    pub amount: u64,
    /// Bytes of keys and values written or read.
    pub bytes: u64,
    /// The latencies of operations: batches, commits, reads or scans.
    pub latencies: Latencies,
}

impl Done {
    /// Adds the work of another thread.
    pub fn add(&mut self, other: &Self) {
        self.amount += other.amount;
        self.bytes += other.bytes;
        self.latencies.add(&other.latencies);
    }
}

/// A contestant of a race.
#[expect(clippy::missing_errors_doc, reason = "all fail when the store does")]
pub trait Contestant {
    /// Whether it takes part.
    fn takes(&self, case: Case) -> bool;

    /// Loads the data of a case, once for all cases with the same data.
    fn load(&mut self, case: Case) -> StoreResult;

    /// Runs until `end` and adds its work to `done`.
    fn slice(&mut self, case: Case, end: Instant, done: &mut Done) -> StoreResult;

    /// Does the remaining background work, or waits for it.
    fn settle(&mut self) -> StoreResult;

    /// The bytes written by cause, if the store reports them.
    fn causes(&self) -> Option<Causes>;
}

/// A store that takes part.
pub struct Contest<S: KeyValue> {
    store: S,
    work: CaseState,
    /// The letter of the case whose data is loaded.
    loaded: Option<char>,
}

/// The state of the cases' work.
struct CaseState {
    sizes: Sizes,
    source: Vec<u8>,
    pages: PageBatches,
    zipf: (Zipf, Scatter),
    /// The random numbers, a sequence per thread.
    randoms: Vec<Random>,
}

/// The most threads of a case.
const THREADS_MAX: usize = 64;

impl<S: KeyValue> Contest<S> {
    /// A contest with an empty store.
    pub fn new(store: S, sizes: Sizes, seed: u64) -> Self {
        let mut random = Random(seed);
        let zipf = (Zipf::new(sizes.records, THETA), Scatter::new(sizes.records, &mut random));
        let randoms = (0..THREADS_MAX).map(|_| Random(random.next_u64())).collect();
        let pages = PageBatches::new(sizes.pages, random.next_u64());
        let work = CaseState { sizes, source: noise(SOURCE_BYTES, seed), pages, zipf, randoms };
        Self { store, work, loaded: None }
    }
}

impl CaseState {
    fn load_records<S: KeyValue>(&self, store: &S, count: u64, bytes: usize) -> StoreResult {
        let mut random = Random(count);
        // Records are loaded in another order than that of their keys, as is usual for stores.
        let scatter = Scatter::new(count, &mut random);
        for first in (0..count).step_by(LOAD_RECORDS as usize) {
            let mut batch = store.batch()?;
            for n in first..(first + LOAD_RECORDS).min(count) {
                batch.put(&scatter.block(n).to_be_bytes(), any(&self.source, &mut random, bytes))?;
            }
            batch.commit()?;
        }
        Ok(())
    }

    fn page_batch<S: KeyValue>(&mut self, store: &S, order: Order, done: &mut Done) -> StoreResult {
        let begun = Instant::now();
        let mut batch = store.batch()?;
        for (page, at) in self.pages.next(order) {
            batch.put(&page.to_be_bytes(), &self.source[at.clone()])?;
            done.bytes += 8 + at.len() as u64;
            done.amount += 1;
        }
        batch.commit()?;
        done.latencies.record(begun.elapsed());
        Ok(())
    }

    fn zipf_commit<S: KeyValue>(&mut self, store: &S, done: &mut Done) -> StoreResult {
        let begun = Instant::now();
        let (random, len) = (&mut self.randoms[0], self.sizes.record_bytes as usize);
        let mut batch = store.batch()?;
        for _ in 0..ZIPF_COMMIT {
            let key = self.zipf.1.block(self.zipf.0.rank(random) - 1).to_be_bytes();
            if random.below(100) < ZIPF_WRITES {
                batch.put(&key, any(&self.source, random, len))?;
                done.bytes += 8 + len as u64;
            } else {
                expect(batch.get(&key, <[u8]>::len)?, len)?;
            }
        }
        batch.commit()?;
        done.amount += ZIPF_COMMIT;
        done.latencies.record(begun.elapsed());
        Ok(())
    }

    fn scan<S: KeyValue>(&self, store: &S, end: Instant, done: &mut Done) -> StoreResult {
        let begun = Instant::now();
        let (mut records, mut bytes, mut sum) = (0u64, 0, 0u8);
        store.reader()?.scan(&[], |key, value| {
            records += 1;
            bytes += (key.len() + value.len()) as u64;
            // Touches every cache line of a value, so that the value is really read.
            sum ^= value.iter().step_by(64).fold(0, |sum, b| sum ^ b);
            !records.is_multiple_of(1024) || Instant::now() < end
        })?;
        std::hint::black_box(sum);
        if records == 0 || (Instant::now() < end && records != self.sizes.records) {
            return Err(StoreError::Missing("a record of the scan"));
        }
        done.amount += bytes;
        done.bytes += bytes;
        done.latencies.record(begun.elapsed());
        Ok(())
    }

    fn slice<S: KeyValue>(&mut self, store: &S, case: Case, end: Instant, done: &mut Done) -> StoreResult {
        let mut once = |done: &mut Done| match case {
            Case::PagesRandom => self.page_batch(store, Order::Random, done),
            Case::PagesInTurn => self.page_batch(store, Order::InTurn, done),
            Case::Zipf => self.zipf_commit(store, done),
            _ => self.scan(store, end, done),
        };
        while Instant::now() < end {
            once(done)?;
        }
        Ok(())
    }

    fn threads<S: KeyValue>(
        &mut self,
        store: &S,
        case: Case,
        n: u16,
        end: Instant,
        done: &mut Done,
    ) -> StoreResult {
        let Self { sizes, source, randoms, .. } = self;
        let (sizes, source) = (&*sizes, &source[..]);
        let work = |thread: u64, random: &mut Random| match case {
            Case::Reads(_) => reads(store, sizes, random, end),
            _ => commits(store, source, sizes, random, (thread, n.into()), end),
        };
        let work = &work;
        let all: Vec<StoreResult<Done>> = std::thread::scope(|s| {
            let randoms = (0..).zip(randoms.iter_mut().take(n.into()));
            let threads: Vec<_> = randoms.map(|(t, r)| s.spawn(move || work(t, r))).collect();
            threads.into_iter().map(|t| t.join().expect("a contestant does not panic")).collect()
        });
        all.into_iter().try_for_each(|d| d.map(|d| done.add(&d)))
    }
}

/// A random value of this length from the source.
fn any<'s>(source: &'s [u8], random: &mut Random, len: usize) -> &'s [u8] {
    let at = random.below((source.len() - len) as u64) as usize;
    &source[at..at + len]
}

fn expect(len: Option<usize>, expected: usize) -> StoreResult {
    match len {
        Some(len) if len == expected => Ok(()),
        Some(_) => Err(StoreError::Damaged("a record has the wrong length")),
        None => Err(StoreError::Missing("a record")),
    }
}

fn reads<S: KeyValue>(store: &S, sizes: &Sizes, random: &mut Random, end: Instant) -> StoreResult<Done> {
    let mut done = Done::default();
    let mut begun = Instant::now();
    while begun < end {
        let mut reader = store.reader()?;
        for _ in 0..READS_A_STATE / READS_A_LATENCY {
            for _ in 0..READS_A_LATENCY {
                let key = random.below(sizes.records).to_be_bytes();
                // Touches the first and the last byte, so that the value is really fetched.
                let len = reader.get(&key, |v| {
                    std::hint::black_box((v.first().copied(), v.last().copied()));
                    v.len()
                })?;
                expect(len, sizes.record_bytes as usize)?;
            }
            let before = std::mem::replace(&mut begun, Instant::now());
            done.latencies.record((begun - before) / READS_A_LATENCY as u32);
        }
        done.amount += READS_A_STATE;
        done.bytes += READS_A_STATE * (8 + u64::from(sizes.record_bytes));
    }
    Ok(done)
}

fn commits<S: KeyValue>(
    store: &S,
    source: &[u8],
    sizes: &Sizes,
    random: &mut Random,
    (thread, threads): (u64, u64),
    end: Instant,
) -> StoreResult<Done> {
    let mut done = Done::default();
    let mut begun = Instant::now();
    while begun < end {
        // Each thread has its own records, because conflicts are not measured.
        let n = random.below(sizes.small_records / threads) * threads + thread;
        let mut batch = store.batch()?;
        batch.put(&n.to_be_bytes(), any(source, random, SMALL_BYTES))?;
        batch.commit()?;
        let before = std::mem::replace(&mut begun, Instant::now());
        done.latencies.record(begun - before);
        done.amount += 1;
        done.bytes += 8 + SMALL_BYTES as u64;
    }
    Ok(done)
}

impl<S: KeyValue> Contestant for Contest<S> {
    fn takes(&self, _: Case) -> bool {
        true
    }

    fn load(&mut self, case: Case) -> StoreResult {
        let group = match case.letter() {
            'C' | 'D' => 'B',
            letter => letter,
        };
        if self.loaded.replace(group) == Some(group) {
            return Ok(());
        }
        let (store, work) = (&self.store, &mut self.work);
        let sizes = work.sizes;
        match group {
            'A' => {
                let mut done = Done::default();
                (0..sizes.pages.div_ceil(BATCH_PAGES))
                    .try_for_each(|_| work.page_batch(store, Order::InTurn, &mut done))?;
            }
            'B' => work.load_records(store, sizes.records, sizes.record_bytes as usize)?,
            _ => work.load_records(store, sizes.small_records, SMALL_BYTES)?,
        }
        store.settle()
    }

    fn slice(&mut self, case: Case, end: Instant, done: &mut Done) -> StoreResult {
        let (store, work, over) = (&self.store, &mut self.work, AtomicBool::new(false));
        std::thread::scope(|s| {
            let background = s.spawn(|| store.background(&over));
            let result = match case {
                Case::Reads(n) | Case::Commits(n) => work.threads(store, case, n, end, done),
                _ => work.slice(store, case, end, done),
            };
            over.store(true, Ordering::Relaxed);
            background.join().expect("background work does not panic").and(result)
        })
    }

    fn settle(&mut self) -> StoreResult {
        self.store.settle()
    }

    fn causes(&self) -> Option<Causes> {
        self.store.causes()
    }
}
