//! Section 4.2.4: which of the 22 queries are filtered early, and why the others are not.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use std::collections::BTreeSet;

use lode_sql::EarlyScores;

use super::rig::Rig;
use super::systems::{ENABLED, decided};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;
use crate::tpch::QUERIES;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "decisions",
    about: "Section 4.2.4: the queries that are filtered early",
    claim: "Eight of the 22 queries are filtered early: Q14, Q2, Q10, Q8, Q9, Q17, Q12, Q5. The others have no filter, one that is not restrictive, one that \
            the matcher has no keys for, or a ratio over the threshold.",
    setup: "SET lode.planner = yoursql over row pages of 4 KB: scores of predicates, a sample of 5 % of the best table's pages by the matcher alone, and the \
            paper's thresholds. 1: filtered early. Each score is tried at half and at half as much again; a query whose decision that flips is not counted.",
    expected: "Those with a rare text or two keys are filtered early. A month, a quarter or a year of dates in tables that are not sorted by them is on \
               nearly every page.",
    differs: "The paper does not say the scores of operators; ours were chosen before any query was looked at. Rows a page are not InnoDB's.",
    sizes: &[scales::PERCENT],
    rows,
    plot: None,
};

/// Half of a score, and half as much again.
const SWEEP: [f64; 2] = [0.5, 1.5];

/// A score, as a place in the scores.
type Place = fn(&mut EarlyScores) -> &mut f64;
const SCORES: [(&str, Place); 4] = [
    ("equality", |s| &mut s.equal),
    ("IN", |s| &mut s.listed),
    ("LIKE", |s| &mut s.like),
    ("end of a range", |s| &mut s.range_end),
];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let as_they_are = decisions(run, EarlyScores::default())?;
    let mut rows = Vec::new();
    let mut flipped = BTreeSet::new();
    let mut swept = Vec::new();
    for (name, place) in SCORES {
        for factor in SWEEP {
            let mut scores = EarlyScores::default();
            *place(&mut scores) *= factor;
            let others = decisions(run, scores)?;
            let pairs = as_they_are.iter().zip(&others).zip(&QUERIES);
            let now = pairs.filter(|((a, b), _)| targets(a) != targets(b)).map(|(_, query)| query.number);
            let now: Vec<usize> = now.collect();
            let names: Vec<String> = now.iter().map(|number| format!("Q{number}")).collect();
            let x = X::Name(format!("{name} x {factor}"));
            let note = format!("queries that filter another table early, or none: {}", names.join(", "));
            swept.push(Row::new(
                Method::Executed,
                "YourSQL",
                x,
                "decisions that flip",
                "",
                now.len() as f64,
                &note,
            ));
            flipped.extend(now);
        }
    }
    let (mut alike, mut all) = (0.0, 0.0);
    for (said, query) in as_they_are.iter().zip(&QUERIES) {
        let is_early = !targets(said).is_empty();
        let is_published = ENABLED.iter().any(|e| e.number == query.number);
        let is_counted = !flipped.contains(&query.number);
        if is_counted {
            alike += f64::from(u8::from(is_early == is_published));
            all += 1.0;
        }
        let paper = if is_published { "early in the paper" } else { "declined in the paper" };
        let ours = if said.is_empty() { "no filter of a stored table".into() } else { said.join("; ") };
        let counted = if is_counted { "" } else { ". Not counted: another score flips it" };
        rows.push(Row {
            published: is_published.then_some(1.0),
            ..Row::new(
                Method::Executed,
                "YourSQL",
                X::Name(format!("Q{}", query.number)),
                "filtered early",
                "",
                f64::from(u8::from(is_early)),
                &format!("{paper}. {ours}{counted}"),
            )
        });
    }
    rows.extend(swept);
    let note = format!("of the {all} queries that no change of a score by half flips");
    let x = X::Name("all".into());
    rows.push(Row::new(Method::Executed, "YourSQL", x, "decided as in the paper", "", alike / all, &note));
    Ok(rows)
}

/// What is said of the tables of each query.
fn decisions(run: &mut Run<'_>, scores: EarlyScores) -> Result<Vec<Vec<String>>, BenchError> {
    let of = |query| {
        run.go_on()?;
        decided(Rig::of(run)?, query, scores)
    };
    QUERIES.iter().map(of).collect()
}

/// The tables that are filtered early.
fn targets(said: &[String]) -> Vec<&str> {
    said.iter().filter_map(|s| s.split_once(", early filter").map(|(table, _)| table)).collect()
}
