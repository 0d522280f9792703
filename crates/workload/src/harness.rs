//! Runs threads that repeat an operation without a pause, for a warm-up and a measured time.
//!
//! ```text
//!   threads: |<- warm-up ->|<- operations that end here count ->|   then the remaining background work
//!   disk, causes:          ^ read                                                                ^ read
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use crate::measure::{Causes, Latencies, Percentiles, Timeline, resident_bytes};
use crate::random::Random;
use crate::store::{StoreError, StoreResult};

/// How often the harness checks for a stop and samples the memory.
const LOOK: Duration = Duration::from_millis(20);

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The unmeasured time at the beginning.
    pub warm_up: Duration,
    /// The measured time.
    pub length: Duration,
    /// The interval of the timeline's rates.
    pub interval: Duration,
}

/// The functions by which a run reads the machine and the store.
#[derive(Clone, Copy)]
pub struct Probes<'a> {
    /// The bytes written to the disk so far.
    pub disk: &'a dyn Fn() -> Option<u64>,
    /// The bytes programmed so far, by cause.
    pub causes: &'a dyn Fn() -> Option<Causes>,
    /// Does the background work that remains after the run.
    pub settle: &'a dyn Fn() -> StoreResult,
    /// Whether to stop early.
    pub stop: &'a dyn Fn() -> bool,
}

impl Probes<'static> {
    /// Probes that read nothing.
    pub const NONE: Self = Self { disk: &|| None, causes: &|| None, settle: &|| Ok(()), stop: &|| false };
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// The operations of a thread in the measured time.
pub struct Tally {
    /// The latencies, by kind of operation.
    latencies: Vec<Latencies>,
    timeline: Timeline,
    /// The number of retries after a conflict.
    conflicts: u64,
    start: Instant,
    end: Instant,
}

impl Tally {
    /// Counts an operation of this kind that ends now. Returns whether it is in the measured time.
    pub fn ends(&mut self, kind: usize, begun: Instant, conflicts: u64) -> bool {
        let now = Instant::now();
        let counts = now >= self.start && now < self.end;
        if counts {
            self.latencies[kind].record(now - begun);
            self.timeline.count(now);
            self.conflicts += conflicts;
        }
        counts
    }
}

/// The measurements of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The measured time, in seconds. It is shorter than was asked for if a thread ended the run.
    pub seconds: f64,
    /// Operations.
    pub operations: u64,
    /// Operations per second.
    pub rate: f64,
    /// The number of retries after a conflict.
    pub conflicts: u64,
    /// The latencies, by kind of operation.
    pub latencies: Vec<Percentiles>,
    /// The latencies of all kinds together.
    pub latency: Percentiles,
    /// The operations per second of each interval.
    pub timeline: Vec<f64>,
    /// The interval's length, in seconds.
    pub interval_seconds: f64,
    /// Bytes written to the disk per operation, including background work, if the disk's counter is known.
    pub disk_bytes_an_operation: Option<f64>,
    /// Bytes that the drive programmed, by cause, if the store reports them.
    pub causes: Option<Causes>,
    /// The resident memory at the beginning and at the end of the measured time, and its maximum, in bytes.
    pub resident_bytes: Option<[u64; 3]>,
}

/// Runs threads that repeat operations of `kinds` kinds until the time is over, or until one of them sets the flag because
/// it has nothing left to do.
///
/// # Errors
/// The first error of a thread, or [`RunError::Stopped`].
pub fn run(
    threads: u16,
    kinds: usize,
    schedule: &Schedule,
    probes: &Probes<'_>,
    work: impl Fn(u16, &mut Tally, &AtomicBool) -> StoreResult + Sync,
) -> Result<Measured, RunError> {
    let start = Instant::now() + schedule.warm_up;
    let end = start + schedule.length;
    let over = AtomicBool::new(false);
    let tally = || Tally {
        latencies: vec![Latencies::default(); kinds],
        timeline: Timeline::new(start, schedule.interval),
        conflicts: 0,
        start,
        end,
    };
    let (mut before, mut stopped, mut ended) = (None, false, end);
    let mut resident = resident_bytes().map(|r| [r; 3]);
    let thread = |t| {
        let mut tally = tally();
        let done = work(t, &mut tally, &over);
        // If one thread fails, all threads end.
        if done.is_err() {
            over.store(true, Ordering::Relaxed);
        }
        done.map(|()| tally)
    };
    let thread = &thread;
    let all: Vec<StoreResult<Tally>> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..threads).map(|t| s.spawn(move || thread(t))).collect();
        while Instant::now() < end && !over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            let now = resident_bytes();
            if before.is_none() && Instant::now() >= start {
                before = Some(((probes.disk)(), (probes.causes)()));
                resident = now.map(|r| [r; 3]);
            }
            resident = resident.zip(now).map(|([first, _, most], now)| [first, now, most.max(now)]);
            if (probes.stop)() {
                stopped = true;
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        ended = ended.min(Instant::now());
        threads.into_iter().map(|t| t.join().expect("a thread of a run does not panic")).collect()
    });
    let mut sum = tally();
    for done in all {
        let done = done?;
        sum.latencies.iter_mut().zip(&done.latencies).for_each(|(a, b)| a.add(b));
        sum.timeline.add(&done.timeline);
        sum.conflicts += done.conflicts;
    }
    if stopped {
        return Err(RunError::Stopped);
    }
    (probes.settle)()?;
    let (disk, causes) = before.unwrap_or_default();
    let operations: u64 = sum.latencies.iter().map(Latencies::count).sum();
    let disk = (probes.disk)().zip(disk).map(|(now, before)| now - before);
    let length = ended.saturating_duration_since(start).max(Duration::from_millis(1));
    let seconds = length.as_secs_f64();
    let mut together = Latencies::default();
    sum.latencies.iter().for_each(|l| together.add(l));
    Ok(Measured {
        seconds,
        operations,
        rate: operations as f64 / seconds,
        conflicts: sum.conflicts,
        latencies: sum.latencies.iter().map(Latencies::percentiles).collect(),
        latency: together.percentiles(),
        timeline: sum.timeline.rates(length),
        interval_seconds: schedule.interval.as_secs_f64(),
        disk_bytes_an_operation: disk.map(|b| b as f64 / operations.max(1) as f64),
        causes: (probes.causes)().zip(causes).map(|(now, before)| now.since(before)),
        resident_bytes: resident,
    })
}

/// Operations that arrive at a rate, whether earlier ones are done or not (an open loop). The gaps between arrivals are
/// exponentially distributed.
pub struct Arrivals {
    next: Mutex<(Random, Instant)>,
    gap_seconds: f64,
}

impl Arrivals {
    /// Arrivals from now on, with this many a second on average, which must be above 0.
    pub fn new(rate: f64, seed: u64) -> Self {
        Self { next: Mutex::new((Random(seed), Instant::now())), gap_seconds: 1.0 / rate }
    }

    /// Takes the next arrival, and waits for it unless `over` is set. Returns when it was due.
    pub fn wait(&self, over: &AtomicBool) -> Instant {
        let due = {
            let (random, next) = &mut *self.next.lock();
            let gap = -libm::log(1.0 - random.fraction()) * self.gap_seconds;
            *next += Duration::from_secs_f64(gap);
            *next
        };
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || over.load(Ordering::Relaxed) {
                return due;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

/// Waits before the next try, longer after each failure, because the transaction that committed first may not be
/// visible yet.
pub(crate) fn give_way(conflicts: u64) {
    const SHORTEST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_millis(1);
    match conflicts {
        1 => std::thread::yield_now(),
        n => std::thread::sleep((SHORTEST * (1 << n.min(10))).min(LONGEST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule {
        warm_up: Duration::from_millis(40),
        length: Duration::from_millis(100),
        interval: Duration::from_millis(50),
    };

    #[test]
    fn what_ends_between_warm_up_and_end_counts() {
        let work = |t: u16, tally: &mut Tally, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(Duration::from_millis(2));
                tally.ends(usize::from(t), begun, 1);
            }
            Ok(())
        };
        let done = run(2, 2, &SCHEDULE, &Probes::NONE, work).unwrap();
        assert!((2..=100).contains(&done.operations), "{done:?}");
        assert_eq!(done.conflicts, done.operations);
        assert!(done.latencies.iter().all(|l| l.count > 0 && l.p50_us >= 1990.0), "{done:?}");
        assert_eq!(done.timeline.len(), 2);
        let counted: f64 = done.timeline.iter().map(|r| r * 0.05).sum();
        assert!((counted - done.operations as f64).abs() < 1e-6, "{done:?}");
    }

    #[test]
    fn a_thread_with_nothing_left_ends_the_run() {
        let work = |_: u16, tally: &mut Tally, over: &AtomicBool| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(60) {
                std::thread::sleep(Duration::from_millis(1));
            }
            tally.ends(0, begun, 0);
            over.store(true, Ordering::Relaxed);
            Ok(())
        };
        let schedule = Schedule { warm_up: Duration::ZERO, length: Duration::from_secs(60), ..SCHEDULE };
        let done = run(1, 1, &schedule, &Probes::NONE, work).unwrap();
        assert!(done.operations == 1 && (0.05..10.0).contains(&done.seconds), "{done:?}");
        assert_eq!(done.latency, done.latencies[0]);
    }

    #[test]
    fn arrivals_come_at_their_rate_and_do_not_wait_for_what_is_late() {
        let (arrivals, over) = (Arrivals::new(2000.0, 1), AtomicBool::new(false));
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(50));
        let due: Vec<Instant> = (0..400).map(|_| arrivals.wait(&over)).collect();
        assert!(due.is_sorted() && due[0] < begun + Duration::from_millis(20));
        let all = (due[399] - begun).as_secs_f64();
        assert!((0.15..0.25).contains(&all), "400 arrivals at 2,000 a second took {all} s");
        over.store(true, Ordering::Relaxed);
        (0..10_000).for_each(|_| _ = arrivals.wait(&over));
    }

    #[test]
    fn a_failure_and_a_signal_end_all_threads() {
        let work = |t: u16, _: &mut Tally, over: &AtomicBool| {
            if t == 1 {
                return Err(StoreError::Missing("a row"));
            }
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        assert!(matches!(run(2, 1, &SCHEDULE, &Probes::NONE, work), Err(RunError::Store(_))));
        let probes = Probes { stop: &|| true, ..Probes::NONE };
        let stopped = run(1, 1, &SCHEDULE, &probes, work);
        assert!(matches!(stopped, Err(RunError::Stopped)), "{stopped:?}");
    }
}
