//! Measurements: latencies, throughput over time, bytes by cause, memory.

use std::fs;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// A histogram of latencies in nanoseconds, to three digits. Each thread has one per kind of operation, so 32-bit
/// counts are enough.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u32>);

/// The longest latency that the histogram can hold, in nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("these bounds are sound"))
    }
}

impl Latencies {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record((latency.as_nanos() as u64).max(1));
    }

    /// Adds the latencies of another thread.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the bounds are the same");
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The percentiles of the latencies.
    pub fn percentiles(&self) -> Percentiles {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |q: f64| us(self.0.value_at_quantile(q));
        Percentiles {
            count: self.0.len(),
            mean_us: self.0.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(self.0.max()),
        }
    }
}

/// Percentiles of latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The number of latencies.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Throughput over time: the number of operations that ended in each interval.
#[derive(Clone, Debug)]
pub struct Timeline {
    start: Instant,
    interval: Duration,
    counts: Vec<u64>,
}

impl Timeline {
    /// A timeline from `start` on.
    pub fn new(start: Instant, interval: Duration) -> Self {
        Self { start, interval, counts: Vec::new() }
    }

    /// Counts an operation that ended at `now`.
    pub fn count(&mut self, now: Instant) {
        let at = (now.saturating_duration_since(self.start).as_nanos() / self.interval.as_nanos()) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
    }

    /// Adds the timeline of another thread with the same start.
    pub fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
    }

    /// The rates per second of all intervals that are complete after `length`.
    pub fn rates(&self, length: Duration) -> Vec<f64> {
        let whole = (length.as_nanos() / self.interval.as_nanos()) as usize;
        let seconds = self.interval.as_secs_f64();
        (0..whole).map(|i| self.counts.get(i).copied().unwrap_or(0) as f64 / seconds).collect()
    }
}

/// Bytes written to the medium since a drive was opened, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Causes {
    /// Pages of batches.
    pub pages: u64,
    /// Pages that GC moved.
    pub collection: u64,
    /// All programmed bytes. Those that are neither pages nor collection are the log, the mapping, metadata and
    /// alignment.
    pub all: u64,
}

impl Causes {
    /// The bytes since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let of = |now: u64, before: u64| now.saturating_sub(before);
        Self {
            pages: of(self.pages, before.pages),
            collection: of(self.collection, before.collection),
            all: of(self.all, before.all),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            pages: self.pages + other.pages,
            collection: self.collection + other.collection,
            all: self.all + other.all,
        }
    }

    /// The bytes that are neither pages nor GC.
    pub fn rest(self) -> u64 {
        self.all.saturating_sub(self.pages + self.collection)
    }
}

/// The resident memory of the process in bytes, if the system reports it.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kb = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
    Some(kb.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_counted() {
        let (mut a, mut b) = (Latencies::default(), Latencies::default());
        (1..=50).for_each(|ms| a.record(Duration::from_millis(ms)));
        (51..=100).for_each(|ms| b.record(Duration::from_millis(ms)));
        a.add(&b);
        let p = a.percentiles();
        let near = |got: f64, ms: f64| (got / 1e3 - ms).abs() < ms * 2e-3;
        assert!(p.count == 100 && near(p.p50_us, 50.0) && near(p.p99_us, 99.0), "{p:?}");
        assert!(near(p.max_us, 100.0) && near(p.mean_us, 50.5), "{p:?}");
    }

    #[test]
    fn a_timeline_tells_rates_of_whole_intervals() {
        let start = Instant::now();
        let mut t = Timeline::new(start, Duration::from_millis(500));
        let mut other = t.clone();
        for ms in [0, 100, 499, 1200] {
            t.count(start + Duration::from_millis(ms));
        }
        other.count(start + Duration::from_millis(1600));
        t.add(&other);
        assert_eq!(t.rates(Duration::from_millis(1999)), [6.0, 0.0, 2.0]);
    }

    #[test]
    fn what_is_neither_pages_nor_collection_is_the_rest() {
        let before = Causes { pages: 10, collection: 1, all: 20 };
        let c = Causes { pages: 110, collection: 21, all: 170 }.since(before);
        assert_eq!((c, c.rest()), (Causes { pages: 100, collection: 20, all: 150 }, 30));
    }
}
