//! `lode sim`: the whole drive, or transactions over trees on it, against faults and power cuts, from seeds.

mod subject;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lode_sim::{FAULTS, FaultSet, KV_FAULTS, KvOptions, RunOptions, parse_ranges};
use subject::{About, Drives, Met, Replay, Subject, Trees};

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, count};

/// Runs that the search for a short replay may take.
const SHRINK_RUNS: u32 = 1000;
/// Seeds of a run that is not told how many.
const SEEDS: u64 = 2000;
/// From so many seeds on, and so many minutes, what was never met is a failure.
const LONG_SEEDS: u64 = 10_000;
const LONG_MINUTES: f64 = 5.0;

/// Run the drive in memory against faults and power cuts, from a seed
#[derive(clap::Args)]
#[command(
    long_about = "Run the drive in memory against faults and power cuts, from a seed.\n\n\
        A seed decides the drive's shape, its work and the faults that strike it; an oracle knows every state that is \
        allowed. The same seed does the same on any machine. A seed that fails is cut down to its shortest replay, \
        which is printed with the command line that runs it again. The exit status is 1 when a seed failed.\n\n\
        With --trees a database of key-value trees runs on such a drive: transactions that run into each other, in each \
        mode of durability; a model knows what each must see, and what they saw must be a history of snapshot isolation.",
    after_long_help = "EXAMPLES\n    lode sim --seed 7\n    lode sim --seed 7 --steps 40 --faults power-cut\n    \
        lode sim --seeds 20000 --from 5000 --jobs 4\n    lode sim --minutes 30 --json\n    lode sim --trees --seeds 500\n    \
        lode sim --trees --seed 7\n    lode sim --list-faults\n\n\
        A long run (10,000 seeds, or 5 minutes) fails also when it never met something that it should."
)]
pub(crate) struct Args {
    /// Run transactions over trees on the drive
    #[arg(long)]
    trees: bool,

    /// Run one seed
    #[arg(long, value_name = "N", group = "what")]
    seed: Option<u64>,

    /// Run so many seeds; 2,000 by default
    #[arg(long, value_name = "N", group = "what", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,

    /// Run seeds for so long
    #[arg(long, value_name = "M", group = "what", value_parser = minutes, allow_negative_numbers = true)]
    minutes: Option<f64>,

    /// The first seed of a search
    #[arg(long, value_name = "M", default_value = "0", conflicts_with = "seed")]
    from: u64,

    /// Seeds that run at a time; by default as many as there are cores
    #[arg(long, value_name = "J", conflicts_with = "seed", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Steps of each run; by default its seed says
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,

    /// Only the steps with these numbers, as a replay has them: 0-3,7
    #[arg(long, value_name = "LIST", requires = "seed", value_parser = only)]
    only: Option<Numbers>,

    /// Faults that may strike, by name and with commas between, or none; by default all
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
        true => simulate(&args, &Trees(KvOptions { steps, only, faults })),
        false => simulate(&args, &Drives(RunOptions { steps, only, faults, ..RunOptions::default() })),
    }
}

fn simulate(args: &Args, subject: &impl Subject) -> CliResult {
    match args.seed {
        // A replay is short already, and keeps its steps.
        Some(seed) => one(seed, subject, if args.only.is_some() { 0 } else { SHRINK_RUNS }, args.json),
        None => many(args, subject),
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

fn one<S: Subject>(seed: u64, subject: &S, runs: u32, json: bool) -> CliResult {
    let outcome = subject.run(seed);
    let replay = subject.replay(&outcome, runs);
    let about = S::about(&outcome);
    if json {
        println_quietly(&one_json(&about, replay.as_ref()).to_string())?;
    } else {
        match &replay {
            Some(replay) => println_quietly(&replay.to_string())?,
            None => {
                let steps = count(about.steps as u64);
                println_quietly(&format!("seed {seed}: {steps} steps, no failure\n{}", about.scenario))?;
            }
        }
    }
    failed(replay.as_slice(), &[])
}

/// Seeds on all cores, until there are no more, time is over, or one failed.
fn many<S: Subject>(args: &Args, subject: &S) -> CliResult {
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
    let mut found = S::Found::default();
    std::thread::scope(|s| {
        let work = || {
            let found = subject.search(&next, end, &stop);
            has_failed.fetch_or(!S::failures(&found).is_empty(), Ordering::Relaxed);
            found
        };
        let workers: Vec<_> = (0..jobs).map(|_| s.spawn(work)).collect();
        for w in workers {
            match w.join() {
                Ok(f) => S::add(&mut found, f),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let replays: Vec<Replay> =
        S::failures(&found).iter().filter_map(|f| subject.replay(f, SHRINK_RUNS)).collect();
    interrupt::check()?;
    let met = S::met(&found);
    let long = met.runs >= LONG_SEEDS || args.minutes.is_some_and(|m| m >= LONG_MINUTES);
    let whole = replays.is_empty() && args.faults.is_none() && args.steps.is_none();
    let met = Met { missing: if long && whole { met.missing } else { Vec::new() }, ..met };
    if args.json {
        println_quietly(&many_json(&met, &replays).to_string())?;
    } else {
        println_quietly(report(&met, &replays).trim_end())?;
    }
    failed(&replays, &met.missing)
}

fn report(met: &Met, replays: &[Replay]) -> String {
    let mut text = String::new();
    for replay in replays {
        text += &format!("{replay}\n\n");
    }
    if replays.is_empty() {
        text += &format!("{} seeds, no failure\n\n", count(met.runs));
    }
    let mut table = TextTable::new(&["met", ">times"]);
    for (name, times) in &met.table {
        let never = if met.missing.contains(name) { " (never: a failure)" } else { "" };
        table.row([format!("{name}{never}"), count(*times)]);
    }
    text + &table.render()
}

fn failed(replays: &[Replay], missing: &[String]) -> CliResult {
    match (replays, missing) {
        ([], []) => Ok(()),
        ([], missing) => Err(CliError::Failed(format!("never met: {}", missing.join(", ")))),
        ([first, ..], _) => Err(CliError::Failed(format!("seed {} failed: {}", first.seed, first.failure))),
    }
}

fn replay_json(replay: &Replay) -> serde_json::Value {
    let step = |(n, does): &(usize, String)| serde_json::json!({"step": n, "does": does});
    serde_json::json!({
        "seed": replay.seed,
        "scenario": replay.scenario,
        "kind": format!("{:?}", replay.failure.kind),
        "at_step": replay.failure.step,
        "what": replay.failure.what,
        "steps": replay.steps.iter().map(step).collect::<Vec<_>>(),
        "command": replay.command,
    })
}

fn one_json(about: &About, replay: Option<&Replay>) -> serde_json::Value {
    serde_json::json!({
        "seed": about.seed,
        "scenario": about.scenario,
        "steps": about.steps,
        "failure": replay.map(replay_json),
    })
}

fn many_json(met: &Met, replays: &[Replay]) -> serde_json::Value {
    let times: serde_json::Map<String, serde_json::Value> =
        met.table.iter().map(|(name, times)| (name.clone(), (*times).into())).collect();
    serde_json::json!({
        "seeds": met.runs,
        "failures": replays.iter().map(replay_json).collect::<Vec<_>>(),
        "met": times,
        "never_met": met.missing,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use lode_sim::{FaultSet, KV_FAULTS, KvOptions, RunOptions};

    use super::*;

    /// The first seed of which something is left to replay, with faults that nothing excuses: an engine is told nothing of
    /// a drive that swallows its writes.
    fn first_failure(subject: &Trees) -> Replay {
        let found = subject.search(&AtomicU64::new(0), 200, &|| false);
        let failures = Trees::failures(&found);
        assert_eq!(failures.len(), 1, "one is enough");
        assert!(Trees::met(&found).runs > 0);
        subject.replay(&failures[0], 300).expect("it failed")
    }

    #[test]
    fn a_failure_over_trees_is_cut_down_and_its_command_line_replays_it() {
        let faults = FaultSet::parse("lost-write").unwrap();
        let options = KvOptions { faults: faults.clone(), ..KvOptions::default() };
        let replay = first_failure(&Trees(options.clone()));
        let all = Trees::about(&run_trees(replay.seed, &options)).steps;
        assert!(replay.steps.len() < all, "{} of {all} steps are left", replay.steps.len());
        let command = format!("lode sim --trees --seed {} --faults lost-write --only ", replay.seed);
        let only = replay.command.strip_prefix(&command).unwrap_or_else(|| panic!("{}", replay.command));
        let only = KvOptions { only: parse_ranges(only).ok(), ..options };
        let again = Trees(only.clone()).replay(&run_trees(replay.seed, &only), 0).expect("it fails again");
        assert_eq!((again.failure, again.steps), (replay.failure.clone(), replay.steps.clone()));
        // What the command tells, and its status.
        let e = failed(std::slice::from_ref(&replay), &[]).unwrap_err();
        assert_eq!(e.status(), 1);
        assert!(e.message().unwrap().starts_with(&format!("seed {} failed: ", replay.seed)));
        let text = replay.to_string();
        assert!(text.starts_with(&format!("seed {}: ", replay.seed)) && text.ends_with(&replay.command));
        let json = replay_json(&replay);
        assert_eq!((&json["seed"], &json["command"]), (&replay.seed.into(), &replay.command.clone().into()));
        let met = Met { runs: 3, table: vec![("x".into(), 0)], missing: vec!["x".into()] };
        assert!(report(&met, &[]).contains("x (never: a failure)"));
        assert_eq!(failed(&[], &met.missing).unwrap_err().message().unwrap(), "never met: x");
    }

    fn run_trees(seed: u64, options: &KvOptions) -> lode_sim::KvOutcome {
        Trees(options.clone()).run(seed)
    }

    #[test]
    fn both_simulations_run_a_seed() {
        let trees = Trees(KvOptions { faults: FaultSet::of(&KV_FAULTS), ..KvOptions::default() });
        let drives = Drives(RunOptions { steps: Some(20), ..RunOptions::default() });
        let (tree, drive) = (trees.run(1), drives.run(1));
        assert!(trees.replay(&tree, 0).is_none() && drives.replay(&drive, 0).is_none());
        assert_eq!((Trees::about(&tree).seed, Drives::about(&drive).steps), (1, 20));
    }
}
