//! `lode bench gc`: the cost of garbage collection, compared with theory.

use lode_bench::BenchError;
use lode_bench::gc::run::{Plan, Row, Theory, run as run_one};
use lode_bench::gc::workload::Skew;
use lode_firmware::{GcPolicy, POLICIES};

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, parse_bytes};

/// Measure the cost of garbage collection, and compare it with theory
#[derive(clap::Args)]
#[command(
    long_about = "Measure the cost of garbage collection, and compare it with theory.\n\n\
        A drive in memory is filled, and then overwritten 20 times its size, page by page, once for each policy and skew. \
        The skews are: uniform; four fifths of the writes to a fifth of the pages; YCSB's zipf distribution. Write \
        amplification is the number of bytes that host and collector write per byte of the host, measured in the \
        second half. It is compared with a model of the same policies without bytes, and with analysis for the \
        space that the drive uses for data.",
    after_long_help = "EXAMPLES\n    lode bench gc\n    lode bench gc --policy greedy --capacity 64MiB\n    \
        lode bench gc --json > gc.jsonl\n\nJSON ROWS\n    One object per line for each policy and skew: space \
        (programmed bytes of data per live byte), write_amplification, model, theory, theory_is (\"equal\", or \
        \"lower bound\"), \
        ratio (measured to theory), host_bytes, gc_bytes, media_bytes."
)]
pub(super) struct Args {
    #[arg(long, value_name = "NAME", value_parser = parse_policy,
          help = format!("One policy only: {}", policy_names("")))]
    policy: Option<GcPolicy>,

    /// The size of the drive, at least 64MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_capacity)]
    capacity: u64,

    /// How full it is, in percent
    #[arg(long, value_name = "P", default_value = "90", value_parser = clap::value_parser!(u8).range(10..=95))]
    fill: u8,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// The least capacity, in bytes. A smaller drive is mostly reserve, so it cannot measure a policy.
const CAPACITY_BYTES_MIN: u64 = 64 << 20;

fn parse_capacity(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        n if n < CAPACITY_BYTES_MIN => Err("it must be at least 64MiB".into()),
        n => Ok(n),
    }
}

pub(crate) fn parse_policy(name: &str) -> Result<GcPolicy, String> {
    let names = || POLICIES.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
    GcPolicy::named(name).ok_or_else(|| format!("the policies are {}", names()))
}

/// The names of all policies as part of a sentence, with `note` after the default one.
pub(crate) fn policy_names(note: &str) -> String {
    let names: Vec<_> = POLICIES.iter().map(|p| p.name).collect();
    let [first, more @ .., last] = &names[..] else { return names.concat() };
    let more: String = more.iter().map(|name| format!(", {name}")).collect();
    format!("{first}{note}{more} or {last}")
}

pub(super) fn run(args: Args) -> CliResult {
    let plan = Plan { capacity_bytes: args.capacity, fill: f64::from(args.fill) / 100.0, ..Plan::default() };
    let mut table = TextTable::new(&[
        "policy", "writes", ">host", ">moved", ">space", ">ampl.", ">model", ">theory", ">ratio",
    ]);
    for skew in Skew::ALL {
        for policy in
            POLICIES.iter().map(GcPolicy::from).filter(|p| args.policy.as_ref().is_none_or(|only| only == p))
        {
            let row = run_one(&plan, &policy, skew, &|| interrupt::signal().is_some());
            let row = row.map_err(|e| match CliError::from(BenchError::from(e)) {
                CliError::Failed(why) => {
                    CliError::Failed(format!("{} under {} writes: {why}", policy.name(), skew.name()))
                }
                e => e,
            })?;
            match args.json {
                true => print_json(&row)?,
                false => table.row(cells(&row)),
            }
        }
    }
    if args.json { Ok(()) } else { println_quietly(table.render().trim_end()) }
}

fn cells(r: &Row) -> [String; 9] {
    let number = |v: f64| format!("{v:.3}");
    let theory = match r.theory {
        None => "-".into(),
        Some(Theory::Is(v)) => number(v),
        Some(Theory::Above(v)) => format!("> {v:.3}"),
    };
    [
        r.policy.into(),
        r.skew.into(),
        bytes(r.host_bytes),
        bytes(r.gc_bytes),
        number(r.space),
        number(r.write_amplification),
        r.model.map_or("-".into(), number),
        theory,
        r.ratio.map_or("-".into(), number),
    ]
}

fn print_json(r: &Row) -> CliResult {
    let theory_is = r.theory.map(|t| match t {
        Theory::Is(_) => "equal",
        Theory::Above(_) => "lower bound",
    });
    let row = serde_json::json!({
        "workload": "gc", "policy": r.policy, "writes": r.skew, "host_bytes": r.host_bytes, "gc_bytes": r.gc_bytes,
        "media_bytes": r.media_bytes, "space": r.space, "write_amplification": r.write_amplification, "model": r.model,
        "theory": r.theory.map(Theory::value), "theory_is": theory_is, "ratio": r.ratio,
    });
    println_quietly(&row.to_string())
}
