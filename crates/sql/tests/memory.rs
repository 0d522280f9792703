//! One limit for buffer pool and queries: a query that needs more than its own takes it from the pool, for as long as it runs.

use std::sync::Arc;

use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Session, SessionOptions};

const ROWS: usize = 300_000;
const JOIN: &str = "SELECT count(*) FROM t a JOIN t b ON a.k = b.v";

async fn session(pool_bytes: usize, memory_bytes: usize) -> Session {
    let options = DatabaseOptions { pool_bytes, ..DatabaseOptions::default() };
    let db = Database::open(Arc::new(Drive::in_memory(256 << 20)), options).unwrap();
    let options = SessionOptions { target_partitions: 1, memory_bytes, ..SessionOptions::default() };
    let s = Session::new(db, &options).unwrap();
    s.execute(&format!("CREATE TABLE t AS SELECT value AS k, value AS v FROM generate_series(1, {ROWS})"))
        .await
        .unwrap();
    s
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
