//! The interface of a device that a replay runs on.

use super::super::{Request, TraceTime};

/// A device with virtual time.
///
/// A replay submits requests in the order of time, never has more than its depth in flight, and takes completions in
/// the order of time. A device that knows the end of a request at its submission can keep the ends in a heap. A
/// device that must be driven does its work up to the requested time.
pub trait Target {
    /// The error of a request.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Submits a request at `at`. Earlier submissions and returned completions are not later than `at`.
    fn submit(&mut self, at: TraceTime, tag: Tag, request: &Request) -> Result<(), Self::Error>;

    /// Returns the next completion up to `until`. Without `until`, it returns the next one however late, and `None`
    /// only if nothing is in flight. No request submitted later may end before it.
    fn complete(&mut self, until: Option<TraceTime>) -> Result<Option<Completion<Self::Error>>, Self::Error>;

    /// The time for which each resource was used since the first request.
    fn busy(&self) -> Vec<Busy>;
}

/// Identifies a request in its completion. The device returns it unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub(super) u64);

/// The completion of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion<E> {
    /// The tag of the request.
    pub tag: Tag,
    /// The time of its end.
    pub at: TraceTime,
    /// Success or the error.
    pub outcome: Result<(), E>,
}

/// The use of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Its name, such as `bus 3` or `dies`.
    pub resource: String,
    /// The time in use of all its equal parts together, in ps.
    pub busy_ps: u128,
    /// The time from the first request until the end of its last use or of the replay, times the number of its equal
    /// parts, in ps.
    pub of_ps: u128,
}
