//! Fig. 9, Scan and Join: ranges of l_shipdate by each configuration, and their rows joined with part.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::random::Random;

use super::expected::{self, sorted_range};
use super::rig::{NODES, Rig, TABLE, Took, on_days, scan};
use super::systems::{HOST_TREE, SYSTEMS, Strongest, System};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig9",
    about: "Fig. 9, Scan and Join: ranges of l_shipdate by each configuration",
    claim: "Against the tree in the host, FLIXR-HS makes 75 % more scans and 40 % more joins in the same time, FLIXR-S 8 % fewer scans. The tree \
            is up to 3 times as fast as no index.",
    setup: "sum(l_extendedprice) of the rows of a day, a month and a year, each eight times from random days on, and the rows of a month joined \
            with part by l_partkey. lineitem lies in order of l_shipdate, in row pages of 16 KB, as does part in order of its key. Memory holds \
            a share of the tree's nodes, those that a search of the whole tree met last. The host filters the rows of the pages that a \
            configuration finds, but in the last one.",
    expected: "Every configuration but no index reads the pages of the range alone. FLIXR-S looks at the entry of each page of the table; \
               levels look at some for 1,024 pages each; a tree reads its leaves of the range. A clustered tree needs what FLIXR-HS does.",
    differs: "The paper does not say how many rows its scans found. The time of a node is that of a node of 4 KB, nodes have 16 KB.",
    sizes: &[scales::PERCENT, NODES],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// A workload: ranges of so many days, of rows that a statement looks at.
struct Workload {
    name: &'static str,
    days: i32,
    join: bool,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "scan of a day", days: 1, join: false },
    Workload { name: "scan of a month", days: 31, join: false },
    Workload { name: "scan of a year", days: 365, join: false },
    Workload { name: "join of a month", days: 31, join: true },
];

/// Statements of a workload.
const TIMES: usize = 8;
/// The seed of their days.
const SEED: u64 = 9;

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    let nodes = run.size(&NODES);
    let rig = Rig::of(run)?;
    [TABLE, "part"].into_iter().try_for_each(|table| rig.table(table))?;
    let (statements, pages): (Vec<_>, Vec<_>) = WORKLOADS.iter().map(|w| statements(rig, w)).unzip();
    let took = Rig::run_systems(run, &statements, nodes)?;
    for (n, workload) in WORKLOADS.iter().enumerate() {
        let x = || X::Name(workload.name.into());
        if !workload.join {
            let note = format!("of {TIMES} ranges, by the dates of the rows and the rows of a page");
            rows.push(Row::new(Method::Arithmetic, "pages of the ranges", x(), "pages", "", pages[n], &note));
        }
        let strongest = Strongest::of(SYSTEMS.into_iter().zip(took.iter().map(|of| of[n].ms())));
        for (system, of_system) in SYSTEMS.iter().zip(&took) {
            rows.extend(of_system_rows(workload, system, &of_system[n], took[0][n].ms(), strongest));
        }
    }
    Ok(rows)
}

/// Scans of months from random days on.
pub(super) fn months(rig: &Rig) -> Vec<String> {
    statements(rig, &WORKLOADS[1]).0
}

/// The statements of a workload, and the pages that they must read.
fn statements(rig: &Rig, workload: &Workload) -> (Vec<String>, f64) {
    let (first, last) = rig.days();
    let r = &mut Random::of_seed(SEED);
    let rows_per_page = expected::rows_per_page(rig.rows(first, last - first + 1).2, rig.pages());
    let mut pages = 0.0;
    let mut statement = |_| {
        let room = (last - first - workload.days).max(1) as u64;
        let from = first + r.below(room) as i32;
        let (before, within, _) = rig.rows(from, workload.days);
        pages += sorted_range(before, within, rows_per_page);
        match workload.join {
            false => scan(TABLE, from, workload.days),
            true => {
                let range = on_days(from, workload.days);
                format!("SELECT sum(p_size) FROM {TABLE} JOIN part ON l_partkey = p_partkey WHERE {range}")
            }
        }
    };
    let statements = (0..TIMES).map(&mut statement).collect();
    (statements, pages)
}

fn of_system_rows(
    workload: &Workload,
    system: &System,
    took: &Took,
    tree_ms: f64,
    strongest: Strongest,
) -> Vec<Row> {
    let row = |metric: &str, unit, ours, note: &str| {
        Row::new(Method::Executed, system.name, X::Name(workload.name.into()), metric, unit, ours, note)
    };
    let (published, aim) = published(workload, system);
    let nodes = format!("and {} nodes", took.nodes_read);
    let beside_tree = row("rate beside the tree of rows", "x", tree_ms / took.ms(), system.note);
    let mut rows = vec![
        row("time", "ms", took.ms(), &took.spent()),
        row("pages", "", took.pages_read as f64, &nodes),
        Row { published, aim, ..beside_tree },
    ];
    rows.extend(strongest.beside(system, workload.name, took.ms()));
    rows
}

/// What the paper has. It does not say how long its scans are: only a month counts.
fn published(workload: &Workload, system: &System) -> (Option<f64>, Aim) {
    let (scan, join) = match system.name {
        "FLIXR-HS" => (Some(1.75), Some(1.4)),
        "FLIXR-S" => (Some(0.92), None),
        "no index" => (Some(1.0 / 3.0), None),
        HOST_TREE => (None, None),
        _ => return (None, Aim::NotCompared),
    };
    let aim = match (workload.days, system.name) {
        (31, "no index") => Aim::AtMost,
        (31, _) => Aim::Equal,
        _ => Aim::NotCompared,
    };
    (if workload.join { join } else { scan }, aim)
}
