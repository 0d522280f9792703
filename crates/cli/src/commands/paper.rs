//! `lode paper`: what papers published, beside ours.
//!
//! ```text
//!   PAPERS ─► a command for each paper: its options, its help ─► Report ─► text or JSON lines, and files
//!        └──► all ────────────────────────────────► Report, Report, ... ─► one page, and files
//! ```

use std::path::{Path, PathBuf};

use clap::builder::PathBufValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches, Subcommand};
use lode_bench::paper::page::{Build, Commit, page};
use lode_bench::paper::report::{FigureReport, ReportFile, write};
use lode_bench::paper::{Figure, PAPERS, Paper, Report, Scale, SizeOption, Stop};

use crate::error::CliResult;
use crate::interrupt;
use crate::script::println_quietly;

/// Rerun a paper's experiments, published figures beside ours
#[derive(clap::Args)]
#[command(
    long_about = "Rerun a paper's experiments, published figures beside ours, with the ratio.",
    after_long_help = examples(PAPERS.iter().flat_map(|p| p.examples).chain(ALL_EXAMPLES))
)]
pub(crate) struct Args {
    #[command(subcommand)]
    chosen: Chosen,
}

/// What is run.
enum Chosen {
    /// A paper.
    One(One),
    /// All of them.
    All(All),
}

/// A paper, and what is asked of it.
struct One {
    paper: &'static Paper,
    figure: Option<&'static Figure>,
    scale: Scale,
    json: bool,
    out: Option<PathBuf>,
}

/// The name of the command that runs all papers.
const ALL: &str = "all";
const ALL_EXAMPLES: &[&str] = &["all --out report", "all --out report --quick"];
/// The page that it writes.
const PAGE: &str = "index.html";

/// All papers, as one page
#[derive(clap::Args)]
#[command(
    long_about = "All papers, as one HTML page: every figure and table, published beside ours, with the ratio, whether it is \
        met, what differs and why, and how to run it again. The page needs no network and no other file.",
    after_long_help = format!(
        "{}\n\nFILES OF --out\n    {PAGE}, and those of each paper: see 'lode paper NAME --help'. They are written when all papers \
         are done.\n\nCOMMIT\n    The page says from which commit this program was built. The program knows it only if the variable \
         LODE_COMMIT was set when it was built, or --commit gives it.",
        examples(ALL_EXAMPLES)
    )
)]
struct All {
    /// Write the page, CSV, JSON and plots (SVG) into this directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Small data and few points, to see that everything runs
    #[arg(long)]
    quick: bool,

    /// The commit that this program was built from, for the page
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
}

impl Subcommand for Chosen {
    fn augment_subcommands(cmd: Command) -> Command {
        cmd.subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(PAPERS.iter().map(|paper| command(paper)))
            .subcommand(All::augment_args(Command::new(ALL)))
    }

    fn augment_subcommands_for_update(cmd: Command) -> Command {
        Self::augment_subcommands(cmd)
    }

    fn has_subcommand(name: &str) -> bool {
        name == ALL || PAPERS.iter().any(|p| p.name == name)
    }
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(m: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, m) = m.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        if name == ALL {
            return All::from_arg_matches(m).map(Self::All);
        }
        let paper = PAPERS.iter().find(|p| p.name == name);
        let paper = paper.ok_or_else(|| clap::Error::new(ErrorKind::InvalidSubcommand))?;
        let asked = |s: &SizeOption| Some((s.name, *m.get_one::<u64>(s.name)?));
        Ok(Self::One(One {
            paper,
            figure: m.get_one::<&Figure>("figure").copied(),
            scale: Scale {
                quick: m.get_flag("quick"),
                sizes: paper.sizes().into_iter().filter_map(asked).collect(),
            },
            json: m.get_flag("json"),
            out: m.get_one::<PathBuf>("out").cloned(),
        }))
    }

    fn update_from_arg_matches(&mut self, m: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(m)?;
        Ok(())
    }
}

/// The command of a paper.
fn command(paper: &'static Paper) -> Command {
    let names: Vec<&str> = paper.figures.iter().map(|f| f.name).collect();
    let (last, others) = names.split_last().expect("a paper has figures");
    let figures = match others {
        [] => (*last).to_string(),
        _ => format!("{} or {last}", others.join(", ")),
    };
    let find = move |name: &str| -> Result<&'static Figure, String> {
        paper.figure(name).ok_or_else(|| format!("the figures are {}", names.join(", ")))
    };
    let flag = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let mut command = Command::new(paper.name)
        .about(paper.about)
        .long_about(format!("{}.\n\n{}", paper.citation, paper.text))
        .after_long_help(format!(
            "{}\n\nFILES OF --out\n    {}; with --figure, those of that figure only.\n\nJSON ROWS\n    \
             One object a line: paper, figure, series, x, metric, unit, published (null where the paper gives only a plot), \
             ours, note.",
            examples(paper.examples),
            paper.files().join(", ")
        ))
        .arg(
            Arg::new("figure")
                .long("figure")
                .value_name("F")
                .value_parser(find)
                .help(format!("One figure only: {figures}")),
        )
        .arg(flag("quick").help(paper.quick));
    for size in paper.sizes() {
        command = command.arg(size_arg(size));
    }
    command.arg(flag("json").help("Write JSON, one object a line")).arg(
        Arg::new("out")
            .long("out")
            .value_name("DIR")
            .value_parser(PathBufValueParser::new())
            .help("Write CSV, JSON and plots (SVG) into this directory too"),
    )
}

/// The option of a size.
fn size_arg(size: &'static SizeOption) -> Arg {
    let allowed = &size.allowed;
    let parse = move |text: &str| -> Result<u64, String> {
        let number = text.parse().ok().filter(|n| allowed.contains(n));
        number.ok_or_else(|| format!("{} to {} are allowed", allowed.start(), allowed.end()))
    };
    Arg::new(size.name)
        .long(size.name)
        .value_name("N")
        .value_parser(parse)
        .conflicts_with("quick")
        .help(format!("{} [default: {}]", size.about, size.default))
        .long_help(format!("{}\n\n[default: {}]", size.about, size.default))
}

fn examples<'a>(lines: impl IntoIterator<Item = &'a &'a str>) -> String {
    let lines: String = lines.into_iter().map(|line| format!("\n    lode paper {line}")).collect();
    format!("EXAMPLES{lines}")
}

pub(crate) fn run(args: Args) -> CliResult {
    let stop = Stop::when(|| interrupt::signal().is_some());
    match args.chosen {
        Chosen::One(args) => one(args, &stop),
        Chosen::All(args) => all(&args, &stop),
    }
}

fn one(One { paper, figure, scale, json, out }: One, stop: &Stop) -> CliResult {
    let report = Report::run(paper, figure, &scale, stop, |_| ())?;
    let files = out.as_ref().map(|_| report.files()).transpose()?;
    if let (Some(dir), Some(files)) = (&out, &files) {
        write(dir, files)?;
    }
    if json {
        return println_quietly(report.json_lines().trim_end());
    }
    println_quietly(&report.to_string())?;
    match (out, files) {
        (Some(dir), Some(files)) => println_quietly(&format!("\n{}", wrote(&files, &dir))),
        _ => Ok(()),
    }
}

fn all(args: &All, stop: &Stop) -> CliResult {
    // A directory that cannot be made is told before minutes of work.
    write(&args.out, &[])?;
    let scale = Scale { quick: args.quick, ..Scale::default() };
    let (mut reports, mut files) = (Vec::new(), Vec::new());
    for paper in PAPERS {
        let mut shown = Ok(());
        let show = |f: &FigureReport| {
            if shown.is_ok() {
                let line = format!("{} {}: {} rows", paper.name, f.figure.name, f.rows.len());
                shown = println_quietly(&line);
            }
        };
        let report = Report::run(paper, None, &scale, stop, show)?;
        shown?;
        files.extend(report.files()?);
        reports.push(report);
    }
    let content = page(&reports, &build(args))?;
    files.insert(0, ReportFile { name: PAGE.into(), content });
    write(&args.out, &files)?;
    println_quietly(&wrote(&files, &args.out))
}

/// What this program is, and how the page is made again.
fn build(args: &All) -> Build {
    let commit = match (&args.commit, option_env!("LODE_COMMIT")) {
        (Some(commit), _) => Commit::OfUser(commit.clone()),
        (None, Some(commit)) if !commit.is_empty() => Commit::OfBuild(commit.into()),
        _ => Commit::Unknown,
    };
    let quick = if args.quick { " --quick" } else { "" };
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit,
        command: format!("lode paper {ALL} --out DIR{quick}"),
    }
}

fn wrote(files: &[ReportFile], dir: &Path) -> String {
    let names: Vec<_> = files.iter().map(|f| f.name.as_str()).collect();
    format!("Wrote {} into {}.", names.join(", "), dir.display())
}
