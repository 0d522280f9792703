//! `lode demo`: shows within a minute, on TPC-H, what the drive saves.

use std::path::PathBuf;
use std::sync::Arc;

use lode_bench::tpch::answers::Answer;
use lode_bench::tpch::data::Loaded;
use lode_bench::tpch::run::{Run, run as run_query};
use lode_bench::tpch::{QUERIES, Query, Scale, schema};
use lode_sql::Offload;

use super::load;
use crate::drive_file::{Modelled, Opened, Resources, create_modelled};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count, saving};

/// See what the drive saves: TPC-H with and without its help
#[derive(clap::Args)]
#[command(
    long_about = "See what the drive saves: TPC-H with and without its help.\n\n\
        Makes a drive, generates and loads TPC-H, then runs the 22 queries twice: with offload off, where the host \
        reads pages and filters them, and with offload auto, where the drive skips, filters, projects and \
        aggregates. \
        The buffer pool is emptied before each query, so that both read from the drive. Both answers must agree. At \
        scales 0.01 and 0.1 they must also match the shipped answers, which another engine (DuckDB) made. Otherwise the \
        exit status is 1.",
    after_long_help = "EXAMPLES\n    lode demo\n    lode demo --scale 1 --drive tpch.lode --keep\n    \
        lode demo --profile isp-adms11\n\n\
        THE TABLE\n    ms off, ms auto         time of the query, host and drive together\n    \
        pages read, skipped     with offload auto: pages read, and pages that the drive's index excluded\n    \
        link off, link auto     bytes that the drive sent to the host\n    \
        saving                  how much less that is with offload auto\n    \
        model ms off, auto      with --profile: time of the query on the modelled device and its host"
)]
pub(crate) struct Args {
    /// How much data: 1 is 8.7 million rows, a gigabyte of text
    #[arg(long, value_name = "S", default_value = "0.1", allow_negative_numbers = true)]
    scale: Scale,

    /// The file of the drive; by default a temporary one
    #[arg(long, value_name = "FILE")]
    drive: Option<PathBuf>,

    /// Keep the drive afterwards, for `lode sql`
    #[arg(long, requires = "drive")]
    keep: bool,

    #[command(flatten)]
    modelled: Modelled,

    #[command(flatten)]
    resources: Resources,
}

/// A query, run with and without the drive's help.
struct Both {
    query: &'static Query,
    off: Run,
    auto: Run,
}

pub(crate) fn run(mut args: Args) -> CliResult {
    let profile = args.modelled.profile()?;
    args.resources = args.modelled.bound(args.resources);
    let dir = tempfile::tempdir().map_err(|e| CliError::Failed(format!("temporary directory: {e}")))?;
    let path = args.drive.clone().unwrap_or_else(|| dir.path().join("demo.lode"));
    let opened = create_modelled(&path, args.resources, Offload::Off, profile)?;
    println_quietly(&format!("TPC-H at scale {} on a new drive, {}", args.scale, path.display()))?;
    let loaded = load::tpch(&opened, args.scale, schema::Layout::Column, args.resources, load::Show::Tables)?;
    let seconds = loaded.wall.as_secs_f64();
    println_quietly(&format!("{} rows loaded in {seconds:.1} s\n", count(loaded.rows)))?;
    let all = queries(&args, &opened)?;
    println_quietly(&report(&args, &loaded, &all))?;
    if !args.keep {
        return Ok(());
    }
    opened.close(&path)?;
    println_quietly(&format!("The drive stays: lode sql {}", path.display()))
}

/// Runs all queries both ways. A wrong answer is an error.
fn queries(args: &Args, opened: &Opened) -> CliResult<Vec<Both>> {
    let (session, database, scale) = (Arc::clone(&opened.session), opened.database.clone(), args.scale);
    args.resources.block_on(interrupt::until_signal(async move {
        let mut all = Vec::with_capacity(QUERIES.len());
        for query in &QUERIES {
            database.clear_pool();
            let off = run_query(&session, query, scale, Offload::Off).await?;
            database.clear_pool();
            let auto = run_query(&session, query, scale, Offload::Auto).await?;
            let differs = |what: &str, d: lode_bench::tpch::answers::Difference| {
                CliError::Failed(format!("{what}: {d}"))
            };
            auto.answer.compare(query, &off.answer).map_err(|d| differs("offload auto and off differ", d))?;
            if let Some(shipped) = Answer::shipped(query, scale) {
                off.answer.compare(query, &shipped?).map_err(|d| differs("not the shipped answer", d))?;
            }
            all.push(Both { query, off, auto });
        }
        Ok(all)
    }))
}

fn report(args: &Args, loaded: &Loaded, all: &[Both]) -> String {
    let modelled = all.iter().all(|b| b.off.modelled.is_some());
    let mut headings = vec![
        "query",
        ">rows",
        ">ms off",
        ">ms auto",
        ">pages read",
        ">skipped",
        ">link off",
        ">link auto",
        ">saving",
    ];
    if modelled {
        headings.extend([">model ms off", ">model ms auto"]);
    }
    let mut table = TextTable::new(&headings);
    let mut total = Line::default();
    for b in all {
        let line = Line::of(b);
        table.row(line.cells(format!("Q{}", b.query.number)));
        total.add(&line);
    }
    table.rule();
    table.row(total.cells("total".into()));
    let answers = if Answer::are_shipped(args.scale) {
        "Both gave the same answers, and they match the shipped ones, made by DuckDB."
    } else {
        "Both gave the same answers."
    };
    format!(
        "{}\nOver {} rows, the 22 queries needed {} from the drive where the host filters, and {} where the drive does: \
         {} less over the link.\n{answers}",
        table.render(),
        count(loaded.rows),
        bytes(total.link_off),
        bytes(total.link_auto),
        saving(total.link_off, total.link_auto),
    )
}

/// A line of the table.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    rows: u64,
    ms_off: f64,
    ms_auto: f64,
    pages_read: u64,
    pages_skipped: u64,
    link_off: u64,
    link_auto: u64,
    /// The modelled times with offload off and auto.
    modelled: Option<[f64; 2]>,
}

impl Line {
    fn of(b: &Both) -> Self {
        Self {
            rows: b.auto.answer.row_count() as u64,
            ms_off: b.off.wall.as_secs_f64() * 1e3,
            ms_auto: b.auto.wall.as_secs_f64() * 1e3,
            pages_read: b.auto.counts.pages_read,
            pages_skipped: b.auto.counts.pages_skipped,
            link_off: b.off.counts.link_bytes_up,
            link_auto: b.auto.counts.link_bytes_up,
            modelled: b
                .off
                .modelled
                .zip(b.auto.modelled)
                .map(|(off, auto)| [off, auto].map(|m| m.total.as_secs_f64() * 1e3)),
        }
    }

    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.ms_off += other.ms_off;
        self.ms_auto += other.ms_auto;
        self.pages_read += other.pages_read;
        self.pages_skipped += other.pages_skipped;
        self.link_off += other.link_off;
        self.link_auto += other.link_auto;
        if let Some(other) = other.modelled {
            let own = self.modelled.get_or_insert_default();
            own.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        }
    }

    fn cells(&self, name: String) -> Vec<String> {
        let mut cells = vec![
            name,
            count(self.rows),
            format!("{:.1}", self.ms_off),
            format!("{:.1}", self.ms_auto),
            count(self.pages_read),
            count(self.pages_skipped),
            bytes(self.link_off),
            bytes(self.link_auto),
            saving(self.link_off, self.link_auto),
        ];
        cells.extend(self.modelled.into_iter().flatten().map(|ms| format!("{ms:.3}")));
        cells
    }
}
