//! `ON DELETE CASCADE` and `SET NULL`, as in PostgreSQL's documentation (5.5.5), and compared with a model. In the
//! model, the deleted rows are closed over cascading keys. In the remaining rows, keys with SET NULL that named a
//! deleted row are NULL, and no other key may name a deleted row.
//!
//! `LODE_CASES=500` runs more rounds, `LODE_SEED=7` another sequence.

#[allow(dead_code, reason = "each test uses its part")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions, StatementResult};
use support::lines;

fn database() -> Database {
    Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap()
}

fn session(db: &Database) -> Session {
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    Queries::new(db.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

/// The answer to a changing statement: the number of rows, a word, or the SQLSTATE of its error.
async fn change(s: &Session, sql: &str) -> String {
    match s.execute(sql).await {
        Ok(results) => match results.last() {
            Some(StatementResult::Count { rows, .. }) => rows.to_string(),
            _ => "done".into(),
        },
        Err(e) => e.sqlstate().to_owned(),
    }
}

/// The rows of a query, `a,b a,b ...`, in its order.
async fn ask(s: &Session, sql: &str) -> String {
    lines(s, sql).await.join(" ")
}

/// Runs lines of the form `statement -> answer`. The answer to a SELECT is its rows.
async fn script(s: &Session, text: &str) {
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("--")) {
        let (sql, expected) = line.split_once(" -> ").unwrap_or((line, "done"));
        let got = if sql.starts_with("SELECT") { ask(s, sql).await } else { change(s, sql).await };
        assert_eq!(got, expected.trim(), "{line}");
    }
}

#[tokio::test]
async fn the_documentation_s_orders() {
    let db = database();
    let s = session(&db);
    script(
        &s,
        "CREATE TABLE products (product_no INT PRIMARY KEY, name TEXT, price DECIMAL(8,2))
         CREATE TABLE orders (order_id INT PRIMARY KEY, shipping_address TEXT)
         CREATE TABLE order_items (product_no INT REFERENCES products ON DELETE RESTRICT, order_id INT REFERENCES orders ON DELETE CASCADE, quantity INT, PRIMARY KEY (product_no, order_id))
         INSERT INTO products VALUES (1, 'cheese', 9.99), (2, 'bread', 1.99), (3, 'milk', 2.99) -> 3
         INSERT INTO orders VALUES (10, 'here'), (11, 'there') -> 2
         INSERT INTO order_items VALUES (1, 10, 5), (2, 10, 1), (2, 11, 7) -> 3
         -- A product that is in an order stays; an order goes with its items, of which the count says nothing.
         DELETE FROM products WHERE product_no = 2 -> 23503
         DELETE FROM orders WHERE order_id = 10 -> 1
         SELECT product_no, order_id FROM order_items ORDER BY 1 -> 2,11
         DELETE FROM products WHERE product_no = 1 -> 1
         DELETE FROM products -> 23503
         SELECT count(*) FROM products -> 2
         -- Each statement of a transaction is checked at its end.
         BEGIN
         DELETE FROM products WHERE product_no = 2 -> 23503
         ROLLBACK
         BEGIN
         DELETE FROM orders USING order_items WHERE orders.order_id = 11 OR quantity = 7 -> 1
         SELECT count(*) FROM order_items -> 0
         DELETE FROM products WHERE product_no = 2 -> 1
         COMMIT
         SELECT count(*) FROM products -> 1",
    )
    .await;
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn keys_are_set_null_where_that_is_allowed() {
    let db = database();
    let s = session(&db);
    script(
        &s,
        "CREATE TABLE p (a INT, b TEXT, u INT UNIQUE, PRIMARY KEY (a, b))
         CREATE TABLE c (k INT PRIMARY KEY, a INT, b TEXT, note TEXT, FOREIGN KEY (a, b) REFERENCES p ON DELETE SET NULL)
         CREATE TABLE strict (k INT PRIMARY KEY, u INT NOT NULL REFERENCES p (u) ON DELETE SET NULL)
         CREATE TABLE checked (k INT PRIMARY KEY, u INT REFERENCES p (u) ON DELETE SET NULL, v INT, CHECK (u IS NOT NULL OR v > 5))
         INSERT INTO p VALUES (1, 'x', 10), (1, 'y', 11), (2, 'x', 12), (3, 'z', NULL) -> 4
         INSERT INTO c VALUES (1, 1, 'x', 'n1'), (2, 1, 'y', 'n2'), (3, 1, NULL, 'n3'), (4, NULL, NULL, 'n4'), (5, 2, 'x', 'n5') -> 5
         DELETE FROM p WHERE a = 1 AND b = 'x' -> 1
         SELECT k, a, b, note FROM c ORDER BY k -> 1,,,n1 2,1,y,n2 3,1,,n3 4,,,n4 5,2,x,n5
         -- A column that may not be NULL, and a condition that would not hold: nothing happens.
         INSERT INTO strict VALUES (1, 12) -> 1
         DELETE FROM p WHERE a = 2 -> 23502
         SELECT k, a, b FROM c WHERE k = 5 -> 5,2,x
         DELETE FROM strict -> 1
         INSERT INTO checked VALUES (1, 12, 9), (2, 11, 1) -> 2
         DELETE FROM p WHERE a = 1 -> 23514
         SELECT count(*) FROM p -> 3
         DELETE FROM p WHERE a <> 1 -> 2
         SELECT k, u, v FROM checked ORDER BY k -> 1,,9 2,11,1
         SELECT k, a FROM c ORDER BY k -> 1, 2,1 3,1 4, 5,
         -- A transaction that failed within is as any that failed.
         BEGIN
         DELETE FROM p -> 23514
         DELETE FROM c -> 25P02
         ROLLBACK
         SELECT count(*) FROM c -> 5",
    )
    .await
}

#[tokio::test]
async fn tables_that_reference_themselves_and_each_other_come_to_an_end() {
    let db = database();
    let s = session(&db);
    script(
        &s,
        "CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree (id) ON DELETE CASCADE)
         INSERT INTO tree SELECT value, CASE WHEN value = 1 THEN NULL ELSE value - 1 END FROM generate_series(1, 40) AS value -> 40
         INSERT INTO tree VALUES (100, 100), (101, 102), (102, 101) -> 3
         DELETE FROM tree WHERE id = 31 -> 1
         SELECT count(*), max(id) FROM tree WHERE id < 100 -> 30,30
         DELETE FROM tree WHERE id IN (100, 101) -> 2
         SELECT count(*), max(id) FROM tree -> 30,30
         DELETE FROM tree WHERE id = 1 -> 1
         SELECT count(*) FROM tree -> 0
         CREATE TABLE chain (id INT PRIMARY KEY, up INT REFERENCES chain (id) ON DELETE SET NULL)
         INSERT INTO chain VALUES (1, NULL), (2, 1), (3, 2), (4, 3) -> 4
         DELETE FROM chain WHERE id IN (1, 3) -> 2
         SELECT id, up FROM chain ORDER BY id -> 2, 4,
         -- What references without an action, below what cascades.
         CREATE TABLE a (id INT PRIMARY KEY)
         CREATE TABLE b (id INT PRIMARY KEY, a INT REFERENCES a ON DELETE CASCADE)
         CREATE TABLE e (id INT PRIMARY KEY, b INT REFERENCES b, a INT REFERENCES a ON DELETE CASCADE)
         INSERT INTO a VALUES (1), (2), (3) -> 3
         INSERT INTO b VALUES (1, 1), (2, 2), (3, 3) -> 3
         INSERT INTO e VALUES (1, 1, 2), (2, 2, 2) -> 2
         DELETE FROM a WHERE id = 1 -> 23503
         SELECT count(*) FROM b -> 3
         -- Here it cascades another way.
         DELETE FROM a WHERE id = 2 -> 1
         SELECT id FROM b ORDER BY id -> 1 3
         SELECT count(*) FROM e -> 0
         TRUNCATE a -> 0A000
         TRUNCATE b -> 0A000
         DROP TABLE a -> 2BP01",
    )
    .await;
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_see_what_was_deleted_and_others_are_waited_for() {
    let drive = Drive::in_memory(256 << 20);
    let open = || Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).unwrap();
    let db = open();
    let (s, other) = (session(&db), session(&db));
    script(
        &s,
        "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE)
         CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE, u INT REFERENCES p (u) ON DELETE SET NULL)
         INSERT INTO p SELECT value, value * 10 FROM generate_series(1, 2000) AS value -> 2000
         SET lode.bulk_rows = 1000
         INSERT INTO c SELECT value, 1 + value % 2000, 10 * (1 + value % 1999) FROM generate_series(1, 6000) AS value -> 6000
         BEGIN
         INSERT INTO c VALUES (7001, 5, NULL), (7002, NULL, 50), (7003, 5, 50) -> 3
         UPDATE c SET p = 5 WHERE k = 1 -> 1
         SAVEPOINT before
         DELETE FROM p WHERE id = 5 -> 1
         SELECT count(*) FROM c WHERE p = 5 OR u = 50 OR k IN (1, 7001, 7003) -> 0
         SELECT k, u FROM c WHERE k = 7002 -> 7002,
         ROLLBACK TO before
         SELECT count(*) FROM c WHERE k IN (1, 7001, 7003) -> 3
         DELETE FROM p WHERE id = 5 -> 1
         -- The same key again: nothing comes back to it.
         INSERT INTO p VALUES (5, 50) -> 1
         COMMIT
         SELECT count(*) FROM c WHERE p = 5 OR u = 50 -> 0
         -- A key that was changed is no key that was deleted.
         BEGIN
         UPDATE p SET id = 9006 WHERE id = 6 -> 23503
         ROLLBACK
         SELECT count(*) FROM p WHERE id = 6 -> 1",
    )
    .await;
    // Another session inserted a child that the transaction's snapshot does not show, so the transaction must run
    // again.
    script(&s, "BEGIN\nDELETE FROM p WHERE id = 7 -> 1").await;
    script(&other, "INSERT INTO c VALUES (8001, 7, NULL) -> 1").await;
    script(&s, "COMMIT -> 40001\nSELECT count(*) FROM p WHERE id = 7 -> 1").await;
    script(&s, "DELETE FROM p WHERE id = 7 -> 1\nSELECT count(*) FROM c WHERE k = 8001 -> 0").await;
    // A child inserted after it finds no parent.
    script(&other, "BEGIN\nINSERT INTO c VALUES (8002, 8, NULL) -> 1").await;
    script(&s, "DELETE FROM p WHERE id = 8 -> 1").await;
    script(&other, "COMMIT -> 23503").await;
    let text = ask(&s, "SHOW CREATE TABLE c").await;
    assert!(text.contains("ON DELETE CASCADE") && text.contains("ON DELETE SET NULL"), "{text}");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    drop((s, other, db));
    let db = open();
    let s = session(&db);
    assert_eq!(ask(&s, "SHOW CREATE TABLE c").await, text);
    script(
        &s,
        "DELETE FROM p WHERE id > 1000 -> 1000\nSELECT count(*) FROM c WHERE p > 1000 OR u > 10000 -> 0",
    )
    .await;
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

/// The foreign keys: child, its column, parent.
const KEYS: [(&str, usize, &str); 4] = [("c", 1, "p"), ("d", 1, "c"), ("d", 2, "d"), ("d", 3, "p")];
const ACTIONS: [&str; 3] = ["NO ACTION", "CASCADE", "SET NULL"];

/// Rows by table and id.
type Model = BTreeMap<&'static str, BTreeMap<u64, [Option<u64>; 4]>>;

/// The model after a DELETE. `None` if a row would name a deleted one.
fn after(model: &Model, actions: &[usize; 4], table: &'static str, ids: &BTreeSet<u64>) -> Option<Model> {
    let mut gone: BTreeSet<(&str, u64)> =
        model[table].keys().filter(|id| ids.contains(id)).map(|&id| (table, id)).collect();
    loop {
        let before = gone.len();
        for (&(child, at, parent), &action) in KEYS.iter().zip(actions) {
            let names_gone = |row: &[Option<u64>; 4]| row[at].is_some_and(|id| gone.contains(&(parent, id)));
            if ACTIONS[action] == "CASCADE" {
                let more: Vec<_> = model[child].iter().filter(|(_, row)| names_gone(row)).collect();
                gone.extend(more.into_iter().map(|(&id, _)| (child, id)));
            }
        }
        if gone.len() == before {
            break;
        }
    }
    let mut left = model.clone();
    left.iter_mut().for_each(|(&t, rows)| rows.retain(|&id, _| !gone.contains(&(t, id))));
    for (&(child, at, parent), &action) in KEYS.iter().zip(actions) {
        for row in left.get_mut(child).unwrap().values_mut() {
            if row[at].is_some_and(|id| gone.contains(&(parent, id))) {
                if ACTIONS[action] != "SET NULL" {
                    return None;
                }
                row[at] = None;
            }
        }
    }
    Some(left)
}

async fn state(s: &Session) -> Model {
    let mut model = Model::new();
    for (table, columns) in
        [("p", "NULL::INT, NULL::INT, NULL::INT"), ("c", "p, NULL::INT, NULL::INT"), ("d", "c, up, p")]
    {
        let sql = format!("SELECT id, {columns} FROM {table} ORDER BY id");
        let text = ask(s, &sql).await;
        let row = |line: &str| {
            let values: Vec<Option<u64>> = line.split(',').map(|v| v.parse().ok()).collect();
            (values[0].unwrap(), [values[0], values[1], values[2], values[3]])
        };
        model.insert(table, text.split(' ').filter(|l| !l.is_empty()).map(row).collect());
    }
    model
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_keys_do_as_the_model_does() {
    let number = |name: &str, or: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or);
    let (rounds, seed) = (number("LODE_CASES", 12), number("LODE_SEED", 1));
    let mut r = Random::of_seed(seed);
    let (mut refused, mut followed) = (0, 0);
    for round in 0..rounds {
        let db = database();
        let s = session(&db);
        let actions: [usize; 4] = [(); 4].map(|()| r.below(3) as usize);
        let on = |i: usize| format!("ON DELETE {}", ACTIONS[actions[i]]);
        let create = format!(
            "CREATE TABLE p (id INT PRIMARY KEY); \
             CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p {}); \
             CREATE TABLE d (id INT PRIMARY KEY, c INT REFERENCES c {}, up INT REFERENCES d (id) {}, p INT REFERENCES p {}); \
             INSERT INTO p SELECT value FROM generate_series(1, 30) AS value; \
             INSERT INTO c SELECT value, CASE WHEN value % 4 = 0 THEN NULL ELSE 1 + value * 7 % 30 END FROM generate_series(1, 60) AS value; \
             INSERT INTO d SELECT value, CASE WHEN value % 5 = 0 THEN NULL ELSE 1 + value * 11 % 60 END, \
               CASE WHEN value % 3 = 0 THEN NULL ELSE 1 + value * 31 % 200 END, \
               CASE WHEN value % 2 = 0 THEN NULL ELSE 1 + value * 13 % 30 END FROM generate_series(1, 200) AS value",
            on(0),
            on(1),
            on(2),
            on(3)
        );
        s.execute(&create).await.unwrap_or_else(|e| panic!("{e}"));
        let mut model = state(&s).await;
        for _ in 0..8 {
            s.set_offload(Offload::ALL[r.below(6) as usize]);
            let table = ["p", "c", "d", "d"][r.below(4) as usize];
            let (modulus, rest) = (8 + r.below(40), r.below(8));
            let ids = (0..=200).filter(|id| id % modulus == rest).collect();
            let sql = format!("DELETE FROM {table} WHERE id % {modulus} = {rest}");
            let count = model[table].keys().filter(|id| *id % modulus == rest).count().to_string();
            let when = format!("seed {seed}, round {round}, {:?}: {sql}", actions.map(|a| ACTIONS[a]));
            let next = after(&model, &actions, table, &ids);
            let within = r.below(2) == 0;
            let mut got = if within {
                assert_eq!(change(&s, "BEGIN").await, "done");
                let got = change(&s, &sql).await;
                if let Some(next) = &next {
                    assert_eq!(got, count, "{when}");
                    assert_eq!(state(&s).await, *next, "{when}, within the transaction");
                }
                let committed = change(&s, "COMMIT").await;
                if next.is_some() { committed } else { got }
            } else {
                change(&s, &sql).await
            };
            if within && got == "done" {
                got = count.clone();
            }
            match next {
                Some(next) => {
                    assert_eq!(got, count, "{when}");
                    followed += 1;
                    model = next;
                }
                None => {
                    assert_eq!(got, "23503", "{when}");
                    refused += 1;
                }
            }
            assert_eq!(state(&s).await, model, "{when}");
        }
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
    println!("{followed} statements were followed, {refused} refused");
    assert!(followed > rounds && refused > rounds, "{followed} followed, {refused} refused");
}
