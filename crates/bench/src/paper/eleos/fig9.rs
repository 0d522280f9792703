//! Fig. 9: pages of TPC-C written a second over the size of the write buffer.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::pages::{Page, pool};
use super::rig::{Rig, Setup, System};
use super::shared::{curves, row};
use super::table2::SEEDS;
use super::workload::{Writes, write};
use crate::BenchError;
use crate::drive_host::DriveError;
use crate::paper::figure::{Figure, Plot};
use crate::paper::plot::{Axis, Heading};
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig9",
    about: "Fig. 9: pages of TPC-C written per second over the size of the write buffer",
    claim: "The larger the buffer, the more batching helps. Variable pages reach about twice the rate of fixed ones.",
    setup: "The platform in modelled time, one buffer at a time, as the paper's single thread.",
    expected: "Both curves rise. Variable pages lie above fixed ones, and the paper's blocks below both at every size.",
    differs: "The paper's device stays at 85 MB/s \"mainly due to the relatively weak storage controller\", which handles each byte of \
              its sockets. The profile has a cost for each command and none for each byte of a socket, so programs and buses \
              are the bound. Rates differ for that reason; the paper gives them as a plot only. Pipelined blocks are ours: in buffers of \
              128 to 512 KB they write more than batches.",
    sizes: &[],
    rows,
    plot: Some(Plot { draw: plot, by: &[Method::Executed] }),
};

const SYSTEMS: [System; 4] =
    [System::BatchVariable, System::BatchFixed, System::BlockPipelined, System::Block];
const METRIC: &str = "write throughput";
/// The number of pages that are written repeatedly.
const PAGES: u64 = 16_384;
/// Sizes of buffers, in KB.
const BUFFERS: [usize; 6] = [64, 128, 256, 512, 1024, 4096];
const BUFFERS_QUICK: [usize; 3] = [64, 256, 1024];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let pool: Vec<Page> = pool(SEEDS.0);
    let buffers: &[usize] = if run.quick() { &BUFFERS_QUICK } else { &BUFFERS };
    let bytes = if run.quick() { 4 << 20 } else { 64 << 20 };
    let mut rows = Vec::new();
    for system in SYSTEMS {
        for &kb in buffers {
            run.go_on()?;
            let rate = one(run, &pool, system, kb << 10, bytes)?;
            let note = "modelled: 16 channels, one buffer at a time; the paper has only a plot";
            rows.push(row(system.name(), X::Number(kb as f64), METRIC, "pages/s", rate, note));
        }
    }
    let rate = |system: System, kb: usize| {
        let of_it = |r: &&Row| r.series == system.name() && r.x == X::Number(kb as f64);
        rows.iter().find(of_it).map_or(0.0, |r| r.ours)
    };
    let largest = buffers[buffers.len() - 1];
    let twice = rate(System::BatchVariable, largest) / rate(System::BatchFixed, largest);
    let growth = rate(System::BatchVariable, largest) / rate(System::BatchVariable, buffers[0]);
    let over = rate(System::BatchVariable, 1024) / rate(System::Block, 1024);
    let best = rate(System::BatchVariable, 1024) / rate(System::BlockPipelined, 1024);
    let ratio = |series: &str, ours, published, note: &str| Row {
        published,
        ..row(series, X::None, "ratio", "", ours, note)
    };
    rows.push(ratio(
        "Batch (VP) to Batch (FP)",
        twice,
        Some(2.0),
        "at the largest buffer; the text says approximately twice",
    ));
    rows.push(ratio(
        "Batch (VP), largest to smallest buffer",
        growth,
        None,
        "batching larger buffers helps more",
    ));
    rows.push(ratio("Batch (VP) to Block", over, None, "at 1 MB; packets one by one, each with its commit"));
    rows.push(ratio("Batch (VP) to Block, pipelined", best, None, "at 1 MB; packets share commits"));
    Ok(rows)
}

/// Pages per second of modelled time.
fn one(run: &Run<'_>, pool: &[Page], system: System, buffer: usize, bytes: usize) -> Result<f64, DriveError> {
    let setup = Setup {
        profile: run.profile().clone(),
        modelled: true,
        eblock_count: 256,
        eblock_bytes: run.profile().geometry.eblock_bytes(),
        pages: PAGES,
        segment_blocks: 1020,
        store_cleans: true,
        power: false,
        loopback: false,
    };
    let whole = system.whole_pages();
    let mut rig = Rig::new(system, &setup)?;
    let mut writes = Writes::new(pool, PAGES, SEEDS.1);
    let pages = (bytes / 2048) as u64;
    write(&mut rig, &mut writes, buffer, whole, pages / 4)?;
    let begin = rig.now();
    let (pages, _) = write(&mut rig, &mut writes, buffer, whole, pages)?;
    Ok(pages as f64 / rig.now().since(begin).as_secs_f64())
}

/// The figure.
///
/// # Errors
/// When it cannot be drawn.
pub fn plot(rows: &[Row]) -> Result<String, BenchError> {
    let heading = Heading {
        title: "ELEOS Fig. 9: TPC-C page writes over the write buffer".into(),
        subtitle: "Executed in modelled time, one buffer at a time; FP: pages of 4 KB, VP: as they compress"
            .into(),
    };
    let ticks: Vec<f64> = vec![64.0, 256.0, 1024.0, 4096.0];
    let x = Axis { label: "write buffer (KB)".into(), ticks, from: 64.0, to: 4096.0, log: true };
    curves(rows, METRIC, heading, x, "thousand pages/s", 1e3)
}
