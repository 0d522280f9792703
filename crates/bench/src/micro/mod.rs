//! Measures the wall time per row that this machine's host takes, operator by operator: the `[host]` table of a
//! profile.
//!
//! ```text
//!   lineitem in memory ─► operator over it ─► time ─┐
//!                     └─► the bare source ──► time ─┴─► difference / rows: in turn, round by round, and the median
//!   pages of lineitem ─► columns ─► Arrow ──► time / rows
//!   an empty command ─► queue of a drive in memory ─► completion: time
//!   nodes of trees, row pages ─► pages.rs ─► time / searches, entries, rows
//! ```
//!
//! The measurement uses one thread, one partition and batches of 8,192 rows. Planning is not measured. The rows are
//! the input rows of an operator, as the modelled host counts them. The operators are DataFusion's, taken from plans
//! of TPC-H.

mod pages;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use lode_base::{CommitNo, EXTENT_PAGES, ExtentId, Geometry, Lpid, PageBuf, TableId};
use lode_command::Command;
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_page::{Column, DataType, PageKind, PageMeta, TablePage, encode};
use lode_sql::arrow_convert::{from_arrow, to_arrow};
use serde::Serialize;

use crate::BenchError;
use crate::drive_host::{DriveError, Host};
use crate::tpch::Scale;
use crate::tpch::data::generate;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The scale of TPC-H.
    pub scale: f64,
    /// The number of rounds. The median counts.
    pub rounds: usize,
    /// The least time of each side of a round.
    pub round: Duration,
}

impl Plan {
    /// A measurement of half a minute on 600,000 rows.
    pub const FULL: Self = Self { scale: 0.1, rounds: 15, round: Duration::from_millis(100) };
    /// A measurement of seconds on 60,000 rows.
    pub const QUICK: Self = Self { scale: 0.01, rounds: 5, round: Duration::from_millis(10) };
}

/// A measured cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Its key in a profile's `[host]` table.
    pub key: &'static str,
    /// What was measured.
    pub what: &'static str,
    /// The median of the rounds, in nanoseconds per row or command.
    pub ns: f64,
    /// The minimum of the rounds.
    pub ns_min: f64,
    /// The maximum of the rounds.
    pub ns_max: f64,
    /// The rows or commands of one execution.
    pub rows: u64,
}

/// An operator and its source.
struct Operator {
    key: &'static str,
    what: &'static str,
    /// The operator's name in a plan. The plan must have it exactly once.
    name: &'static str,
    sql: &'static str,
    source: &'static [&'static str],
}

const OPERATORS: [Operator; 6] = [
    Operator {
        key: "filter_ns",
        what: "Q6's condition on date, discount and quantity",
        name: "FilterExec",
        sql: "SELECT l_extendedprice, l_discount FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' \
              AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
        source: &["SELECT l_quantity, l_extendedprice, l_discount, l_shipdate FROM lineitem"],
    },
    Operator {
        key: "project_ns",
        what: "Q3's revenue, l_extendedprice * (1 - l_discount), beside a key",
        name: "ProjectionExec",
        sql: "SELECT l_orderkey, l_extendedprice * (1 - l_discount) FROM lineitem",
        source: &["SELECT l_orderkey, l_extendedprice, l_discount FROM lineitem"],
    },
    Operator {
        key: "aggregate_ns",
        what: "a count, two sums and an average in Q1's four groups",
        name: "AggregateExec",
        sql: "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice), avg(l_discount) \
              FROM lineitem GROUP BY l_returnflag, l_linestatus",
        source: &["SELECT l_quantity, l_extendedprice, l_discount, l_returnflag, l_linestatus FROM lineitem"],
    },
    Operator {
        key: "join_ns",
        what: "lineitem with orders by hash: a row of either",
        name: "HashJoinExec",
        sql: "SELECT l_extendedprice, o_orderdate FROM lineitem JOIN orders ON l_orderkey = o_orderkey",
        source: &[
            "SELECT l_orderkey, l_extendedprice FROM lineitem",
            "SELECT o_orderkey, o_orderdate FROM orders",
        ],
    },
    Operator {
        key: "sort_ns",
        what: "all of lineitem by price and key",
        name: "SortExec",
        sql: "SELECT l_orderkey, l_extendedprice FROM lineitem ORDER BY l_extendedprice DESC, l_orderkey",
        source: &["SELECT l_orderkey, l_extendedprice FROM lineitem"],
    },
    Operator {
        key: "other_ns",
        what: "OFFSET, which cuts a batch and hands on the others",
        name: "GlobalLimitExec",
        sql: "SELECT l_orderkey, l_extendedprice FROM lineitem OFFSET 100",
        source: &["SELECT l_orderkey, l_extendedprice FROM lineitem"],
    },
];

/// The columns of the measured scan: those of Q1.
const SCANNED: [&str; 7] =
    ["l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_returnflag", "l_linestatus", "l_shipdate"];
/// The number of commands in one execution.
const COMMANDS: u64 = 1000;
/// The longest page, in bytes.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// Measures all costs, in the order of a profile. It calls `stop` between rounds.
///
/// # Errors
/// If DataFusion or the drive fails, or `stop` returns true.
pub async fn run(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<Vec<Cost>, BenchError> {
    let scale = Scale::new(plan.scale).expect("a plan has a scale of TPC-H");
    let data = Data::new(scale)?;
    let mut costs = vec![commands(plan, stop)?, scan(plan, &data, stop)?];
    for operator in &OPERATORS {
        costs.push(measure(plan, &data, operator, stop).await?);
    }
    costs.extend([pages::node(plan, stop)?, pages::entry(plan, stop)?, pages::place(plan, &data, stop)?]);
    Ok(costs)
}

/// The tables, in memory.
struct Data {
    context: SessionContext,
    lineitem: Vec<RecordBatch>,
    rows: [(&'static str, u64); 2],
}

impl Data {
    fn new(scale: Scale) -> Result<Self, BenchError> {
        let failed = |source| BenchError::DataFusion { doing: "generating TPC-H".into(), source };
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        let mut tables = Vec::new();
        for name in ["lineitem", "orders"] {
            let batches = generate(name, scale);
            let schema = batches.schema();
            let batches = batches.collect::<Result<Vec<_>, _>>().map_err(|e| failed(e.into()))?;
            let rows = batches.iter().map(|b| b.num_rows() as u64).sum();
            let table = MemTable::try_new(schema, vec![batches.clone()]).map_err(failed)?;
            context.register_table(name, Arc::new(table)).map_err(failed)?;
            tables.push((name, rows, batches));
        }
        let rows = [0, 1].map(|i: usize| (tables[i].0, tables[i].1));
        Ok(Self { context, lineitem: tables.swap_remove(0).2, rows })
    }

    /// The number of rows that an operator's sources produce.
    fn rows(&self, operator: &Operator) -> u64 {
        let of = |sql: &&str| self.rows.iter().find(|t| sql.ends_with(t.0)).map_or(0, |t| t.1);
        operator.source.iter().map(of).sum()
    }

    async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        self.context.sql(sql).await?.create_physical_plan().await
    }

    /// Runs a query to its end and returns the time without planning.
    async fn time(&self, sql: &str) -> Result<Duration, DataFusionError> {
        // Each run needs a new plan, because a plan may keep state. A join keeps its hash table, for example.
        let plan = self.plan(sql).await?;
        let start = Instant::now();
        let mut batches = execute_stream(plan, self.context.task_ctx())?;
        while let Some(batch) = batches.next().await {
            black_box(batch?);
        }
        Ok(start.elapsed())
    }

    /// Runs all queries repeatedly for a time and returns the mean time of one pass.
    async fn mean(&self, queries: &[&str], round: Duration) -> Result<Duration, DataFusionError> {
        let (mut sum, mut count) = (Duration::ZERO, 0);
        while sum < round {
            for sql in queries {
                sum += self.time(sql).await?;
            }
            count += 1;
        }
        Ok(sum / count)
    }
}

/// Measures queries with and without an operator, in turn.
async fn measure(
    plan: &Plan,
    data: &Data,
    operator: &Operator,
    stop: &dyn Fn() -> bool,
) -> Result<Cost, BenchError> {
    let failed = |source| BenchError::DataFusion { doing: format!("measuring {}", operator.key), source };
    let physical = data.plan(operator.sql).await.map_err(failed)?;
    let text = displayable(physical.as_ref()).indent(false).to_string();
    assert_eq!(text.matches(operator.name).count(), 1, "{}: {text}", operator.key);
    let rows = data.rows(operator);
    let mut rounds = Vec::new();
    // The additional first round warms up.
    for _ in 0..=plan.rounds {
        go_on(stop)?;
        let with = data.mean(&[operator.sql], plan.round).await.map_err(failed)?;
        let without = data.mean(operator.source, plan.round).await.map_err(failed)?;
        rounds.push(with.as_secs_f64() - without.as_secs_f64());
    }
    Ok(cost(operator.key, operator.what, rows, &rounds[1..]))
}

/// Measures the conversion of table pages, as the drive returns them, to batches.
fn scan(plan: &Plan, data: &Data, stop: &dyn Fn() -> bool) -> Result<Cost, BenchError> {
    let pages: Vec<_> = (0..).zip(&data.lineitem).map(|(n, batch)| page(n, batch)).collect();
    let once = || {
        for (lpid, columns, page) in &pages {
            black_box(columns_of(*lpid, columns, page));
        }
    };
    let what = "from a page with its checks to Arrow: Q1's seven columns";
    measured(plan, stop, "scan_ns", what, data.rows[0].1, once)
}

/// A column page with the scanned columns of a batch.
fn page(n: u64, batch: &RecordBatch) -> (Lpid, Vec<usize>, PageBuf) {
    let extent = ExtentId::new(1 + n / EXTENT_PAGES as u64).expect("there are so many");
    let lpid = extent.page((n % EXTENT_PAGES as u64) as u16);
    let meta = PageMeta {
        lpid,
        table: TableId::new(1),
        schema_version: 1,
        kind: PageKind::Column,
        commit: CommitNo::new(0),
    };
    let schema = batch.schema();
    let columns = from_columns(batch);
    let wanted = SCANNED.iter().map(|name| schema.index_of(name).expect("lineitem has it")).collect();
    (lpid, wanted, encode(&meta, &columns, PAGE_BYTES_MAX).expect("8,192 rows fit a page"))
}

fn from_columns(batch: &RecordBatch) -> Vec<Column> {
    let column = |c: &ArrayRef| from_arrow(c, page_type(c.data_type())).expect("TPC-H fits a page");
    batch.columns().iter().map(column).collect()
}

fn page_type(t: &ArrowType) -> DataType {
    match t {
        ArrowType::Int64 => DataType::BigInt,
        ArrowType::Int32 => DataType::Integer,
        ArrowType::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: *scale as u8 }
        }
        ArrowType::Date32 => DataType::Date,
        ArrowType::Utf8View | ArrowType::Utf8 => DataType::Text,
        other => unreachable!("lineitem has no {other}"),
    }
}

fn columns_of(lpid: Lpid, wanted: &[usize], page: &PageBuf) -> Vec<ArrayRef> {
    let opened = TablePage::open(lpid, page.len() as u32, page).expect("it was just made");
    let column = |&c: &usize| {
        let segment = opened.segment(c);
        let column = opened.decode(c, page.slice(segment.start as usize..segment.end as usize));
        to_arrow(&column.expect("it was just made")).expect("it was Arrow's")
    };
    wanted.iter().map(column).collect()
}

/// Measures empty commands, one after the other.
fn commands(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<Cost, BenchError> {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 64).map_err(DriveError::from)?;
    let drive = Drive::format(Medium::memory(geometry), DriveOptions::default()).map_err(DriveError::from)?;
    let mut host = Host::new(&drive, 1)?;
    let mut rounds = Vec::new();
    for _ in 0..=plan.rounds {
        go_on(stop)?;
        let mut failed = None;
        let once = || {
            for _ in 0..COMMANDS {
                let nothing = Command::Read { view: None, pages: Vec::new() };
                failed = host.run(black_box(nothing)).err().or(failed.take());
            }
        };
        rounds.push(mean(plan.round, once));
        if let Some(e) = failed {
            return Err(e.into());
        }
    }
    let what = "an empty read through a queue of a drive in memory; a kernel's part is not in it";
    Ok(cost("command_ns", what, COMMANDS, &rounds[1..]))
}

/// Measures what is done so many times by a call of `once`.
fn measured(
    plan: &Plan,
    stop: &dyn Fn() -> bool,
    key: &'static str,
    what: &'static str,
    times: u64,
    mut once: impl FnMut(),
) -> Result<Cost, BenchError> {
    let mut rounds = Vec::new();
    for _ in 0..=plan.rounds {
        go_on(stop)?;
        rounds.push(mean(plan.round, &mut once));
    }
    Ok(cost(key, what, times, &rounds[1..]))
}

/// Calls `once` repeatedly for a time and returns the mean time of a call, in seconds.
fn mean(round: Duration, mut once: impl FnMut()) -> f64 {
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < round {
        once();
        count += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(count)
}

fn go_on(stop: &dyn Fn() -> bool) -> Result<(), BenchError> {
    if stop() { Err(BenchError::Interrupted) } else { Ok(()) }
}

/// A cost from the seconds of its rounds. If the median difference is not positive, the operator's cost is too small
/// to measure: 0.
fn cost(key: &'static str, what: &'static str, rows: u64, rounds: &[f64]) -> Cost {
    let mut ns: Vec<f64> = rounds.iter().map(|s| (s * 1e9 / rows as f64).max(0.0)).collect();
    ns.sort_unstable_by(f64::total_cmp);
    Cost { key, what, ns: ns[ns.len() / 2], ns_min: ns[0], ns_max: ns[ns.len() - 1], rows }
}

/// The name of this machine's CPU.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| format!("an unnamed {} CPU", std::env::consts::ARCH), |(_, name)| name.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_key_of_a_profile_is_measured_and_sensible() {
        let plan = Plan { scale: 0.002, rounds: 3, round: Duration::from_millis(1) };
        let costs = run(&plan, &|| false).await.unwrap();
        let keys: Vec<_> = costs.iter().map(|c| c.key).collect();
        let expected = [
            "command",
            "scan",
            "filter",
            "project",
            "aggregate",
            "join",
            "sort",
            "other",
            "node",
            "entry",
            "place",
        ];
        assert_eq!(keys, expected.map(|k| format!("{k}_ns")));
        for c in &costs {
            assert!(c.ns_min <= c.ns && c.ns <= c.ns_max && c.ns < 1e6 && c.rows >= 1000, "{c:?}");
            assert!(c.ns > 0.0 || c.key == "other_ns", "{c:?}");
        }
    }

    #[tokio::test]
    async fn it_stops_when_asked_to() {
        let error = run(&Plan { scale: 0.001, ..Plan::QUICK }, &|| true).await.unwrap_err();
        assert!(matches!(error, BenchError::Interrupted));
    }

    #[test]
    fn the_median_of_the_rounds_counts_and_nothing_is_negative() {
        let c = cost("filter_ns", "", 10, &[3e-8, -1e-9, 5e-8]);
        assert_eq!((c.ns_min, c.ns_max), (0.0, 5.0));
        assert!((c.ns - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_page_gives_back_the_rows_that_went_into_it() {
        let data = Data::new(Scale::new(0.001).unwrap()).unwrap();
        let batch = &data.lineitem[0];
        let (lpid, wanted, page) = page(0, batch);
        for (array, c) in columns_of(lpid, &wanted, &page).iter().zip(&wanted) {
            assert_eq!(array.len(), batch.num_rows());
            assert_eq!(&array.to_data(), &batch.column(*c).to_data(), "column {c}");
        }
    }
}
