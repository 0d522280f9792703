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
    assert!(refused.contains("auto, none, page_index, flixr_s or flixr_hs"), "{refused}");
    assert!(!refused.contains('\n'));
}
