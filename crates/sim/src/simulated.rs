//! The interface of a simulation. A seed stands for a scenario and steps, and a world executes the steps and checks
//! the answers.

use std::fmt;

use crate::coverage::{Coverage, Names};
use crate::failure::Wrong;
use crate::fault::FaultSet;
use crate::ranges;
use crate::words::Words;

/// The scenario of a seed.
pub trait Simulated: Clone + fmt::Debug + fmt::Display + Send + Words {
    /// A step.
    type Step: Clone + fmt::Debug + fmt::Display + Send + Words;
    /// The lens between the host and the simulated device.
    type Lens: Copy + fmt::Debug + Send + Sync;

    /// The command that runs its seeds.
    const COMMAND: &'static str;
    /// Its name in records.
    const SIMULATION: &'static str;
    /// The events that its runs can meet.
    const NAMES: &'static Names;
    /// No lens.
    const CLEAR: Self::Lens;

    /// The scenario of `seed`, with only the faults in `allowed`.
    fn from_seed(seed: u64, allowed: &FaultSet) -> Self;

    /// The seed.
    fn seed(&self) -> u64;

    /// The default number of steps.
    fn step_count(&self) -> usize;

    /// The first `count` steps.
    fn steps(&self, count: usize) -> Vec<Self::Step>;

    /// Makes a new world in which no step was executed.
    ///
    /// # Errors
    /// A failure in making it.
    fn world(&self, lens: Self::Lens) -> Result<impl World<Step = Self::Step>, Wrong>;

    /// The command line that runs the steps with these numbers again.
    fn again(&self, only: &[usize], options: &Options<Self>) -> String {
        let mut command = format!("{} --seed {}", Self::COMMAND, self.seed());
        if options.faults != FaultSet::of(Self::NAMES.faults) {
            command += &format!(" --faults {}", options.faults);
        }
        if let Some(&last) = only.last()
            && last >= self.step_count()
        {
            command += &format!(" --steps {}", last + 1);
        }
        command + &format!(" --only {}", ranges(only))
    }
}

/// Executes steps and checks the answers.
pub trait World {
    /// Its steps.
    type Step;

    /// Executes a step. If the power was cut, this includes the reopening.
    ///
    /// # Errors
    /// The failure.
    fn step(&mut self, step: &Self::Step) -> Result<(), Wrong>;

    /// Ends a run.
    ///
    /// # Errors
    /// What is wrong.
    fn end(&mut self) -> Result<(), Wrong>;

    /// The events that the run met so far.
    fn coverage(&self) -> &Coverage;
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options<S: Simulated> {
    /// The number of steps. `None` for the scenario's default.
    pub steps: Option<usize>,
    /// The numbers of the steps to run, in increasing order. `None` for all.
    pub only: Option<Vec<usize>>,
    /// Faults that may strike.
    pub faults: FaultSet,
    /// The lens between the host and the simulated device.
    pub lens: S::Lens,
}

impl<S: Simulated> Default for Options<S> {
    fn default() -> Self {
        Self { steps: None, only: None, faults: FaultSet::of(S::NAMES.faults), lens: S::CLEAR }
    }
}
