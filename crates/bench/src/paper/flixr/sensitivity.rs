//! Values of the profile that are assumed or estimated, halved and doubled: which ratios move, and whether the winner changes.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::{Profile, VirtualDuration};
use lode_firmware::DriveOptions;

use super::changes;
use super::fig9::months;
use super::rig::{NODES, Rig, TABLE};
use super::systems::{CLUSTERED, FLIXR_HS, FLIXR_S, LEVELS, System, TREE_OF_PAGES, TREE_OF_ROWS};
use super::tpcc;
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "sensitivity",
    about: "Assumed values halved and doubled: scans of a month, inserts, TPC-C",
    claim: "The paper publishes neither what a command costs nor how long a core takes for an entry.",
    setup: "Eight scans of a month of lineitem at scale 0.05, ten inserts of ten rows at 0.01, ten transactions on a tenth of a warehouse (months at 0.01 in a quick run). One value of the profile at a time is halved and doubled. A row is a ratio with the \
            value as it is, and its note has the other two.",
    expected: "What all configurations pay, such as the time of a command, moves ratios towards 1. The order of the configurations stays.",
    differs: "",
    sizes: &[NODES],
    rows,
    plot: None,
};

/// A value, and how it is multiplied.
struct Assumed {
    name: &'static str,
    scale: fn(&mut Profile, f64),
}

fn time(t: &mut VirtualDuration, times: f64) {
    *t = VirtualDuration::from_ps((t.as_ps() as f64 * times) as u64);
}

fn cycles(n: &mut u32, times: f64) {
    *n = (f64::from(*n) * times) as u32;
}

const ASSUMED: [Assumed; 8] = [
    Assumed { name: "host command_ns", scale: |p, x| time(&mut p.host.command, x) },
    Assumed {
        name: "host filter_ns and scan_ns",
        scale: |p, x| {
            time(&mut p.host.filter, x);
            time(&mut p.host.scan, x);
        },
    },
    Assumed { name: "host node_ns", scale: |p, x| time(&mut p.host.node, x) },
    Assumed { name: "host entry_ns", scale: |p, x| time(&mut p.host.entry, x) },
    Assumed {
        name: "link command_ns and completion_ns",
        scale: |p, x| {
            time(&mut p.link.command, x);
            time(&mut p.link.completion, x);
        },
    },
    Assumed { name: "cores command_cycles", scale: |p, x| cycles(&mut p.cores.command_cycles, x) },
    Assumed { name: "cores lookup_cycles", scale: |p, x| cycles(&mut p.cores.lookup_cycles, x) },
    Assumed { name: "cores index_cycles", scale: |p, x| cycles(&mut p.cores.index_cycles, x) },
];

const WORKLOADS: [&str; 3] = ["months", "inserts", "TPC-C"];
const SCALE: f64 = 0.05;
const INSERTS: usize = 10;
const QUICK_SCALE: f64 = 0.01;
const SYSTEMS: [&System; 6] = [&TREE_OF_ROWS, &FLIXR_S, &FLIXR_HS, &TREE_OF_PAGES, &CLUSTERED, &LEVELS];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let usual = times(run, run.profile())?;
    let mut rows = Vec::new();
    let assumed = if run.quick() { &ASSUMED[..1] } else { &ASSUMED[..] };
    for assumed in assumed {
        let mut moved = Vec::new();
        for factor in [0.5, 2.0] {
            let mut profile = run.profile().clone();
            (assumed.scale)(&mut profile, factor);
            moved.push(times(run, &profile)?);
        }
        for (w, workload) in WORKLOADS.iter().enumerate() {
            let moved: Vec<&[f64]> = moved.iter().map(|m| &m[w][..]).collect();
            rows.extend(of_workload(workload, assumed, &usual[w], &moved));
        }
    }
    Ok(rows)
}

fn of_workload(workload: &str, assumed: &Assumed, usual: &[f64], moved: &[&[f64]]) -> Vec<Row> {
    let winner = |times: &[f64]| {
        let fastest = SYSTEMS.iter().zip(times).min_by(|a, b| a.1.total_cmp(b.1));
        fastest.expect("there are some").0.name
    };
    let (usually, stays) = (winner(usual), moved.iter().all(|m| winner(m) == winner(usual)));
    let says = if stays { format!("{usually} wins in all") } else { "the winner changes".into() };
    let row = |(n, system): (usize, &&System)| {
        let ratio = |times: &[f64]| times[0] / times[n];
        let note = format!("{:.3} if halved, {:.3} if doubled; {says}", ratio(moved[0]), ratio(moved[1]));
        let x = X::Name(format!("{workload}: {}", assumed.name));
        Row::new(Method::Executed, system.name, x, "rate beside the tree of rows", "x", ratio(usual), &note)
    };
    SYSTEMS.iter().enumerate().skip(1).map(row).collect()
}

/// The time that each configuration takes for each workload.
fn times(run: &Run<'_>, profile: &Profile) -> Result<[Vec<f64>; 3], BenchError> {
    let percent = run.size(&NODES);
    Ok([of_months(run, profile)?, of_inserts(run, profile)?, tpcc::times(profile, &SYSTEMS, percent)?])
}

fn of_inserts(run: &Run<'_>, profile: &Profile) -> Result<Vec<f64>, BenchError> {
    let mut times = Vec::new();
    let mut with_trees = Rig::with(profile, QUICK_SCALE, DriveOptions::default())?;
    with_trees.table(TABLE)?;
    let (days, node_bytes) = (with_trees.days(), with_trees.tree_bytes() * run.size(&NODES) / 100);
    for system in SYSTEMS {
        run.go_on()?;
        let mut rig = Rig::with(profile, QUICK_SCALE, DriveOptions::default())?;
        times.push(changes::times(&mut rig, system, node_bytes, days, INSERTS)?.insert);
    }
    Ok(times)
}

fn of_months(run: &Run<'_>, profile: &Profile) -> Result<Vec<f64>, BenchError> {
    run.go_on()?;
    let scale = if run.quick() { QUICK_SCALE } else { SCALE };
    let mut rig = Rig::with(profile, scale, DriveOptions::default())?;
    rig.table(TABLE)?;
    let statements = months(&rig);
    let percent = run.size(&NODES);
    let mut times = Vec::new();
    for system in SYSTEMS {
        rig.with_nodes(percent, system)?;
        rig.run(&statements[0], system)?;
        times.push(rig.run_all(&statements, system)?.ms());
    }
    Ok(times)
}
