//! `lode paper`: what papers published, beside ours.
//!
//! ```text
//!   PAPERS ─► a command for each paper: its options, its help ─► Report ─► text or JSON lines, and files
//! ```

use std::path::PathBuf;

use clap::builder::PathBufValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use lode_bench::paper::report::write;
use lode_bench::paper::{Figure, PAPERS, Paper, Report, Scale, SizeOption, Stop};

use crate::error::CliResult;
use crate::interrupt;
use crate::script::println_quietly;

/// Rerun a paper's experiments, published figures beside ours
#[derive(clap::Args)]
#[command(
    long_about = "Rerun a paper's experiments, published figures beside ours, with the ratio.",
    after_long_help = examples(&PAPERS.iter().flat_map(|p| p.examples).collect::<Vec<_>>())
)]
pub(crate) struct Args {
    #[command(subcommand)]
    chosen: Chosen,
}

/// A paper, and what is asked of it.
struct Chosen {
    paper: &'static Paper,
    figure: Option<&'static Figure>,
    scale: Scale,
    json: bool,
    out: Option<PathBuf>,
}

impl Subcommand for Chosen {
    fn augment_subcommands(cmd: Command) -> Command {
        cmd.subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(PAPERS.iter().map(|paper| command(paper)))
    }

    fn augment_subcommands_for_update(cmd: Command) -> Command {
        Self::augment_subcommands(cmd)
    }

    fn has_subcommand(name: &str) -> bool {
        PAPERS.iter().any(|p| p.name == name)
    }
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(m: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, m) = m.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        let paper = PAPERS.iter().find(|p| p.name == name);
        let paper = paper.ok_or_else(|| clap::Error::new(ErrorKind::InvalidSubcommand))?;
        let asked = |s: &SizeOption| Some((s.name, *m.get_one::<u64>(s.name)?));
        Ok(Self {
            paper,
            figure: m.get_one::<&Figure>("figure").copied(),
            scale: Scale {
                quick: m.get_flag("quick"),
                sizes: paper.sizes().into_iter().filter_map(asked).collect(),
            },
            json: m.get_flag("json"),
            out: m.get_one::<PathBuf>("out").cloned(),
        })
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
            examples(&paper.examples.iter().collect::<Vec<_>>()),
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

fn examples(lines: &[&&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("\n    lode paper {line}")).collect();
    format!("EXAMPLES{lines}")
}

pub(crate) fn run(args: Args) -> CliResult {
    let Chosen { paper, figure, scale, json, out } = args.chosen;
    let stop = Stop::when(|| interrupt::signal().is_some());
    let report = Report::run(paper, figure, &scale, &stop, |_| ())?;
    let files = out.as_ref().map(|_| report.files()).transpose()?;
    if let (Some(dir), Some(files)) = (&out, &files) {
        write(dir, files)?;
    }
    if json {
        return println_quietly(report.json_lines().trim_end());
    }
    println_quietly(&report.to_string())?;
    match (out, files) {
        (Some(dir), Some(files)) => {
            let names: Vec<_> = files.iter().map(|f| f.name.as_str()).collect();
            println_quietly(&format!("\nWrote {} into {}.", names.join(", "), dir.display()))
        }
        _ => Ok(()),
    }
}
