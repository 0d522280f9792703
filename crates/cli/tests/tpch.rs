//! Compares the 22 queries of TPC-H with another engine's answers, at every offload level.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use lode_bench::tpch::answers::Answer;
use lode_bench::tpch::data::load;
use lode_bench::tpch::run::run;
use lode_bench::tpch::schema::Layout;
use lode_bench::tpch::{QUERIES, Scale, TABLES};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions};

async fn loaded(scale: Scale, layout: Layout) -> (Database, Session) {
    let drive = Drive::in_memory(4 << 30);
    let database = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    let session = Queries::new(database.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap();
    let loaded = load(&session, scale, layout, Arc::new(|_| ControlFlow::Continue(()))).await.unwrap();
    assert!(loaded.rows > 0);
    (database, session)
}

/// Runs all queries at these levels and compares each with the shipped answer.
async fn check(scale: f64, layout: Layout, levels: &[Offload]) {
    let scale = Scale::new(scale).unwrap();
    let (database, session) = loaded(scale, layout).await;
    for &level in levels {
        let (mut pages, mut compared, mut link, mut groups) = (0, 0, 0, 0);
        for query in &QUERIES {
            database.clear_pool();
            let run = run(&session, query, scale, level).await.unwrap_or_else(|e| panic!("{level}: {e}"));
            let expected = Answer::shipped(query, scale).unwrap().unwrap();
            run.answer.compare(query, &expected).unwrap_or_else(|d| panic!("offload {level}: {d}"));
            assert!(run.counts.pages > 0, "Q{} at {level} considered no page", query.number);
            pages += run.counts.pages_read;
            compared += run.counts.values_compared;
            link += run.counts.link_bytes_up;
            groups += run.counts.groups;
        }
        assert!(pages > 0 && link > 0, "{level} read nothing from the drive");
        // At the levels where the drive evaluates filters, its counters must show that it did.
        let evaluates = level.filters_exactly() || matches!(level, Offload::Hints | Offload::Pages);
        assert_eq!(compared > 0, evaluates, "{level}: the drive compared {compared} values");
        assert_eq!(groups > 0, level.aggregates(), "{level}: the drive answered {groups} groups");
    }
    assert_eq!(database.check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale_0_01_in_column_pages_at_every_level() {
    check(0.01, Layout::Column, &Offload::ALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale_0_01_in_row_pages() {
    check(0.01, Layout::Row, &[Offload::Off, Offload::Auto]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale_0_1() {
    check(0.1, Layout::Column, &[Offload::Off, Offload::Auto]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_row_changes_an_answer() {
    let scale = Scale::new(0.01).unwrap();
    let (_, session) = loaded(scale, Layout::Column).await;
    session
        .execute("UPDATE lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey = 1 AND l_linenumber = 1")
        .await
        .unwrap();
    let query = &QUERIES[0];
    let got = run(&session, query, scale, Offload::Auto).await.unwrap();
    let expected = Answer::shipped(query, scale).unwrap().unwrap();
    let difference = got.answer.compare(query, &expected).unwrap_err();
    assert!(difference.place.contains("sum_charge"), "{difference}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_is_stopped_leaves_no_table() {
    let database = Database::open(Arc::new(Drive::in_memory(1 << 30)), DatabaseOptions::default()).unwrap();
    let session =
        Queries::new(database.clone(), 1 << 30).and_then(|q| q.session(&SessionOptions::default())).unwrap();
    let stop = |p: lode_bench::tpch::data::Progress| {
        if p.table == "orders" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = load(&session, Scale::new(0.01).unwrap(), Layout::Column, Arc::new(stop)).await.unwrap_err();
    assert_eq!(error.to_string(), "interrupted");
    let snapshot = database.snapshot().unwrap();
    assert!(TABLES.iter().all(|t| snapshot.table(t.name).is_none()));
}
