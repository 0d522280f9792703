//! `lode drive`: makes, describes, verifies, scrubs and serves the image of a drive, and replays traces on a modelled
//! drive.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use lode_command::Device;
use lode_engine::{Database, DatabaseOptions};

use crate::drive_file::{self, Modelled, parse_capacity};
use crate::error::{CliError, CliResult};
use crate::script::println_quietly;
use crate::table::{bytes, count};
use lode::CAPACITY_BYTES;

mod info;
mod replay;
mod serve;

/// Make, describe, verify, scrub or serve the image of a drive; replay a trace on a modelled one
#[derive(clap::Args)]
#[command(
    long_about = "Make, describe, verify, scrub or serve the image of a drive; replay a trace on a modelled one.\n\n\
        An image is one sparse file: it grows as it is filled, up to its capacity. Only one process can open it at \
        a time. A replay needs no image, because it makes a new drive in memory.",
    after_long_help = "EXAMPLES\n    lode drive format my.lode --capacity 10GB\n    lode drive info my.lode\n    \
        lode drive check my.lode\n    lode drive scrub my.lode\n    \
        lode drive serve my.lode --listen 127.0.0.1:4780\n    \
        lode drive replay --fill 80 trace.csv"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: DriveCommand,
}

#[derive(Subcommand)]
enum DriveCommand {
    /// Make an empty image; an existing file is never overwritten
    #[command(after_long_help = "EXAMPLES\n    lode drive format my.lode\n    \
        lode drive format small.lode --capacity 512MB\n    \
        lode drive format isp.lode --profile isp-adms11")]
    Format {
        /// The image to make
        file: PathBuf,

        /// The most it can hold, at least 128MiB; by default 64GiB
        #[arg(long, value_name = "SIZE", value_parser = parse_capacity, default_value_t = CAPACITY_BYTES,
              hide_default_value = true, allow_negative_numbers = true, conflicts_with = "profile")]
        capacity: u64,

        #[command(flatten)]
        modelled: Modelled,
    },
    /// Describe an image: units, space, wear, recovery, tables
    #[command(
        long_about = "Describe an image: units, space, wear, recovery, tables.\n\n\
            An EBLOCK is the unit that the drive erases. Live bytes are those that tables and the drive itself \
            need. The file also holds deleted and overwritten data that GC has not yet collected; its holes take no \
            space.",
        after_long_help = "EXAMPLES\n    lode drive info my.lode"
    )]
    Info {
        /// The image
        file: PathBuf,
    },
    /// Verify every structure and every page of an image; status 1 if anything is damaged
    #[command(
        long_about = "Verify every structure and every page of an image.\n\n\
            Checks the drive (superblock, checkpoint, mapping, every page's checksums) and the database on it \
            (catalog, every table page, index entries, keys). For a drive that is served elsewhere, it checks only \
            the database. Each problem is a line on standard output. The exit status is 1 if there is any.",
        after_long_help = "EXAMPLES\n    lode drive check my.lode"
    )]
    Check {
        /// The image
        file: PathBuf,
    },
    /// Read everything in an image, and repair what can be repaired; status 1 if anything is lost
    #[command(
        long_about = "Read everything in an image, and repair what can be repaired.\n\n\
            Data with one damaged copy of two (superblock, checkpoint, log), or with an intact copy in memory, is \
            rewritten. Pages that are hard to read are moved while they can still be read. Each page that can no \
            longer be read is a line on standard output. The exit status is 1 if there is any. All other pages stay \
            readable. `lode drive check` verifies more, and repairs only what every opening repairs.",
        after_long_help = "EXAMPLES\n    lode drive scrub my.lode"
    )]
    Scrub {
        /// The image
        file: PathBuf,
    },
    Serve(serve::Args),
    Replay(replay::Args),
}

pub(crate) fn run(args: Args) -> CliResult {
    match args.what {
        DriveCommand::Format { file, capacity, modelled } => format(&file, capacity, &modelled),
        DriveCommand::Info { file } => info(&file),
        DriveCommand::Check { file } => check(&file),
        DriveCommand::Scrub { file } => scrub(&file),
        DriveCommand::Serve(args) => serve::run(&args),
        DriveCommand::Replay(args) => replay::run(args),
    }
}

fn format(path: &Path, capacity: u64, modelled: &Modelled) -> CliResult {
    let drive = drive_file::format(path, capacity, modelled.profile()?.as_ref())?;
    let info = drive.info();
    drive.close().map_err(CliError::drive(path))?;
    println_quietly(&format!(
        "{}: an empty drive of {}; {} fit",
        path.display(),
        info::binary(info.geometry.capacity_bytes()),
        bytes(info.free_bytes)
    ))
}

fn open_database(path: &Path, device: Arc<dyn Device>) -> CliResult<Database> {
    Database::open(device, DatabaseOptions::default()).map_err(|e| CliError::database(path, e))
}

fn info(path: &Path) -> CliResult {
    if let Some(addr) = lode::drive::address(path) {
        let device = lode::drive::connect(addr)?;
        let database = open_database(path, device.clone())?;
        let text = info::describe_served(path, device.identity(), &database)?;
        return println_quietly(text.trim_end());
    }
    let drive = drive_file::open_drive(path)?;
    let info = drive.info();
    let text = info::describe(path, &info, &open_database(path, Arc::new(drive.clone()))?)?;
    println_quietly(text.trim_end())?;
    close(path, drive)
}

/// Closes a drive that was only read. A read-only drive is left as it is.
fn close(path: &Path, drive: lode_firmware::Drive) -> CliResult {
    match drive.info().read_only {
        Some(_) => Ok(()),
        None => drive.close().map_err(CliError::drive(path)),
    }
}

/// Prints the lines, and fails if there are any. `what` is their singular and plural in the message.
fn tell(path: &Path, lines: &[String], what: [&str; 2]) -> CliResult {
    for line in lines {
        println_quietly(&line.split_whitespace().collect::<Vec<_>>().join(" "))?;
    }
    match lines.len() {
        0 => Ok(()),
        1 => Err(CliError::file(path, format!("1 {}", what[0]))),
        n => Err(CliError::file(path, format!("{} {}", count(n as u64), what[1]))),
    }
}

fn scrub(path: &Path) -> CliResult {
    let drive = drive_file::open_drive(path)?;
    let report = drive.scrub().map_err(CliError::drive(path))?;
    tell(path, &report.lost, ["structure or page is lost", "structures or pages are lost"])?;
    close(path, drive)?;
    println_quietly(&format!(
        "{}: read {} pages, {}; {} mended, {} EBLOCKs refreshed",
        path.display(),
        count(report.pages),
        bytes(report.bytes),
        count(report.mended),
        count(report.refreshed)
    ))
}

fn check(path: &Path) -> CliResult {
    if let Some(addr) = lode::drive::address(path) {
        let problems = open_database(path, lode::drive::connect(addr)?)?.check()?;
        tell(path, &problems, ["problem found", "problems found"])?;
        return println_quietly(&format!("{}: no problem in the database", path.display()));
    }
    let drive = drive_file::open_drive(path)?;
    let report = drive.check();
    let mut problems = report.problems;
    match Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).and_then(|d| d.check()) {
        Ok(more) => problems.extend(more),
        // Without a catalog, only the drive can be checked. The missing catalog counts as a problem of the image.
        Err(e) => problems.push(e.to_string()),
    }
    tell(path, &problems, ["problem found", "problems found"])?;
    close(path, drive)?;
    println_quietly(&format!(
        "{}: no problem in {} pages, {}",
        path.display(),
        count(report.pages),
        bytes(report.bytes)
    ))
}
