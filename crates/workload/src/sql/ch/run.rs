//! The analyst, alone and beside the terminals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::queries::QUERIES;
use crate::harness::{Probes, RunError};
use crate::sql::tpcc::{CONDITIONS, SqlTpcc, violations};
use crate::sql::{SqlDatabase, Style};
use crate::store::{Intent, StoreResult};
use crate::tpcc::{self, Sizes, Violations};

/// The number of conditions that are checked beside the queries: conditions 1 to 4.
const CHECKED: usize = 4;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The terminals' part.
    pub tpcc: tpcc::Plan,
    /// How the terminals' statements are executed.
    pub style: Style,
}

/// What the analyst measured, in the time of its clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Asked {
    /// The time from the first query on, in seconds.
    pub seconds: f64,
    /// Queries that were answered, each with its condition.
    pub queries: u64,
    /// Queries an hour.
    pub queries_an_hour: f64,
    /// The sum of the times of each query's answers, in milliseconds, and their number, in the order of the queries.
    pub query_ms: Vec<(f64, u64)>,
    /// Violations of conditions 1 to 4 in the snapshots of queries.
    pub violations: u64,
    /// The first violations.
    pub told: Vec<String>,
}

/// The measurements of transactions, with those of the analyst if there was one.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The terminals'.
    pub transactions: tpcc::Report,
    /// The analyst's.
    pub analyst: Option<Asked>,
}

/// The clock that an analyst's queries are measured by.
pub trait Clock {
    /// A moment of it.
    type Moment: Copy;

    /// The time.
    fn now(&self) -> Self::Moment;

    /// The seconds that have passed since a moment.
    fn seconds_since(&self, moment: Self::Moment) -> f64;
}

/// The time of the machine.
struct Wall;

impl Clock for Wall {
    type Moment = Instant;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn seconds_since(&self, moment: Instant) -> f64 {
        moment.elapsed().as_secs_f64()
    }
}

/// Asks queries, beginning with the first one, until `is_over` of the number of queries that were answered. A query that is under
/// way then is still answered, and counts.
///
/// # Errors
/// When the database fails.
pub fn analyse(
    database: &impl SqlDatabase,
    sizes: &Sizes,
    clock: &impl Clock,
    is_over: impl Fn(usize) -> bool,
) -> StoreResult<Asked> {
    let mut connection = database.connect()?;
    let mut asked = Asked { query_ms: vec![(0.0, 0); QUERIES.len()], ..Asked::default() };
    let mut found = Violations::default();
    let begun = clock.now();
    let mut turn = 0;
    while !is_over(turn) {
        let at = turn % QUERIES.len();
        connection.begin(Intent::Read)?;
        let asking = clock.now();
        connection.execute_text(QUERIES[at].sql)?.rows()?;
        asked.query_ms[at].0 += clock.seconds_since(asking) * 1e3;
        asked.query_ms[at].1 += 1;
        violations(&mut *connection, &CONDITIONS[turn % CHECKED], sizes, &mut found)?;
        connection.commit()?;
        turn += 1;
    }
    asked.seconds = clock.seconds_since(begun);
    asked.queries = turn as u64;
    asked.queries_an_hour = turn as f64 * 3600.0 / asked.seconds.max(1e-9);
    (asked.violations, asked.told) = (found.count, found.told);
    Ok(asked)
}

/// Asks queries in wall time until `over` is set.
fn analyse_until(database: &impl SqlDatabase, sizes: &Sizes, over: &AtomicBool) -> StoreResult<Asked> {
    analyse(database, sizes, &Wall, |_| over.load(Ordering::Relaxed))
}

/// Asks queries alone for a time.
///
/// # Errors
/// When the database fails, or [`RunError::Stopped`].
pub fn alone(
    database: &impl SqlDatabase,
    sizes: &Sizes,
    length: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Asked, RunError> {
    let over = AtomicBool::new(false);
    let over = &over;
    std::thread::scope(|s| {
        let analyst = s.spawn(move || analyse_until(database, sizes, over));
        let end = Instant::now() + length;
        let mut stopped = false;
        while Instant::now() < end && !analyst.is_finished() && !stopped {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            stopped = stop();
        }
        over.store(true, Ordering::Relaxed);
        let asked = analyst.join().expect("the analyst does not panic")?;
        if stopped { Err(RunError::Stopped) } else { Ok(asked) }
    })
}

/// How often a run of the analyst alone checks for a stop.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the terminals on `transactions`, and the analyst on `queries` beside them if it is given.
///
/// # Errors
/// When a database fails, or [`RunError::Stopped`].
pub fn beside<D: SqlDatabase>(
    transactions: &D,
    queries: Option<&D>,
    plan: &Plan,
    probes: &Probes<'_>,
) -> Result<Report, RunError> {
    let store = SqlTpcc::new(transactions, plan.style);
    let (over, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (over, failed) = (&over, &failed);
    std::thread::scope(|s| {
        let analyst = queries.map(|database| {
            s.spawn(move || {
                let asked = analyse_until(database, &plan.tpcc.sizes, over);
                failed.fetch_or(asked.is_err(), Ordering::Relaxed);
                asked
            })
        });
        // If the analyst fails, the terminals end, and the analyst's error is the one to report.
        let stop = || (probes.stop)() || failed.load(Ordering::Relaxed);
        let transactions = tpcc::run(&store, &plan.tpcc, &Probes { stop: &stop, ..*probes }, &|_| {});
        over.store(true, Ordering::Relaxed);
        let analyst = analyst.map(|a| a.join().expect("the analyst does not panic")).transpose()?;
        Ok(Report { transactions: transactions?, analyst })
    })
}
