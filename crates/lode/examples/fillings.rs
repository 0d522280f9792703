//! Statements of one row: INSERT that fills a default and a sequence beside one that names all values, RETURNING, and ON CONFLICT.
//!
//! ```text
//!   each round: each statement 2,000 times, in turn ─► microseconds each, the median of the rounds, and its ratio to its base
//! ```
//!
//! `cargo run --release -p lode --features sql --example fillings -- [FILE [ROUNDS]]`

use std::error::Error;
use std::time::Instant;

use futures::StreamExt;
use lode::sql::{Prepared, ScalarValue, Session, SessionOptions, StatementResult};
use lode::{Database, Options};

const STATEMENTS: i64 = 2000;

/// A kind of statement. Its key is `$1`, or it has none.
struct Kind {
    name: &'static str,
    sql: &'static str,
    /// The kind that it is compared with.
    base: usize,
}

const KINDS: [Kind; 10] = [
    Kind { name: "INSERT, all values named", sql: "INSERT INTO named VALUES ($1, 5, 7, 'new')", base: 0 },
    Kind { name: "INSERT, sequence and defaults", sql: "INSERT INTO filled (a) VALUES (5)", base: 0 },
    Kind { name: "INSERT RETURNING", sql: "INSERT INTO filled (a) VALUES (5) RETURNING id", base: 1 },
    Kind {
        name: "INSERT ON CONFLICT DO NOTHING",
        sql: "INSERT INTO upserts VALUES ($1, 5, 7, 'new') ON CONFLICT (id) DO NOTHING",
        base: 0,
    },
    Kind {
        name: "INSERT ON CONFLICT DO UPDATE",
        sql: "INSERT INTO upserts VALUES ($1, 5, 7, 'new') ON CONFLICT (id) DO UPDATE SET a = excluded.a + 1",
        base: 5,
    },
    Kind { name: "UPDATE", sql: "UPDATE named SET a = a + 1 WHERE id = $1", base: 5 },
    Kind { name: "UPDATE RETURNING", sql: "UPDATE named SET a = a + 1 WHERE id = $1 RETURNING a", base: 5 },
    Kind { name: "SELECT", sql: "SELECT a FROM named WHERE id = $1", base: 7 },
    Kind { name: "DELETE", sql: "DELETE FROM named WHERE id = $1", base: 8 },
    Kind { name: "DELETE RETURNING", sql: "DELETE FROM upserts WHERE id = $1 RETURNING a", base: 8 },
];

const TABLES: &str =
    "CREATE TABLE named (id BIGINT PRIMARY KEY, a INT, b INT DEFAULT 7, state TEXT DEFAULT 'new');
    CREATE TABLE upserts (id BIGINT PRIMARY KEY, a INT, b INT DEFAULT 7, state TEXT DEFAULT 'new');
    CREATE TABLE filled (id BIGSERIAL PRIMARY KEY, a INT, b INT DEFAULT 7, state TEXT DEFAULT 'new');
    SET lode.durability = none";

/// Microseconds for a statement.
async fn took(session: &Session, statement: &Prepared, first: i64) -> Result<f64, Box<dyn Error>> {
    let with_key = !statement.parameter_types().is_empty();
    let begun = Instant::now();
    for key in first..first + STATEMENTS {
        let values = if with_key { vec![ScalarValue::Int64(Some(key))] } else { Vec::new() };
        match session.execute_prepared(statement, &values).await? {
            StatementResult::Count { rows, .. } => assert_eq!(rows, 1),
            StatementResult::Rows { mut stream, .. } => {
                let mut rows = 0;
                while let Some(batch) = stream.next().await {
                    rows += batch?.num_rows();
                }
                assert_eq!(rows, 1);
            }
            other => panic!("{other:?}"),
        }
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / STATEMENTS as f64)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "fillings.lode".into());
    let rounds: i64 = arguments.next().map_or(Ok(7), |n| n.parse())?;
    let db = Database::open_with(&file, Options::default())?;
    let session = db.session(&SessionOptions::default())?;
    session.execute(TABLES).await?;
    let mut prepared = Vec::new();
    for kind in &KINDS {
        prepared.push(session.prepare(kind.sql).await?);
    }
    let mut times = vec![Vec::new(); KINDS.len()];
    for round in 0..rounds {
        for (statement, times) in prepared.iter().zip(&mut times) {
            times.push(took(&session, statement, 1 + round * STATEMENTS).await?);
        }
    }
    let median = |times: &Vec<f64>| {
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    for (kind, of) in KINDS.iter().zip(&times) {
        println!("{:32} {:8.1} us  {:6.2}", kind.name, median(of), median(of) / median(&times[kind.base]));
    }
    Ok(())
}
