//! What a replay measured.

use serde::Serialize;

/// What a replay measured. The same requests on the same target give the same, to the last digit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// From the first submission to the last completion.
    pub span_ps: u64,
    /// At the device, integrated over the span; none if no time passed.
    pub mean_in_flight: Option<f64>,
    /// From submission to completion, on average.
    pub at_device_ps_mean: f64,
    /// From time stamp to submission, on average: 0 in a closed loop.
    pub at_host_ps_mean: f64,
    /// Of all requests.
    pub all: Figures,
    /// Of the reads among them.
    pub reads: Figures,
    /// Of the writes.
    pub writes: Figures,
    /// Of the trims.
    pub trims: Figures,
    /// Of the flushes.
    pub flushes: Figures,
    /// Of the device, in its order.
    pub resources: Vec<Use>,
}

/// Both sides of Little's law, which a replay fails without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LittlesLaw {
    /// The number in flight, integrated over time, divided by the time.
    pub in_flight: f64,
    /// Requests a second times mean seconds at the device.
    pub iops_times_latency: f64,
}

impl Report {
    /// Both sides of Little's law; none if no time passed.
    pub fn littles_law(&self) -> Option<LittlesLaw> {
        let iops_times_latency = self.all.iops? * self.at_device_ps_mean / 1e12;
        Some(LittlesLaw { in_flight: self.mean_in_flight?, iops_times_latency })
    }

    /// The figures of each kind of request, and of all, by name.
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

/// Of requests of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// How many completed.
    pub requests: u64,
    /// How many bytes they were of.
    pub bytes: u128,
    /// Requests a second of the span; none if no time passed.
    pub iops: Option<f64>,
    /// Bytes a second of the span; none if no time passed.
    pub bytes_a_second: Option<f64>,
    /// How long they took; none if there were none.
    pub latency: Option<Latency>,
}

/// How long requests took, from time stamp (open loop) or submission (closed loop) to completion. Mean, least and most
/// are exact; a percentile is at most a thousandth above the true one.
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

/// How much of its time a resource was in use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Use {
    /// Such as `bus 3`.
    pub resource: String,
    /// From 0 to 1.
    pub utilisation: f64,
}
