//! `lode bench ycsb`: YCSB through the embedded API.

use lode_workload::choose::Distribution;
use lode_workload::ycsb::{Mix, Op, Plan, Report, Ycsb};

use super::embedded::{DatabasePlace, Embedded, Times, failed};
use crate::error::CliResult;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count};

/// Run YCSB A to F through the embedded API
#[derive(clap::Args)]
#[command(
    long_about = "Run YCSB A to F through the embedded API, in wall time: each operation is a transaction, and \
        every commit is durable. The records are loaded first. Every record contains its number, which each read \
        checks.",
    after_long_help = "EXAMPLES\n    lode bench ycsb --records 1000000 --threads 8\n    \
        lode bench ycsb --mixes AF --distribution uniform --json\n\nJSON ROWS\n    \
        One object per line for each mix: rate (operations per second), conflicts, latencies (by kind of operation, \
        in microseconds), timeline, disk_bytes_an_operation, causes, resident_bytes, as in lode bench tpcc."
)]
pub(super) struct Args {
    /// Mixes to run, in this order
    #[arg(long, value_name = "LETTERS", default_value = "ABCDFE", value_parser = parse_mixes)]
    mixes: Mixes,

    /// Records to load
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,

    /// Fields per record
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
    fields: u32,

    /// Bytes per field
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(8..=100_000))]
    field_bytes: u32,

    /// Threads
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// How records are chosen; by default latest for D, zipfian for all others
    #[arg(long, value_name = "NAME", value_parser = parse_distribution)]
    distribution: Option<Distribution>,

    /// The seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    times: Times,

    #[command(flatten)]
    place: DatabasePlace,
}

#[derive(Clone, Debug)]
struct Mixes(Vec<Mix>);

fn parse_mixes(text: &str) -> Result<Mixes, String> {
    let mix = |c: char| Mix::ALL.into_iter().find(|m| m.name() == c.to_ascii_uppercase().to_string());
    let all: Option<Vec<Mix>> = text.chars().map(mix).collect();
    all.filter(|a| !a.is_empty())
        .map(Mixes)
        .ok_or_else(|| "mixes are letters from A to F, such as ABF".into())
}

fn parse_distribution(text: &str) -> Result<Distribution, String> {
    let found = Distribution::ALL.into_iter().find(|d| d.name() == text);
    found.ok_or_else(|| "expected uniform, zipfian or latest".into())
}

pub(super) fn run(args: &Args) -> CliResult {
    let opened = Embedded::open(&args.place)?;
    bench(args, &opened)?;
    opened.close()
}

fn bench(args: &Args, opened: &Embedded) -> CliResult {
    let plan = Plan {
        records: args.records,
        fields: args.fields,
        field_bytes: args.field_bytes,
        threads: args.threads,
        distribution: args.distribution,
        schedule: args.times.schedule(),
        seed: args.seed,
    };
    let ycsb = Ycsb::new(&opened.store, plan, 0).map_err(failed)?;
    opened.run(|probes| ycsb.load(probes.stop))?;
    let mut table = TextTable::new(&[
        "mix",
        "records",
        "operation",
        ">count",
        ">ops/s",
        ">p50 us",
        ">p99 us",
        ">p99.9 us",
        ">conflicts",
        ">to the disk",
    ]);
    for mix in &args.mixes.0 {
        let report = opened.run(|probes| ycsb.run(*mix, probes))?;
        if args.json {
            let mut row = serde_json::to_value(&report).unwrap_or_default();
            row["workload"] = "ycsb".into();
            println_quietly(&row.to_string())?;
        } else {
            rows(&mut table, &report);
        }
    }
    if args.json {
        return Ok(());
    }
    let about = format!(
        "{} records of {}, {} threads; each operation is a durable transaction.",
        count(args.records),
        bytes(u64::from(args.fields) * u64::from(args.field_bytes)),
        args.threads
    );
    let note = opened.note().map_or_else(String::new, |n| format!("\n{n}"));
    println_quietly(&format!("{}{about}{note}", table.render()))
}

fn rows(table: &mut TextTable, r: &Report) {
    let m = &r.measured;
    for (op, p) in Op::ALL.iter().zip(&m.latencies).filter(|(_, p)| p.count > 0) {
        table.row([
            r.mix.name().into(),
            r.distribution.name().into(),
            op.name().into(),
            count(p.count),
            format!("{:.0}", p.count as f64 / m.seconds),
            format!("{:.1}", p.p50_us),
            format!("{:.1}", p.p99_us),
            format!("{:.1}", p.p999_us),
            String::new(),
            String::new(),
        ]);
    }
    let disk = m.disk_bytes_an_operation.map_or_else(|| "-".into(), |b| bytes(b as u64));
    table.row([
        r.mix.name().into(),
        String::new(),
        "all".into(),
        count(m.operations),
        format!("{:.0}", m.rate),
        String::new(),
        String::new(),
        String::new(),
        count(m.conflicts),
        disk,
    ]);
}
