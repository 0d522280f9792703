//! Random changes of schemas and rows, in transactions with savepoints, beside old snapshots and reopenings: all reads are as in the model.
//!
//! ```text
//!   seed ─► A: statements, transactions, rollbacks ─► A sees the newest state
//!                        └─ sessions that began before ─► each still sees the state of its begin
//! ```
//!
//! `LODE_SEEDS=1000` runs more seeds, `LODE_SEED=7` one. The same model is killed in `cli/tests/crash_schema.rs`.

#[path = "schema_random/model.rs"]
mod model;

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions};
use model::State;

const SEEDS: u64 = 12;
const STEPS: u32 = 60;
const OLD_MAX: usize = 3;

/// A database, its sessions, and what they should see.
struct World {
    drive: Arc<Drive>,
    queries: Queries,
    session: Session,
    state: State,
    /// Sessions that began a transaction, and what they saw then.
    old: Vec<(Session, State)>,
    random: Random,
    changes: &'static str,
}

fn opened(drive: &Arc<Drive>) -> Queries {
    let db = Database::open(drive.clone(), DatabaseOptions::default()).expect("the drive opens");
    Queries::new(db, 1 << 28).expect("queries")
}

impl World {
    async fn new(seed: u64) -> Self {
        let mut random = Random::of_seed(seed);
        let drive = Arc::new(Drive::in_memory(256 << 20));
        let queries = opened(&drive);
        let changes = random.pick(&["delta", "pages"]).copied().expect("there are two");
        let session = Self::session_of(&queries, &mut random, changes).await;
        Self { drive, queries, session, state: State::default(), old: Vec::new(), random, changes }
    }

    async fn session_of(queries: &Queries, random: &mut Random, changes: &str) -> Session {
        let all =
            [Offload::Off, Offload::Index, Offload::Pages, Offload::Rows, Offload::Aggregate, Offload::Auto];
        let offload = random.pick(&all).copied().expect("there are levels");
        let options = SessionOptions { target_partitions: 2, offload, ..SessionOptions::default() };
        let session = queries.session(&options).expect("a session");
        session.execute(&format!("SET lode.default_changes = '{changes}'")).await.expect("it is set");
        session
    }

    async fn session(&mut self) -> Session {
        Self::session_of(&self.queries, &mut self.random, self.changes).await
    }

    async fn run(&self, sql: &str) {
        if let Err(e) = self.session.execute(sql).await {
            panic!("{sql}: {} {e}", e.sqlstate());
        }
    }

    async fn step(&mut self) {
        match self.random.below(12) {
            0 if self.old.len() < OLD_MAX => {
                let session = self.session().await;
                session.execute("BEGIN; SELECT 1").await.expect("it begins");
                self.old.push((session, self.state.clone()));
            }
            1 if !self.old.is_empty() => {
                let at = self.random.below(self.old.len() as u64) as usize;
                let (session, state) = self.old.swap_remove(at);
                shows(&session, &state).await;
                session.execute("ROLLBACK").await.expect("it ends");
            }
            2 => {
                self.old.clear();
                self.queries = opened(&self.drive);
                self.session = self.session().await;
            }
            3..=5 => self.transaction().await,
            6 => self.run("VACUUM").await,
            _ => {
                if let Some(sql) = self.state.change(&mut self.random) {
                    self.run(&sql).await;
                }
            }
        }
        shows(&self.session, &self.state).await;
        if let Some((session, state)) = self.random.pick(&self.old) {
            shows(session, state).await;
        }
    }

    async fn transaction(&mut self) {
        let before = self.state.clone();
        self.run("BEGIN").await;
        for _ in 0..1 + self.random.below(4) {
            let within = self.random.once_in(3).then(|| self.state.clone());
            if within.is_some() {
                self.run("SAVEPOINT s").await;
            }
            if let Some(sql) = self.state.change(&mut self.random) {
                self.run(&sql).await;
            }
            shows(&self.session, &self.state).await;
            if let Some(within) = within {
                self.run("ROLLBACK TO s").await;
                self.state = within;
                shows(&self.session, &self.state).await;
            }
        }
        if self.random.once_in(3) {
            self.run("ROLLBACK").await;
            self.state = before;
        } else {
            self.run("COMMIT").await;
        }
    }
}

/// Checks that a session sees these relations, with these rows.
async fn shows(session: &Session, state: &State) {
    let tables = rows(session, "SHOW TABLES").await;
    let names: Vec<String> = state.names().into_iter().collect();
    assert_eq!(tables[1..], names, "the relations");
    for name in names {
        assert_eq!(rows(session, &State::query(&name)).await, state.lines(&name), "the rows of {name}");
    }
}

async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let mut results = session.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let Some(lode_sql::StatementResult::Rows { schema, stream }) = results.pop() else {
        panic!("{sql} has rows")
    };
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let mut lines = vec![names.join(" ")];
    let batches = datafusion::physical_plan::common::collect(stream).await;
    for batch in batches.unwrap_or_else(|e| panic!("{sql}: {e}")) {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| array_value_to_string(c, row).expect("a value"));
            lines.push(values.collect::<Vec<_>>().join(" "));
        }
    }
    lines
}

async fn history(seed: u64) {
    let mut world = World::new(seed).await;
    for _ in 0..STEPS {
        world.step().await;
    }
}

#[test]
fn reads_are_as_in_the_model_through_changes_of_schemas() {
    let one = std::env::var("LODE_SEED").ok().and_then(|s| s.parse::<u64>().ok());
    let count = std::env::var("LODE_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(SEEDS);
    let seeds = one.map_or(0..count, |seed| seed..seed + 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seed in seeds {
        let run = runtime.block_on(runtime.spawn(history(seed)));
        assert!(run.is_ok(), "seed {seed} fails");
    }
}
