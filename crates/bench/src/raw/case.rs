//! A case, who takes part in it, and what it came to.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::drive_host::DriveError;

/// What a case came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The case.
    pub case: &'static str,
    /// Threads on each side.
    pub threads: u32,
    /// Commands that each thread has under way.
    pub depth: u32,
    /// What is counted a second: `MB` or `ops`.
    pub unit: &'static str,
    /// Plain I/O.
    pub plain: Measure,
    /// Lode, or why it could not.
    pub lode: Result<Measure, String>,
    /// Lode's rate for each of plain's: the median of the rounds.
    pub ratio: Option<f64>,
}

/// One side of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The median of the rounds, a second.
    pub rate: f64,
    /// Half of the operations took at most this long, in milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 took at most this long.
    pub p99_ms: f64,
    /// Bytes that the disk was given for each that the host wrote, if the disk can be told. Whatever else writes
    /// to it at that time is in it.
    pub write_amplification: Option<f64>,
}

/// Rounds of each case that count: an odd number, for the median; many and short, so that whatever else the machine
/// does meets both sides.
pub(super) const ROUNDS: u32 = 11;

/// What a contestant is made of: a directory, threads, depth.
pub(super) type Make = fn(&Path, u32, u32) -> Result<Box<dyn Contestant>, DriveError>;

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) threads: u32,
    pub(super) depth: u32,
    pub(super) unit: &'static str,
    pub(super) plain: Make,
    pub(super) lode: Make,
}

/// Something that can be run for a while.
pub(super) trait Contestant {
    /// Runs until `end`; adds what it did to `done`.
    fn slice(&mut self, end: Instant, done: &mut Done) -> Result<(), DriveError>;
}

/// What was done in a slice, or in all.
#[derive(Default)]
pub(super) struct Done {
    /// Operations.
    pub(super) ops: u64,
    /// Bytes of the host: those of its data, not of anything around it.
    pub(super) bytes: u64,
    /// How long each operation, or group of them, took.
    pub(super) latencies: Vec<Duration>,
}

impl Done {
    /// Adds what another thread did meanwhile.
    pub(super) fn add(&mut self, other: Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.latencies.extend(other.latencies);
    }
}
