//! Figs 10 and 11, TPC-H: four queries by each configuration, their time and what crosses the link.
//!
//! Claim, setup and expected shape: [`FIG10`], [`FIG11`].

use super::expected;
use super::rig::{NODES, PAGE_BYTES, Rig, TABLE, Took};
use super::systems::{HOST_TREE, SYSTEMS, Strongest, TREE_IN_DRIVE};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;
use crate::tpch::queries::Query;

/// The figure of times.
pub const FIG10: Figure = Figure {
    name: "fig10",
    about: "Fig. 10, TPC-H: four queries by each configuration",
    claim: "Against the tree in the host, FLIXR-HS gains 67 % and FLIXR-S 39 % on Q4 and Q14; FLIXR-S loses on Q1 and Q6. Over TPC-C and TPC-H \
            they gain 52.6 and 29.6 %, a tree with all its nodes in memory 28.1 %, and one in the drive 5.8 %.",
    setup: "Q1, Q4, Q6 and Q14. lineitem, orders and part lie in order of l_shipdate, o_orderdate and p_partkey, and have trees of rows on these. \
            The page index has ranges of these columns.",
    expected: "Q1 takes 98 % of lineitem, so that a tree names all that a scan reads, and its leaves come on top. Q14 finds 32 % of the parts, \
               some 105 of them on a page: no page of part has none, whatever a set of keys looks like.",
    differs: "The means of the paper include TPC-C, which is in a figure of its own here (tpcc).",
    sizes: &[scales::PERCENT, NODES],
    rows: |run| scales::beside_a_quarter::<Rig>(run, times),
    plot: None,
};

/// The figure of traffic.
pub const FIG11: Figure = Figure {
    name: "fig11",
    about: "Fig. 11, TPC-H: bytes to the host, by kind",
    claim: "36 % of what the tree in the host moves is of the tree. FLIXR-HS moves 31 % less in total; its tree of minima is 3 %.",
    setup: "The queries of Fig. 10. Bytes of nodes are the nodes that were read, of 16 KB; all other bytes to the host are of data pages and of completions.",
    expected: "Leaves hold some 680 entries of 24 bytes, a page of lineitem 120 rows, so leaves are at most a sixth of the pages that they name.",
    differs: "The host learns the minima before, so that FLIXR-HS moves none. The paper's figure includes TPC-C, which is in a figure of its own here (tpcc).",
    sizes: &[scales::PERCENT, NODES],
    rows: |run| scales::beside_a_quarter::<Rig>(run, traffic),
    plot: None,
};

/// The queries.
pub(super) const QUERIES: [usize; 4] = [1, 4, 6, 14];

/// The text of a query at the scale of the rig.
pub(super) fn statement(rig: &Rig, number: &usize) -> String {
    Query::numbered(*number).expect("a query of TPC-H").sql(rig.scale())
}

/// Each query by each configuration, in the order of these.
fn took(run: &mut Run<'_>) -> Result<Vec<Vec<Took>>, BenchError> {
    let nodes = run.size(&NODES);
    let rig = Rig::of(run)?;
    if let Some(took) = &rig.of_queries {
        return Ok(took.clone());
    }
    [TABLE, "orders", "part"].into_iter().try_for_each(|table| rig.table(table))?;
    let statements: Vec<_> = QUERIES.iter().map(|query| vec![statement(rig, query)]).collect();
    let took = Rig::run_systems(run, &statements, nodes)?;
    Ok(Rig::of(run)?.of_queries.insert(took).clone())
}

fn times(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let all = took(run)?;
    let mut rows = Vec::new();
    for (n, system) in SYSTEMS.iter().enumerate() {
        let row = |x: String, metric: &str, unit, ours, note: &str| {
            Row::new(Method::Executed, system.name, X::Name(x), metric, unit, ours, note)
        };
        let mut product = 1.0;
        for (q, query) in QUERIES.iter().enumerate() {
            let took = &all[n][q];
            let ratio = all[0][q].ms() / took.ms();
            product *= ratio;
            let x = format!("Q{query}");
            let (published, aim) = match (system.name, query) {
                ("FLIXR-HS", 4 | 14) => (Some(1.67), Aim::Equal),
                ("FLIXR-S", 4 | 14) => (Some(1.39), Aim::Equal),
                ("FLIXR-S", _) => (Some(1.0), Aim::AtMost),
                _ => (None, Aim::NotCompared),
            };
            rows.push(row(x.clone(), "time", "ms", took.ms(), &took.spent()));
            let nodes = format!("and {} nodes", took.nodes_read);
            rows.push(row(x.clone(), "pages", "", took.pages_read as f64, &nodes));
            let beside_tree = row(x.clone(), "rate beside the tree of rows", "x", ratio, system.note);
            rows.push(Row { published, aim, ..beside_tree });
            let strongest = Strongest::of(SYSTEMS.into_iter().zip(all.iter().map(|of| of[q].ms())));
            rows.extend(strongest.beside(system, &x, took.ms()));
        }
        let published = match system.name {
            "ideal tree of rows" => Some(1.281),
            "FLIXR-HS" => Some(1.526),
            "FLIXR-S" => Some(1.296),
            "tree in the drive" => Some(1.058),
            _ => None,
        };
        let mean = product.powf(1.0 / QUERIES.len() as f64);
        let note = "the geometric mean of the four; the paper's has TPC-C as well";
        let mean = row("all".into(), "rate beside the tree of rows", "x", mean, note);
        rows.push(Row { published, aim: Aim::NotCompared, ..mean });
    }
    rows.push(Row::new(
        Method::Arithmetic,
        "a set of keys",
        X::Name("Q14".into()),
        "pages of part without a key",
        "log10",
        expected::page_lacks(0.32, 105.0).log10(),
        "the probability of one, of 105 parts a page, 32 % of which are hit",
    ));
    Ok(rows)
}

fn traffic(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let all = took(run)?;
    let mut rows = Vec::new();
    let sum = |n: usize, of: fn(&Took) -> u64| all[n].iter().map(of).sum::<u64>() as f64;
    let of_tree = sum(0, |t| t.link_bytes);
    for (n, system) in SYSTEMS.iter().enumerate() {
        let row = |metric: &str, unit, ours, note: &str| {
            Row::new(Method::Executed, system.name, X::Name("all".into()), metric, unit, ours, note)
        };
        let (mut total, mut nodes) = (sum(n, |t| t.link_bytes), sum(n, |t| t.nodes_read * PAGE_BYTES));
        if system.path == TREE_IN_DRIVE.path {
            // Nodes that the drive reads for itself do not cross the link.
            (total, nodes) = (total - nodes, 0.0);
        }
        let (of_index, of_total) = match system.name {
            HOST_TREE => (Some(36.0), None),
            "FLIXR-HS" => (Some(3.0), Some(0.69)),
            _ => (None, None),
        };
        rows.push(row("to the host", "MB", total / 1e6, system.note));
        let share = row("of it nodes", "%", nodes / total * 100.0, "");
        rows.push(Row { published: of_index, aim: Aim::NotCompared, ..share });
        let beside = row("beside the tree of rows", "x", total / of_tree, "");
        rows.push(Row { published: of_total, aim: Aim::Equal, ..beside });
    }
    Ok(rows)
}
