//! A database of trees on a drive in one thread from one seed: transactions that run into each other, a medium that
//! fails, and a model that knows what each of them must see.
//!
//! ```text
//!   seed ─► KvScenario ─► steps ─► world { database on a drive on a medium that fails, model, history } ─► failure?
//! ```
//!
//! # What is allowed
//!
//! 1. **A read**, by key or by scan, answers what the newest commit before the transaction's snapshot left there, or the
//!    transaction's own newest write; for as long as the transaction is open, whatever is written back or evicted. Only a
//!    view that the drive had to close is "too old", and only where so many are open.
//! 2. **A commit** is refused as a conflict exactly if another one wrote one of its keys since its snapshot. Commit numbers
//!    rise. A commit that is refused, or that a full drive or a fault fails, changes nothing until the next opening.
//! 3. **After a power cut** every commit that was acknowledged as durable is there, whole; those after it, which returned
//!    before they were durable, up to some commit and none after that; the one under way whole or not at all.
//! 4. **A tree** that was created or dropped stays so; what is under way at a power cut did or did not happen.
//! 5. **The database opens** after any power cut, also after cuts in the recoveries before; its check and the drive's find
//!    nothing: order, fences, levels, values, and exactly the pages in use that something names.
//! 6. **The history** of all transactions, those before a crash included, is one of snapshot isolation, as
//!    [`crate::history`] sees it, which knows nothing of the model.
//!
//! A fault excuses that the command which meets it fails by name, and that the database takes no writes until it is opened
//! again; never a wrong answer, nor the loss of what was durable.

mod content;
mod coverage;
mod model;
mod scenario;
mod step;
mod world;

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

pub use coverage::KvCoverage;
pub use scenario::{KV_FAULTS, KvMix, KvScenario};
pub use step::{KV_STEP_KINDS, KeysAt, Step as KvStep, Work};

use crate::failure::Failure;
use crate::{FaultSet, ranges, run, shrink};
use world::World;

/// What is run of a seed.
#[derive(Clone, Debug)]
pub struct KvOptions {
    /// How many steps; by default the scenario says.
    pub steps: Option<usize>,
    /// Only the steps with these numbers, in rising order; by default all.
    pub only: Option<Vec<usize>>,
    /// Faults that may strike.
    pub faults: FaultSet,
}

impl Default for KvOptions {
    fn default() -> Self {
        Self { steps: None, only: None, faults: FaultSet::of(&KV_FAULTS) }
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct KvOutcome {
    /// The database and its circumstances.
    pub scenario: KvScenario,
    /// The steps that were asked for, with their numbers.
    pub steps: Vec<(usize, KvStep)>,
    /// What went wrong, if anything did.
    pub failure: Option<Failure>,
    /// What it met.
    pub coverage: KvCoverage,
}

/// Runs a seed.
pub fn run_kv(seed: u64, options: &KvOptions) -> KvOutcome {
    let scenario = KvScenario::from_seed(seed, &options.faults);
    let count = options.steps.unwrap_or(scenario.steps);
    let mut steps: Vec<(usize, KvStep)> = scenario.steps(count).into_iter().enumerate().collect();
    if let Some(only) = &options.only {
        steps.retain(|(n, _)| only.contains(n));
    }
    let (failure, coverage) = take_steps(&scenario, &steps);
    KvOutcome { scenario, steps, failure, coverage }
}

/// Takes these steps, and answers the first that goes wrong.
fn take_steps(scenario: &KvScenario, steps: &[(usize, KvStep)]) -> (Option<Failure>, KvCoverage) {
    let at = Cell::new(0);
    let mut coverage = KvCoverage::default();
    let wrong = run::caught(|| {
        let mut world = World::new(scenario)?;
        let result = steps
            .iter()
            .try_for_each(|(number, step)| {
                at.set(*number);
                world.step(step)
            })
            .and_then(|()| world.end());
        coverage = std::mem::take(&mut world.coverage);
        result
    });
    coverage.runs = 1;
    (wrong.map(|w| Failure { step: at.get(), kind: w.kind, what: w.what }), coverage)
}

/// The shortest replay of a failure that was found.
#[derive(Clone, Debug)]
pub struct KvReplay {
    /// The database and its circumstances.
    pub scenario: KvScenario,
    /// The steps that are left, with their numbers.
    pub steps: Vec<(usize, KvStep)>,
    /// How it fails with them.
    pub failure: Failure,
    /// The list of their numbers, for [`KvOptions::only`].
    pub only: String,
}

/// Cuts the steps of a run that failed down, with at most `runs` further runs; `None` when it did not fail.
pub fn shrink_kv(outcome: &KvOutcome, runs: u32) -> Option<KvReplay> {
    let failure = outcome.failure.clone()?;
    let scenario = outcome.scenario.clone();
    let picked = |numbers: &[usize]| -> Vec<(usize, KvStep)> {
        outcome.steps.iter().filter(|(n, _)| numbers.contains(n)).cloned().collect()
    };
    let numbers = outcome.steps.iter().map(|(n, _)| *n).collect();
    let (left, failure) =
        shrink::shrink(failure, numbers, runs, |numbers| take_steps(&scenario, &picked(numbers)).0);
    Some(KvReplay { steps: picked(&left), scenario, failure, only: ranges(&left) })
}

impl fmt::Display for KvReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.scenario.seed, self.failure)?;
        writeln!(f, "  {}", self.scenario)?;
        for (n, step) in &self.steps {
            writeln!(f, "  {n:>4}  {step:?}")?;
        }
        write!(f, "  again: LODE_SEED={} LODE_ONLY={}", self.scenario.seed, self.only)
    }
}

/// What a search over seeds came to.
#[derive(Clone, Debug, Default)]
pub struct KvFound {
    /// What was met.
    pub coverage: KvCoverage,
    /// Runs that failed.
    pub failures: Vec<KvOutcome>,
}

/// Runs the seeds that `next` hands out, up to `end`, until so many failed or `stop` says so. For several threads.
pub fn search_kv(
    next: &AtomicU64,
    end: u64,
    options: &KvOptions,
    failures_max: usize,
    stop: &dyn Fn() -> bool,
) -> KvFound {
    let mut found = KvFound::default();
    while !stop() && found.failures.len() < failures_max {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            break;
        }
        let outcome = run_kv(seed, options);
        found.coverage.add(&outcome.coverage);
        if outcome.failure.is_some() {
            found.failures.push(outcome);
        }
    }
    found
}

impl KvFound {
    /// Puts what another thread found to this.
    pub fn add(&mut self, other: Self) {
        self.coverage.add(&other.coverage);
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|o| o.scenario.seed);
    }
}
