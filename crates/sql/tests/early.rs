//! Early filtering: which table YourSQL's planner lets the drive filter first, for which reasons, and that no answer depends on it.
//!
//! ```text
//!   query ─┬─ planner off, level off ─────────────► answer
//!          └─ planner yoursql, or a table by name ─► the same answer; EXPLAIN says what was decided
//! ```

mod support;

use std::sync::Arc;

use lode_base::Profile;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_sql::{Offload, Queries, Session, SessionOptions};
use support::{rows, run};

/// A session at the level `off` of a database whose drive has pattern matchers.
fn session() -> Session {
    let profile = Profile::find("yoursql-pm1725").unwrap();
    let medium = Medium::memory(profile.geometry).with_model(Arc::new(Model::new(profile)));
    let drive = Drive::format(medium, DriveOptions::default()).unwrap();
    let database = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { offload: Offload::Off, ..SessionOptions::default() };
    Queries::new(database, 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

/// Parts, of which one in 500 is of brass, one in 60 is red, and one in three begins with x; offers of them; and a few countries.
async fn fill(s: &Session) {
    let options = "WITH (layout = 'row', page_bytes = 4096, encoding = 'matchable')";
    for sql in [
        format!("CREATE TABLE part (id INTEGER PRIMARY KEY, kind TEXT, size INTEGER, made DATE, filler TEXT) {options}"),
        "INSERT INTO part SELECT v, CASE WHEN v % 500 = 7 THEN 'polished BRASS' WHEN v % 60 = 8 THEN 'red STEEL' \
         ELSE 'x' || v % 3 END, v % 50, DATE '1992-01-01' + CAST(v * 7919 % 2500 AS INT), repeat('f', 60) \
         FROM generate_series(1, 20000) AS g(v)"
            .into(),
        format!("CREATE TABLE offer (id INTEGER PRIMARY KEY, part INTEGER, country INTEGER, price INTEGER, filler TEXT) {options}"),
        "INSERT INTO offer SELECT v, v * 31 % 20000 + 1, v % 5, v % 97, repeat('o', 60) FROM generate_series(1, 30000) AS g(v)"
            .into(),
        format!("CREATE TABLE country (id INTEGER PRIMARY KEY, name TEXT) {options}"),
        "INSERT INTO country VALUES (0, 'EUROPE'), (1, 'ASIA'), (2, 'AFRICA'), (3, 'AMERICA'), (4, 'OCEANIA')".into(),
        "CREATE INDEX ON offer (part)".into(),
    ] {
        run(s, &sql).await;
    }
}

/// Of a query: what it is told of each table that it filters.
const QUERIES: [(&str, &str); 15] = [
    ("SELECT count(*), sum(size) FROM part WHERE kind LIKE '%BRASS'", ", early filter: score 3, 0."),
    ("SELECT count(*), sum(size) FROM part WHERE kind LIKE '%STEEL'", "no early filter: score 3, 0.5"),
    ("SELECT count(*), sum(size) FROM part WHERE kind LIKE '%BRASS' AND size = 7", ", early filter: score 7"),
    (
        "SELECT count(*), sum(price) FROM offer, part, country WHERE part = part.id AND country = country.id \
          AND kind LIKE '%BRASS'",
        "threshold 0.7",
    ),
    (
        "SELECT count(*), sum(price) FROM offer, part WHERE part = part.id AND kind LIKE '%BRASS'",
        "threshold 0.3",
    ),
    (
        "SELECT count(*), sum(price) FROM offer, part WHERE part = part.id AND kind LIKE '%BRASS' AND price = 5",
        "offer has more",
    ),
    (
        "SELECT count(*), sum(price) FROM offer, country WHERE country = country.id AND name = 'EUROPE'",
        "at most 64 pages",
    ),
    ("SELECT count(*) FROM part WHERE size > 40", "score 1 is below 2"),
    ("SELECT count(*) FROM part WHERE kind NOT LIKE '%BRASS'", "score 0 is below 2"),
    ("SELECT count(*) FROM part WHERE kind = 'x'", "score 0 is below 2"),
    (
        "SELECT count(*), sum(n) FROM (SELECT kind, count(*) AS n FROM part WHERE kind LIKE '%STEEL' GROUP BY kind) d",
        "threshold 1",
    ),
    (
        "SELECT count(*) FROM offer o WHERE price > (SELECT min(size) FROM part p WHERE p.id = o.part AND p.kind LIKE '%BRASS')",
        "threshold 0.7",
    ),
    (
        "SELECT count(*) FROM offer WHERE part IN (SELECT id FROM part WHERE kind LIKE '%BRASS')",
        "no early filter: score 3",
    ),
    ("SELECT count(*) FROM part WHERE made >= '1995-09-01' AND made < '1995-10-01'", "score 2"),
    (
        "SELECT count(*) FROM part a, part b WHERE a.id = b.id AND a.kind LIKE '%BRASS' AND b.kind LIKE '%BRASS'",
        "part has more",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yoursql_filters_early_for_its_reasons_and_answers_the_same() {
    let s = session();
    fill(&s).await;
    let mut early = 0;
    for (sql, expected_text) in QUERIES {
        run(&s, "SET lode.planner = off").await;
        let expected = rows(&s, sql).await;
        run(&s, "SET lode.planner = yoursql").await;
        for join in ["hash", "nested"] {
            run(&s, &format!("SET lode.join = {join}")).await;
            let plan = rows(&s, &format!("EXPLAIN {sql}")).await.join("\n");
            assert!(plan.contains(expected_text), "{sql}: {expected_text}\n{plan}");
            assert_eq!(rows(&s, sql).await, expected, "{join} {sql}");
            let is_early = plan.contains(", early filter");
            let counts = s.last_counts();
            // Keys of a join may exclude the pages before the matcher does.
            assert_eq!(counts.pages_unmatched + counts.pages_skipped > 0, is_early, "{sql}: {counts:?}");
            assert_eq!(plan.contains("offload=hints"), is_early, "{plan}");
            early += u32::from(is_early);
            run(&s, "SET lode.early_filter = none").await;
            let plan = rows(&s, &format!("EXPLAIN {sql}")).await.join("\n");
            assert!(!plan.contains("early filter") && !plan.contains("offload=hints"), "{plan}");
            run(&s, "RESET lode.early_filter").await;
        }
    }
    assert!(early > 8, "{early} queries were filtered early");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_can_be_named_that_is_filtered_early_and_joined_first() {
    let s = session();
    fill(&s).await;
    run(&s, "SET lode.join = nested").await;
    let sql = "SELECT count(*), sum(price) FROM offer, part WHERE part = part.id AND kind LIKE '%BRASS' AND price >= 0";
    let expected = rows(&s, sql).await;
    for planner in ["off", "cost", "yoursql"] {
        run(&s, &format!("SET lode.planner = {planner}")).await;
        for table in ["part", "offer"] {
            run(&s, &format!("SET lode.early_filter = {table}")).await;
            assert_eq!(rows(&s, sql).await, expected, "{planner} {table}");
            if planner == "off" {
                // The order is FROM's: the table may be one that is looked up.
                continue;
            }
            let plan = rows(&s, &format!("EXPLAIN {sql}")).await.join("\n");
            let scan = format!("table={table}, offload=hints");
            assert!(plan.contains(&scan) && plan.matches("early filter: asked for").count() == 1, "{plan}");
        }
    }
    // At a deeper level the drive filters exactly. It stays so.
    run(&s, "SET lode.planner = cost; SET lode.early_filter = part").await;
    s.set_offload(Offload::Rows);
    assert_eq!(rows(&s, sql).await, expected);
    assert!(!rows(&s, &format!("EXPLAIN {sql}")).await.join("\n").contains("offload=hints"));
}
