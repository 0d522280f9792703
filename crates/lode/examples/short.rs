//! How long short statements take: SELECT, UPDATE and INSERT of a row by its key, prepared and as text, and by the general
//! path.
//!
//! ```text
//!   rows of 100 bytes, loaded ─► each statement, one connection, keys at random ─► microseconds each
//! ```
//!
//! `cargo run --release -p lode --features sql --example short -- [FILE [ROWS [STATEMENTS]]]`

use std::error::Error;
use std::time::Instant;

use lode::sql::arrow::datatypes::DataType;
use lode::sql::{Prepared, ScalarValue, Session, SessionOptions, StatementResult};
use lode::{Database, Division, Options};

/// Keys at random, the same in every run.
struct Keys {
    state: u64,
    rows: u64,
    /// For INSERT: the next key that is not there.
    free: i64,
}

impl Keys {
    fn next(&mut self, verb: &str) -> i64 {
        if verb == "INSERT" {
            self.free += 1;
            return self.free;
        }
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) % self.rows) as i64
    }
}

/// A statement, with its key as `$1`.
const STATEMENTS: [(&str, &str); 3] = [
    ("SELECT", "SELECT v, filler FROM t WHERE id = $1"),
    ("UPDATE", "UPDATE t SET v = v + 1 WHERE id = $1"),
    (
        "INSERT",
        "INSERT INTO t VALUES ($1, 0, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')",
    ),
];

async fn took(
    session: &Session,
    keys: &mut Keys,
    verb: &str,
    sql: &str,
    how: &How,
    statements: u32,
) -> Result<f64, Box<dyn Error>> {
    let begun = Instant::now();
    for _ in 0..statements {
        let key = keys.next(verb);
        let result = match how {
            How::Prepared(prepared) => {
                session.execute_prepared(prepared, &[ScalarValue::Int64(Some(key))]).await?
            }
            How::Text => {
                let text = sql.replace("$1", &key.to_string());
                session.execute(&text).await?.pop().ok_or("no result")?
            }
        };
        match result {
            StatementResult::Count { rows, .. } => assert_eq!(rows, 1),
            StatementResult::Rows { schema, .. } => assert_eq!(*schema.field(0).data_type(), DataType::Int64),
            other => panic!("{other:?}"),
        }
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(statements))
}

enum How {
    Prepared(Prepared),
    Text,
}

async fn run(file: &str, rows: u64, statements: u32) -> Result<(), Box<dyn Error>> {
    let db = Database::open_with(file, Options { division: Division::Queries, ..Options::default() })?;
    let session = db.session(&SessionOptions { may_block: true, ..SessionOptions::default() })?;
    session
        .execute(&format!(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, filler TEXT);
             SET lode.bulk_rows = 1000;
             INSERT INTO t SELECT value, value, repeat('x', 84) FROM generate_series(0, {}) AS value;
             RESET lode.bulk_rows",
            rows - 1
        ))
        .await?;
    let mut keys = Keys { state: 1, rows, free: rows as i64 };
    println!("durability  statement  short   way         us each");
    for durability in ["none", "commit"] {
        session.execute(&format!("SET lode.durability = {durability}")).await?;
        for (verb, sql) in STATEMENTS {
            for short in [true, false] {
                session.set_short_statements(short);
                for how in [How::Prepared(session.prepare(sql).await?), How::Text] {
                    let way = if matches!(how, How::Text) { "text" } else { "prepared" };
                    // Changes of a loaded table take long; the general path too.
                    let few = if short && verb == "SELECT" { statements } else { statements.div_ceil(20) };
                    took(&session, &mut keys, verb, sql, &how, few.div_ceil(10)).await?;
                    let us = took(&session, &mut keys, verb, sql, &how, few).await?;
                    let short = if short { "on" } else { "off" };
                    println!("{durability:<11} {verb:<10} {short:<7} {way:<9} {us:>10.1}");
                }
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "short.lode".into());
    let rows = arguments.next().map_or(Ok(100_000), |n| n.parse())?;
    let statements = arguments.next().map_or(Ok(20_000), |n| n.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(run(&file, rows, statements))
}
