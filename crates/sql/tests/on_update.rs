//! `ON UPDATE CASCADE` and `SET NULL`, and statements with an action within transactions.

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions, StatementResult};

fn session(db: &Database) -> Session {
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    Queries::new(db.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

/// Runs lines of the form `statement -> answer`: rows of a SELECT, the number of changed rows, or the SQLSTATE of an error.
async fn script(s: &Session, text: &str) {
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("--")) {
        let (sql, expected) = line.split_once(" -> ").unwrap_or((line, "done"));
        let got = if sql.starts_with("SELECT") {
            let batches = s.collect(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            let rows = batches.iter().flat_map(|b| (0..b.num_rows()).map(move |row| (b, row)));
            let shown = rows.map(|(b, row)| {
                let values = b.columns().iter().map(|c| array_value_to_string(c, row).unwrap());
                values.collect::<Vec<_>>().join(",")
            });
            shown.collect::<Vec<_>>().join(" ")
        } else {
            match s.execute(sql).await {
                Ok(results) => match results.last() {
                    Some(StatementResult::Count { rows, .. }) => rows.to_string(),
                    _ => "done".into(),
                },
                Err(e) => e.sqlstate().to_owned(),
            }
        };
        assert_eq!(got, expected.trim(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_follow_their_parents_keys() {
    for changes in ["delta", "pages"] {
        let drive = Drive::in_memory(256 << 20);
        let db = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
        let s = session(&db);
        script(&s, &format!("SET lode.default_changes = '{changes}'")).await;
        script(
            &s,
            "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE, v INT)
             CREATE TABLE c (k INT PRIMARY KEY REFERENCES p ON UPDATE CASCADE, u INT REFERENCES p (u) ON UPDATE SET NULL ON DELETE CASCADE)
             CREATE TABLE g (k INT PRIMARY KEY, c INT REFERENCES c ON UPDATE CASCADE CHECK (c < 900))
             INSERT INTO p SELECT value, value * 10, 0 FROM generate_series(1, 5) AS value -> 5
             INSERT INTO c SELECT value, value * 10 FROM generate_series(1, 4) AS value -> 4
             INSERT INTO g VALUES (1, 1), (2, 1), (3, 2), (4, NULL) -> 4
             -- By key, and many at once: keys move from row to row.
             UPDATE p SET id = 100 WHERE id = 1 -> 1
             SELECT k FROM c ORDER BY k -> 2 3 4 100
             SELECT k, c FROM g ORDER BY k -> 1,100 2,100 3,2 4,
             UPDATE p SET id = id + 1 WHERE id < 10 -> 4
             SELECT k FROM c ORDER BY k -> 3 4 5 100
             SELECT k, c FROM g ORDER BY k -> 1,100 2,100 3,3 4,
             -- What stays as it is sets nothing to NULL.
             UPDATE p SET u = u, v = 1 -> 5
             SELECT count(*) FROM c WHERE u IS NULL -> 0
             UPDATE p SET u = u + 1 WHERE id > 4 -> 3
             SELECT k, u FROM c ORDER BY k -> 3,20 4,30 5, 100,
             -- A CHECK of a row further down, and nothing is changed.
             UPDATE p SET id = 1000 WHERE id = 100 -> 23514
             SELECT id FROM p ORDER BY id -> 3 4 5 6 100
             BEGIN
             SAVEPOINT s
             UPDATE p SET id = 1000 WHERE id = 100 -> 23514
             ROLLBACK TO s
             UPDATE p SET id = 200, u = NULL WHERE id = 100 -> 1
             SELECT c FROM g WHERE k < 3 ORDER BY k -> 200 200
             COMMIT
             SELECT id FROM p ORDER BY id -> 3 4 5 6 200
             SELECT k FROM c ORDER BY k -> 3 4 5 200
             -- A generated column follows the column that follows: found by reading, no seed.
             CREATE TABLE made (k INT REFERENCES p ON UPDATE CASCADE, twice INT GENERATED ALWAYS AS (k * 2) STORED)
             INSERT INTO made (k) VALUES (4) -> 1
             UPDATE p SET id = 40 WHERE id = 4 -> 1
             SELECT k, twice FROM made -> 40,80
             UPDATE p SET id = 4 WHERE id = 40 -> 1
             SELECT k, twice FROM made -> 4,8
             DROP TABLE made
             -- Without an action, as before.
             CREATE TABLE strict (k INT REFERENCES p ON UPDATE RESTRICT)
             INSERT INTO strict VALUES (6) -> 1
             UPDATE p SET id = 7 WHERE id = 6 -> 23503
             UPDATE p SET id = 8 WHERE id = 5 -> 1",
        )
        .await;
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_reference_themselves_and_others_that_commit() {
    let drive = Drive::in_memory(256 << 20);
    let open = || Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).unwrap();
    let db = open();
    let (s, other) = (session(&db), session(&db));
    script(
        &s,
        "CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree (id) ON UPDATE CASCADE)
         INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 4) -> 4
         UPDATE tree SET id = id + 1 -> 4
         SELECT id, up FROM tree ORDER BY id -> 2, 3,2 4,3 5,5
         UPDATE tree SET id = 9 - id WHERE id IN (4, 5) -> 2
         SELECT id, up FROM tree ORDER BY id -> 2, 3,2 4,4 5,3
         CREATE TABLE p (id INT PRIMARY KEY)
         CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p ON UPDATE CASCADE)
         INSERT INTO p VALUES (1), (2) -> 2
         BEGIN
         UPDATE p SET id = 10 WHERE id = 1 -> 1",
    )
    .await;
    // A child that the transaction's snapshot does not show: the transaction must run again.
    script(&other, "INSERT INTO c VALUES (1, 1) -> 1").await;
    script(&s, "COMMIT -> 40001\nUPDATE p SET id = 10 WHERE id = 1 -> 1\nSELECT p FROM c -> 10").await;
    let text = "SHOW CREATE TABLE c";
    let shown = format!("{:?}", s.collect(text).await.unwrap());
    assert!(shown.contains("ON UPDATE CASCADE"), "{shown}");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    drop((s, other, db));
    let s = session(&open());
    script(&s, "UPDATE p SET id = 11 WHERE id = 10 -> 1\nSELECT p FROM c -> 11").await;
}
