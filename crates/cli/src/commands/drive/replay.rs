//! `lode drive replay`: replays a trace, or a workload generated from a seed, on a drive with a profile, in modelled
//! time.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lode_base::Profile;
use lode_bench::BenchError;
use lode_bench::replay::{Outcome, Plan, Progress, Source, When, Workload, run as run_plan};
use lode_bench::trace::replay::{Figures, ReplayError, Scale};
use lode_bench::trace::synthetic::Pattern;
use lode_bench::trace::{Action, FORMATS, Fault, Format, Options, TRANSFER_BYTES_MAX, TraceError, TraceTime};
use lode_firmware::{DriveOptions, GcPolicy};
use serde::Serialize as _;

use super::info::binary;
use crate::commands::bench::gc::{parse_policy, policy_names};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::{TextTable, bytes, count, parse_bytes};

/// Replay a trace on a modelled drive: rates, latencies, write amplification, energy
#[derive(clap::Args)]
#[command(
    long_about = "Replay a trace on a modelled drive: rates, latencies, write amplification, energy.\n\n\
        A new drive in memory, on the device of a profile, takes the requests of a trace as a conventional SSD with blocks \
        of 4 KB would. All times are those of the modelled device. In an open loop, requests come at their time stamps, \
        and a request that waits because the queue is full counts its wait. In a closed loop, a request comes as soon as \
        fewer than --depth are under way. With --synthetic, they are generated from a seed.\n\n\
        A new drive is empty, and reads of blocks that were never written read no flash. --fill and --overwrite \
        first make it a used drive; that work is not measured. The drive keeps only metadata in memory, not the \
        data.\n\n\
        The command checks itself: it fails unless every request ends exactly once, Little's law holds, and no part \
        of the device is busy for longer than the run.",
    after_long_help = "EXAMPLES\n    lode drive replay trace.csv\n    \
        lode drive replay --capacity 4GB --fill 90 --overwrite 2 --depth 32 trace.csv\n    \
        lode drive replay --scale 0.5 --device 8,0 --wrap --json trace.blkparse > replay.json\n    \
        lode drive replay --synthetic zipf:0.99 --reads 70 --requests 50000 --fill 80 --depth 16\n\n\
        FORMATS\n    msr: MSR-Cambridge CSV; blkparse: its default text; iolog: fio's, version 2 (without time stamps) or 3;\n    \
        lode: a line 'lode trace 1', then lines 'PICOSECONDS read|write|trim OFFSET LENGTH' or 'PICOSECONDS flush'.\n    \
        Time must never go back. Every request must lie on the drive, unless --wrap folds it back.\n\n\
        PROFILES\n    The name of a shipped profile, or a file. profiles/README.md says what each key is.\n\n\
        JSON\n    One object: trace, profile, seed and the other options; span_ps, mean_in_flight; all, reads, writes, trims, \
        flushes (requests, bytes, iops, bytes_a_second, latency: mean_ps, min_ps, p50_ps, p95_ps, p99_ps, p99_9_ps, \
        p99_99_ps, max_ps); resources (utilisation of each); littles_law; device (write_amplification, gc_share, \
        erase_count_min and _max, energy_j by part). The same command line gives the same output, to the last digit."
)]
pub(super) struct Args {
    /// The trace, or - for standard input
    #[arg(value_name = "TRACE", required_unless_present = "synthetic", conflicts_with = "synthetic")]
    trace: Option<PathBuf>,

    /// The device: the name of a shipped profile, or the file of one
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_PROFILE)]
    profile: String,

    /// Bytes of flash, rounded up to whole EBLOCKs; by default as many as the profile says
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, allow_negative_numbers = true)]
    capacity: Option<u64>,

    /// Share of the EBLOCKs that is never filled, in percent; by default 7
    #[arg(long, value_name = "P", default_value_t = DriveOptions::default().over_provision_percent,
          hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=50), allow_negative_numbers = true)]
    over_provisioning: u32,

    #[arg(long, value_name = "POLICY", value_parser = parse_policy,
          help = format!("The GC policy: {}", policy_names(" (the default)")))]
    gc: Option<GcPolicy>,

    /// Share of the drive to fill before the replay, in percent
    #[arg(long, value_name = "P", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=100),
          allow_negative_numbers = true)]
    fill: u32,

    /// How many times to overwrite the filled part before the replay, at random
    #[arg(long, value_name = "TIMES", default_value = "0", requires = "fill", value_parser = parse_times,
          allow_negative_numbers = true)]
    overwrite: f64,

    /// Closed loop: keep N requests under way
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), allow_negative_numbers = true)]
    depth: Option<u32>,

    /// Open loop: multiply time stamps by X, such as 0.5 for twice as fast; 1 is the default
    #[arg(long, value_name = "X", value_parser = parse_scale, conflicts_with_all = ["depth", "synthetic"],
          allow_negative_numbers = true)]
    scale: Option<Scale>,

    /// The format of the trace: lode, iolog, msr or blkparse; by default detected from its first line
    #[arg(long, value_name = "NAME", value_parser = parse_format, conflicts_with = "synthetic")]
    format: Option<Chosen>,

    /// In a trace of several devices, the one to replay: 8,0 (blkparse), hm_0 (msr), or a file (iolog)
    #[arg(long, value_name = "DEVICE", conflicts_with = "synthetic")]
    device: Option<String>,

    /// In a blkparse trace, the event that counts as the request: Q (queued, the default), I, D or C
    #[arg(long, value_name = "LETTER", value_parser = parse_action, conflicts_with = "synthetic")]
    action: Option<Action>,

    /// Fold requests past the end of the drive back into it
    #[arg(long, conflicts_with = "synthetic")]
    wrap: bool,

    /// Only the first N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "synthetic",
          allow_negative_numbers = true)]
    limit: Option<u64>,

    /// A workload instead of a trace: sequential, uniform, zipf or zipf:THETA; over what --fill filled, or the whole drive
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern)]
    synthetic: Option<Pattern>,

    /// Share of reads among the workload's requests, in percent
    #[arg(long, value_name = "P", default_value = "50", conflicts_with = "trace",
          value_parser = clap::value_parser!(u8).range(0..=100), allow_negative_numbers = true)]
    reads: u8,

    /// Bytes per request of the workload
    #[arg(long, value_name = "SIZE", default_value = "4KiB", conflicts_with = "trace", value_parser = parse_block,
          allow_negative_numbers = true)]
    block: u64,

    /// Number of requests of the workload
    #[arg(long, value_name = "N", default_value = "100000", conflicts_with = "trace",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000), allow_negative_numbers = true)]
    requests: u64,

    /// Open loop: requests of the workload per second
    #[arg(long, value_name = "IOPS", conflicts_with_all = ["trace", "depth"],
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), allow_negative_numbers = true)]
    rate: Option<u64>,

    /// The seed of the random choices of --overwrite and --synthetic
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true)]
    seed: u64,

    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// The default profile.
const DEFAULT_PROFILE: &str = "isp-adms11";
/// The largest value of `--overwrite`.
const OVERWRITES_MAX: f64 = 1000.0;
/// Picoseconds per second.
const SECOND_PS: u64 = 1_000_000_000_000;
/// The width of the column of names below the table.
const NAME_WIDTH: usize = 12;
/// The width of the text.
const WIDTH: usize = 110;

#[derive(Clone, Copy, Debug)]
struct Chosen(&'static Format);

fn parse_format(name: &str) -> Result<Chosen, String> {
    let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    Format::by_name(name).map(Chosen).ok_or_else(|| format!("the formats are {}", names()))
}

fn parse_action(letter: &str) -> Result<Action, String> {
    Action::by_letter(letter).ok_or_else(|| "the events are Q, I, D and C".into())
}

fn parse_scale(text: &str) -> Result<Scale, String> {
    Scale::parse(text).ok_or_else(|| "a factor is a number such as 0.5 or 2, with up to nine places".into())
}

fn parse_times(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|n: &f64| (0.0..=OVERWRITES_MAX).contains(n));
    times.ok_or_else(|| format!("it must be a number from 0 to {OVERWRITES_MAX}"))
}

fn parse_block(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        n if n > TRANSFER_BYTES_MAX => Err("a request has at most 1 GiB".into()),
        n => Ok(n),
    }
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let theta = |t: &str| t.parse().ok().filter(|t: &f64| *t > 0.0 && *t <= 10.0);
    match text.split_once(':') {
        None if text == "sequential" => Ok(Pattern::Sequential),
        None if text == "uniform" => Ok(Pattern::Uniform),
        None if text == "zipf" => Ok(Pattern::Zipf { theta: 0.99 }),
        Some(("zipf", t)) => theta(t)
            .map(|theta| Pattern::Zipf { theta })
            .ok_or_else(|| "the exponent of zipf must be above 0 and at most 10".into()),
        _ => Err("the patterns are sequential, uniform, zipf and zipf:THETA".into()),
    }
}

pub(super) fn run(args: Args) -> CliResult {
    if let Some(addr) = args.trace.as_ref().filter(|t| lode::drive::address(t).is_some()) {
        let what = "a replay reads a trace; its drive is a new one in memory, in modelled time, and none that is served";
        return Err(CliError::Usage(format!("{}: {what}", addr.display())));
    }
    let plan = plan(&args)?;
    // Errors of requests name the trace. Other errors are the device's.
    let name = args.trace.clone().unwrap_or_else(|| PathBuf::from("the workload"));
    let display = Display::new()?;
    let stop = |p: Progress| {
        display.show(p);
        interrupt::signal().is_some()
    };
    let outcome = run_plan(&plan, source(&args)?, &stop);
    display.clear();
    let outcome = outcome.map_err(|e| failed(&name, args.device.as_deref(), e))?;
    match args.json {
        true => println_quietly(&json(&args, &outcome)?),
        false => println_quietly(describe(&name, &outcome).trim_end()),
    }
}

fn plan(args: &Args) -> CliResult<Plan> {
    let when = match (args.depth.and_then(NonZeroU32::new), args.scale) {
        (Some(depth), _) => When::Closed(depth),
        (None, Some(scale)) => When::Stamps(scale),
        (None, None) => When::AsTraced,
    };
    let mut options =
        DriveOptions { over_provision_percent: args.over_provisioning, ..DriveOptions::default() };
    if let Some(policy) = &args.gc {
        options.gc_policy = policy.clone();
    }
    Ok(Plan {
        profile: profile(&args.profile)?,
        capacity_bytes: args.capacity,
        options,
        fill_percent: args.fill,
        overwrites: args.overwrite,
        seed: args.seed,
        when,
        limit: args.limit,
    })
}

fn profile(name: &str) -> CliResult<Profile> {
    if name == "none" {
        let what =
            "--profile none is no device: nothing takes time on it, and a replay has nothing to measure";
        return Err(CliError::Failed(what.into()));
    }
    Profile::find(name).map_err(|e| CliError::Failed(e.to_string()))
}

fn source(args: &Args) -> CliResult<Source<Box<dyn BufRead>>> {
    let Some(path) = &args.trace else {
        return Ok(Source::Workload(Workload {
            pattern: args.synthetic.expect("clap wants a trace or a workload"),
            read_percent: args.reads,
            block_bytes: args.block,
            requests: args.requests,
            interval: TraceTime::from_ps(args.rate.map_or(0, |rate| SECOND_PS / rate)),
        }));
    };
    let options = Options {
        format: args.format.map(|f| f.0),
        capacity: None,
        wrap: args.wrap,
        device: args.device.clone(),
        action: args.action.unwrap_or_default(),
    };
    let reader: Box<dyn BufRead> = match path.as_os_str() == "-" {
        true => Box::new(BufReader::new(Waiting(io::stdin()))),
        false => Box::new(BufReader::new(File::open(path).map_err(|e| CliError::file(path, e))?)),
    };
    Ok(Source::Trace(reader, options))
}

/// Standard input. While the command waits for it, no work is in hand, so an interrupt ends the process at once.
struct Waiting(io::Stdin);

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        interrupt::idle(|| self.0.read(buffer))
    }
}

/// Turns an error of the requests into one that names the trace and the option that helps.
fn failed(name: &Path, device: Option<&str>, e: BenchError) -> CliError {
    let BenchError::Replay(replay) = &e else { return e.into() };
    if let (ReplayError::Trace(TraceError::Empty { lines }), Some(device)) = (replay, device) {
        return CliError::file(name, format!("no request to {device} in its {lines} lines"));
    }
    let help = match replay {
        ReplayError::Trace(TraceError::Line { fault: Fault::PastEnd { .. }, .. }) => {
            " (--wrap folds it back, --capacity makes the device larger)"
        }
        ReplayError::Trace(TraceError::Line { fault: Fault::SecondDevice { .. }, .. }) => " (--device)",
        ReplayError::Trace(TraceError::Line { fault: Fault::NoFormat { .. }, .. }) => " (--format)",
        _ => "",
    };
    CliError::file(name, format!("{e}{help}"))
}

/// A progress bar on a terminal. If the number of requests is unknown, it shows a count.
struct Display(Option<RefCell<Bar>>);

struct Bar {
    bar: ProgressBar,
    replaying: Option<bool>,
}

impl Display {
    fn new() -> CliResult<Self> {
        if !io::stderr().is_terminal() {
            return Ok(Self(None));
        }
        let bar = ProgressBar::no_length();
        Ok(Self(Some(RefCell::new(Bar { bar, replaying: None }))))
    }

    fn show(&self, p: Progress) {
        let Some(shown) = &self.0 else { return };
        let shown = &mut *shown.borrow_mut();
        let (replaying, done, of) = match p {
            Progress::Precondition(done, of) => (false, done, Some(of)),
            Progress::Replay(done, of) => (true, done, of),
        };
        if shown.replaying != Some(replaying) {
            shown.replaying = Some(replaying);
            let what = if replaying { "requests" } else { "blocks written before" };
            let template = match of {
                Some(_) => format!("[{{bar:40}}] {{percent:>3}} %  {{human_pos}} {what}  {{eta}} left"),
                None => format!("{{spinner}} {{human_pos}} {what}"),
            };
            let style = ProgressStyle::with_template(&template).expect("the template is well-formed");
            shown.bar.set_style(style.progress_chars("=> "));
            shown.bar.reset();
            shown.bar.enable_steady_tick(Duration::from_millis(200));
            match of {
                Some(of) => shown.bar.set_length(of),
                None => shown.bar.unset_length(),
            }
        }
        shown.bar.set_position(done);
    }

    fn clear(&self) {
        if let Some(shown) = &self.0 {
            shown.borrow().bar.finish_and_clear();
        }
    }
}

fn json(args: &Args, outcome: &Outcome) -> CliResult<String> {
    let failed = |e: serde_json::Error| CliError::Failed(e.to_string());
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut out);
    let trace = args.trace.as_ref().map(|t| t.display().to_string());
    Named { trace, outcome }.serialize(&mut serializer).map_err(failed)?;
    Ok(String::from_utf8(out).expect("JSON is text"))
}

/// An outcome with the name of its trace.
#[derive(serde::Serialize)]
struct Named<'a> {
    trace: Option<String>,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

fn describe(name: &Path, o: &Outcome) -> String {
    let mut out = String::new();
    for (name, value) in [("requests", requests(name, o)), ("drive", drive(o))] {
        out += &line(name, &value);
    }
    out += &format!("\n{}\n", table(o));
    for (name, value) in lines(o) {
        out += &line(name, &value);
    }
    out
}

/// Stands between a number and its unit, where a line must not break.
const NO_BREAK: char = '\u{a0}';

/// A name and a text, wrapped between words.
fn line(name: &str, text: &str) -> String {
    let mut out = format!("{name:NAME_WIDTH$}");
    let mut column = NAME_WIDTH;
    for word in text.split(' ') {
        if column + 1 + word.chars().count() > WIDTH {
            let _ = write!(out, "\n{:NAME_WIDTH$}", "");
            column = NAME_WIDTH;
        }
        out += &format!(" {word}");
        column += 1 + word.chars().count();
    }
    out.replace(NO_BREAK, " ") + "\n"
}

fn requests(name: &Path, o: &Outcome) -> String {
    let what = match &o.synthetic {
        Some(made) => {
            let theta = made.theta.map_or(String::new(), |t| format!(" {t}"));
            format!(
                "{}{theta}, {} % reads, {} each, over {}, seed {}",
                made.pattern,
                made.read_percent,
                binary(made.block_bytes),
                bytes(made.region_bytes),
                o.seed
            )
        }
        None => format!("{} ({})", name.display(), o.format.unwrap_or("?")),
    };
    let pace = match (o.pace, o.scale) {
        ("open", Some(1.0)) => format!("open loop, at most {} under way", o.depth),
        ("open", scale) => {
            format!("open loop, time stamps times {}, at most {} under way", scale.unwrap_or(1.0), o.depth)
        }
        _ => format!("closed loop, {} under way", o.depth),
    };
    format!("{what}; {pace}")
}

fn drive(o: &Outcome) -> String {
    let before = match (o.fill_percent, o.overwrites) {
        (0, _) => "new".to_string(),
        (fill, 0.0) => format!("filled to {fill} %"),
        (fill, 1.0) => format!("filled to {fill} % and overwritten once, seed {}", o.seed),
        (fill, times) => format!("filled to {fill} % and overwritten {times} times, seed {}", o.seed),
    };
    format!(
        "{}, {} of blocks of 4 KB, {before}; GC by {}, {} % over-provisioned",
        o.profile,
        bytes(o.device.capacity_bytes),
        o.gc_policy,
        o.over_provision_percent
    )
}

fn table(o: &Outcome) -> String {
    let mut table = TextTable::new(&[
        "",
        ">requests",
        ">IOPS",
        ">MB/s",
        ">mean us",
        ">50 %",
        ">95 %",
        ">99 %",
        ">99.9 %",
        ">99.99 %",
        ">most us",
    ]);
    for (name, figures) in o.report.kinds() {
        if figures.requests > 0 {
            table.row(cells(name, figures));
        }
    }
    table.render()
}

fn cells(name: &str, f: &Figures) -> [String; 11] {
    let us = |ps: u64| format!("{:.1}", ps as f64 / 1e6);
    let rate = |v: Option<f64>, digits: usize| v.map_or_else(|| "-".into(), |v| format!("{v:.digits$}"));
    let iops = f.iops.map_or_else(|| "-".into(), |v| count(v.round() as u64));
    let latency = |of: fn(&lode_bench::trace::replay::Latency) -> u64| {
        f.latency.as_ref().map_or_else(|| "-".into(), |l| us(of(l)))
    };
    [
        name.into(),
        count(f.requests),
        iops,
        rate(f.bytes_a_second.map(|v| v / 1e6), 1),
        rate(f.latency.as_ref().map(|l| l.mean_ps / 1e6), 1),
        latency(|l| l.p50_ps),
        latency(|l| l.p95_ps),
        latency(|l| l.p99_ps),
        latency(|l| l.p99_9_ps),
        latency(|l| l.p99_99_ps),
        latency(|l| l.max_ps),
    ]
}

/// The lines below the table.
fn lines(o: &Outcome) -> Vec<(&'static str, String)> {
    let (r, d) = (&o.report, &o.device);
    let percent = |v: f64| format!("{:.1}{NO_BREAK}%", v * 100.0);
    let mut lines = vec![("time", format!("{} modelled", seconds(r.span_ps as f64 / 1e12)))];
    if let Some(law) = o.littles_law {
        lines.push((
            "under way",
            format!(
                "{:.3} on average; IOPS times latency at the device is {:.3} (Little's law)",
                law.in_flight, law.iops_times_latency
            ),
        ));
    }
    if r.at_host_ps_mean > 0.0 {
        let (host, device) = (r.at_host_ps_mean / 1e6, r.at_device_ps_mean / 1e6);
        lines.push((
            "waiting",
            format!("{host:.1} us of the mean latency passed before the queue had room, {device:.1} us at the device"),
        ));
    }
    let amplification = d.write_amplification.map_or_else(
        || "nothing was written".into(),
        |v| format!("{v:.3} (write amplification: bytes programmed for each that was written)"),
    );
    lines.push(("writes", amplification));
    let gc = match d.gc_share {
        Some(share) if d.gc_bytes_moved > 0 => {
            format!("moved {}, {} of what was programmed", bytes(d.gc_bytes_moved), percent(share))
        }
        _ => "moved nothing".into(),
    };
    lines.push(("GC", gc));
    lines.push((
        "flash",
        format!(
            "{} reads, {} programs, {} erasures",
            count(d.array_reads),
            count(d.programs),
            count(d.erasures)
        ),
    ));
    lines.push((
        "wear",
        format!("{} to {} erasures an EBLOCK since the drive was new", d.erase_count_min, d.erase_count_max),
    ));
    let parts: Vec<String> = d
        .energy_j
        .iter()
        .filter(|(_, j)| *j > 0.0)
        .map(|(name, j)| format!("{name} {}", percent(j / d.energy_j_total)))
        .collect();
    lines.push(("energy", format!("{:.4} J: {}", d.energy_j_total, parts.join(", "))));
    let parts: Vec<String> =
        r.resources.iter().map(|u| format!("{} {}", u.resource, percent(u.utilisation))).collect();
    lines.push(("busy", parts.join(", ")));
    if d.unwritten_blocks_read > 0 {
        lines.push((
            "note",
            format!(
                "blocks that were read and never written took no reading of flash, {} of 4 KB: see --fill",
                count(d.unwritten_blocks_read)
            ),
        ));
    }
    lines
}

/// Formats a time with a suitable unit.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.3} us", s * 1e6),
    }
}
