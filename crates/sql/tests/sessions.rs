//! Sessions under stress: deeply nested statements, abandoned loads, concurrent writers.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int32Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use futures::{StreamExt, stream};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions, StatementResult};

fn session() -> Session {
    let db = Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    Queries::new(db, 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

async fn count(session: &Session, table: &str) -> i64 {
    let batches = session.collect(&format!("SELECT count(*) FROM {table}")).await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn batch(ids: std::ops::Range<i32>) -> RecordBatch {
    let ids: Int32Array = ids.collect();
    RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).unwrap()
}

fn repeat(item: &str, between: &str, times: usize) -> String {
    vec![item; times].join(between)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_statements_run_and_bottomless_ones_are_refused() {
    let session = session();
    session.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (NULL)").await.unwrap();
    for n in [40, 900] {
        for sql in [
            format!("SELECT count(*) FROM t WHERE {}", repeat("a * a = 4", " OR ", n)),
            format!("SELECT count(*) FROM t WHERE {}", repeat("a <> 7", " AND ", n)),
            format!("SELECT {} FROM t", repeat("a", " + ", n)),
            format!("SELECT count(*) FROM ({}) AS x", repeat("SELECT a FROM t", " UNION ALL ", n.min(200))),
            format!("UPDATE t SET a = a WHERE {}", repeat("a = 1", " OR ", n)),
        ] {
            if let Err(e) = session.collect(&sql).await {
                panic!("{n}: {}: {e}", &sql[..60]);
            }
        }
    }
    for sql in [
        format!("SELECT 1 WHERE {}", repeat("1 = 1", " OR ", 100_000)),
        format!("SELECT {}", repeat("1", " + ", 100_000)),
        format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("SELECT {}1", "- ".repeat(100_000)),
        repeat("SELECT 1", " UNION ALL ", 100_000),
        format!("SELECT {}1", "NOT ".repeat(100_000)),
    ] {
        let e = session.execute(&sql).await.unwrap_err().to_string();
        assert!(e.contains("nests") || e.contains("nested"), "{}: {e}", &sql[..60]);
    }
    let e = session.execute(&format!("SELECT {}", "+".repeat(100_000))).await.unwrap_err().to_string();
    assert!(e.len() < 1000, "{e}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_is_given_up_leaves_nothing() {
    let session = session();
    session.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    // The stream stalls in the middle, and the load is dropped.
    let endless = stream::iter((0..20).map(|i| Ok(batch(i * 1000..(i + 1) * 1000)))).chain(stream::pending());
    let load = session.load_batches("t", endless);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), load).await.is_err());
    assert_eq!(count(&session, "t").await, 0);
    // The writer is free again, and the same rows can be loaded.
    let again = stream::iter((0..20).map(|i| Ok(batch(i * 1000..(i + 1) * 1000))));
    assert_eq!(session.load_batches("t", again).await.unwrap(), 20_000);
    assert_eq!(count(&session, "t").await, 20_000);
    // An error in the stream also undoes the load.
    let failing = stream::iter([
        Ok(batch(30_000..31_000)),
        Err(datafusion::error::DataFusionError::Execution("the source is broken".into())),
    ]);
    let e = session.load_batches("t", failing).await.unwrap_err();
    assert_eq!(e.to_string(), "the source is broken");
    assert_eq!(count(&session, "t").await, 20_000);
    assert!(session.database().check().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_reads_its_snapshot_while_others_write() {
    let session = session();
    session.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    session.execute("INSERT INTO t SELECT value FROM generate_series(1, 500) AS value").await.unwrap();
    let StatementResult::Rows { mut stream, .. } =
        session.execute("SELECT id FROM t").await.unwrap().pop().unwrap()
    else {
        panic!("a query answers rows");
    };
    session.execute("DELETE FROM t WHERE id <= 400").await.unwrap();
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch.unwrap().num_rows();
    }
    assert_eq!(rows, 500);
    assert_eq!(count(&session, "t").await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_wait_for_each_other() {
    let session = session();
    session.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (0)").await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    session.execute("UPDATE t SET a = a + 1").await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let batches = session.collect("SELECT CAST(a AS BIGINT) FROM t").await.unwrap();
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 80);
}
