//! Workloads through Lode's SQL: sums and conditions hold after each, and a breach of any condition is found.

use std::path::Path;
use std::time::Duration;

use lode_bench::sql::LodeSql;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_workload::harness::{Probes, Schedule};
use lode_workload::sql::tpcc::{self as sql_tpcc, Schema, SqlTpcc};
use lode_workload::sql::{SqlDatabase, Style, ch, statements, tpcb};
use lode_workload::tpcc::input::Inputs;
use lode_workload::tpcc::store::TpccStore;
use lode_workload::tpcc::{self, Outcome, Sizes, execute};

const SMALL: Sizes = Sizes { warehouses: 1, districts: 2, customers: 20, items: 60 };
const SEED: u64 = 7;
const DATE: i64 = 1_700_000_000_000_000;
const SCHEDULE: Schedule = Schedule {
    warm_up: Duration::ZERO,
    length: Duration::from_millis(400),
    interval: Duration::from_millis(100),
};

/// A database in memory.
fn database(scratch: &Path) -> LodeSql {
    let geometry = lode_base::Geometry::file(1 << 30).unwrap();
    let drive = Drive::format(Medium::memory(geometry), DriveOptions::default()).unwrap();
    let database = Database::open(std::sync::Arc::new(drive), DatabaseOptions::default()).unwrap();
    LodeSql::new(database, 64 << 20, scratch).unwrap()
}

fn loaded(scratch: &Path, foreign_keys: bool) -> LodeSql {
    let database = database(scratch);
    sql_tpcc::load(&database, Schema { foreign_keys }, &SMALL, SEED, DATE).unwrap();
    database
}

fn plan(terminals: u16, arrivals_a_second: Option<f64>) -> tpcc::Plan {
    tpcc::Plan {
        sizes: SMALL,
        terminals,
        schedule: SCHEDULE,
        seed: SEED,
        run: 1,
        queue_at_hot_rows: false,
        arrivals_a_second,
    }
}

/// Runs a measurement again until something was done within its time: on a busy machine that may be nothing.
#[track_caller]
fn until_done<T>(mut run: impl FnMut() -> T, operations: impl Fn(&T) -> u64) -> T {
    (0..100).map(|_| run()).find(|measured| operations(measured) > 0).expect("something is done in 100 runs")
}

#[track_caller]
fn consistent(database: &LodeSql) {
    let found = sql_tpcc::check(&mut *database.connect().unwrap(), &SMALL).unwrap();
    assert_eq!(found.count, 0, "{:?}", found.told);
}

#[test]
fn statements_change_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    for (indexes, connections, style) in [(0, 1, Style::Text), (4, 3, Style::Prepared)] {
        let schedule = Schedule { length: Duration::from_millis(150), ..SCHEDULE };
        let plan = statements::Plan { rows: 400, indexes, connections, style, schedule, seed: SEED };
        let bench = statements::Bench::load(&database, plan).unwrap();
        for kind in statements::Kind::ALL {
            until_done(|| bench.run(&database, kind, &Probes::NONE).unwrap(), |m| m.operations);
        }
        bench.end(&database).unwrap();
    }
}

#[test]
fn tpcb_keeps_its_sums() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    let sizes = tpcb::Sizes { branches: 2, accounts: 300 };
    tpcb::load(&database, &sizes).unwrap();
    for (connections, style) in [(1, Style::Prepared), (4, Style::Text)] {
        let plan = tpcb::Plan { sizes, connections, style, schedule: SCHEDULE, seed: SEED };
        let measured = until_done(|| tpcb::run(&database, &plan, &Probes::NONE).unwrap(), |m| m.operations);
        let sums = tpcb::sums(&database).unwrap();
        assert!(sums.agree() && sums.transactions >= measured.operations, "{sums:?} {measured:?}");
    }
    database
        .connect()
        .unwrap()
        .execute_text("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 3")
        .unwrap();
    assert!(!tpcb::sums(&database).unwrap().agree());
    tpcb::drop_all(&database).unwrap();
}

#[test]
fn tpcc_gives_the_same_rows_for_the_same_seed_with_and_without_foreign_keys() {
    let dir = tempfile::tempdir().unwrap();
    let run = |foreign_keys: bool| {
        let database = loaded(dir.path(), foreign_keys);
        consistent(&database);
        let store = SqlTpcc::new(&database, Style::Prepared);
        assert_eq!(tpcc::check(&store, &SMALL).unwrap().told, [""; 0]);
        let mut terminal = store.terminal().unwrap();
        let mut inputs = Inputs::new(SMALL, SEED, 1, 0);
        let outcomes: Vec<Outcome> =
            (0..60).map(|n| execute(&mut terminal, &inputs.next(DATE + n), &SMALL).unwrap()).collect();
        drop(terminal);
        consistent(&database);
        assert_eq!(tpcc::check(&store, &SMALL).unwrap().told, [""; 0]);
        let mut connection = database.connect().unwrap();
        let mut all = |table: &str| {
            let mut rows =
                connection.execute_text(&format!("SELECT * FROM {table}")).unwrap().rows().unwrap();
            rows.sort_unstable_by_key(|row| format!("{row:?}"));
            rows
        };
        let rows: Vec<_> = sql_tpcc::TABLES.iter().map(|table| all(table.name)).collect();
        sql_tpcc::drop_all(&mut *database.connect().unwrap()).unwrap();
        (outcomes, rows)
    };
    let (outcomes, rows) = run(false);
    assert!(outcomes.iter().any(|o| matches!(o, Outcome::Ordered { .. })));
    assert!((outcomes, rows) == run(true), "the rows depend on more than the seed");
}

#[test]
fn terminals_beside_each_other_keep_the_conditions() {
    let dir = tempfile::tempdir().unwrap();
    let database = loaded(dir.path(), false);
    let store = SqlTpcc::new(&database, Style::Prepared);
    let run = || tpcc::run(&store, &plan(4, None), &Probes::NONE, &|_| {}).unwrap();
    until_done(run, |report| report.measured.operations);
    consistent(&database);
}

#[test]
fn queries_see_consistent_snapshots_beside_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let database = loaded(dir.path(), false);
    ch::load(&database, SEED).unwrap();
    let mut connection = database.connect().unwrap();
    for query in &ch::QUERIES {
        connection.execute_text(query.sql).unwrap_or_else(|e| panic!("query {}: {e}", query.number));
    }
    let plan = ch::Plan { tpcc: plan(2, Some(20.0)), style: Style::Prepared };
    let run = || ch::beside(&database, Some(&database), &plan, &Probes::NONE).unwrap().analyst.unwrap();
    let asked = until_done(run, |asked| asked.queries);
    assert_eq!(asked.violations, 0, "{asked:?}");
    consistent(&database);
    // One breach of condition 1 is found in the snapshot of a query.
    connection.execute_text("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1").unwrap();
    let asked = ch::alone(&database, &SMALL, Duration::from_millis(200), &|| false).unwrap();
    assert!(asked.violations > 0 && asked.told[0].starts_with("condition 1:"), "{asked:?}");
    ch::drop_all(&database).unwrap();
}

#[test]
fn each_breach_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let database = loaded(dir.path(), false);
    let mut connection = database.connect().unwrap();
    let mut check = |sql: &str, expected: &[&str]| {
        connection.begin(lode_workload::store::Intent::Write).unwrap();
        connection.execute_text(sql).unwrap();
        let mut told = lode_workload::tpcc::Violations::default();
        for condition in &sql_tpcc::CONDITIONS {
            sql_tpcc::violations(&mut *connection, condition, &SMALL, &mut told).unwrap();
        }
        connection.rollback().unwrap();
        let name = |line: &String| line.split(':').next().unwrap().replace("condition ", "");
        let mut names: Vec<String> = told.told.iter().map(name).collect();
        names.dedup();
        assert_eq!(names, expected, "{sql}");
    };
    check("UPDATE warehouse SET w_ytd = w_ytd + 1", &["1", "8"]);
    check("UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 1", &["1", "9"]);
    check("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 2", &["2"]);
    check("DELETE FROM new_order WHERE no_d_id = 1 AND no_o_id = 20", &["2", "5", "11"]);
    check("DELETE FROM new_order WHERE no_d_id = 1 AND no_o_id = 16", &["3", "5", "11"]);
    check("DELETE FROM order_line WHERE ol_d_id = 1 AND ol_o_id = 20 AND ol_number = 1", &["4", "6"]);
    check("UPDATE orders SET o_carrier_id = 3 WHERE o_d_id = 1 AND o_id = 20", &["5", "7"]);
    check("INSERT INTO new_order VALUES (1, 1, 21)", &["2", "5", "11"]);
    let late = "UPDATE order_line SET ol_delivery_d = TIMESTAMP '2024-01-01 00:00:00' WHERE ol_d_id = 1 AND ol_o_id = 20";
    check(late, &["7", "10", "12"]);
    check("DELETE FROM history WHERE h_d_id = 1 AND h_c_id = 3", &["8", "9", "10"]);
    check("UPDATE customer SET c_balance = c_balance + 7 WHERE c_d_id = 1 AND c_id = 1", &["10", "12"]);
    check("UPDATE customer SET c_ytd_payment = 0 WHERE c_d_id = 1 AND c_id = 1", &["12"]);
    check("UPDATE customer SET c_delivery_cnt = 1 WHERE c_d_id = 1 AND c_id = 1", &["11"]);
}
