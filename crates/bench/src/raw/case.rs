//! A case, its contestants and its result.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::drive_host::DriveError;

/// The result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The case.
    pub case: &'static str,
    /// The number of threads on each side.
    pub threads: u32,
    /// The number of commands that each thread has under way.
    pub depth: u32,
    /// What is counted per second: `MB` or `ops`.
    pub unit: &'static str,
    /// The result of plain I/O.
    pub plain: Measure,
    /// The result of Lode, or why it has none.
    pub lode: Result<Measure, String>,
    /// Lode's rate divided by plain I/O's: the median of the rounds.
    pub ratio: Option<f64>,
}

/// One side of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The median rate of the rounds, per second.
    pub rate: f64,
    /// The median latency, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of the latency, in milliseconds.
    pub p99_ms: f64,
    /// Bytes written to the disk per byte that the host wrote, if the disk's counter is known. Writes of other
    /// processes at that time are included.
    pub write_amplification: Option<f64>,
}

/// The number of measured rounds of each case. It is odd, for the median. Rounds are many and short, so that other
/// load of the machine affects both sides.
pub(super) const ROUNDS: u32 = 11;

/// Makes a contestant from a directory, a number of threads and a depth.
pub(super) type Make = fn(&Path, u32, u32) -> Result<Box<dyn Contestant>, DriveError>;

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) threads: u32,
    pub(super) depth: u32,
    pub(super) unit: &'static str,
    pub(super) plain: Make,
    pub(super) lode: Make,
}

/// A side of a race.
pub(super) trait Contestant {
    /// Runs until `end` and adds its operations to `done`.
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError>;
}

/// The operations done in a slice or in total.
#[derive(Default)]
pub(super) struct Done {
    /// The number of operations.
    pub(super) ops: u64,
    /// The bytes of the host's data, without any framing.
    pub(super) bytes: u64,
    /// The latency of each operation or group of operations.
    pub(super) latencies: Vec<Duration>,
}

impl Done {
    /// Adds the operations of another thread.
    pub(super) fn add(&mut self, other: Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.latencies.extend(other.latencies);
    }
}
