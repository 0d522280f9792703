//! Random conditions on columns of an index, and on the same table without one: what an entry of an index says of a row never changes an
//! answer.
//!
//! `LODE_CASES` sets the number of queries, `LODE_SEED` the seed.

mod support;

use std::sync::Arc;

use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions};
use support::{lines, rows, run};

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    random.pick(of).expect("there is something to pick")
}

fn session() -> Session {
    let drive = Drive::in_memory(1 << 28);
    let database = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
    Queries::new(database, 1 << 30).and_then(|q| q.session(&SessionOptions::default())).unwrap()
}

/// The tables: `i` with indexes, `n` without. Text of some rows is longer than a key of an index.
async fn fill(s: &Session, random: &mut Random) {
    let options = pick(random, &["layout = 'row'", "layout = 'row', page_bytes = 4096", "layout = 'column'"]);
    for table in ["i", "n"] {
        run(
            s,
            &format!(
                "CREATE TABLE {table} (id INT, a INT, b TEXT, c NUMERIC(9,2), d DOUBLE) WITH ({options})"
            ),
        )
        .await;
    }
    let orders = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
    let mut order = || pick(random, &orders);
    let columns = format!("a{}, b{}, c{}, d{}", order(), order(), order(), order());
    run(s, &format!("CREATE INDEX ON i ({columns})")).await;
    run(
        s,
        "INSERT INTO n SELECT i, nullif(i % 40, 7),
         CASE WHEN i % 11 = 0 THEN NULL WHEN i % 13 = 0 THEN repeat('x', 1500) || i ELSE chr(97 + i % 26) || i % 50 || 'BRASS' END,
         nullif(i % 9, 3) * 1.25 - 4, nullif(i % 5, 4) * 0.5 - 1 FROM generate_series(1, 12000) AS g(i)",
    )
    .await;
    run(s, "INSERT INTO i SELECT * FROM n").await;
}

/// A condition on columns of the index, of which an entry can tell more or less.
fn condition(random: &mut Random, depth: u32) -> String {
    if depth > 0 && random.below(3) == 0 {
        let (a, b) = (condition(random, depth - 1), condition(random, depth - 1));
        return match random.below(3) {
            0 => format!("({a} OR {b})"),
            1 => format!("NOT ({a})"),
            _ => format!("({a} AND {b})"),
        };
    }
    let of = [
        "b LIKE '%BRASS'",
        "b LIKE 'x%'",
        "b LIKE 'q%'",
        "b IS NULL",
        "b IS NOT NULL",
        "b > 'm'",
        "b = 'c2BRASS'",
        "c < 0",
        "c = 1",
        "c IS NULL",
        "c IN (-4, 6)",
        "d = 0",
        "d < 0.5",
        "d IS NULL",
        "a + 1 = 9",
        "a <> 5",
        "c = d",
        "a IS NULL",
        "id < 9000",
    ];
    pick(random, &of).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_depends_on_what_an_index_says() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |v| v.parse().unwrap());
    let seed = number("LODE_SEED", 1);
    let mut random = Random::of_seed(seed);
    let mut found_rows = 0;
    let mut by_index = 0;
    for round in 0..3 {
        let s = session();
        fill(&s, &mut random).await;
        for case in 0..number("LODE_CASES", 80) {
            if case == 40 {
                let change = "SET a = a + 1, b = CASE WHEN a = 9 THEN 'n7BRASS' ELSE b END WHERE id % 17 = 3";
                for table in ["i", "n"] {
                    run(&s, &format!("UPDATE {table} {change}")).await;
                    run(&s, &format!("DELETE FROM {table} WHERE id % 19 = 4")).await;
                }
            }
            run(
                &s,
                &format!("SET lode.offload = {}", pick(&mut random, &["index", "pages", "rows", "auto"])),
            )
            .await;
            let first =
                pick(&mut random, &["a = 4", "a = 9", "a IN (2, 30)", "a > 37", "a = 11 AND b < 'f'"]);
            let more = condition(&mut random, 2);
            let of = |table: &str| format!("SELECT id, a, b, c, d FROM {table} WHERE {first} AND {more}");
            let (with, without) = (rows(&s, &of("i")).await, rows(&s, &of("n")).await);
            assert!(
                with == without,
                "seed {seed}, round {round}, case {case}: {} rows for {}: {}",
                with.len(),
                without.len(),
                of("i")
            );
            found_rows += with.len();
            let plan = lines(&s, &format!("EXPLAIN {}", of("i"))).await.join("\n");
            by_index += usize::from(plan.contains("index="));
        }
    }
    assert!(found_rows > 10_000 && by_index > 30, "{found_rows} rows, {by_index} plans with an index");
}
