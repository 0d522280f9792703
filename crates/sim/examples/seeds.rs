//! Runs seeds on all cores, without the command line of `lode`. For a seed that fails, it prints the shortest replay
//! and writes its record.
//!
//! ```text
//!   cargo run --release -p lode-sim --example seeds -- drive|trees FROM END [RECORD] [ONLY] [FAULTS]
//! ```
//!
//! With a single seed and a file, the run is recorded whether it fails or not: the shortest replay of a failure, or
//! else all steps, or those in `ONLY`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lode_sim::{
    FaultSet, KvScenario, Options, Record, Scenario, Simulated, parse_ranges, run, search, shrink,
};

/// The most runs in the search for a short replay.
const SHRINK_RUNS: u32 = 1000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("drive") => seeds::<Scenario>(&args[1..]),
        Some("trees") => seeds::<KvScenario>(&args[1..]),
        _ => Err("drive|trees FROM END [RECORD] [ONLY] [FAULTS]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn seeds<S: Simulated>(args: &[String]) -> Result<(), String> {
    let number =
        |at: usize| args.get(at).and_then(|a| a.parse::<u64>().ok()).ok_or("FROM and END are numbers");
    let (from, end, file) = (number(0)?, number(1)?, args.get(2));
    let mut options = Options::<S>::default();
    if let Some(only) = args.get(3).filter(|o| !o.is_empty()) {
        options.only = Some(parse_ranges(only)?);
    }
    if let Some(faults) = args.get(4) {
        options.faults = FaultSet::parse(faults)?;
    }
    if let (Some(file), true) = (file, end == from + 1) {
        let outcome = run(from, &options);
        let record = match shrink(&outcome, &options, SHRINK_RUNS) {
            Some(replay) => {
                println!("{replay}");
                Record::of_replay(&replay)
            }
            None => Record::of_outcome(&outcome),
        };
        return std::fs::write(file, record.to_text()).map_err(|e| format!("{file}: {e}"));
    }
    let (next, failed) = (AtomicU64::new(from), AtomicBool::new(false));
    let work = || {
        let found = search(&next, end, &options, 1, &|| failed.load(Ordering::Relaxed));
        failed.fetch_or(!found.failures.is_empty(), Ordering::Relaxed);
        found
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let found = std::thread::scope(|s| {
        let workers: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
        workers.into_iter().map(|w| w.join().expect("no worker panics")).reduce(|mut all, one| {
            all.add(one);
            all
        })
    });
    let found = found.expect("there is a thread");
    let Some(first) = found.failures.first() else {
        println!("{} seeds, no failure", found.coverage.runs);
        return Ok(());
    };
    let replay = shrink(first, &options, SHRINK_RUNS).expect("it failed");
    println!("{replay}");
    if let Some(file) = file {
        std::fs::write(file, Record::of_replay(&replay).to_text()).map_err(|e| format!("{file}: {e}"))?;
    }
    Err(format!("seed {} failed", first.scenario.seed()))
}
