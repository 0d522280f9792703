//! Joins in random shapes: the order that the planner chooses, and the key sets that build sides send to scans, change no
//! answer.
//!
//! ```text
//!   seed ─► FROM of 2 to 6 tables, equalities, filters, subqueries ─┬─ tables as FROM names them, filtered by the host
//!                                                                   └─ ordered by cost, filtered at each level
//! ```
//!
//! `LODE_JOIN_QUERIES=5000` runs more queries, `LODE_JOIN_SEED=7` another sequence.

mod support;

use std::fmt::Write as _;
use std::sync::Arc;

use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions};
use support::{rows, run};

fn database() -> Database {
    Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap()
}

async fn session(db: &Database, threads: usize, offload: Offload, planner: &str) -> Session {
    let options = SessionOptions { target_partitions: threads, offload, ..SessionOptions::default() };
    let session = Queries::new(db.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap();
    run(&session, &format!("SET lode.planner = '{planner}'")).await;
    session
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// The rows of each table.
const ROWS: [u64; 6] = [3, 40, 500, 3000, 12_000, 30_000];

/// Columns of tables, and of which kind their values are. Columns of one kind can be equal.
const COLUMNS: [(&str, &str); 7] = [
    ("id", "int"),
    ("i", "int"),
    ("l", "int"),
    ("s", "text"),
    ("d", "decimal"),
    ("t", "date"),
    ("skew", "int"),
];

/// Tables of all sizes. Their columns have NULLs, values that no other table has, and values that are frequent.
async fn fill(s: &Session) {
    for (table, rows) in ROWS.iter().enumerate() {
        let part = rows / 3 + 1;
        // Row pages are many, so that an index names few of them.
        let layout = if table % 2 == 1 { "row" } else { "auto" };
        run(
            s,
            &format!(
                "CREATE TABLE t{table} (id BIGINT PRIMARY KEY, i INTEGER, l BIGINT, s VARCHAR, d DECIMAL(12,2), \
                 t DATE, skew INTEGER) WITH (layout = '{layout}')"
            ),
        )
        .await;
        run(
            s,
            &format!(
                "INSERT INTO t{table} SELECT v, \
                 CASE WHEN v % 19 = 0 THEN NULL ELSE CAST(v * 7919 % {part} AS INT) END, \
                 CAST(v AS BIGINT) * 104729 % {part} * 3, \
                 CASE WHEN v % 23 = 0 THEN NULL ELSE 'key ' || (v * 31 % {part}) END, \
                 CAST(v * 17 % {part} AS DECIMAL(12,2)) / 4, \
                 DATE '2026-01-01' + CAST(v * 13 % {part} AS INT), \
                 CASE WHEN v % 3 = 0 THEN CAST(v % {part} AS INT) ELSE 1 END \
                 FROM generate_series(1, {rows}) AS g(v)"
            ),
        )
        .await;
    }
    // Rows on delta pages, and rows that are hidden.
    for table in 2..ROWS.len() {
        run(s, &format!("UPDATE t{table} SET i = i + 1 WHERE id % 7 = 3")).await;
        run(s, &format!("DELETE FROM t{table} WHERE id % 29 = 5")).await;
        for columns in ["i", "s, l", "d DESC", "t, i"] {
            run(s, &format!("CREATE INDEX ON t{table} ({columns})")).await;
        }
    }
}

struct Query {
    r: Random,
    from: Vec<(usize, String)>,
    conditions: Vec<String>,
}

impl Query {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        self.r.pick(of).expect("there is something to choose")
    }

    /// A column of a kind that several tables have, and its kind. Large tables have no skew: their product is too large.
    fn column(&mut self, table: usize) -> (&'static str, &'static str) {
        let columns = if table > 1 { &COLUMNS[..6] } else { &COLUMNS[..] };
        *self.r.pick(columns).expect("there are columns")
    }

    fn column_of(&mut self, table: usize, kind: &str) -> &'static str {
        loop {
            let (column, k) = self.column(table);
            if k == kind {
                return column;
            }
        }
    }

    fn table(&mut self) -> usize {
        self.r.below(ROWS.len() as u64) as usize
    }

    fn filter(&mut self, table: usize, alias: &str) -> String {
        let part = ROWS[table] / 3 + 1;
        let n = self.r.below(part + 2);
        match self.r.below(6) {
            0 => format!("{alias}.i < {n}"),
            1 => format!("{alias}.s = 'key {n}'"),
            2 => format!("{alias}.d >= {}.25", n / 4),
            3 => format!("{alias}.t <= DATE '2026-01-01' + {n}"),
            4 => format!("{alias}.id % {} = 1", 2 + self.r.below(40)),
            _ => format!("{alias}.l BETWEEN {n} AND {}", n * 3 + 30),
        }
    }

    /// `a.x = b.y` for an alias that is in FROM.
    fn equality(&mut self, other: &(usize, String), earlier: &(usize, String)) -> String {
        let (column, kind) = self.column(other.0);
        let with = self.column_of(earlier.0, kind);
        let (a, b) = (format!("{}.{column}", other.1), format!("{}.{with}", earlier.1));
        match self.r.below(8) {
            0 if kind == "int" => format!("{a} + 1 = {b}"),
            1 => format!("{b} = {a}"),
            _ => format!("{a} = {b}"),
        }
    }

    fn earlier(&mut self) -> (usize, String) {
        self.r.pick(&self.from).expect("FROM has a table").clone()
    }

    fn subquery(&mut self) -> String {
        let outer = self.earlier();
        let table = self.table();
        let inner = (table, "q".to_owned());
        let equal = self.equality(&inner, &outer);
        let filter = self.filter(table, "q");
        let not = self.one(&["", "NOT "]);
        match self.r.below(4) {
            0 | 1 => format!("{not}EXISTS (SELECT 1 FROM t{table} q WHERE {equal} AND {filter})"),
            2 => {
                let (column, kind) = self.column(table);
                let with = self.column_of(outer.0, kind);
                format!("{}.{with} {not}IN (SELECT q.{column} FROM t{table} q WHERE {filter})", outer.1)
            }
            _ => format!("{}.id > (SELECT min(q.id) FROM t{table} q WHERE {filter})", outer.1),
        }
    }

    fn text(seed: u64) -> String {
        let mut q = Self { r: Random::of_seed(seed), from: Vec::new(), conditions: Vec::new() };
        let tables = 2 + q.r.below(5);
        let mut from = String::new();
        for i in 0..tables {
            let table = q.table();
            let new = (table, format!("a{i}"));
            if i == 0 {
                write!(from, "t{table} a0").unwrap();
                q.from.push(new);
                continue;
            }
            let earlier = q.earlier();
            let equal = q.equality(&new, &earlier);
            match q.r.below(10) {
                0 => write!(from, " LEFT JOIN t{table} a{i} ON {equal}").unwrap(),
                1 => {
                    let (column, kind) = q.column(table);
                    let with = q.column_of(earlier.0, kind);
                    let grouped =
                        format!("SELECT {column} AS k, count(*) AS n FROM t{table} GROUP BY {column}");
                    write!(from, " JOIN ({grouped}) g{i} ON g{i}.k = {}.{with}", earlier.1).unwrap();
                    continue;
                }
                2 => {
                    let both = format!("SELECT * FROM t{table} UNION ALL SELECT * FROM t0");
                    write!(from, " JOIN ({both}) a{i} ON {equal}").unwrap();
                }
                3 => {
                    let less = format!("a{i}.id < {}.id + 50", earlier.1);
                    write!(from, " JOIN t{table} a{i} ON {equal} AND {less}").unwrap();
                }
                4 => {
                    let also = q.equality(&new, &earlier);
                    write!(from, " JOIN t{table} a{i} ON {equal} AND {also}").unwrap();
                }
                5 => write!(from, " FULL JOIN t{table} a{i} ON {equal}").unwrap(),
                _ => {
                    write!(from, " CROSS JOIN t{table} a{i}").unwrap();
                    q.conditions.push(equal);
                }
            }
            q.from.push(new);
        }
        for _ in 0..q.r.below(3) {
            let (table, alias) = q.earlier();
            let filter = q.filter(table, &alias);
            q.conditions.push(filter);
        }
        for _ in 0..q.r.below(2) {
            let subquery = q.subquery();
            q.conditions.push(subquery);
        }
        if q.conditions.is_empty() {
            q.conditions.push("a0.id > 2".into());
        }
        let sums: Vec<String> = q.from.iter().map(|(_, a)| format!("sum({a}.id), count({a}.s)")).collect();
        let by = q.earlier();
        let (column, _) = q.column(by.0);
        format!(
            "SELECT {}.{column}, count(*), {} FROM {from} WHERE {} GROUP BY 1",
            by.1,
            sums.join(", "),
            q.conditions.join(" AND ")
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_and_key_sets_change_no_answer() {
    let db = database();
    let reference = session(&db, 1, Offload::Off, "off").await;
    fill(&reference).await;
    let mut others = Vec::new();
    for offload in [Offload::Index, Offload::Pages, Offload::Rows, Offload::Aggregate, Offload::Auto] {
        for threads in [1, 2, 3] {
            others.push(session(&db, threads, offload, "cost").await);
        }
    }
    others.push(session(&db, 2, Offload::Auto, "off").await);
    for (offload, planner, buffer, batched) in [
        (Offload::Auto, "cost", 4 << 20, "on"),
        (Offload::Off, "cost", 1024, "on"),
        (Offload::Hints, "off", 20_000, "on"),
        (Offload::Rows, "off", 1024, "off"),
    ] {
        let s = session(&db, 2, offload, planner).await;
        run(&s, &format!("SET lode.join = nested; SET lode.join_buffer = {buffer}")).await;
        run(&s, &format!("SET lode.batched_keys = {batched}")).await;
        others.push(s);
    }
    let (queries, first) = (number("LODE_JOIN_QUERIES", 150), number("LODE_JOIN_SEED", 1) << 32);
    let (mut narrowed, mut answered) = (0, 0);
    for seed in first..first + queries {
        let sql = Query::text(seed);
        let expected = rows(&reference, &sql).await;
        let other = &others[(seed % others.len() as u64) as usize];
        let got = rows(other, &sql).await;
        assert!(
            got == expected,
            "seed {seed}, {}: {sql}\n{:?}\n{:?}",
            other.offload(),
            first_lines(&got),
            first_lines(&expected)
        );
        narrowed += u64::from(other.last_counts().narrowed > 0);
        answered += u64::from(!expected.is_empty());
    }
    assert!(narrowed * 4 > queries, "{narrowed} of {queries} queries sent keys");
    assert!(answered * 3 > queries, "{answered} of {queries} queries had rows");
}

/// A row of the largest table leaves its scan only if the smallest, which FROM names last, has what it joins with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_most_selective_table_is_joined_first() {
    let db = database();
    let s = session(&db, 2, Offload::Auto, "cost").await;
    for sql in [
        "CREATE TABLE country (id INTEGER PRIMARY KEY, name VARCHAR)",
        "INSERT INTO country SELECT v, 'country ' || v FROM generate_series(1, 50) AS g(v)",
        "CREATE TABLE customer (id INTEGER PRIMARY KEY, country INTEGER)",
        "INSERT INTO customer SELECT v, v % 50 + 1 FROM generate_series(1, 5000) AS g(v)",
        "CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, price DECIMAL(9,2))",
        "INSERT INTO sale SELECT v, v % 5000 + 1, v % 97 FROM generate_series(1, 50000) AS g(v)",
    ] {
        run(&s, sql).await;
    }
    let sql = "SELECT count(*), sum(price) FROM sale, customer, country \
               WHERE customer = customer.id AND country = country.id AND country.name = 'country 7'";
    let expected = rows(&s, sql).await;
    let few = s.last_counts().rows_out;
    assert!(few <= 1 + 100 + 1000, "{few} rows left the scans");
    for (planner, order) in [("off", ""), ("cost", "sale, customer"), ("cost", "country, customer, sale")] {
        run(&s, &format!("SET lode.planner = {planner}")).await;
        run(&s, &format!("SET lode.join_order = '{order}'")).await;
        assert_eq!(rows(&s, sql).await, expected, "{planner} {order}");
        let is_last = order.starts_with("sale");
        assert!(!is_last || s.last_counts().rows_out > 50_000, "the order is forced");
    }
}

/// How often the plan of a query has an operator.
async fn times_planned(s: &Session, sql: &str, operator: &str) -> usize {
    let plan = rows(s, &format!("EXPLAIN {sql}")).await.join("\n");
    plan.matches(operator).count()
}

/// Joins by index find rows by a primary key in whose order the table is, by its first column, and by B+-trees of several columns;
/// rows with NULL keys, without a match, and of outer joins, semi-joins and anti-joins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_looked_up_in_indexes_where_joins_are_nested() {
    let db = database();
    let (hash, s) =
        (session(&db, 2, Offload::Auto, "cost").await, session(&db, 2, Offload::Off, "cost").await);
    for sql in [
        "CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO part SELECT v, 'part ' || v FROM generate_series(1, 3000) AS g(v)",
        "CREATE TABLE offer (part INTEGER, supplier INTEGER, price DECIMAL(9,2), PRIMARY KEY (part, supplier))",
        "INSERT INTO offer SELECT v / 4 + 1, v % 4, v % 97 FROM generate_series(0, 11999) AS g(v)",
        "CREATE TABLE line (id BIGINT, part INTEGER, supplier INTEGER, note TEXT) WITH (layout = 'row')",
        "INSERT INTO line SELECT v, CASE WHEN v % 10 = 0 THEN NULL ELSE CAST(v * 7919 % 3100 AS INT) END, v % 5, 'n' || v \
         FROM generate_series(1, 40000) AS g(v)",
        "CREATE INDEX line_of ON line (supplier, part)",
        "UPDATE line SET note = 'changed' WHERE id % 1000 = 1",
        "DELETE FROM line WHERE id % 1000 = 2",
        "CREATE TABLE few (v INTEGER, supplier INTEGER)",
        "INSERT INTO few SELECT v * 30, CASE WHEN v % 9 = 0 THEN NULL ELSE CAST(v % 7 AS INT) END FROM generate_series(1, 100) AS g(v)",
    ] {
        run(&hash, sql).await;
    }
    run(&s, "SET lode.join = nested; SET lode.join_order = 'line, part'").await;
    let queries = [
        (
            "SELECT count(*), sum(o.price) FROM line l JOIN part p ON l.part = p.id JOIN offer o ON o.part = p.id \
          WHERE l.id < 500",
            2,
        ),
        (
            "SELECT count(*), sum(l.id), min(note) FROM offer o LEFT JOIN line l ON l.part = o.part AND l.supplier = o.supplier \
          WHERE o.price = 5",
            1,
        ),
        (
            "SELECT count(*), count(p.name) FROM line l LEFT JOIN part p ON l.part = p.id AND p.name <> 'part 7'",
            1,
        ),
        (
            "SELECT count(*), sum(id) FROM line WHERE EXISTS (SELECT 1 FROM offer o WHERE o.part = line.part AND price > 90)",
            1,
        ),
        (
            "SELECT count(*), sum(id) FROM line WHERE NOT EXISTS (SELECT 1 FROM part p WHERE p.id = line.part)",
            1,
        ),
        (
            "SELECT l.id, p.name FROM line l JOIN part p ON p.id = l.part AND p.id + l.id > 100 WHERE l.id < 300",
            1,
        ),
        // A subquery runs again for the keys of each block, if they are few.
        (
            "SELECT count(*), sum(v) FROM few f WHERE v < (SELECT avg(l.part) FROM line l, part p WHERE l.supplier = f.supplier \
             AND p.id = l.part AND l.note > 'n2')",
            2,
        ),
        (
            "SELECT count(*), sum(l.id) FROM line l WHERE l.part < (SELECT max(price) * 20 FROM offer o WHERE o.part = l.part)",
            0,
        ),
        // No index begins with a name, and equal floats differ in their bits.
        ("SELECT count(*) FROM part a JOIN part b ON a.name = b.name", 0),
        ("SELECT count(*) FROM part a JOIN part b ON CAST(a.id AS DOUBLE) = CAST(b.id AS DOUBLE)", 0),
    ];
    for (settings, buffer) in [("on", 4 << 20), ("on", 1024), ("off", 1024)] {
        run(&s, &format!("SET lode.batched_keys = {settings}; SET lode.join_buffer = {buffer}")).await;
        for (sql, joins) in queries {
            assert_eq!(rows(&s, sql).await, rows(&hash, sql).await, "{settings} {buffer} {sql}");
            assert_eq!(times_planned(&s, sql, "LookUpJoinExec").await, joins, "{sql}");
            assert_eq!(times_planned(&hash, sql, "LookUpJoinExec").await, 0, "{sql}");
        }
    }
    // A transaction that has changed the table looks nothing up in it.
    run(&s, "BEGIN; INSERT INTO part VALUES (3001, 'new')").await;
    let sql = "SELECT count(*) FROM line l JOIN part p ON l.part = p.id WHERE p.name = 'new'";
    assert_eq!(times_planned(&s, sql, "by primary key (id)").await, 0);
    run(&hash, "SET lode.planner = cost").await;
    let of_old = rows(&hash, sql).await;
    assert!(of_old == ["0"] && rows(&s, sql).await != of_old);
    run(&s, "ROLLBACK").await;
}

/// The joins of one row by index read the pages of that row alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_join_reads_few_pages_for_few_rows() {
    let db = database();
    let s = session(&db, 2, Offload::Auto, "cost").await;
    for sql in [
        "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT) WITH (layout = 'row')",
        "INSERT INTO customer SELECT v, 'customer ' || v FROM generate_series(1, 20000) AS g(v)",
        "CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, price DECIMAL(9,2)) WITH (layout = 'row')",
        "INSERT INTO sale SELECT v, v * 7919 % 20000 + 1, v % 97 FROM generate_series(1, 60000) AS g(v)",
        "CREATE INDEX ON sale (customer)",
        "SET lode.join = nested",
    ] {
        run(&s, sql).await;
    }
    for batched in ["on", "off"] {
        run(&s, &format!("SET lode.batched_keys = {batched}")).await;
        let sql = "SELECT name, s.id FROM customer c JOIN sale s ON s.customer = c.id WHERE c.id = 77";
        assert_eq!(rows(&s, sql).await.len(), 3);
        assert!(s.last_counts().pages_read <= 4, "{:?}", s.last_counts());
        let sql = "SELECT count(*), count(DISTINCT name) FROM sale s JOIN customer c ON s.customer = c.id WHERE s.id < 20";
        assert_eq!(rows(&s, sql).await, ["19,19"]);
        assert!(s.last_counts().pages_read <= 20, "{:?}", s.last_counts());
    }
}

/// Found by review: a subquery with random() was run again for each block, and gave one key several values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volatile_inner_side_runs_once() {
    let db = database();
    let s = session(&db, 2, Offload::Auto, "off").await;
    for sql in [
        "CREATE TABLE o (id INTEGER PRIMARY KEY, k INTEGER)",
        "INSERT INTO o SELECT v, v % 7 FROM generate_series(1, 3000) AS g(v)",
        "CREATE TABLE b (id INTEGER PRIMARY KEY)",
        "INSERT INTO b SELECT v FROM generate_series(1, 20000) AS g(v)",
        "SET lode.join = nested; SET lode.join_buffer = 1024; SET lode.batched_keys = off",
    ] {
        run(&s, sql).await;
    }
    let sql = "SELECT max(c) FROM (SELECT k, count(DISTINCT r) AS c FROM (SELECT o.id, o.k, g.r FROM o JOIN \
               (SELECT id, max(random()) AS r FROM b GROUP BY id) g ON g.id = o.k WHERE o.id < 60) q GROUP BY k) z";
    assert_eq!(rows(&s, sql).await, ["1"]);
}

/// Found by review: a block made all of its pairs at once, blocks became smaller and smaller, and each small batch kept the strings of
/// all its outer rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_joins_hold_little_and_take_whole_buffers() {
    let db = database();
    let options = SessionOptions { target_partitions: 1, offload: Offload::Off, ..SessionOptions::default() };
    let s = Queries::new(db.clone(), 48 << 20).and_then(|q| q.session(&options)).unwrap();
    for sql in [
        "CREATE TABLE a (id INTEGER PRIMARY KEY, k INTEGER, s TEXT)",
        "INSERT INTO a SELECT v, 1, repeat('x', 200) || v FROM generate_series(1, 8192) AS g(v)",
        "CREATE TABLE b (id INTEGER PRIMARY KEY, k INTEGER, s TEXT)",
        "INSERT INTO b SELECT v, 1, 'b' || v FROM generate_series(1, 8192) AS g(v)",
        "CREATE INDEX ON b (k)",
        "SET lode.planner = off; SET lode.join = nested",
    ] {
        run(&s, sql).await;
    }
    // 67 million pairs, of which three are wanted.
    let sql = "SELECT count(*) FROM (SELECT a.id + b.id FROM a JOIN b ON a.k = b.k LIMIT 3) q";
    assert_eq!(rows(&s, sql).await, ["3"]);
    run(&s, "SET lode.join_buffer = 200000").await;
    let sql = "SELECT count(b.s) FROM a LEFT JOIN b ON b.id = a.id AND a.s <> b.s";
    assert_eq!(rows(&s, sql).await, ["8192"]);
    let reads = s.last_reads().into_iter().find(|r| r.table == "b").unwrap();
    // 1.8 MB of outer rows are ten blocks, and b is a page or two.
    assert!((8..=20).contains(&reads.pages), "{reads:?}");
    run(&s, "SET lode.batched_keys = off").await;
    let sql = "SELECT count(*) FROM (SELECT a.s, b.s AS t FROM a JOIN b ON b.id = a.id ORDER BY b.s, a.s LIMIT 8000) q";
    assert_eq!(rows(&s, sql).await, ["8000"]);
}

/// Without an index the inner table is scanned once for each block of outer rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_join_without_an_index_scans_its_inner_table_for_each_block() {
    let db = database();
    let (s, hash) = (session(&db, 2, Offload::Auto, "off").await, session(&db, 2, Offload::Off, "off").await);
    for sql in [
        "CREATE TABLE l (id INTEGER, k INTEGER, t TEXT)",
        "INSERT INTO l SELECT v, CASE WHEN v % 10 = 0 THEN NULL ELSE v % 50 END, 't' || v % 3 FROM generate_series(1, 3000) AS g(v)",
        "CREATE TABLE r (id INTEGER, k INTEGER, t TEXT)",
        "INSERT INTO r SELECT v, CASE WHEN v % 7 = 0 THEN NULL ELSE v % 80 END, 't' || v % 4 FROM generate_series(1, 400) AS g(v)",
    ] {
        run(&s, sql).await;
    }
    let queries = [
        "SELECT count(*), sum(l.id), sum(r.id) FROM l JOIN r ON l.k = r.k",
        "SELECT count(*), sum(l.id), sum(r.id), count(r.t) FROM l LEFT JOIN r ON l.k = r.k AND l.t <> r.t",
        "SELECT count(*), sum(l.id), count(l.t) FROM r RIGHT JOIN l ON l.k = r.k AND l.t = r.t AND r.id > 100",
        "SELECT count(*), sum(id) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.id < l.id)",
        "SELECT count(*), sum(id) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.t = l.t)",
        "SELECT l.t, r.t, count(*) FROM l JOIN r ON l.k = r.k AND l.t = r.t WHERE r.id % 2 = 0 GROUP BY l.t, r.t",
        "SELECT count(*) FROM l JOIN r ON l.k = r.k WHERE l.id < 0",
        "SELECT count(*) FROM r LEFT JOIN l ON l.k = r.k WHERE l.id IS NULL",
    ];
    run(&s, "SET lode.join = nested").await;
    for (batched, buffer) in [("on", 4 << 20), ("on", 1024), ("off", 1024)] {
        run(&s, &format!("SET lode.batched_keys = {batched}; SET lode.join_buffer = {buffer}")).await;
        for sql in queries {
            assert_eq!(rows(&s, sql).await, rows(&hash, sql).await, "{batched} {buffer} {sql}");
            assert_eq!(times_planned(&s, sql, "BlockJoinExec").await, 1, "{sql}");
        }
    }
    // The outer side is the smaller table: 343 keys of four bytes that are not NULL.
    let sql = "SELECT count(*) FROM l JOIN r ON l.k = r.k";
    for (batched, buffer, blocks) in [("on", 4 << 20, 1), ("on", 1024, 2), ("off", 1024, 343)] {
        run(&s, &format!("SET lode.batched_keys = {batched}; SET lode.join_buffer = {buffer}")).await;
        rows(&s, sql).await;
        assert_eq!(s.last_counts().scans, 1 + blocks, "{batched} {buffer}");
    }
}

/// Found by review: where only the first table of a forced order has an index, the sides were swapped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_order_is_kept_where_only_its_first_table_has_an_index() {
    let db = database();
    let s = session(&db, 2, Offload::Off, "cost").await;
    for sql in [
        "CREATE TABLE o (id INTEGER PRIMARY KEY, x INTEGER)",
        "INSERT INTO o SELECT v, v % 10 FROM generate_series(1, 3000) AS g(v)",
        "CREATE TABLE c (x INTEGER)",
        "INSERT INTO c SELECT v FROM generate_series(1, 3000) AS g(v)",
        "SET lode.join = nested; SET lode.join_order = 'o, c'",
    ] {
        run(&s, sql).await;
    }
    let sql = "SELECT count(*) FROM o JOIN c ON c.x = o.id";
    assert_eq!(times_planned(&s, sql, "LookUpJoinExec").await, 0);
    assert_eq!(rows(&s, sql).await, ["3000"]);
    run(&s, "SET lode.join_order = 'c, o'").await;
    assert_eq!(times_planned(&s, sql, "LookUpJoinExec: Inner, table=o").await, 1);
    assert_eq!(rows(&s, sql).await, ["3000"]);
}

/// What an aggregate reads counts, not only the few groups that it answers: a join sends it the keys of the other side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_looked_up_rather_than_all_made() {
    let db = database();
    let s = session(&db, 2, Offload::Auto, "cost").await;
    for sql in [
        "CREATE TABLE thing (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO thing SELECT v, 'thing ' || v FROM generate_series(0, 1999) AS g(v)",
        "CREATE TABLE event (thing INTEGER, v INTEGER)",
        "INSERT INTO event SELECT v * 7919 % 2000, v % 97 FROM generate_series(1, 200000) AS g(v)",
    ] {
        run(&s, sql).await;
    }
    let sql = "SELECT count(*), sum(total) FROM thing, (SELECT thing, sum(v * v) AS total FROM event GROUP BY thing) e \
               WHERE e.thing = thing.id AND name = 'thing 7'";
    let expected = rows(&s, "SELECT 1, sum(v * v) FROM event WHERE thing = 7").await;
    assert_eq!(rows(&s, sql).await, expected);
    let counts = s.last_counts();
    assert!(counts.narrowed > 0 && counts.rows_out < 1000, "{counts:?}");
}

/// An index names the pages that have the keys of the build side, before any other page is looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_keys_of_a_join_are_looked_up_in_an_index() {
    let db = database();
    let s = session(&db, 2, Offload::Auto, "cost").await;
    for (table, options) in
        [("sale", "layout = 'row'"), ("text_sale", "layout = 'row', encoding = 'matchable'")]
    {
        for sql in [
            format!("CREATE TABLE {table}_customer (id INTEGER PRIMARY KEY, name VARCHAR, since DATE)"),
            format!(
                "INSERT INTO {table}_customer SELECT v, 'customer ' || v, DATE '2026-01-01' + v \
                 FROM generate_series(1, 5000) AS g(v)"
            ),
            format!(
                "CREATE TABLE {table} (id INTEGER PRIMARY KEY, customer VARCHAR, price DECIMAL(9,2)) WITH ({options})"
            ),
            format!(
                "INSERT INTO {table} SELECT v, 'customer ' || (v % 5000 + 1), v % 97 \
                 FROM generate_series(1, 50000) AS g(v)"
            ),
        ] {
            run(&s, &sql).await;
        }
        let sql = format!(
            "SELECT count(*), sum(price) FROM {table} t JOIN {table}_customer c ON t.customer = c.name \
             WHERE since BETWEEN '2026-03-01' AND '2026-03-03'"
        );
        let expected = rows(&s, &sql).await;
        let all = s.last_counts().pages;
        run(&s, &format!("CREATE INDEX {table}_by ON {table} (customer)")).await;
        assert_eq!(rows(&s, &sql).await, expected);
        let by_index = s.last_counts().pages;
        // Three customers with ten sales each, which lie far apart, and the pages of the customers.
        assert!(all > 150 && by_index <= 40, "{by_index} of {all} pages");
        run(&s, &format!("BEGIN; INSERT INTO {table} VALUES (-1, 'customer 60', 1000)")).await;
        let sql_of_all = format!(
            "SELECT count(*) FROM {table} t JOIN {table}_customer c ON t.customer = c.name WHERE c.id = 60"
        );
        assert_eq!(rows(&s, &sql_of_all).await, ["11"], "a transaction sees its own rows");
        run(&s, "ROLLBACK").await;
        assert_eq!(rows(&s, &sql_of_all).await, ["10"]);
        // Every customer is a key: too many for the index.
        let sql = format!("SELECT count(*) FROM {table} t JOIN {table}_customer c ON t.customer = c.name");
        assert_eq!(rows(&s, &sql).await, ["50000"]);
    }
}

fn first_lines(lines: &[String]) -> &[String] {
    &lines[..lines.len().min(5)]
}

/// The rows that a plan expects of the operators whose lines begin so, and those that came out.
async fn expected_and_actual(s: &Session, sql: &str, operator: &str) -> Vec<(u64, u64)> {
    let plan = rows(s, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
    let lines = plan.lines().filter(|l| l.contains(operator));
    let number = |line: &str, before: &str| {
        let (_, rest) = line.split_once(before).unwrap_or_else(|| panic!("{before} is in {line}"));
        let mut words = rest.split(|c: char| !c.is_ascii_digit() && c != '.' && !c.is_alphabetic());
        let value: f64 = words.next().unwrap().parse().unwrap();
        // DataFusion writes 12000 rows as 12.00 K.
        let factor = if words.next() == Some("K") { 1000.0 } else { 1.0 };
        (value * factor) as u64
    };
    lines.map(|l| (number(l, "expected_rows="), number(l, "output_rows="))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_how_many_rows_each_operator_is_expected_to_answer() {
    let s = session(&database(), 1, Offload::Auto, "cost").await;
    for sql in [
        "CREATE TABLE town (id INTEGER PRIMARY KEY, country VARCHAR)",
        "INSERT INTO town SELECT v, 'country ' || (v * 7919 % 25) FROM generate_series(0, 9999) AS g(v)",
        "CREATE TABLE trip (town INTEGER, no INTEGER, km INTEGER, PRIMARY KEY (town, no)) WITH (page_bytes = 4096, layout = 'row')",
        "INSERT INTO trip SELECT v / 12, v % 12, v % 100 FROM generate_series(0, 119999) AS g(v)",
        "CREATE TABLE visit (town INTEGER, no INTEGER, guest VARCHAR)",
        "INSERT INTO visit SELECT v * 7919 % 120000 / 12, v * 7919 % 12, 'guest ' || (v % 31) FROM generate_series(0, 199999) AS g(v)",
    ] {
        run(&s, sql).await;
    }
    let near = |(expected, actual): (u64, u64)| {
        assert!(expected <= actual * 2 && actual <= expected * 2, "{expected} expected, {actual} came");
    };
    let plain = rows(&s, "EXPLAIN SELECT * FROM town").await.join("\n");
    assert!(plain.contains("physical_plan") && plain.contains("expected_rows=10000"), "{plain}");
    // Text: a page shows how many values there are.
    let groups = expected_and_actual(&s, "SELECT guest, count(*) FROM visit GROUP BY guest", "Final").await;
    assert!(!groups.is_empty());
    groups.into_iter().for_each(near);
    // The first column of a key of two.
    let sql = "SELECT town, count(*) FROM trip WHERE km >= 0 GROUP BY town";
    expected_and_actual(&s, sql, "AggregateExec").await.into_iter().for_each(near);
    // Rows that are in the table's delta alone.
    run(&s, "CREATE TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITH (changes = 'delta')").await;
    run(&s, "INSERT INTO pair SELECT v / 2, v % 2 FROM generate_series(0, 999) AS g(v)").await;
    let groups = expected_and_actual(&s, "SELECT a, count(*) FROM pair GROUP BY a", "Aggregate").await;
    groups.into_iter().for_each(near);
    // A set that two scans look up counts once.
    let sql = "SELECT count(*) FROM town JOIN trip ON trip.town = town.id JOIN visit ON visit.town = trip.town AND visit.no = trip.no \
               WHERE country = 'country 7'";
    expected_and_actual(&s, sql, "JoinExec").await.into_iter().for_each(near);
    // The keys of a build side reduce what the scan of the probe side answers.
    let sql = "SELECT count(*) FROM town JOIN trip ON trip.town = town.id WHERE country = 'country 7'";
    let scans = expected_and_actual(&s, sql, "LodeScanExec: table=trip").await;
    assert_eq!(scans.len(), 1);
    scans.into_iter().for_each(near);
    // A key of two columns: each visit meets one trip.
    let sql =
        "SELECT count(*) FROM trip JOIN visit ON trip.town = visit.town AND trip.no = visit.no WHERE km < 50";
    let joins = expected_and_actual(&s, sql, "JoinExec").await;
    assert_eq!(joins.len(), 1);
    joins.into_iter().for_each(near);
    // What other operators know goes through nested joins, limits and windows.
    run(&s, "CREATE INDEX ON visit (town)").await;
    run(&s, "SET lode.join = 'nested'").await;
    let sql = "SELECT count(*) FROM visit JOIN town ON town.id = visit.town";
    let joins = expected_and_actual(&s, sql, "LookUpJoinExec").await;
    assert_eq!(joins.len(), 1);
    joins.into_iter().for_each(near);
    let sql = "SELECT id, row_number() OVER (ORDER BY country) FROM town";
    expected_and_actual(&s, sql, "Window").await.into_iter().for_each(near);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_on_a_page_that_no_sample_drew_are_expected() {
    let s = session(&database(), 1, Offload::Auto, "cost").await;
    run(&s, "CREATE TABLE event (id INTEGER PRIMARY KEY, day INTEGER) WITH (layout = 'row')").await;
    run(&s, "INSERT INTO event SELECT v, v / 250 FROM generate_series(0, 249999) AS g(v)").await;
    // Each of 1000 days has 250 rows side by side, which few samples meet.
    let mut missed = 0;
    for day in [3, 333, 500, 777, 998] {
        let sql = format!("SELECT * FROM event WHERE day = {day}");
        let (expected, actual) = expected_and_actual(&s, &sql, "LodeScanExec").await[0];
        assert_eq!(actual, 250);
        missed += u32::from(expected == 1);
    }
    assert_eq!(missed, 0, "a day without a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_of_both_signs_in_a_float_key_are_one_value_to_a_join() {
    let s = session(&database(), 1, Offload::Auto, "cost").await;
    for sql in [
        "CREATE TABLE t (d DOUBLE PRECISION)",
        "INSERT INTO t VALUES (CAST('0' AS DOUBLE PRECISION)), (CAST('-0' AS DOUBLE PRECISION)), (5)",
        "CREATE TABLE p (d DOUBLE PRECISION PRIMARY KEY)",
        "INSERT INTO p VALUES (CAST('0' AS DOUBLE PRECISION))",
        "INSERT INTO p VALUES (CAST('-0' AS DOUBLE PRECISION))",
    ] {
        run(&s, sql).await;
    }
    assert_eq!(rows(&s, "SELECT count(*) FROM t WHERE d IN (SELECT d FROM p)").await, ["2"]);
    let sql = "SELECT count(*) FROM t WHERE d IN (SELECT a.d FROM p a JOIN p b ON a.d = b.d)";
    assert_eq!(rows(&s, sql).await, ["2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_nulls_of_one_join_are_not_those_of_another() {
    let s = session(&database(), 1, Offload::Auto, "cost").await;
    run(&s, "CREATE TABLE t (k INTEGER, v INTEGER)").await;
    run(&s, "INSERT INTO t VALUES (NULL, 1), (1, 1)").await;
    for (sql, count) in [
        ("t a JOIN t b ON a.k = b.k JOIN t c ON a.v IS NOT DISTINCT FROM c.v", "2"),
        ("t a JOIN t b ON a.k IS NOT DISTINCT FROM b.k JOIN t c ON a.v = c.v", "4"),
        ("t a, t b, t c WHERE a.k = b.k AND a.k IS NOT DISTINCT FROM c.k", "1"),
        ("t a, t b, t c WHERE a.k IS NOT DISTINCT FROM b.k AND b.k IS NOT DISTINCT FROM c.k", "2"),
    ] {
        assert_eq!(rows(&s, &format!("SELECT count(*) FROM {sql}")).await, [count], "{sql}");
    }
}

/// The keys of a join were asked for twice for each of its sides: 30 tables took minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_forty_tables_is_planned() {
    let s = session(&database(), 1, Offload::Auto, "cost").await;
    let columns = (0..40).map(|n| format!(", a{n} INTEGER")).collect::<String>();
    run(&s, &format!("CREATE TABLE f (id INTEGER PRIMARY KEY{columns})")).await;
    run(&s, &format!("INSERT INTO f VALUES (1{})", ", 7".repeat(40))).await;
    run(&s, "CREATE TABLE d (id INTEGER PRIMARY KEY)").await;
    run(&s, "INSERT INTO d VALUES (7), (8)").await;
    let joins = (0..40).map(|n| format!(" JOIN d AS d{n} ON f.a{n} = d{n}.id")).collect::<String>();
    assert_eq!(rows(&s, &format!("SELECT count(*) FROM f{joins}")).await, ["1"]);
}
