//! CH-benCHmark in modelled time: transactions, queries and merges on a modelled device, each with a clock of its own.
//!
//! ```text
//!   terminals ─► TPC-C's transactions, one after the other   ─┐
//!   analyst   ─► the 22 queries in turn, each in a snapshot  ─┼─► turns ─► one modelled device
//!                with a condition                             │
//!   worker    ─► merges of deltas, and what trees owe        ─┘
//! ```
//!
//! Runs: queries alone; transactions alone, for as long; both; transactions alone again, so that it shows what the growth of
//! the tables does. A run with queries ends with the first query that ends after its length, and not before each was
//! answered once. A transaction counts if it ended before the run did.
//!
//! Invariant: the same database, seed and plan give the same figures to the last digit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lode_base::{Part, VirtualDuration, VirtualTime};
use lode_engine::{Agent, Database, HostClock, ModelledTime, Progress};
use lode_workload::harness::RunError;
use lode_workload::measure::{Latencies, Percentiles};
use lode_workload::sql::Style;
use lode_workload::sql::ch::{Asked, Clock, QUERIES, analyse};
use lode_workload::sql::tpcc::SqlTpcc;
use lode_workload::store::{StoreError, StoreResult};
use lode_workload::tpcc::input::Inputs;
use lode_workload::tpcc::store::TpccStore;
use lode_workload::tpcc::{Sizes, execute};
use serde::Serialize;

use super::LodeSql;
use super::turns::{Place, places};

/// The date of the load, in microseconds since 1970: 2026-01-01. Orders are dated by the clock of their terminal from then on.
pub const DATE: i64 = 1_767_225_600_000_000;
/// How long the worker rests when it finds nothing to do, as the thread does in wall time.
const REST: VirtualDuration = VirtualDuration::from_ns(20_000_000);
/// The lag of the device: longer than a turn of any agent. A merge of large pages takes the slowest cores some 0.4 s.
pub const LAG: VirtualDuration = VirtualDuration::from_ns(1_000_000_000);
/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The sizes of the tables.
    pub sizes: Sizes,
    /// The number of terminals. Each is an agent.
    pub terminals: u16,
    /// The seed of the load.
    pub seed: u64,
    /// For how long terminals run before anything is measured.
    pub warm_up: VirtualDuration,
    /// The length of a run.
    pub length: VirtualDuration,
}

/// What the terminals did in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transactions {
    /// The modelled time of the run, in seconds.
    pub seconds: f64,
    /// Transactions that ended in it.
    pub transactions: u64,
    /// Transactions in a modelled second.
    pub rate: f64,
    /// Tries that conflicted and were run again.
    pub conflicts: u64,
    /// The modelled latencies, from the first try on.
    pub latency: Percentiles,
    /// What the time of a transaction was spent on, in microseconds on average, by the name of the part.
    pub parts_us: Vec<(&'static str, f64)>,
    /// Of the link's part, waits for the begin of other agents' commands: the error of the order.
    pub behind_us: f64,
}

/// What the worker did in a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Merged {
    /// Merges of deltas.
    pub merges: u64,
    /// The bytes of pages that they wrote.
    pub written_bytes: u64,
    /// The modelled time in which the worker was at work, in seconds.
    pub seconds: f64,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Its name.
    pub row: &'static str,
    /// What the terminals did, if there were any.
    pub transactions: Option<Transactions>,
    /// What the analyst did, if there was one.
    pub analyst: Option<Asked>,
    /// What the worker did.
    pub merged: Merged,
}

/// All runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The runs in their order.
    pub runs: Vec<Run>,
    /// Transactions in a modelled second alone: those of both runs, by their time.
    pub alone: f64,
    /// Transactions in a modelled second beside the queries.
    pub beside: f64,
    /// `beside` as a part of `alone`.
    pub kept: f64,
    /// Queries in a modelled hour beside the transactions.
    pub queries_an_hour: f64,
    /// The same as a part of those alone.
    pub queries_kept: f64,
}

/// Runs everything on tables that were loaded.
///
/// # Errors
/// When the database fails, or [`RunError::Stopped`].
///
/// # Panics
/// If the database has no modelled device.
pub fn run(sql: &LodeSql, plan: &Plan, stop: &(dyn Fn() -> bool + Sync)) -> Result<Report, RunError> {
    let host = sql.database().host().expect("the device is modelled").clone();
    let mut bench = Bench { sql, plan, host, agents: Vec::new(), runs: 0, stop };
    bench.run("warm-up", true, Until::Passed(plan.warm_up))?;
    let queries = bench.run("queries alone", false, Until::Asked(plan.length))?;
    let asked = queries.analyst.as_ref().map_or(0.0, |a| a.seconds);
    let length = plan.length.max(VirtualDuration::from_ps((asked * 1e12) as u64));
    let first = bench.run("transactions", true, Until::Passed(length))?;
    let both = bench.run("transactions and queries", true, Until::Asked(length))?;
    let again = bench.run("transactions again", true, Until::Passed(length))?;
    let of = |run: &Run| run.transactions.as_ref().map_or((0.0, 0.0), |t| (t.transactions as f64, t.seconds));
    let rate = |(n, s): (f64, f64)| n / s.max(1e-12);
    let (a, b) = (of(&first), of(&again));
    let (alone, beside) = (rate((a.0 + b.0, a.1 + b.1)), rate(of(&both)));
    let asked = |run: &Run| run.analyst.as_ref().map_or(0.0, |a| a.queries_an_hour);
    let (queries_alone, queries_an_hour) = (asked(&queries), asked(&both));
    Ok(Report {
        runs: vec![queries, first, both, again],
        alone,
        beside,
        kept: beside / alone.max(1e-12),
        queries_an_hour,
        queries_kept: queries_an_hour / queries_alone.max(1e-12),
    })
}

/// How long a run is.
#[derive(Clone, Copy)]
enum Until {
    /// So much time has passed.
    Passed(VirtualDuration),
    /// A query is answered after so much time, and each was answered once.
    Asked(VirtualDuration),
}

struct Bench<'a> {
    sql: &'a LodeSql,
    plan: &'a Plan,
    host: Arc<HostClock>,
    /// The agents of the runs so far.
    agents: Vec<Agent>,
    /// Their number, of which inputs depend.
    runs: u64,
    stop: &'a (dyn Fn() -> bool + Sync),
}

/// The end of a run, once it is known.
struct End<'a> {
    at_ps: AtomicU64,
    /// Whether it is over at once, since something failed.
    over: AtomicBool,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl End<'_> {
    fn at(&self) -> VirtualTime {
        VirtualTime::from_ps(self.at_ps.load(Ordering::Relaxed))
    }

    fn is_over(&self, now: VirtualTime) -> bool {
        now >= self.at() || self.over.load(Ordering::Relaxed) || (self.stop)()
    }

    fn set(&self, at: VirtualTime) {
        self.at_ps.fetch_min(at.as_ps(), Ordering::Relaxed);
    }

    /// Ends the run if something failed.
    fn checked<T>(&self, result: StoreResult<T>) -> StoreResult<T> {
        self.over.fetch_or(result.is_err(), Ordering::Relaxed);
        result
    }
}

/// The clock of the agent whose turn it is.
struct Modelled<'a>(&'a HostClock);

impl Clock for Modelled<'_> {
    type Moment = VirtualTime;

    fn now(&self) -> VirtualTime {
        self.0.now()
    }

    fn seconds_since(&self, moment: VirtualTime) -> f64 {
        self.0.now().since(moment).as_secs_f64()
    }
}

/// A transaction of a terminal.
struct Done {
    begun: VirtualTime,
    ended: VirtualTime,
    conflicts: u64,
}

impl Bench<'_> {
    fn run(&mut self, row: &'static str, has_terminals: bool, until: Until) -> Result<Run, RunError> {
        self.runs += 1;
        let terminals = if has_terminals { usize::from(self.plan.terminals) } else { 0 };
        let has_analyst = matches!(until, Until::Asked(_));
        let mut places =
            places(&self.host, terminals + usize::from(has_analyst) + 1, &self.agents).into_iter();
        let begun = self.host.now();
        self.agents = places.as_slice().iter().map(Place::agent).collect();
        let end = End { at_ps: AtomicU64::new(u64::MAX), over: AtomicBool::new(false), stop: self.stop };
        let (Until::Passed(length) | Until::Asked(length)) = until;
        if !has_analyst {
            end.set(begun + length);
        }
        let (this, end) = (&*self, &end);
        let (transactions, analyst, merged) = std::thread::scope(|s| {
            let worker = places.next().expect("a place for the worker");
            let worker = s.spawn(move || merges(this.sql.database(), &worker, end));
            let analyst = has_analyst.then(|| {
                let place = places.next().expect("a place for the analyst");
                s.spawn(move || end.checked(this.analyst(place, begun + length, end)))
            });
            let terminals: Vec<_> = (0..)
                .zip(places)
                .map(|(number, place)| s.spawn(move || end.checked(this.terminal(number, place, end))))
                .collect();
            let terminals: Vec<_> =
                terminals.into_iter().map(|t| t.join().expect("a terminal does not panic")).collect();
            let analyst = analyst.map(|a| a.join().expect("the analyst does not panic"));
            (terminals, analyst, worker.join().expect("the worker does not panic"))
        });
        if (self.stop)() {
            return Err(RunError::Stopped);
        }
        let analyst = analyst.transpose()?;
        let transactions = transactions.into_iter().collect::<StoreResult<Vec<_>>>()?;
        let transactions = has_terminals.then(|| measured(&transactions, begun, end.at()));
        Ok(Run { row, transactions, analyst, merged })
    }

    /// Runs transactions until the run is over.
    fn terminal(&self, number: u16, place: Place, end: &End<'_>) -> StoreResult<(Vec<Done>, ModelledTime)> {
        let (place, plan) = (Arc::new(place), self.plan);
        let database = self.sql.with_place(place.clone());
        place.begin();
        let store = SqlTpcc::new(&database, Style::Prepared);
        let mut terminal = store.terminal()?;
        let mut inputs = Inputs::new(plan.sizes, plan.seed, self.runs, number);
        let before = self.host.read();
        let mut done = Vec::new();
        while !end.is_over(self.host.now()) {
            let begun = self.host.now();
            let us = begun.since(VirtualTime::ZERO).as_ps() / 1_000_000;
            let input = inputs.next(DATE + us as i64);
            let mut conflicts = 0;
            while let Err(e) = execute(&mut terminal, &input, &plan.sizes) {
                match e {
                    StoreError::Conflict => conflicts += 1,
                    e => return Err(e),
                }
            }
            done.push(Done { begun, ended: self.host.now(), conflicts });
        }
        Ok((done, self.host.since(&before)))
    }

    /// Asks the queries in turn until a time, and ends the run.
    fn analyst(&self, place: Place, until: VirtualTime, end: &End<'_>) -> StoreResult<Asked> {
        let place = Arc::new(place);
        let database = self.sql.with_place(place.clone());
        place.begin();
        let is_over = |answered: usize| {
            let now = self.host.now();
            end.is_over(now) || answered >= QUERIES.len() && now >= until
        };
        let asked = analyse(&database, &self.plan.sizes, &Modelled(&self.host), is_over)?;
        end.set(self.host.now());
        Ok(asked)
    }
}

/// Does the background work of the host until the run is over.
fn merges(database: &Database, place: &Place, end: &End<'_>) -> Merged {
    place.begin();
    let host = place.host();
    let (before, stats) = (host.read(), database.merge_stats());
    while !end.is_over(host.now()) {
        if database.work(0) != Progress::More {
            host.rests(REST);
        }
        place.pass();
    }
    let (time, now) = (host.since(&before), database.merge_stats());
    Merged {
        merges: now.merges - stats.merges,
        written_bytes: now.written_bytes - stats.written_bytes,
        seconds: time.total.as_secs_f64(),
    }
}

fn measured(terminals: &[(Vec<Done>, ModelledTime)], begun: VirtualTime, end: VirtualTime) -> Transactions {
    let (mut latencies, mut conflicts, mut all, mut last) = (Latencies::default(), 0, 0u64, begun);
    for done in terminals.iter().flat_map(|t| &t.0) {
        (all, last) = (all + 1, last.max(done.ended));
        if done.ended <= end {
            latencies.record(Duration::from_secs_f64(done.ended.since(done.begun).as_secs_f64()));
            conflicts += done.conflicts;
        }
    }
    let us = |of: &dyn Fn(&ModelledTime) -> VirtualDuration| {
        terminals.iter().map(|t| of(&t.1).as_secs_f64() * 1e6).sum::<f64>() / all.max(1) as f64
    };
    let seconds = end.min(last.max(begun)).since(begun).as_secs_f64();
    Transactions {
        seconds,
        transactions: latencies.count(),
        rate: latencies.count() as f64 / seconds.max(1e-12),
        conflicts,
        latency: latencies.percentiles(),
        parts_us: Part::ALL.iter().map(|&p| (p.name(), us(&|t| t.split.of(p)))).collect(),
        behind_us: us(&|t| t.behind),
    }
}
