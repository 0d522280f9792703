//! Fig. 9, Insert and Delete: rows of random days by each configuration, and a scan after them.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use std::fmt::Write;

use lode_base::random::Random;
use lode_engine::TreePlace;

use super::rig::{NODES, Order, Rig, scan};
use super::systems::{FLIXR_HS, FLIXR_S, NO_INDEX, System, TREE_IN_DRIVE, TREE_OF_PAGES, TREE_OF_ROWS};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig9-changes",
    about: "Fig. 9, Insert and Delete: rows of random days by each configuration",
    claim: "Against the tree in the host FLIXR-S makes 58 % and FLIXR-HS 39 % more inserts in the same time; without an index it makes the most. \
            FLIXR-HS makes 30 % more deletes, FLIXR-S 8 % fewer. A tree in the drive is behind the one in the host on both.",
    setup: "Each configuration has a table of its own: lineitem in order of l_shipdate without a primary key, with a page index unless it has no \
            index, and the tree that it searches. 100 transactions insert ten rows \
            of random days each. Then eight months are scanned, as they were before. Then eight transactions delete the rows of a day each.",
    expected: "An insert fills the last page and is durable when it is answered, so that each configuration programs a page and its log. A tree \
               of rows changes ten leaves more, whose changes are in the log, and reads those that memory does not hold. After inserts the last \
               pages have rows of all days, so that their ranges leave them in.",
    differs: "The paper does not say how many rows a transaction has, nor when it is durable. Tables with a tree have the page index besides, \
              which takes the drive 30 cycles a page.",
    sizes: &[scales::PERCENT, NODES],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

const SYSTEMS: [&System; 6] = [&TREE_OF_ROWS, &NO_INDEX, &TREE_IN_DRIVE, &FLIXR_S, &FLIXR_HS, &TREE_OF_PAGES];
const TABLE: &str = "changed";
const INSERTS: usize = 100;
const ROWS: usize = 10;
const DELETES: usize = 8;
const SEED: u64 = 58;

/// The time of each kind of work, in milliseconds.
pub(super) struct Times {
    scan_before: f64,
    pub(super) insert: f64,
    nodes_read: u64,
    scan: f64,
    delete: f64,
}

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let (percent, profile) = (run.size(&NODES), run.profile());
    let shared = Rig::of(run)?;
    shared.table(super::rig::TABLE)?;
    let (scale, days) = (shared.scale().factor(), shared.days());
    let node_bytes = shared.tree_bytes() * percent / 100;
    let mut all = Vec::new();
    for system in SYSTEMS {
        run.go_on()?;
        let mut rig = Rig::with(profile, scale, lode_firmware::DriveOptions::default())?;
        let inserts = if run.quick() { INSERTS / 4 } else { INSERTS };
        all.push(times(&mut rig, system, node_bytes, days, inserts)?);
    }
    let mut rows = Vec::new();
    for (system, times) in SYSTEMS.iter().zip(&all) {
        let tree = &all[0];
        let mut add = |what: &str, of: fn(&Times) -> f64, published: Option<f64>, note: &str| {
            let row = |metric: &str, unit, ours, note: &str| {
                Row::new(Method::Executed, system.name, X::Name(what.into()), metric, unit, ours, note)
            };
            rows.push(row("time", "ms", of(times), note));
            let beside = row("rate beside the tree of rows", "x", of(tree) / of(times), system.note);
            let aim = if published.is_some() { Aim::Equal } else { Aim::NotCompared };
            rows.push(Row { published, aim, ..beside });
        };
        let (insert, delete) = match system.name {
            "FLIXR-S" => (Some(1.58), Some(0.92)),
            "FLIXR-HS" => (Some(1.39), Some(1.3)),
            _ => (None, None),
        };
        add("insert", |t| t.insert, insert, &format!("{} nodes read", times.nodes_read));
        let widened = format!("{:.3} times the time before the inserts", times.scan / times.scan_before);
        add("scan after inserts", |t| t.scan, None, &widened);
        add("delete", |t| t.delete, delete, "");
    }
    Ok(rows)
}

/// What a system takes for all of them, in a rig without this table.
pub(super) fn times(
    rig: &mut Rig,
    system: &System,
    node_bytes: u64,
    days: (i32, i32),
    inserts: usize,
) -> Result<Times, BenchError> {
    rig.bare_table(TABLE, Order::ByKey, system.path != NO_INDEX.path)?;
    let index =
        |entries: &str| format!("CREATE INDEX by_day ON {TABLE} (l_shipdate) WITH (entries = '{entries}')");
    if system.path == TREE_OF_PAGES.path {
        rig.execute(&index("pages"))?;
    } else if system.path.starts_with("tree_") {
        rig.execute(&index("rows"))?;
    }
    rig.with_nodes_of(TABLE, node_bytes, system)?;
    let r = &mut Random::of_seed(SEED);
    let mut day = || days.0 + r.below((days.1 - days.0 - 31) as u64) as i32;
    let scans: Vec<String> = (0..DELETES).map(|_| scan(TABLE, day(), 31)).collect();
    rig.run(&scans[0], system)?;
    let scan_before = rig.run_all(&scans, system)?.ms();
    let in_drive = system.path == TREE_IN_DRIVE.path;
    if in_drive {
        rig.host().search_trees_in(TreePlace::Device);
    }
    let inserts: Vec<String> = (0..inserts).map(|n| insert(n, &mut day)).collect();
    let inserted = rig.change_all(&inserts, system)?;
    rig.host().search_trees_in(TreePlace::Host);
    let scan = rig.run_all(&scans, system)?.ms();
    if in_drive {
        rig.host().search_trees_in(TreePlace::Device);
    }
    let deletes: Vec<String> = (0..DELETES).map(|_| delete(day())).collect();
    let deleted = rig.change_all(&deletes, system)?;
    let (insert, nodes_read, delete) = (inserted.ms(), inserted.nodes_read, deleted.ms());
    Ok(Times { scan_before, insert, nodes_read, scan, delete })
}

fn delete(day: i32) -> String {
    format!("DELETE FROM {TABLE} WHERE l_shipdate = DATE '1970-01-01' + {day}")
}

fn insert(n: usize, day: &mut impl FnMut() -> i32) -> String {
    let mut sql = format!("INSERT INTO {TABLE} VALUES ");
    for row in 0..ROWS {
        let (key, shipped) = (10_000_000 + n * ROWS + row, format!("DATE '1970-01-01' + {}", day()));
        let comma = if row > 0 { ", " } else { "" };
        write!(
            sql,
            "{comma}({key}, {row}, 7, {row}, 17, 12345.67, 0.05, 0.02, 'N', 'O', {shipped}, {shipped}, {shipped}, \
             'DELIVER IN PERSON', 'TRUCK', 'furiously even ideas sleep')"
        )
        .expect("a string takes it");
    }
    sql
}
