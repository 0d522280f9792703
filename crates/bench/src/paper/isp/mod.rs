//! "Fast, Energy Efficient Scan inside Flash Memory SSDs" (Kim et al., ADMS 2011).
//!
//! ```text
//!   profile isp-adms11 ─► experiment ─┬─► equations ─┐
//!                                     └─► (executed) ┴─► fig5, fig6, fig7, table3, table4, table5 ─► Row
//! ```
//!
//! The claim: comparators in the flash controllers scan as fast as the flash reads, where the host's CPU waits for the link
//! and an embedded CPU for itself. Each figure is a function of whatever tells how long a scan takes, so that the equations
//! and an executed drive fill the same rows. Tables 1 and 2 are what goes in: they are the profile and `experiment.rs`.

pub mod equations;
pub mod executed;
pub mod experiment;
pub mod fig5;
pub mod fig6;
pub mod fig7;
pub mod predicate;
pub mod table3;
pub mod table4;
pub mod table5;

use lode_base::Profile;
use lode_base::profile::Rate;

use self::executed::Executor;
use super::plot::Axis;
use super::report::{Method, ReportFile, Row, X, csv, json_lines};
use crate::BenchError;

/// The paper, as the command line names it.
pub const PAPER: &str = "isp";
/// Its platform.
pub const PROFILE: &str = "isp-adms11";

/// The rows of a figure by the equations.
type ByEquations = fn(&Profile) -> Vec<Row>;
/// The rows of a figure executed.
type Executed = fn(&mut Executor) -> Result<Vec<Row>, BenchError>;
/// Rows to an SVG document.
type Plot = fn(&[Row]) -> Result<String, BenchError>;

/// A figure or table of the paper.
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, as a heading.
    pub about: &'static str,
    by_equations: Option<ByEquations>,
    executed: Option<Executed>,
    plot: Option<Plot>,
}

/// All of them. Tables 1 and 2 are what goes in.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: fig5::NAME,
        about: "Fig. 5: throughput over NAND speed and channels",
        by_equations: Some(fig5::by_equations),
        executed: Some(fig5::executed),
        plot: Some(fig5::plot),
    },
    Figure {
        name: fig6::NAME,
        about: "Fig. 6: where the time of a scan goes",
        by_equations: Some(fig6::by_equations),
        executed: Some(fig6::executed),
        plot: Some(fig6::plot),
    },
    Figure {
        name: fig7::NAME,
        about: "Fig. 7: throughput over selectivity and host link",
        by_equations: Some(fig7::by_equations),
        executed: Some(fig7::executed),
        plot: Some(fig7::plot),
    },
    Figure {
        name: table3::NAME,
        about: "Table 3: how far the equations are from what is executed",
        by_equations: None,
        executed: Some(table3::executed),
        plot: None,
    },
    Figure {
        name: table4::NAME,
        about: "Table 4: what each part could do alone",
        by_equations: Some(table4::by_equations),
        executed: None,
        plot: None,
    },
    Figure {
        name: table5::NAME,
        about: "Table 5: the energy of a scan",
        by_equations: None,
        executed: Some(table5::executed),
        plot: None,
    },
];

impl Figure {
    /// Its rows: by the equations, and executed.
    ///
    /// # Errors
    /// When a run fails.
    pub fn rows(&self, x: &mut Executor) -> Result<Vec<Row>, BenchError> {
        let mut rows = self.by_equations(x.profile());
        if let Some(executed) = self.executed {
            rows.extend(executed(x)?);
        }
        Ok(rows)
    }

    /// Its rows by the equations alone: none, if it is about an executed drive.
    pub fn by_equations(&self, profile: &Profile) -> Vec<Row> {
        self.by_equations.map_or_else(Vec::new, |rows| rows(profile))
    }
}

/// Records scanned in a second.
const THROUGHPUT: &str = "throughput";

/// The curve of a series: millions of records a second over x.
fn throughput(rows: &[Row], series: &str) -> Vec<(f64, f64)> {
    let of_it = rows.iter().filter(|r| r.series == series && r.metric == THROUGHPUT);
    let point = |r: &Row| match r.x {
        X::Number(x) => Some((x, r.ours / 1e6)),
        _ => None,
    };
    of_it.filter_map(point).collect()
}

/// The axis of such curves.
fn throughput_axis() -> Axis {
    Axis {
        label: "throughput (million records/s)".into(),
        ticks: vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0],
        from: 1.0,
        to: 50.0,
        log: true,
    }
}

/// How the rows of a plot were found.
fn told(rows: &[Row]) -> &'static str {
    match rows.first().map(|r| r.by) {
        Some(Method::Executed) => "Executed in modelled time",
        _ => "By the paper's equations",
    }
}

/// What a report leaves in a directory: all rows as CSV and as JSON lines, and the plots of each figure that has one.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn files(figures: &[(&Figure, Vec<Row>)]) -> Result<Vec<ReportFile>, BenchError> {
    let rows: Vec<Row> = figures.iter().flat_map(|(_, rows)| rows.clone()).collect();
    let mut files = vec![
        ReportFile { name: format!("{PAPER}.csv"), content: csv(&rows) },
        ReportFile { name: format!("{PAPER}.jsonl"), content: json_lines(&rows) },
    ];
    for (figure, rows) in figures {
        let Some(plot) = figure.plot else { continue };
        for (by, end) in [(Method::Executed, ""), (Method::Equations, "-equations")] {
            let of_it: Vec<Row> = rows.iter().filter(|r| r.by == by).cloned().collect();
            if !of_it.is_empty() {
                let name = format!("{PAPER}-{}{end}.svg", figure.name);
                files.push(ReportFile { name, content: plot(&of_it)? });
            }
        }
    }
    Ok(files)
}

/// A row of this paper that has no published figure.
fn row(figure: &'static str, series: &str, x: X, metric: &str, unit: &'static str, ours: f64) -> Row {
    Row {
        paper: PAPER,
        figure,
        series: series.into(),
        x,
        metric: metric.into(),
        unit,
        published: None,
        ours,
        by: Method::Equations,
        note: String::new(),
    }
}

/// Megabytes a second.
fn mb(rate: Rate) -> f64 {
    rate.bytes_per_s() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<(&'static Figure, Vec<Row>)> {
        let profile = Profile::find(PROFILE).unwrap();
        let figures = FIGURES.iter().filter(|f| f.by_equations.is_some());
        figures.map(|f| (f, f.by_equations(&profile))).collect()
    }

    #[test]
    fn each_row_is_told_apart_and_says_what_it_is() {
        let mut keys = BTreeSet::new();
        for (figure, rows) in all() {
            assert!(!rows.is_empty());
            for r in &rows {
                assert_eq!((r.paper, r.figure), (PAPER, figure.name));
                assert!(r.note.len() > 20, "{r:?}");
                assert!(
                    keys.insert((r.figure, r.series.clone(), r.x.to_string(), r.metric.clone())),
                    "{r:?}"
                );
            }
        }
    }

    /// Every figure of sections 5.2 and 5.3 that the equations answer, but for that with 13.9.
    #[test]
    fn what_is_published_is_met_to_its_digits() {
        let rows: Vec<Row> = all().into_iter().flat_map(|f| f.1).filter(|r| r.published.is_some()).collect();
        assert_eq!(rows.len(), 12);
        for r in rows {
            let ratio = r.ratio().unwrap();
            let (least, most) = match (r.metric.as_str(), r.series.as_str()) {
                ("hw-ISP to the other, the best", "IHP") => (0.950, 0.952),
                ("hw-ISP to the other, the best", "cpu-ISP") => (0.812, 0.813),
                ("cycles a record", _) => (1.008, 1.009),
                _ => (0.997, 1.003),
            };
            assert!((least..most).contains(&ratio), "{ratio} of {r:?}");
        }
    }

    #[test]
    fn a_report_is_the_same_every_time() {
        let (a, b) = (files(&all()).unwrap(), files(&all()).unwrap());
        assert!(a == b);
        let names: Vec<_> = a.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "isp.csv",
                "isp.jsonl",
                "isp-fig5-equations.svg",
                "isp-fig6-equations.svg",
                "isp-fig7-equations.svg"
            ]
        );
    }

    /// Labels as wide as a common font makes them: none runs off the page or into another.
    #[test]
    fn no_label_of_a_plot_covers_another() {
        for file in files(&all()).unwrap().iter().filter(|f| f.name.ends_with(".svg")) {
            crate::paper::plot::assert_legible(&file.content);
        }
    }
}
