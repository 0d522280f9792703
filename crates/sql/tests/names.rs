//! Schemas, search_path, temporary relations, views and settings where the scripts beside PostgreSQL do not reach: several openings,
//! prepared statements, short statements, names that hide each other.

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, ScalarValue, Session, SessionOptions, StatementResult};

fn opened(drive: &Arc<Drive>) -> Queries {
    let db = Database::open(drive.clone(), DatabaseOptions::default()).unwrap();
    Queries::new(db, 1 << 28).unwrap()
}

fn drive() -> Arc<Drive> {
    Arc::new(Drive::in_memory(256 << 20))
}

fn session(queries: &Queries) -> Session {
    queries.session(&SessionOptions::default()).unwrap()
}

/// The rows of the last statement, or its SQLSTATE.
async fn ask(session: &Session, sql: &str) -> String {
    let result = match session.execute(sql).await {
        Ok(mut results) => results.pop(),
        Err(e) => return e.sqlstate().to_owned(),
    };
    rows(result).await
}

async fn rows(result: Option<StatementResult>) -> String {
    let Some(StatementResult::Rows { stream, .. }) = result else { return format!("{result:?}") };
    let batches = match datafusion::physical_plan::common::collect(stream).await {
        Ok(batches) => batches,
        Err(e) => return lode_sql::SqlError::from(e).sqlstate().to_owned(),
    };
    let mut lines = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap());
            lines.push(values.collect::<Vec<_>>().join(" "));
        }
    }
    lines.join("; ")
}

async fn check(session: &Session, sql: &str, expected: &str) {
    assert_eq!(ask(session, sql).await, expected, "{sql}");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_relations_go_with_their_session_and_what_a_crash_leaves_goes_at_the_next_opening() {
    let drive = drive();
    let queries = opened(&drive);
    let a = session(&queries);
    a.execute("CREATE TEMP TABLE t (a INT); INSERT INTO t VALUES (1); CREATE TEMP SEQUENCE s; CREATE TEMP VIEW v AS SELECT a FROM t")
        .await
        .unwrap();
    let count = |queries: &Queries| {
        let db = session(queries).database().snapshot().unwrap();
        db.tables().count()
    };
    assert_eq!(count(&queries), 1);
    drop(a);
    assert_eq!(count(&queries), 0, "the table goes with its session");
    let b = session(&queries);
    b.execute("CREATE TEMP TABLE t (a INT)").await.unwrap();
    // The session is not told that the process ends.
    std::mem::forget(b);
    let again = opened(&drive);
    // The number of the session that was forgotten is still taken in this process: another process would begin anew.
    assert!(count(&again) <= 1);
    let c = session(&again);
    check(&c, "SELECT * FROM t", "42P01").await;
    check(&c, "CREATE TEMP TABLE t (b INT)", "Some(CREATE TABLE)").await;
    check(&c, "SELECT * FROM t", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_follows_search_path_and_temporary_tables() {
    let queries = opened(&drive());
    let s = session(&queries);
    s.execute(
        "CREATE SCHEMA a; CREATE SCHEMA b;
         CREATE TABLE a.t (id INT PRIMARY KEY, v TEXT); INSERT INTO a.t VALUES (1, 'a');
         CREATE TABLE b.t (id INT PRIMARY KEY, v TEXT); INSERT INTO b.t VALUES (1, 'b');
         SET search_path = a",
    )
    .await
    .unwrap();
    let prepared = s.prepare("SELECT v FROM t WHERE id = $1").await.unwrap();
    let run = async |expected: &str| {
        let result = s.execute_prepared(&prepared, &[ScalarValue::Int32(Some(1))]).await;
        assert_eq!(rows(Some(result.unwrap())).await, expected);
    };
    run("a").await;
    s.execute("SET search_path = b, a").await.unwrap();
    run("b").await;
    s.execute("CREATE TEMP TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'temporary')")
        .await
        .unwrap();
    run("temporary").await;
    s.execute("DROP TABLE t; SET search_path = a").await.unwrap();
    run("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn short_statements_find_the_table_of_the_path() {
    let queries = opened(&drive());
    let s = session(&queries);
    s.execute(
        "CREATE SCHEMA a; CREATE TABLE a.t (id INT PRIMARY KEY, v TEXT); INSERT INTO a.t VALUES (1, 'a');
         CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'public')",
    )
    .await
    .unwrap();
    check(&s, "SELECT v FROM t WHERE id = 1", "public").await;
    check(&s, "SELECT v FROM a.t WHERE id = 1", "a").await;
    assert!(s.last_counts().short, "a name with a schema is short too");
    check(&s, "SET search_path = a; SELECT v FROM t WHERE id = 1", "a").await;
    assert!(s.last_counts().short, "a path other than the default keeps statements short");
    check(&s, "UPDATE t SET v = 'changed' WHERE id = 1; SELECT v FROM a.t WHERE id = 1", "changed").await;
    check(&s, "SELECT v FROM public.t WHERE id = 1", "public").await;
    check(&s, "SELECT x.v, y.v FROM t x JOIN public.t y ON y.id = x.id WHERE x.id = 1", "changed public")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_with_and_names_of_tables_are_told_apart() {
    let queries = opened(&drive());
    let s = session(&queries);
    s.execute(
        "CREATE SCHEMA a; CREATE TABLE a.t (v INT); INSERT INTO a.t VALUES (1), (2); SET search_path = a",
    )
    .await
    .unwrap();
    check(&s, "WITH t AS (SELECT max(v) AS v FROM t) SELECT v FROM t", "2").await;
    check(&s, "WITH w AS (SELECT v FROM t), t AS (SELECT v + 10 AS v FROM w) SELECT sum(v) FROM t", "23")
        .await;
    check(&s, "SELECT (SELECT count(*) FROM t) + count(*) FROM generate_series(1, 3) AS t", "5").await;
    check(&s, "WITH t AS (SELECT 7 AS v) SELECT v FROM a.t WHERE v IN (SELECT v - 5 FROM t)", "2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_follows_what_it_reads_and_sees_no_column_that_came_later() {
    let queries = opened(&drive());
    let s = session(&queries);
    s.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b INT); INSERT INTO t VALUES (1, 'x', 5);
         CREATE VIEW all_of AS SELECT * FROM t; CREATE VIEW chosen AS SELECT b AS n FROM t WHERE a = 'x';
         CREATE VIEW over AS SELECT n + 1 AS m FROM chosen",
    )
    .await
    .unwrap();
    s.execute("ALTER TABLE t RENAME COLUMN b TO c; ALTER TABLE t ADD COLUMN d INT DEFAULT 9; ALTER TABLE t RENAME TO u")
        .await
        .unwrap();
    check(&s, "SELECT * FROM all_of", "1 x 5").await;
    check(&s, "SELECT m FROM over", "6").await;
    s.execute("ALTER VIEW chosen RENAME COLUMN n TO number; ALTER VIEW chosen RENAME TO few").await.unwrap();
    check(&s, "SELECT m FROM over", "6").await;
    check(&s, "SELECT number FROM few", "5").await;
    check(&s, "ALTER TABLE u ALTER COLUMN c TYPE BIGINT", "0A000").await;
    check(&s, "ALTER TABLE u ALTER COLUMN d TYPE BIGINT", "Some(ALTER TABLE)").await;
    check(&s, "ALTER TABLE u DROP COLUMN d", "Some(ALTER TABLE)").await;
    check(&s, "ALTER TABLE u DROP COLUMN a", "2BP01").await;
    check(&s, "CREATE OR REPLACE VIEW few AS SELECT m AS number FROM over", "42P17").await;
    check(&s, "DROP VIEW few CASCADE; SELECT m FROM over", "42P01").await;
    check(&s, "SELECT * FROM all_of", "1 x 5").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_settings_back_to_where_they_were() {
    let queries = opened(&drive());
    let s = session(&queries);
    s.execute(
        "SET lode.bulk_rows = 10; BEGIN; SET lode.bulk_rows = 20; SAVEPOINT a; SET lode.bulk_rows = 30",
    )
    .await
    .unwrap();
    check(&s, "SHOW lode.bulk_rows", "lode.bulk_rows 30").await;
    check(&s, "ROLLBACK TO a; SHOW lode.bulk_rows", "lode.bulk_rows 20").await;
    check(&s, "SET LOCAL lode.bulk_rows = 40; SHOW lode.bulk_rows", "lode.bulk_rows 40").await;
    check(&s, "COMMIT; SHOW lode.bulk_rows", "lode.bulk_rows 20").await;
    check(&s, "BEGIN; SET lode.bulk_rows = 50; ROLLBACK; SHOW lode.bulk_rows", "lode.bulk_rows 20").await;
    check(&s, "SET LOCAL lode.bulk_rows = 60; SHOW lode.bulk_rows", "lode.bulk_rows 20").await;
    check(&s, "SET client_encoding = 'LATIN1'", "0A000").await;
    check(&s, "SET nosuch = 1", "42704").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_another_type_keeps_its_place_keys_and_references() {
    let drive = drive();
    let queries = opened(&drive);
    let s = session(&queries);
    s.execute(
        "CREATE TABLE p (a TEXT, id INTEGER PRIMARY KEY, u INTEGER UNIQUE, n SERIAL);
         INSERT INTO p (a, id, u) SELECT 'r' || i, i, i * 2 FROM generate_series(1, 500) AS i;
         CREATE INDEX by_u ON p (u, a)",
    )
    .await
    .unwrap();
    let old = session(&queries);
    old.execute("BEGIN; SELECT 1").await.unwrap();
    s.execute(
        "ALTER TABLE p ALTER COLUMN id TYPE BIGINT, ALTER COLUMN u TYPE NUMERIC(12, 2), ALTER n TYPE BIGINT",
    )
    .await
    .unwrap();
    check(&old, "SELECT * FROM p WHERE id = 7", "r7 7 14 7").await;
    check(&s, "SELECT * FROM p WHERE id = 7", "r7 7 14.00 7").await;
    check(&s, "SELECT a FROM p WHERE u = 14", "r7").await;
    check(&s, "INSERT INTO p VALUES ('x', 7, 1)", "23505").await;
    check(&s, "INSERT INTO p VALUES ('x', 3000000000, 14)", "23505").await;
    check(&s, "INSERT INTO p VALUES ('x', 3000000000, 15) RETURNING n", "503").await;
    check(&s, "ALTER TABLE p ALTER COLUMN id TYPE INTEGER", "22003").await;
    check(&s, "SELECT count(*), max(id) FROM p", "501 3000000000").await;
    let queries = opened(&drive);
    let s = session(&queries);
    check(&s, "SELECT * FROM p WHERE id = 3000000000", "x 3000000000 15.00 503").await;
    check(&s, "SELECT a FROM p ORDER BY u LIMIT 1", "r1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_with_more_values_than_columns_is_refused() {
    let queries = opened(&drive());
    let s = session(&queries);
    s.execute("CREATE TABLE t (id SERIAL PRIMARY KEY, a TEXT, b INT DEFAULT 1)").await.unwrap();
    check(&s, "INSERT INTO t (a) VALUES ('x', 5)", "42601").await;
    check(&s, "INSERT INTO t (a) VALUES ('x'), ('y', 5)", "42601").await;
    check(
        &s,
        "INSERT INTO t (b) SELECT v.n FROM (VALUES (1, 'p'), (2, 'q')) AS v (n, s) ORDER BY n",
        "Some(INSERT 2)",
    )
    .await;
    check(&s, "SELECT b FROM t ORDER BY id", "1; 2").await;
    check(&s, "CREATE TABLE u (id INTEGER PRIMARY KEY AUTO_INCREMENT)", "42601").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_get_their_types_from_views_from_tables_in_schemas_and_from_columns_that_are_left() {
    let queries = opened(&drive());
    let s = session(&queries);
    s.execute(
        "CREATE SCHEMA a; CREATE TABLE a.t (gone DATE, id INT PRIMARY KEY, v TEXT); ALTER TABLE a.t DROP COLUMN gone;
         CREATE VIEW v AS SELECT id AS number, v AS word FROM a.t",
    )
    .await
    .unwrap();
    let prepared = s.prepare("INSERT INTO a.t VALUES ($1, $2)").await.unwrap();
    let values = [ScalarValue::Int32(Some(7)), ScalarValue::Utf8(Some("x".into()))];
    s.execute_prepared(&prepared, &values).await.unwrap();
    let one = [ScalarValue::Int32(Some(7))];
    for sql in [
        "SELECT v FROM a.t WHERE t.id = $1",
        "SELECT word FROM v WHERE number = $1",
        "SELECT word FROM v WHERE v.number = $1",
    ] {
        let prepared = s.prepare(sql).await.unwrap();
        assert_eq!(rows(Some(s.execute_prepared(&prepared, &one).await.unwrap())).await, "x", "{sql}");
    }
    let all = s.prepare("SELECT * FROM v WHERE number = $1").await.unwrap();
    s.execute("CREATE OR REPLACE VIEW v AS SELECT id AS number, v AS word, 1 AS more FROM a.t")
        .await
        .unwrap();
    let e = s.execute_prepared(&all, &one).await.unwrap_err();
    assert_eq!(e.sqlstate(), "0A000", "the result has other columns: {e}");
}
