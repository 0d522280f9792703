//! Replays requests on a device that keeps virtual time, and accounts for every one of them.
//!
//! ```text
//!   requests ─► pace ─► in flight, at most the depth ─► Target ─► completions ─► ledger ─► Report
//!                │ open loop: each at its time stamp, scaled; it waits at the host while the queue is full
//!                └ closed loop: the next one when one of those in flight ends
//! ```
//!
//! What must hold, or the replay fails: each request completes exactly once and not before it was submitted; time
//! never goes back; Little's law, with the number in flight integrated over time on one side and the reported rate and
//! latency on the other; no resource was busy for longer than it was there. There is no clock and no randomness here:
//! the same requests on the same target give the same report.

mod flight;
mod ledger;
mod report;
mod target;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

pub use report::{Figures, Latency, LittlesLaw, Report, Use};
pub use target::{Busy, Completion, Tag, Target};

use super::{Request, TraceError, TraceTime};
use flight::Flight;
use ledger::Ledger;

/// When requests are submitted.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Each at its time stamp times `scale`, or when one of `depth` ends if as many are in flight: its latency counts
    /// from the time stamp all the same.
    Open {
        /// 1/2 replays a trace in half the time.
        scale: Scale,
        /// How many may be in flight.
        depth: NonZeroU32,
    },
    /// As soon as fewer than `depth` are in flight; time stamps do not count.
    Closed {
        /// How many are kept in flight.
        depth: NonZeroU32,
    },
}

/// A factor of time: a fraction, so that scaled stamps are the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    times: u64,
    by: u64,
}

impl Scale {
    /// As it was recorded.
    pub const ONE: Self = Self { times: 1, by: 1 };

    /// `times / by`; none if `by` is 0. With `times` 0 all arrive at the beginning.
    pub fn new(times: u64, by: u64) -> Option<Self> {
        (by > 0).then_some(Self { times, by })
    }

    /// A factor as people write it: `2`, `0.25`; none if it is not one, or has more than nine places.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, places) = text.split_once('.').unwrap_or((text, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || places.len() > 9 || !digits(whole) || !digits(places) || text.ends_with('.') {
            return None;
        }
        let by = 10u64.pow(places.len() as u32);
        let whole = whole.parse::<u64>().ok()?.checked_mul(by)?;
        let times = whole.checked_add(if places.is_empty() { 0 } else { places.parse().ok()? })?;
        Self::new(times, by)
    }

    /// As a number, for reports.
    pub fn factor(self) -> f64 {
        self.times as f64 / self.by as f64
    }

    /// A time stamp scaled, rounded down; none if it is out of range.
    fn apply(self, at: TraceTime) -> Option<TraceTime> {
        let ps = u128::from(at.as_ps()) * u128::from(self.times) / u128::from(self.by);
        ps.try_into().ok().map(TraceTime::from_ps)
    }
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The user asked to stop.
    #[error("interrupted")]
    Stopped,
    /// The trace is not what it must be.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The device refused a request.
    #[error("line {line}: the device refused the request: {source}")]
    Refused {
        /// Of the trace.
        line: u64,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The device failed a request.
    #[error("line {line}: the request failed: {source}")]
    Failed {
        /// Of the trace.
        line: u64,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The device failed as a whole.
    #[error("the device failed: {0}")]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// Requests that never completed.
    #[error("{count} requests never completed: {}", list(lines, *count))]
    Missing {
        /// How many.
        count: u64,
        /// The lines of the first of them.
        lines: Vec<u64>,
    },
    /// A completion of nothing that is in flight: a second one of the same request, or of none.
    #[error("the device completed a request that was not in flight, at {at}")]
    NotInFlight {
        /// When.
        at: TraceTime,
    },
    /// Time went back.
    #[error("line {line}: the device completed the request at {at}, after it had come to {now}")]
    Backwards {
        /// Of the trace.
        line: u64,
        /// When it completed.
        at: TraceTime,
        /// What had already been.
        now: TraceTime,
    },
    /// A scaled time stamp that is too large.
    #[error("line {line}: the scaled time is out of range: more than 213 days after the beginning")]
    TimeRange {
        /// Of the trace.
        line: u64,
    },
    /// The figures contradict one another.
    #[error(
        "Little's law does not hold: {in_flight} in flight on average, but rate times latency is {expected}"
    )]
    Little {
        /// Integrated over time.
        in_flight: f64,
        /// Requests a second times mean seconds at the device.
        expected: f64,
    },
    /// A resource that did more than it can.
    #[error("{resource} was busy for {utilisation} of the time")]
    Overused {
        /// Which.
        resource: String,
        /// Above 1.
        utilisation: f64,
    },
}

fn list(lines: &[u64], count: u64) -> String {
    let shown: Vec<String> = lines.iter().map(u64::to_string).collect();
    let more = count - lines.len() as u64;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("of lines {}{more}", shown.join(", "))
}

/// How often a replay looks whether it is to stop, in requests.
const STOP_INTERVAL: u64 = 4096;

/// Replays requests on a target. `stop` is asked every few thousand requests.
pub fn replay<T: Target>(
    requests: impl IntoIterator<Item = Result<Request, TraceError>>,
    pace: Pace,
    target: &mut T,
    stop: &dyn Fn() -> bool,
) -> Result<Report, ReplayError> {
    let (Pace::Open { depth, .. } | Pace::Closed { depth }) = pace;
    let mut run = Run { target, flight: Flight::default(), ledger: Ledger::default() };
    for (count, request) in (0u64..).zip(requests) {
        if count % STOP_INTERVAL == 0 && stop() {
            return Err(ReplayError::Stopped);
        }
        let request = request?;
        let arrival = match pace {
            Pace::Open { scale, .. } => {
                let at = scale.apply(request.at).ok_or(ReplayError::TimeRange { line: request.line })?;
                // What ends by then ends before it is submitted.
                while run.end_one(Some(at))? {}
                Some(at)
            }
            Pace::Closed { .. } => None,
        };
        while run.flight.count() >= depth.get() {
            run.end_one(None)?;
        }
        run.submit(arrival, &request)?;
    }
    while run.flight.count() > 0 {
        run.end_one(None)?;
    }
    run.ledger.finish(run.target.busy())
}

/// A replay under way.
struct Run<'a, T> {
    target: &'a mut T,
    flight: Flight,
    ledger: Ledger,
}

impl<T: Target> Run<'_, T> {
    /// Submits a request at its arrival, or now if that is later.
    fn submit(&mut self, arrival: Option<TraceTime>, request: &Request) -> Result<(), ReplayError> {
        let now = self.ledger.now();
        let at = arrival.map_or(now, |arrival| arrival.max(now));
        let tag = self.flight.add(request, arrival.unwrap_or(at), at);
        self.ledger.submitted(at);
        self.target
            .submit(at, tag, request)
            .map_err(|e| ReplayError::Refused { line: request.line, source: Box::new(e) })
    }

    /// Takes the next completion, by `until` if that is given; false if there is none by then.
    fn end_one(&mut self, until: Option<TraceTime>) -> Result<bool, ReplayError> {
        let next = self.target.complete(until).map_err(|e| ReplayError::Device(Box::new(e)))?;
        let Some(Completion { tag, at, outcome }) = next else {
            return match until {
                Some(_) => Ok(false),
                None => Err(self.flight.missing()),
            };
        };
        let ended = self.flight.end(tag).ok_or(ReplayError::NotInFlight { at })?;
        let (line, now) = (ended.line, self.ledger.now());
        if at < now || until.is_some_and(|until| at > until) {
            return Err(ReplayError::Backwards { line, at, now: until.unwrap_or(now).max(now) });
        }
        outcome.map_err(|e| ReplayError::Failed { line, source: Box::new(e) })?;
        self.ledger.ended(&ended, at);
        Ok(true)
    }
}
