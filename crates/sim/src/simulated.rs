//! What a simulation is: a seed stands for a scenario and steps, and a world takes the steps and knows what is right.

use std::fmt;

use crate::coverage::{Coverage, Names};
use crate::failure::Wrong;
use crate::fault::FaultSet;
use crate::ranges;
use crate::words::Words;

/// What a seed can stand for.
pub trait Simulated: Clone + fmt::Debug + fmt::Display + Send + Words {
    /// What happens to it, one after the other.
    type Step: Clone + fmt::Debug + fmt::Display + Send + Words;
    /// What lies between the host and what is simulated.
    type Lens: Copy + fmt::Debug + Send + Sync;

    /// The command that runs seeds of it.
    const COMMAND: &'static str;
    /// What its records call it.
    const SIMULATION: &'static str;
    /// What its runs can meet.
    const NAMES: &'static Names;
    /// No lens.
    const CLEAR: Self::Lens;

    /// What `seed` stands for, with no faults but `allowed`.
    fn from_seed(seed: u64, allowed: &FaultSet) -> Self;

    /// The seed.
    fn seed(&self) -> u64;

    /// Steps of a run that is not told how many.
    fn step_count(&self) -> usize;

    /// The first `count` steps.
    fn steps(&self, count: usize) -> Vec<Self::Step>;

    /// All is new, and no step was taken.
    ///
    /// # Errors
    /// What is wrong with it already.
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

/// What steps act on, and what knows whether it is right.
pub trait World {
    /// Its steps.
    type Step;

    /// One step, and what it entails.
    ///
    /// # Errors
    /// What goes wrong.
    fn step(&mut self, step: &Self::Step) -> Result<(), Wrong>;

    /// The end of a run.
    ///
    /// # Errors
    /// What is wrong.
    fn end(&mut self) -> Result<(), Wrong>;

    /// What it met.
    fn coverage(&self) -> &Coverage;
}

/// What is run of a seed.
#[derive(Clone, Debug)]
pub struct Options<S: Simulated> {
    /// How many steps; by default the scenario says.
    pub steps: Option<usize>,
    /// Only the steps with these numbers, in rising order; by default all.
    pub only: Option<Vec<usize>>,
    /// Faults that may strike.
    pub faults: FaultSet,
    /// What lies between the host and what is simulated.
    pub lens: S::Lens,
}

impl<S: Simulated> Default for Options<S> {
    fn default() -> Self {
        Self { steps: None, only: None, faults: FaultSet::of(S::NAMES.faults), lens: S::CLEAR }
    }
}
