//! Random grouping sets, and the same groups one set after the other: what a planner knows of the rows below never changes an answer or its
//! order.
//!
//! ```text
//!   rows, sets ─┬─ GROUP BY GROUPING SETS (s, t, ...) ORDER BY ... ──────────────────────────────► rows
//!               └─ SELECT ... GROUP BY s UNION ALL SELECT ... GROUP BY t ... ORDER BY the same ──► the same rows
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

const COLUMNS: [&str; 3] = ["a", "b", "c"];

async fn session() -> Session {
    let drive = Drive::in_memory(1 << 28);
    let database = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    let s = Queries::new(database, 1 << 30).and_then(|q| q.session(&options)).unwrap();
    run(&s, "CREATE TABLE t (a INT, b INT, c INT)").await;
    run(&s, "CREATE TABLE u (a INT, d INT)").await;
    run(&s, "INSERT INTO t SELECT nullif(i % 5, 4), nullif(i * 7 % 9, 8), i * 31 % 3001 FROM generate_series(1, 30000) AS g(i)")
        .await;
    run(&s, "INSERT INTO u VALUES (0, 0), (1, 1), (2, 0), (3, NULL), (NULL, 1)").await;
    s
}

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    random.pick(of).expect("there is something to pick")
}

/// A relation with the columns a, b and c, of which much or little is known.
fn relation(random: &mut Random) -> String {
    let rows = match random.below(6) {
        0 => "t",
        1 => "(SELECT a, b, c FROM t ORDER BY a, b, c LIMIT 9000) AS r",
        2 => "(SELECT t.a, t.b, t.c FROM t JOIN u ON t.a = u.a WHERE u.d = 0) AS r",
        3 => "(SELECT a, CAST(count(*) OVER () AS INT) AS b, c FROM t) AS r",
        4 => "(SELECT DISTINCT a, b, c FROM t) AS r",
        _ => "(SELECT a, b, CAST(max(c) AS INT) AS c FROM t GROUP BY a, b) AS r",
    };
    let condition =
        pick(random, &["", "", " WHERE a = 2", " WHERE a = b", " WHERE b = 3 AND a = 1", " WHERE c < 700"]);
    format!("{rows}{condition}")
}

/// Sets of columns, by their numbers, and how SQL writes them.
fn sets(random: &mut Random) -> (Vec<Vec<usize>>, String) {
    let mut order = [0, 1, 2];
    for at in 0..3 {
        order.swap(at, at + random.below(3 - at as u64) as usize);
    }
    let named = |columns: &[usize]| {
        let names: Vec<&str> = columns.iter().map(|c| COLUMNS[*c]).collect();
        names.join(", ")
    };
    match random.below(3) {
        0 => ((0..=3).map(|n| order[..n].to_vec()).collect(), format!("ROLLUP ({})", named(&order))),
        1 => {
            let subsets = (0..8u32).map(|bits| (0..3).filter(|c| bits >> c & 1 == 1).collect());
            (subsets.collect(), format!("CUBE ({})", named(&order)))
        }
        _ => {
            let sets: Vec<Vec<usize>> =
                (0..2 + random.below(2)).map(|_| (0..3).filter(|_| random.below(2) == 0).collect()).collect();
            let written: Vec<String> = sets.iter().map(|s| format!("({})", named(s))).collect();
            let written = format!("GROUPING SETS ({})", written.join(", "));
            (sets, written)
        }
    }
}

/// The groups of one set.
fn of_set(set: &[usize], relation: &str) -> String {
    let column = |(n, name): (usize, &&str)| match set.contains(&n) {
        true => (*name).to_owned(),
        false => format!("CAST(NULL AS INT) AS {name}"),
    };
    let list: Vec<String> = COLUMNS.iter().enumerate().map(column).collect();
    let by: Vec<&str> = set.iter().map(|c| COLUMNS[*c]).collect();
    let by = if by.is_empty() { String::new() } else { format!(" GROUP BY {}", by.join(", ")) };
    format!("SELECT {}, count(*) AS n FROM {relation}{by}", list.join(", "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_sets_are_the_groups_of_each_set() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |v| v.parse().unwrap());
    let seed = number("LODE_SEED", 1);
    let mut random = Random::of_seed(seed);
    let s = session().await;
    let mut answers = 0;
    for case in 0..number("LODE_CASES", 40) {
        run(&s, &format!("SET lode.offload = {}", pick(&mut random, &["off", "auto"]))).await;
        let relation = relation(&mut random);
        let (sets, written) = sets(&mut random);
        // Every column is named unless no set does; all four give one order.
        let grouped: Vec<&str> =
            (0..3).filter(|c| sets.iter().any(|s| s.contains(c))).map(|c| COLUMNS[c]).collect();
        let order = pick(
            &mut random,
            &["a, b, c, n", "b DESC, a, c, n", "c, a DESC, b, n", "a DESC, b DESC, c DESC, n"],
        );
        let list: Vec<String> = COLUMNS
            .iter()
            .map(|c| if grouped.contains(c) { (*c).to_owned() } else { format!("CAST(NULL AS INT) AS {c}") })
            .collect();
        let query = format!("SELECT {}, count(*) AS n FROM {relation} GROUP BY {written}", list.join(", "));
        let each: Vec<String> = sets.iter().map(|set| of_set(set, &relation)).collect();
        let expected = format!("SELECT * FROM ({}) AS e", each.join(" UNION ALL "));
        let in_order = |query: &str| format!("{query} ORDER BY {order}");
        let (found, right) = (rows(&s, &query).await, rows(&s, &expected).await);
        assert!(
            found == right,
            "seed {seed}, case {case}: {} rows for {}: {query}",
            found.len(),
            right.len()
        );
        let (found, right) = (lines(&s, &in_order(&query)).await, lines(&s, &in_order(&expected)).await);
        assert!(found == right, "seed {seed}, case {case}: another order: {}", in_order(&query));
        answers += found.len();
    }
    assert!(answers > 10_000, "{answers} rows");
}
