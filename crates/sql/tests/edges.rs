//! Expressions over the edges of every type: Lode must answer as PostgreSQL 15 does.
//!
//! ```text
//!   edges/tables.sql ─► tables      edges/postgres15/*.txt ─► statement, answer ─► Lode at some offload levels ─► verdict
//! ```
//!
//! `scripts/record_postgres_edges.py` recorded the answers. A different answer, or an answer where PostgreSQL has an error, fails
//! the test unless `edges/differs.txt` gives a reason. A refusal (an error where PostgreSQL answers) is only counted. So is an
//! error with another SQLSTATE, up to a limit.
//! `LODE_EDGES_REPORT=file` writes all cases that differ; `LODE_EDGES=text` runs those whose theme or statement contains it.

mod edges {
    pub(crate) mod cases;
    pub(crate) mod compare;
    pub(crate) mod differs;
    pub(crate) mod load;
    pub(crate) mod report;
    pub(crate) mod run;
    pub(crate) mod values;
}

use edges::{cases, differs::Differs, report::Report, run};

/// Errors that may have another SQLSTATE than PostgreSQL's. Most are of operators and functions that Lode lacks.
const OTHER_STATES_MAX: usize = 72;

#[test]
fn expressions_over_edges_are_answered_as_by_postgres() {
    let only = std::env::var("LODE_EDGES").unwrap_or_default();
    let cases = cases::read();
    let outcomes = run::run_all(&cases, &only);
    let differs = Differs::read();
    let report = Report::new(&cases, &outcomes, &differs);
    if let Ok(file) = std::env::var("LODE_EDGES_REPORT") {
        std::fs::write(&file, report.full()).expect("the report is written");
    }
    println!("{}", report.summary());
    let mut failures = String::new();
    if report.wrong() > 0 {
        failures = format!("{} wrong answers:\n{}", report.wrong(), report.wrong_head(20));
    }
    if report.other_state() > OTHER_STATES_MAX {
        failures += &format!("{} errors have another SQLSTATE than PostgreSQL's\n", report.other_state());
    }
    let unused = differs.unused();
    if only.is_empty() && !unused.is_empty() {
        failures += &format!("differs.txt: no case needs these:\n{}\n", unused.join("\n"));
    }
    assert!(failures.is_empty(), "{failures}");
}
