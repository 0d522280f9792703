//! A run as a file. It holds the scenario and the steps themselves, so its replay does not depend on the generator.
//!
//! ```text
//!   lode-sim record 1 drive
//!   # Lost at step 3: the newest commit is 4; 5 was acknowledged
//!   scenario { seed 7 geometry { channels 1 ... } mix Cuts ... }
//!   0 Allocate { rows false count 2 }
//!   3 Crash { seed 99 again [ 4 ] fault none }
//!   end 2
//! ```
//!
//! Each step has a line with its number in the original run, its name, and its fields by name. The last line has the
//! number of steps.
//!
//! A step draws nothing from the generator when it is executed. It carries a seed and selects among the existing
//! pages, keys and transactions only by that seed, so a record needs nothing else. A change to how steps use their
//! seeds (`world/`, `kv/world/`, `content.rs`, `random.rs`, the faults of `lode-flash`) changes the meaning of old
//! records and must increase [`VERSION`].

mod kv;
mod scenario;
mod tables;

use std::fmt;

use crate::coverage::Coverage;
use crate::run::{Outcome, Replay, take_steps};
use crate::simulated::Simulated;
use crate::words::{Line, Words, Writer};

/// The version of the format and of the steps' use of their seeds.
pub const VERSION: u32 = 1;
/// The first words of a record.
const MAGIC: &str = "lode-sim record";

/// A scenario and its steps.
#[derive(Clone, Debug)]
pub struct Record<S: Simulated> {
    /// The failure in one line. It may be empty.
    pub about: String,
    /// The scenario of the steps.
    pub scenario: S,
    /// The steps with their numbers in the original run, in increasing order.
    pub steps: Vec<(usize, S::Step)>,
}

/// Why a text cannot be replayed as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The text does not begin like a record.
    NotARecord,
    /// The record has another version, in which steps have another meaning.
    Version {
        /// What it says.
        got: String,
    },
    /// The record belongs to another simulation.
    Simulation {
        /// What it says.
        got: String,
        /// The requested one.
        expected: &'static str,
    },
    /// A line is wrong.
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARecord => {
                write!(f, "this is no record of a simulation: it does not begin with '{MAGIC}'")
            }
            Self::Version { got } => {
                write!(f, "this record is of version {got}; only version {VERSION} can be replayed")
            }
            Self::Simulation { got, expected } => {
                write!(f, "this record is of the simulation '{got}', not of '{expected}'")
            }
            Self::Line { line, what } => write!(f, "line {line}: {what}"),
        }
    }
}

impl std::error::Error for RecordError {}

impl<S: Simulated> Record<S> {
    /// The record of a run. If a step failed, the record ends with it.
    pub fn of_outcome(outcome: &Outcome<S>) -> Self {
        let last = outcome.failure.as_ref().map_or(usize::MAX, |f| f.step);
        Self {
            about: outcome.failure.as_ref().map(ToString::to_string).unwrap_or_default(),
            scenario: outcome.scenario.clone(),
            steps: outcome.steps.iter().filter(|(n, _)| *n <= last).cloned().collect(),
        }
    }

    /// The record of the shortest replay of a failure.
    pub fn of_replay(replay: &Replay<S>) -> Self {
        Self {
            about: replay.failure.to_string(),
            scenario: replay.scenario.clone(),
            steps: replay.steps.clone(),
        }
    }

    /// Replays the steps.
    pub fn run(&self) -> Outcome<S> {
        let (failure, coverage): (_, Coverage) = take_steps(&self.scenario, &self.steps, S::CLEAR);
        Outcome { scenario: self.scenario.clone(), steps: self.steps.clone(), failure, coverage }
    }

    /// The record as a text.
    pub fn to_text(&self) -> String {
        let mut w = Writer::default();
        w.line(format_args!("{MAGIC} {VERSION} {}", S::SIMULATION));
        if !self.about.is_empty() {
            w.line(format_args!("# {}", self.about.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        w.word("scenario");
        self.scenario.put(&mut w);
        w.end_line();
        for (number, step) in &self.steps {
            number.put(&mut w);
            step.put(&mut w);
            w.end_line();
        }
        w.line(format_args!("end {}", self.steps.len()));
        w.finish()
    }

    /// Parses a record.
    ///
    /// # Errors
    /// If the text is not a record, or is one of another version or simulation. Otherwise the error names the first
    /// wrong line.
    pub fn from_text(text: &str) -> Result<Self, RecordError> {
        let mut lines = text.lines().enumerate().map(|(i, text)| (i + 1, text));
        let (_, first) = lines.next().ok_or(RecordError::NotARecord)?;
        let mut head = first.strip_prefix(MAGIC).ok_or(RecordError::NotARecord)?.split_whitespace();
        let version = head.next().ok_or(RecordError::NotARecord)?;
        if version != VERSION.to_string() {
            return Err(RecordError::Version { got: version.into() });
        }
        let simulation = head.next().unwrap_or_default();
        if simulation != S::SIMULATION {
            return Err(RecordError::Simulation { got: simulation.into(), expected: S::SIMULATION });
        }
        let mut about = String::new();
        let mut scenario = None;
        let mut steps: Vec<(usize, S::Step)> = Vec::new();
        for (number, text) in lines {
            let at = |what: String| RecordError::Line { line: number, what };
            if let Some(comment) = text.strip_prefix('#') {
                about = comment.trim().into();
                continue;
            }
            let mut line = Line::new(text);
            match line.next().map_err(at)? {
                "scenario" if scenario.is_none() => scenario = Some(S::take(&mut line).map_err(at)?),
                "end" => {
                    let count = usize::take(&mut line).map_err(at)?;
                    line.ends().map_err(at)?;
                    if count != steps.len() {
                        return Err(at(format!("{count} steps are announced; {} are there", steps.len())));
                    }
                    let scenario = scenario.ok_or_else(|| at("there is no scenario".into()))?;
                    return Ok(Self { about, scenario, steps });
                }
                word => {
                    let step = word.parse().map_err(|_| at(format!("'{word}' is no number of a step")))?;
                    if steps.last().is_some_and(|(before, _)| *before >= step) {
                        return Err(at(format!("step {step} comes too late")));
                    }
                    steps.push((step, S::Step::take(&mut line).map_err(at)?));
                }
            }
            line.ends().map_err(at)?;
        }
        Err(RecordError::Line {
            line: text.lines().count(),
            what: "the text ends before its last line".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultSet;
    use crate::{KvOptions, KvScenario, RunOptions, Scenario, Step, run};

    /// Checks that records of many seeds can be parsed again. Every kind of scenario and step occurs.
    fn comes_back<S: Simulated>(kind: fn(&S::Step) -> usize) {
        let mut kinds = vec![0; S::NAMES.steps.len()];
        for seed in 0..150 {
            let scenario = S::from_seed(seed, &FaultSet::of(S::NAMES.faults));
            let steps: Vec<_> = scenario.steps(100).into_iter().enumerate().skip(seed as usize % 3).collect();
            steps.iter().for_each(|(_, s)| kinds[kind(s)] += 1);
            let record = Record { about: "so it was".into(), scenario, steps };
            let text = record.to_text();
            let back = Record::<S>::from_text(&text).unwrap();
            assert_eq!(format!("{back:?}"), format!("{record:?}"));
            assert_eq!(back.to_text(), text);
        }
        assert!(!kinds.contains(&0), "{kinds:?} of {:?}", S::NAMES.steps);
    }

    #[test]
    fn a_record_comes_back() {
        comes_back::<Scenario>(Step::kind);
        comes_back::<KvScenario>(crate::KvStep::kind);
    }

    #[test]
    fn a_recorded_run_does_the_same() {
        let outcome = run(3, &RunOptions::default());
        let again = Record::<Scenario>::from_text(&Record::of_outcome(&outcome).to_text()).unwrap().run();
        assert_eq!(again.coverage.table(), outcome.coverage.table());
        let outcome = run(3, &KvOptions::default());
        let again = Record::<KvScenario>::from_text(&Record::of_outcome(&outcome).to_text()).unwrap().run();
        assert_eq!(again.coverage.table(), outcome.coverage.table());
    }

    #[test]
    fn a_record_that_can_not_be_replayed_says_why() {
        let options = RunOptions { steps: Some(3), ..RunOptions::default() };
        let text = Record::of_outcome(&run(5, &options)).to_text();
        let error = |text: &str| Record::<Scenario>::from_text(text).unwrap_err().to_string();
        let other = text.replacen("record 1", "record 2", 1);
        assert_eq!(error(&other), "this record is of version 2; only version 1 can be replayed");
        let trees = text.replacen("1 drive", "1 trees", 1);
        assert_eq!(error(&trees), "this record is of the simulation 'trees', not of 'drive'");
        assert!(error("{}").starts_with("this is no record of a simulation"));
        assert!(error("").starts_with("this is no record of a simulation"));
        let cut = &text[..text.rfind("end").unwrap()];
        assert!(error(cut).ends_with("the text ends before its last line"), "{}", error(cut));
        let fewer: String = text.lines().filter(|l| !l.starts_with("1 ")).map(|l| format!("{l}\n")).collect();
        assert_eq!(error(&fewer), "line 5: 3 steps are announced; 2 are there");
        let odd = text.replacen("Allocate", "Alocate", 1);
        assert_eq!(error(&odd), "line 3: 'Alocate' is not known here");
        let unknown = text.replacen("views_max", "views_mix", 1);
        assert_eq!(error(&unknown), "line 2: 'views_mix' is not known here");
        let long = text.replacen("count ", "count 4294967296", 1);
        assert!(error(&long).starts_with("line 3: '4294967296"), "{}", error(&long));
    }
}
