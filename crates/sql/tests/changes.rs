//! Compares DELETE, UPDATE and INSERT ... SELECT with a simple model: vectors of rows, and a function of a few lines
//! of Rust for each statement. Tables are random, with NULLs and duplicates. The test runs at each offload level.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int32Type;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions, StatementResult};

/// A row of either table: `id` is unique, `k` and `v` may be NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    id: i32,
    k: Option<i32>,
    v: Option<i32>,
}

/// Tables `t` (which the statements change) and `u`.
#[derive(Clone, Debug)]
struct Model {
    t: Vec<Row>,
    u: Vec<Row>,
}

type Effect = fn(&mut Model) -> u64;

/// SQL's `x IN (list)`: `None` is unknown.
fn is_in(x: Option<i32>, list: impl Iterator<Item = Option<i32>>) -> Option<bool> {
    let (mut empty, mut unknown) = (true, x.is_none());
    for y in list {
        empty = false;
        match y {
            Some(_) if x.is_some() && x == y => return Some(true),
            None => unknown = true,
            Some(_) => {}
        }
    }
    if unknown && !empty { None } else { Some(false) }
}

fn delete(m: &mut Model, mut doomed: impl FnMut(&Row, &Model) -> Option<bool>) -> u64 {
    let before = m.clone();
    m.t.retain(|r| doomed(r, &before) != Some(true));
    (before.t.len() - m.t.len()) as u64
}

fn update(m: &mut Model, mut change: impl FnMut(&mut Row, &Model) -> bool) -> u64 {
    let before = m.clone();
    m.t.iter_mut().map(|r| u64::from(change(r, &before))).sum()
}

fn eq(a: Option<i32>, b: Option<i32>) -> Option<bool> {
    Some(a? == b?)
}

fn ks(rows: &[Row]) -> impl Iterator<Item = Option<i32>> {
    rows.iter().map(|r| r.k)
}

fn max(values: impl Iterator<Item = Option<i32>>) -> Option<i32> {
    values.flatten().max()
}

/// Each statement with its effect on the model.
const STATEMENTS: &[(&str, Effect)] = &[
    ("DELETE FROM t WHERE k = 3", |m| delete(m, |r, _| eq(r.k, Some(3)))),
    ("DELETE FROM t WHERE NOT (k = 3)", |m| delete(m, |r, _| eq(r.k, Some(3)).map(|b| !b))),
    ("DELETE FROM t WHERE k IS NULL OR v > 6", |m| {
        delete(m, |r, _| if r.k.is_none() { Some(true) } else { r.v.map(|v| v > 6) })
    }),
    ("DELETE FROM t WHERE k IN (SELECT k FROM u)", |m| delete(m, |r, m| is_in(r.k, ks(&m.u)))),
    ("DELETE FROM t WHERE k NOT IN (SELECT k FROM u)", |m| {
        delete(m, |r, m| is_in(r.k, ks(&m.u)).map(|b| !b))
    }),
    ("DELETE FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)", |m| {
        delete(m, |r, m| is_in(r.k, ks(&m.u).filter(Option::is_some)).map(|b| !b))
    }),
    ("DELETE FROM t WHERE k IN (SELECT k FROM u WHERE false)", |m| delete(m, |_, _| Some(false))),
    ("DELETE FROM t WHERE k IN (SELECT v FROM t)", |m| delete(m, |r, m| is_in(r.k, m.t.iter().map(|x| x.v)))),
    ("DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v > 3)", |m| {
        delete(m, |r, m| Some(m.u.iter().any(|u| eq(u.k, r.k) == Some(true) && u.v.is_some_and(|v| v > 3))))
    }),
    ("DELETE FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.k = t.k)", |m| {
        delete(m, |r, m| Some(!m.u.iter().any(|u| eq(u.k, r.k) == Some(true))))
    }),
    ("DELETE FROM t WHERE EXISTS (SELECT 1 FROM t AS x WHERE x.k = t.k AND x.id < t.id)", |m| {
        delete(m, |r, m| Some(m.t.iter().any(|x| eq(x.k, r.k) == Some(true) && x.id < r.id)))
    }),
    ("DELETE FROM t WHERE v = (SELECT max(v) FROM t)", |m| {
        delete(m, |r, m| eq(r.v, max(m.t.iter().map(|x| x.v))))
    }),
    ("DELETE FROM t WHERE v = (SELECT max(v) FROM t AS x WHERE x.k = t.k)", |m| {
        delete(m, |r, m| {
            let same = m.t.iter().filter(|x| eq(x.k, r.k) == Some(true));
            eq(r.v, max(same.map(|x| x.v)))
        })
    }),
    ("DELETE FROM t USING u WHERE t.k = u.k AND u.v = t.v", |m| {
        delete(m, |r, m| Some(m.u.iter().any(|u| eq(u.k, r.k) == Some(true) && eq(u.v, r.v) == Some(true))))
    }),
    ("DELETE FROM t AS a USING t AS b WHERE a.k = b.v", |m| {
        delete(m, |r, m| Some(m.t.iter().any(|b| eq(r.k, b.v) == Some(true))))
    }),
    ("DELETE FROM t ORDER BY id DESC LIMIT 5", |m| {
        let keep = m.t.len().saturating_sub(5);
        m.t.sort_unstable();
        let gone = m.t.len() - keep;
        m.t.truncate(keep);
        gone as u64
    }),
    ("DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY id LIMIT 3)", |m| {
        m.t.sort_unstable();
        let gone = m.t.len().min(3);
        m.t.drain(..gone);
        gone as u64
    }),
    // No part of this condition can be pushed to a scan.
    ("DELETE FROM t WHERE CASE WHEN sqrt(abs(coalesce(k, 0))) >= 2 THEN random() < 2 ELSE false END", |m| {
        delete(m, |r, _| Some(r.k.unwrap_or(0).abs() >= 4))
    }),
    ("DELETE FROM t WHERE NULL", |m| delete(m, |_, _| None)),
    ("DELETE FROM t WHERE id % 2 = 0 AND k IN (1, 2, NULL)", |m| {
        delete(m, |r, _| Some(r.id % 2 == 0 && matches!(r.k, Some(1 | 2))))
    }),
    ("UPDATE t SET v = v + 1", |m| {
        update(m, |r, _| {
            r.v = r.v.map(|v| v + 1);
            true
        })
    }),
    ("UPDATE t SET k = v, v = k WHERE id % 3 = 0", |m| {
        update(m, |r, _| {
            let hit = r.id % 3 == 0;
            if hit {
                std::mem::swap(&mut r.k, &mut r.v);
            }
            hit
        })
    }),
    ("UPDATE t SET v = NULL WHERE k IN (SELECT k FROM u)", |m| {
        update(m, |r, m| {
            let hit = is_in(r.k, ks(&m.u)) == Some(true);
            if hit {
                r.v = None;
            }
            hit
        })
    }),
    ("UPDATE t SET v = (SELECT max(v) FROM u WHERE u.k = t.k)", |m| {
        update(m, |r, m| {
            r.v = max(m.u.iter().filter(|u| eq(u.k, r.k) == Some(true)).map(|u| u.v));
            true
        })
    }),
    ("UPDATE t SET v = (SELECT count(*) FROM t) WHERE k NOT IN (SELECT v FROM u WHERE v IS NOT NULL)", |m| {
        update(m, |r, m| {
            let list = m.u.iter().map(|u| u.v).filter(Option::is_some);
            let hit = is_in(r.k, list) == Some(false);
            if hit {
                r.v = Some(m.t.len() as i32);
            }
            hit
        })
    }),
    ("UPDATE t SET v = x.n FROM (SELECT k, count(*) AS n FROM u GROUP BY k) AS x WHERE x.k = t.k", |m| {
        update(m, |r, m| {
            let n = m.u.iter().filter(|u| eq(u.k, r.k) == Some(true)).count();
            if n > 0 {
                r.v = Some(n as i32);
            }
            n > 0
        })
    }),
    ("UPDATE t AS a SET v = b.id FROM t AS b WHERE b.id = a.id + 1", |m| {
        update(m, |r, m| {
            let next = m.t.iter().any(|b| b.id == r.id + 1);
            if next {
                r.v = Some(r.id + 1);
            }
            next
        })
    }),
    ("UPDATE t SET k = 0 WHERE id IN (SELECT id FROM t ORDER BY id LIMIT 4)", |m| {
        m.t.sort_unstable();
        let n = m.t.len().min(4);
        m.t[..n].iter_mut().for_each(|r| r.k = Some(0));
        n as u64
    }),
    ("UPDATE t SET id = id + 1", |m| {
        update(m, |r, _| {
            r.id += 1;
            true
        })
    }),
    ("INSERT INTO t (v, id) SELECT k, id + (SELECT max(id) FROM t) + 1 FROM t WHERE k IS NOT NULL", |m| {
        let above = m.t.iter().map(|r| r.id).max().unwrap_or(0) + 1;
        let full = m.t.iter().filter(|r| r.k.is_some());
        let new: Vec<Row> = full.map(|r| Row { id: r.id + above, k: None, v: r.k }).collect();
        m.t.extend(&new);
        new.len() as u64
    }),
];

/// A random number generator. The same seed gives the same tables on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn maybe(&mut self, sides: u64) -> Option<i32> {
        if self.roll(5) == 0 { None } else { Some(self.roll(sides) as i32) }
    }

    fn rows(&mut self, count: u64) -> Vec<Row> {
        (0..count).map(|id| Row { id: id as i32, k: self.maybe(8), v: self.maybe(10) }).collect()
    }
}

fn session(offload: Offload) -> Session {
    let db = Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, offload, ..SessionOptions::default() };
    Queries::new(db, 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

fn insert_statement(table: &str, rows: &[Row]) -> String {
    let text = |v: Option<i32>| v.map_or_else(|| "NULL".to_owned(), |v| v.to_string());
    let values: Vec<String> =
        rows.iter().map(|r| format!("({}, {}, {})", r.id, text(r.k), text(r.v))).collect();
    format!("INSERT INTO {table} VALUES {}", values.join(", "))
}

async fn read(session: &Session, table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in session.collect(&format!("SELECT id, k, v FROM {table}")).await.unwrap() {
        let column = |i: usize| batch.column(i).as_primitive::<Int32Type>().clone();
        let (id, k, v) = (column(0), column(1), column(2));
        for r in 0..batch.num_rows() {
            let value = |a: &datafusion::arrow::array::Int32Array| a.is_valid(r).then(|| a.value(r));
            rows.push(Row { id: id.value(r), k: value(&k), v: value(&v) });
        }
    }
    rows.sort_unstable();
    rows
}

/// Starts from the tables of `seed` and runs `count` random statements, with a comparison after each.
async fn walk(offload: Offload, seed: u64, layout: &str, sizes: (u64, u64), count: usize) {
    let mut dice = Dice(seed);
    let mut model = Model { t: dice.rows(sizes.0), u: dice.rows(sizes.1) };
    let session = session(offload);
    for (name, rows) in [("t", &model.t), ("u", &model.u)] {
        let create =
            format!("CREATE TABLE {name} (id INT PRIMARY KEY, k INT, v INT) WITH (layout = '{layout}')");
        session.execute(&create).await.unwrap();
        if !rows.is_empty() {
            session.execute(&insert_statement(name, rows)).await.unwrap();
        }
    }
    let mut history = BTreeMap::new();
    for step in 0..count {
        let (sql, effect) = STATEMENTS[dice.roll(STATEMENTS.len() as u64) as usize];
        history.insert(step, sql);
        let context = || format!("offload {offload}, seed {seed}, after {history:#?}");
        let expected = effect(&mut model);
        match session.execute(sql).await.unwrap_or_else(|e| panic!("{e}; {}", context())).pop() {
            Some(StatementResult::Count { rows, .. }) => assert_eq!(rows, expected, "{}", context()),
            other => panic!("{other:?}; {}", context()),
        }
        model.t.sort_unstable();
        assert_eq!(read(&session, "t").await, model.t, "{}", context());
        assert_eq!(read(&session, "u").await, model.u, "{}", context());
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

/// Each statement on its own, from fresh tables.
fn each_statement(offload: Offload) {
    run(async {
        for (i, (sql, effect)) in STATEMENTS.iter().enumerate() {
            let mut dice = Dice(i as u64);
            let mut model = Model { t: dice.rows(40), u: dice.rows(6) };
            let session = session(offload);
            for (name, rows) in [("t", &model.t), ("u", &model.u)] {
                let create = format!("CREATE TABLE {name} (id INT PRIMARY KEY, k INT, v INT)");
                session.execute(&create).await.unwrap();
                session.execute(&insert_statement(name, rows)).await.unwrap();
            }
            let expected = effect(&mut model);
            let result = session.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).pop();
            assert!(
                matches!(result, Some(StatementResult::Count { rows, .. }) if rows == expected),
                "offload {offload}: {sql}: {result:?}, expected {expected}"
            );
            model.t.sort_unstable();
            assert_eq!(read(&session, "t").await, model.t, "offload {offload}: {sql}");
        }
    });
}

#[test]
fn each_statement_changes_what_it_means_on_the_host() {
    each_statement(Offload::Off);
}

#[test]
fn each_statement_changes_what_it_means_in_the_drive() {
    each_statement(Offload::Rows);
}

#[test]
fn walks_of_statements_stay_with_the_model() {
    run(async {
        let levels = [Offload::Off, Offload::Index, Offload::Pages, Offload::Rows, Offload::Auto];
        for (seed, offload) in (1..).zip(levels) {
            walk(offload, seed, "auto", (60, 8), 12).await;
            walk(offload, seed + 100, "row", (700, 5), 6).await;
            // With an empty list, NOT IN is true, also for NULL.
            walk(offload, seed + 200, "auto", (20, 0), 6).await;
        }
    });
}
