//! Runs the cases on a database in memory and compares the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions, SqlError, StatementResult};
use parking_lot::Mutex;

use super::cases::{Answer, Case};
use super::compare::{Verdict, compare, tolerance};
use super::load::{NAMES, load};
use super::values::{Value, value};

const DRIVE_BYTES: u64 = 256 << 20;
const SESSIONS: usize = 3;
const CASE_SECONDS_MAX: u64 = 60;
/// Statements over tables run at each of these.
const LEVELS: [Offload; 3] = [Offload::Off, Offload::Index, Offload::Aggregate];

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The same answer, or an error with the same SQLSTATE.
    Same,
    /// The same values, in columns of another class of types: `numeric -> Float64`.
    OtherType { types: String },
    /// Errors on both sides, whose SQLSTATEs differ.
    OtherState { state: String, message: String },
    /// PostgreSQL answers, Lode has an error.
    Refused { state: String, message: String },
    /// Another answer than PostgreSQL's.
    Wrong { kind: &'static str, lode: String },
}

impl Outcome {
    /// How far it is from PostgreSQL's answer. Of the offload levels, the farthest counts.
    fn rank(&self) -> u8 {
        match self {
            Self::Same => 0,
            Self::OtherType { .. } => 1,
            Self::OtherState { .. } => 2,
            Self::Refused { .. } => 3,
            Self::Wrong { .. } => 4,
        }
    }
}

/// Lode's answer.
struct Got {
    types: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// The outcome of each case, with the offload level where that matters.
pub(crate) fn run_all(cases: &[Case], only: &str) -> Vec<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let db = database();
    runtime.block_on(load(&session(&db), cases));
    // A statement that panics is reported among the others, not on the screen.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcomes = runtime.block_on(async {
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(vec![Outcome::Same; cases.len()]);
        let worker = async || {
            let session = session(&db);
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(n) else { return };
                if !(case.theme.contains(only) || case.sql.contains(only)) {
                    continue;
                }
                let outcome = run(&session, case).await;
                outcomes.lock()[n] = outcome;
            }
        };
        futures::future::join_all((0..SESSIONS).map(|_| worker())).await;
        outcomes.into_inner()
    });
    std::panic::set_hook(hook);
    outcomes
}

fn database() -> Database {
    Database::open(Arc::new(Drive::in_memory(DRIVE_BYTES)), DatabaseOptions::default())
        .expect("an empty drive opens")
}

fn session(db: &Database) -> Session {
    Queries::new(db.clone(), 1 << 30)
        .and_then(|q| q.session(&SessionOptions { target_partitions: 2, ..SessionOptions::default() }))
        .expect("a session")
}

async fn run(session: &Session, case: &Case) -> Outcome {
    let on_tables =
        NAMES.iter().any(|t| case.sql.contains(&format!("e_{t}")) || case.sql.contains(&format!("x_{t}")));
    let levels = if on_tables { &LEVELS[..] } else { &[Offload::Auto] };
    let mut worst = Outcome::Same;
    for (n, &level) in levels.iter().enumerate() {
        session.set_offload(level);
        let mut outcome = run_once(session, case).await;
        if outcome.rank() <= worst.rank() {
            continue;
        }
        if let (1.., Outcome::Wrong { lode, .. } | Outcome::Refused { message: lode, .. }) = (n, &mut outcome)
        {
            *lode = format!("{lode} (at level {level}, not at {})", levels[0]);
        }
        worst = outcome;
    }
    worst
}

async fn run_once(session: &Session, case: &Case) -> Outcome {
    let (session, sql) = (session.clone(), case.sql.clone());
    let task = tokio::spawn(async move { ask(&session, &sql).await });
    let got = match tokio::time::timeout(Duration::from_secs(CASE_SECONDS_MAX), task).await {
        Ok(Ok(got)) => got,
        Ok(Err(panic)) => return Outcome::Wrong { kind: "panic", lode: panic_text(panic) },
        Err(_) => {
            return Outcome::Wrong { kind: "hang", lode: format!("no answer after {CASE_SECONDS_MAX} s") };
        }
    };
    match (&case.answer, got) {
        (Answer::Error(state), Err(e)) if state == e.sqlstate() => Outcome::Same,
        (Answer::Error(_), Err(e)) => {
            Outcome::OtherState { state: e.sqlstate().into(), message: e.to_string() }
        }
        (Answer::Error(_), Ok(got)) => Outcome::Wrong { kind: "answered", lode: got.show() },
        (Answer::Rows { .. }, Err(e)) => {
            Outcome::Refused { state: e.sqlstate().into(), message: e.to_string() }
        }
        (Answer::Rows { types, rows }, Ok(got)) => verdict(&case.sql, types, rows, &got),
    }
}

fn panic_text(e: tokio::task::JoinError) -> String {
    let text = e.into_panic();
    text.downcast_ref::<String>()
        .cloned()
        .or_else(|| text.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_default()
}

async fn ask(session: &Session, sql: &str) -> Result<Got, SqlError> {
    let Some(StatementResult::Rows { schema, mut stream }) = session.execute(sql).await?.pop() else {
        return Ok(Got { types: Vec::new(), rows: Vec::new() });
    };
    let types = schema.fields().iter().map(|f| f.data_type().to_string()).collect();
    let mut rows = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows.extend((0..batch.num_rows()).map(|row| batch.columns().iter().map(|c| value(c, row)).collect()));
    }
    Ok(Got { types, rows })
}

impl Got {
    fn show(&self) -> String {
        self.rows.iter().map(|r| show(r.iter().map(Value::to_string))).collect::<Vec<_>>().join("; ")
            + &format!(" [{}]", self.types.join(", "))
    }
}

/// A row as text.
pub(crate) fn show(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(", ")
}

fn verdict(sql: &str, types: &[String], rows: &[Vec<Option<String>>], got: &Got) -> Outcome {
    let wrong =
        |kind, lode: String| Outcome::Wrong { kind, lode: format!("{lode} [{}]", got.types.join(", ")) };
    if types.len() != got.types.len() {
        return wrong("columns", format!("{} columns", got.types.len()));
    }
    if rows.len() != got.rows.len() {
        return wrong("rows", got.show());
    }
    let tolerance = tolerance(sql);
    let compare_row = |pg: &[Option<String>], lode: &[Value]| {
        let each = types.iter().zip(pg).zip(lode).map(|((t, pg), v)| compare(t, pg.as_deref(), v, tolerance));
        each.max().unwrap_or(Verdict::Same)
    };
    let in_order: Vec<Verdict> = rows.iter().zip(&got.rows).map(|(pg, lode)| compare_row(pg, lode)).collect();
    let mut worst = in_order.iter().copied().max().unwrap_or(Verdict::Same);
    if worst > Verdict::OtherType && rows.len() > 1 {
        // Without an ORDER BY, the rows may be in another order.
        let mut left: Vec<&Vec<Value>> = got.rows.iter().collect();
        let mut loosest = Verdict::Same;
        let all = rows.iter().all(|pg| {
            let found = left.iter().position(|lode| compare_row(pg, lode) <= Verdict::OtherType);
            if let Some(at) = found {
                loosest = loosest.max(compare_row(pg, left[at]));
                left.swap_remove(at);
            }
            found.is_some()
        });
        if all && ordered(sql) {
            return wrong("order", got.show());
        } else if all {
            worst = loosest;
        }
    }
    let differing = || {
        let at = in_order.iter().position(|v| *v == worst).unwrap_or(0);
        let pg = rows
            .get(at)
            .map(|r| show(r.iter().map(|v| v.clone().unwrap_or("NULL".into()))))
            .unwrap_or_default();
        let lode = got.rows.get(at).map(|r| show(r.iter().map(Value::to_string))).unwrap_or_default();
        if rows.len() == 1 { lode } else { format!("row {}: {lode} instead of {pg}", at + 1) }
    };
    match worst {
        Verdict::Same => Outcome::Same,
        Verdict::OtherType => {
            Outcome::OtherType { types: format!("{} -> {}", types.join(", "), got.types.join(", ")) }
        }
        Verdict::Blanks => wrong("blanks", differing()),
        Verdict::FewerDigits => wrong("fewer-digits", differing()),
        Verdict::Inexact => wrong("inexact", differing()),
        Verdict::Wrong => wrong("value", differing()),
    }
}

/// Whether the statement has an ORDER BY outside of parentheses.
fn ordered(sql: &str) -> bool {
    let mut depth = 0;
    sql.char_indices().any(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && sql[at..].starts_with("ORDER BY")
    })
}
