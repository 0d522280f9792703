//! How fast the drive is simulated: requests of 4 KB on a modelled drive, in wall time, on one thread.
//!
//! ```text
//!   drive of 8 channels x 4 ways, metadata only ─► filled, overwritten at random ─► requests in a closed loop
//!                                                                                    └─► requests a second, peak memory
//! ```
//!
//! | case | requests |
//! |---|---|
//! | reads | at random, of blocks that were written |
//! | reads and writes | half of each, on a drive with room: no GC |
//! | overwrites under GC | at random, at 20 % over-provisioning, in the steady state |
//! | memory | the blocks of a large drive are written once, in order |
//!
//! It is the drive's own firmware that runs, and what runs is what a trace on such a drive runs.

use std::num::NonZeroU32;
use std::time::Instant;

use lode_base::{Geometry, Profile};
use lode_firmware::DriveOptions;

use crate::drive_host::DriveError;
use crate::trace::TraceTime;
use crate::trace::modelled::{BLOCK_BYTES, Keeps, ModelledDrive};
use crate::trace::replay::{Pace, replay};
use crate::trace::synthetic::{Pattern, Shape, Synthetic};

/// Requests under way at a time.
const DEPTH: u32 = 64;
/// Bytes of an erase unit.
const EBLOCK_BYTES: u32 = 8 << 20;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the drive that requests go to.
    pub drive_bytes: u64,
    /// Requests of a case.
    pub requests: u64,
}

/// What a case came to.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatorRow {
    /// The case.
    pub case: &'static str,
    /// Requests that were simulated.
    pub requests: u64,
    /// Requests a second of wall time.
    pub rate: f64,
    /// Requests a second of the modelled device.
    pub modelled_rate: f64,
    /// Bytes programmed for each that was written.
    pub write_amplification: Option<f64>,
}

/// The device: the profile of the ISP paper with other units.
fn profile(drive_bytes: u64) -> Profile {
    let mut p = Profile::find("isp-adms11").expect("it is built in");
    let eblocks = (drive_bytes / u64::from(EBLOCK_BYTES)) as u32;
    p.geometry = Geometry::new(8, 4, 1, 4096, 4096, EBLOCK_BYTES, eblocks).expect("there is such a device");
    p
}

/// A case: how much of the drive is filled, how often it is overwritten, and what is asked of it.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    fill_percent: u32,
    overwrites: f64,
    read_percent: u8,
}

const CASES: [Case; 3] = [
    Case { name: "reads", fill_percent: 50, overwrites: 0.0, read_percent: 100 },
    Case { name: "reads and writes", fill_percent: 50, overwrites: 0.0, read_percent: 50 },
    Case { name: "overwrites under GC", fill_percent: 100, overwrites: 1.5, read_percent: 0 },
];

/// Runs the cases, and tells each row as it comes.
///
/// # Errors
/// When the drive fails, or `stop` says so.
pub fn run(
    size: Size,
    stop: &dyn Fn() -> bool,
    mut each: impl FnMut(&SimulatorRow) -> Result<(), DriveError>,
) -> Result<(), DriveError> {
    for case in &CASES {
        let mut drive = ModelledDrive::new(
            profile(size.drive_bytes),
            Keeps::MetadataOnly,
            DriveOptions::default(),
            DEPTH,
        )?;
        drive.precondition(case.fill_percent, case.overwrites, 7)?;
        let shape = Shape {
            pattern: Pattern::Uniform,
            read_percent: case.read_percent,
            block_bytes: BLOCK_BYTES,
            region_bytes: drive.capacity_bytes() / 100 * u64::from(case.fill_percent),
            requests: size.requests,
            interval: TraceTime::ZERO,
        };
        let requests = Synthetic::new(shape, 11).expect("there is such a workload").map(Ok);
        let pace = Pace::Closed { depth: NonZeroU32::new(DEPTH).expect("it is not 0") };
        let start = Instant::now();
        let report = replay(requests, pace, &mut drive, stop).map_err(|_| DriveError::Stopped)?;
        let seconds = start.elapsed().as_secs_f64();
        each(&SimulatorRow {
            case: case.name,
            requests: report.all.requests,
            rate: report.all.requests as f64 / seconds,
            modelled_rate: report.all.iops.unwrap_or(0.0),
            write_amplification: drive.report().write_amplification,
        })?;
    }
    Ok(())
}
