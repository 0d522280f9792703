//! A figure of a paper that is not in Lode's table: how fast 8 channels of flash read.
//!
//! ```text
//!   profile ─► by arithmetic: 743 MB/s
//!          └─► executed: batch of pages ─► drive on the modelled device ─► one read of all ─► time of flash and buses
//! ```
//!
//! A figure is one `const FIGURE`; a paper is a `Paper` with some figures. `Report::run` runs any of them. In the tree the figure is
//! a file in the folder of its paper and a line in that paper's `figures`; the paper is a line in `PAPERS`. `docs/extending.md`
//! explains each step.
//!
//! `cargo run --release -p lode-bench --example figure`

use std::sync::Arc;

use lode_base::{EXTENT_PAGES, OwnerId, PageBuf, Part, Profile, Split};
use lode_bench::BenchError;
use lode_bench::drive_host::{DriveError, nth};
use lode_bench::paper::{Aim, Figure, Method, Paper, Report, Row, Run, Scale, Stop, X};
use lode_command::{Align, Batch, Command, Device, Outcome, PageWrite, ReadRequest, Reply, Until};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::{Model, Overlap};

/// The paper.
pub(crate) static PAPER: Paper = Paper {
    name: "flash",
    about: "The flash of a scan inside SSDs (Kim et al., ADMS 2011)",
    citation: "\"Fast, Energy Efficient Scan inside Flash Memory SSDs\" (Kim et al., ADMS 2011)",
    text: "One sentence of section 5.2.2, as an example of a figure.",
    profile: "isp-adms11",
    quick: "Read 512 pages instead of 4,096",
    examples: &["flash"],
    figures: &[FIGURE],
};

const FIGURE: Figure = Figure {
    name: "rate",
    about: "Section 5.2.2: what 8 channels of flash read",
    claim: "8 channels of 100 MB/s read 743 MB/s, less than their buses give.",
    setup: "8 KB pages on 8 ways of each channel; a round of 8 pages waits for tR once.",
    expected: "A little less than 8 x 100 MB/s.",
    differs: "",
    sizes: &[],
    rows,
    plot: None,
};

/// The rows of the figure: the published value, the value that follows from the paper's parameters, and that of a
/// drive.
fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let profile = run.profile();
    let published = |by, ours, note| Row {
        published: Some(743.0),
        aim: Aim::Equal,
        ..Row::new(by, "8 channels", X::None, "bandwidth", "MB/s", ours, note)
    };
    let mut rows = vec![published(
        Method::Arithmetic,
        by_arithmetic(profile),
        "8 pages over the bus, and tR once, per round",
    )];
    run.go_on()?;
    let pages = if run.quick() { 512 } else { 4096 };
    rows.push(published(
        Method::Executed,
        executed(profile, pages)?,
        "one read command; time of flash and buses alone",
    ));
    Ok(rows)
}

/// A round brings a page of each way of a channel: MB/s of all channels.
fn by_arithmetic(p: &Profile) -> f64 {
    let g = &p.geometry;
    let round_bytes = f64::from(g.rblock_bytes()) * f64::from(g.ways());
    let round_s = round_bytes / p.bus.rate.bytes_per_s() as f64 + p.nand.read.as_secs_f64();
    f64::from(g.channels()) * round_bytes / round_s / 1e6
}

/// A drive on the modelled device writes pages and reads them with one command: MB/s of flash and buses.
fn executed(p: &Profile, pages: u64) -> Result<f64, DriveError> {
    // As in the paper, no phase of a command overlaps with another.
    let model = Arc::new(Model::new(p.clone()).with_overlap(Overlap::Phases));
    let medium = Medium::memory(p.geometry).with_model(model.clone());
    let drive = Drive::format(medium, DriveOptions { log_copies: 1, ..DriveOptions::default() })?;
    let count = pages.div_ceil(EXTENT_PAGES as u64) as u32;
    let allocate = Command::AllocateExtents { owner: OwnerId::new(1), count };
    let (Reply::Extents(extents), _) = alone(&drive, &model, allocate)? else { unreachable!("it allocates") };
    let data = PageBuf::copy_from(&vec![7; p.geometry.rblock_bytes() as usize]);
    let write = |n| PageWrite { lpid: nth(&extents, n), data: data.clone(), align: Align::ReadUnit };
    let writes = (0..pages).map(write).collect();
    alone(&drive, &model, Command::Write(Batch { writes, ..Batch::default() }))?;
    let read = (0..pages).map(|n| ReadRequest { lpid: nth(&extents, n), range: None }).collect();
    let (_, split) = alone(&drive, &model, Command::Read { view: None, pages: read })?;
    let flash_s = split.of(Part::Media).as_secs_f64() + split.of(Part::Bus).as_secs_f64();
    Ok(pages as f64 * data.len() as f64 / flash_s / 1e6)
}

/// Runs one command on an idle device. Returns the reply, and the command's time by what it was spent on.
fn alone(drive: &Drive, model: &Model, command: Command) -> Result<(Reply, Split), DriveError> {
    let (mut queue, mut out) = (drive.open_queue(1)?, Vec::new());
    queue.submit(model.latest(), command).expect("the queue has room");
    queue.complete(model.latest(), Until::One, &mut out)?;
    let done = out.pop().expect("a command is under way");
    match done.outcome {
        Outcome::Done(reply) => Ok((reply?, done.split)),
        Outcome::Unit(_) => unreachable!("only scan tasks have units"),
    }
}

/// The report, of a quick or of a full run.
pub(crate) fn report(quick: bool) -> Result<Report, BenchError> {
    Report::run(&PAPER, None, &Scale { quick, ..Scale::default() }, &Stop::never(), |_| ())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), BenchError> {
    println!("{}", report(false)?);
    Ok(())
}
