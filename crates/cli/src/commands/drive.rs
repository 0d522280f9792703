//! `lode drive`: makes, describes and verifies the image of a drive.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use lode_engine::{Database, DatabaseOptions};

use crate::drive_file::{self, CAPACITY_BYTES, parse_capacity};
use crate::error::{CliError, CliResult};
use crate::script::println_quietly;
use crate::table::{bytes, count};

/// Make, describe or verify the image of a drive
#[derive(clap::Args)]
#[command(
    long_about = "Make, describe or verify the image of a drive.\n\n\
        An image is one sparse file: it grows as it is filled, up to its capacity. One process opens it at a time.",
    after_long_help = "EXAMPLES\n    lode drive format my.lode --capacity 10GB\n    lode drive info my.lode\n    \
        lode drive check my.lode"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make an empty image; a file that is there is never overwritten
    #[command(after_long_help = "EXAMPLES\n    lode drive format my.lode\n    \
        lode drive format small.lode --capacity 512MB")]
    Format {
        /// The image to make
        file: PathBuf,

        /// The most it can hold, at least 128MiB; by default 64GiB
        #[arg(long, value_name = "SIZE", value_parser = parse_capacity, default_value_t = CAPACITY_BYTES,
              hide_default_value = true, allow_negative_numbers = true)]
        capacity: u64,
    },
    /// Describe an image: geometry, space, tables
    #[command(after_long_help = "EXAMPLES\n    lode drive info my.lode")]
    Info {
        /// The image
        file: PathBuf,
    },
    /// Verify every structure and every page of an image; status 1 when anything is damaged
    #[command(
        long_about = "Verify every structure and every page of an image.\n\n\
            Checks the drive (superblock, checkpoint, mapping, every page's checksums) and the database on it (catalog, \
            every table page, index entries, keys). Each problem is a line on standard output; the exit status is 1 \
            when there is one.",
        after_long_help = "EXAMPLES\n    lode drive check my.lode"
    )]
    Check {
        /// The image
        file: PathBuf,
    },
}

pub(crate) fn run(args: Args) -> CliResult {
    match args.what {
        What::Format { file, capacity } => format(&file, capacity),
        What::Info { file } => info(&file),
        What::Check { file } => check(&file),
    }
}

fn format(path: &Path, capacity: u64) -> CliResult {
    let drive = drive_file::format(path, capacity)?;
    drive.close().map_err(|e| CliError::file(path, e))?;
    println_quietly(&format!("{}: an empty drive of {}", path.display(), bytes(capacity)))
}

fn database(path: &Path, drive: &lode_firmware::Drive) -> CliResult<Database> {
    Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).map_err(|e| CliError::file(path, e))
}

fn info(path: &Path) -> CliResult {
    let drive = drive_file::open_drive(path)?;
    let info = drive.info();
    let database = database(path, &drive)?;
    let snapshot = database.snapshot()?;
    let mut tables: Vec<_> = snapshot.tables().cloned().collect();
    tables.sort_by(|a, b| a.def().name.cmp(&b.def().name));
    let mut text = format!("{}\n{info}", path.display());
    for table in &tables {
        let s = snapshot.statistics(table)?;
        let (rows, pages) = (count(s.rows), count(s.pages));
        text += &format!("table {}: {rows} rows in {pages} pages, {}\n", table.def().name, bytes(s.bytes));
    }
    println_quietly(text.trim_end())
}

fn check(path: &Path) -> CliResult {
    let drive = drive_file::open_drive(path)?;
    let report = drive.check();
    let mut problems = report.problems;
    match Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).and_then(|d| d.check()) {
        Ok(more) => problems.extend(more),
        // Without a catalog nothing above the drive can be checked; that is a problem, not a failure to check.
        Err(e) => problems.push(e.to_string()),
    }
    for problem in &problems {
        println_quietly(&problem.split_whitespace().collect::<Vec<_>>().join(" "))?;
    }
    match problems.len() {
        0 => println_quietly(&format!(
            "{}: no problem in {} pages, {}",
            path.display(),
            count(report.pages),
            bytes(report.bytes)
        )),
        1 => Err(CliError::file(path, "1 problem found")),
        n => Err(CliError::file(path, format!("{n} problems found"))),
    }
}
