//! Table II: pages of TPC-C written per second if the CPU is the bound.
//!
//! Claim, setup and expected shape: [`FIGURE`]. The drive in memory stands for the paper's "programmable SSD simulator".
//!
//! Rounds of all systems alternate, and each figure is the median of its rounds. Ratios are given by wall time and by the time
//! that the process was on a core, which other work on the machine changes less.
//!
//! *Block* is the paper's system: pages of 4 KB (52.73K of them are its 206 MB/s), a store that packs them into
//! segments, and 1 MB sent as packets of 15 blocks, one by one, each with its own context and its own commit. *Block,
//! pipelined* is the best that we can make of the same interface. It packs compressed pages, has all packets of a
//! buffer under way together, so that they share log groups of the drive, and cleans by cost and benefit. *Block,
//! page by page* has no store, as if a trace of page writes were replayed through a block interface.

use std::fs;
use std::time::Instant;

use super::pages::{Page, mean_bytes, pool};
use super::rig::{Rig, Setup, System};
use super::shared::row;
use super::workload::{Writes, write};
use crate::BenchError;
use crate::drive_host::DriveError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;

/// The table.
pub const FIGURE: Figure = Figure {
    name: "table2",
    about: "Table II: pages of TPC-C written per second, bound by the CPU",
    claim: "Batches of 1 MB write 8.5 times as many pages per second as the block interface, and 1.76 times as many with pages \
            of variable size as with fixed ones.",
    setup: "A drive in memory, so that only host, transport and firmware take time; the units of the platform. Host and drive \
            run on threads of their own, with TCP on the loopback between them; then again on one thread without a transport.",
    expected: "Batches of variable pages write most, then batches of fixed pages, then blocks.",
    differs: "The paper's rates were measured on another CPU. They stand beside ours. Only ratios are compared.",
    sizes: &[],
    rows,
    plot: None,
};

/// Bytes of a write buffer.
const BUFFER: usize = 1 << 20;
/// Erase units of the drive. Each channel has as many as it needs.
const EBLOCKS: u32 = 64;
/// The number of pages that are written repeatedly.
const PAGES: u64 = 16_384;
/// Seeds of pages and of writes.
pub(super) const SEEDS: (u64, u64) = (1, 3);

const SYSTEMS: [System; 7] = [
    System::Block,
    System::BatchFixed,
    System::BatchVariable,
    System::BlockPacked,
    System::BlockPipelined,
    System::BlockPages,
    System::BlockSequence,
];

/// The published pages per second and MB per second.
fn published(s: System) -> Option<(f64, f64)> {
    match s {
        System::Block => Some((52_730.0, 206.17)),
        System::BatchFixed => Some((255_030.0, 1015.86)),
        System::BatchVariable => Some((447_790.0, 992.39)),
        _ => None,
    }
}

/// One system, and the rates of its rounds.
struct Side<'a> {
    rig: Rig,
    writes: Writes<'a>,
    whole: bool,
    /// Pages per second of wall time.
    wall: Vec<f64>,
    /// Pages per second of CPU time.
    core: Vec<f64>,
    bytes_a_page: f64,
}

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let pool: Vec<Page> = pool(SEEDS.0);
    let mut rows = race(run, &pool, true)?;
    rows.extend(race(run, &pool, false)?);
    Ok(rows)
}

/// Runs all systems in turn, over the loopback or without a transport.
fn race(run: &Run<'_>, pool: &[Page], loopback: bool) -> Result<Vec<Row>, DriveError> {
    // The number of pages before the measurement, of pages per round, and of rounds.
    let (before, round, rounds) = if run.quick() { (8_000, 4_000, 3) } else { (320_000, 40_000, 9) };
    let setup = Setup {
        profile: run.profile().clone(),
        modelled: false,
        eblock_count: EBLOCKS,
        eblock_bytes: run.profile().geometry.eblock_bytes(),
        pages: PAGES,
        segment_blocks: 1020,
        store_cleans: true,
        power: false,
        loopback,
    };
    let mut sides = Vec::new();
    for system in SYSTEMS {
        let whole = system.whole_pages();
        let mut rig = Rig::new(system, &setup)?;
        let mut writes = Writes::new(pool, PAGES, SEEDS.1);
        // Every part of the medium is written once before the measurement, because fresh memory costs the kernel
        // time. Page by page, each page takes a WBLOCK, and its log record takes another.
        let before = match system {
            System::BlockPages => before / 16,
            _ if whole => before / 2,
            _ => before,
        };
        write(&mut rig, &mut writes, BUFFER, whole, before)?;
        run.go_on()?;
        sides.push(Side { rig, writes, whole, wall: Vec::new(), core: Vec::new(), bytes_a_page: 0.0 });
    }
    for _ in 0..rounds {
        for s in &mut sides {
            run.go_on()?;
            let (begin, on_core) = (Instant::now(), core_ns());
            let (pages, bytes) = write(&mut s.rig, &mut s.writes, BUFFER, s.whole, round)?;
            s.wall.push(pages as f64 / begin.elapsed().as_secs_f64());
            if let (Some(a), Some(b)) = (on_core, core_ns()) {
                s.core.push(pages as f64 * 1e9 / b.saturating_sub(a).max(1) as f64);
            }
            s.bytes_a_page = bytes as f64 / pages as f64;
        }
    }
    Ok(report(&sides, mean_bytes(pool), loopback))
}

fn report(sides: &[Side<'_>], mean: f64, loopback: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let (place, about) = match loopback {
        true => (X::None, "host and drive on threads of their own, TCP on the loopback between them"),
        false => (X::Name("in process".into()), "host and drive on one thread, no transport"),
    };
    let wall = |series: &str, metric: &str, unit, ours, note: &str| Row {
        by: Method::Measured,
        ..row(series, place.clone(), metric, unit, ours, note)
    };
    // The paper has a network between the two.
    let if_papers = |published: Option<f64>| published.filter(|_| loopback);
    let rounds = sides[0].wall.len();
    let about = format!(
        "{about}; medium in memory; pages compress to {mean:.0} bytes on average; median of {rounds} rounds"
    );
    for s in sides {
        let (rate, name) = (median(&s.wall), s.rig.system.name());
        let published = published(s.rig.system);
        let pages = wall(name, "write throughput", "pages/s", rate, &about);
        rows.push(Row { published: if_papers(published.map(|p| p.0)), aim: Aim::NotCompared, ..pages });
        let note = "bytes of pages as they are stored; the paper's 992 MB/s are more than 447.79K pages of 1.91 KB amount to";
        let bytes = wall(name, "write bandwidth", "MB/s", rate * s.bytes_a_page / 1e6, note);
        rows.push(Row { published: if_papers(published.map(|p| p.1)), aim: Aim::NotCompared, ..bytes });
        if !s.core.is_empty() {
            let note = "pages per second that threads of the process were on a core";
            rows.push(wall(name, "write throughput of a core", "pages/s", median(&s.core), note));
        }
    }
    let of = |system: System| sides.iter().find(|s| s.rig.system == system).expect("it ran");
    let pairs = [
        (System::BatchVariable, System::Block, Some(447.79 / 52.73)),
        (System::BatchFixed, System::Block, Some(255.03 / 52.73)),
        (System::BatchVariable, System::BatchFixed, Some(447.79 / 255.03)),
        (System::BatchVariable, System::BlockPacked, None),
        (System::BatchVariable, System::BlockPipelined, None),
        (System::BatchFixed, System::BlockPipelined, None),
        (System::BatchVariable, System::BlockPages, None),
        (System::BatchFixed, System::BlockPages, None),
        (System::BlockPipelined, System::BlockSequence, None),
        (System::Block, System::BlockSequence, None),
    ];
    for (a, b, published) in pairs {
        let name = format!("{} to {}", a.name(), b.name());
        let note = match (a, b) {
            (System::Block, System::BlockSequence) => {
                "pages per second, relative to plain blocks in sequence with packets side by side: what sending packets one by one costs"
            }
            (_, System::BlockSequence) => {
                "pages per second, relative to plain blocks in sequence: the store packs two pages where they have one"
            }
            (_, System::BlockPacked) => {
                "against the paper's store with compressed pages packed, two where it has one"
            }
            (_, System::BlockPipelined) => {
                "against the best that we can make of blocks: packets share the drive's commits"
            }
            (_, System::BlockPages) => "against blocks without a store: a command and a commit for each page",
            _ => "of pages per second; the published ratio is computed from the paper's pages per second",
        };
        let published = if_papers(published);
        let by_wall = median(&of(a).wall) / median(&of(b).wall);
        rows.push(Row { published, aim: Aim::AtLeast, ..wall(&name, "ratio", "", by_wall, note) });
        if !of(a).core.is_empty() {
            let by_core = median(&of(a).core) / median(&of(b).core);
            let by_core = wall(&name, "ratio by time on a core", "", by_core, note);
            rows.push(Row { published, aim: Aim::AtLeast, ..by_core });
        }
    }
    rows
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The CPU time of the process in nanoseconds, if the system reports it.
fn core_ns() -> Option<u64> {
    let of = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    };
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let all: Vec<u64> = tasks.filter_map(|t| of(t.ok()?)).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}
