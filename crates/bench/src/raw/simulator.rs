//! Measures the speed of simulation: requests of 4 KB on a modelled drive, in wall time, on one thread.
//!
//! ```text
//!   drive of 8 channels x 4 ways, metadata only ─► filled, overwritten at random ─► requests, 64 at a time
//!                                                                                    └─► requests a second, memory
//! ```
//!
//! | case | drive | requests |
//! |---|---|---|
//! | fill | a large one, empty | each block once, in order, to measure the memory |
//! | reads | half full | at random, of blocks that were written |
//! | reads and writes | half full, with room: no GC | half of each, at random |
//! | overwrites under GC | full, overwritten at random until GC is steady | at random |
//!
//! The simulation runs the real firmware, as the replay of a trace does. A full drive has 20 % over-provisioning: 1.2
//! bytes of the device per mapped byte.

use std::fs;
use std::num::NonZeroU32;
use std::time::Instant;

use lode_base::{Geometry, Profile};
use lode_firmware::DriveOptions;

use crate::drive_host::DriveError;
use crate::trace::TraceTime;
use crate::trace::modelled::{BLOCK_BYTES, Keeps, ModelledDrive};
use crate::trace::replay::{Pace, ReplayError, replay};
use crate::trace::synthetic::{Pattern, Shape, Synthetic};

/// The number of requests under way.
pub const DEPTH: u32 = 64;
/// The size of an erase unit.
const EBLOCK_BYTES: u32 = 8 << 20;
/// The memory for mapping pages. It holds the mapping of all requested blocks, at most 16 GB.
const MAP_CACHE_BYTES: usize = 32 << 20;
/// The bytes of the device per hundred mapped bytes on a full drive.
const OVER_PROVISIONED_PERCENT: u64 = 120;
/// The seeds of the preconditioning and of the requests.
const SEEDS: (u64, u64) = (7, 11);

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The capacity of the device for the cases with requests.
    pub device_bytes: u64,
    /// The number of requests in a case.
    pub requests: u64,
    /// The capacity of the device that is filled to measure its memory.
    pub filled_bytes: u64,
}

impl Size {
    /// For measurements: a minute or two.
    pub const FULL: Self = Self { device_bytes: 8 << 30, requests: 4_000_000, filled_bytes: 64 << 30 };
    /// For a quick check that it runs: seconds.
    pub const QUICK: Self = Self { device_bytes: 1 << 30, requests: 50_000, filled_bytes: 2 << 30 };
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatorRow {
    /// The case.
    pub case: &'static str,
    /// The capacity of the device.
    pub device_bytes: u64,
    /// The number of simulated requests.
    pub requests: u64,
    /// Requests per second of wall time.
    pub rate: f64,
    /// Requests per second of the thread's CPU time. On an idle machine this equals `rate`. `None` if the system does
    /// not tell.
    pub core_rate: Option<f64>,
    /// Requests per second of modelled time.
    pub modelled_rate: f64,
    /// Bytes programmed per byte written.
    pub write_amplification: Option<f64>,
    /// The number of mapped blocks.
    pub mapped: u64,
    /// The peak memory of the process while the drive was open, in bytes.
    pub peak_bytes: Option<u64>,
    /// The drive's part of the peak memory, per mapped block. Only the case with the large drive has it.
    pub bytes_a_block: Option<f64>,
}

/// How much of the drive is filled before the requests.
#[derive(Clone, Copy, Debug)]
enum Filled {
    Nothing,
    Half,
    /// Filled up to 20 % over-provisioning, and overwritten at random this many times.
    Full(f64),
}

#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    filled: Filled,
    pattern: Pattern,
    read_percent: u8,
}

const CASES: [Case; 4] = [
    // This case comes first, so that no other case has left memory behind.
    Case { name: "fill", filled: Filled::Nothing, pattern: Pattern::Sequential, read_percent: 0 },
    Case { name: "reads", filled: Filled::Half, pattern: Pattern::Uniform, read_percent: 100 },
    Case { name: "reads and writes", filled: Filled::Half, pattern: Pattern::Uniform, read_percent: 50 },
    Case {
        name: "overwrites under GC",
        filled: Filled::Full(1.5),
        pattern: Pattern::Uniform,
        read_percent: 0,
    },
];

/// The device of the ISP paper, with pages of 4 KB on 8 channels of 4 ways.
fn profile(device_bytes: u64) -> Result<Profile, DriveError> {
    let mut p = Profile::find("isp-adms11").expect("it is built in");
    let eblocks = (device_bytes / u64::from(EBLOCK_BYTES)) as u32;
    p.geometry = Geometry::new(8, 4, 1, 4096, 4096, EBLOCK_BYTES, eblocks)?;
    Ok(p)
}

/// Runs all cases and passes each row to `each`, until `stop` returns true.
///
/// # Errors
/// If the drive or `each` fails; [`DriveError::Stopped`].
pub fn run(
    size: Size,
    stop: &dyn Fn() -> bool,
    mut each: impl FnMut(&SimulatorRow) -> Result<(), DriveError>,
) -> Result<(), DriveError> {
    CASES.iter().try_for_each(|case| each(&run_case(case, size, stop)?))
}

fn run_case(case: &Case, size: Size, stop: &dyn Fn() -> bool) -> Result<SimulatorRow, DriveError> {
    let fills = matches!(case.filled, Filled::Nothing);
    let device_bytes = if fills { size.filled_bytes } else { size.device_bytes };
    let before = memory("VmRSS:");
    // Resets the peak, which may come from before this drive. If the system does not allow that, the earlier peak
    // counts.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let options = DriveOptions { map_cache_bytes: MAP_CACHE_BYTES, ..DriveOptions::default() };
    let mut drive = ModelledDrive::new(profile(device_bytes)?, Keeps::MetadataOnly, options, DEPTH)?;
    let offered = drive.capacity_bytes() / BLOCK_BYTES;
    let full = (device_bytes * 100 / OVER_PROVISIONED_PERCENT / BLOCK_BYTES).min(offered);
    let (region, overwrites) = match case.filled {
        Filled::Half => (offered / 2, 0.0),
        Filled::Full(overwrites) => (full, overwrites),
        Filled::Nothing => (full, 0.0),
    };
    if !fills {
        drive.precondition_blocks(region, overwrites, SEEDS.0, &|_, _| false)?;
    }
    let shape = Shape {
        pattern: case.pattern,
        read_percent: case.read_percent,
        block_bytes: BLOCK_BYTES,
        region_bytes: region * BLOCK_BYTES,
        requests: if fills { region } else { size.requests },
        interval: TraceTime::ZERO,
    };
    let requests = Synthetic::new(shape, SEEDS.1).expect("there is such a workload").map(Ok);
    let pace = Pace::Closed { depth: NonZeroU32::new(DEPTH).expect("it is not 0") };
    let (start, on_core) = (Instant::now(), core_ns());
    let report = replay(requests, pace, &mut drive, stop).map_err(|e| match e {
        ReplayError::Stopped => DriveError::Stopped,
        e => DriveError::Command(lode_command::CommandError::Medium(e.to_string())),
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let core_seconds = on_core.and_then(|before| Some((core_ns()? - before) as f64 / 1e9));
    let peak_bytes = memory("VmHWM:");
    let requests = report.all.requests;
    Ok(SimulatorRow {
        case: case.name,
        device_bytes,
        requests,
        rate: requests as f64 / seconds,
        core_rate: core_seconds.map(|s| requests as f64 / s),
        modelled_rate: report.all.iops.unwrap_or_default(),
        write_amplification: drive.report().write_amplification,
        mapped: region,
        peak_bytes,
        bytes_a_block: peak_bytes
            .zip(before)
            .filter(|_| fills)
            .map(|(peak, before)| peak.saturating_sub(before) as f64 / region as f64),
    })
}

/// A line of the process's memory status in bytes, if the system has one.
fn memory(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kb = status.lines().find_map(|l| l.strip_prefix(name))?.trim().strip_suffix(" kB")?;
    Some(kb.parse::<u64>().ok()? << 10)
}

/// The CPU time of this thread in nanoseconds, if the system tells.
fn core_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_comes_to_something_and_the_device_does_the_same_twice() {
        let size = Size { device_bytes: 1 << 30, requests: 3000, filled_bytes: 1 << 30 };
        let rows = || {
            let mut rows = Vec::new();
            run(size, &|| false, |r| {
                rows.push(r.clone());
                Ok(())
            })
            .unwrap();
            rows
        };
        let modelled = |rows: &[SimulatorRow]| -> Vec<_> {
            rows.iter().map(|r| (r.case, r.requests, r.modelled_rate, r.write_amplification)).collect()
        };
        let first = rows();
        assert_eq!(modelled(&first), modelled(&rows()));
        assert_eq!(first.iter().map(|r| r.case).collect::<Vec<_>>(), CASES.map(|c| c.name));
        assert!(first.iter().all(|r| r.rate > 0.0 && r.modelled_rate > 0.0 && r.mapped > 0), "{first:?}");
        assert!(first[3].write_amplification > first[0].write_amplification, "GC moves pages");
        assert_eq!(first[0].requests, first[0].mapped);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let stopped = run(Size::QUICK, &|| true, |_| Ok(()));
        assert!(matches!(stopped, Err(DriveError::Stopped)), "{stopped:?}");
    }
}
