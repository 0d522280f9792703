//! What a replay needs of a device.

use super::super::{Request, TraceTime};

/// A device that keeps virtual time.
///
/// A replay submits in order of time, never more than its depth at once, and takes completions in order of time. So a
/// device that knows at submission when a request will end keeps those ends in a heap; one that has to be driven does
/// its work up to the time that it is asked for.
pub trait Target {
    /// What may go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Takes a request at `at`, which is not before any instant that it was given or gave.
    fn submit(&mut self, at: TraceTime, tag: Tag, request: &Request) -> Result<(), Self::Error>;

    /// The next completion, if one comes by `until`; without `until` the next one however late, and none only if
    /// nothing is in flight. Nothing submitted later ends before it.
    fn complete(&mut self, until: Option<TraceTime>) -> Result<Option<Completion<Self::Error>>, Self::Error>;

    /// How much of its time each resource was in use since the first request.
    fn busy(&self) -> Vec<Busy>;
}

/// By which a completion names its request. The device gives it back as it got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub(super) u64);

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion<E> {
    /// Of which.
    pub tag: Tag,
    /// When.
    pub at: TraceTime,
    /// How.
    pub outcome: Result<(), E>,
}

/// How much a resource was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Such as `bus 3` or `dies`.
    pub resource: String,
    /// Time in use, of all its equal parts together, in ps.
    pub busy_ps: u128,
    /// Time from the first request until the end of its last use or of the replay, times its equal parts, in ps.
    pub of_ps: u128,
}
