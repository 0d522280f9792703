//! A complete replay: it makes a new drive with a profile, preconditions it, and runs the requests of a trace or of a
//! generated workload.
//!
//! ```text
//!   Profile, capacity ─► ModelledDrive ─► fill, overwrite ─► replay ◄─ Trace | Synthetic
//!                                                               └─► Outcome: what was asked, measured, done by the device
//! ```
//!
//! The same plan and the same requests give the same outcome to the last digit, on any machine and in any build. A
//! test compares one outcome with a file.

use std::cell::Cell;
use std::io::BufRead;
use std::num::NonZeroU32;

use lode_base::{Geometry, Profile};
use lode_firmware::DriveOptions;
use serde::Serialize;

use crate::BenchError;
use crate::drive_host::DriveError;
use crate::trace::modelled::{DeviceReport, Keeps, ModelledDrive};
use crate::trace::replay::{LittlesLaw, Pace, ReplayError, Report, Scale, replay};
use crate::trace::synthetic::{Pattern, Shape, Synthetic};
use crate::trace::{Options, Request, TRANSFER_BYTES_MAX, Trace, TraceError, TraceTime};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The device.
    pub profile: Profile,
    /// The bytes of its flash, rounded up so that all planes have the same number of erase units. `None` for the
    /// profile's capacity.
    pub capacity_bytes: Option<u64>,
    /// Options of the firmware, such as the GC policy and the over-provisioning.
    pub options: DriveOptions,
    /// The share of its blocks to fill before the requests, from 0 to 100.
    pub fill_percent: u32,
    /// How many times that part is then overwritten, at random.
    pub overwrites: f64,
    /// The seed of the overwrites and of a generated workload.
    pub seed: u64,
    /// When requests are submitted.
    pub when: When,
    /// The number of requests to stop after.
    pub limit: Option<u64>,
}

/// When requests are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At their time stamps. A trace without time stamps runs in a closed loop as deep as the profile's queue.
    AsTraced,
    /// At their scaled time stamps.
    Stamps(Scale),
    /// In a closed loop of this depth.
    Closed(NonZeroU32),
}

/// Where requests come from.
pub enum Source<R> {
    /// A trace. The capacity in its options is replaced by the drive's.
    Trace(R, Options),
    /// A generated workload.
    Workload(Workload),
}

/// A workload generated from a seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// The order of the blocks. Requests go to the filled part of the drive, or to the whole drive if nothing is
    /// filled.
    pub pattern: Pattern,
    /// The percentage of reads.
    pub read_percent: u8,
    /// The bytes of each request.
    pub block_bytes: u64,
    /// The number of requests.
    pub requests: u64,
    /// The time between two requests, or 0 for a closed loop.
    pub interval: TraceTime,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The preconditioned blocks, and how many there are in total.
    Precondition(u64, u64),
    /// The requests done, and how many there are in total, if known.
    Replay(u64, Option<u64>),
}

/// The plan of a run and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Always `replay`.
    pub workload: &'static str,
    /// The profile's name.
    pub profile: String,
    /// The format of the trace, if one was read.
    pub format: Option<&'static str>,
    /// The workload, if it was generated.
    pub synthetic: Option<GeneratedWorkload>,
    /// The seed of the random choices.
    pub seed: u64,
    /// The share of the blocks that was filled, in percent.
    pub fill_percent: u32,
    /// How many times that part was overwritten.
    pub overwrites: f64,
    /// The policy of GC.
    pub gc_policy: &'static str,
    /// The share of the erase units that is never filled, in percent.
    pub over_provision_percent: u32,
    /// `open` or `closed`.
    pub pace: &'static str,
    /// The factor of the time stamps, in an open loop.
    pub scale: Option<f64>,
    /// The most requests in flight.
    pub depth: u32,
    /// The limit of requests, if there was one.
    pub limit: Option<u64>,
    /// Whether requests past the end were folded back into the drive.
    pub wrap: bool,
    /// What was measured.
    #[serde(flatten)]
    pub report: Report,
    /// Both sides of Little's law, or `None` if no time passed.
    pub littles_law: Option<LittlesLaw>,
    /// What the device did.
    pub device: DeviceReport,
}

/// A generated workload, as the result names it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "as in `Shape`")]
pub struct GeneratedWorkload {
    pub pattern: &'static str,
    pub theta: Option<f64>,
    pub read_percent: u8,
    pub block_bytes: u64,
    pub region_bytes: u64,
    pub requests: u64,
    pub interval_ps: u64,
}

/// Runs a plan. `stop` gets the progress and returns whether to stop.
///
/// # Errors
/// If the profile and the capacity make no valid drive, the trace is wrong, the drive fails, or the figures
/// contradict each other.
pub fn run<R: BufRead>(
    plan: &Plan,
    source: Source<R>,
    stop: &dyn Fn(Progress) -> bool,
) -> Result<Outcome, BenchError> {
    let profile = match plan.capacity_bytes {
        Some(bytes) => resized(&plan.profile, bytes)?,
        None => plan.profile.clone(),
    };
    let queue_depth = NonZeroU32::new(profile.link.queue_depth).expect("a profile's queue takes a command");
    // The trace is opened before the drive is made, because its first line tells whether it has time stamps, and that
    // decides the depth of the drive's queue. The capacity for the check of requests is known only after the drive is
    // made.
    let depth = if let When::Closed(depth) = plan.when { depth } else { queue_depth };
    let options = &plan.options;
    let options = DriveOptions {
        queue_depth_max: options.queue_depth_max.max(depth.get()),
        // A request is one batch, and a trim may cover all blocks.
        batch_pages_max: u32::MAX,
        batch_bytes_max: options.batch_bytes_max.max(2 * TRANSFER_BYTES_MAX),
        ..options.clone()
    };
    let mut drive = ModelledDrive::new(profile, Keeps::MetadataOnly, options, depth.get())?;
    let mut requests = open(plan, source, &drive)?;
    let pace = match plan.when {
        When::AsTraced if requests.stamped => Pace::Open { scale: Scale::ONE, depth },
        When::Stamps(scale) => Pace::Open { scale, depth },
        When::AsTraced | When::Closed(_) => Pace::Closed { depth },
    };
    let precondition = |done, of| stop(Progress::Precondition(done, of));
    drive.precondition(plan.fill_percent, plan.overwrites, plan.seed, &precondition)?;

    let count = Cell::new(0u64);
    let expected = requests.expected;
    let counted = requests.iter.by_ref().inspect(|_| count.set(count.get() + 1));
    let limit = usize::try_from(plan.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let report =
        replay(counted.take(limit), pace, &mut drive, &|| stop(Progress::Replay(count.get(), expected)))?;
    let (pace, scale) = match pace {
        Pace::Open { scale, .. } => ("open", Some(scale.factor())),
        Pace::Closed { .. } => ("closed", None),
    };
    Ok(Outcome {
        workload: "replay",
        profile: plan.profile.name.clone(),
        format: requests.format,
        synthetic: requests.made,
        seed: plan.seed,
        fill_percent: plan.fill_percent,
        overwrites: plan.overwrites,
        gc_policy: plan.options.gc_policy.name(),
        over_provision_percent: plan.options.over_provision_percent,
        pace,
        scale,
        depth: depth.get(),
        limit: plan.limit,
        wrap: requests.wrap,
        littles_law: report.littles_law(),
        report,
        device: drive.report(),
    })
}

/// The same device with another number of erase units. Every plane has the same number.
///
/// # Errors
/// If a drive cannot have so many.
pub fn resized(profile: &Profile, bytes: u64) -> Result<Profile, DriveError> {
    let g = &profile.geometry;
    let places = g.channels() * if profile.striped { 1 } else { g.ways() * g.planes() };
    let each = bytes.div_ceil(u64::from(g.eblock_bytes()) * u64::from(places));
    let count = (each * u64::from(places)).min(u64::from(Geometry::EBLOCKS_MAX) + 1) as u32;
    let geometry = Geometry::new(
        g.channels(),
        g.ways(),
        g.planes(),
        g.rblock_bytes(),
        g.wblock_bytes(),
        g.eblock_bytes(),
        count,
    )?;
    Ok(Profile { geometry, ..profile.clone() })
}

/// The requests to replay.
struct Requests<'a> {
    iter: Box<dyn Iterator<Item = Result<Request, TraceError>> + 'a>,
    stamped: bool,
    expected: Option<u64>,
    format: Option<&'static str>,
    made: Option<GeneratedWorkload>,
    wrap: bool,
}

fn open<'a, R: BufRead + 'a>(
    plan: &Plan,
    source: Source<R>,
    drive: &ModelledDrive,
) -> Result<Requests<'a>, BenchError> {
    match source {
        Source::Trace(reader, options) => {
            let wrap = options.wrap;
            let options = Options { capacity: Some(drive.capacity_bytes()), ..options };
            let trace = Trace::open(reader, &options).map_err(ReplayError::from)?;
            let (stamped, format) = (trace.is_stamped(), Some(trace.format().name));
            Ok(Requests { iter: Box::new(trace), stamped, expected: plan.limit, format, made: None, wrap })
        }
        Source::Workload(w) => {
            let region_bytes = match plan.fill_percent {
                0 => drive.capacity_bytes(),
                percent => drive.filled_bytes(percent),
            };
            let Workload { pattern, read_percent, block_bytes, requests, interval } = w;
            let shape = Shape { pattern, read_percent, block_bytes, region_bytes, requests, interval };
            let made = Synthetic::new(shape, plan.seed).map_err(ReplayError::from)?;
            Ok(Requests {
                iter: Box::new(made.map(Ok)),
                stamped: interval > TraceTime::ZERO,
                expected: Some(plan.limit.map_or(requests, |l| l.min(requests))),
                format: None,
                made: Some(GeneratedWorkload::of(&shape)),
                wrap: false,
            })
        }
    }
}

impl GeneratedWorkload {
    fn of(shape: &Shape) -> Self {
        let (pattern, theta) = match shape.pattern {
            Pattern::Sequential => ("sequential", None),
            Pattern::Uniform => ("uniform", None),
            Pattern::Zipf { theta } => ("zipf", Some(theta)),
        };
        Self {
            pattern,
            theta,
            read_percent: shape.read_percent,
            block_bytes: shape.block_bytes,
            region_bytes: shape.region_bytes,
            requests: shape.requests,
            interval_ps: shape.interval.as_ps(),
        }
    }
}

#[cfg(test)]
mod tests {
    use lode_firmware::GcPolicy;

    use super::*;

    fn plan() -> Plan {
        Plan {
            profile: Profile::find("isp-adms11").unwrap(),
            capacity_bytes: Some(1 << 30),
            options: DriveOptions::default(),
            fill_percent: 0,
            overwrites: 0.0,
            seed: 1,
            when: When::AsTraced,
            limit: None,
        }
    }

    const WORKLOAD: Workload = Workload {
        pattern: Pattern::Zipf { theta: 0.99 },
        read_percent: 60,
        block_bytes: 4096,
        requests: 3000,
        interval: TraceTime::ZERO,
    };

    fn traced(text: &str, plan: &Plan) -> Result<Outcome, BenchError> {
        run(plan, Source::Trace(text.as_bytes(), Options::default()), &|_| false)
    }

    fn made(plan: &Plan, workload: Workload) -> Result<Outcome, BenchError> {
        run::<&[u8]>(plan, Source::Workload(workload), &|_| false)
    }

    /// The profile and the seed decide every digit, on any machine, in debug and in release. The file holds the
    /// outcome of this run. A change of the firmware or the profile changes it; the test then shows the difference.
    /// `LODE_WRITE_EXPECTED=1` writes the file again.
    #[test]
    fn an_outcome_is_the_same_everywhere() {
        let plan = Plan {
            capacity_bytes: Some(256 << 20),
            profile: small_units(),
            fill_percent: 80,
            overwrites: 1.0,
            when: When::Closed(NonZeroU32::new(16).unwrap()),
            options: DriveOptions {
                gc_policy: GcPolicy::named("greedy").unwrap(),
                over_provision_percent: 12,
                ..DriveOptions::default()
            },
            ..plan()
        };
        let outcome = made(&plan, WORKLOAD).unwrap();
        assert!(outcome.device.gc_bytes_moved > 0, "GC is part of it");
        let got = serde_json::to_string_pretty(&outcome).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/replay.json");
        if std::env::var_os("LODE_WRITE_EXPECTED").is_some() {
            std::fs::write(path, &got).unwrap();
        }
        let expected = std::fs::read_to_string(path).unwrap();
        let pairs = got.lines().zip(expected.lines());
        let differ: Vec<_> = pairs.filter(|(got, expected)| got != expected).collect();
        assert!(differ.is_empty() && got.len() == expected.len(), "got and expected: {differ:#?}");
    }

    /// A profile with erase units of 1 MB, so that a small drive has many.
    fn small_units() -> Profile {
        let mut profile = Profile::find("isp-adms11").unwrap();
        profile.geometry = Geometry::new(8, 8, 1, 8192, 8192, 1 << 20, 256).unwrap();
        profile
    }

    #[test]
    fn a_trace_runs_at_its_stamps_and_one_without_in_a_closed_loop() {
        let own = "lode trace 1\n0 write 0 4096\n1000000000 read 0 4096\n2000000000 flush\n";
        let outcome = traced(own, &plan()).unwrap();
        assert_eq!((outcome.pace, outcome.scale, outcome.format), ("open", Some(1.0), Some("lode")));
        assert!(outcome.report.span_ps > 2_000_000_000);
        let half = Plan { when: When::Stamps(Scale::parse("0.5").unwrap()), ..plan() };
        let outcome = traced(own, &half).unwrap();
        assert!((1_000_000_000..1_500_000_000).contains(&outcome.report.span_ps));
        let two = "fio version 2 iolog\na add\na open\na write 0 4096\na wait 5000 0\na read 0 4096\n";
        let outcome = traced(two, &plan()).unwrap();
        assert_eq!((outcome.pace, outcome.scale, outcome.depth), ("closed", None, 32));
        assert!(outcome.report.span_ps < 5_000_000_000);
        let outcome = traced(two, &Plan { when: When::Stamps(Scale::ONE), ..plan() }).unwrap();
        assert!(outcome.pace == "open" && outcome.report.span_ps > 5_000_000_000);
        let outcome =
            made(&plan(), Workload { interval: TraceTime::from_ps(1_000_000), ..WORKLOAD }).unwrap();
        assert_eq!(outcome.pace, "open");
    }

    #[test]
    fn as_many_requests_as_asked_for() {
        let own = "lode trace 1\n0 write 0 4096\n0 write 0 4096\n0 nonsense\n";
        assert_eq!(
            traced(own, &Plan { limit: Some(2), ..plan() }).unwrap().report.all.requests,
            2,
            "what comes after is not read"
        );
        assert_eq!(traced(own, &plan()).unwrap_err().to_string(), "line 4: unknown request 'nonsense'");
        let outcome = made(&Plan { limit: Some(10), ..plan() }, WORKLOAD).unwrap();
        assert_eq!((outcome.report.all.requests, outcome.device.unwritten_blocks_read > 0), (10, true));
    }

    #[test]
    fn a_drive_is_as_large_as_asked_for_and_requests_stay_in_what_is_filled() {
        let outcome = made(&Plan { fill_percent: 50, ..plan() }, WORKLOAD).unwrap();
        let region = outcome.synthetic.as_ref().unwrap().region_bytes;
        assert_eq!(outcome.device.unwritten_blocks_read, 0);
        let capacity = outcome.device.capacity_bytes;
        assert!(capacity < 1 << 30 && capacity > 256 << 20, "{capacity}");
        assert!(region.abs_diff(capacity / 2) <= 4096, "{region} of {capacity}");
        let larger = resized(&plan().profile, (1 << 30) + 1).unwrap().geometry.eblock_count();
        assert_eq!(larger, 128 + 8, "8 MB on each of 8 channels");
        let error = made(&Plan { capacity_bytes: Some(1 << 60), ..plan() }, WORKLOAD).unwrap_err();
        assert!(error.to_string().contains("eblock_count"), "{error}");
    }

    #[test]
    fn a_run_stops_when_asked_to_in_each_of_its_parts() {
        let plan = Plan { fill_percent: 10, ..plan() };
        let stop_in = |replaying: bool| {
            let stop = |p: Progress| matches!(p, Progress::Replay(..)) == replaying;
            run::<&[u8]>(&plan, Source::Workload(WORKLOAD), &stop).unwrap_err()
        };
        assert!(matches!(stop_in(false), BenchError::Interrupted));
        assert!(matches!(stop_in(true), BenchError::Interrupted));
    }
}
