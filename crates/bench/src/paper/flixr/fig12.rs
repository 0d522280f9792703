//! Fig. 12: further keys in the entries of pages.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::expected;
use super::queries::statement;
use super::rig::{NODES, Rig};
use super::systems::{FLIXR_HS, FLIXR_S, LEVELS, TREE_OF_ROWS};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig12",
    about: "Fig. 12: Q6 and Q14 with further keys in the entries",
    claim: "With secondary keys FLIXR-HS gains 65 % and FLIXR-S 39 % over the tree in the host, which is 17 % more than with one key.",
    setup: "Q6 and Q14. The entries of a page have a range of l_shipdate, or also of l_discount, l_quantity and the keys of joins.",
    expected: "Of 120 rows a page in order of date, no page lacks the discounts of Q6: a range leaves out a page with a probability of 10^-41, a \
               bitmap with 10^-17. So further keys leave out nothing, and cost comparisons.",
    differs: "",
    sizes: &[scales::PERCENT, NODES],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// Rows of a page of lineitem.
const PAGE_ROWS: u32 = 120;

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let nodes = run.size(&NODES);
    let rig = Rig::of(run)?;
    ["lineitem_keys", "part"].into_iter().try_for_each(|table| rig.table(table))?;
    rig.with_nodes(nodes, &TREE_OF_ROWS)?;
    let mut rows = vec![
        arithmetic("pages without Q6's discounts, by range", expected::q6_by_range(PAGE_ROWS)),
        arithmetic(
            "pages without Q6's discounts, by bitmap",
            expected::page_lacks(3.0 / 11.0, f64::from(PAGE_ROWS)),
        ),
    ];
    for query in [6, 14] {
        let one_key = [statement(Rig::of(run)?, &query)];
        let keys = [one_key[0].replace("lineitem", "lineitem_keys")];
        let rig = Rig::of(run)?;
        rig.run(&one_key[0], &TREE_OF_ROWS)?;
        let tree = rig.run_all(&one_key, &TREE_OF_ROWS)?;
        for system in [&FLIXR_S, &FLIXR_HS, &LEVELS] {
            run.go_on()?;
            let rig = Rig::of(run)?;
            for sql in [&one_key[0], &keys[0]] {
                rig.run(sql, system)?;
            }
            let (one, more) = (rig.run_all(&one_key, system)?, rig.run_all(&keys, system)?);
            let row = |metric: &str, ours, note: &str| {
                Row::new(Method::Executed, system.name, X::Name(format!("Q{query}")), metric, "x", ours, note)
            };
            let (published, gain) = match system.name {
                "FLIXR-HS" => (Some(1.65), Some(1.17)),
                "FLIXR-S" => (Some(1.39), None),
                _ => (None, None),
            };
            let beside = row("further keys beside the tree of rows", tree.ms() / more.ms(), system.note);
            rows.push(Row { published, aim: Aim::Equal, ..beside });
            let note = format!("{} pages with one key, {} with more", one.pages_read, more.pages_read);
            let gained = row("further keys beside one", one.ms() / more.ms(), &note);
            rows.push(Row { published: gain, aim: Aim::Equal, ..gained });
        }
    }
    Ok(rows)
}

fn arithmetic(metric: &str, ours: f64) -> Row {
    let note =
        "the probability of one, of 120 rows a page, with 11 discounts as frequent, three of which pass";
    Row::new(Method::Arithmetic, "entries", X::Name("Q6".into()), metric, "log10", ours.log10(), note)
}
