//! `lode bench age`: rounds of TPC-H's refresh functions, with its queries between.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lode_bench::BenchError;
use lode_bench::tpch::age::{Aged, Aging, Checkpoint, Plan, age, export};
use lode_bench::tpch::refresh::{ROUNDS_MAX, SETS, orders_a_round};
use lode_bench::tpch::{Scale, schema};
use lode_sql::Offload;

use super::embedded::parse_seconds;
use super::oltp::tell;
use super::results::Results;
use crate::commands::load;
use crate::drive_file::{Opened, Resources, create};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count};

/// Run rounds of TPC-H's refresh functions, with the 22 queries between
#[derive(clap::Args)]
#[command(
    long_about = "Run rounds of TPC-H's refresh functions, with the 22 queries between, in wall time.\n\n\
        A round is RF1 and RF2: a thousandth of the orders is inserted, each with one to seven line items, and as many old \
        ones are deleted with theirs, by key. Each order is a transaction of prepared statements. New keys lie in the gaps \
        between old ones. Nothing calls VACUUM.\n\n\
        The queries run after the load, after the first and the last round, and every so many rounds between: once right after \
        the round, then warm, best of three, when background work has merged all deltas and the drive is quiet, at most --rest \
        seconds later. After the last round the rows must be the generator's, and each line item must have an order.\n\n\
        With --out, the refreshed tables and the answers are written to a directory, where scripts/check_aged_answers.py \
        compares them with DuckDB's.",
    after_long_help = "EXAMPLES\n    lode bench age\n    lode bench age --scale 0.01 --rounds 10 --queries-every 5\n    \
        lode bench age --scale 0.1 --out aged && scripts/check_aged_answers.py aged\n    lode bench age --json\n\nJSON ROWS\n    \
        One object per line: a row for each checkpoint (round, orders, lineitems, refresh_ms of a round, before and after the \
        rest: live_bytes, disk_bytes, log_bytes, programmed_bytes, delta_rows, lineitem_pages; at_once_ms, rest_s, is_at_rest, query_ms, \
        queries_ms), and one for the ratios of the last round to the first (row: total)."
)]
pub(super) struct Args {
    /// How much data: 1 is 8.7 million rows
    #[arg(long, value_name = "S", default_value = "0.1", allow_negative_numbers = true)]
    scale: Scale,

    /// Rounds of the refresh functions
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=i64::from(ROUNDS_MAX)))]
    rounds: u32,

    /// Rounds from one run of the queries to the next
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    queries_every: u32,

    /// The most seconds at rest before the queries
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds, allow_negative_numbers = true)]
    rest: Duration,

    /// A directory for the refreshed tables, the answers and the rows of --json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    /// How much the drive does: off, index, matches, hints, pages, rows, aggregate or auto
    #[arg(long, value_name = "LEVEL", default_value_t = Offload::Auto)]
    offload: Offload,

    /// A drive to make and keep; by default a temporary one
    #[arg(long, value_name = "FILE")]
    drive: Option<PathBuf>,

    #[command(flatten)]
    resources: Resources,
}

/// The number of measured runs of a query. The best one counts.
const RUNS: usize = 3;

pub(super) fn run(args: &Args) -> CliResult {
    if orders_a_round(args.scale) == 0 {
        let text = format!("scale {} has fewer than {SETS} orders, so a round would change none", args.scale);
        return Err(CliError::Usage(text));
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).map_err(|e| CliError::file(out, e))?;
    }
    let dir = tempfile::tempdir().map_err(|e| CliError::Failed(format!("temporary directory: {e}")))?;
    let path = args.drive.clone().unwrap_or_else(|| dir.path().join("age.lode"));
    let opened = create(&path, args.resources, args.offload)?;
    let result = bench(args, &opened, &path);
    match args.drive {
        Some(_) => opened.end(&path, result),
        None => result,
    }
}

fn bench(args: &Args, opened: &Opened, path: &Path) -> CliResult {
    tell("loading");
    load::tpch(opened, args.scale, schema::Layout::Column, args.resources, load::Show::Nothing)?;
    let drive = opened.drive().cloned().expect("the image was made here");
    let plan = Plan {
        scale: args.scale,
        rounds: args.rounds,
        queries_every: args.queries_every,
        rest: args.rest,
        runs: RUNS,
        offload: args.offload,
    };
    let mut rows = Rows::open(args)?;
    let (session, image, out) = (Arc::clone(&opened.session), path.to_path_buf(), args.out.clone());
    let (aged, mut rows) = args.resources.block_on(interrupt::until_signal(async move {
        let aging = Aging { session: &session, drive: &drive, image: Some(&image) };
        let aged = age(aging, plan, |c| rows.tell(checkpoint_json(c, plan.scale))).await?;
        if let Some(out) = &out {
            tell("writing tables and answers");
            export(&session, &aged.answers, out).await?;
        }
        Ok((aged, rows))
    }))?;
    rows.tell(total_json(&aged, args))?;
    if args.json {
        return Ok(());
    }
    println_quietly(report(&aged, args).trim_end())
}

/// Where rows of JSON go.
struct Rows {
    printed: bool,
    results: Results,
}

impl Rows {
    fn open(args: &Args) -> CliResult<Self> {
        Ok(Self { printed: args.json, results: Results::create(args.out.as_deref())? })
    }

    fn tell(&mut self, row: serde_json::Value) -> Result<(), BenchError> {
        if !self.printed {
            tell(&format!("round {}", row["round"]));
        }
        self.results.add(&row)?;
        match self.printed {
            // If the reader of the output is gone, the benchmark ends at its next row, as after an interrupt.
            true => println_quietly(&row.to_string()).map_err(|_| BenchError::Interrupted),
            false => Ok(()),
        }
    }
}

fn checkpoint_json(c: &Checkpoint, scale: Scale) -> serde_json::Value {
    let mut row = serde_json::to_value(c).unwrap_or_default();
    row["workload"] = "age".into();
    row["row"] = "checkpoint".into();
    row["scale"] = scale.factor().into();
    row
}

fn total_json(aged: &Aged, args: &Args) -> serde_json::Value {
    let mut row = serde_json::to_value(aged.ratios()).unwrap_or_default();
    row["workload"] = "age".into();
    row["row"] = "total".into();
    row["scale"] = args.scale.factor().into();
    row["round"] = args.rounds.into();
    row
}

fn report(aged: &Aged, args: &Args) -> String {
    let (first, last, ratios) = (aged.first(), aged.last(), aged.ratios());
    let ms = |v: f64| format!("{v:.1}");
    let mut table = TextTable::new(&[
        "round",
        ">orders",
        ">lineitem",
        ">ms a round",
        ">delta rows",
        ">at once ms",
        ">rest s",
        ">left",
        ">queries ms",
        ">to round 1",
        ">live",
        ">on disk",
        ">log",
        ">pages",
    ]);
    for c in &aged.checkpoints {
        table.row([
            c.round.to_string(),
            count(c.orders),
            count(c.lineitems),
            ms(c.refresh_ms),
            count(c.before.delta_rows),
            ms(c.at_once_ms),
            format!("{:.1}{}", c.rest_s, if c.is_at_rest { "" } else { " +" }),
            count(c.after.delta_rows),
            ms(c.queries_ms),
            format!("{:.2}", c.queries_ms / first.queries_ms),
            bytes(c.after.live_bytes),
            c.after.disk_bytes.map_or("-".into(), bytes),
            bytes(c.after.log_bytes),
            count(c.after.lineitem_pages),
        ]);
    }
    let mut queries = TextTable::new(&["query", ">round 1 ms", ">last ms", ">ratio"]);
    for (i, (f, l)) in first.query_ms.iter().zip(&last.query_ms).enumerate() {
        queries.row([format!("Q{}", i + 1), ms(*f), ms(*l), format!("{:.2}", l / f)]);
    }
    queries.rule();
    let total = [ms(first.queries_ms), ms(last.queries_ms), format!("{:.2}", ratios.queries)];
    queries.row(std::iter::once("total".to_string()).chain(total));
    let disk = ratios.disk_bytes.map_or_else(String::new, |r| format!(", {r:.3} on disk"));
    format!(
        "{}{}TPC-H scale {}, {} orders a function, offload {}, {} partitions, warm, best of {RUNS}. left: rows of deltas after \
         the rest; log: of the drive since its checkpoint, a part of what is on disk; pages: of lineitem.\nThe last round beside the first: queries {:.3}, live bytes {:.3}{disk}.\n\
         The rows are the generator's, and each line item has an order.\n",
        table.render(),
        queries.render(),
        args.scale,
        count(orders_a_round(args.scale)),
        args.offload,
        args.resources.partitions,
        ratios.queries,
        ratios.live_bytes,
    )
}
