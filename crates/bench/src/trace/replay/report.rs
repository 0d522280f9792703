//! The measurements of a replay.

use serde::Serialize;

/// The measurements of a replay. The same requests on the same target give the same report, to the last digit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The time from the first submission to the last completion.
    pub span_ps: u64,
    /// The mean number in flight at the device over the span. `None` if no time passed.
    pub mean_in_flight: Option<f64>,
    /// The mean time from submission to completion.
    pub at_device_ps_mean: f64,
    /// The mean time from the time stamp to submission. It is 0 in a closed loop.
    pub at_host_ps_mean: f64,
    /// The figures of all requests.
    pub all: Figures,
    /// The figures of reads.
    pub reads: Figures,
    /// The figures of writes.
    pub writes: Figures,
    /// The figures of trims.
    pub trims: Figures,
    /// The figures of flushes.
    pub flushes: Figures,
    /// The utilisation of the device's resources, in its order.
    pub resources: Vec<Use>,
}

/// Both sides of Little's law. A replay fails if they differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LittlesLaw {
    /// The number in flight, integrated over time and divided by the time.
    pub in_flight: f64,
    /// Requests a second times mean seconds at the device.
    pub iops_times_latency: f64,
}

impl Report {
    /// Both sides of Little's law, or `None` if no time passed.
    pub fn littles_law(&self) -> Option<LittlesLaw> {
        let iops_times_latency = self.all.iops? * self.at_device_ps_mean / 1e12;
        Some(LittlesLaw { in_flight: self.mean_in_flight?, iops_times_latency })
    }

    /// The figures of each operation and of all requests, by name.
    pub fn kinds(&self) -> [(&'static str, &Figures); 5] {
        [
            ("reads", &self.reads),
            ("writes", &self.writes),
            ("trims", &self.trims),
            ("flushes", &self.flushes),
            ("all", &self.all),
        ]
    }
}

/// The figures of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The number of completed requests.
    pub requests: u64,
    /// The bytes of these requests.
    pub bytes: u128,
    /// Requests per second of the span, or `None` if no time passed.
    pub iops: Option<f64>,
    /// Bytes per second of the span, or `None` if no time passed.
    pub bytes_a_second: Option<f64>,
    /// Their latency, or `None` if there were none.
    pub latency: Option<Latency>,
}

/// The latency from the time stamp (open loop) or submission (closed loop) to completion. Mean, minimum and maximum
/// are exact. A percentile is at most 0.1 % above the true one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub mean_ps: f64,
    pub min_ps: u64,
    pub p50_ps: u64,
    pub p95_ps: u64,
    pub p99_ps: u64,
    pub p99_9_ps: u64,
    pub p99_99_ps: u64,
    pub max_ps: u64,
}

/// The utilisation of a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Use {
    /// Its name, such as `bus 3`.
    pub resource: String,
    /// The share of time in use, from 0 to 1.
    pub utilisation: f64,
}
