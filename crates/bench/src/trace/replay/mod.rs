//! Replays requests on a device with virtual time, and accounts for every one of them.
//!
//! ```text
//!   requests ─► pace ─► in flight, at most the depth ─► Target ─► completions ─► ledger ─► Report
//!                │ open loop: each at its time stamp, scaled; it waits at the host while the queue is full
//!                └ closed loop: the next one when one of those in flight ends
//! ```
//!
//! The replay fails unless all of these hold: each request completes exactly once and not before its submission; time
//! never goes back; Little's law holds, with the integrated number in flight on one side and the reported rate and
//! latency on the other; no resource is busy for more than the whole time. The replay uses no clock and no
//! randomness, so the same requests on the same target give the same report.

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
    /// Each request at its time stamp times `scale`. If `depth` requests are in flight, it waits until one ends; its
    /// latency still counts from the time stamp.
    Open {
        /// The factor of the time stamps. 1/2 replays a trace in half the time.
        scale: Scale,
        /// The most requests in flight.
        depth: NonZeroU32,
    },
    /// Each request as soon as fewer than `depth` are in flight. Time stamps are ignored.
    Closed {
        /// The number of requests to keep in flight.
        depth: NonZeroU32,
    },
}

/// A factor of time. It is a fraction, so that scaled time stamps are the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    times: u64,
    by: u64,
}

impl Scale {
    /// The recorded speed.
    pub const ONE: Self = Self { times: 1, by: 1 };

    /// The factor `times / by`, or `None` if `by` is 0. With `times` 0, all requests arrive at the beginning.
    pub fn new(times: u64, by: u64) -> Option<Self> {
        (by > 0).then_some(Self { times, by })
    }

    /// Parses a factor such as `2` or `0.25`. `None` if it is not a number, or has more than nine decimal places.
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

    /// The factor as a number, for reports.
    pub fn factor(self) -> f64 {
        self.times as f64 / self.by as f64
    }

    /// Scales a time stamp and rounds it down. `None` if the result is out of range.
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
    /// The trace is wrong.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The device refused a request.
    #[error("line {line}: the device refused the request: {source}")]
    Refused {
        /// The line of the trace.
        line: u64,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The device failed a request.
    #[error("line {line}: the request failed: {source}")]
    Failed {
        /// The line of the trace.
        line: u64,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The device failed as a whole.
    #[error("the device failed: {0}")]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// Some requests never completed.
    #[error("{count} requests never completed: {}", list(lines, *count))]
    Missing {
        /// Their number.
        count: u64,
        /// The lines of the first of them.
        lines: Vec<u64>,
    },
    /// A completion belongs to no request in flight. It is a second completion of a request, or its request was never
    /// submitted.
    #[error("the device completed a request that was not in flight, at {at}")]
    NotInFlight {
        /// When.
        at: TraceTime,
    },
    /// Time went back.
    #[error("line {line}: the device completed the request at {at}, although the time had reached {now}")]
    Backwards {
        /// The line of the trace.
        line: u64,
        /// When it completed.
        at: TraceTime,
        /// The time that had been reached.
        now: TraceTime,
    },
    /// A scaled time stamp is too large.
    #[error("line {line}: the scaled time is out of range: more than 213 days after the beginning")]
    TimeRange {
        /// The line of the trace.
        line: u64,
    },
    /// The figures contradict each other.
    #[error(
        "Little's law does not hold: {in_flight} in flight on average, but rate times latency is {expected}"
    )]
    Little {
        /// The number in flight, integrated over time.
        in_flight: f64,
        /// Requests per second times mean seconds at the device.
        expected: f64,
    },
    /// A resource was used for more than the whole time.
    #[error("{resource} was busy for {utilisation} times the whole time")]
    Overused {
        /// The resource.
        resource: String,
        /// Its utilisation, above 1.
        utilisation: f64,
    },
}

fn list(lines: &[u64], count: u64) -> String {
    let shown: Vec<String> = lines.iter().map(u64::to_string).collect();
    let more = count - lines.len() as u64;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("of lines {}{more}", shown.join(", "))
}

/// After how many requests the replay calls `stop`.
const STOP_INTERVAL: u64 = 4096;

/// Replays requests on a target. It calls `stop` every few thousand requests.
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
                // Requests that end by then are completed before this one is submitted.
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

    /// Takes the next completion, up to `until` if that is given. Returns false if there is none.
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
