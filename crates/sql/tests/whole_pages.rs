//! COUNT, MIN and MAX of pages that the drive does not read, since its page index says what they are: the answers are those of the rows.
//!
//! ```text
//!   random rows, changes, filter ─┬─ the host computes (lode.offload = off) ──► row
//!                                 └─ the drive, by entries where it can ──────► the same row
//! ```
//!
//! `LODE_CASES` sets the number of queries, `LODE_SEED` the seed.

mod support;

use std::sync::Arc;

use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions};
use support::{lines, rows, run};

const COLUMNS: [&str; 7] = ["id", "n", "m", "d", "ts", "b", "s"];

async fn session() -> Session {
    let drive = Drive::in_memory(1 << 28);
    let database = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    let s = Queries::new(database, 1 << 30).and_then(|q| q.session(&options)).unwrap();
    for (table, options) in [("t", "layout = 'row'"), ("u", "layout = 'row', changes = 'pages'")] {
        let columns =
            "id INT PRIMARY KEY, n INT, m NUMERIC(9, 2), d DATE NOT NULL, ts TIMESTAMP, b BIGINT, s TEXT";
        run(&s, &format!("CREATE TABLE {table} ({columns}) WITH ({options})")).await;
        let values = "i, nullif(i / 100 % 7, 3), CASE WHEN i % 900 < 400 THEN i / 8.0 - 300 END, DATE '2000-01-01' + i % 40, \
             CASE WHEN i > 3000 THEN TIMESTAMP '2001-01-01 00:00:00' END, CAST(i AS BIGINT) * i * 1000003, 'text ' || i";
        run(&s, &format!("INSERT INTO {table} SELECT {values} FROM generate_series(1, 6000) AS g(i)")).await;
    }
    s
}

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    random.pick(of).expect("there is something to pick")
}

fn condition(random: &mut Random) -> String {
    let n = random.below(6500);
    match random.below(8) {
        0 => String::new(),
        1 => format!(" WHERE id < {n}"),
        2 => format!(" WHERE id >= {n} AND n IS NOT NULL"),
        3 => format!(" WHERE id BETWEEN {n} AND {}", n + 1500),
        4 => format!(" WHERE NOT id = {n}"),
        5 => format!(" WHERE id < {n} OR m IS NULL"),
        6 => format!(" WHERE ts IS NULL AND id > {n}"),
        _ => " WHERE n = 5 OR n <> 5".into(),
    }
}

fn query(random: &mut Random, table: &str) -> String {
    let calls: Vec<String> = (0..1 + random.below(4))
        .map(|_| match random.below(6) {
            0 => "count(*)".into(),
            n => format!(
                "{}({})",
                ["count", "min", "max", "min", "max"][n as usize - 1],
                pick(random, &COLUMNS)
            ),
        })
        .collect();
    format!("SELECT {} FROM {table}{}", calls.join(", "), condition(random))
}

/// A change of some rows, in a transaction or by itself.
fn change(random: &mut Random, table: &str) -> String {
    let n = random.below(6000);
    match random.below(6) {
        0 => format!("DELETE FROM {table} WHERE id = {n}"),
        1 => format!("UPDATE {table} SET n = NULL, d = DATE '1999-01-01' + {n} WHERE id = {n}"),
        2 => format!("UPDATE {table} SET m = {n}, b = -{n} WHERE id BETWEEN {n} AND {}", n + 5),
        3 => format!(
            "INSERT INTO {table} VALUES ({}, 9, 1, DATE '2030-01-01', NULL, 1, 's') ON CONFLICT (id) DO NOTHING",
            6000 + n
        ),
        4 => format!("DELETE FROM {table} WHERE id > {n} AND id < {}", n + 40),
        _ => pick(random, &["BEGIN", "COMMIT", "ROLLBACK"]).into(),
    }
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |v| v.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[tokio::test]
async fn pages_that_are_not_read_are_counted_as_if_they_were() {
    let (cases, seed) = (number("LODE_CASES", 250), number("LODE_SEED", 3));
    let random = &mut Random::of_seed(seed);
    let s = session().await;
    let (mut unread, mut found) = (0, 0);
    for case in 0..cases {
        let table = pick(random, &["t", "u"]);
        if random.below(3) == 0 {
            let change = change(random, table);
            match change.as_str() {
                // BEGIN in a transaction is an error, and so is COMMIT outside of one.
                "BEGIN" | "COMMIT" | "ROLLBACK" => drop(s.execute(&change).await),
                change => run(&s, change).await,
            }
        }
        let query = query(random, table);
        run(&s, "SET lode.offload = 'off'").await;
        let expected = lines(&s, &query).await;
        for level in ["aggregate", "auto"] {
            run(&s, &format!("SET lode.offload = '{level}'")).await;
            let got = rows(&s, &query).await;
            assert_eq!(got, expected, "seed {seed}, case {case}, {level}: {query}");
            let counts = s.last_counts();
            unread += counts.pages_skipped;
            found += u64::from(counts.pages_skipped > 0 && counts.pages_read == 0);
        }
    }
    assert!(unread > 1000 && found > 20, "{unread} pages were not read, none at all in {found} queries");
}
