//! Table 1: the reads of Q2's plans without and with an index on the filter's columns.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::rig::{Rig, Took};
use super::systems::{ENABLED, System};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The table.
pub const FIGURE: Figure = Figure {
    name: "table1",
    about: "Table 1: reads of two plans of Q2",
    claim: "With the filtered table first, Q2 takes 144,453 reads instead of 3,531,060.",
    setup: "The outermost query of Q2, without its subquery, by index nested loops over row pages of 16 KB, from an empty buffer pool of 7.5 % of the \
            data. The orders are those of a real MariaDB. Pages are times 100 / scale.",
    expected: "Without the index partsupp and part take nearly all of the reads: one for each row that is looked up and not in the pool.",
    differs: "Reads of indexes are not told apart by table. The paper's 245 reads of part are those of the index alone: the rows of the 8,000 \
              parts per unit of scale must have been in the pool.",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// Q2 without its subquery.
const TOP: &str = "SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment \
                   FROM part, supplier, partsupp, nation, region \
                   WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS' \
                   AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'";

/// Reads of the paper's tables: region, nation, supplier, partsupp, part, all.
type Published = [(&'static str, f64); 6];

const WITHOUT: Published = [
    ("region", 16.0),
    ("nation", 13.0),
    ("supplier", 36_867.0),
    ("partsupp", 2_842_639.0),
    ("part", 651_525.0),
    ("all", 3_531_060.0),
];

const WITH: Published = [
    ("part", 245.0),
    ("partsupp", 98_520.0),
    ("supplier", 45_679.0),
    ("nation", 5.0),
    ("region", 4.0),
    ("all", 144_453.0),
];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    run.go_on()?;
    let rig = Rig::of(run)?;
    let q2 = ENABLED.iter().find(|q| q.number == 2).expect("Q2 is filtered early");
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for (system, published) in [(System::MySql, &WITHOUT), (System::Icp, &WITH), (System::IcpWarm, &WITH)] {
        let took = system.run_sql(rig, q2, TOP)?;
        rows.extend(of_plan(system, &took, published, 100.0 / rig.scale()));
        all.push(reads(&took));
    }
    rows.push(Row {
        published: Some(3_531_060.0 / 144_453.0),
        ..Row::new(
            Method::Executed,
            System::Icp.name(),
            X::Name("all".into()),
            "fewer reads",
            "x",
            all[0] as f64 / all[1] as f64,
            "reads of rows and of indexes",
        )
    });
    Ok(rows)
}

fn reads(took: &Took) -> u64 {
    took.reads.iter().map(|(_, pages)| pages).sum::<u64>() + took.node_reads
}

fn of_plan(system: System, took: &Took, published: &Published, times: f64) -> Vec<Row> {
    let row = |x: &str, published: Option<f64>, pages: u64, note: &str| Row {
        published,
        aim: match published {
            // A table of few pages; the number of the plan is compared once.
            Some(p) if p < 100.0 || system == System::IcpWarm => Aim::NotCompared,
            _ => Aim::Equal,
        },
        ..Row::new(
            Method::Executed,
            system.name(),
            X::Name(x.into()),
            "reads at scale 100",
            "",
            pages as f64 * times,
            note,
        )
    };
    let of = |table: &str| took.reads.iter().find(|(t, _)| *t == table).map_or(0, |(_, pages)| *pages);
    let mut rows: Vec<Row> = published
        .iter()
        .map(|&(table, reads_published)| match table {
            "all" => row(table, Some(reads_published), reads(took), "reads of rows and of indexes"),
            _ => row(
                table,
                Some(reads_published),
                of(table),
                "pages of rows; a table of few pages has as many at any scale",
            ),
        })
        .collect();
    rows.insert(5, row("indexes", None, took.node_reads, "nodes of B+-trees, of all tables"));
    rows
}
