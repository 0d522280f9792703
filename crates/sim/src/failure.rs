//! What a run can find.

use std::fmt;

/// What is wrong, in kinds: the shrinker keeps to what it started from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The drive panicked.
    Panic,
    /// Something that was acknowledged is gone.
    Lost,
    /// Something shows that nobody wrote, or that was written over.
    WrongBytes,
    /// A batch took effect in part, out of order, or although it was refused.
    NotAtomic,
    /// A command was answered as it must not be.
    Answer,
    /// The drive could not be opened.
    NotOpened,
    /// The drive refused for want of room that it has.
    Full,
    /// The drive became read-only, or could not be closed, without a cause.
    ReadOnly,
    /// The drive, or the engine, finds fault with itself.
    Check,
    /// A transaction saw, or was allowed, what it must not.
    Isolation,
}

/// How much of a message is compared.
const GIST_CHARS: usize = 30;

/// What is wrong, without the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What it is.
    pub(crate) kind: Kind,
    /// In words.
    pub(crate) what: String,
}

/// The answer for something that is wrong.
pub(crate) fn wrong<T>(kind: Kind, what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { kind, what: what.into() })
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step, by its number in the whole list, from 0.
    pub step: usize,
    /// What kind it is of.
    pub kind: Kind,
    /// What is wrong.
    pub what: String,
}

impl Failure {
    /// Whether this says the same as another, but for numbers.
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
