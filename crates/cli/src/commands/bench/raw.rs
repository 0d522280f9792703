//! `lode bench raw`: the drive compared with plain file I/O, and the speed of simulating a modelled drive.

use std::path::PathBuf;
use std::time::Duration;

use lode_bench::BenchError;
use lode_bench::drive_host::DriveError;
use lode_bench::raw::simulator::{self, SimulatorRow, Size};
use lode_bench::raw::{self, Measure, Plan, Row};

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::TextTable;

/// Compare the drive with plain file I/O, and measure the speed of its simulation
#[derive(clap::Args)]
#[command(
    long_about = "Compare the drive with plain file I/O on the same file system, and measure the speed of its \
        simulation.\n\n\
        Files: batches of a megabyte on new and on recycled space, small commits at several threads and queue depths, \
        reads of 4 KB, and batches while garbage is collected. Each is compared with a plain file that is written and synced \
        (fdatasync), or read, in the same way, in alternation. Rates are medians of the rounds. The plain file has \
        no checksums and no atomic writes, so it is the ceiling.\n\n\
        Simulator: requests of 4 KB on a modelled drive of 8 channels and 4 ways that keeps no data, 64 at a time on one \
        thread. The cases are: filling a large drive (for the memory that it takes), reads, half reads and half writes, and \
        overwrites under garbage collection at 20 % over-provisioning.",
    after_long_help = "EXAMPLES\n    lode bench raw\n    lode bench raw --seconds 20 --dir /mnt/ssd --json > raw.jsonl\n    \
        lode bench raw --only simulator\n\n\
        JSON ROWS\n    One object per line for each case and side: rate (MB/s or operations per second), p50_ms, \
        p99_ms, write_amplification (bytes written to the disk, by any process, per byte of the host; null if the \
        disk is unknown), ratio (the median of the rounds' ratios, in Lode's rows). For the simulator (side: \
        simulator): rate (requests per second of wall time), core_rate (per second of CPU time), modelled_rate (per \
        second of modelled time), write_amplification, mapped_blocks, peak_bytes (of the process), bytes_a_block \
        (the large drive's memory per mapped block)."
)]
pub(super) struct Args {
    /// About how long to measure files; making them takes additional time
    #[arg(long, value_name = "S", default_value = "60", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,

    /// The directory whose file system is measured; by default the current one
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Only one of the two parts
    #[arg(long, value_name = "PART")]
    only: Option<Part>,

    /// A quick check that it runs: two seconds of files, and small modelled drives
    #[arg(long)]
    quick: bool,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The drive beside plain file I/O
    Files,
    /// Requests on modelled drives
    Simulator,
}

pub(super) fn run(args: Args) -> CliResult {
    if args.only != Some(Part::Simulator) {
        files(&args)?;
    }
    if args.only.is_none() && !args.json {
        println_quietly("")?;
    }
    if args.only != Some(Part::Files) {
        simulate(&args)?;
    }
    Ok(())
}

fn simulate(args: &Args) -> CliResult {
    let size = if args.quick { Size::QUICK } else { Size::FULL };
    let mut table = TextTable::new(&[
        "simulated",
        ">device GB",
        ">requests",
        ">requests/s",
        ">of a core",
        ">modelled/s",
        ">ampl.",
        ">peak MB",
        ">B/block",
    ]);
    let each = |r: &SimulatorRow| {
        if args.json {
            return print_simulated(r).map_err(|_| DriveError::Stopped);
        }
        let whole = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| format!("{v:.0}"));
        table.row([
            r.case.into(),
            format!("{}", r.device_bytes >> 30),
            r.requests.to_string(),
            whole(Some(r.rate)),
            whole(r.core_rate),
            whole(Some(r.modelled_rate)),
            optional(r.write_amplification),
            whole(r.peak_bytes.map(|b| b as f64 / 1e6)),
            optional(r.bytes_a_block),
        ]);
        Ok(())
    };
    simulator::run(size, &|| interrupt::signal().is_some(), each).map_err(BenchError::from)?;
    if args.json { Ok(()) } else { println_quietly(table.render().trim_end()) }
}

fn print_simulated(r: &SimulatorRow) -> CliResult {
    let row = serde_json::json!({
        "workload": "raw", "case": r.case, "side": "simulator", "unit": "requests", "device_bytes": r.device_bytes,
        "requests": r.requests, "rate": r.rate, "core_rate": r.core_rate, "modelled_rate": r.modelled_rate,
        "write_amplification": r.write_amplification, "mapped_blocks": r.mapped, "peak_bytes": r.peak_bytes,
        "bytes_a_block": r.bytes_a_block,
    });
    println_quietly(&row.to_string())
}

fn files(args: &Args) -> CliResult {
    let dir = tempfile::tempdir_in(&args.dir).map_err(|e| CliError::file(&args.dir, e))?;
    let seconds = if args.quick { 2 } else { args.seconds };
    let plan = Plan { dir: dir.path().into(), time: Duration::from_secs(seconds.into()) };
    let mut table = TextTable::new(&[
        "case", ">threads", ">depth", "unit/s", ">plain", ">p50 ms", ">p99 ms", ">ampl.", ">lode", ">p50 ms",
        ">p99 ms", ">ampl.", ">ratio",
    ]);
    let each = |r: &Row| {
        if args.json {
            // If the reader of the output is gone, the benchmark ends, as after an interrupt.
            return print_json(r).map_err(|_| DriveError::Stopped);
        }
        let lode = r.lode.as_ref().map_or_else(|why| [why.clone(), "".into(), "".into(), "".into()], cells);
        let head = [r.case.into(), r.threads.to_string(), r.depth.to_string(), r.unit.into()];
        let ratio = optional(r.ratio);
        table.row(head.into_iter().chain(cells(&r.plain)).chain(lode).chain([ratio]));
        Ok(())
    };
    raw::run(&plan, &|| interrupt::signal().is_some(), each).map_err(BenchError::from)?;
    if args.json { Ok(()) } else { println_quietly(table.render().trim_end()) }
}

fn optional(v: Option<f64>) -> String {
    v.map_or_else(|| "-".into(), |v| format!("{v:.2}"))
}

fn cells(m: &Measure) -> [String; 4] {
    [
        format!("{:.0}", m.rate),
        format!("{:.3}", m.p50_ms),
        format!("{:.3}", m.p99_ms),
        optional(m.write_amplification),
    ]
}

fn print_json(r: &Row) -> CliResult {
    let side = |side: &str, m: Option<&Measure>, ratio: Option<f64>, why: Option<&String>| {
        serde_json::json!({
            "workload": "raw", "case": r.case, "threads": r.threads, "depth": r.depth, "side": side, "unit": r.unit,
            "rate": m.map(|m| m.rate), "p50_ms": m.map(|m| m.p50_ms), "p99_ms": m.map(|m| m.p99_ms),
            "write_amplification": m.and_then(|m| m.write_amplification), "ratio": ratio, "refused": why,
        })
        .to_string()
    };
    println_quietly(&side("plain", Some(&r.plain), None, None))?;
    println_quietly(&side("lode", r.lode.as_ref().ok(), r.ratio, r.lode.as_ref().err()))
}
