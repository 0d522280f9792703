//! `lode load`: TPC-H, CSV files, Parquet files.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lode_bench::tpch::data::{self, Loaded, OnProgress, Progress};
use lode_bench::tpch::{Scale, schema};
use lode_page::EncodingChoice;
use lode_sql::Offload;

use super::load_files::{FileFormat, load};
use crate::drive_file::{Modelled, Opened, Resources, open_or_create_modelled};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::count;

/// Load data in bulk: TPC-H, CSV or Parquet
#[derive(clap::Args)]
#[command(
    long_about = "Load data in bulk: TPC-H, CSV or Parquet.\n\n\
        The drive's image is made if there is none. Rows go to new pages, which one small commit publishes. A load \
        that fails, is stopped or is killed leaves the tables as they were.",
    after_long_help = "EXAMPLES\n  \
        TPC-H at scale 1 (a gigabyte of text):\n    lode load tpch --scale 1 --drive tpch.lode\n\n  \
        CSV files with a header line into one table:\n    lode load csv --drive my.lode --table trips jan.csv feb.csv\n\n  \
        A Parquet file:\n    lode load parquet --drive my.lode --table trips trips.parquet"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: LoadCommand,
}

#[derive(Subcommand)]
enum LoadCommand {
    /// Generate the eight tables of TPC-H and load them
    #[command(
        long_about = "Generate the eight tables of TPC-H and load them.\n\n\
            None of the eight may exist yet. Either all are loaded, or none exists afterwards.",
        after_long_help = "EXAMPLES\n    lode load tpch --scale 0.1 --drive tpch.lode\n    \
            lode load tpch --scale 0.01 --drive rows.lode --layout row"
    )]
    Tpch {
        /// How much data: 1 is 8.7 million rows
        #[arg(long, value_name = "S", default_value = "1", allow_negative_numbers = true)]
        scale: Scale,

        /// The layout of pages: small ones that are changed in place (row), or large ones for scans (column)
        #[arg(long, value_enum, default_value_t = Layout::Column)]
        layout: Layout,

        /// The encoding of columns in large pages: auto, plain (whole bytes), or one of those in docs/tables.md
        #[arg(long, value_name = "NAME", default_value = "auto", value_parser = encoding)]
        encoding: EncodingChoice,

        #[command(flatten)]
        to: Target,
    },
    /// Load CSV files with a header line
    #[command(
        long_about = "Load CSV files with a header line.\n\n\
            The table is made if there is none: names come from the header, types from the values of the first file. \
            Each file is one commit. A malformed file is refused with its line and column, and nothing of it is loaded. \
            If a file is refused, a table that was made for this load is dropped again.",
        after_long_help = "EXAMPLES\n    lode load csv --drive my.lode --table trips trips.csv\n    \
            lode load csv --drive my.lode --table trips jan.csv feb.csv mar.csv"
    )]
    Csv(Files),
    /// Load Parquet files
    #[command(
        long_about = "Load Parquet files.\n\n\
            The table is made if there is none, with the names and types of the first file. Each file is one \
            commit. If a file is refused, nothing of it is loaded, and a table that was made for this load is \
            dropped again.",
        after_long_help = "EXAMPLES\n    lode load parquet --drive my.lode --table trips trips.parquet"
    )]
    Parquet(Files),
}

#[derive(clap::Args)]
struct Target {
    /// The image of the drive; made if there is none
    #[arg(long, value_name = "FILE")]
    drive: PathBuf,

    #[command(flatten)]
    modelled: Modelled,

    #[command(flatten)]
    resources: Resources,
}

impl Target {
    fn resources(&self) -> Resources {
        self.modelled.bound(self.resources)
    }
}

#[derive(clap::Args)]
struct Files {
    /// The table; made if there is none
    #[arg(long, value_name = "NAME")]
    table: String,

    /// The files, loaded in this order
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    to: Target,
}

/// A [`schema::Layout`] as an option of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layout {
    Row,
    Column,
}

/// The encoding with this name.
fn encoding(name: &str) -> Result<EncodingChoice, String> {
    EncodingChoice::named(name).ok_or_else(|| {
        let names: Vec<&str> = EncodingChoice::names().collect();
        format!("the encodings are {}", names.join(", "))
    })
}

pub(crate) fn run(args: Args) -> CliResult {
    match args.what {
        LoadCommand::Tpch { scale, layout, encoding, to } => {
            let layout = match layout {
                Layout::Row => schema::Layout::Row,
                Layout::Column => schema::Layout::Column,
            };
            let pages = schema::Pages { layout, encoding };
            with_drive(&to, |opened| {
                let loaded =
                    tpch(opened, scale, pages, to.resources(), Show::Tables).map_err(|e| match e {
                        CliError::Failed(e) => CliError::file(&to.drive, e),
                        CliError::Sql(e) => CliError::file(&to.drive, e),
                        e => e,
                    })?;
                println_quietly(&format!(
                    "Loaded {} rows of TPC-H at scale {scale} in {:.1} s.",
                    count(loaded.rows),
                    loaded.wall.as_secs_f64()
                ))
            })
        }
        LoadCommand::Csv(files) => load_files(&files, FileFormat::Csv),
        LoadCommand::Parquet(files) => load_files(&files, FileFormat::Parquet),
    }
}

fn load_files(files: &Files, kind: FileFormat) -> CliResult {
    let start = Instant::now();
    with_drive(&files.to, |opened| {
        let rows = files.to.resources().block_on(load(&opened.session, kind, &files.table, &files.paths))?;
        let seconds = start.elapsed().as_secs_f64();
        println_quietly(&format!("Loaded {} rows into {} in {seconds:.1} s.", count(rows), files.table))
    })
}

/// Runs a load on a drive. If the load is interrupted, the drive stays and is usable. If it fails, a drive that was
/// made for it is removed.
fn with_drive(to: &Target, load: impl FnOnce(&Opened) -> CliResult) -> CliResult {
    let profile = to.modelled.profile()?;
    let mut opened = open_or_create_modelled(&to.drive, to.resources(), Offload::Auto, profile)?;
    let result = load(&opened);
    if matches!(result, Err(CliError::Interrupted)) {
        opened.keep();
    }
    opened.end(&to.drive, result)
}

/// Loads TPC-H and shows the progress.
pub(crate) fn tpch(
    opened: &Opened,
    scale: Scale,
    pages: impl Into<schema::Pages>,
    resources: Resources,
    show: Show,
) -> CliResult<Loaded> {
    let (on_progress, bar) = progress_display(show)?;
    let session = Arc::clone(&opened.session);
    let loaded = resources.block_on(async { Ok(data::load(&session, scale, pages, on_progress).await?) });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    loaded
}

/// What a load prints to standard output if there is no terminal for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// A line for each table.
    Tables,
    /// Nothing, because standard output is used for something else.
    Nothing,
}

/// A progress bar on a terminal, otherwise what `show` says.
fn progress_display(show: Show) -> CliResult<(OnProgress, Option<ProgressBar>)> {
    let go_on =
        || if interrupt::signal().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    if std::io::stderr().is_terminal() {
        let style =
            ProgressStyle::with_template("{msg:10} [{bar:40}] {percent:>3} %  {human_pos} rows  {eta} left")
                .map_err(|e| CliError::Failed(e.to_string()))?
                .progress_chars("=> ");
        let bar = ProgressBar::new(1).with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        let shown = bar.clone();
        let advance = move |p: Progress| {
            shown.set_length(p.rows_expected.max(p.rows));
            shown.set_position(p.rows);
            shown.set_message(p.table);
            go_on()
        };
        return Ok((Arc::new(advance), Some(bar)));
    }
    let last = Mutex::new("");
    let advance = move |p: Progress| {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if show == Show::Tables && *last != p.table {
            *last = p.table;
            // If the reader of the output is gone, the load continues.
            let _ = writeln!(std::io::stdout(), "loading {}", p.table);
        }
        go_on()
    };
    Ok((Arc::new(advance), None))
}
