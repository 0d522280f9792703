//! Helpers of the tests over seeds: many seeds on all cores, a single seed, and planted faults.
#![allow(dead_code, unreachable_pub)]

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lode_sim::{Failure, Found, Options, Record, Simulated, parse_ranges, run, search, shrink};

/// The number of seeds in an ordinary run of the tests.
pub const SEEDS: u64 = 2000;
/// The most runs in the search for a short replay.
const SHRINK_RUNS: u32 = 400;
/// The most characters of a failure in the table of planted faults.
const FAILURE_CHARS: usize = 110;

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `LODE_SEEDS`, or the number of an ordinary run.
pub fn seeds() -> u64 {
    number("LODE_SEEDS").unwrap_or(SEEDS)
}

/// Runs only `LODE_SEED` if it is set, otherwise many seeds. An ordinary run must meet everything in the coverage.
pub fn no_seed_fails<S: Simulated>() {
    no_seed_of_fails::<S>(SEEDS);
}

/// The same, where an ordinary run has so many seeds.
pub fn no_seed_of_fails<S: Simulated>(ordinary: u64) {
    if let Some(seed) = number("LODE_SEED") {
        return one::<S>(seed);
    }
    let seeds = number("LODE_SEEDS").unwrap_or(ordinary);
    let found = many::<S>(0, seeds);
    if seeds >= ordinary {
        assert_eq!(found.coverage.missing(), Vec::<String>::new(), "never met");
    }
}

/// Runs one seed. `LODE_ONLY` may select its steps, `LODE_RECORD` a file for the shortest replay.
fn one<S: Simulated>(seed: u64) {
    let only = std::env::var("LODE_ONLY").ok().map(|list| parse_ranges(&list).expect("a list of steps"));
    let options = Options::<S> { only, ..Options::default() };
    if let Some(replay) = shrink(&run(seed, &options), &options, SHRINK_RUNS) {
        if let Ok(file) = std::env::var("LODE_RECORD") {
            std::fs::write(file, Record::of_replay(&replay).to_text()).expect("the record can be written");
        }
        panic!("{replay}");
    }
}

/// Runs seeds on all cores. If one fails, it panics with the shortest replay.
pub fn many<S: Simulated>(begin: u64, end: u64) -> Found<S> {
    let options = Options::<S>::default();
    let (next, failed) = (AtomicU64::new(begin), AtomicBool::new(false));
    let found = Mutex::new(Found::default());
    on_all_cores(|| {
        let some = search(&next, end, &options, 1, &|| failed.load(Ordering::Relaxed));
        failed.fetch_or(!some.failures.is_empty(), Ordering::Relaxed);
        found.lock().expect("nobody panics here").add(some);
    });
    let found = found.into_inner().expect("nobody panics here");
    if let Some(first) = found.failures.first() {
        panic!("{}", shrink(first, &options, SHRINK_RUNS).expect("it failed"));
    }
    for (name, count) in found.coverage.table() {
        println!("{count:>10}  {name}");
    }
    found
}

fn on_all_cores(work: impl Fn() + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(&work))));
}

/// The faults that can be planted in a crate, and how to plant them.
pub struct Planting<F: 'static> {
    pub all: &'static [(F, &'static str)],
    pub plant: fn(Option<F>),
    /// The faults that no seed can show. Separate tests find them.
    pub elsewhere: &'static [F],
}

impl<F: Copy + Debug + PartialEq + Send + Sync> Planting<F> {
    /// Checks that each fault is found within the seeds of an ordinary run, and that its seed passes without the
    /// fault. There must be at least `least` faults. With `LODE_PLANTED`, it runs only that fault and prints its
    /// shortest replay.
    pub fn every_fault_is_found<S: Simulated>(&self, least: usize) {
        if let Ok(name) = std::env::var("LODE_PLANTED") {
            return self.replay::<S>(&name);
        }
        let found: Mutex<Vec<Option<(u64, Failure)>>> = Mutex::new(vec![None; self.all.len()]);
        let next = AtomicUsize::new(0);
        on_all_cores(|| {
            while let Some((at, (fault, _))) = self.nth(next.fetch_add(1, Ordering::Relaxed)) {
                let one = (!self.elsewhere.contains(fault)).then(|| self.find::<S>(*fault)).flatten();
                found.lock().expect("no finder panics")[at] = one;
            }
        });
        let found = found.into_inner().expect("no finder panics");
        for ((fault, about), found) in self.all.iter().zip(&found) {
            let (seeds, how) = match found {
                Some((seed, failure)) => ((seed + 1).to_string(), failure.to_string()),
                None if self.elsewhere.contains(fault) => ("-".into(), "a separate test finds it".into()),
                None => (format!("> {}", seeds()), "not found".into()),
            };
            let how: String = how.chars().take(FAILURE_CHARS).collect();
            println!("| {fault:?} | {about} | {seeds} | {} |", how.replace('|', "/"));
        }
        let unfound =
            self.all.iter().zip(&found).filter(|(p, f)| f.is_none() && !self.elsewhere.contains(&p.0));
        let unfound: Vec<F> = unfound.map(|(p, _)| p.0).collect();
        assert!(unfound.is_empty(), "not found in {} seeds: {unfound:?}", seeds());
        assert!(self.all.len() >= least, "{} faults are few", self.all.len());
    }

    fn nth(&self, at: usize) -> Option<(usize, &(F, &'static str))> {
        Some((at, self.all.get(at)?))
    }

    /// The first seed that fails with the fault but not without it, and its failure.
    fn find<S: Simulated>(&self, fault: F) -> Option<(u64, Failure)> {
        let options = Options::<S>::default();
        let fails = |fault: Option<F>, seed| {
            (self.plant)(fault);
            let failure = run(seed, &options).failure;
            (self.plant)(None);
            failure
        };
        let found = |seed| Some((seed, fails(Some(fault), seed)?)).filter(|_| fails(None, seed).is_none());
        (0..seeds()).find_map(found)
    }

    /// Prints the shortest replay of a fault.
    fn replay<S: Simulated>(&self, name: &str) {
        let of = |f: &&(F, &str)| format!("{:?}", f.0) == name;
        let (fault, _) = self.all.iter().find(of).expect("LODE_PLANTED names a fault");
        let (seed, _) = self.find::<S>(*fault).expect("it is found");
        let options = Options::<S>::default();
        (self.plant)(Some(*fault));
        let replay = shrink(&run(seed, &options), &options, SHRINK_RUNS).expect("it fails");
        (self.plant)(None);
        println!("{replay}");
    }
}
