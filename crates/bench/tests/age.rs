//! Rounds of TPC-H's refresh functions leave the rows of a fresh load, and its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use lode_bench::tpch::age::{Aging, Plan, age, export};
use lode_bench::tpch::answers::Answer;
use lode_bench::tpch::data::{self, generate};
use lode_bench::tpch::refresh::{Digest, orders_a_round, rows_after};
use lode_bench::tpch::run::run;
use lode_bench::tpch::schema::{Layout, Pages};
use lode_bench::tpch::{QUERIES, Scale, TABLES};
use lode_command::Progress;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions};

const ROUNDS: u32 = 3;

fn database() -> (Drive, Database, Session) {
    let drive = Drive::in_memory(1 << 30);
    let database = Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    let session = Queries::new(database.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap();
    (drive, database, session)
}

/// A database that was loaded with the rows of so many rounds.
async fn loaded_afresh(scale: Scale, rounds: u32) -> (Database, Session) {
    let (_, database, session) = database();
    for table in &TABLES {
        session.execute(&table.create(Pages::from(Layout::Column))).await.unwrap();
        let batches = match table.name {
            "orders" | "lineitem" => rows_after(table.name, scale, rounds),
            name => generate(name, scale),
        };
        let batches = futures::stream::iter(batches).map(|b| b.map_err(Into::into));
        session.load_batches(table.name, batches).await.unwrap();
    }
    (database, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aged_tables_answer_as_a_fresh_load_does() {
    let scale = Scale::new(0.01).unwrap();
    let (drive, database, session) = database();
    data::load(&session, scale, Layout::Column, Arc::new(|_| std::ops::ControlFlow::Continue(())))
        .await
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let worker = std::thread::spawn({
        let (database, over) = (database.clone(), over.clone());
        move || {
            while !over.load(Ordering::Relaxed) {
                if database.work(1 << 20) != Progress::More {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    });
    let plan = Plan {
        scale,
        rounds: ROUNDS,
        queries_every: 2,
        rest: Duration::from_secs(60),
        runs: 1,
        offload: Offload::Auto,
    };
    let mut told = Vec::new();
    let aging = Aging { session: &session, drive: &drive, image: None };
    let aged = age(aging, plan, |c| {
        told.push(c.round);
        Ok(())
    })
    .await
    .unwrap();
    over.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    assert_eq!(told, [0, 1, 2, 3]);
    for c in &aged.checkpoints {
        assert_eq!(c.orders, 15_000, "as many orders go as come");
        assert_eq!((c.is_at_rest, c.after.delta_rows), (true, 0), "round {}", c.round);
        assert!(c.after.live_bytes > 0 && c.query_ms.len() == QUERIES.len());
    }
    let last = aged.last();
    assert_eq!(last.lineitems, Digest::of(rows_after("lineitem", scale, ROUNDS)).unwrap().rows);
    assert!(last.before.delta_rows >= 2 * orders_a_round(scale), "the round went through deltas");
    assert_eq!(database.check().unwrap(), Vec::<String>::new());

    let (fresh, fresh_session) = loaded_afresh(scale, ROUNDS).await;
    assert_eq!(
        fresh.snapshot().unwrap().delta_rows(&fresh.snapshot().unwrap().table("orders").unwrap()).unwrap(),
        (0, 0)
    );
    let mut unlike_loaded = 0;
    for (query, got) in QUERIES.iter().zip(&aged.answers) {
        let expected = run(&fresh_session, query, scale, Offload::Auto).await.unwrap().answer;
        got.compare(query, &expected).unwrap();
        let shipped = Answer::shipped(query, scale).unwrap().unwrap();
        unlike_loaded += u32::from(got.compare(query, &shipped).is_err());
    }
    assert!(unlike_loaded >= 5, "the rounds change answers");

    // What is exported is what was answered, and the rows.
    let dir = tempfile::tempdir().unwrap();
    export(&session, &aged.answers, dir.path()).await.unwrap();
    for (query, answer) in QUERIES.iter().zip(&aged.answers) {
        let text =
            std::fs::read_to_string(dir.path().join(format!("answers/q{}.csv", query.number))).unwrap();
        Answer::parse(&text).unwrap().compare(query, answer).unwrap();
    }
    let copied = format!("COPY orders FROM '{}'", dir.path().join("orders.parquet").display());
    fresh_session.execute("DELETE FROM orders").await.unwrap();
    fresh_session.execute(&copied).await.unwrap();
    let rows = fresh_session.collect("SELECT * FROM orders").await.unwrap();
    let expected = Digest::of(rows_after("orders", scale, ROUNDS)).unwrap();
    assert_eq!(Digest::of(rows.into_iter().map(Ok)).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_not_the_generator_s_is_found() {
    let scale = Scale::new(0.01).unwrap();
    let (drive, _database, session) = database();
    data::load(&session, scale, Layout::Column, Arc::new(|_| std::ops::ControlFlow::Continue(())))
        .await
        .unwrap();
    let plan =
        Plan { scale, rounds: 1, queries_every: 1, rest: Duration::ZERO, runs: 1, offload: Offload::Auto };
    session.execute("UPDATE orders SET o_clerk = 'nobody' WHERE o_orderkey = 100").await.unwrap();
    let aging = Aging { session: &session, drive: &drive, image: None };
    let Err(e) = age(aging, plan, |_| Ok(())).await else { panic!("a changed row was not found") };
    assert!(e.to_string().contains("orders holds 15000 rows, which are not the 15000"), "{e}");
    // The second time, round 1 would insert keys that are there.
    let Err(e) = age(aging, plan, |_| Ok(())).await else { panic!("a key came twice") };
    assert!(e.to_string().contains("duplicate primary key (9)"), "{e}");
}
