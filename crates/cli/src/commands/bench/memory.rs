//! `lode bench memory`: checks that a mixed run stays within its memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lode::Memory;
use lode_workload::harness::{Probes, RunError, Schedule};
use lode_workload::measure::resident_bytes;
use lode_workload::tpcc::{self, KvTpcc, Sizes, check, load, run as run_tpcc};
use lode_workload::ycsb::{self, Mix, Ycsb};

use super::embedded::{DatabasePlace, Embedded, failed, parse_seconds};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{bytes, count};

/// Check that a mixed run stays within its memory and does not grow
#[derive(clap::Args)]
#[command(
    long_about = "Check that a mixed run stays within its memory and does not grow: TPC-C terminals and YCSB A (half reads, \
        half updates) at the same time on one database, whose records take several times the memory.\n\n\
        The resident memory of this process is read while it runs. The run fails if that exceeds the limit of --memory by \
        more than a fifth, or if the last quarter of the run needs over 5 % more than the second quarter.",
    after_long_help = "EXAMPLES\n    lode bench memory --memory 256MB --seconds 60\n    lode bench memory --seconds 3600 --json"
)]
pub(super) struct Args {
    /// Seconds to measure; a tenth of that comes first to warm up
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds, allow_negative_numbers = true)]
    seconds: Duration,

    /// Threads of each of the two workloads
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Bytes of records per byte of memory
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=1000))]
    times: u64,

    /// Write JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: DatabasePlace,
}

/// The bytes of a record, which has ten fields.
const RECORD_BYTES: u64 = 1000;
/// The largest allowed ratio of resident memory to the limit.
const BEYOND: f64 = 1.2;
/// The largest allowed ratio of memory in the last quarter to memory in the second.
const GROWTH_MAX: f64 = 1.05;
const SEED: u64 = 1;

pub(super) fn run(args: &Args) -> CliResult {
    if args.place.memory < Memory::BYTES_MIN {
        let least = bytes(Memory::BYTES_MIN);
        eprintln!(
            "lode: a limit below {least} does not hold, since each thread takes some MB whatever the limit is"
        );
    }
    let opened = Embedded::open(&args.place)?;
    if opened.store.0.snapshot()?.trees().next().is_some() {
        return Err(CliError::file(
            &opened.path,
            "holds trees already: this command loads its own, and drops them afterwards",
        ));
    }
    let result = bench(args, &opened);
    // An interrupted run does not drop its trees, which takes time. The first error is the one to report.
    let dropped = if interrupt::signal().is_none() { drop_trees(&opened) } else { Ok(()) };
    result.and(dropped).and(opened.close())
}

fn drop_trees(opened: &Embedded) -> CliResult {
    let database = &opened.store.0;
    let names: Vec<String> = database.snapshot()?.trees().map(|t| t.name().to_string()).collect();
    names.iter().try_for_each(|name| database.drop_tree(name, true).map(drop))?;
    Ok(())
}

fn bench(args: &Args, opened: &Embedded) -> CliResult {
    let schedule = Schedule {
        warm_up: args.seconds / 10,
        length: args.seconds.max(Duration::from_millis(100)),
        interval: Duration::from_secs(1),
    };
    let sizes = Sizes { customers: 300, items: 10_000, ..Sizes::standard(2) };
    let tpcc = KvTpcc::new(opened.store.clone()).map_err(failed)?;
    let plan = ycsb::Plan {
        records: args.place.memory * args.times / RECORD_BYTES,
        fields: 10,
        field_bytes: RECORD_BYTES as u32 / 10,
        threads: args.threads,
        distribution: None,
        schedule,
        seed: SEED,
    };
    let ycsb = Ycsb::new(&opened.store, plan, 0).map_err(failed)?;
    opened.run(|probes| {
        load(&tpcc, &sizes, SEED, 1)?;
        ycsb.load(probes.stop)
    })?;
    let terminals = tpcc::Plan {
        sizes,
        terminals: args.threads,
        schedule,
        seed: SEED,
        run: 1,
        queue_at_hot_rows: true,
        arrivals_a_second: None,
    };
    let (samples, transactions, operations) = opened.run(|probes| {
        let (over, broken) = (&AtomicBool::new(false), &AtomicBool::new(false));
        std::thread::scope(|s| {
            let sampler = s.spawn(move || sample(over));
            // Only YCSB checks for signals and settles. If one workload ends early, so does the other.
            let (tpcc, terminals) = (&tpcc, &terminals);
            let beside = s.spawn(move || {
                let stop = || broken.load(Ordering::Relaxed);
                let done = run_tpcc(tpcc, terminals, &Probes { stop: &stop, ..Probes::NONE }, &|_| {});
                broken.fetch_or(done.is_err(), Ordering::Relaxed);
                done
            });
            let stop = || (probes.stop)() || broken.load(Ordering::Relaxed);
            let ycsb = ycsb.run(Mix::A, &Probes { stop: &stop, ..*probes });
            broken.fetch_or(ycsb.is_err(), Ordering::Relaxed);
            let tpcc = beside.join().expect("a terminal does not panic");
            over.store(true, Ordering::Relaxed);
            let samples = sampler.join().expect("reading memory does not panic");
            match (tpcc, ycsb) {
                // The other workload's end stopped it.
                (Err(RunError::Stopped), Err(e)) | (Err(e), _) | (_, Err(e)) => Err(e),
                (Ok(tpcc), Ok(ycsb)) => Ok((samples, tpcc.measured.operations, ycsb.measured.operations)),
            }
        })
    })?;
    let found = check(&tpcc, &sizes).map_err(failed)?;
    if let Some(first) = found.told.first() {
        return Err(CliError::Failed(format!("TPC-C is not consistent: {first}")));
    }
    verdict(args, &samples, transactions, operations, opened.note())
}

/// Samples the resident memory until `over` is set.
fn sample(over: &AtomicBool) -> Vec<u64> {
    const INTERVAL: Duration = Duration::from_millis(100);
    let mut all = Vec::new();
    while !over.load(Ordering::Relaxed) {
        all.extend(resident_bytes());
        std::thread::sleep(INTERVAL);
    }
    all
}

fn verdict(
    args: &Args,
    samples: &[u64],
    transactions: u64,
    operations: u64,
    note: Option<&str>,
) -> CliResult {
    let (limit, most) = (args.place.memory, samples.iter().copied().max().unwrap_or(0));
    let quarter = |q: usize| {
        let part = &samples[samples.len() * q / 4..samples.len() * (q + 1) / 4];
        part.iter().sum::<u64>() as f64 / part.len().max(1) as f64
    };
    let growth = if samples.len() < 8 { 1.0 } else { quarter(3) / quarter(1).max(1.0) };
    if args.json {
        let row = serde_json::json!({
            "workload": "memory", "limit_bytes": limit, "resident_bytes_max": most, "growth": growth,
            "transactions": transactions, "operations": operations, "samples": samples,
        });
        println_quietly(&row.to_string())?;
    } else {
        println_quietly(&format!(
            "{} resident at the most, {:.0} % of the limit of {}; the last quarter needed {growth:.3} times the second; \
             {} transactions and {} operations.",
            bytes(most),
            most as f64 / limit as f64 * 100.0,
            bytes(limit),
            count(transactions),
            count(operations)
        ))?;
        note.map_or(Ok(()), println_quietly)?;
    }
    if most as f64 > limit as f64 * BEYOND {
        return Err(CliError::Failed(format!(
            "{} are resident, but the limit is {}",
            bytes(most),
            bytes(limit)
        )));
    }
    if growth > GROWTH_MAX {
        return Err(CliError::Failed(format!(
            "memory grows: the last quarter needed {growth:.3} times the second"
        )));
    }
    Ok(())
}
