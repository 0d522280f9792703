//! Random joins: the order that the planner chooses beside the best of many others.
//!
//! ```text
//!   seed ─► tables with skew and correlation ─► joins of 4 to 8 of them ─┬─ as planned
//!                                                                        ├─ in the order of FROM
//!                                                                        └─ in up to 40 forced orders ─► the best
//! ```
//!
//! What is compared are the times from the first operator to the last row: all plans of a query take about as long to be made, which is
//! shown beside. Operators begin before the plan is handed over, so that the two times of a short query cannot be told apart.
//!
//! The forced orders join one table after the other, each with its cheaper side as the build side. A plan may beat them all: with joins of
//! joins. Source of the kind of data: "How good are query optimizers, really?" (VLDB 2015), which finds that skew and correlation
//! are what estimates fail on.

mod query;
mod tables;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;
use lode_base::random::Random;
use lode_sql::{Session, SqlError, StatementResult};

use self::query::Query;
use self::tables::tables;
use crate::BenchError;

/// Tables of a database.
const TABLES: usize = 9;
/// Queries on each database.
const QUERIES_A_DATABASE: usize = 5;
/// A query that finds nothing is drawn anew at most so many times.
const DRAWN_MAX: usize = 20;
/// Runs of what is measured, of which the least time counts.
const RUNS: usize = 5;
/// Turns of the plan and the best order.
const TURNS: usize = 10;
/// An order that takes so many times the least time is run only once.
const RUN_AGAIN_MAX: f64 = 1.5;
/// An order that takes so many times the least time is stopped.
const STOPPED_AT: u32 = 10;
/// No order is stopped before this time.
const STOPPED_AFTER: Duration = Duration::from_millis(200);

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Queries, from number 0.
    pub queries: usize,
    /// The only one of them that runs.
    pub only: Option<usize>,
    /// The rows of the tables: 1 is up to a million each.
    pub scale: f64,
    /// The most forced orders a query.
    pub orders: usize,
    /// What decides tables and queries.
    pub seed: u64,
}

/// The times of a query.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The query's number, from 0.
    pub number: usize,
    /// The query.
    pub sql: String,
    /// The tables that it joins.
    pub tables: usize,
    /// What planning took, with all samples.
    pub planning: Duration,
    /// As planned.
    pub planned: Duration,
    /// With `lode.planner = off`, in the order of FROM; `None` if it was stopped.
    pub unordered: Option<Duration>,
    /// The best of the forced orders.
    pub best: Duration,
    /// That order. It is empty, as where the planner chooses, if all were stopped.
    pub best_order: String,
    /// The forced orders that were run to their end.
    pub orders: usize,
    /// Those that were stopped: each takes over ten times the best time.
    pub stopped: usize,
}

impl Joined {
    /// The planned time to the best one.
    pub fn ratio(&self) -> f64 {
        self.planned.as_secs_f64() / self.best.as_secs_f64()
    }
}

/// Runs the queries and says what each took. A query that finds nothing is drawn anew. The last tables stay.
///
/// # Errors
/// When a statement fails, when two orders have different answers, and when `stop` says so.
pub async fn run(
    session: &Session,
    plan: &Plan,
    stop: &dyn Fn() -> bool,
    said: &mut dyn FnMut(&Joined) -> ControlFlow<()>,
) -> Result<(), BenchError> {
    let mut specs = Vec::new();
    let mut made = None;
    for number in (0..plan.queries).filter(|n| plan.only.is_none_or(|only| only == *n)) {
        let database = (number / QUERIES_A_DATABASE) as u64;
        if made != Some(database) {
            made = Some(database);
            drop_all(session, specs.len()).await?;
            specs = tables(&mut Random::of_seed(plan.seed.wrapping_add(database << 32)), TABLES, plan.scale);
            for (at, table) in specs.iter().enumerate() {
                for statement in table.statements(at, &specs, plan.seed.wrapping_add(database)) {
                    execute(session, &statement).await?;
                }
                if stop() {
                    return Err(BenchError::Interrupted);
                }
            }
        }
        let mut r = Random::of_seed(plan.seed.wrapping_add((number as u64) << 32 | 1 << 62));
        let mut query = Query::of(&mut r, &specs);
        for _ in 0..DRAWN_MAX {
            if finds_rows(session, &query).await? {
                break;
            }
            query = Query::of(&mut r, &specs);
        }
        let orders = query.orders(&mut r, plan.orders);
        if said(&measured(session, number, &query, &orders, stop).await?).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether a query joins any rows.
async fn finds_rows(session: &Session, query: &Query) -> Result<bool, BenchError> {
    let (_, rows) = Timer { session, sql: &query.sql }.rows().await?;
    let count = rows.first().map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0));
    Ok(count.is_some_and(|n| n > 0))
}

async fn drop_all(session: &Session, tables: usize) -> Result<(), BenchError> {
    for at in 0..tables {
        execute(session, &format!("DROP TABLE t{at}")).await?;
    }
    Ok(())
}

async fn measured(
    session: &Session,
    number: usize,
    query: &Query,
    orders: &[Vec<usize>],
    stop: &dyn Fn() -> bool,
) -> Result<Joined, BenchError> {
    let timer = Timer { session, sql: &query.sql };
    let first = timer.whole().await?;
    let (mut planned, mut planning) = (first.took, first.planning);
    for _ in 1..RUNS {
        let again = timer.whole().await?;
        planned = planned.min(again.took);
        planning = planning.min(again.planning);
    }
    let mut best: Option<(Duration, String)> = None;
    let mut stopped = 0;
    for order in orders {
        if stop() {
            return Err(BenchError::Interrupted);
        }
        let names: Vec<String> = order.iter().map(|t| format!("t{t}")).collect();
        let names = names.join(", ");
        force(session, &names).await?;
        let least = best.as_ref().map_or(planned, |(t, _)| (*t).min(planned));
        let Some(Ran { mut took, answer, .. }) = timer.within(least).await? else {
            stopped += 1;
            continue;
        };
        if answer != first.answer {
            let what = format!("query {number} answers otherwise in the order {names}: {}", query.sql);
            return Err(BenchError::Orders(what));
        }
        if took.as_secs_f64() < least.as_secs_f64() * RUN_AGAIN_MAX {
            took = timer.again(took).await?;
        }
        if best.as_ref().is_none_or(|(t, _)| took < *t) {
            best = Some((took, names));
        }
    }
    // The least of many noisy times is too low, so that the best order runs again, in turn with the plan.
    let (_, best_order) = best.unwrap_or((planned, String::new()));
    let mut best = Duration::MAX;
    planned = Duration::MAX;
    for _ in 0..TURNS {
        force(session, &best_order).await?;
        best = best.min(timer.whole().await?.took);
        force(session, "").await?;
        planned = planned.min(timer.whole().await?.took);
    }
    execute(session, "SET lode.planner = 'off'").await?;
    let unordered = match timer.within(planned).await? {
        Some(ran) => Some(timer.again(ran.took).await?),
        None => None,
    };
    execute(session, "SET lode.planner = 'cost'").await?;
    Ok(Joined {
        number,
        sql: query.sql.clone(),
        tables: query.tables.len(),
        planning,
        planned,
        unordered,
        best,
        best_order,
        orders: orders.len() - stopped,
        stopped,
    })
}

/// A run of a query.
struct Ran {
    planning: Duration,
    /// From the first operator to the last row.
    took: Duration,
    answer: String,
}

/// Times a query.
struct Timer<'a> {
    session: &'a Session,
    sql: &'a str,
}

impl Timer<'_> {
    async fn whole(&self) -> Result<Ran, BenchError> {
        let start = Instant::now();
        let (planning, rows) = self.rows().await?;
        let took = start.elapsed() - planning;
        let answer = pretty_format_batches(&rows).map_err(|e| failed(self.sql, e.into()))?.to_string();
        Ok(Ran { planning, took, answer })
    }

    /// The least time of a run that took `first` and of those after it.
    async fn again(&self, first: Duration) -> Result<Duration, BenchError> {
        let mut least = first;
        for _ in 1..RUNS {
            least = least.min(self.whole().await?.took);
        }
        Ok(least)
    }

    /// What planning took, and the rows.
    async fn rows(&self) -> Result<(Duration, Vec<RecordBatch>), BenchError> {
        let start = Instant::now();
        let mut results = self.session.execute(self.sql).await.map_err(|e| failed(self.sql, e))?;
        let planning = start.elapsed();
        let Some(StatementResult::Rows { stream, .. }) = results.pop() else {
            panic!("a join is one SELECT")
        };
        Ok((planning, stream.try_collect().await.map_err(|e| failed(self.sql, e.into()))?))
    }

    /// As [`Timer::whole`]; `None` if it takes far longer than `least`.
    async fn within(&self, least: Duration) -> Result<Option<Ran>, BenchError> {
        let most = (least * STOPPED_AT).max(STOPPED_AFTER);
        match tokio::time::timeout(most, self.whole()).await {
            Ok(ran) => ran.map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// Forces an order of joins; an empty one leaves it to the planner.
async fn force(session: &Session, order: &str) -> Result<(), BenchError> {
    execute(session, &format!("SET lode.join_order = '{order}'")).await
}

async fn execute(session: &Session, sql: &str) -> Result<(), BenchError> {
    session.execute(sql).await.map(|_| ()).map_err(|e| failed(sql, e))
}

fn failed(sql: &str, source: SqlError) -> BenchError {
    BenchError::sql(sql, source)
}
