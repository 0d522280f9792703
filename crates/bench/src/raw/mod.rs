//! Compares the drive with plain file I/O, in wall time, on one file system in one run.
//!
//! ```text
//!   case: [ plain ─ Lode ─ plain ─ Lode ─ ... ]  rounds ─► median rates, median of the rounds' ratios
//! ```
//!
//! Both sides give the same guarantee: acknowledged writes are durable (`fdatasync`). Both write to the same kind of
//! space: new blocks, or blocks that were written before, which the file system writes several times faster. The plain
//! side has no checksums, no index and no atomic writes, so it is the upper limit and not a competitor.
//!
//! | case | plain | Lode |
//! |---|---|---|
//! | batches, new space | 1 MB `pwrite` + `fdatasync`, appending | batches of 1 MB of pages of 64 to 3,760 bytes, new pages |
//! | batches, recycled | the same over blocks written before | the same, overwriting pages of old batches |
//! | commits | as many 4 KB blocks at once as the queue is deep, one `fdatasync` | one page per commit |
//! | reads | `pread` of 4 KB at random from a cached file, into as many buffers | as many pages of 4 KB a command as the queue is deep |
//! | batches under GC | 1 MB over blocks written before | random pages of a drive that is 80 % full |

mod case;
mod lode;
mod plain;
mod race;
pub mod simulator;

use std::path::PathBuf;
use std::time::Duration;

use crate::drive_host::DriveError;
use case::{Case, Make, ROUNDS};
pub use case::{Measure, Row};
use race::race;

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The directory for the files, on the measured file system. The files are removed afterwards.
    pub dir: PathBuf,
    /// About how long to measure in total. Making the files takes additional time.
    pub time: Duration,
}

const fn commits(name: &'static str, threads: u32, depth: u32, lode: Make) -> Case {
    Case { name, threads, depth, unit: "ops", plain: plain::commits, lode }
}

const CASES: &[Case] = &[
    Case {
        name: "batches, new space",
        threads: 1,
        depth: 1,
        unit: "MB",
        plain: plain::append,
        lode: lode::append,
    },
    Case {
        name: "batches, recycled",
        threads: 1,
        depth: 1,
        unit: "MB",
        plain: plain::overwrite,
        lode: lode::overwrite,
    },
    commits("commits of 100 B", 1, 1, lode::commits_of_100),
    commits("commits of 100 B", 2, 1, lode::commits_of_100),
    commits("commits of 100 B", 8, 1, lode::commits_of_100),
    commits("commits of 100 B", 1, 8, lode::commits_of_100),
    commits("commits of 4 KB", 1, 1, lode::commits_of_4096),
    commits("commits of 4 KB", 2, 1, lode::commits_of_4096),
    commits("commits of 4 KB", 8, 1, lode::commits_of_4096),
    commits("commits of 4 KB", 1, 8, lode::commits_of_4096),
    Case { name: "reads of 4 KB", threads: 1, depth: 1, unit: "ops", plain: plain::reads, lode: lode::reads },
    Case { name: "reads of 4 KB", threads: 2, depth: 1, unit: "ops", plain: plain::reads, lode: lode::reads },
    Case {
        name: "reads of 4 KB",
        threads: 1,
        depth: 32,
        unit: "ops",
        plain: plain::reads,
        lode: lode::reads,
    },
    Case {
        name: "batches under GC",
        threads: 1,
        depth: 1,
        unit: "MB",
        plain: plain::overwrite,
        lode: lode::collecting,
    },
];

/// Runs all cases and passes each row to `each`, until `stop` returns true.
///
/// # Errors
/// If plain I/O fails, the drive fails in another way than by refusing a batch, or `each` fails;
/// [`DriveError::Stopped`].
pub fn run(
    plan: &Plan,
    stop: &dyn Fn() -> bool,
    mut each: impl FnMut(&Row) -> Result<(), DriveError>,
) -> Result<(), DriveError> {
    let slice = plan.time / (CASES.len() as u32 * 2 * (1 + ROUNDS));
    for case in CASES {
        // Each case has its own directory, so that no case reuses the blocks of another.
        let dir = plan.dir.join("case");
        std::fs::create_dir(&dir).map_err(DriveError::file(&dir))?;
        let row = race(case, &dir, slice, stop);
        let removed = std::fs::remove_dir_all(&dir).map_err(DriveError::file(&dir));
        let row = row.and_then(|row| removed.map(|()| row))?;
        each(&row)?;
    }
    Ok(())
}
