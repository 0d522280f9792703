//! Fig. 9, Scan: a range of l_shipdate by each access path.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::Part;
use lode_sql::Offload;

use super::expected::sorted_range;
use super::rig::{Rig, TABLE, Took};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "scan",
    about: "Fig. 9, Scan: a range of l_shipdate by each access path",
    claim: "Against the tree in the host, FLIXR-S takes 8 % longer on scans, and FLIXR-HS makes 75 % more of them in the same time.",
    setup: "sum(l_extendedprice) of the rows of a day, a month and a year, from an empty buffer pool. lineitem lies in order of l_shipdate, in row \
            pages of 16 KB. The host filters the rows of the pages that a path finds.",
    expected: "Every path but none reads the pages of the range alone. FLIXR-S looks at the entry of each page of the table; levels \
               look at some for 1,024 pages each; the tree reads nodes.",
    differs: "The paper's tree has an entry for each row, with page and slot; Lode's has one for each page and value, so it is smaller. \
              So the published ratios are not compared.",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// Ranges: a name, the first day since 1970, days. Each begins in the middle of the data.
const RANGES: [(&str, i32, i32); 3] = [("a day", 9131, 1), ("a month", 9131, 31), ("a year", 9131, 365)];

struct System {
    name: &'static str,
    path: &'static str,
    level: Offload,
    published: Option<f64>,
    note: &'static str,
}

const SYSTEMS: [System; 5] = [
    System {
        name: "no index",
        path: "none",
        level: Offload::Off,
        published: None,
        note: "all pages to the host",
    },
    System {
        name: "tree by page",
        path: "btree",
        level: Offload::Index,
        published: None,
        note: "a B+-tree in the host, which names pages",
    },
    System {
        name: "FLIXR-S",
        path: "flixr_s",
        level: Offload::Index,
        published: Some(0.92),
        note: "one decision a page, in the drive",
    },
    System {
        name: "levels",
        path: "page_index",
        level: Offload::Index,
        published: None,
        note: "ours: unions of entries for 1,024 and for 32 pages come first",
    },
    System {
        name: "levels, rows from the drive",
        path: "page_index",
        level: Offload::Rows,
        published: None,
        note: "ours: the drive filters, too, and sends the rows that pass",
    },
];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for (name, first, days) in RANGES {
        let sql = format!(
            "SELECT sum(l_extendedprice) FROM {TABLE} WHERE l_shipdate >= DATE '1970-01-01' + {first} \
             AND l_shipdate < DATE '1970-01-01' + {}",
            first + days
        );
        let mut took = Vec::new();
        for system in &SYSTEMS {
            run.go_on()?;
            took.push(Rig::of(run)?.run(&sql, system.path, system.level)?);
        }
        let rig = Rig::of(run)?;
        let (before, within, all) = rig.rows(first, days);
        let pages = took[0].counts.pages;
        let by_arithmetic = sorted_range(before, within, all as f64 / pages as f64);
        let x = || X::Name(name.into());
        rows.push(Row::new(
            Method::Arithmetic,
            "pages of the range",
            x(),
            "pages",
            "",
            by_arithmetic,
            &format!("{within} of {all} rows, {:.1} on each of {pages} pages", all as f64 / pages as f64),
        ));
        let tree = took[1].time.as_secs_f64();
        for (system, took) in SYSTEMS.iter().zip(&took) {
            rows.push(row(system, x(), "time", "ms", took.time.as_secs_f64() * 1e3, &spent(took)));
            rows.push(row(system, x(), "pages", "", took.pages_read as f64, system.note));
            rows.push(Row {
                published: system.published,
                aim: Aim::NotCompared,
                ..row(system, x(), "scans beside the tree", "x", tree / took.time.as_secs_f64(), system.note)
            });
        }
    }
    Ok(rows)
}

fn row(system: &System, x: X, metric: &str, unit: &'static str, ours: f64, note: &str) -> Row {
    Row::new(Method::Executed, system.name, x, metric, unit, ours, note)
}

/// What the time was spent on.
fn spent(took: &Took) -> String {
    let all = took.split.total().as_secs_f64();
    let parts = Part::ALL.map(|p| (p, took.split.of(p).as_secs_f64() / all));
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, part)| *part >= 0.01)
        .map(|(p, part)| format!("{p} {:.0} %", part * 100.0))
        .collect();
    parts.join(", ")
}
