//! What happened, added up as it happens, and checked at the end.
//!
//! ```text
//!   submissions, completions ─► number in flight, integrated over time ──────┐
//!                            └► for each kind: count, bytes, latencies ─► Report ─► equal, by Little's law
//! ```
//!
//! Sums are whole picoseconds; only percentiles are rounded, to three digits.

use hdrhistogram::Histogram;

use super::super::{Op, TraceTime};
use super::flight::InFlight;
use super::report::{Figures, Latency, Report, Use};
use super::{Busy, ReplayError};

/// Decimal digits of a percentile.
const DIGITS: u8 = 3;
/// How far apart the two sides of Little's law may be, relatively: what rounding of 64-bit floats can do, no more.
const LITTLE_MAX: f64 = 1e-9;

/// The requests of a kind that ended.
struct Kind {
    bytes: u128,
    latency_ps: u128,
    min_ps: u64,
    max_ps: u64,
    latencies: Histogram<u64>,
}

impl Default for Kind {
    fn default() -> Self {
        let latencies = Histogram::new(DIGITS).expect("the number of digits is in range");
        Self { bytes: 0, latency_ps: 0, min_ps: u64::MAX, max_ps: 0, latencies }
    }
}

impl Kind {
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
        // A percentile is that of a range of values; none lies outside of what was measured.
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

/// What happened.
#[derive(Default)]
pub(super) struct Ledger {
    now: TraceTime,
    start: Option<TraceTime>,
    in_flight: u64,
    /// The number in flight, integrated over time.
    in_flight_ps: u128,
    /// From submission to completion, of all together.
    at_device_ps: u128,
    kinds: [Kind; Op::ALL.len()],
}

impl Ledger {
    /// The last instant at which anything happened.
    pub(super) fn now(&self) -> TraceTime {
        self.now
    }

    fn advance(&mut self, to: TraceTime) {
        let ps = to.as_ps().checked_sub(self.now.as_ps()).expect("time does not go back");
        self.in_flight_ps += u128::from(self.in_flight) * u128::from(ps);
        self.now = to;
    }

    /// A request was submitted.
    pub(super) fn submitted(&mut self, at: TraceTime) {
        self.advance(at);
        self.start.get_or_insert(at);
        self.in_flight += 1;
    }

    /// A request ended.
    pub(super) fn ended(&mut self, r: &InFlight, at: TraceTime) {
        self.advance(at);
        self.in_flight -= 1;
        self.at_device_ps += u128::from(at.as_ps() - r.submitted.as_ps());
        self.kinds[r.op as usize].add(r.len, at.as_ps() - r.arrival.as_ps());
    }

    /// The report, if its figures agree.
    pub(super) fn finish(self, busy: Vec<Busy>) -> Result<Report, ReplayError> {
        assert_eq!(self.in_flight, 0, "a replay ends when all ended");
        let span_ps = self.now.as_ps() - self.start.unwrap_or_default().as_ps();
        let mut all = Kind::default();
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

/// Little's law: the mean number in flight is the rate times the mean latency.
fn little(report: &Report) -> Result<(), ReplayError> {
    let Some(law) = report.littles_law() else { return Ok(()) };
    let (in_flight, expected) = (law.in_flight, law.iops_times_latency);
    match (in_flight - expected).abs() <= LITTLE_MAX * in_flight.max(expected) {
        true => Ok(()),
        false => Err(ReplayError::Little { in_flight, expected }),
    }
}

/// A resource's share of its time in use, which is at most 1.
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
        // One from 1000 to 4000, a second, which arrived with it, from 2000 to 5000.
        ledger.submitted(at(1000));
        ledger.submitted(at(2000));
        ledger.ended(&flying(1000), at(4000));
        ledger.ended(&flying(2000), at(5000));
        ledger
    }

    #[test]
    fn figures_are_those_of_what_happened() {
        let report = ledger().finish(Vec::new()).unwrap();
        // Six thousand in four thousand; latencies of 3000 and 4000 from arrival, 3000 both at the device.
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
