//! Fig. 13: entries of pages apart from the mapping, with a cache of 16 MB.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::queries::{QUERIES, statement};
use super::rig::Rig;
use super::systems::{FLIXR_HS, FLIXR_S};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig13",
    about: "Fig. 13: entries apart from the mapping, in a cache of 16 MB",
    claim: "With a cache of 16 MB for entries FLIXR-S reaches 94.1 % and FLIXR-HS 93.6 % of what they reach with all entries in memory.",
    setup: "The queries of Fig. 10, with memory for as much of the entries as 16 MB are at scale 10, against memory for all. Cold: the entries \
            of another table were looked at before. Warm: the query ran before.",
    expected: "At scale 10 lineitem's entries take 4 to 12 MB, and so fit: warm, there is no difference.",
    differs: "",
    sizes: &[scales::PERCENT],
    rows,
    plot: None,
};

/// A table with as many pages as lineitem.
const OTHER: &str = "lineitem_keys";

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    let profile = run.profile();
    let rig = Rig::of(run)?;
    ["lineitem", "orders", "part"].into_iter().try_for_each(|table| rig.table(table))?;
    let scale = rig.scale().factor();
    run.go_on()?;
    let mut small = Rig::with(profile, scale, Rig::with_index_cache(scale))?;
    ["lineitem", "orders", "part", OTHER].into_iter().try_for_each(|table| small.table(table))?;
    for system in [&FLIXR_S, &FLIXR_HS] {
        for (when, is_cold) in [("cold", true), ("warm", false)] {
            let mut of_queries = Vec::new();
            for query in &QUERIES {
                run.go_on()?;
                let rig = Rig::of(run)?;
                let sql = [statement(rig, query)];
                let mut times = [0.0; 2];
                for (time, (rig, evicts)) in times.iter_mut().zip([(&*rig, false), (&small, is_cold)]) {
                    rig.run(&sql[0], system)?;
                    if evicts {
                        let other =
                            format!("SELECT sum(l_tax) FROM {OTHER} WHERE l_shipdate < DATE '1970-01-01'");
                        rig.run(&other, &FLIXR_S)?;
                    }
                    *time = rig.run_all(&sql, system)?.ms();
                }
                of_queries.push(times[0] / times[1] * 100.0);
            }
            let mean = of_queries.iter().sum::<f64>() / of_queries.len() as f64;
            let published = if system.name == FLIXR_S.name { 94.1 } else { 93.6 };
            let each: Vec<String> =
                QUERIES.iter().zip(&of_queries).map(|(q, ratio)| format!("Q{q} {ratio:.1}")).collect();
            let (x, note) = (X::Name(when.into()), each.join(", "));
            let row = Row::new(Method::Executed, system.name, x, "of all in memory", "%", mean, &note);
            rows.push(Row { published: Some(published), aim: Aim::AtLeast, ..row });
        }
    }
    Ok(rows)
}
