//! The sums of a replay, which are added up as it runs and checked at the end.
//!
//! ```text
//!   submissions, completions ─► number in flight, integrated over time ──────┐
//!                            └► for each kind: count, bytes, latencies ─► Report ─► equal, by Little's law
//! ```
//!
//! Sums are in whole picoseconds. Only percentiles are rounded, to three digits.

use hdrhistogram::Histogram;

use super::super::{Op, TraceTime};
use super::flight::InFlight;
use super::report::{Figures, Latency, Report, Use};
use super::{Busy, ReplayError};

/// The decimal digits of a percentile.
const DIGITS: u8 = 3;
/// The largest relative difference of the two sides of Little's law: as much as rounding of 64-bit floats can cause.
const LITTLE_MAX: f64 = 1e-9;

/// The sums over the ended requests of an operation.
struct OpSums {
    bytes: u128,
    latency_ps: u128,
    min_ps: u64,
    max_ps: u64,
    latencies: Histogram<u64>,
}

impl Default for OpSums {
    fn default() -> Self {
        let latencies = Histogram::new(DIGITS).expect("the number of digits is in range");
        Self { bytes: 0, latency_ps: 0, min_ps: u64::MAX, max_ps: 0, latencies }
    }
}

impl OpSums {
    fn add(&mut self, bytes: u64, latency_ps: u64) {
        self.bytes += u128::from(bytes);
        self.latency_ps += u128::from(latency_ps);
        self.min_ps = self.min_ps.min(latency_ps);
        self.max_ps = self.max_ps.max(latency_ps);
        self.latencies.record(latency_ps).expect("it grows");
    }

    fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.latency_ps += other.latency_ps;
        self.min_ps = self.min_ps.min(other.min_ps);
        self.max_ps = self.max_ps.max(other.max_ps);
        self.latencies.add(&other.latencies).expect("it grows");
    }

    fn figures(&self, span_ps: u64) -> Figures {
        let requests = self.latencies.len();
        let a_second = |n: f64| (span_ps > 0).then(|| n * 1e12 / span_ps as f64);
        // A percentile stands for a range of values, so it is limited to the measured values.
        let at = |q| self.latencies.value_at_quantile(q).clamp(self.min_ps, self.max_ps);
        let latency = (requests > 0).then(|| Latency {
            mean_ps: self.latency_ps as f64 / requests as f64,
            min_ps: self.min_ps,
            p50_ps: at(0.5),
            p95_ps: at(0.95),
            p99_ps: at(0.99),
            p99_9_ps: at(0.999),
            p99_99_ps: at(0.9999),
            max_ps: self.max_ps,
        });
        Figures {
            requests,
            bytes: self.bytes,
            iops: a_second(requests as f64),
            bytes_a_second: a_second(self.bytes as f64),
            latency,
        }
    }
}

/// The sums of a replay.
#[derive(Default)]
pub(super) struct Ledger {
    now: TraceTime,
    start: Option<TraceTime>,
    in_flight: u64,
    /// The number of requests in flight, integrated over time.
    in_flight_ps: u128,
    /// The sum of all times from submission to completion.
    at_device_ps: u128,
    kinds: [OpSums; Op::ALL.len()],
}

impl Ledger {
    /// The time of the last submission or completion.
    pub(super) fn now(&self) -> TraceTime {
        self.now
    }

    fn advance(&mut self, to: TraceTime) {
        let ps = to.as_ps().checked_sub(self.now.as_ps()).expect("time does not go back");
        self.in_flight_ps += u128::from(self.in_flight) * u128::from(ps);
        self.now = to;
    }

    /// Records a submission.
    pub(super) fn submitted(&mut self, at: TraceTime) {
        self.advance(at);
        self.start.get_or_insert(at);
        self.in_flight += 1;
    }

    /// Records a completion.
    pub(super) fn ended(&mut self, r: &InFlight, at: TraceTime) {
        self.advance(at);
        self.in_flight -= 1;
        self.at_device_ps += u128::from(at.as_ps() - r.submitted.as_ps());
        self.kinds[r.op as usize].add(r.len, at.as_ps() - r.arrival.as_ps());
    }

    /// Makes the report, if its figures agree.
    pub(super) fn finish(self, busy: Vec<Busy>) -> Result<Report, ReplayError> {
        assert_eq!(self.in_flight, 0, "a replay ends when all ended");
        let span_ps = self.now.as_ps() - self.start.unwrap_or_default().as_ps();
        let mut all = OpSums::default();
        self.kinds.iter().for_each(|k| all.merge(k));
        let figures = |op: Op| self.kinds[op as usize].figures(span_ps);
        let requests = all.latencies.len();
        let mean_ps = |sum: u128| if requests > 0 { sum as f64 / requests as f64 } else { 0.0 };
        let report = Report {
            span_ps,
            mean_in_flight: (span_ps > 0).then(|| self.in_flight_ps as f64 / span_ps as f64),
            at_device_ps_mean: mean_ps(self.at_device_ps),
            at_host_ps_mean: mean_ps(all.latency_ps - self.at_device_ps),
            reads: figures(Op::Read),
            writes: figures(Op::Write),
            trims: figures(Op::Trim),
            flushes: figures(Op::Flush),
            all: all.figures(span_ps),
            resources: busy.iter().map(used).collect::<Result<_, _>>()?,
        };
        little(&report)?;
        Ok(report)
    }
}

/// Checks Little's law: the mean number in flight is the rate times the mean latency.
fn little(report: &Report) -> Result<(), ReplayError> {
    let Some(law) = report.littles_law() else { return Ok(()) };
    let (in_flight, expected) = (law.in_flight, law.iops_times_latency);
    match (in_flight - expected).abs() <= LITTLE_MAX * in_flight.max(expected) {
        true => Ok(()),
        false => Err(ReplayError::Little { in_flight, expected }),
    }
}

/// The share of time in which a resource was used. It must be at most 1.
fn used(busy: &Busy) -> Result<Use, ReplayError> {
    let Busy { resource, busy_ps, of_ps } = busy;
    let utilisation = if *busy_ps == 0 { 0.0 } else { *busy_ps as f64 / *of_ps as f64 };
    match busy_ps <= of_ps {
        true => Ok(Use { resource: resource.clone(), utilisation }),
        false => Err(ReplayError::Overused { resource: resource.clone(), utilisation }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let at = TraceTime::from_ps;
        let flying = |submitted| InFlight {
            line: 1,
            op: Op::Read,
            len: 512,
            arrival: at(1000),
            submitted: at(submitted),
        };
        // One request is at the device from 1000 to 4000. A second one arrives at the same time and is there from
        // 2000 to 5000.
        ledger.submitted(at(1000));
        ledger.submitted(at(2000));
        ledger.ended(&flying(1000), at(4000));
        ledger.ended(&flying(2000), at(5000));
        ledger
    }

    #[test]
    fn figures_are_those_of_what_happened() {
        let report = ledger().finish(Vec::new()).unwrap();
        // 6000 in flight over a span of 4000. The latencies from arrival are 3000 and 4000, both 3000 at the device.
        assert_eq!((report.span_ps, report.mean_in_flight), (4000, Some(1.5)));
        assert_eq!((report.at_device_ps_mean, report.at_host_ps_mean), (3000.0, 500.0));
        assert_eq!((report.reads.requests, report.reads.bytes), (2, 1024));
        assert_eq!((report.reads.iops, report.reads.bytes_a_second), (Some(5e8), Some(2.56e11)));
        let latency = report.reads.latency.as_ref().unwrap();
        assert_eq!((latency.mean_ps, latency.min_ps, latency.max_ps), (3500.0, 3000, 4000));
        assert_eq!(report.all, report.reads);
        assert_eq!(report.writes.latency, None);
    }

    #[test]
    fn figures_that_contradict_one_another_are_an_error() {
        for spoil in [|l: &mut Ledger| l.in_flight_ps += 1, |l: &mut Ledger| l.at_device_ps -= 1] {
            let mut spoilt = ledger();
            spoil(&mut spoilt);
            let error = spoilt.finish(Vec::new()).unwrap_err();
            assert!(matches!(error, ReplayError::Little { .. }), "{error}");
        }
    }

    #[test]
    fn a_resource_is_used_for_its_time_at_most() {
        let busy = |busy_ps, of_ps| Busy { resource: "bus".into(), busy_ps, of_ps };
        let report = ledger().finish(vec![busy(0, 0), busy(3, 4), busy(4, 4)]).unwrap();
        let uses: Vec<f64> = report.resources.iter().map(|u| u.utilisation).collect();
        assert_eq!(uses, [0.0, 0.75, 1.0]);
        for over in [busy(1, 0), busy(5, 4)] {
            let error = ledger().finish(vec![over]).unwrap_err().to_string();
            assert!(error.starts_with("bus was busy for "), "{error}");
        }
    }

    #[test]
    fn nothing_and_no_time_have_no_rate() {
        let empty = Ledger::default().finish(Vec::new()).unwrap();
        assert_eq!((empty.all.requests, empty.all.iops, empty.mean_in_flight), (0, None, None));
    }
}
