//! What a front-end uses of a session: rows that come and go as bytes, cursors over streams, and the fields of errors.

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use futures::StreamExt;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{
    CopyIn, ErrorFields, Queries, Session, SessionOptions, SqlError, StatementResult, TransactionStatus,
};

fn session() -> Session {
    let db = Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    Queries::new(db, 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

/// The rows of a query as `a,b a,b ...`.
async fn ask(session: &Session, sql: &str) -> String {
    let mut rows = Vec::new();
    for result in session.execute(sql).await.unwrap() {
        let StatementResult::Rows { mut stream, .. } = result else { continue };
        while let Some(batch) = stream.next().await {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap());
                rows.push(values.collect::<Vec<_>>().join(","));
            }
        }
    }
    rows.join(" ")
}

async fn fails(session: &Session, sql: &str) -> SqlError {
    session.execute(sql).await.expect_err(sql)
}

async fn copy_in(session: &Session, sql: &str) -> CopyIn {
    match session.execute(sql).await.unwrap().pop() {
        Some(StatementResult::CopyIn(copy)) => copy,
        other => panic!("{sql}: {other:?}"),
    }
}

async fn copy_out(session: &Session, sql: &str) -> String {
    let Some(StatementResult::CopyOut(mut copy)) = session.execute(sql).await.unwrap().pop() else {
        panic!("{sql}")
    };
    let mut text = Vec::new();
    while let Some(bytes) = copy.next().await.unwrap() {
        text.extend_from_slice(&bytes);
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_pieces_of_any_length() {
    let s = session();
    s.execute("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)").await.unwrap();
    let rows: String = (0..1000).map(|i| format!("{i}\trow\\t{i}\n")).collect();
    for (piece, first) in [(1, 0), (7, 1), (100_000, 2)] {
        let mut copy = copy_in(&s, "COPY t FROM STDIN;").await;
        assert_eq!(copy.columns(), 2);
        for bytes in rows.as_bytes().chunks(piece) {
            copy.write(bytes.to_vec()).await;
        }
        assert_eq!(copy.finish().await.unwrap(), 1000);
        assert_eq!(copy_out(&s, "COPY (SELECT * FROM t ORDER BY a) TO STDOUT").await, rows, "{first}");
        s.execute("DELETE FROM t").await.unwrap();
    }
    assert_eq!(copy_out(&s, "COPY t (b) TO STDOUT (FORMAT csv, HEADER)").await, "b\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_given_up_loads_nothing() {
    let s = session();
    s.execute("CREATE TABLE t (a INT PRIMARY KEY)").await.unwrap();
    let mut copy = copy_in(&s, "COPY t FROM STDIN").await;
    copy.write("1\n2\n").await;
    assert_eq!(copy.abort("no more").await.unwrap_err().sqlstate(), "57014");
    s.execute("BEGIN").await.unwrap();
    let mut copy = copy_in(&s, "COPY t FROM STDIN").await;
    copy.write("1\n").await;
    drop(copy);
    assert_eq!(fails(&s, "SELECT 1").await.sqlstate(), "25P02");
    assert_eq!(s.transaction_status(), TransactionStatus::Failed);
    s.execute("ROLLBACK").await.unwrap();
    assert_eq!(ask(&s, "SELECT count(*) FROM t").await, "0");
    // Within a transaction, and undone with it.
    s.execute("BEGIN").await.unwrap();
    let mut copy = copy_in(&s, "COPY t FROM STDIN").await;
    copy.write("1\n2\n").await;
    assert_eq!(copy.finish().await.unwrap(), 2);
    assert_eq!(ask(&s, "SELECT count(*) FROM t").await, "2");
    s.execute("ROLLBACK").await.unwrap();
    assert_eq!(ask(&s, "SELECT count(*) FROM t").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_row_is_named() {
    let s = session();
    s.execute("CREATE TABLE t (a INT NOT NULL, b DATE)").await.unwrap();
    for (rows, state, column) in [
        ("1\t2024-01-01\nx\t\\N\n", "22P02", "a"),
        ("1\t2024-02-30\n", "22008", "b"),
        ("1\n", "22P04", "b"),
        ("1\t2024-01-01\tz\n", "22P04", "3"),
        ("\\N\t2024-01-01\n", "23502", "a"),
    ] {
        let mut copy = copy_in(&s, "COPY t FROM STDIN").await;
        copy.write(rows).await;
        let e = copy.finish().await.unwrap_err();
        assert_eq!((e.sqlstate(), e.fields().column.as_deref()), (state, Some(column)), "{rows:?}: {e}");
    }
    assert_eq!(ask(&s, "SELECT count(*) FROM t").await, "0");
}

/// The query has 10^12 rows: FETCH takes only its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_computes_no_more_than_is_fetched() {
    let s = session();
    s.execute("BEGIN; DECLARE c CURSOR FOR SELECT n * 2 FROM generate_series(1, 1000000000000) AS n")
        .await
        .unwrap();
    assert_eq!(ask(&s, "FETCH 3 FROM c").await, "2 4 6");
    s.execute("MOVE 20000 FROM c").await.unwrap();
    // Rows without ORDER BY come in any order.
    assert!(ask(&s, "FETCH c").await.parse::<i64>().unwrap() > 6);
    s.execute("COMMIT").await.unwrap();
    assert_eq!(fails(&s, "FETCH c").await.sqlstate(), "34000");
}

/// It reads what its transaction had changed, and not what came later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_with_hold_outlives_its_commit_but_no_rollback() {
    let s = session();
    s.execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)").await.unwrap();
    s.execute("BEGIN; INSERT INTO t VALUES (3), (4)").await.unwrap();
    s.execute("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a").await.unwrap();
    assert_eq!(ask(&s, "FETCH 1 FROM c").await, "1");
    s.execute("COMMIT; DELETE FROM t WHERE a < 4; VACUUM t").await.unwrap();
    assert_eq!(ask(&s, "FETCH 2 FROM c").await, "2 3");
    assert_eq!(fails(&s, "DECLARE c CURSOR WITH HOLD FOR SELECT 1").await.sqlstate(), "42P03");
    s.execute("BEGIN").await.unwrap();
    assert_eq!(ask(&s, "FETCH ALL FROM c").await, "4");
    s.execute("ROLLBACK; CLOSE c").await.unwrap();
    assert_eq!(fails(&s, "FETCH c").await.sqlstate(), "34000");
    s.execute("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t; ROLLBACK").await.unwrap();
    assert_eq!(fails(&s, "FETCH c").await.sqlstate(), "34000");
    s.execute("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t").await.unwrap();
    assert_eq!(ask(&s, "FETCH c").await, "4");
    s.execute("CLOSE ALL").await.unwrap();
    assert_eq!(fails(&s, "FETCH c").await.sqlstate(), "34000");
}

/// `COPY (DELETE FROM t) TO` was an error after it had deleted the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_change_without_returning_changes_nothing() {
    let s = session();
    s.execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)").await.unwrap();
    assert_eq!(fails(&s, "COPY (DELETE FROM t) TO STDOUT").await.sqlstate(), "0A000");
    let twice = "COPY (WITH x AS (INSERT INTO t VALUES (3) RETURNING a) DELETE FROM t) TO STDOUT";
    assert_eq!(fails(&s, twice).await.sqlstate(), "0A000");
    assert_eq!(ask(&s, "SELECT count(*) FROM t").await, "2");
    // Its WITH was left out: the DELETE took the table of this name.
    s.execute("CREATE TABLE few (a INT)").await.unwrap();
    let with = "COPY (WITH few AS (SELECT 7 AS a) DELETE FROM t USING few WHERE few.a = t.a + 5 RETURNING t.a) TO STDOUT";
    assert_eq!(copy_out(&s, with).await, "2\n");
    s.execute("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(copy_out(&s, "COPY (DELETE FROM t WHERE a = 1 RETURNING a) TO STDOUT").await, "1\n");
    assert_eq!(ask(&s, "SELECT count(*) FROM t").await, "1");
}

/// The default stayed, and each INSERT failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_goes_with_the_sequence_of_another_table() {
    let s = session();
    s.execute(
        "CREATE TABLE a (id SERIAL, v INT); CREATE TABLE b (id INT DEFAULT nextval('a_id_seq'), v INT)",
    )
    .await
    .unwrap();
    assert_eq!(fails(&s, "DROP TABLE a").await.sqlstate(), "2BP01");
    assert_eq!(fails(&s, "ALTER TABLE a DROP COLUMN id").await.sqlstate(), "2BP01");
    s.execute("DROP TABLE a CASCADE; INSERT INTO b (v) VALUES (1)").await.unwrap();
    assert_eq!(ask(&s, "SELECT id IS NULL, v FROM b").await, "true,1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_table_column_and_constraint() {
    let s = session();
    s.execute(
        "CREATE TABLE p (id INT PRIMARY KEY);
         CREATE TABLE t (a INT PRIMARY KEY, b INT CONSTRAINT positive CHECK (b > 0), c TEXT NOT NULL,
             d INT CONSTRAINT only UNIQUE, e INT CONSTRAINT to_p REFERENCES p, f VARCHAR(3));
         INSERT INTO t VALUES (1, 1, 'x', 1, NULL, NULL)",
    )
    .await
    .unwrap();
    let check = async |sql: &str, state: &str, column: Option<&str>, constraint: Option<&str>| {
        let e = fails(&s, sql).await;
        let own = |text: Option<&str>| text.map(str::to_owned);
        let expected = ErrorFields {
            schema: own(Some("public")),
            table: own(Some("t")),
            column: own(column),
            constraint: own(constraint),
        };
        assert_eq!((e.sqlstate(), e.fields()), (state, expected), "{sql}: {e}");
    };
    check("INSERT INTO t VALUES (1, 1, 'x', 2, NULL, NULL)", "23505", None, Some("t_pkey")).await;
    check("INSERT INTO t VALUES (2, 1, 'x', 1, NULL, NULL)", "23505", None, Some("only")).await;
    check("INSERT INTO t VALUES (2, 0, 'x', 2, NULL, NULL)", "23514", None, Some("positive")).await;
    check("INSERT INTO t VALUES (2, 1, 'x', 2, 7, NULL)", "23503", None, Some("to_p")).await;
    check("UPDATE t SET c = NULL", "23502", Some("c"), None).await;
    check("INSERT INTO t (z) VALUES (1)", "42703", Some("z"), None).await;
}
