//! `lode sim`: runs the whole drive, or transactions over trees on it, against faults and power cuts, from seeds.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lode_sim::{
    FAULTS, FaultSet, Found, KV_FAULTS, KvScenario, Options, Outcome, Record, Replay, Scenario, Simulated,
    parse_ranges, run as run_seed, search, shrink,
};

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, count};

/// The most runs in the search for a short replay.
const SHRINK_RUNS: u32 = 1000;
/// The default number of seeds.
const SEEDS: u64 = 2000;
/// In a run of at least this many seeds, or of the minutes below, a fault or state that never occurred is a failure.
const LONG_SEEDS: u64 = 10_000;
const LONG_MINUTES: f64 = 5.0;

/// Run the drive in memory against faults and power cuts, from a seed
#[derive(clap::Args)]
#[command(
    long_about = "Run the drive in memory against faults and power cuts, from a seed.\n\n\
        A seed decides the drive's shape, its work and the faults that strike it. An oracle knows every allowed \
        state. The same seed does the same on any machine. A failing seed is reduced to its shortest replay, which \
        is printed with the command that runs it again. The exit status is 1 if a seed fails.\n\n\
        With --trees, a database of key-value trees runs on such a drive, with conflicting transactions in each \
        durability mode. A model knows what each transaction must see, and the history of all transactions must \
        satisfy snapshot isolation.",
    after_long_help = "EXAMPLES\n    lode sim --seed 7\n    lode sim --seed 7 --steps 40 --faults power-cut\n    \
        lode sim --seeds 20000 --from 5000 --jobs 4\n    lode sim --minutes 30 --json\n    lode sim --trees --seeds 500\n    \
        lode sim --trees --seed 7\n    lode sim --list-faults\n\n\
        A long run (10,000 seeds, or 5 minutes) also fails if it never met a situation that it should have met."
)]
pub(crate) struct Args {
    /// Run transactions over key-value trees on the drive
    #[arg(long)]
    trees: bool,

    /// Run one seed
    #[arg(long, value_name = "N", group = "what")]
    seed: Option<u64>,

    /// How many seeds to run; 2,000 by default
    #[arg(long, value_name = "N", group = "what", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,

    /// Run seeds for M minutes
    #[arg(long, value_name = "M", group = "what", value_parser = minutes, allow_negative_numbers = true)]
    minutes: Option<f64>,

    /// The first seed of a search
    #[arg(long, value_name = "M", default_value = "0", conflicts_with = "seed")]
    from: u64,

    /// Seeds that run at a time; by default one per core
    #[arg(long, value_name = "J", conflicts_with = "seed", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Steps of each run; by default the seed decides
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,

    /// Only the steps with these numbers, as a replay has them: 0-3,7
    #[arg(long, value_name = "LIST", requires = "seed", value_parser = only)]
    only: Option<Numbers>,

    /// Write the steps of the run to a file that replays without the generator; if the seed fails, those of its shortest replay
    #[arg(long, value_name = "FILE", requires = "seed")]
    record: Option<PathBuf>,

    /// Faults that may strike, separated by commas, or none; by default all
    #[arg(long, value_name = "LIST", value_parser = faults)]
    faults: Option<FaultSet>,

    /// Write one JSON object
    #[arg(long)]
    json: bool,

    /// List the faults and what they do
    #[arg(long, group = "what")]
    list_faults: bool,
}

#[derive(Clone, Debug)]
struct Numbers(Vec<usize>);

fn only(text: &str) -> Result<Numbers, String> {
    parse_ranges(text).map(Numbers).map_err(|part| format!("'{part}' is no step and no range of steps"))
}

fn faults(text: &str) -> Result<FaultSet, String> {
    FaultSet::parse(text).map_err(|name| format!("there is no fault '{name}' (see --list-faults)"))
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(m) if m > 0.0 && m <= 100_000.0 => Ok(m),
        _ => Err("it must be a number of minutes".into()),
    }
}

pub(crate) fn run(args: Args) -> CliResult {
    let known = if args.trees { FaultSet::of(&KV_FAULTS) } else { FaultSet::all() };
    if args.list_faults {
        return list_faults(&known, args.json);
    }
    let (steps, only) = (args.steps.map(|s| s as usize), args.only.clone().map(|o| o.0));
    let faults = args.faults.clone().unwrap_or_else(|| known.clone());
    if let Some((kind, _)) = FAULTS.iter().find(|(kind, _)| faults.has(*kind) && !known.has(*kind)) {
        let what = "is no fault of the simulation of trees (see --trees --list-faults)";
        return Err(CliError::Usage(format!("'{}' {what}", kind.name())));
    }
    match args.trees {
        true => simulate(&args, &Options::<KvScenario> { steps, only, faults, ..Options::default() }),
        false => simulate(&args, &Options::<Scenario> { steps, only, faults, ..Options::default() }),
    }
}

fn simulate<S: Simulated>(args: &Args, options: &Options<S>) -> CliResult {
    match args.seed {
        // A replay is short already, so it is not shortened.
        Some(seed) => one(seed, options, if args.only.is_some() { 0 } else { SHRINK_RUNS }, args),
        None => many(args, options),
    }
}

fn list_faults(known: &FaultSet, json: bool) -> CliResult {
    let faults = || FAULTS.iter().filter(|(kind, _)| known.has(*kind));
    if json {
        let all: Vec<_> =
            faults().map(|(kind, about)| serde_json::json!({"name": kind.name(), "about": about})).collect();
        return println_quietly(&serde_json::Value::from(all).to_string());
    }
    let mut table = TextTable::new(&["fault", "what it does"]);
    faults().for_each(|(kind, about)| table.row([kind.name().to_string(), about.to_string()]));
    println_quietly(table.render().trim_end())
}

fn one<S: Simulated>(seed: u64, options: &Options<S>, runs: u32, args: &Args) -> CliResult {
    let outcome = run_seed(seed, options);
    let replay = shrink(&outcome, options, runs);
    if let Some(file) = &args.record {
        let record = replay.as_ref().map_or_else(|| Record::of_outcome(&outcome), Record::of_replay);
        std::fs::write(file, record.to_text()).map_err(|e| CliError::file(file, e))?;
    }
    if args.json {
        println_quietly(&one_json(&outcome, replay.as_ref()).to_string())?;
    } else {
        match &replay {
            Some(replay) => println_quietly(&replay.to_string())?,
            None => {
                let steps = count(outcome.steps.len() as u64);
                println_quietly(&format!("seed {seed}: {steps} steps, no failure\n{}", outcome.scenario))?;
            }
        }
    }
    failed(replay.as_slice(), &[])
}

/// Runs seeds on all cores until all are done, time is over, or one fails.
fn many<S: Simulated>(args: &Args, options: &Options<S>) -> CliResult {
    let end = match args.minutes {
        Some(_) => u64::MAX,
        None => args.from.saturating_add(args.seeds.unwrap_or(SEEDS)),
    };
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let until = args.minutes.map(|m| Instant::now() + Duration::from_secs_f64(m * 60.0));
    let (next, has_failed) = (AtomicU64::new(args.from), AtomicBool::new(false));
    let stop = || {
        has_failed.load(Ordering::Relaxed)
            || interrupt::signal().is_some()
            || until.is_some_and(|u| Instant::now() >= u)
    };
    let mut found = Found::<S>::default();
    std::thread::scope(|s| {
        let work = || {
            let found = search(&next, end, options, 1, &stop);
            has_failed.fetch_or(!found.failures.is_empty(), Ordering::Relaxed);
            found
        };
        let workers: Vec<_> = (0..jobs).map(|_| s.spawn(work)).collect();
        for w in workers {
            match w.join() {
                Ok(f) => found.add(f),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let replays: Vec<Replay<S>> =
        found.failures.iter().filter_map(|f| shrink(f, options, SHRINK_RUNS)).collect();
    interrupt::check()?;
    let long = found.coverage.runs >= LONG_SEEDS || args.minutes.is_some_and(|m| m >= LONG_MINUTES);
    let whole = replays.is_empty() && args.faults.is_none() && args.steps.is_none();
    let missing = if long && whole { found.coverage.missing() } else { Vec::new() };
    if args.json {
        println_quietly(&many_json(&found, &replays, &missing).to_string())?;
    } else {
        println_quietly(report(&found, &replays, &missing).trim_end())?;
    }
    failed(&replays, &missing)
}

fn report<S: Simulated>(found: &Found<S>, replays: &[Replay<S>], missing: &[String]) -> String {
    let mut text = String::new();
    for replay in replays {
        text += &format!("{replay}\n\n");
    }
    if replays.is_empty() {
        text += &format!("{} seeds, no failure\n\n", count(found.coverage.runs));
    }
    let mut table = TextTable::new(&["met", ">times"]);
    for (name, times) in found.coverage.table() {
        let never = if missing.contains(&name) { " (never: a failure)" } else { "" };
        table.row([format!("{name}{never}"), count(times)]);
    }
    text + &table.render()
}

fn failed<S: Simulated>(replays: &[Replay<S>], missing: &[String]) -> CliResult {
    match (replays, missing) {
        ([], []) => Ok(()),
        ([], missing) => Err(CliError::Failed(format!("the run never met: {}", missing.join(", ")))),
        ([first, ..], _) => {
            Err(CliError::Failed(format!("seed {} failed: {}", first.scenario.seed(), first.failure)))
        }
    }
}

fn replay_json<S: Simulated>(replay: &Replay<S>) -> serde_json::Value {
    let step = |(n, s): &(usize, S::Step)| serde_json::json!({"step": n, "does": s.to_string()});
    serde_json::json!({
        "seed": replay.scenario.seed(),
        "scenario": replay.scenario.to_string(),
        "kind": format!("{:?}", replay.failure.kind),
        "at_step": replay.failure.step,
        "what": replay.failure.what,
        "steps": replay.steps.iter().map(step).collect::<Vec<_>>(),
        "command": replay.command,
    })
}

fn one_json<S: Simulated>(outcome: &Outcome<S>, replay: Option<&Replay<S>>) -> serde_json::Value {
    serde_json::json!({
        "seed": outcome.scenario.seed(),
        "scenario": outcome.scenario.to_string(),
        "steps": outcome.steps.len(),
        "failure": replay.map(replay_json),
    })
}

fn many_json<S: Simulated>(found: &Found<S>, replays: &[Replay<S>], missing: &[String]) -> serde_json::Value {
    let met: serde_json::Map<String, serde_json::Value> =
        found.coverage.table().into_iter().map(|(name, times)| (name, times.into())).collect();
    serde_json::json!({
        "seeds": found.coverage.runs,
        "failures": replays.iter().map(replay_json).collect::<Vec<_>>(),
        "met": met,
        "never_met": missing,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use lode_sim::KvOptions;

    use super::*;

    #[test]
    fn a_failure_over_trees_is_cut_down_and_its_command_line_replays_it() {
        // The checks allow no lost writes, so a seed fails soon.
        let options = KvOptions { faults: FaultSet::parse("lost-write").unwrap(), ..KvOptions::default() };
        let mut found = search(&AtomicU64::new(0), 200, &options, 1, &|| false);
        let outcome = found.failures.pop().expect("a seed fails");
        let replay = shrink(&outcome, &options, 300).expect("it failed");
        let seed = outcome.scenario.seed();
        let (left, all) = (replay.steps.len(), outcome.steps.len());
        assert!(left < all, "{left} of {all} steps are left");
        let command = format!("lode sim --trees --seed {seed} --faults lost-write --only ");
        let only = replay.command.strip_prefix(&command).unwrap_or_else(|| panic!("{}", replay.command));
        let only = KvOptions { only: parse_ranges(only).ok(), ..options };
        let again = run_seed(seed, &only);
        assert_eq!((again.failure, again.steps), (Some(replay.failure.clone()), replay.steps.clone()));
        // The message and the status of the command.
        let e = failed(std::slice::from_ref(&replay), &[]).unwrap_err();
        assert_eq!(e.status(), 1);
        assert!(e.message().unwrap().starts_with(&format!("seed {seed} failed: ")));
        let json = replay_json(&replay);
        assert_eq!((&json["seed"], &json["command"]), (&seed.into(), &replay.command.clone().into()));
        let missing = vec!["runs".to_string()];
        let found = Found::<KvScenario>::default();
        assert!(many_json(&found, &[], &missing)["never_met"] == serde_json::json!(["runs"]));
        assert_eq!(
            failed::<KvScenario>(&[], &missing).unwrap_err().message().unwrap(),
            "the run never met: runs"
        );
    }
}
