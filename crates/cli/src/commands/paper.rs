//! `lode paper`: what papers published, beside ours.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lode_base::Profile;
use lode_bench::paper::eleos;
use lode_bench::paper::isp::executed::Executor;
use lode_bench::paper::isp::{self, FIGURES, Figure};
use lode_bench::paper::report::{ReportFile, Row, Table, json_lines, wrapped, write};

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::script::println_quietly;
use crate::table::TextTable;

/// Rerun a paper's experiments, published figures beside ours
#[derive(clap::Args)]
#[command(
    long_about = "Rerun a paper's experiments, published figures beside ours, with the ratio.",
    after_long_help = "EXAMPLES\n    lode paper isp\n    lode paper isp --figure fig5 --json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Subcommand)]
enum Paper {
    /// Scans inside flash SSDs (Kim et al., ADMS 2011)
    #[command(
        long_about = "\"Fast, Energy Efficient Scan inside Flash Memory SSDs\" (Kim et al., ADMS 2011).\n\n\
            Figures 5 to 7 and tables 3 to 5, for the paper's platform (profile isp-adms11). Each of our figures is computed \
            twice. Calculated: by the paper's own equations (1) to (9), as written. Executed: a drive on the modelled device \
            stores a table of line items and scans it, and the device's clock gives the time. What the paper gives only as a \
            plot has no published figure.",
        after_long_help = "EXAMPLES\n    lode paper isp\n    lode paper isp --figure fig7 --out report\n    \
            lode paper isp --json > isp.jsonl\n\nFILES OF --out\n    isp.csv, isp.jsonl; isp-fig5.svg to isp-fig7.svg as \
            executed, isp-fig5-equations.svg to isp-fig7-equations.svg as calculated; with --figure, those of that figure only.\n\nJSON ROWS\n    One object a line: paper, figure, series, x, \
            metric, unit, published (null where the paper gives only a plot), ours, note."
    )]
    Isp(Isp),

    /// Batched writes of variable-size pages (Do et al., ICDE 2021)
    #[command(
        long_about = "\"Programming an SSD Controller to Support Batched Writes for Variable-Size Pages\" (Do, Luo, Lomet, ICDE \
            2021): ELEOS.\n\nTable II, figures 9 and 10a to c, and recovery, for the paper's platform (profile eleos-cnex): batches of \
            variable and of fixed pages, and blocks with a log-structured store in the host above them. Table II is bound by the \
            CPU and measured in wall time; everything else is modelled time. What the paper gives only as a plot has no \
            published figure.",
        after_long_help = "EXAMPLES\n    lode paper eleos --quick\n    lode paper eleos --figure fig10a --out report\n    \
            lode paper eleos --json > eleos.jsonl\n\nFILES OF --out\n    eleos.csv, eleos.jsonl; eleos-fig9.svg, eleos-fig10a.svg, \
            eleos-fig10b.svg; with --figure, those of that figure only.\n\nJSON ROWS\n    One object a line: paper, figure, series, x, metric, \
            unit, published (null where the paper gives only a plot), ours, note."
    )]
    Eleos(Eleos),
}

#[derive(clap::Args)]
struct Eleos {
    /// One figure only: table2, fig9, fig10a, fig10b, fig10c or recovery
    #[arg(long, value_name = "F", value_parser = parse_eleos_figure)]
    figure: Option<ChosenOfEleos>,

    /// Small data and few points: done in seconds, to see that it runs
    #[arg(long)]
    quick: bool,

    /// Records of the B-tree of figure 10, 250000 to 10000000 (the paper's number); time and memory grow with it
    #[arg(long, value_name = "N", default_value_t = eleos::Scale::RECORDS, conflicts_with = "quick", value_parser = parse_records)]
    records: u64,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    /// Write CSV, JSON and plots (SVG) into this directory too
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn parse_records(text: &str) -> Result<u64, String> {
    let allowed = eleos::Scale::RECORDS_ALLOWED;
    text.parse()
        .ok()
        .filter(|n| allowed.contains(n))
        .ok_or_else(|| format!("{} to {} are allowed", allowed.start(), allowed.end()))
}

#[derive(Clone, Copy)]
struct ChosenOfEleos(&'static eleos::Figure);

fn parse_eleos_figure(name: &str) -> Result<ChosenOfEleos, String> {
    let names = || eleos::FIGURES.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    let found = eleos::FIGURES.iter().find(|f| f.name == name);
    found.map(ChosenOfEleos).ok_or_else(|| format!("the figures are {}", names()))
}

#[derive(clap::Args)]
struct Isp {
    /// One figure only: fig5, fig6, fig7, table3, table4 or table5
    #[arg(long, value_name = "F", value_parser = parse_figure)]
    figure: Option<Chosen>,

    /// Execute on a table of 32,768 records instead of 262,144
    #[arg(long)]
    quick: bool,

    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,

    /// Write CSV, JSON and plots (SVG) into this directory too
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy)]
struct Chosen(&'static Figure);

fn parse_figure(name: &str) -> Result<Chosen, String> {
    let names = || FIGURES.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    FIGURES.iter().find(|f| f.name == name).map(Chosen).ok_or_else(|| format!("the figures are {}", names()))
}

/// Records of the table that is scanned.
const RECORDS: u64 = 1 << 18;
/// The same, when it is to be over soon.
const RECORDS_QUICK: u64 = 1 << 15;
/// Columns of text below a table.
const NOTE_WIDTH: usize = 100;

pub(crate) fn run(args: Args) -> CliResult {
    match args.paper {
        Paper::Isp(args) => isp(args),
        Paper::Eleos(args) => eleos(args),
    }
}

fn isp(args: Isp) -> CliResult {
    let profile = Profile::find(isp::PROFILE).map_err(|e| CliError::Failed(e.to_string()))?;
    let chosen = FIGURES.iter().filter(|f| args.figure.is_none_or(|only| only.0.name == f.name));
    let mut executor = Executor::new(&profile, if args.quick { RECORDS_QUICK } else { RECORDS })?;
    let mut figures: Vec<(&Figure, Vec<Row>)> = Vec::new();
    for figure in chosen {
        figures.push((figure, figure.rows(&mut executor)?));
    }
    let out = Out { json: args.json, dir: args.out.as_deref() };
    let files = out.dir.map(|_| isp::files(&figures)).transpose()?;
    let shown: Vec<(&str, &[Row])> = figures.iter().map(|(f, rows)| (f.about, &rows[..])).collect();
    out.tell(&shown, files)
}

fn eleos(args: Eleos) -> CliResult {
    let profile = Profile::find(eleos::PROFILE).map_err(|e| CliError::Failed(e.to_string()))?;
    let stopped = || interrupt::signal().is_some();
    let scale = eleos::Scale { quick: args.quick, records: args.records };
    let x = eleos::Experiment { profile: &profile, scale, stop: &stopped };
    let mut figures: Vec<(&eleos::Figure, Vec<Row>)> = Vec::new();
    for figure in eleos::FIGURES.iter().filter(|f| args.figure.is_none_or(|only| only.0.name == f.name)) {
        figures.push((figure, figure.rows(&x)?));
    }
    let out = Out { json: args.json, dir: args.out.as_deref() };
    let files = out.dir.map(|_| eleos::files(&figures)).transpose()?;
    let shown: Vec<(&str, &[Row])> = figures.iter().map(|(f, rows)| (f.about, &rows[..])).collect();
    out.tell(&shown, files)
}

/// How a report leaves.
struct Out<'a> {
    json: bool,
    dir: Option<&'a Path>,
}

impl Out<'_> {
    /// Figures with their headings, and the files that go to the directory, if there is one.
    fn tell(&self, figures: &[(&str, &[Row])], files: Option<Vec<ReportFile>>) -> CliResult {
        if let (Some(dir), Some(files)) = (self.dir, &files) {
            write(dir, files)?;
        }
        if self.json {
            return figures.iter().try_for_each(|(_, rows)| println_quietly(json_lines(rows).trim_end()));
        }
        let parts: Vec<String> = figures.iter().map(|(about, rows)| section(about, rows)).collect();
        println_quietly(parts.join("\n").trim_end())?;
        match (self.dir, files) {
            (Some(dir), Some(files)) => {
                let names: Vec<_> = files.iter().map(|f| f.name.as_str()).collect();
                println_quietly(&format!("\nWrote {} into {}.", names.join(", "), dir.display()))
            }
            _ => Ok(()),
        }
    }
}

/// A figure: heading, table, notes.
fn section(about: &str, rows: &[Row]) -> String {
    let content = Table::of(rows);
    let headings: Vec<&str> = content.headings.iter().map(String::as_str).collect();
    let mut table = TextTable::new(&headings);
    content.lines.into_iter().for_each(|line| table.row(line));
    let mut out = format!("{about}\n\n{}\n", table.render());
    for (at, note) in content.notes.iter().enumerate() {
        let number = format!("{:>3}  ", at + 1);
        out += &format!("{number}{}\n", wrapped(note, NOTE_WIDTH).replace('\n', "\n     "));
    }
    out
}
