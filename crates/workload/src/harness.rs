//! Runs threads that repeat an operation without a pause, for a warm-up and a measured time.
//!
//! ```text
//!   threads: |<- warm-up ->|<- operations that end here count ->|   then the remaining background work
//!   disk, causes:          ^ read                                                                ^ read
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::measure::{Causes, Latencies, Percentiles, Timeline, resident_bytes};
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
    /// The measured time, in seconds.
    pub seconds: f64,
    /// Operations.
    pub operations: u64,
    /// Operations per second.
    pub rate: f64,
    /// The number of retries after a conflict.
    pub conflicts: u64,
    /// The latencies, by kind of operation.
    pub latencies: Vec<Percentiles>,
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

/// Runs threads that repeat operations of `kinds` kinds until the time is over.
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
    let (mut before, mut stopped) = (None, false);
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
    let seconds = schedule.length.as_secs_f64();
    Ok(Measured {
        seconds,
        operations,
        rate: operations as f64 / seconds,
        conflicts: sum.conflicts,
        latencies: sum.latencies.iter().map(Latencies::percentiles).collect(),
        timeline: sum.timeline.rates(schedule.length),
        interval_seconds: schedule.interval.as_secs_f64(),
        disk_bytes_an_operation: disk.map(|b| b as f64 / operations.max(1) as f64),
        causes: (probes.causes)().zip(causes).map(|(now, before)| now.since(before)),
        resident_bytes: resident,
    })
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
