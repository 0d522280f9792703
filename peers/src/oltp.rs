//! Runs statements by key, TPC-B and TPC-C through SQL on Lode and on SQLite with the same driver, in turn.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use lode_bench::sql::report::{OltpTable, json};
use lode_bench::text_table::TextTable;
use lode_workload::disk::Disk;
use lode_workload::harness::{Probes, Schedule};
use lode_workload::measure::Causes;
use lode_workload::sql::SqlDatabase;
use lode_workload::sql::oltp::{Groups, Loaded, OltpRow, Options, Step, Workload};
use lode_workload::sql::tpcc::Schema;
use lode_workload::store::StoreResult;
use lode_workload::tpcc::Sizes;
use lode_workload::upkeep::Upkeep;

use crate::Failure;
use crate::stores::lode;
use crate::stores::sqlite_sql::SqliteSql;
use crate::tpcc::{beside, median};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// statements, tpcb, tpcc or all
    #[arg(long, default_value = "all", value_parser = ["statements", "tpcb", "tpcc", "all"])]
    workload: String,
    /// Numbers of connections, one thread each
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    connections: Vec<u16>,
    /// Scales: branches of TPC-B, and warehouses of TPC-C
    #[arg(long, value_delimiter = ',', default_value = "1")]
    scale: Vec<u16>,
    /// When a commit is durable: commit or none
    #[arg(long, default_value = "commit", value_parser = ["commit", "none"])]
    durability: String,
    /// Numbers of indexes of the statements' table
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u8).range(..=4))]
    indexes: Vec<u8>,
    /// Rows of the statements' table
    #[arg(long, default_value = "100000")]
    rows: u32,
    /// Give the tables of TPC-C their foreign keys
    #[arg(long)]
    foreign_keys: bool,
    /// The seed of all random choices
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Small tables, and runs of a fifth of a second
    #[arg(long)]
    quick: bool,
    /// Rounds, each with new tables; medians count
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The directory whose file system is measured
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Memory of Lode, half of it for pages; SQLite's cache is as large as that half
    #[arg(long, default_value = "2GB", value_parser = parse_bytes)]
    memory: u64,
    /// Seconds to measure, for each run
    #[arg(long, default_value = "5")]
    seconds: f64,
    /// Seconds to run before the measurement
    #[arg(long, default_value = "1")]
    warm_up: f64,
    /// Seconds per interval of the throughput over time
    #[arg(long, default_value = "1")]
    interval: f64,
    /// Write JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Parses a size with a unit: `512MB`, `2GB`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let bad = || "a size is a number with a unit, such as 512MB or 2GB".to_string();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let factor = match text[split..].trim().to_ascii_uppercase().as_str() {
        "MB" => 1e6,
        "GB" => 1e9,
        "MIB" => 1024f64 * 1024.0,
        "GIB" => 1024f64.powi(3),
        _ => return Err(bad()),
    };
    let bytes = text[..split].parse::<f64>().map_err(|_| bad())? * factor;
    if (1e6..1e15).contains(&bytes) { Ok(bytes as u64) } else { Err(bad()) }
}

fn options(args: &Args) -> Result<Options, Failure> {
    let seconds = |s: f64| Duration::from_secs_f64(s.clamp(0.001, 86_400.0));
    let schedule = match args.quick {
        true => Schedule { warm_up: Duration::ZERO, length: seconds(0.2), interval: seconds(0.1) },
        false => Schedule {
            warm_up: seconds(args.warm_up),
            length: seconds(args.seconds),
            interval: seconds(args.interval),
        },
    };
    let small = Sizes { warehouses: 1, districts: 2, customers: 30, items: 100 };
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros() as i64;
    Ok(Options {
        workloads: Workload::ALL
            .into_iter()
            .filter(|w| args.workload == "all" || args.workload == w.name())
            .collect(),
        connections: args.connections.clone(),
        scales: args.scale.clone(),
        indexes: args.indexes.clone(),
        rows: if args.quick { args.rows.min(1000) } else { args.rows },
        accounts: if args.quick { 1000 } else { 100_000 },
        sizes: if args.quick { small } else { Sizes::standard(1) },
        schema: Schema { foreign_keys: args.foreign_keys },
        schedule,
        seed: args.seed,
        date,
    })
}

/// A database that takes turns, with its background work and the reports of its bytes.
struct Contestant<'a, D> {
    name: &'static str,
    database: &'a D,
    upkeep: &'a dyn Upkeep,
    disk: Option<&'a Disk>,
    dir: &'a Path,
    stop: &'a dyn Fn() -> bool,
}

impl<D: SqlDatabase> Contestant<'_, D> {
    fn load<'o>(&self, groups: &Groups<'o>, group: usize) -> Result<Loaded<'o>, Failure> {
        let over = AtomicBool::new(false);
        let loaded = beside(self.upkeep, &over, || groups.load(group, self.database))?;
        self.upkeep.settle()?;
        Ok(loaded)
    }

    fn run(&self, loaded: &Loaded<'_>, step: Step) -> Result<OltpRow, Failure> {
        // What the other one left to write to the file system does not disturb this one.
        let synced = std::process::Command::new("sync").arg("-f").arg(self.dir).status()?;
        if !synced.success() {
            return Err("sync -f failed".into());
        }
        let probes = Probes {
            disk: &|| self.disk.and_then(Disk::bytes_written),
            causes: &|| -> Option<Causes> { self.upkeep.causes() },
            settle: &|| -> StoreResult { self.upkeep.settle() },
            stop: self.stop,
        };
        let over = AtomicBool::new(false);
        beside(self.upkeep, &over, || loaded.run(self.database, step, &probes))
    }
}

/// The rates of a step, a pair for each round.
struct Line {
    row: OltpRow,
    lode: Vec<f64>,
    sqlite: Vec<f64>,
}

pub(crate) fn run(args: &Args, stop: &dyn Fn() -> bool) -> Result<(), Failure> {
    let dir = tempfile::tempdir_in(&args.dir)?;
    let (lode_dir, sqlite_dir) = (dir.path().join("lode"), dir.path().join("sqlite"));
    std::fs::create_dir(&lode_dir)?;
    std::fs::create_dir(&sqlite_dir)?;
    let (lode_sql, upkeep) = lode::sql(&lode_dir, args.memory)?;
    let lode_sql = lode_sql.with_durability(&args.durability);
    let durable = args.durability == "commit";
    let sqlite_sql = SqliteSql::new(&sqlite_dir, (args.memory / 2) as usize, durable, args.foreign_keys)?;
    let disk = Disk::under(dir.path());
    let lode = Contestant {
        name: "Lode",
        database: &lode_sql,
        upkeep: &*upkeep,
        disk: disk.as_ref(),
        dir: dir.path(),
        stop,
    };
    let sqlite = Contestant {
        name: "SQLite",
        database: &sqlite_sql,
        upkeep: &(),
        disk: disk.as_ref(),
        dir: dir.path(),
        stop,
    };
    let options = options(args)?;
    let groups = Groups::new(&options);
    let mut table = OltpTable::new(true);
    let mut lines: Vec<Line> = Vec::new();
    for round in 0..args.rounds {
        let mut at = 0;
        for group in 0..groups.count() {
            eprintln!("round {}: {}", round + 1, groups.name(group));
            let (ours, theirs) = (lode.load(&groups, group)?, sqlite.load(&groups, group)?);
            for step in groups.steps(group) {
                let (a, b) = (lode.run(&ours, step)?, sqlite.run(&theirs, step)?);
                for (name, row) in [(lode.name, &a), (sqlite.name, &b)] {
                    if args.json {
                        println!("{}", json(name, row));
                    }
                    table.add(name, row);
                }
                if round == 0 {
                    lines.push(Line { row: a.clone(), lode: Vec::new(), sqlite: Vec::new() });
                }
                lines[at].lode.push(a.measured.rate);
                lines[at].sqlite.push(b.measured.rate);
                at += 1;
            }
            ours.end(lode.database)?;
            theirs.end(sqlite.database)?;
        }
    }
    if !args.json {
        print!("{}", table.render());
    }
    ratios(args, lines);
    Ok(())
}

/// Prints the medians of the rounds' rates, and their ratios.
fn ratios(args: &Args, lines: Vec<Line>) {
    let mut table =
        TextTable::new(&["what", ">scale", ">indexes", ">conn.", "style", ">Lode/s", ">SQLite/s", ">ratio"]);
    for Line { row, lode, sqlite } in lines {
        let (lode, sqlite) = (median(lode), median(sqlite));
        let ratio = lode / sqlite.max(1e-9);
        if args.json {
            println!(
                "{}",
                serde_json::json!({
                    "workload": row.workload, "row": "ratio", "what": row.what, "scale": row.scale,
                    "indexes": row.indexes, "connections": row.connections, "style": row.style,
                    "durability": args.durability, "lode": lode, "sqlite": sqlite, "ratio": ratio,
                })
            );
        }
        table.row([
            format!("{}: {}", row.workload.name(), row.what),
            row.scale.map_or_else(String::new, |n| n.to_string()),
            row.indexes.map_or_else(String::new, |n| n.to_string()),
            row.connections.to_string(),
            row.style.name().into(),
            format!("{lode:.0}"),
            format!("{sqlite:.0}"),
            if ratio < 0.1 { format!("{ratio:.4}") } else { format!("{ratio:.2}") },
        ]);
    }
    if !args.json {
        print!("\n{}", table.render());
        println!("All sums and conditions hold, durability {}.", args.durability);
    }
}
