//! Section 4.2.4: which of the 22 queries are filtered early, and why the others are not.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::rig::Rig;
use super::systems::{ENABLED, decided};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;
use crate::tpch::QUERIES;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "decisions",
    about: "Section 4.2.4: the queries that are filtered early",
    claim: "Eight of the 22 queries are filtered early: Q14, Q2, Q10, Q8, Q9, Q17, Q12, Q5. The others have no filter, one that is not restrictive, one that \
            the matcher has no keys for, or a ratio over the threshold.",
    setup: "SET lode.planner = yoursql over row pages of 4 KB: scores of predicates, a sample of 5 % of the best table's pages by the matcher alone, and the \
            paper's thresholds. 1: filtered early.",
    expected: "Those with a rare text or two keys are filtered early. A month, a quarter or a year of dates in tables that are not sorted by them is on \
               nearly every page.",
    differs: "The paper does not say the scores of operators; ours were chosen before any query was looked at. Rows a page are not InnoDB's.",
    sizes: &[],
    rows,
    plot: None,
};

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    let (mut alike, mut all) = (0.0, 0.0);
    for query in &QUERIES {
        run.go_on()?;
        let said = decided(Rig::of(run)?, query)?;
        let is_early = said.iter().any(|s| s.contains(", early filter"));
        let is_published = ENABLED.iter().any(|e| e.number == query.number);
        alike += f64::from(u8::from(is_early == is_published));
        all += 1.0;
        let paper = if is_published { "early in the paper" } else { "declined in the paper" };
        let ours = if said.is_empty() { "no filter of a stored table".into() } else { said.join("; ") };
        rows.push(Row {
            published: is_published.then_some(1.0),
            ..Row::new(
                Method::Executed,
                "YourSQL",
                X::Name(format!("Q{}", query.number)),
                "filtered early",
                "",
                f64::from(u8::from(is_early)),
                &format!("{paper}. {ours}"),
            )
        });
    }
    let row = Row::new(
        Method::Executed,
        "YourSQL",
        X::Name("all".into()),
        "decided as in the paper",
        "",
        alike / all,
        "the share of the 22 queries",
    );
    rows.push(row);
    Ok(rows)
}
