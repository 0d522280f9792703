//! `lode bench ch`: TPC-C through SQL with the 22 queries of CH-benCHmark beside it.

mod modelled;

use std::time::Duration;

use lode_bench::sql::LodeSql;
use lode_firmware::Drive;
use lode_workload::harness::{Probes, RunError, Schedule};
use lode_workload::measure::Percentiles;
use lode_workload::random::Random;
use lode_workload::sql::ch::{self, Asked, QUERIES, Report};
use lode_workload::sql::tpcc::{self as sql_tpcc, Schema};
use lode_workload::sql::{SqlDatabase, Style, Value};
use lode_workload::store::StoreResult;
use lode_workload::tpcc::names::Dice;
use lode_workload::tpcc::rows::W;
use lode_workload::tpcc::{Plan, Sizes};

use super::embedded::{Embedded, Times, failed};
use super::oltp::{QUICK, SqlPlace, inconsistent, now_us, parse_durability, tell};
use crate::drive_file::{Modelled, parse_capacity};
use crate::error::CliResult;
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, count};

/// Run the 22 queries of CH-benCHmark beside TPC-C
#[derive(clap::Args)]
#[command(
    long_about = "Run the 22 queries of CH-benCHmark beside TPC-C, through SQL, in wall time.\n\n\
        Four runs, each of --seconds: terminals without a pause, for the peak rate; queries alone; transactions that arrive at \
        half the peak rate, whether earlier ones are done or not (an open loop); the same with queries beside them. One \
        analyst asks the queries in turn. Each is a transaction: BEGIN, the query, one of TPC-C's conditions 1 to 4 in the \
        same snapshot, COMMIT. A latency begins at the arrival.\n\n\
        A violated condition is a failure, in a query's snapshot or of all twelve at the end. With --fill, other rows \
        fill the drive first.\n\n\
        With --profile, all is on a modelled device in memory, and in modelled time, --warm-up and --seconds too. Terminals, \
        the analyst and a worker that merges have a clock each. The runs are: queries alone; transactions alone, without a \
        pause; both; transactions alone again. Each query is asked at least once. The same options give the same digits.",
    after_long_help = "EXAMPLES\n    lode bench ch\n    lode bench ch --warehouses 4 --seconds 60 --capacity 4GiB --fill 60\n    \
        lode bench ch --rate 200 --json\n    lode bench ch --quick\n    \
        lode bench ch --profile isp-adms11 --capacity 2GiB --fill 60\n\nJSON ROWS\n    \
        One object per line for each run (row: peak, queries alone, transactions, transactions and queries): \
        transactions (as in lode bench oltp) and analyst (queries_an_hour, query_ms: the sum of times and the number of \
        answers per query). The last row, total: rate, rate_kept and p99_ratio (with queries to without), \
        queries_an_hour, queries_ratio (beside transactions to alone). With --profile: row, transactions (rate, latency, \
        parts_us: what the time of a transaction was spent on, behind_us), analyst (queries_an_hour, query_ms) and merged; \
        total: used (the part of the drive in use), alone, beside, kept (beside to alone), queries_an_hour, queries_kept."
)]
pub(super) struct Args {
    /// Warehouses
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(W).range(1..=2000))]
    warehouses: W,

    /// Terminals, one thread each
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    terminals: u16,

    /// Transactions that arrive in a second; by default half the peak rate, which is measured first
    #[arg(long, value_name = "N", value_parser = parse_rate, conflicts_with = "profile")]
    rate: Option<f64>,

    /// Threads that run a query
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "profile", value_parser = clap::value_parser!(u16).range(1..=1024))]
    partitions: u16,

    /// When a commit is durable: commit, group(MS) or none
    #[arg(long, value_name = "WHEN", default_value = "commit", value_parser = parse_durability)]
    durability: String,

    /// The capacity of a temporary drive
    #[arg(long, value_name = "SIZE", value_parser = parse_capacity, conflicts_with = "drive")]
    capacity: Option<u64>,

    /// How full the drive is made before the runs, in percent
    #[arg(long, value_name = "P", requires = "capacity", value_parser = clap::value_parser!(u8).range(1..=90))]
    fill: Option<u8>,

    /// The seed of all random choices: of the data and of the requests
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// A quick check that it runs: small tables, and runs of a second
    #[arg(long)]
    quick: bool,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    times: Times,

    #[command(flatten)]
    place: SqlPlace,

    #[command(flatten)]
    modelled: Modelled,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && (0.01..=1e7).contains(&rate) => Ok(rate),
        _ => Err("a rate is a number from 0.01 to 10000000".into()),
    }
}

pub(super) fn run(args: &Args) -> CliResult {
    if let Some(profile) = args.modelled.profile()? {
        return modelled::run(args, &profile);
    }
    let (opened, sql) = args.place.open(args.capacity)?;
    let result = bench(args, &opened, &sql.with_durability(&args.durability));
    result.and(opened.close())
}

/// The runs that are told, by their names.
struct Rows<'a> {
    args: &'a Args,
    table: TextTable,
}

impl Rows<'_> {
    fn tell(&mut self, name: &str, transactions: Option<&Report>, asked: Option<&Asked>) -> CliResult {
        if self.args.json {
            let row = serde_json::json!({
                "workload": "ch", "row": name, "transactions": transactions.map(|r| &r.transactions), "analyst": asked,
            });
            return println_quietly(&row.to_string());
        }
        let latency = transactions.map(|r| r.transactions.measured.latency);
        let ms = |f: fn(&Percentiles) -> f64| latency.map_or("-".into(), |l| format!("{:.2}", f(&l) / 1e3));
        self.table.row([
            name.to_string(),
            transactions.map_or("-".into(), |r| format!("{:.1}", r.transactions.measured.rate)),
            ms(|l| l.p50_us),
            ms(|l| l.p99_us),
            ms(|l| l.max_us),
            transactions.map_or("-".into(), |r| count(r.transactions.measured.conflicts)),
            asked.map_or("-".into(), |a| a.queries.to_string()),
            asked.map_or("-".into(), |a| format!("{:.0}", a.queries_an_hour)),
        ]);
        Ok(())
    }
}

fn bench(args: &Args, opened: &Embedded, sql: &LodeSql) -> CliResult {
    let sizes = if args.quick { QUICK } else { Sizes::standard(args.warehouses) };
    let schedule = match args.quick {
        true => Schedule {
            warm_up: Duration::ZERO,
            length: Duration::from_secs(1),
            interval: Duration::from_millis(500),
        },
        false => args.times.schedule(),
    };
    tell("loading");
    opened.run(|probes| {
        sql_tpcc::load(sql, Schema::default(), &sizes, args.seed, now_us())?;
        ch::load(sql, args.seed)?;
        Ok((probes.settle)()?)
    })?;
    if let Some(percent) = args.fill {
        tell("filling the drive");
        opened.run(|_| Ok::<(), RunError>(fill(opened.local(), sql, percent, args.seed)?))?;
    }
    let queries = sql.with_partitions(args.partitions.into());
    let plan = |run, arrivals_a_second| ch::Plan {
        tpcc: Plan {
            sizes,
            terminals: args.terminals,
            schedule,
            seed: args.seed,
            run,
            queue_at_hot_rows: false,
            arrivals_a_second,
        },
        style: Style::Prepared,
    };
    let beside = |run, rate, queries: Option<&LodeSql>| {
        opened.run(|probes: &Probes<'_>| ch::beside(sql, queries, &plan(run, rate), probes))
    };
    let mut rows = Rows {
        args,
        table: TextTable::new(&[
            "run",
            ">transactions/s",
            ">p50 ms",
            ">p99 ms",
            ">most ms",
            ">retries",
            ">queries",
            ">queries/h",
        ]),
    };
    let rate = match args.rate {
        Some(rate) => rate,
        None => {
            tell("peak");
            let peak = beside(1, None, None)?;
            rows.tell("peak", Some(&peak), None)?;
            (peak.transactions.measured.rate / 2.0).max(0.01)
        }
    };
    tell("queries alone");
    let alone =
        opened.run(|_| ch::alone(&queries, &sizes, schedule.length, &|| interrupt::signal().is_some()))?;
    rows.tell("queries alone", None, Some(&alone))?;
    tell("transactions");
    let without = beside(2, Some(rate), None)?;
    rows.tell("transactions", Some(&without), None)?;
    tell("transactions and queries");
    let with = beside(3, Some(rate), Some(&queries))?;
    let asked = with.analyst.clone().unwrap_or_default();
    rows.tell("transactions and queries", Some(&with), Some(&asked))?;
    check(sql, &sizes, [&alone, &asked])?;
    opened.run(|_| Ok::<(), RunError>(drop_tables(sql, args.fill.is_some())?))?;
    total(args, rows, rate, &alone, &without, &with, &asked)
}

/// Tells violations of TPC-C's conditions: in the snapshots of queries, or now.
fn check<'a>(sql: &LodeSql, sizes: &Sizes, asked: impl IntoIterator<Item = &'a Asked>) -> CliResult {
    for asked in asked {
        if asked.violations > 0 {
            return Err(inconsistent(&asked.told, asked.violations));
        }
    }
    let found = sql.connect().and_then(|mut connection| sql_tpcc::check(&mut *connection, sizes));
    let found = found.map_err(failed)?;
    if found.count > 0 {
        return Err(inconsistent(&found.told, found.count));
    }
    Ok(())
}

/// The mean time of each query, with so many decimals.
fn query_times(alone: &Asked, beside: &Asked, decimals: usize) -> String {
    let mut times = TextTable::new(&["query", ">alone ms", ">beside ms"]);
    for (query, (alone, beside)) in QUERIES.iter().zip(alone.query_ms.iter().zip(&beside.query_ms)) {
        let mean = |(ms, n): &(f64, u64)| match n {
            0 => "-".into(),
            n => format!("{:.decimals$}", ms / *n as f64),
        };
        times.row([format!("Q{}", query.number), mean(alone), mean(beside)]);
    }
    times.render()
}

fn total(
    args: &Args,
    rows: Rows<'_>,
    rate: f64,
    alone: &Asked,
    without: &Report,
    with: &Report,
    asked: &Asked,
) -> CliResult {
    let (quiet, busy) = (&without.transactions.measured, &with.transactions.measured);
    let rate_kept = busy.rate / rate;
    let p99_ratio = busy.latency.p99_us / quiet.latency.p99_us.max(1e-3);
    let queries_ratio = asked.queries_an_hour / alone.queries_an_hour.max(1e-9);
    if args.json {
        let row = serde_json::json!({
            "workload": "ch", "row": "total", "warehouses": args.warehouses, "terminals": args.terminals,
            "durability": args.durability, "rate": rate, "rate_kept": rate_kept, "p99_ratio": p99_ratio,
            "queries_an_hour": asked.queries_an_hour, "queries_ratio": queries_ratio, "consistent": true,
        });
        return println_quietly(&row.to_string());
    }
    println_quietly(&format!(
        "{}{}{rate:.1} transactions arrived in a second on average, {:.0} % of that rate was served beside queries; p99 with \
         queries {p99_ratio:.2} times that without; queries an hour {queries_ratio:.2} times those alone.\nAll consistency conditions hold, in the snapshots of \
         queries too.",
        rows.table.render(),
        query_times(alone, asked, 1),
        rate_kept * 100.0,
    ))
}

/// The length of a filling row's text.
const FILL_CHARS: u32 = 1000;
/// The rows of a load of the filling table.
const FILL_ROWS: u32 = 20_000;

/// Loads rows until so many percent of what the drive takes are used.
fn fill(drive: Option<&Drive>, sql: &LodeSql, percent: u8, seed: u64) -> StoreResult {
    let mut connection = sql.connect()?;
    connection
        .execute_text("CREATE TABLE filling (f_id INTEGER NOT NULL PRIMARY KEY, f_data VARCHAR(1000))")?;
    let mut dice = Dice(Random(seed ^ 0xF111));
    let mut next = 1;
    let is_full = || {
        drive.is_none_or(|drive| {
            let info = drive.info();
            info.live_bytes * 100 >= info.usable_bytes * u64::from(percent)
        })
    };
    while !is_full() && interrupt::signal().is_none() {
        let mut loader = connection.loader(&["filling"])?;
        for id in next..next + FILL_ROWS {
            loader.add("filling", &[id.into(), Value::Text(dice.text(FILL_CHARS, FILL_CHARS))])?;
        }
        loader.finish()?;
        next += FILL_ROWS;
    }
    Ok(())
}

fn drop_tables(sql: &LodeSql, filled: bool) -> StoreResult {
    let mut connection = sql.connect()?;
    if filled {
        connection.execute_text("DROP TABLE filling")?;
    }
    ch::drop_all(sql)?;
    sql_tpcc::drop_all(&mut *connection)
}
