//! The buffer pool and queries share one limit. A query that needs more than the queries' part borrows it from the
//! pool while it runs.

use std::sync::Arc;

use futures::StreamExt;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions, StatementResult};

const ROWS: usize = 300_000;
const JOIN: &str = "SELECT count(*) FROM t a JOIN t b ON a.k = b.v";

async fn session(pool_bytes: usize, memory_bytes: usize) -> Session {
    two_sessions(pool_bytes, memory_bytes).await.1
}

async fn two_sessions(pool_bytes: usize, memory_bytes: usize) -> (Queries, Session, Session) {
    let options = DatabaseOptions { pool_bytes, ..DatabaseOptions::default() };
    let db = Database::open(Arc::new(Drive::in_memory(256 << 20)), options).unwrap();
    let options = SessionOptions { target_partitions: 1, ..SessionOptions::default() };
    let queries = Queries::new(db, memory_bytes).unwrap();
    let s = queries.session(&options).unwrap();
    s.execute(&format!(
        "CREATE TABLE t AS SELECT value AS k, value AS v FROM generate_series(1, {ROWS}::bigint) AS value"
    ))
    .await
    .unwrap();
    let other = queries.session(&options).unwrap();
    (queries, s, other)
}

#[tokio::test]
async fn sessions_share_one_limit() {
    const SORT: &str = "SELECT k, v FROM t ORDER BY v DESC, k";
    // The sort holds 10 MB; what is left is too little for the join, which fits alone.
    let (queries, one, other) = two_sessions(2 << 20, 12 << 20).await;
    one.execute("SET datafusion.execution.batch_size = 1024").await.unwrap();
    // A sort holds all rows until its last row is fetched.
    let mut results = one.execute(SORT).await.unwrap();
    let Some(StatementResult::Rows { mut stream, .. }) = results.pop() else { panic!("rows") };
    assert!(stream.next().await.unwrap().is_ok());
    let held = queries.used_bytes();
    assert!(held > 4 << 20, "{held}");
    let e = other.collect(JOIN).await.unwrap_err();
    assert_eq!(e.sqlstate(), "53200", "{e}");
    drop(stream);
    assert_eq!(other.collect(JOIN).await.unwrap()[0].num_rows(), 1);
    assert_eq!(queries.used_bytes(), 0);
}

#[tokio::test]
async fn a_query_borrows_from_the_buffer_pool_while_it_runs() {
    let s = session(64 << 20, 1 << 20).await;
    let limit = s.database().pool().limit_bytes;
    let rows = s.collect(JOIN).await.unwrap();
    assert_eq!(rows[0].num_rows(), 1);
    drop(rows);
    assert_eq!(s.database().pool().limit_bytes, limit, "and gives back what it borrowed");
}

#[tokio::test]
async fn a_query_for_which_the_pool_has_too_little_fails_in_one_line_and_leaves_the_pool_whole() {
    let s = session(2 << 20, 1 << 20).await;
    let limit = s.database().pool().limit_bytes;
    let e = s.collect(JOIN).await.unwrap_err();
    assert_eq!(e.sqlstate(), "53200", "{e}");
    assert!(e.to_string().contains("more, and") && !e.to_string().contains('\n'), "{e}");
    assert_eq!(s.database().pool().limit_bytes, limit);
    let rows = s.collect("SELECT count(*) FROM t").await.unwrap();
    assert_eq!(rows[0].num_rows(), 1, "the session goes on");
}
