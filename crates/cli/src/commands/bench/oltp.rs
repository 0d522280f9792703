//! `lode bench oltp`: statements by key, TPC-B and TPC-C through SQL.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lode::{CAPACITY_BYTES, Division, Memory};
use lode_bench::sql::LodeSql;
use lode_bench::sql::report::{OltpTable, json};
use lode_workload::harness::{RunError, Schedule};
use lode_workload::sql::oltp::{Groups, Options, Workload};
use lode_workload::sql::statements::INDEXES_MAX;
use lode_workload::sql::tpcc::Schema;
use lode_workload::tpcc::Sizes;
use lode_workload::tpcc::rows::W;

use super::embedded::{Embedded, Times};
use super::peers;
use crate::error::{CliError, CliResult};
use crate::script::println_quietly;
use crate::table::parse_bytes;

/// Run statements by key, TPC-B and TPC-C through SQL
#[derive(clap::Args)]
#[command(
    long_about = "Run short transactions through SQL statements, in wall time, one thread per connection.\n\n\
        statements: INSERT, UPDATE, DELETE and SELECT by primary key on a table of 100,000 rows of 100 bytes, which is loaded \
        in bulk, with none to four B+-tree indexes. Keys are uniform. SELECT (main) reads loaded rows, SELECT (delta) rows \
        that were inserted or updated since. UPDATE changes columns without an index, UPDATE (indexed) the four that may have \
        one. Each statement is a transaction. tpcb: pgbench's transaction of five statements, with 100,000 accounts per \
        branch. tpcc: the five transactions with the standard's mix, 60 % of customers by last name, without think times. \
        Statements are prepared; those of the first two workloads also run as text that holds the values.\n\n\
        Transactions that conflict are run again and counted; they do not take turns. After each run the sums of TPC-B, or \
        the twelve consistency conditions of TPC-C, are checked by SQL, and counts and sums of the table of statements \
        are compared; a violation is a failure. The figures are not audited, and are not tpmC.\n\n\
        With --peers, the same driver runs Lode and SQLite in turn (lode-peers, which scripts/build_peers.sh builds).",
    after_long_help = "EXAMPLES\n    lode bench oltp\n    lode bench oltp --workload tpcc --scale 1,8 --connections 8 --seconds 30\n    \
        lode bench oltp --workload statements --indexes 0,4 --durability none --json\n    lode bench oltp --quick\n    \
        lode bench oltp --peers --workload tpcb\n\nJSON ROWS\n    \
        One object per line for each run: rate (per second), conflicts (retries), latency (microseconds; latencies by kind, \
        whose names are in kinds), payload_bytes_an_operation (pages of batches), medium_bytes_an_operation (all that the \
        drive programmed), write_amplification (their ratio), disk_bytes_an_operation (at the disk, by any process), causes, \
        new_orders_a_minute and rolled_back (TPC-C). Bytes include background work after the run. For a drive that is \
        served elsewhere, they are null."
)]
pub(super) struct Args {
    /// statements, tpcb, tpcc or all
    #[arg(long, value_name = "NAME", default_value = "all", value_parser = ["statements", "tpcb", "tpcc", "all"])]
    workload: String,

    /// Numbers of connections, one thread each
    #[arg(long, value_name = "N,...", default_value = "1,8", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: Vec<u16>,

    /// Scales: branches of TPC-B, and warehouses of TPC-C
    #[arg(long, value_name = "N,...", default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(W).range(1..=2000))]
    scale: Vec<W>,

    /// When a commit is durable: commit, group(MS) or none
    #[arg(long, value_name = "WHEN", default_value = "commit", value_parser = parse_durability)]
    durability: String,

    /// Numbers of B+-tree indexes of the statements' table
    #[arg(long, value_name = "N,...", default_value = "0,1,2,4", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(..=i64::from(INDEXES_MAX)))]
    indexes: Vec<u8>,

    /// Rows of the statements' table
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    rows: u32,

    /// Give the tables of TPC-C their foreign keys
    #[arg(long)]
    foreign_keys: bool,

    /// The seed of all random choices: of the data and of the requests
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// A quick check that it runs: small tables, and runs of a fifth of a second
    #[arg(long)]
    quick: bool,

    /// Run Lode and SQLite in turn
    #[arg(long, conflicts_with = "drive")]
    peers: bool,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    times: Times,

    #[command(flatten)]
    place: SqlPlace,
}

/// The place of a SQL workload's database, and its memory.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct SqlPlace {
    /// A drive to use, or to make and keep, or tcp://HOST:PORT; by default a temporary one
    #[arg(long, value_name = "FILE")]
    drive: Option<PathBuf>,

    /// The directory of a temporary drive, whose file system is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Memory for buffer pool, trees and queries together, divided as in lode sql
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = parse_bytes)]
    memory: u64,
}

impl SqlPlace {
    /// A drive at a path.
    pub(super) fn at(drive: &Path, memory: u64) -> Self {
        Self { drive: Some(drive.into()), dir: PathBuf::new(), memory }
    }

    /// Whether it is a drive that the user named.
    pub(super) fn is_named(&self) -> bool {
        self.drive.is_some()
    }

    /// The directory of a temporary drive.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The limit of memory.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Opens the database. A temporary drive has this capacity.
    pub(super) fn open(&self, capacity_bytes: Option<u64>) -> CliResult<(Embedded, LodeSql)> {
        let memory = Memory::divided(self.memory, Division::Queries);
        let capacity_bytes = capacity_bytes.unwrap_or(CAPACITY_BYTES);
        let opened = Embedded::open_within(self.drive.as_deref(), &self.dir, &memory, capacity_bytes)?;
        let is_served = lode::drive::address(&opened.path).is_some();
        let scratch = opened.path.parent().filter(|dir| !is_served && !dir.as_os_str().is_empty());
        let scratch = scratch.unwrap_or(Path::new("."));
        let sql = LodeSql::new(opened.store.0.clone(), memory.query_bytes, scratch)?;
        Ok((opened, sql))
    }
}

/// Parses a value of `SET lode.durability`.
pub(super) fn parse_durability(text: &str) -> Result<String, String> {
    let parsed: Result<lode_sql::CommitDurability, _> = text.parse();
    parsed.map(|_| text.to_string()).map_err(|_| "expected commit, group(MS) or none".into())
}

/// The sizes of TPC-C for a quick check.
pub(super) const QUICK: Sizes = Sizes { warehouses: 1, districts: 2, customers: 30, items: 100 };

/// Microseconds since 1970.
pub(super) fn now_us() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}

pub(super) fn run(args: &Args) -> CliResult {
    if args.peers {
        let words = std::env::args_os().skip_while(|w| w != "oltp").skip(1).filter(|w| w != "--peers");
        return peers::run("oltp", words);
    }
    let (opened, sql) = args.place.open(None)?;
    let result = bench(args, &opened, &sql.with_durability(&args.durability));
    // A drive named by the user keeps what else is on it.
    result.and(opened.close())
}

fn options(args: &Args) -> Options {
    let schedule = match args.quick {
        true => Schedule {
            warm_up: Duration::ZERO,
            length: Duration::from_millis(200),
            interval: Duration::from_millis(100),
        },
        false => args.times.schedule(),
    };
    Options {
        workloads: Workload::ALL
            .into_iter()
            .filter(|w| args.workload == "all" || args.workload == w.name())
            .collect(),
        connections: args.connections.clone(),
        scales: args.scale.clone(),
        indexes: args.indexes.clone(),
        rows: if args.quick { args.rows.min(1000) } else { args.rows },
        accounts: if args.quick { 1000 } else { 100_000 },
        sizes: if args.quick { QUICK } else { Sizes::standard(1) },
        schema: Schema { foreign_keys: args.foreign_keys },
        schedule,
        seed: args.seed,
        date: now_us(),
    }
}

fn bench(args: &Args, opened: &Embedded, sql: &LodeSql) -> CliResult {
    let options = options(args);
    let groups = Groups::new(&options);
    let mut table = OltpTable::new(false);
    for group in 0..groups.count() {
        tell(&groups.name(group));
        let loaded = opened.run(|_| Ok(groups.load(group, sql)?))?;
        for step in groups.steps(group) {
            let row = opened.run(|probes| loaded.run(sql, step, probes))?;
            if args.json {
                let mut row = json("Lode", &row);
                row["durability"] = args.durability.as_str().into();
                println_quietly(&row.to_string())?;
            } else {
                table.add("Lode", &row);
            }
        }
        opened.run(|_| Ok::<(), RunError>(loaded.end(sql)?))?;
    }
    if args.json {
        return Ok(());
    }
    let note = opened.note().map_or_else(String::new, |n| format!("\n{n}"));
    println_quietly(&format!(
        "{}Durability {}. payload: pages of batches; medium: all that the drive programmed; ampl.: their ratio; disk: at \
         the disk, by any process. Bytes are per operation, with background work.\nAll sums and conditions hold.{note}",
        table.render(),
        args.durability,
    ))
}

/// Tells a person who waits what is being done.
pub(super) fn tell(what: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{what} ...");
    }
}

/// The message of rows that are not what they must be.
pub(super) fn inconsistent(told: &[String], count: u64) -> CliError {
    let first = told.first().map_or("", String::as_str);
    CliError::Failed(format!("TPC-C is not consistent: {first}, and {} more", count.saturating_sub(1)))
}
