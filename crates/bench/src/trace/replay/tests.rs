//! Replays on servers whose figures follow from arithmetic, and on faulty targets.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::super::{Op, Options, Trace, tests::request};
use super::*;

const US: u64 = 1_000_000;

/// The fault of a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Loses every nth request.
    Loses(u64),
    /// Completes the third request twice.
    Twice,
    /// Completes the third request before it was submitted.
    Early,
    /// Returns the completion of the third request although it ends after the requested time.
    Late,
    /// Refuses the third request.
    Refuses,
    /// Fails the third request.
    Fails,
    /// Reports more time in use than there was.
    Boasts,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("no")]
struct No;

/// A number of servers that serve requests in the order of arrival. The service time of a request depends on nothing
/// else.
struct Servers {
    /// When each server is free.
    free: BinaryHeap<Reverse<u64>>,
    service_ps: Box<dyn Fn(u64) -> u64>,
    pending: BinaryHeap<Reverse<(TraceTime, u64, Tag)>>,
    taken: u64,
    count: u128,
    busy_ps: u128,
    start: Option<u64>,
    fault: Fault,
    /// The time from submission to completion of each request.
    stays: RefCell<Vec<u64>>,
}

impl Servers {
    fn new(count: usize, service_ps: u64) -> Self {
        Self {
            free: (0..count).map(|_| Reverse(0)).collect(),
            service_ps: Box::new(move |_| service_ps),
            pending: BinaryHeap::new(),
            taken: 0,
            count: count as u128,
            busy_ps: 0,
            start: None,
            fault: Fault::None,
            stays: RefCell::default(),
        }
    }

    fn wrong(count: usize, fault: Fault) -> Self {
        Self { fault, ..Self::new(count, US) }
    }
}

impl Target for Servers {
    type Error = No;

    fn submit(&mut self, at: TraceTime, tag: Tag, _: &Request) -> Result<(), No> {
        self.taken += 1;
        self.start.get_or_insert(at.as_ps());
        let third = self.taken == 3;
        if third && self.fault == Fault::Refuses {
            return Err(No);
        }
        let Reverse(free) = self.free.pop().unwrap();
        let service = (self.service_ps)(self.taken);
        let end = free.max(at.as_ps()) + service;
        self.busy_ps += u128::from(service);
        self.free.push(Reverse(end));
        self.stays.get_mut().push(end - at.as_ps());
        let copies = match self.fault {
            Fault::Loses(n) if self.taken.is_multiple_of(n) => 0,
            Fault::Twice if third => 2,
            _ => 1,
        };
        let end = if third && self.fault == Fault::Early { at.as_ps() - 1 } else { end };
        for _ in 0..copies {
            self.pending.push(Reverse((TraceTime::from_ps(end), self.taken, tag)));
        }
        Ok(())
    }

    fn complete(&mut self, until: Option<TraceTime>) -> Result<Option<Completion<No>>, No> {
        let Some(Reverse((at, n, tag))) = self.pending.peek().copied() else { return Ok(None) };
        if until.is_some_and(|until| at > until) && !(self.fault == Fault::Late && n == 3) {
            return Ok(None);
        }
        self.pending.pop();
        let outcome = if n == 3 && self.fault == Fault::Fails { Err(No) } else { Ok(()) };
        Ok(Some(Completion { tag, at, outcome }))
    }

    fn busy(&self) -> Vec<Busy> {
        let until = self.free.iter().map(|r| r.0).max().unwrap();
        let boast = u128::from(self.fault == Fault::Boasts);
        let of_ps = self.count * u128::from(until - self.start.unwrap_or(until));
        vec![Busy { resource: "servers".into(), busy_ps: self.busy_ps + boast * of_ps, of_ps }]
    }
}

/// `count` reads of 4 KB, `apart_ps` apart.
fn reads(count: u64, apart_ps: u64) -> impl Iterator<Item = Result<Request, TraceError>> + Clone {
    (1..=count).map(move |line| Ok(request((line - 1) * apart_ps, Op::Read, 0, 4096, line)))
}

fn closed(depth: u32) -> Pace {
    Pace::Closed { depth: depth.try_into().unwrap() }
}

fn open(scale: Scale, depth: u32) -> Pace {
    Pace::Open { scale, depth: depth.try_into().unwrap() }
}

fn run<I>(requests: I, pace: Pace, target: &mut Servers) -> Result<Report, ReplayError>
where
    I: IntoIterator<Item = Result<Request, TraceError>>,
{
    replay(requests, pace, target, &|| false)
}

/// With n requests in flight on k servers of time S, there are min(n, k) / S requests per second. Each takes S, or S
/// times n / k if requests wait.
#[test]
fn a_closed_loop_is_as_fast_as_servers_and_depth_allow() {
    const REQUESTS: u64 = 8 * 3 * 5 * 7 * 16;
    for servers in [1, 2, 3, 8] {
        for depth in [1, 2, 5, 8, 24] {
            let report = run(reads(REQUESTS, 0), closed(depth), &mut Servers::new(servers, 10 * US)).unwrap();
            let busy = f64::from(depth.min(servers as u32));
            let expected = busy / 10e-6;
            let name = format!("{servers} servers, depth {depth}");
            // At the end, no requests follow and servers idle, for less than one round.
            let got = report.all.iops.unwrap();
            assert!(
                got <= expected * (1.0 + 1e-12) && got > expected * 0.995,
                "{name}: {got}, not {expected}"
            );
            let latency = report.reads.latency.as_ref().unwrap();
            let expected = 10.0 * US as f64 * (f64::from(depth) / servers as f64).max(1.0);
            assert!((latency.mean_ps / expected - 1.0).abs() < 0.01, "{name}: {}", latency.mean_ps);
            assert_eq!((report.at_host_ps_mean, report.all.requests), (0.0, REQUESTS));
            let used = report.resources[0].utilisation;
            let expected = busy / servers as f64;
            assert!(used <= 1.0 && (used / expected - 1.0).abs() < 0.005, "{name}: {used}");
        }
    }
}

/// The exact cases: one server with one request in flight, and a depth that is a multiple of the servers and divides
/// the requests.
#[test]
fn a_closed_loop_to_the_picosecond() {
    let report = run(reads(1000, 77), closed(1), &mut Servers::new(1, 12_345_678)).unwrap();
    assert_eq!(report.span_ps, 1000 * 12_345_678);
    let latency = report.all.latency.unwrap();
    let all =
        [latency.min_ps, latency.p50_ps, latency.p95_ps, latency.p99_ps, latency.p99_9_ps, latency.p99_99_ps];
    assert_eq!((all, latency.max_ps, latency.mean_ps), ([12_345_678; 6], 12_345_678, 12_345_678.0));
    assert_eq!((report.mean_in_flight, report.resources[0].utilisation), (Some(1.0), 1.0));

    let report = run(reads(1000, 0), closed(4), &mut Servers::new(4, US)).unwrap();
    assert_eq!((report.span_ps, report.mean_in_flight), (250 * US, Some(4.0)));
    assert_eq!((report.all.iops, report.all.bytes_a_second), (Some(4e6), Some(4e6 * 4096.0)));
}

/// Requests arrive T apart at one server of time S. Each takes S if S is at most T. Otherwise the i-th, counted from
/// 0, takes S + i (S - T).
#[test]
fn an_open_loop_keeps_the_time_stamps() {
    let report = run(reads(100, 15 * US), open(Scale::ONE, 1000), &mut Servers::new(1, 10 * US)).unwrap();
    let latency = report.all.latency.unwrap();
    assert_eq!((latency.min_ps, latency.max_ps), (10 * US, 10 * US));
    assert_eq!((report.span_ps, report.at_host_ps_mean), ((99 * 15 + 10) * US, 0.0));

    let overloaded =
        |depth| run(reads(100, 8 * US), open(Scale::ONE, depth), &mut Servers::new(1, 10 * US)).unwrap();
    let (deep, shallow) = (overloaded(1000), overloaded(1));
    let latency = deep.all.latency.as_ref().unwrap();
    assert_eq!((latency.min_ps, latency.max_ps), (10 * US, (10 + 99 * 2) * US));
    assert_eq!(latency.mean_ps, (10.0 + 99.0) * US as f64);
    assert_eq!((deep.span_ps, deep.at_host_ps_mean), (1000 * US, 0.0));
    // With one request in flight, the same wait happens at the host and counts in the latency.
    assert_eq!((&shallow.all, shallow.span_ps), (&deep.all, deep.span_ps));
    assert_eq!((shallow.at_device_ps_mean, shallow.at_host_ps_mean), (10.0 * US as f64, 99.0 * US as f64));
    assert_eq!(shallow.mean_in_flight, Some(1.0));
}

#[test]
fn time_stamps_scale() {
    let span = |scale| run(reads(101, 10 * US), open(scale, 9), &mut Servers::new(1, US)).map(|r| r.span_ps);
    assert_eq!(span(Scale::parse("0.5").unwrap()).unwrap(), 501 * US);
    assert_eq!(span(Scale::parse("3").unwrap()).unwrap(), 3001 * US);
    assert_eq!(span(Scale::parse("0").unwrap()).unwrap(), 101 * US);
    let error = span(Scale::new(u64::MAX, 1).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "line 2: the scaled time is out of range: more than 213 days after the beginning");
    assert_eq!(Scale::parse("0.125"), Scale::new(125, 1000));
    for bad in ["", "-1", "1e3", ".5", "1.", "1.5.5", "x", "0.0000000001", "99999999999999999999"] {
        assert_eq!(Scale::parse(bad), None, "{bad}");
    }
    assert_eq!(Scale::new(1, 0), None);
}

#[test]
fn kinds_are_counted_apart() {
    let ops = [Op::Read, Op::Write, Op::Trim, Op::Flush];
    let requests = (1..=8).map(|line| {
        let op = ops[line as usize % 4];
        Ok(request(0, op, 0, if op == Op::Flush { 0 } else { 512 * line }, line))
    });
    let report = run(requests, closed(1), &mut Servers::new(1, US)).unwrap();
    let counts =
        [&report.reads, &report.writes, &report.trims, &report.flushes].map(|f| (f.requests, f.bytes));
    assert_eq!(counts, [(2, 512 * 12), (2, 512 * 6), (2, 512 * 8), (2, 0)]);
    assert_eq!((report.all.requests, report.all.bytes), (8, 512 * 26));
    assert_eq!(report.writes.iops, Some(250_000.0));
}

#[test]
fn a_device_that_takes_no_time_has_no_rate() {
    let report = run(reads(10, 0), closed(2), &mut Servers::new(1, 0)).unwrap();
    assert_eq!((report.span_ps, report.all.iops, report.all.requests), (0, None, 10));
    assert_eq!(report.all.latency.unwrap().p99_ps, 0);
}

#[test]
fn requests_that_are_lost_are_named() {
    let mut servers = Servers::wrong(2, Fault::Loses(10));
    let error = run(reads(45, 0), open(Scale::ONE, 100), &mut servers).unwrap_err();
    assert_eq!(error.to_string(), "4 requests never completed: of lines 10, 20, 30, 40");
    let mut servers = Servers::wrong(2, Fault::Loses(10));
    let error = run(reads(1000, 0), open(Scale::ONE, 1000), &mut servers).unwrap_err().to_string();
    assert_eq!(error, "100 requests never completed: of lines 10, 20, 30, 40, 50, 60, 70, 80 and 92 more");
    // If the missing requests fill the queue, the replay ends at once.
    let mut servers = Servers::wrong(2, Fault::Loses(10));
    let error = run(reads(1000, 0), closed(3), &mut servers).unwrap_err();
    assert_eq!(error.to_string(), "3 requests never completed: of lines 10, 20, 30");
    assert_eq!(servers.taken, 30);
}

#[test]
fn what_a_target_does_wrong_is_an_error() {
    for (fault, pace, expected) in [
        (
            Fault::Twice,
            closed(2),
            "the device completed a request that was not in flight, at 0.000002000000 s",
        ),
        (
            Fault::Early,
            closed(1),
            "line 3: the device completed the request at 0.000001999999 s, although the time had reached 0.000002000000 s",
        ),
        (
            Fault::Late,
            open(Scale::ONE, 9),
            "line 3: the device completed the request at 0.000002500000 s, although the time had reached 0.000001500000 s",
        ),
        (Fault::Refuses, closed(1), "line 3: the device refused the request: no"),
        (Fault::Fails, closed(1), "line 3: the request failed: no"),
        (Fault::Boasts, closed(1), "servers was busy for 2 times the whole time"),
    ] {
        let servers = if fault == Fault::Twice { 2 } else { 1 };
        let mut target = Servers::wrong(servers, fault);
        if fault == Fault::Late {
            target = Servers::wrong(3, fault);
            target.service_ps = Box::new(|n| if n == 3 { 3 * US / 2 } else { US / 4 });
        }
        let error = run(reads(20, US / 2), pace, &mut target).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
    let error = replay(reads(2, 0), closed(1), &mut Servers::new(1, US), &|| true).unwrap_err();
    assert!(matches!(error, ReplayError::Stopped));
}

#[test]
fn an_error_of_the_trace_ends_its_replay() {
    let text = b"lode trace 1\n0 read 0 1\n0 read 0 0\n";
    let trace = Trace::open(&text[..], &Options::default()).unwrap();
    let error = run(trace, closed(1), &mut Servers::new(1, US)).unwrap_err();
    assert_eq!(error.to_string(), "line 3: the length is zero");
}

#[test]
fn a_report_is_the_same_on_each_run() {
    let json = || {
        let mut servers = Servers::new(3, US);
        servers.service_ps = Box::new(|n| n * 7919 % 1_000_003);
        serde_json::to_string(&run(reads(5000, 100), open(Scale::ONE, 64), &mut servers).unwrap()).unwrap()
    };
    let first = json();
    assert_eq!(first, json());
    assert!(first.starts_with(r#"{"span_ps":"#) && first.contains(r#""p99_99_ps":"#), "{first}");
}

proptest! {
    /// For any load, the report agrees with what the target itself measured.
    #[test]
    fn reports_agree_with_the_target(
        gaps in prop::collection::vec(0u64..3000, 1..200),
        times in prop::collection::vec(0u64..5000, 1..20),
        servers in 1usize..5,
        depth in 1u32..40,
        is_open: bool,
    ) {
        let mut at = 0;
        let requests: Vec<_> = (1..).zip(&gaps).map(|(line, gap)| {
            at += gap;
            Ok(request(at, Op::ALL[line as usize % 2], 0, 512, line))
        }).collect();
        let mut target = Servers::new(servers, 0);
        target.service_ps = Box::new(move |n| times[n as usize % times.len()]);
        let pace = if is_open { open(Scale::ONE, depth) } else { closed(depth) };
        let report = run(requests, pace, &mut target).unwrap();
        let mut stays = target.stays.take();
        let sum: u64 = stays.iter().sum();
        prop_assert_eq!(report.all.requests as usize, gaps.len());
        prop_assert!((report.at_device_ps_mean - sum as f64 / gaps.len() as f64).abs() < 1e-6);
        prop_assert!(report.resources[0].utilisation <= 1.0);
        prop_assert!(report.mean_in_flight.is_none_or(|n| n <= f64::from(depth) + 1e-9));
        if !is_open {
            stays.sort_unstable();
            let latency = report.all.latency.unwrap();
            for (q, got) in [(0.5, latency.p50_ps), (0.95, latency.p95_ps), (0.99, latency.p99_ps)] {
                let exact = stays[((q * stays.len() as f64).ceil() as usize).max(1) - 1];
                prop_assert!(got >= exact && got - exact <= exact / 1000 + 1, "{q}: {got}, not {exact}");
            }
            prop_assert_eq!((latency.min_ps, latency.max_ps), (stays[0], stays[stays.len() - 1]));
        }
    }
}
