//! The example of a figure outside of the table runs, and its report has the form of any other.

#[path = "../examples/figure.rs"]
mod example;

use lode_bench::paper::page::{Build, Commit, page};
use lode_bench::paper::{FigureReport, PAPERS};

#[test]
fn a_figure_outside_of_the_table_is_run_and_reported() {
    assert!(PAPERS.iter().all(|p| p.name != example::PAPER.name));
    let report = example::report(true).unwrap();
    let rows: Vec<f64> = report.figures.iter().flat_map(|f: &FigureReport| &f.rows).map(|r| r.ours).collect();
    assert_eq!(rows.len(), 2);
    // The arithmetic gives the paper's value. The drive comes near it, but not to the last digit.
    assert!((rows[0] / 743.0 - 1.0).abs() < 0.001, "{rows:?}");
    assert!((0.9..0.9999).contains(&(rows[1] / rows[0])), "{rows:?}");
    let text = report.to_string();
    assert!(text.contains("by arithmetic") && text.contains("executed") && text.contains("743.0"), "{text}");
    assert_eq!(report.json_lines().lines().count(), 2);
    let build = Build { version: "0".into(), commit: Commit::Unknown, command: "here".into() };
    assert!(page(&[report], &build).unwrap().contains("id=\"flash-rate\""));
}
