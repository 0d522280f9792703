//! Compares the 22 queries of TPC-H with another engine's answers, at every offload level.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use lode_base::Profile;
use lode_base::random::Random;
use lode_bench::tpch::answers::Answer;
use lode_bench::tpch::data::{generate, load};
use lode_bench::tpch::run::run;
use lode_bench::tpch::schema::{FOREIGN_KEYS, Layout};
use lode_bench::tpch::{QUERIES, Scale, TABLES};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
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

/// A database whose drive has pattern matchers.
fn database_with_matchers() -> (Database, Session) {
    let profile = Profile::find("yoursql-pm1725").unwrap();
    let medium = Medium::memory(profile.geometry).with_model(Arc::new(Model::new(profile)));
    let drive = Drive::format(medium, DriveOptions::default()).unwrap();
    let database = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    let session = Queries::new(database.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap();
    (database, session)
}

async fn execute(session: &Session, sql: &str) {
    session.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// Planner, kind of join, and levels.
const PLANS: [(&str, &str, &[Offload]); 5] = [
    ("off", "hash", &[Offload::Matches, Offload::Hints]),
    ("cost", "hash", &[Offload::Off, Offload::Matches, Offload::Hints, Offload::Rows, Offload::Auto]),
    ("off", "nested", &[Offload::Hints]),
    ("cost", "nested", &[Offload::Off, Offload::Hints, Offload::Auto]),
    ("cost", "nested; SET lode.batched_keys = off", &[Offload::Off]),
];

/// Loads all tables with these options, and makes indexes on foreign keys.
async fn load_with_indexes(session: &Session, pages: &str, scale: Scale) {
    for table in &TABLES {
        execute(session, &table.create_as(table.name, &format!("WITH ({pages})"))).await;
        let batches = generate(table.name, scale).map(|b| b.map_err(DataFusionError::from));
        session.load_batches(table.name, futures::stream::iter(batches)).await.unwrap();
    }
    for (table, columns) in FOREIGN_KEYS {
        execute(session, &format!("CREATE INDEX ON {table} ({columns})")).await;
    }
}

/// All queries with these plans, over tables with these options and indexes on foreign keys; and once more after one row in five
/// was written anew.
async fn check_plans(pages: &str, plans: &[(&str, &str, &[Offload])]) {
    let scale = Scale::new(0.01).unwrap();
    let (database, session) = database_with_matchers();
    load_with_indexes(&session, pages, scale).await;
    let (mut looked_up, mut unmatched) = (0, 0);
    for is_changed in [false, true] {
        if is_changed {
            for table in &TABLES {
                let column = table.first_column();
                execute(
                    &session,
                    &format!("UPDATE {0} SET {column} = {column} WHERE {column} % 5 = 1", table.name),
                )
                .await;
            }
        }
        for (planner, join, levels) in plans {
            execute(&session, &format!("SET lode.planner = {planner}; SET lode.batched_keys = on")).await;
            execute(&session, &format!("SET lode.join = {join}")).await;
            for &level in *levels {
                for query in &QUERIES {
                    let what = format!("{pages} {is_changed} {planner} {join} {level}");
                    let run = run(&session, query, scale, level).await;
                    let run = run.unwrap_or_else(|e| panic!("{what}: {e}"));
                    let expected = Answer::shipped(query, scale).unwrap().unwrap();
                    run.answer.compare(query, &expected).unwrap_or_else(|d| panic!("{what}: {d}"));
                    unmatched += run.counts.pages_unmatched;
                    looked_up += run.counts.look_ups;
                }
            }
        }
    }
    assert!(looked_up > 1000, "{looked_up} keys were looked up");
    assert_eq!(unmatched > 0, pages.contains("matchable"), "{unmatched} pages were unmatched");
    assert_eq!(database.check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_plan_answers_alike_over_small_pages_with_fields() {
    check_plans("layout = 'row', page_bytes = 4096, encoding = 'matchable'", &PLANS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_plan_answers_alike_over_large_row_pages() {
    check_plans("layout = 'row', page_bytes = 16384", &PLANS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_plan_answers_alike_over_column_pages_and_a_delta() {
    // A look-up of a single key in a page of many rows takes long.
    check_plans("layout = 'column', changes = 'delta'", &PLANS[..4]).await;
}

/// A thousand seeds of a query, a planner, a kind of join, a level, the table that is filtered early and the order of tables: each
/// answers as the shipped answer, or says that the order needs a cross join.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forced_orders_and_targets_answer_alike_for_a_thousand_seeds() {
    let scale = Scale::new(0.01).unwrap();
    let (database, session) = database_with_matchers();
    load_with_indexes(&session, "layout = 'row', page_bytes = 4096, encoding = 'matchable'", scale).await;
    let (mut answered, mut crossed, mut unmatched, mut looked_up) = (0, 0, 0, 0);
    for seed in 0..1000 {
        let mut random = Random::of_seed(seed);
        let query = random.pick(&QUERIES).unwrap();
        let sql = query.sql(scale);
        let words: Vec<&str> = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let mut tables: Vec<&str> = TABLES.iter().map(|t| t.name).filter(|t| words.contains(t)).collect();
        let early = random.pick(&[&tables[..], &["auto", "none"]].concat()).copied().unwrap();
        let mut order = Vec::new();
        for _ in 0..random.below(tables.len() as u64 + 1) {
            order.push(tables.swap_remove(random.below(tables.len() as u64) as usize));
        }
        let planner = random.pick(&["cost", "yoursql"]).unwrap();
        let join = random.pick(&["hash", "hash", "nested"]).unwrap();
        let level = *random.pick(&Offload::ALL).unwrap();
        let plan = format!("{planner}; SET lode.join = {join}; SET lode.early_filter = {early}");
        execute(
            &session,
            &format!("SET lode.planner = {plan}; SET lode.join_order = '{}'", order.join(", ")),
        )
        .await;
        let what = format!("seed {seed}: Q{} at {level}, {plan}, order {order:?}", query.number);
        match run(&session, query, scale, level).await {
            Ok(run) => {
                let expected = Answer::shipped(query, scale).unwrap().unwrap();
                run.answer.compare(query, &expected).unwrap_or_else(|d| panic!("{what}: {d}"));
                answered += 1;
                unmatched += run.counts.pages_unmatched;
                looked_up += run.counts.look_ups;
            }
            Err(e) => {
                let error = e.to_string();
                assert!(
                    error.contains("needs a cross join") && error.lines().count() == 1,
                    "{what}: {error}"
                );
                crossed += 1;
            }
        }
    }
    assert!(answered > 500 && crossed > 10, "{answered} answered, {crossed} need a cross join");
    assert!(unmatched > 0 && looked_up > 0, "{unmatched} pages were unmatched, {looked_up} keys looked up");
    assert_eq!(database.check().unwrap(), Vec::<String>::new());
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
