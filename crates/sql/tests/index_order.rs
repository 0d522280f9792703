//! Queries whose order a B+-tree index has. They return the same first rows, least and greatest values as without an
//! index, at every level, within transactions and in snapshots, and read few pages.
//!
//! ```text
//!   t: indexes on (a, b), (b), (d, id), (e), (x), (id), or directed ones     the same changes in both
//!   u: none                                                ─► the same answers, by values of the order's columns
//! ```
//!
//! `LODE_ORDER_QUERIES=5000` runs more queries, `LODE_ORDER_SEED=7` another sequence.

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions};

fn database() -> Database {
    Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap()
}

fn session(db: &Database) -> Session {
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    Queries::new(db.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

async fn run(s: &Session, sql: &str) {
    s.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// The rows of a query, a line each.
async fn rows(s: &Session, sql: &str) -> Vec<String> {
    let batches = s.collect(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap());
            // 0 and -0 are equal, so their order is not defined.
            let values = values.map(|v| if v == "-0.0" { "0.0".into() } else { v });
            lines.push(values.collect::<Vec<_>>().join(","));
        }
    }
    lines
}

async fn plan(s: &Session, sql: &str) -> String {
    rows(s, &format!("EXPLAIN {sql}")).await.join("\n")
}

fn one<'a>(r: &mut Random, of: &[&'a str]) -> &'a str {
    r.pick(of).expect("there is something to choose")
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

const INDEXES: [&str; 6] = [
    "CREATE INDEX by_ab ON t USING btree (a, b)",
    "CREATE INDEX by_b ON t USING btree (b)",
    "CREATE INDEX by_d ON t USING btree (d, id)",
    "CREATE INDEX by_e ON t USING btree (e)",
    "CREATE INDEX by_x ON t USING btree (x)",
    "CREATE INDEX by_id ON t USING btree (id)",
];

/// Indexes with columns in different directions, on an expression, and of a part of the rows.
const DIRECTED: [&str; 6] = [
    "CREATE INDEX by_ab ON t (a DESC, b)",
    "CREATE INDEX by_b ON t (b NULLS FIRST)",
    "CREATE INDEX by_d ON t (d, id DESC)",
    "CREATE INDEX by_e ON t (e DESC NULLS LAST, id)",
    "CREATE INDEX by_expression ON t (upper(b) DESC NULLS LAST, a)",
    "CREATE INDEX of_part ON t (x DESC, id) WHERE a > 3",
];

/// Rows with NULLs, few and many different values, texts that are truncated in a key, floats of all kinds.
fn values(from: u64, to: u64) -> String {
    format!(
        "SELECT value, \
         CASE WHEN value % 11 = 0 THEN NULL ELSE value * 7919 % 13 END, \
         CASE WHEN value % 17 = 0 THEN NULL WHEN value % 5 = 0 THEN repeat('x', 1010) || value % 83 \
              ELSE 'name ' || (value * 31 % 503) END, \
         value * 0.25 - 300, \
         DATE '2026-01-01' + CAST(value * 37 % 900 AS INT), \
         CASE value % 9 WHEN 0 THEN '-0' WHEN 1 THEN '0' WHEN 2 THEN 'NaN' WHEN 3 THEN 'inf' \
              ELSE CAST(value * 17 % 101 - 50 AS VARCHAR) END::DOUBLE \
         FROM generate_series({from}, {to}) AS value"
    )
}

async fn both(s: &Session, sql: &str) {
    assert!(sql.contains(" t "), "{sql}");
    run(s, sql).await;
    run(s, &sql.replacen(" t ", " u ", 1)).await;
}

/// A query on `t` whose answer does not depend on the choice among equal rows.
fn query(r: &mut Random, directed: bool) -> String {
    let filter = match r.below(if directed { 18 } else { 12 }) {
        12 => format!("WHERE upper(b) = 'NAME {}'", r.below(503)),
        13 => format!("WHERE upper(b) > 'NAME {}' AND a < 9", r.below(503)),
        14 => "WHERE a > 3".into(),
        15 => format!("WHERE a > 3 AND x > {}", r.below(50)),
        16 => format!("WHERE x <= {} AND a > 3", r.below(50)),
        17 => format!("WHERE a BETWEEN {} AND 9 AND b IS NOT NULL", r.below(9)),
        0 => format!("WHERE a = {}", r.below(15)),
        1 => format!("WHERE a = {} AND b > 'name {}'", r.below(13), r.below(500)),
        2 => format!("WHERE id % {} = 1", 2 + r.below(300)),
        3 => format!("WHERE d > {} AND d <= {}", r.below(500), 100 + r.below(600)),
        4 => format!("WHERE a IN ({}, {})", r.below(13), r.below(13)),
        5 => format!("WHERE e >= DATE '2026-01-01' + {} AND length(b) < 20", r.below(900)),
        6 => "WHERE a IS NULL".into(),
        7 => format!("WHERE x = {}", one(r, &["0", "-0.0", "17"])),
        8 => format!("WHERE b LIKE '%{}%' OR a = 3", r.below(60)),
        _ => String::new(),
    };
    if r.below(4) == 0 {
        let of = one(
            r,
            &["min(a)", "max(a)", "min(b), max(b)", "max(d)", "max(e), min(e)", "min(x)", "max(a), min(id)"],
        );
        return format!("SELECT {of} FROM t {filter}");
    }
    let order =
        one(r, &["a, b", "a", "b", "d, id", "d", "e", "x", "id", "a, b, id", "b, a", "a + 1", "e, d"]);
    let direction = one(r, &["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let mixed = r.below(8) == 0;
    let by_column = directed && r.below(2) == 0;
    let by: Vec<String> = order
        .split(", ")
        .enumerate()
        .map(|(i, c)| match (by_column, mixed && i == 1) {
            (true, _) => {
                c.to_string() + one(r, &["", "", " DESC", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
            }
            (_, true) => c.to_string(),
            _ => format!("{c}{direction}"),
        })
        .collect();
    let limit = [1, 2, 7, 40, 400][r.below(5) as usize];
    let offset = if r.below(5) == 0 { format!(" OFFSET {}", r.below(30)) } else { String::new() };
    match r.below(5) {
        // A subquery with a computed column, and a filter that the drive does not evaluate.
        0 => format!(
            "SELECT {order} FROM (SELECT *, a * 2 AS y FROM t {filter}) AS q WHERE y IS NULL OR y % 4 <> 1 ORDER BY {} LIMIT {limit}{offset}",
            by.join(", ")
        ),
        _ => format!("SELECT {order} FROM t {filter} ORDER BY {} LIMIT {limit}{offset}", by.join(", ")),
    }
}

struct Asked {
    queries: u64,
    in_order: u64,
}

/// Runs the same queries on `t` and `u` at every level. For some queries, it also checks the plan.
async fn agree(s: &Session, r: &mut Random, queries: u64, directed: bool, when: &str) -> Asked {
    let mut asked = Asked { queries, in_order: 0 };
    for _ in 0..queries {
        let sql = query(r, directed);
        let without = sql.replace("FROM t ", "FROM u ");
        s.set_offload(Offload::Off);
        let expected = rows(s, &without).await;
        for level in Offload::ALL {
            s.set_offload(level);
            assert_eq!(rows(s, &sql).await, expected, "{when}, {level}: {sql}\n{}", plan(s, &sql).await);
        }
        asked.in_order += u64::from(plan(s, &sql).await.contains("in order: "));
        assert!(!plan(s, &without).await.contains("in order"), "{without}");
    }
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_are_the_same_with_an_index_and_without() {
    first_rows_are_the_same(&INDEXES, "layout = 'row'").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_are_the_same_with_directed_and_partial_indexes_and_expressions() {
    first_rows_are_the_same(&DIRECTED, "layout = 'row'").await;
    first_rows_are_the_same(&DIRECTED, "changes = 'delta'").await;
}

async fn first_rows_are_the_same(indexes: &[&str], options: &str) {
    let directed = indexes == DIRECTED;
    let (queries, seed) = (number("LODE_ORDER_QUERIES", 120), number("LODE_ORDER_SEED", 1));
    let mut r = Random::of_seed(seed);
    let db = database();
    let (s, other) = (session(&db), session(&db));
    let columns = "id BIGINT NOT NULL, a INT, b TEXT, d DECIMAL(12, 2), e DATE, x DOUBLE";
    both(&s, &format!("CREATE TABLE t ({columns}) WITH ({options})")).await;
    both(&s, &format!("INSERT INTO t {}", values(1, 1800))).await;
    for index in &indexes[..4] {
        run(&s, index).await;
    }
    // A load writes other pages, and writes them before the commit. Then indexes are created over all rows.
    run(&s, "SET lode.bulk_rows = 1000").await;
    both(&s, &format!("INSERT INTO t {}", values(1801, 3000))).await;
    for index in &indexes[4..] {
        run(&s, index).await;
    }
    let changes = [
        "SELECT count(*) FROM t ",
        "UPDATE t SET a = a - 20 WHERE id % 97 = 5",
        "DELETE FROM t WHERE d < -250 OR id % 13 = 4",
        "UPDATE t SET b = 'a' || id % 7, x = -x WHERE id % 40 = 7",
        "INSERT INTO t SELECT id + 5000, 12 - a, b, d * 3, e, x FROM u WHERE id % 30 = 2",
        "UPDATE t SET a = NULL, e = DATE '2020-02-02' WHERE id % 50 = 11",
        "INSERT INTO t SELECT id + 10000, a, b, d, e, x FROM u WHERE id < 5000",
    ];
    let each = queries / (2 * changes.len() as u64) + 1;
    let mut in_order = Asked { queries: 0, in_order: 0 };
    let add = |sum: &mut Asked, more: Asked| {
        sum.queries += more.queries;
        sum.in_order += more.in_order;
    };
    for (n, change) in changes.iter().enumerate() {
        // `t` is changed first, so that the rows read from `u` are the same for both.
        run(&s, "BEGIN").await;
        both(&s, change).await;
        if n == 3 {
            // The transaction does not see later commits of another session, and they do not hide any entry.
            let both_of = |sql: &str| [sql.to_string(), sql.replacen(" t ", " u ", 1)];
            for sql in both_of("DELETE FROM t WHERE id BETWEEN 600 AND 606 AND id % 40 <> 7 ") {
                run(&other, &sql).await;
            }
        }
        add(
            &mut in_order,
            agree(&s, &mut r, each, directed, &format!("seed {seed}, within: {change}")).await,
        );
        // The other session changed the same pages of both tables, so the transaction cannot change them.
        run(&s, if n == 3 { "ROLLBACK" } else { "COMMIT" }).await;
        add(&mut in_order, agree(&s, &mut r, each, directed, &format!("seed {seed}, after: {change}")).await);
    }
    let Asked { queries, in_order } = in_order;
    println!("{queries} queries, {in_order} of them in the order of an index");
    assert!(
        in_order * if directed { 9 } else { 5 } > queries,
        "{in_order} of {queries} were in the order of an index"
    );
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_pages_are_read_for_the_first_rows() {
    let db = database();
    let s = session(&db);
    run(&s, "CREATE TABLE t (k INT NOT NULL, g INT, pad TEXT) WITH (layout = 'row')").await;
    run(
        &s,
        "INSERT INTO t SELECT value, CASE WHEN value % 10 = 0 THEN NULL ELSE value * 7919 % 10007 END, repeat('y', 150) \
         FROM generate_series(1, 20000) AS value",
    )
    .await;
    run(&s, "CREATE INDEX by_k ON t USING btree (k)").await;
    run(&s, "CREATE INDEX by_gk ON t USING btree (g, k)").await;
    let pages = {
        s.set_offload(Offload::Off);
        rows(&s, "SELECT count(pad) FROM t").await;
        s.last_counts().pages_read
    };
    assert!(pages > 300, "{pages}");
    // The access path, the first row, and the most pages read.
    let cases = [
        ("SELECT k FROM t ORDER BY k LIMIT 10", "first 10 of index=by_k by (k)", "1", 2),
        ("SELECT k FROM t ORDER BY k DESC LIMIT 10", "last 10 of index=by_k by (k)", "20000", 2),
        ("SELECT g, k FROM t ORDER BY g, k LIMIT 3", "first 3 of index=by_gk by (g, k)", "0,10007", 5),
        ("SELECT g FROM t ORDER BY g LIMIT 3", "first 3 of index=by_gk by (g)", "0", 5),
        ("SELECT g FROM t ORDER BY g DESC LIMIT 3", "last 3 of index=by_gk by (g)", "", 5),
        ("SELECT g, k FROM t WHERE g = 77 ORDER BY k LIMIT 1", "first 1 of index=by_gk by (k)", "77,9983", 2),
        ("SELECT k FROM t WHERE k > 777 ORDER BY k LIMIT 4", "first 4 of index=by_k by (k)", "778", 2),
        ("SELECT k FROM t WHERE k > 777 AND k % 5 = 1 ORDER BY k LIMIT 4", "first 4 of index=by_k", "781", 3),
        ("SELECT min(k) FROM t", "first 1 of index=by_k by (k)", "1", 2),
        ("SELECT max(g) FROM t", "last 1 of index=by_gk by (g)", "10006", 2),
        (
            "SELECT min(g), max(g) FROM t",
            "first 1 of index=by_gk by (g), last 1 of index=by_gk by (g)",
            "0,10006",
            4,
        ),
        ("SELECT max(k) FROM t WHERE g = 77", "last 1 of index=by_gk by (k)", "9983", 2),
    ];
    for (sql, how, first, most) in cases {
        for level in
            [Offload::Off, Offload::Index, Offload::Pages, Offload::Rows, Offload::Aggregate, Offload::Auto]
        {
            s.set_offload(level);
            // Without a filter in the scan, the index cannot be restricted.
            if level == Offload::Off && sql.contains("g = 77") {
                continue;
            }
            let text = plan(&s, sql).await;
            assert!(text.contains(&format!("in order: {how}")), "{level}: {sql}\n{text}");
            assert_eq!(rows(&s, sql).await[0], first, "{level}: {sql}");
            let read = s.last_counts().pages_read;
            // Without the filter, the end of the index range is not known either.
            let most = if level == Offload::Off && sql.contains("WHERE") { pages } else { most };
            assert!(read <= most, "{level}: {read} of {pages} pages were read: {sql}");
        }
    }
    s.set_offload(Offload::Auto);
    // Orders that no index has, and orders without a limit.
    for sql in [
        "SELECT k FROM t ORDER BY k",
        "SELECT g FROM t ORDER BY g NULLS FIRST LIMIT 3",
        "SELECT g FROM t ORDER BY g DESC NULLS LAST LIMIT 3",
        "SELECT g, k FROM t ORDER BY g, k DESC LIMIT 3",
        "SELECT k FROM t ORDER BY -k LIMIT 3",
        "SELECT k FROM t ORDER BY k + random() LIMIT 3",
        "SELECT sum(k) FROM t",
        "SELECT min(k), count(*) FROM t",
        "SELECT g, min(k) FROM t GROUP BY g",
        "SELECT min(pad) FROM t",
    ] {
        let text = plan(&s, sql).await;
        assert!(!text.contains("in order"), "{sql}\n{text}");
    }
    // Matching rows are rare, so the index walk gives up and each page is read once.
    let sql = "SELECT k FROM t WHERE k % 19999 = 19998 ORDER BY k LIMIT 2";
    assert!(plan(&s, sql).await.contains("in order"));
    for level in Offload::ALL {
        s.set_offload(level);
        assert_eq!(rows(&s, sql).await, ["19998"], "{level}");
        assert!(s.last_counts().pages_read <= pages, "{level}: {:?} of {pages}", s.last_counts());
    }
    // A cursor stays open while the index is dropped.
    run(&s, "DROP INDEX by_k").await;
    assert!(!plan(&s, "SELECT k FROM t ORDER BY k LIMIT 10").await.contains("in order"));
    assert_eq!(rows(&s, "SELECT k FROM t ORDER BY k LIMIT 1").await, ["1"]);
}

/// 0 and -0 are equal but have different keys.
#[tokio::test]
async fn zeros_of_both_signs_are_found_by_an_index() {
    let db = database();
    let s = session(&db);
    run(&s, "CREATE TABLE t (id INT, x DOUBLE, y REAL, pad TEXT) WITH (layout = 'row')").await;
    run(
        &s,
        "INSERT INTO t SELECT value, CASE value WHEN 700 THEN '-0' WHEN 2900 THEN '0' ELSE CAST(value - 2000 AS VARCHAR) END::DOUBLE, \
         CASE value WHEN 800 THEN '-0' WHEN 2800 THEN '0' ELSE CAST(value - 2000 AS VARCHAR) END::REAL, repeat('y', 150) \
         FROM generate_series(1, 4000) AS value WHERE value <> 2000",
    )
    .await;
    run(&s, "CREATE INDEX by_x ON t USING btree (x)").await;
    run(&s, "CREATE INDEX by_y ON t USING btree (y)").await;
    assert!(plan(&s, "SELECT id FROM t WHERE x = 0").await.contains("index=by_x"));
    for (c, zeros) in [("x", ["700", "2900"]), ("y", ["800", "2800"])] {
        for zero in ["0", "-0.0"] {
            for (filter, expected) in [
                (format!("{c} = {zero}"), zeros.to_vec()),
                (format!("{c} >= {zero} AND {c} < 1"), zeros.to_vec()),
                (format!("{c} > {zero} AND {c} <= 1"), vec!["2001"]),
                (format!("{c} <= {zero} AND {c} > -1"), zeros.to_vec()),
                (format!("{c} BETWEEN {zero} AND 0"), zeros.to_vec()),
            ] {
                for level in Offload::ALL {
                    s.set_offload(level);
                    let sql = format!("SELECT id FROM t WHERE {filter} ORDER BY id");
                    assert_eq!(rows(&s, &sql).await, expected, "{level}: {sql}\n{}", plan(&s, &sql).await);
                    let sql = format!("SELECT {c} FROM t WHERE {filter} ORDER BY {c} LIMIT 5");
                    assert_eq!(rows(&s, &sql).await.len(), expected.len(), "{level}: {sql}");
                }
            }
        }
    }
}
