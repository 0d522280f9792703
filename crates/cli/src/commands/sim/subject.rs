//! What is simulated from seeds: the drive, or transactions over trees on it.
//!
//! ```text
//!   seed ─► Subject::run ─► Outcome ─► failure? ─► Subject::replay: the shortest, with the command line that runs it again
//! ```

use std::fmt;
use std::sync::atomic::AtomicU64;

use lode_sim::{
    Failure, FaultSet, Found, KV_FAULTS, KvFound, KvOptions, KvOutcome, Outcome, RunOptions, run, run_kv,
    search, search_kv, shrink, shrink_kv,
};

/// One of the simulations.
pub(super) trait Subject: Sync {
    /// What a run came to.
    type Outcome: Send;
    /// What a search came to.
    type Found: Default + Send;

    /// Runs a seed.
    fn run(&self, seed: u64) -> Self::Outcome;
    /// What it ran.
    fn about(outcome: &Self::Outcome) -> About;
    /// The shortest replay of a failure, after at most so many further runs; none when it did not fail.
    fn replay(&self, outcome: &Self::Outcome, runs: u32) -> Option<Replay>;

    /// Runs the seeds that `next` hands out, up to `end`, until one failed or `stop` says so.
    fn search(&self, next: &AtomicU64, end: u64, stop: &dyn Fn() -> bool) -> Self::Found;
    /// Puts what another thread found to this.
    fn add(found: &mut Self::Found, other: Self::Found);
    /// Runs that failed.
    fn failures(found: &Self::Found) -> &[Self::Outcome];
    /// What all its runs met.
    fn met(found: &Self::Found) -> Met;
}

/// A run in words.
pub(super) struct About {
    pub(super) seed: u64,
    pub(super) scenario: String,
    pub(super) steps: usize,
}

/// What runs met.
pub(super) struct Met {
    pub(super) runs: u64,
    /// By name, how often.
    pub(super) table: Vec<(String, u64)>,
    /// What was never met, and should have been by a long search.
    pub(super) missing: Vec<String>,
}

/// The shortest replay of a failure.
pub(super) struct Replay {
    pub(super) seed: u64,
    pub(super) scenario: String,
    pub(super) failure: Failure,
    /// The steps that are left, with their numbers.
    pub(super) steps: Vec<(usize, String)>,
    /// The command line that runs them again.
    pub(super) command: String,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.failure)?;
        writeln!(f, "{}", self.scenario)?;
        for (number, step) in &self.steps {
            writeln!(f, "{number:>5}  {step}")?;
        }
        f.write_str(&self.command)
    }
}

/// The drive alone.
pub(super) struct Drives(pub(super) RunOptions);

impl Subject for Drives {
    type Outcome = Outcome;
    type Found = Found;

    fn run(&self, seed: u64) -> Outcome {
        run(seed, &self.0)
    }

    fn about(outcome: &Outcome) -> About {
        let Outcome { scenario, steps, .. } = outcome;
        About { seed: scenario.seed, scenario: scenario.to_string(), steps: steps.len() }
    }

    fn replay(&self, outcome: &Outcome, runs: u32) -> Option<Replay> {
        let replay = shrink(outcome, &self.0, runs)?;
        Some(Replay {
            seed: replay.scenario.seed,
            scenario: replay.scenario.to_string(),
            failure: replay.failure,
            steps: replay.steps.iter().map(|(n, s)| (*n, s.to_string())).collect(),
            command: replay.command,
        })
    }

    fn search(&self, next: &AtomicU64, end: u64, stop: &dyn Fn() -> bool) -> Found {
        search(next, end, &self.0, 1, stop)
    }

    fn add(found: &mut Found, other: Found) {
        found.add(other);
    }

    fn failures(found: &Found) -> &[Outcome] {
        &found.failures
    }

    fn met(found: &Found) -> Met {
        let c = &found.coverage;
        Met { runs: c.runs, table: c.table(), missing: c.missing() }
    }
}

/// Transactions over trees, on a drive.
pub(super) struct Trees(pub(super) KvOptions);

impl Subject for Trees {
    type Outcome = KvOutcome;
    type Found = KvFound;

    fn run(&self, seed: u64) -> KvOutcome {
        run_kv(seed, &self.0)
    }

    fn about(outcome: &KvOutcome) -> About {
        let KvOutcome { scenario, steps, .. } = outcome;
        About { seed: scenario.seed, scenario: scenario.to_string(), steps: steps.len() }
    }

    fn replay(&self, outcome: &KvOutcome, runs: u32) -> Option<Replay> {
        let replay = shrink_kv(outcome, runs)?;
        let mut command = format!("lode sim --trees --seed {}", replay.scenario.seed);
        if self.0.faults != FaultSet::of(&KV_FAULTS) {
            command += &format!(" --faults {}", self.0.faults);
        }
        if let Some(steps) = self.0.steps {
            command += &format!(" --steps {steps}");
        }
        command += &format!(" --only {}", replay.only);
        Some(Replay {
            seed: replay.scenario.seed,
            scenario: replay.scenario.to_string(),
            failure: replay.failure,
            steps: replay.steps.iter().map(|(n, s)| (*n, format!("{s:?}"))).collect(),
            command,
        })
    }

    fn search(&self, next: &AtomicU64, end: u64, stop: &dyn Fn() -> bool) -> KvFound {
        search_kv(next, end, &self.0, 1, stop)
    }

    fn add(found: &mut KvFound, other: KvFound) {
        found.add(other);
    }

    fn failures(found: &KvFound) -> &[KvOutcome] {
        &found.failures
    }

    fn met(found: &KvFound) -> Met {
        let c = &found.coverage;
        Met { runs: c.runs, table: c.table(), missing: c.missing() }
    }
}
