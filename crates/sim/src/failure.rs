//! The failures that a run can find.

use std::fmt;

/// The kind of a failure. The shrinker keeps the kind that it started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The drive panicked.
    Panic,
    /// Acknowledged data is lost.
    Lost,
    /// Data is visible that was never written, or that was overwritten.
    WrongBytes,
    /// A batch took effect in part, out of order, or although it was refused.
    NotAtomic,
    /// A command got a wrong answer.
    Answer,
    /// The drive could not be opened.
    NotOpened,
    /// The drive refused a write as full although it has space.
    Full,
    /// The drive became read-only, or could not be closed, without a cause.
    ReadOnly,
    /// The drive's or the engine's own check found an error.
    Check,
    /// A transaction violates isolation.
    Isolation,
}

/// The number of characters of two messages that are compared.
const GIST_CHARS: usize = 30;

/// A failure without its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its kind.
    pub(crate) kind: FailureKind,
    /// Its description.
    pub(crate) what: String,
}

/// Returns a failure as an error.
pub(crate) fn wrong<T>(kind: FailureKind, what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { kind, what: what.into() })
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of the step in the whole list, from 0.
    pub step: usize,
    /// Its kind.
    pub kind: FailureKind,
    /// What is wrong.
    pub what: String,
}

impl Failure {
    /// Whether the two failures have the same description except for numbers.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let gist = |f: &Self| -> String {
            f.what.chars().filter(|c| !c.is_ascii_digit()).take(GIST_CHARS).collect()
        };
        self.kind == other.kind && gist(self) == gist(other)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.what.split_whitespace().collect::<Vec<_>>().join(" ");
        write!(f, "{:?} at step {}: {line}", self.kind, self.step)
    }
}
