//! `lode bench`: workloads, measured in wall time.

mod age;
mod ch;
mod embedded;
mod endure;
mod endure_life;
pub(crate) mod gc;
mod joins;
mod kv;
mod levels;
mod memory;
mod micro;
mod oltp;
mod peers;
mod raw;
mod results;
mod tpcc;
mod ycsb;

use std::path::PathBuf;

use clap::Subcommand;
use lode_bench::BenchError;
use lode_bench::tpch::compare_parquet::{Measured, ParquetPeer, Plan, measure};
use lode_bench::tpch::{Scale, schema};
use lode_sql::Offload;

use super::load;
use crate::drive_file::{Opened, Resources, create, open_or_create};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count};

/// Run a workload and measure it
#[derive(clap::Args)]
#[command(
    long_about = "Run a workload and measure it, in wall time.",
    after_long_help = "EXAMPLES\n    lode bench tpch --scale 1 --compare parquet\n    \
        lode bench tpch --scale 0.1 --json > tpch.jsonl\n    lode bench oltp --scale 8\n    lode bench raw --seconds 30\n    lode bench tpcc --warehouses 4 --terminals 16"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Run the 22 queries of TPC-H, warm, best of three
    #[command(
        long_about = "Run the 22 queries of TPC-H, warm, best of three.\n\n\
            Loads the data into a temporary drive, or uses the drive that --drive names and loads the data if it \
            has no TPC-H. With --compare parquet, the same rows are written to Parquet files. Plain DataFusion then \
            runs the same queries over them in the same process, with the same number of partitions, in turn with \
            Lode. The answers must agree.",
        after_long_help = "EXAMPLES\n    lode bench tpch --scale 1 --compare parquet --partitions 2\n    \
            lode bench tpch --scale 1 --drive tpch.lode --offload off\n    \
            lode bench tpch --scale 0.1 --compare parquet --json\n\nJSON ROWS\n    \
            One object per line: a row for the load, one for each query, one for the total. Times are in \
            milliseconds; parquet_ms and ratio are null without --compare."
    )]
    Tpch(Tpch),
    Age(age::Args),
    Oltp(oltp::Args),
    Ch(ch::Args),
    Endure(endure::Args),
    Tpcc(tpcc::Args),
    Ycsb(ycsb::Args),
    Kv(kv::Args),
    Memory(memory::Args),
    Gc(gc::Args),
    Joins(joins::Args),
    Levels(levels::Args),
    Micro(micro::Args),
    Raw(raw::Args),
}

#[derive(clap::Args)]
struct Tpch {
    /// How much data: 1 is 8.7 million rows
    #[arg(long, value_name = "S", default_value = "1", allow_negative_numbers = true)]
    scale: Scale,

    /// Also run the queries over Parquet files
    #[arg(long, value_enum, value_name = "PEER")]
    compare: Option<Peer>,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    /// How much the drive does: off, index, matches, hints, pages, rows, aggregate or auto
    #[arg(long, value_name = "LEVEL", default_value_t = Offload::Auto)]
    offload: Offload,

    /// A drive that holds the data, or on which to load and keep it; by default a temporary one
    #[arg(long, value_name = "FILE")]
    drive: Option<PathBuf>,

    #[command(flatten)]
    resources: Resources,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// DataFusion over Parquet files
    Parquet,
}

/// The number of measured runs. The best one counts.
const RUNS: usize = 3;

pub(crate) fn run(args: Args) -> CliResult {
    match args.what {
        BenchCommand::Tpch(args) => tpch(args),
        BenchCommand::Age(args) => age::run(&args),
        BenchCommand::Oltp(args) => oltp::run(&args),
        BenchCommand::Ch(args) => ch::run(&args),
        BenchCommand::Endure(args) => endure::run(&args),
        BenchCommand::Tpcc(args) => tpcc::run(&args),
        BenchCommand::Ycsb(args) => ycsb::run(&args),
        BenchCommand::Kv(args) => kv::run(&args),
        BenchCommand::Memory(args) => memory::run(&args),
        BenchCommand::Gc(args) => gc::run(args),
        BenchCommand::Joins(args) => joins::run(args),
        BenchCommand::Levels(args) => levels::run(args),
        BenchCommand::Micro(args) => micro::run(args),
        BenchCommand::Raw(args) => raw::run(args),
    }
}

fn tpch(args: Tpch) -> CliResult {
    let dir = tempfile::tempdir().map_err(|e| CliError::Failed(format!("temporary directory: {e}")))?;
    let path = args.drive.clone().unwrap_or_else(|| dir.path().join("tpch.lode"));
    let mut opened = match &args.drive {
        Some(path) => open_or_create(path, args.resources, args.offload)?,
        None => create(&path, args.resources, args.offload)?,
    };
    let result = bench(&args, &mut opened, dir.path());
    match args.drive {
        // A drive named by the user keeps the data, even if the queries fail.
        Some(_) => opened.end(&path, result),
        None => result,
    }
}

fn bench(args: &Tpch, opened: &mut Opened, dir: &std::path::Path) -> CliResult {
    prepare(args, opened)?;
    let session = std::sync::Arc::clone(&opened.session);
    let (scale, compare, json, offload) = (args.scale, args.compare, args.json, args.offload);
    let partitions = usize::from(args.resources.partitions);
    let dir = dir.to_path_buf();
    let all = args.resources.block_on(interrupt::until_signal(async move {
        let peer = match compare {
            Some(Peer::Parquet) => Some(ParquetPeer::write(scale, &dir, partitions).await?),
            None => None,
        };
        let plan = Plan { scale, offload, runs: RUNS };
        let each = |m: &Measured| if json { print_json(m) } else { Ok(()) };
        Ok(measure(&session, peer.as_ref(), plan, each).await?)
    }))?;
    if json {
        return println_quietly(&total_json(&all));
    }
    println_quietly(report(&all, args).trim_end())
}

/// Loads the data if the drive does not hold them.
fn prepare(args: &Tpch, opened: &mut Opened) -> CliResult {
    if let Some(found) = orders(opened)? {
        let expected = (1.5e6 * args.scale.factor()) as u64;
        if found != expected {
            let (found, expected) = (count(found), count(expected));
            let text = format!("the drive holds {found} orders; scale {} has {expected}", args.scale);
            return Err(CliError::Failed(text));
        }
        return Ok(());
    }
    let show = if args.json { load::Show::Nothing } else { load::Show::Tables };
    let loaded = load::tpch(opened, args.scale, schema::Layout::Column, args.resources, show)?;
    if args.drive.is_some() {
        opened.keep();
    }
    let seconds = loaded.wall.as_secs_f64();
    if args.json {
        let row = serde_json::json!({
            "workload": "tpch", "row": "load", "scale": args.scale.factor(), "rows": loaded.rows,
            "load_ms": seconds * 1e3,
        });
        return println_quietly(&row.to_string());
    }
    println_quietly(&format!("Loaded {} rows in {seconds:.1} s.", count(loaded.rows)))
}

/// The number of rows in `orders`, if the table exists.
fn orders(opened: &Opened) -> CliResult<Option<u64>> {
    let snapshot = opened.database.snapshot()?;
    let Some(table) = snapshot.table("orders") else { return Ok(None) };
    Ok(Some(snapshot.statistics(&table)?.rows))
}

fn print_json(m: &Measured) -> Result<(), BenchError> {
    let mut row = serde_json::to_value(m).unwrap_or_default();
    row["workload"] = "tpch".into();
    row["row"] = "query".into();
    // If the reader of the output is gone, the benchmark ends at its next row, as after an interrupt.
    println_quietly(&row.to_string()).map_err(|_| BenchError::Interrupted)
}

struct Total {
    lode_ms: f64,
    parquet_ms: Option<f64>,
    ratio: Option<f64>,
}

fn total(all: &[Measured]) -> Total {
    let lode_ms = all.iter().map(|m| m.lode_ms).sum();
    let parquet_ms = all.iter().map(|m| m.parquet_ms).sum::<Option<f64>>();
    Total { lode_ms, parquet_ms, ratio: parquet_ms.map(|p| lode_ms / p) }
}

fn total_json(all: &[Measured]) -> String {
    let t = total(all);
    serde_json::json!({
        "workload": "tpch", "row": "total",
        "lode_ms": t.lode_ms, "parquet_ms": t.parquet_ms, "ratio": t.ratio,
        "ratio_max": all.iter().filter_map(|m| m.ratio).reduce(f64::max),
    })
    .to_string()
}

fn report(all: &[Measured], args: &Tpch) -> String {
    let ms = |v: f64| format!("{v:.1}");
    let optional = |v: Option<f64>, digits: usize| v.map_or_else(|| "-".into(), |v| format!("{v:.digits$}"));
    let mut table = TextTable::new(&[
        "query",
        ">rows",
        ">lode ms",
        ">parquet ms",
        ">ratio",
        ">pages",
        ">skipped",
        ">link",
    ]);
    for m in all {
        table.row([
            format!("Q{}", m.query),
            count(m.rows as u64),
            ms(m.lode_ms),
            optional(m.parquet_ms, 1),
            optional(m.ratio, 2),
            count(m.pages),
            count(m.pages_skipped),
            bytes(m.link_bytes_up),
        ]);
    }
    let t = total(all);
    table.rule();
    table.row([
        "total".into(),
        String::new(),
        ms(t.lode_ms),
        optional(t.parquet_ms, 1),
        optional(t.ratio, 2),
        count(all.iter().map(|m| m.pages).sum()),
        count(all.iter().map(|m| m.pages_skipped).sum()),
        bytes(all.iter().map(|m| m.link_bytes_up).sum()),
    ]);
    let sums = format!(
        "TPC-H scale {}, offload {}, {} partitions, warm, best of {RUNS}.",
        args.scale, args.offload, args.resources.partitions
    );
    format!("{}{sums}\n", table.render())
}
