//! `lode bench endure`: an hour of UPDATEs by key on a drive that is nearly full, by a process that is killed.
//!
//! ```text
//!   this process: load ─► life 1 ─ kill -9 ─► life 2 ─ kill -9 ─► ... ─► the last one: open, check
//!                           └─ lines of JSON: opened, samples ─► table, plots, cap of write amplification
//! ```
//!
//! A life is a process of the same binary (`endure_life.rs`). What it acknowledged before its kill must be there after it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use lode_bench::sql::endure::{Cap, Growth, Reopened, Sample, Told, Written, delta_cap, median, plots};
use lode_workload::harness::RunError;
use lode_workload::sql::endure::{Long, OWN_ROWS, Plan, STILL, TABLE, Totals, load};

use super::embedded::parse_seconds;
use super::endure_life::{Life, NEVER, live};
use super::oltp::{SqlPlace, tell};
use super::results::Results;
use crate::drive_file::parse_capacity;
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count, parse_bytes};

/// Update rows by key for an hour on a drive that is nearly full
#[derive(clap::Args)]
#[command(
    long_about = "Update rows by key for an hour on a drive that is nearly full, in wall time.\n\n\
        A drive is filled to --fill percent: one table with a primary key takes --table of them, and a table that nothing changes the rest. \
        Then each terminal runs UPDATEs of one row by its key, uniformly, each a durable commit. At each interval the delta, the memory, \
        the latencies and what the drive programmed are read.\n\n\
        The updates run in a process that is killed with SIGKILL every --kill-every minutes and in the end. Each time the drive is \
        opened again, the time to its first row is measured, and every acknowledged update must be there. In the end all pages are \
        checked.\n\n\
        With --long-transaction, one transaction writes rows of its own four times a second for so many minutes, from as many minutes \
        after the beginning. With --old-snapshot, one snapshot is held from the beginning of each process, and its count, its sum and \
        a hash of all rows must be the same after each merge. While a snapshot is open, merges leave the old pages, so the drive must have room for the table twice.\n\n\
        It is a failure if an update is lost, the long transaction does not commit, the old snapshot answers otherwise, no \
        commit ends in an interval, or the drive programs more than the cap: the figure that log, redo, leaves, merges and GC can \
        reach by their rules (docs/measurements.md).",
    after_long_help = "EXAMPLES\n    lode bench endure --capacity 2GiB --out endured\n    \
        lode bench endure --minutes 30 --kill-every 5 --long-transaction 10\n    \
        lode bench endure --minutes 10 --table 5 --old-snapshot --json\n    lode bench endure --quick\n\nJSON ROWS\n    \
        One object per line. opened: minutes, open_ms, row_ms (until a row was read by its key), log_pages and redo_bytes that were read, totals. \
        sample: minutes, commits, rate, conflicts, p50_us, p99_us, max_us, is_long_open, checks (of the old snapshot), \
        written (bytes that the drive programmed in the interval: log, redo within it, leaves, merges, moved, all), gauges. \
        long: seconds, writes, commit_ms, failure. total: write_amplification, cap, delta_ratio, growth (the last \
        quarter to the second), reopen_ms_max, and rates and p99 with and without the long transaction."
)]
pub(super) struct Args {
    /// Minutes of updates
    #[arg(long, value_name = "M", default_value = "60", value_parser = parse_minutes, allow_negative_numbers = true)]
    minutes: Duration,

    /// Minutes from one kill to the next; by default there is one in the end
    #[arg(long, value_name = "M", value_parser = parse_minutes, allow_negative_numbers = true)]
    kill_every: Option<Duration>,

    /// Terminals, one thread each
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=1024))]
    terminals: u16,

    /// The capacity of the drive
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_capacity)]
    capacity: u64,

    /// How full the drive is made, in percent
    #[arg(long, value_name = "P", default_value = "80", value_parser = clap::value_parser!(u8).range(1..=90))]
    fill: u8,

    /// The percent of the drive that the updated table takes, of those of --fill; by default 60, and 10 with --long-transaction or
    /// --old-snapshot, which keep its old pages
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u8).range(1..=90))]
    table: Option<u8>,

    /// Minutes of a transaction that writes beside the others
    #[arg(long, value_name = "M", value_parser = parse_minutes, allow_negative_numbers = true)]
    long_transaction: Option<Duration>,

    /// Hold a snapshot from the beginning, and compare its answers after each merge
    #[arg(long)]
    old_snapshot: bool,

    /// Answers of the old snapshot before the first kill
    #[arg(long, value_name = "N", default_value = "100", requires = "old_snapshot")]
    checks: u64,

    /// Seconds per sample
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds, allow_negative_numbers = true)]
    interval: Duration,

    /// The seed of all random choices: of the data and of the keys
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// A quick check that it runs: a small drive, seconds of updates, and merges at each answer of the old snapshot
    #[arg(long)]
    quick: bool,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    /// A directory for plots and the rows of --json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// A drive to make and keep; by default a temporary one
    #[arg(long, value_name = "FILE")]
    drive: Option<PathBuf>,

    /// The directory of a temporary drive
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Memory for buffer pool, trees and queries together, divided as in lode sql
    #[arg(long, value_name = "SIZE", default_value = "512MB", value_parser = parse_bytes)]
    memory: u64,

    /// What a process that is killed is told.
    #[command(flatten)]
    life: LifeArgs,
}

/// Arguments that this command gives to the processes that it kills.
#[derive(clap::Args, Clone, Debug)]
struct LifeArgs {
    /// The drive that exists
    #[arg(long, hide = true, value_name = "FILE")]
    life: Option<PathBuf>,
    /// Rows of the table, or 0 to check the drive only
    #[arg(long, hide = true, value_name = "N", default_value = "0", requires = "life")]
    life_rows: u32,
    /// Minutes of updates before
    #[arg(long, hide = true, value_name = "M", default_value = "0", requires = "life")]
    life_minutes: f64,
}

/// Parses minutes of the command line.
fn parse_minutes(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(m) if (0.001..=10_080.0).contains(&m) => Ok(Duration::from_secs_f64(m * 60.0)),
        _ => Err("minutes are a number from 0.001 to 10080, such as 0.5".into()),
    }
}

/// The sizes and times of a run.
struct Shape {
    minutes: Duration,
    kill_every: Duration,
    capacity: u64,
    table: u8,
    interval: Duration,
    long: Option<Duration>,
    rows_a_load: u32,
}

/// How full the drive may be, in percent, with a table and its old pages.
const FILL_MAX: u8 = 95;

impl Args {
    /// Whether a snapshot stays open, for which merges leave the old pages of the table.
    fn keeps_old_pages(&self) -> bool {
        self.old_snapshot || self.long_transaction.is_some()
    }

    fn shape(&self) -> Shape {
        let long = self.long_transaction;
        match self.quick {
            true => Shape {
                minutes: Duration::from_secs(6),
                kill_every: Duration::from_secs(3),
                capacity: lode::CAPACITY_BYTES_MIN,
                table: 2,
                interval: Duration::from_millis(500),
                long: long.map(|_| Duration::from_millis(1200)),
                // More than the rows that a commit puts into the delta.
                rows_a_load: 17_000,
            },
            false => Shape {
                minutes: self.minutes,
                kill_every: self.kill_every.unwrap_or(self.minutes),
                capacity: self.capacity,
                table: self.table.unwrap_or(if self.keeps_old_pages() { 10 } else { self.fill.min(60) }),
                interval: self.interval.max(Duration::from_millis(10)),
                long,
                rows_a_load: 100_000,
            },
        }
    }

    fn life(&self, shape: &Shape) -> Life {
        let LifeArgs { life_rows, life_minutes, .. } = self.life;
        let plan = Plan {
            rows: life_rows,
            terminals: self.terminals,
            length: if life_rows == 0 { Duration::ZERO } else { NEVER },
            interval: shape.interval,
            // Only the first life has the long transaction.
            long: shape.long.filter(|_| life_minutes == 0.0),
            old_snapshot: self.old_snapshot,
            // Each life has other keys.
            seed: self.seed ^ life_minutes.to_bits(),
        };
        Life { memory: self.memory, minutes: life_minutes, plan, merges_at_once: self.quick }
    }
}

pub(super) fn run(args: &Args) -> CliResult {
    let shape = args.shape();
    if let Some(image) = &args.life.life {
        return live(args.life(&shape), image);
    }
    if shape.table > args.fill {
        let text = format!("--table {} is more than --fill {}: it is a part of it", shape.table, args.fill);
        return Err(CliError::Usage(text));
    }
    if args.keeps_old_pages() && args.fill + shape.table > FILL_MAX {
        let text = format!(
            "--long-transaction and --old-snapshot keep old pages of the table: --fill {} and --table {} are more than \
             {FILL_MAX} together",
            args.fill, shape.table
        );
        return Err(CliError::Usage(text));
    }
    if shape.long.is_some_and(|long| long * 2 > shape.minutes) {
        let text = "--long-transaction takes its minutes twice, without it and with it: more than --minutes";
        return Err(CliError::Usage(text.into()));
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).map_err(|e| CliError::file(out, e))?;
    }
    let dir = tempfile::tempdir_in(&args.dir).map_err(|e| CliError::file(&args.dir, e))?;
    let image = args.drive.clone().unwrap_or_else(|| dir.path().join("endure.lode"));
    if std::fs::symlink_metadata(&image).is_ok() {
        return Err(CliError::file(&image, "exists: this command makes its drive"));
    }
    let loaded = fill(args, &shape, &image)?;
    let mut run = Run { args, shape, image, loaded, rows: Rows::open(args)?, told: Vec::new() };
    let seen = run.lives()?;
    run.report(&seen)
}

/// What was loaded.
struct Loaded {
    rows: u32,
    /// Bytes of the pages of the updated table.
    table_bytes: u64,
    wblock_bytes: u32,
}

/// Makes the drive and fills it.
fn fill(args: &Args, shape: &Shape, image: &Path) -> CliResult<Loaded> {
    tell("filling the drive");
    let (opened, sql) = SqlPlace::at(image, args.memory).open(Some(shape.capacity))?;
    let drive = opened.local().expect("the image was made here").clone();
    let is_full = |percent: u8| {
        let info = drive.info();
        info.live_bytes * 100 >= info.usable_bytes * u64::from(percent) || interrupt::signal().is_some()
    };
    let before = drive.info().live_bytes;
    let rows = opened.run(|probes| -> Result<u32, RunError> {
        let rows = load(&sql, TABLE, shape.rows_a_load, args.seed, &|| is_full(shape.table))?;
        Ok((probes.settle)().map(|()| rows)?)
    })?;
    let table_bytes = drive.info().live_bytes - before;
    opened.run(|probes| -> Result<(), RunError> {
        load(&sql, STILL, shape.rows_a_load, !args.seed, &|| is_full(args.fill))?;
        Ok((probes.settle)()?)
    })?;
    interrupt::check()?;
    let wblock_bytes = drive.info().geometry.wblock_bytes();
    opened.close()?;
    Ok(Loaded { rows, table_bytes, wblock_bytes })
}

/// Where rows of JSON go.
struct Rows {
    printed: bool,
    results: Results,
}

impl Rows {
    fn open(args: &Args) -> CliResult<Self> {
        Ok(Self { printed: args.json, results: Results::create(args.out.as_deref())? })
    }

    fn tell(&mut self, mut row: serde_json::Value) -> CliResult {
        row["workload"] = "endure".into();
        self.results.add(&row)?;
        if self.printed { println_quietly(&row.to_string()) } else { Ok(()) }
    }
}

/// A process that can be killed. It is, when this is dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn spawn(image: &Path, rows: u32, minutes: f64) -> CliResult<Self> {
        let binary = std::env::current_exe().map_err(|e| CliError::Failed(format!("own binary: {e}")))?;
        let words = std::env::args_os().skip_while(|w| w != "endure");
        let mut command = Command::new(&binary);
        command.arg("bench").args(words).arg("--life").arg(image);
        command.args(["--life-rows", &rows.to_string(), "--life-minutes", &minutes.to_string()]);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|e| CliError::file(&binary, e))?;
        let stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// The next line, or `None` if there is none for a moment.
    fn line(&mut self) -> CliResult<Option<Told>> {
        interrupt::check()?;
        match self.lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => serde_json::from_str(&line)
                .map(Some)
                .map_err(|e| CliError::Failed(format!("the process told {line:?}: {e}"))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self.child.wait().map_or("?".into(), |s| s.to_string());
                Err(CliError::Failed(format!("the process that updates ended by itself: {ended}")))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Run<'a> {
    args: &'a Args,
    shape: Shape,
    image: PathBuf,
    loaded: Loaded,
    rows: Rows,
    told: Vec<Sample>,
}

/// What all lives told.
#[derive(Default)]
struct Seen {
    reopened: Vec<Reopened>,
    long: Option<Long>,
    checks: u64,
    /// Of the first life, which has the long transaction.
    first: usize,
    /// The table as the last open found it.
    found: Option<Totals>,
    /// Updates that were acknowledged by all lives.
    acknowledged: u64,
}

impl Seen {
    /// The longest time from the opening after a kill to the first row.
    fn reopen_ms_max(&self) -> f64 {
        self.reopened.iter().map(|r| r.row_ms).fold(0.0, f64::max)
    }
}

impl Run<'_> {
    /// Runs all lives, and the last open.
    fn lives(&mut self) -> CliResult<Seen> {
        let mut seen = Seen::default();
        let mut minutes = 0.0;
        let all = self.shape.minutes.as_secs_f64() / 60.0;
        let mut life = 0;
        while minutes < all - 1e-3 {
            life += 1;
            tell(&format!("life {life}"));
            let left = Duration::from_secs_f64((all - minutes) * 60.0).min(self.shape.kill_every);
            let mut process = Process::spawn(&self.image, self.loaded.rows, minutes)?;
            minutes = self.live(&mut process, left, minutes, &mut seen)?;
            if life == 1 {
                seen.first = self.told.len();
            }
        }
        tell("opening and checking");
        let mut process = Process::spawn(&self.image, 0, minutes)?;
        loop {
            match process.line()? {
                Some(Told::Opened { opened, totals }) => self.opened(opened, totals, &mut seen)?,
                Some(Told::Checked { found }) => {
                    let _ = process.child.wait();
                    return match found.first() {
                        None => Ok(seen),
                        Some(first) => Err(CliError::Failed(format!("the drive is damaged: {first}"))),
                    };
                }
                _ => {}
            }
        }
    }

    /// Follows a process for a time, and kills it. Returns the minutes of updates so far.
    fn live(
        &mut self,
        process: &mut Process,
        time: Duration,
        minutes: f64,
        seen: &mut Seen,
    ) -> CliResult<f64> {
        let mut begun = None;
        let awaits_long = self.shape.long.is_some() && minutes == 0.0;
        let (mut checks, mut acknowledged) = (0, 0);
        let base = seen.found.map_or(0, |t| t.updates);
        loop {
            match process.line()? {
                Some(Told::Opened { opened, totals }) => {
                    self.opened(opened, totals, seen)?;
                    begun = Some((Instant::now(), totals.updates));
                }
                Some(Told::Sample(sample)) => {
                    self.tell_json(&Told::Sample(sample))?;
                    self.told.push(sample);
                    (checks, acknowledged) = (sample.checks, sample.acknowledged);
                    if sample.commits == 0 {
                        return Err(CliError::Failed(format!(
                            "no commit ended in the interval to minute {:.2}",
                            sample.minutes
                        )));
                    }
                }
                Some(Told::Long(long)) => {
                    self.tell_json(&Told::Long(long.clone()))?;
                    seen.long = Some(long);
                }
                Some(Told::Checked { .. }) | None => {}
            }
            let Some((since, updates)) = begun else { continue };
            let waits = awaits_long && seen.long.is_none()
                || self.args.old_snapshot && minutes == 0.0 && checks < self.args.checks;
            if since.elapsed() >= time && !waits {
                let lived = since.elapsed().as_secs_f64() / 60.0;
                process.child.kill().map_err(|e| CliError::Failed(format!("kill: {e}")))?;
                let _ = process.child.wait();
                // What it told before the kill.
                while let Ok(line) = process.lines.recv() {
                    if let Ok(Told::Sample(sample)) = serde_json::from_str(&line) {
                        self.told.push(sample);
                        (checks, acknowledged) = (sample.checks, sample.acknowledged);
                    }
                }
                seen.checks += checks;
                seen.acknowledged = updates.max(base) + acknowledged;
                return Ok(minutes + lived);
            }
        }
    }

    /// A process opened the drive. What was acknowledged must be there.
    fn opened(&mut self, opened: Reopened, totals: Totals, seen: &mut Seen) -> CliResult {
        self.tell_json(&Told::Opened { opened, totals })?;
        if opened.minutes > 0.0 {
            seen.reopened.push(opened);
        }
        let own = seen.long.as_ref().filter(|l| l.failure.is_none()).map_or(0, |l| l.writes);
        let right = totals.rows == u64::from(self.loaded.rows)
            && totals.updates >= seen.acknowledged
            && totals.own_updates == own;
        seen.found = Some(totals);
        match right {
            true => Ok(()),
            false => Err(CliError::Failed(format!(
                "after a kill the table holds {totals:?}, but {} rows, at least {} updates and {own} of the long transaction were \
                 acknowledged",
                self.loaded.rows, seen.acknowledged
            ))),
        }
    }

    fn tell_json(&mut self, told: &Told) -> CliResult {
        self.rows.tell(serde_json::to_value(told).unwrap_or_default())
    }

    fn report(&mut self, seen: &Seen) -> CliResult {
        let samples = &self.told;
        let commits: u64 = samples.iter().map(|s| s.commits).sum();
        let written = samples.iter().fold(Written::default(), |sum, s| sum.plus(s.written));
        let cap = Cap::of(samples, self.shape.capacity, self.loaded.wblock_bytes);
        let bytes_a_commit = written.all as f64 / commits.max(1) as f64;
        let amplification = bytes_a_commit / cap.entry.max(1.0);
        let delta_most = samples.iter().map(|s| s.gauges.delta_bytes).max().unwrap_or(0) as f64;
        let delta_ratio = delta_most / delta_cap(self.loaded.table_bytes);
        let growth = Growth::of(samples);
        let long = seen.long.as_ref().map(|long| Beside::of(&samples[..seen.first], long));
        let total = serde_json::json!({
            "row": "total", "minutes": samples.last().map(|s| s.minutes), "commits": commits, "rows": self.loaded.rows,
            "table_bytes": self.loaded.table_bytes, "capacity_bytes": self.shape.capacity, "fill": self.args.fill,
            "bytes_a_commit": bytes_a_commit, "write_amplification": amplification, "written": written,
            "other_bytes": written.other(), "cap": cap, "cap_amplification": cap.amplification(),
            "delta_bytes_max": delta_most, "delta_ratio": delta_ratio, "growth": growth,
            "reopen_ms_max": seen.reopen_ms_max(), "kills": seen.reopened.len(), "checks": seen.checks,
            "long": long.as_ref().map(Beside::json),
        });
        self.rows.tell(total)?;
        if let Some(out) = &self.args.out {
            let subtitle = format!(
                "{} drive, {} % full, table of {}, {} terminals",
                bytes(self.shape.capacity),
                self.args.fill,
                bytes(self.loaded.table_bytes),
                self.args.terminals
            );
            for (name, svg) in plots(samples, &seen.reopened, self.loaded.table_bytes, &subtitle)? {
                let path = out.join(name);
                std::fs::write(&path, svg).map_err(|e| CliError::file(&path, e))?;
            }
        }
        if !self.args.json {
            self.print(seen, &cap, written, commits, delta_ratio, growth, long.as_ref())?;
        }
        if let Some(why) = seen.long.as_ref().and_then(|l| l.failure.as_ref()) {
            return Err(CliError::Failed(format!("the long transaction did not commit: {why}")));
        }
        // Merges that do not wait until they are due have no cap.
        let is_capped = !(self.args.quick && self.args.old_snapshot);
        if is_capped && bytes_a_commit > cap.bytes() {
            let (is, may) = (bytes_a_commit as u64, cap.bytes() as u64);
            return Err(CliError::Failed(format!(
                "the drive programmed {is} bytes a commit, and the cap is {may}"
            )));
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "all are parts of one report")]
    fn print(
        &self,
        seen: &Seen,
        cap: &Cap,
        written: Written,
        commits: u64,
        delta_ratio: f64,
        growth: Option<Growth>,
        long: Option<&Beside>,
    ) -> CliResult {
        let mut table = TextTable::new(&[
            ">minute",
            ">commits/s",
            ">p50 ms",
            ">p99 ms",
            ">most ms",
            ">delta rows",
            ">delta",
            ">resident",
            ">live",
            ">on disk",
            ">merges",
            ">KB a commit",
        ]);
        let ms = |us: f64| format!("{:.2}", us / 1e3);
        let step = self.told.len().div_ceil(LINES);
        for s in self.told.iter().skip(step - 1).step_by(step.max(1)) {
            let g = &s.gauges;
            table.row([
                format!("{:.1}", s.minutes),
                format!("{:.0}", s.rate),
                ms(s.p50_us),
                ms(s.p99_us),
                ms(s.max_us),
                count(g.delta_rows),
                bytes(g.delta_bytes),
                bytes(g.resident_bytes),
                bytes(g.live_bytes),
                bytes(g.disk_bytes),
                count(g.merges),
                format!("{:.1}", s.written.all as f64 / s.commits.max(1) as f64 / 1e3),
            ]);
        }
        let each = |n: u64| n as f64 / commits.max(1) as f64;
        let mut causes = TextTable::new(&["bytes a commit", ">measured", ">cap"]);
        let g = cap.collection;
        let moved = (g - 1.0) * (cap.leaves + cap.merges) + g * cap.redo;
        for (name, is, may) in [
            ("log", each(written.log), cap.log),
            ("leaves", each(written.leaves), cap.leaves),
            ("merges", each(written.merges), cap.merges),
            ("moved by GC and from the log", each(written.moved), moved),
            ("other", each(written.other()), cap.other),
        ] {
            causes.row([name.to_string(), format!("{is:.0}"), format!("{may:.0}")]);
        }
        causes.rule();
        causes.row(["all".into(), format!("{:.0}", each(written.all)), format!("{:.0}", cap.bytes())]);
        let mut text = format!("{}{}", table.render(), causes.render());
        text += &format!(
            "Write amplification {:.0} for entries of {:.0} bytes, and its cap {:.0}. The delta came to {:.2} of its cap.\n",
            each(written.all) / cap.entry.max(1.0),
            cap.entry,
            cap.amplification(),
            delta_ratio,
        );
        if let Some(g) = growth {
            text += &format!(
                "The last quarter beside the second: delta {:.2}, resident {:.2}, p99 {:.2}, on disk {:.2}.\n",
                g.delta, g.resident, g.p99, g.disk
            );
        }
        text += &format!(
            "{} kills, at most {:.0} ms to the first row after one. Every acknowledged update was there.\n",
            seen.reopened.len(),
            seen.reopen_ms_max(),
        );
        if let Some(long) = long {
            text += &long.text();
        }
        if self.args.old_snapshot {
            text += &format!("The old snapshot answered the same after {} merges.\n", count(seen.checks));
        }
        println_quietly(text.trim_end())
    }
}

/// The most lines of samples for people.
const LINES: usize = 24;

/// Short commits with and without the long transaction.
struct Beside {
    long: Long,
    /// Commits per second, and the median of the intervals' p99 in microseconds.
    with: (f64, f64),
    without: (f64, f64),
}

impl Beside {
    fn of(samples: &[Sample], long: &Long) -> Self {
        let of = |open: bool| {
            let chosen = || samples.iter().filter(move |s| s.is_long_open == open);
            (median(chosen().map(|s| s.rate)), median(chosen().map(|s| s.p99_us)))
        };
        Self { long: long.clone(), with: of(true), without: of(false) }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "long": self.long, "rate_with": self.with.0, "p99_us_with": self.with.1,
            "rate_without": self.without.0, "p99_us_without": self.without.1,
        })
    }

    fn text(&self) -> String {
        format!(
            "The long transaction wrote {} times in {:.0} s to its own {OWN_ROWS} rows and {} in {:.1} ms. Short commits beside it: {:.0} a second, p99 \
             {:.2} ms; without it {:.0} a second, {:.2} ms (medians of intervals).\n",
            count(self.long.writes),
            self.long.seconds,
            if self.long.failure.is_none() { "committed" } else { "did not commit" },
            self.long.commit_ms,
            self.with.0,
            self.with.1 / 1e3,
            self.without.0,
            self.without.1 / 1e3,
        )
    }
}
