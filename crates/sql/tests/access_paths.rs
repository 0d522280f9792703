//! Queries have the same rows by each access path, at each offload level, between changes; and each path reads what it says.
//!
//! `LODE_CASES` sets the number of queries, `LODE_SEED` the seed.

mod support;

use std::sync::Arc;

use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions, PATHS};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions};
use support::{lines, rows, run};

const ROWS: u64 = 6000;
const TABLES: [(&str, &str); 4] = [
    ("of_rows", "layout = 'row'"),
    ("of_pages", "changes = 'pages'"),
    ("of_delta", "changes = 'delta'"),
    ("of_entries", "layout = 'row'"),
];
const LEVELS: [&str; 8] = ["off", "index", "matches", "hints", "pages", "rows", "aggregate", "auto"];

async fn session() -> (Queries, Session) {
    let database = Database::open(Arc::new(Drive::in_memory(1 << 29)), DatabaseOptions::default()).unwrap();
    let queries = Queries::new(database, 1 << 30).unwrap();
    let s = queries.session(&SessionOptions { target_partitions: 2, ..SessionOptions::default() }).unwrap();
    run(&s, "SET lode.bulk_rows = 100").await;
    for (name, options) in TABLES {
        run(&s, &format!("CREATE TABLE {name} (id INT PRIMARY KEY, n INT, s TEXT) WITH ({options})")).await;
        for from in (1..ROWS).step_by(500) {
            let numbers = format!("generate_series({from}, {}) AS g(i)", from + 499);
            let values = "i, nullif(i * 7 % 500, 3), 'text ' || i % 90";
            run(&s, &format!("INSERT INTO {name} SELECT {values} FROM {numbers}")).await;
        }
        let entries = if name == "of_entries" { "WITH (entries = 'rows')" } else { "" };
        run(&s, &format!("CREATE INDEX {name}_n ON {name} (n, id) {entries}")).await;
    }
    (queries, s)
}

fn query(r: &mut Random) -> String {
    let (name, _) = *r.pick(&TABLES).unwrap();
    let (other, _) = *r.pick(&TABLES).unwrap();
    let n = r.below(ROWS);
    let condition = match r.below(6) {
        0 => format!("id = {n}"),
        1 => format!("id BETWEEN {n} AND {}", n + 300),
        2 => format!("n = {}", n % 500),
        3 => format!("n IN ({}, {}) AND id > {}", n % 500, n % 77, n / 2),
        4 => format!("s = 'text {}' AND id < {n}", n % 90),
        _ => format!("n IS NULL OR id < {}", n / 20),
    };
    match r.below(4) {
        0 => format!("SELECT count(*), sum(n), min(id), max(s) FROM {name} WHERE {condition}"),
        1 => {
            let on = "a.n = b.id AND b.n < 100";
            let condition = condition.replace("id", "a.id").replace("n ", "a.n ").replace("s =", "a.s =");
            format!("SELECT a.id, b.s FROM {name} a JOIN {other} b ON {on} WHERE {condition}")
        }
        2 => match r.below(3) {
            0 => "SELECT count(*), min(id) FROM of_rows".into(),
            1 => format!("SELECT min(n), max(n) FROM {name}"),
            _ => format!("SELECT id FROM {name} WHERE n = {} ORDER BY id LIMIT 7", n % 500),
        },
        _ => format!("SELECT id, n, s FROM {name} WHERE {condition}"),
    }
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |v| v.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[tokio::test]
async fn rows_do_not_depend_on_the_access_path() {
    let (cases, seed) = (number("LODE_CASES", 60), number("LODE_SEED", 1));
    let r = &mut Random::of_seed(seed);
    let (_queries, s) = session().await;
    let mut in_transaction = false;
    for case in 0..cases {
        if r.below(6) == 0 {
            run(&s, if in_transaction { r.pick(&["COMMIT", "ROLLBACK"]).unwrap() } else { "BEGIN" }).await;
            in_transaction = !in_transaction;
        }
        if r.below(3) == 0 {
            let (name, _) = *r.pick(&TABLES).unwrap();
            let n = r.below(ROWS);
            run(&s, &format!("SET lode.index = {}", r.pick(&PATHS).unwrap())).await;
            let change = match r.below(3) {
                0 => format!("DELETE FROM {name} WHERE id BETWEEN {n} AND {}", n + r.below(400)),
                1 => format!("UPDATE {name} SET n = {} WHERE id BETWEEN {n} AND {}", n % 600, n + 9),
                _ => format!("INSERT INTO {name} VALUES ({}, {}, 'new')", 100_000 + case, n % 500),
            };
            run(&s, &change).await;
        }
        let sql = query(r);
        let level = *r.pick(&LEVELS).unwrap();
        run(&s, &format!("SET lode.join = {}", r.pick(&["hash", "nested"]).unwrap())).await;
        run(&s, "SET lode.index = none").await;
        run(&s, "SET lode.offload = off").await;
        let expected = rows(&s, &sql).await;
        run(&s, &format!("SET lode.offload = {level}")).await;
        for path in &PATHS {
            run(&s, &format!("SET lode.index = {path}")).await;
            assert_eq!(rows(&s, &sql).await, expected, "seed {seed}, case {case}, {path}, {level}: {sql}");
        }
    }
}

#[tokio::test]
async fn each_path_reads_what_it_says() {
    let (_queries, s) = session().await;
    run(&s, "SET lode.offload = rows").await;
    let by_id = "SELECT s FROM of_rows WHERE id BETWEEN 700 AND 710";
    let by_n = "SELECT s FROM of_rows WHERE n = 7";
    let mut found = Vec::new();
    for path in &PATHS {
        run(&s, &format!("SET lode.index = {path}")).await;
        let counts = |s: &Session| {
            let c = s.last_counts();
            (c.pages, c.pages_skipped)
        };
        lines(&s, by_id).await;
        let id = counts(&s);
        lines(&s, by_n).await;
        let n = counts(&s);
        let plan = lines(&s, &format!("EXPLAIN {by_n}")).await.join("\n");
        let shown = (plan.contains("index=of_rows_n"), plan.contains(&format!("path={path}")));
        found.push((path.name, id, n, shown));
    }
    let of = |name: &str| *found.iter().find(|f| f.0 == name).unwrap();
    let (all, skipped) = of("page_index").1;
    assert!(all > 20 && all - skipped <= 2, "{found:?}");
    // One decision a page leaves the same pages out as levels do; without an index no page is left out.
    assert_eq!(of("flixr_s").1, (all, skipped));
    assert_eq!(of("none").1, (all, 0));
    let (named, left_out) = of("flixr_hs").1;
    assert!(named <= 2 && named - left_out == all - skipped, "{found:?}");
    assert_eq!(of("clustered").1, (named, 0));
    assert_eq!((of("none").2, of("btree").1), ((all, 0), (all, 0)));
    // Rows with n = 7 lie on some 12 pages, which the bounds of n do not tell apart.
    assert_eq!(of("page_index").2, (all, 0));
    let (named, left_out) = of("btree").2;
    assert!((6..=12).contains(&named) && left_out == 0, "{found:?}");
    assert!(of("btree").3 == (true, true) && of("none").3 == (false, true), "{found:?}");
    assert_eq!(of("page_index").3, (false, true));
    assert!(!of("auto").3.1);
    // An entry that proves all rows counts them unread, but where the page index is not asked.
    for (path, reads) in [("page_index", false), ("flixr_s", false), ("none", true), ("btree", true)] {
        run(&s, &format!("SET lode.index = {path}")).await;
        run(&s, "SET lode.offload = aggregate").await;
        lines(&s, "SELECT min(id), max(id), count(n) FROM of_rows WHERE id > 0").await;
        assert_eq!(s.last_counts().pages_skipped == 0, reads, "{path}: {:?}", s.last_counts());
        // Pages go unread by the page index, which these do not ask.
        run(&s, "BEGIN").await;
        run(&s, "DELETE FROM of_rows WHERE id < 3000").await;
        assert_eq!(s.last_counts().pages_skipped == 0, reads, "{path}: {:?}", s.last_counts());
        run(&s, "ROLLBACK").await;
        let walks =
            lines(&s, "EXPLAIN SELECT id FROM of_rows WHERE n = 7 ORDER BY id LIMIT 7").await.join("\n");
        assert_eq!(walks.contains("index=of_rows_n"), path == "btree", "{walks}");
    }
    // The same pages, though each row has an entry.
    run(&s, "SET lode.index = btree").await;
    lines(&s, &by_n.replace("of_rows", "of_entries")).await;
    assert_eq!((s.last_counts().pages, s.last_counts().pages_skipped), (named, left_out));
    for (options, expected) in [
        ("entries = 'bytes'", "found entries = 'bytes'"),
        ("entries = 3", "expected entries = 'pages' or 'rows' of a B+-tree"),
        ("bytes = 8", "found bytes = 8"),
    ] {
        let refused =
            s.execute(&format!("CREATE INDEX x ON of_rows (n) WITH ({options})")).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    let refused = s.execute("CREATE INDEX x ON of_delta (n) WITH (entries = 'pages')").await.unwrap_err();
    assert!(refused.to_string().contains("changes = 'delta' name rows"), "{refused}");
    for (path, table, names) in [
        ("tree_rows", "of_entries", true),
        ("tree_rows", "of_rows", false),
        ("tree_pages", "of_rows", true),
        ("tree_pages", "of_entries", false),
        ("tree_rows", "of_delta", true),
        ("tree_in_drive", "of_entries", true),
    ] {
        run(&s, &format!("SET lode.index = {path}")).await;
        let plan = lines(&s, &format!("EXPLAIN {}", by_n.replace("of_rows", table))).await.join("\n");
        assert_eq!(plan.contains(&format!("index={table}_n")), names, "{path}: {plan}");
    }
    let refused = s.execute("SET lode.index = trees").await.unwrap_err().to_string();
    assert!(refused.contains("auto, none, btree, tree_rows, tree_pages, tree_in_drive, clustered, page_index, flixr_s or flixr_hs"), "{refused}");
    assert!(!refused.contains('\n'));
}

#[tokio::test]
async fn inserts_go_to_the_page_of_their_like_where_the_table_lies_in_order() {
    let (_queries, s) = session().await;
    for (name, order) in [("ordered", ", cluster_by = 'day'"), ("appended", "")] {
        let options = format!("layout = 'row', page_index = 'day'{order}");
        run(&s, &format!("CREATE TABLE {name} (day INT, n INT, s TEXT, id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY) WITH ({options})")).await;
        let rows = "SELECT i / 10, i, 'text of row ' || i FROM generate_series(1, 60000) AS g(i)";
        run(&s, &format!("INSERT INTO {name} (day, n, s) {rows}")).await;
        run(&s, &format!("CREATE INDEX {name}_day ON {name} (day) WITH (entries = 'rows')")).await;
    }
    let pages = |s: &Session| s.last_counts().pages - s.last_counts().pages_skipped;
    let r = &mut Random::of_seed(5);
    run(&s, "SET lode.index = flixr_s").await;
    lines(&s, "SELECT count(*) FROM ordered").await;
    let before = s.last_counts().pages;
    for n in 0..60 {
        let values =
            (0..20).map(|_| format!("({}, {}, 'new')", r.below(6000), 100_000 + n)).collect::<Vec<_>>();
        let null = if n % 10 == 0 { ", (NULL, 1, 'none')" } else { "" };
        for name in ["ordered", "appended"] {
            run(&s, &format!("INSERT INTO {name} (day, n, s) VALUES {}{null}", values.join(", "))).await;
            if n % 7 == 3 {
                let day = r.below(6000);
                run(&s, "BEGIN").await;
                run(&s, &format!("DELETE FROM {name} WHERE day BETWEEN {day} AND {}", day + 40)).await;
                run(
                    &s,
                    &format!(
                        "INSERT INTO {name} (day, n, s) VALUES ({day}, 7, 'again'), ({}, 8, 'again')",
                        day + 20
                    ),
                )
                .await;
                run(&s, if n % 2 == 0 { "COMMIT" } else { "ROLLBACK" }).await;
            }
        }
        let same =
            format!("SELECT count(*), sum(n), min(day), max(s) FROM {{}} WHERE day < {}", r.below(6000));
        if n % 7 != 3 {
            run(&s, "SET lode.index = none").await;
            let found = rows(&s, &same.replace("{}", "ordered")).await;
            for path in ["btree", "flixr_hs", "flixr_s"] {
                run(&s, &format!("SET lode.index = {path}")).await;
                assert_eq!(rows(&s, &same.replace("{}", "ordered")).await, found, "{path} {same}");
            }
        }
    }
    lines(&s, "SELECT n FROM ordered WHERE day = 3000").await;
    let few = pages(&s);
    lines(&s, "SELECT n FROM appended WHERE day = 3000").await;
    // The pages that took the inserts have rows of all days.
    assert!(few <= 2 && pages(&s) >= 4, "{few} of {} pages, {}", before, pages(&s));
    lines(&s, "SELECT count(*) FROM ordered WHERE day IS NULL OR day >= 0").await;
    assert!(s.last_counts().pages > before, "pages were split");
    assert_eq!(s.database().check().unwrap(), Vec::<String>::new());
}

/// A page index of the same transaction made the commit of an insert among its like fail: the drive still had entries of the rule before.
#[tokio::test]
async fn an_insert_among_its_like_commits_with_a_page_index_of_the_same_transaction() {
    let (_queries, s) = session().await;
    let options = "layout = 'row', page_index = 'day', cluster_by = 'day'";
    run(&s, &format!("CREATE TABLE t (id INT PRIMARY KEY, day INT, n INT) WITH ({options})")).await;
    run(&s, "INSERT INTO t SELECT i, i / 10, i FROM generate_series(1, 20000) AS g(i)").await;
    for (n, change) in ["CREATE INDEX by_n ON t USING page_index (n)", "DROP INDEX by_n"].iter().enumerate() {
        // The bounds of pages are known.
        for key in 0..3 {
            run(&s, &format!("INSERT INTO t VALUES ({}, {key}, 1)", 100_000 + 10 * n + key)).await;
        }
        run(&s, "BEGIN").await;
        run(&s, change).await;
        run(&s, &format!("INSERT INTO t VALUES ({}, 500, 1)", 200_000 + n)).await;
        run(&s, "COMMIT").await;
        let found = rows(&s, "SELECT count(*) FROM t WHERE day = 500").await;
        assert_eq!(found, rows(&s, &format!("SELECT {}", 11 + n)).await);
    }
    assert_eq!(s.database().check().unwrap(), Vec::<String>::new());
}

/// Pages that grow at their end were divided in the middle, and stayed half full.
#[tokio::test]
async fn days_that_come_one_after_the_other_fill_pages() {
    let (_queries, s) = session().await;
    let mut pages = Vec::new();
    for (name, order) in [("ordered", ", cluster_by = 'day'"), ("appended", "")] {
        let options = format!("layout = 'row', page_index = 'day'{order}");
        run(&s, &format!("CREATE TABLE {name} (id INT PRIMARY KEY, day INT, s TEXT) WITH ({options})")).await;
        for first in (0..6000).step_by(100) {
            let rows = "SELECT i, i / 10, 'text of row ' || i FROM generate_series";
            run(&s, &format!("INSERT INTO {name} {rows}({first}, {}) AS g(i)", first + 99)).await;
        }
        lines(&s, &format!("SELECT count(s) FROM {name}")).await;
        pages.push(s.last_counts().pages);
    }
    assert!(pages[0] <= pages[1] + pages[1] / 10, "{pages:?}");
}

/// A tree names the pages of a long range in a sorted table one entry after the other: three times as slow as the page index.
#[tokio::test]
async fn a_long_range_of_a_sorted_table_goes_by_the_page_index() {
    let (_queries, s) = session().await;
    run(&s, "CREATE TABLE t (id INT, n INT) WITH (changes = 'delta')").await;
    run(&s, "INSERT INTO t SELECT i, i % 77 FROM generate_series(1, 900000) AS g(i) ORDER BY i").await;
    run(&s, "CREATE INDEX by_id ON t (id)").await;
    let sql = |last: u32| format!("EXPLAIN SELECT sum(n) FROM t WHERE id BETWEEN 100 AND {last}");
    let uses = |last: u32| {
        let (s, sql) = (&s, sql(last));
        async move { lines(s, &sql).await.join("\n").contains("index=by_id (") }
    };
    // The order of the table is known from the second time on.
    let mut found = Vec::new();
    for last in [20_000, 20_000, 2_000, 20_000] {
        found.push(uses(last).await);
    }
    assert_eq!(found[1..], [false, true, false]);
    run(&s, "SET lode.index = btree").await;
    assert!(uses(20_000).await);
}

/// An insert changes pages anywhere in a table in order, while others change rows of the same pages.
#[tokio::test]
async fn inserts_among_their_like_hold_beside_changes_of_the_same_pages() {
    let (queries, s) = session().await;
    let other = queries.session(&SessionOptions::default()).unwrap();
    let options = "layout = 'row', page_index = 'day', cluster_by = 'day'";
    run(&s, &format!("CREATE TABLE t (id INT PRIMARY KEY, day INT, n INT, s TEXT) WITH ({options})")).await;
    run(&s, "INSERT INTO t SELECT i, i / 10, 0, 'text of row ' || i FROM generate_series(1, 20000) AS g(i)")
        .await;
    let r = &mut Random::of_seed(11);
    let (mut next, mut held) = (100_000, 0);
    for case in 0..40u64 {
        let day = 1 + r.below(1990);
        let of_day = format!(
            "SELECT count(*), count(nullif(n, {case} + 1)) FROM t WHERE day BETWEEN {day} AND {day} + 1"
        );
        let before =
            lines(&s, &format!("SELECT count(*) FROM t WHERE day BETWEEN {day} AND {day} + 1")).await;
        let before: u64 = before[0].parse().unwrap();
        run(&other, "BEGIN").await;
        let change = format!("UPDATE t SET n = {case} + 1 WHERE day BETWEEN {day} AND {day} + 1");
        run(&other, &change).await;
        let inserted = r.below(30) * r.below(8);
        for _ in 0..inserted {
            run(&s, &format!("INSERT INTO t VALUES ({next}, {}, -1, 'new')", day + r.below(2))).await;
            next += 1;
        }
        let commits = other.execute("COMMIT").await;
        held += u64::from(commits.is_ok());
        let changed = if commits.is_ok() { before } else { 0 };
        let found = lines(&s, &of_day).await;
        let expected = format!("{},{}", before + inserted, before + inserted - changed);
        assert_eq!(found, [expected], "case {case}: {:?}", commits.err().map(|e| e.to_string()));
    }
    assert!(held >= 30, "{held} of 40 updates held");
    assert_eq!(s.database().check().unwrap(), Vec::<String>::new());
}
