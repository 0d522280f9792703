//! DELETE of pages that nobody reads, since the page index proves that all of their rows pass: what is left is what a DELETE leaves that
//! reads them. And loads that are sorted, so that pages have rows that lie together.
//!
//! ```text
//!   the same changes of two tables ─┬─ DELETE ... WHERE p ─────────────────────► pages go unread
//!                                   └─ DELETE ... WHERE p AND random() >= 0 ───► every row is looked at
//! ```
//!
//! `LODE_CASES` sets the number of statements, `LODE_SEED` the seed.

mod support;

use std::sync::Arc;

use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions};
use support::{lines, rows, run};

/// The tables, each beside one with the same rows whose pages are read.
const TABLES: [(&str, &str); 5] = [
    ("of_rows", "layout = 'row'"),
    ("of_pages", "changes = 'pages'"),
    ("of_delta", "changes = 'delta'"),
    ("rows_indexed", "layout = 'row'"),
    ("delta_indexed", "changes = 'delta', key_index = 'tree'"),
];

fn database() -> Queries {
    let drive = Drive::in_memory(1 << 29);
    // So many rows of a delta are changed by their ids.
    let options = DatabaseOptions { rows_by_id_max: 100, ..DatabaseOptions::default() };
    let database = Database::open(Arc::new(drive), options).unwrap();
    Queries::new(database, 1 << 30).unwrap()
}

fn session(queries: &Queries) -> Session {
    queries.session(&SessionOptions { target_partitions: 2, ..SessionOptions::default() }).unwrap()
}

async fn fill(s: &Session) {
    run(s, "SET lode.bulk_rows = 100").await;
    for (table, options) in TABLES {
        for twin in ["", "_read"] {
            let name = format!("{table}{twin}");
            let columns = "id INT PRIMARY KEY, n INT, d DATE NOT NULL, s TEXT, k INT UNIQUE";
            run(s, &format!("CREATE TABLE {name} ({columns}) WITH ({options})")).await;
            let values = "i, nullif(i / 100 % 7, 3), DATE '2000-01-01' + i / 50, 'text ' || i, 100000 - i";
            // Each load has pages of its own.
            for from in (1..8000).step_by(500) {
                let rows = format!("generate_series({from}, {}) AS g(i)", from + 499);
                run(s, &format!("INSERT INTO {name} SELECT {values} FROM {rows}")).await;
            }
            if table.ends_with("indexed") {
                run(s, &format!("CREATE INDEX {name}_n ON {name} (n, id)")).await;
            }
        }
    }
}

fn condition(random: &mut Random) -> String {
    let n = random.below(8500);
    match random.below(7) {
        0 => format!("id < {n}"),
        1 => format!("id BETWEEN {n} AND {}", n + 1500),
        2 => format!("d < DATE '2000-01-01' + {}", n / 50),
        3 => format!("d >= DATE '2000-01-01' + {} AND n IS NOT NULL", n / 50),
        4 => format!("id > {n} AND id <> {}", n + 700),
        5 => format!("id < {} OR id > {n}", n / 10),
        _ => format!("id > {n} AND n < 5"),
    }
}

/// A statement for a table and its twin. DELETE is once to be unread.
fn statement(random: &mut Random, name: &str) -> [String; 2] {
    let n = random.below(8000);
    let of = |sql: &dyn Fn(&str) -> String| [sql(name), sql(&format!("{name}_read"))];
    match random.below(8) {
        0..3 => {
            let p = condition(random);
            [
                format!("DELETE FROM {name} WHERE {p}"),
                format!("DELETE FROM {name}_read WHERE ({p}) AND random() >= 0"),
            ]
        }
        3 => of(&|t| format!("UPDATE {t} SET n = 99, s = 'changed' WHERE id = {n}")),
        4 => of(&|t| format!("UPDATE {t} SET n = n + 1 WHERE id BETWEEN {n} AND {}", n + 5)),
        5 => of(&|t| format!("DELETE FROM {t} WHERE id = {n}")),
        _ => {
            let values = format!(
                "i, i / 100 % 7, DATE '2000-01-01' + i / 50, 'again', -i FROM generate_series({n}, {}) AS g(i)",
                n + 900
            );
            of(&|t| format!("INSERT INTO {t} SELECT {values} ON CONFLICT DO NOTHING"))
        }
    }
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |v| v.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[tokio::test]
async fn what_is_left_does_not_depend_on_whether_pages_were_read() {
    let (cases, seed) = (number("LODE_CASES", 200), number("LODE_SEED", 1));
    let random = &mut Random::of_seed(seed);
    let queries = database();
    let s = session(&queries);
    fill(&s).await;
    let (mut unread, mut in_transaction) = (0, false);
    for case in 0..cases {
        if random.below(5) == 0 {
            let end = if in_transaction { *random.pick(&["COMMIT", "ROLLBACK"]).unwrap() } else { "BEGIN" };
            run(&s, end).await;
            in_transaction = !in_transaction;
        }
        let (name, _) = *random.pick(&TABLES).unwrap();
        let [here, there] = statement(random, name);
        let changed = s.execute(&there).await.unwrap_or_else(|e| panic!("{there}: {e}"));
        let changed_here = s.execute(&here).await.unwrap_or_else(|e| panic!("{here}: {e}"));
        let (changed, changed_here) = (format!("{changed:?}"), format!("{changed_here:?}"));
        assert_eq!(changed_here, changed, "seed {seed}, case {case}: {here}");
        if here.starts_with("DELETE") {
            unread += s.last_counts().pages_skipped;
        }
        let all = |t: &str| format!("SELECT id, n, d, s, k FROM {t} ORDER BY id");
        let (left, expected) = (lines(&s, &all(name)).await, lines(&s, &all(&format!("{name}_read"))).await);
        assert!(
            left == expected,
            "seed {seed}, case {case}: {} rows, not {}: {here}",
            left.len(),
            expected.len()
        );
        let by_key =
            format!("SELECT count(*), count(n), min(k), max(id) FROM {name} WHERE k > 95000 OR n = 4");
        let by_key_there = by_key.replace(name, &format!("{name}_read"));
        assert_eq!(
            rows(&s, &by_key).await,
            rows(&s, &by_key_there).await,
            "seed {seed}, case {case}: {here}"
        );
    }
    if in_transaction {
        run(&s, "COMMIT").await;
    }
    assert_eq!(s.database().check().unwrap(), Vec::<String>::new());
    run(&s, "VACUUM").await;
    for (name, _) in TABLES {
        let all = |t: &str| format!("SELECT * FROM {t} ORDER BY id");
        assert!(lines(&s, &all(name)).await == lines(&s, &all(&format!("{name}_read"))).await, "{name}");
    }
    assert_eq!(s.database().check().unwrap(), Vec::<String>::new());
    assert!(unread > 400, "{unread} pages went unread");
}

/// A row that others change between the statement and its commit is not deleted unseen.
#[tokio::test]
async fn a_row_that_others_changed_meanwhile_is_a_conflict() {
    for (options, change) in [
        ("layout = 'row'", "UPDATE t SET n = 5 WHERE id = 700"),
        ("changes = 'delta'", "DELETE FROM t WHERE id = 700"),
        ("changes = 'delta'", "UPDATE t SET n = 5 WHERE id = 700"),
    ] {
        let queries = database();
        let (s, other) = (session(&queries), session(&queries));
        run(&s, &format!("CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH ({options})")).await;
        run(&s, "SET lode.bulk_rows = 100").await;
        for from in (1..8000).step_by(500) {
            let rows = format!("generate_series({from}, {}) AS g(i)", from + 499);
            run(&s, &format!("INSERT INTO t SELECT i, i FROM {rows}")).await;
        }
        run(&s, "BEGIN").await;
        run(&s, "DELETE FROM t WHERE id < 6000").await;
        assert!(s.last_counts().pages_skipped > 0);
        run(&other, change).await;
        let e = s.execute("COMMIT").await.unwrap_err();
        assert_eq!(e.sqlstate(), "40001", "{options}, {change}: {e}");
        // Rows that the statement did not delete are not in the way.
        run(&s, "BEGIN").await;
        run(&s, "DELETE FROM t WHERE id < 3000").await;
        run(&other, "UPDATE t SET n = -1 WHERE id = 7000").await;
        run(&other, "INSERT INTO t VALUES (9000, 1)").await;
        run(&s, "COMMIT").await;
        assert_eq!(rows(&s, "SELECT min(id), min(n), max(id) FROM t").await, ["3000,-1,9000"], "{options}");
        assert_eq!(s.database().check().unwrap(), Vec::<String>::new());
    }
}

/// Rows that others reference are looked at, and the statement fails.
#[tokio::test]
async fn rows_that_are_referenced_stay() {
    let queries = database();
    let s = session(&queries);
    run(&s, "CREATE TABLE p (id INT PRIMARY KEY) WITH (layout = 'row')").await;
    run(&s, "INSERT INTO p SELECT i FROM generate_series(1, 8000) AS g(i)").await;
    run(&s, "CREATE TABLE c (id INT REFERENCES p)").await;
    run(&s, "INSERT INTO c VALUES (50)").await;
    let e = s.execute("DELETE FROM p WHERE id < 6000").await.unwrap_err();
    assert_eq!(e.sqlstate(), "23503", "{e}");
    run(&s, "DELETE FROM p WHERE id > 100").await;
    assert_eq!(rows(&s, "SELECT count(*) FROM p").await, ["100"]);
    run(&s, "CREATE TABLE q (id INT) WITH (layout = 'row')").await;
    run(&s, "INSERT INTO q SELECT i FROM generate_series(1, 8000) AS g(i)").await;
    run(&s, "BEGIN").await;
    run(&s, "DELETE FROM q").await;
    assert_eq!(rows(&s, "SELECT count(*), min(id) FROM q").await, ["0,"]);
    run(&s, "INSERT INTO q VALUES (3)").await;
    run(&s, "ROLLBACK").await;
    assert_eq!(rows(&s, "DELETE FROM q WHERE id < 5000 RETURNING 1").await.len(), 4999);
    run(&s, "TRUNCATE q").await;
    assert_eq!(rows(&s, "SELECT count(*) FROM q").await, ["0"]);
}

/// Loads of a table that is clustered by columns are sorted by them, so that few pages have the rows of a range.
#[tokio::test]
async fn loads_are_sorted_by_what_the_table_is_clustered_by() {
    let queries = database();
    let s = session(&queries);
    let columns = "id INT PRIMARY KEY, d DATE, s TEXT";
    run(&s, &format!("CREATE TABLE t ({columns}) WITH (layout = 'row', cluster_by = 'd, s')")).await;
    run(&s, &format!("CREATE TABLE u ({columns}) WITH (layout = 'row')")).await;
    let values = "SELECT i, nullif(DATE '2000-01-01' + i * 7919 % 1000, DATE '2000-01-08'), 'text ' || i FROM generate_series(1, 20000) AS g(i)";
    for table in ["t", "u"] {
        run(&s, &format!("INSERT INTO {table} {values}")).await;
    }
    let query = |t: &str| {
        format!(
            "SELECT count(*), min(s), max(id) FROM {t} WHERE d BETWEEN DATE '2001-03-01' AND DATE '2001-03-20'"
        )
    };
    let mut read = Vec::new();
    for table in ["t", "u"] {
        assert_eq!(rows(&s, &query(table)).await, ["400,text 10007,19970"], "{table}");
        read.push(s.last_counts().pages_read);
    }
    assert!(read[0] > 0 && read[0] * 20 < read[1], "{read:?} pages");
    // The same of a file, whose values are texts until they are cast.
    let file = tempfile::NamedTempFile::new().unwrap();
    run(&s, &format!("COPY u TO '{}' (FORMAT csv)", file.path().display())).await;
    run(&s, "TRUNCATE t").await;
    run(&s, &format!("COPY t FROM '{}' (FORMAT csv)", file.path().display())).await;
    assert_eq!(rows(&s, &query("t")).await, ["400,text 10007,19970"]);
    assert_eq!(s.last_counts().pages_read, read[0]);
    assert_eq!(rows(&s, "SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM u) AS x").await, ["0"]);
    // What fails is the statement's own error, and nothing is loaded.
    for (sql, code) in [
        (
            "INSERT INTO t SELECT 30000 + i, NULL, 'x' || 1 / (i - 9000) FROM generate_series(1, 9000) AS g(i)".to_owned(),
            "22012",
        ),
        (format!("COPY t FROM '{}' (FORMAT csv)", file.path().display()), "23505"),
    ] {
        let e = s.execute(&sql).await.unwrap_err();
        assert_eq!(e.sqlstate(), code, "{sql}: {e}");
    }
    std::fs::write(file.path(), "30001,2000-01-01,x\n30002,2000-13-01,y\n").unwrap();
    let e = s.execute(&format!("COPY t FROM '{}' (FORMAT csv)", file.path().display())).await.unwrap_err();
    assert!(e.to_string().contains("line 2") && e.to_string().contains("2000-13-01"), "{e}");
    assert_eq!(rows(&s, "SELECT count(*) FROM t").await, ["20000"]);
}

/// Entries of another page index, which another session makes meanwhile, prove nothing about the columns of the one before.
#[tokio::test]
async fn a_page_index_that_others_make_meanwhile_misleads_nobody() {
    let queries = database();
    let (s, other) = (session(&queries), session(&queries));
    run(&s, "CREATE TABLE t (id INT NOT NULL, n INT NOT NULL) WITH (layout = 'row', page_index = 'id')")
        .await;
    run(&s, "INSERT INTO t SELECT i, 8001 - i FROM generate_series(1, 8000) AS g(i)").await;
    run(&s, "BEGIN").await;
    assert_eq!(rows(&s, "SELECT 1").await, ["1"]);
    run(&other, "CREATE INDEX by_n ON t USING page_index (n)").await;
    assert_eq!(rows(&s, "SELECT n FROM t WHERE id = 7000").await, ["1001"]);
    assert_eq!(rows(&s, "SELECT count(*), min(n), max(n) FROM t WHERE id <= 3000").await, ["3000,5001,8000"]);
    let deleted = s.execute("DELETE FROM t WHERE id <= 3000").await.unwrap();
    assert_eq!(format!("{deleted:?}"), "[DELETE 3000]");
    assert_eq!(rows(&s, "SELECT count(*), min(id) FROM t").await, ["5000,3001"]);
}
