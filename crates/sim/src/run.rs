//! Runs seeds of any simulation, each from its scenario to the first step that fails.
//!
//! ```text
//!   seed ─► Simulated { what is simulated } ─► steps ─► World ─► Outcome { failure?, coverage } ─► shrink ─► Replay
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::coverage::Coverage;
use crate::failure::{Failure, FailureKind, Wrong};
use crate::scenario::Scenario;
use crate::shrink::cut_down;
use crate::simulated::{Options, Simulated, World};

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome<S: Simulated = Scenario> {
    /// The scenario.
    pub scenario: S,
    /// The requested steps with their numbers.
    pub steps: Vec<(usize, S::Step)>,
    /// The failure, if there was one.
    pub failure: Option<Failure>,
    /// The events that the run met.
    pub coverage: Coverage,
}

/// Runs a seed.
pub fn run<S: Simulated>(seed: u64, options: &Options<S>) -> Outcome<S> {
    let scenario = S::from_seed(seed, &options.faults);
    let count = options.steps.unwrap_or(scenario.step_count());
    let mut steps: Vec<(usize, S::Step)> = scenario.steps(count).into_iter().enumerate().collect();
    if let Some(only) = &options.only {
        steps.retain(|(n, _)| only.contains(n));
    }
    let (failure, coverage) = take_steps(&scenario, &steps, options.lens);
    Outcome { scenario, steps, failure, coverage }
}

/// Executes steps, which carry their numbers in the whole list. Returns the first failure.
pub(crate) fn take_steps<S: Simulated>(
    scenario: &S,
    steps: &[(usize, S::Step)],
    lens: S::Lens,
) -> (Option<Failure>, Coverage) {
    let at = Cell::new(0);
    let mut coverage = Coverage::new(S::NAMES);
    let wrong = caught(|| {
        let mut world = scenario.world(lens)?;
        let result = steps
            .iter()
            .try_for_each(|(number, step)| {
                at.set(*number);
                world.step(step)
            })
            .and_then(|()| world.end());
        coverage.clone_from(world.coverage());
        result
    });
    coverage.runs = 1;
    (wrong.map(|w| Failure { step: at.get(), kind: w.kind, what: w.what }), coverage)
}

thread_local! {
    /// Whether a run reports the panics of this thread.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Installs a panic hook that does not print panics of simulated code, because the run reports them. Other panics are
/// printed as usual.
fn hear_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return before(info);
            }
            let what = info.payload_as_str().unwrap_or("a panic without a message");
            let at = info.location().map_or(String::new(), |l| format!(", at {}:{}", l.file(), l.line()));
            LAST_PANIC.set(format!("{what}{at}"));
        }));
    });
}

/// Runs a function and returns its failure. A panic is a failure, too.
fn caught(run: impl FnOnce() -> Result<(), Wrong>) -> Option<Wrong> {
    hear_panics();
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    match result {
        Ok(Ok(())) => None,
        Ok(Err(wrong)) => Some(wrong),
        Err(_) => Some(Wrong { kind: FailureKind::Panic, what: LAST_PANIC.take() }),
    }
}

/// The shortest replay found for a failure.
#[derive(Clone, Debug)]
pub struct Replay<S: Simulated = Scenario> {
    /// The scenario.
    pub scenario: S,
    /// The remaining steps with their numbers.
    pub steps: Vec<(usize, S::Step)>,
    /// The failure with these steps.
    pub failure: Failure,
    /// The command line that runs them again.
    pub command: String,
}

/// Shortens the steps of a failed run, with at most `runs` further runs. Returns `None` if the run did not fail.
pub fn shrink<S: Simulated>(outcome: &Outcome<S>, options: &Options<S>, runs: u32) -> Option<Replay<S>> {
    let failure = outcome.failure.clone()?;
    let scenario = outcome.scenario.clone();
    let picked = |numbers: &[usize]| -> Vec<(usize, S::Step)> {
        outcome.steps.iter().filter(|(n, _)| numbers.contains(n)).cloned().collect()
    };
    let numbers = outcome.steps.iter().map(|(n, _)| *n).collect();
    let (left, failure) =
        cut_down(failure, numbers, runs, |numbers| take_steps(&scenario, &picked(numbers), options.lens).0);
    let command = scenario.again(&left, options);
    Some(Replay { steps: picked(&left), scenario, failure, command })
}

impl<S: Simulated> fmt::Display for Replay<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.scenario.seed(), self.failure)?;
        writeln!(f, "{}", self.scenario)?;
        for (number, step) in &self.steps {
            writeln!(f, "{number:>5}  {step}")?;
        }
        write!(f, "{}", self.command)
    }
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Found<S: Simulated = Scenario> {
    /// The events that all runs of the search met.
    pub coverage: Coverage,
    /// The failed runs, by seed.
    pub failures: Vec<Outcome<S>>,
}

impl<S: Simulated> Default for Found<S> {
    fn default() -> Self {
        Self { coverage: Coverage::new(S::NAMES), failures: Vec::new() }
    }
}

impl<S: Simulated> Found<S> {
    /// Adds the result of another thread.
    pub fn add(&mut self, other: Self) {
        self.coverage.add(&other.coverage);
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|o| o.scenario.seed());
    }
}

/// Runs seeds from `next` on, below `end`, until `stop` returns true or `failures_max` runs failed. Threads that
/// share `next` share the work.
pub fn search<S: Simulated>(
    next: &AtomicU64,
    end: u64,
    options: &Options<S>,
    failures_max: usize,
    stop: &dyn Fn() -> bool,
) -> Found<S> {
    let mut found = Found::default();
    while !stop() && found.failures.len() < failures_max {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            break;
        }
        let outcome = run(seed, options);
        found.coverage.add(&outcome.coverage);
        if outcome.failure.is_some() {
            found.failures.push(outcome);
        }
    }
    found
}
