//! Fig. 4: the share of time that the tree of rows takes, by how many of its nodes are in memory.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::queries::{QUERIES, statement};
use super::rig::{NODES, Rig};
use super::systems::{CLUSTERED, TREE_OF_ROWS};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig4",
    about: "Fig. 4: the share of time that the tree of rows takes",
    claim: "The host-side index takes 47.5 % of the time on average, and 63 % in TPC-C.",
    setup: "Q1, Q4, Q6 and Q14 of TPC-H by the tree of rows, with 1 to 100 % of its nodes in memory. The time that the tree takes is what is over \
            the time of the same pages named for nothing: by the inner nodes of a clustered tree.",
    expected: "Each query searches a range of leaves once, so memory helps only if it holds them from before.",
    differs: "The paper does not publish how many nodes it keeps. Its mean includes TPC-C, which is in a figure of its own here (tpcc).",
    sizes: &[scales::PERCENT],
    rows,
    plot: None,
};

const SHARES: [u64; 6] = [1, 5, 10, 25, 50, 100];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for percent in SHARES {
        let rig = Rig::of(run)?;
        ["orders", "part"].into_iter().try_for_each(|table| rig.table(table))?;
        let mut shares = Vec::new();
        for query in &QUERIES {
            run.go_on()?;
            let rig = Rig::of(run)?;
            let sql = [statement(rig, query)];
            rig.with_nodes(percent, &TREE_OF_ROWS)?;
            rig.run(&sql[0], &CLUSTERED)?;
            let bare = rig.run_all(&sql, &CLUSTERED)?.ms();
            let tree = rig.run_all(&sql, &TREE_OF_ROWS)?.ms();
            shares.push((tree - bare) / tree * 100.0);
            rows.push(row(&format!("Q{query}"), percent, *shares.last().expect("it was just put in"), ""));
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let of_figures = if percent == NODES.default { "; the share of the other figures" } else { "" };
        rows.push(Row {
            published: Some(47.5),
            aim: Aim::NotCompared,
            ..row("mean", percent, mean, &format!("of the four; the paper's has TPC-C as well{of_figures}"))
        });
    }
    Ok(rows)
}

fn row(series: &str, percent: u64, ours: f64, note: &str) -> Row {
    Row::new(Method::Executed, series, X::Number(percent as f64), "time in the tree", "%", ours, note)
}
