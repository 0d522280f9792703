//! "Programming an SSD Controller to Support Batched Writes for Variable-Size Pages" (Do, Luo, Lomet, ICDE 2021): ELEOS.
//!
//! ```text
//!   profile eleos-cnex ─► rig: one drive, several ways to it ─┬─ pages of TPC-C ─► table2, fig9
//!                                                             ├─ btree, YCSB ────► fig10a, fig10b, fig10c
//!                                                             └─ power cuts ─────► recovery
//! ```
//!
//! The claim: a drive that takes atomic batches of pages of any size spares the host its log-structured store, and both of them
//! a context and a commit for each packet. What the paper measures with the CPU as its bound (Table II, on a simulated device)
//! is measured here in wall time; what its device bounds (the figures) in modelled time. The two never meet in one figure.

pub mod btree;
pub mod fig10;
pub mod fig9;
pub mod pages;
pub mod recovery;
pub mod rig;
pub mod table2;
pub mod workload;

use lode_base::Profile;

use super::plot::{Axis, Heading, LinePlot, Series, colour};
use super::report::{Method, ReportFile, Row, X, csv, json_lines};
use crate::BenchError;
use crate::drive_host::DriveError;

/// The paper, as the command line names it.
pub const PAPER: &str = "eleos";
/// Its platform.
pub const PROFILE: &str = "eleos-cnex";

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Whether it is to be over in seconds: smaller data, fewer points, and too little to count.
    pub quick: bool,
    /// Records of the B-tree, where it is not to be over in seconds; its operations follow.
    pub records: u64,
}

impl Scale {
    /// Records of the B-tree, a tenth of the paper's.
    pub const RECORDS: u64 = 1_000_000;
    /// The fewest that leave each channel two erase units under GC, and the paper's.
    pub const RECORDS_ALLOWED: std::ops::RangeInclusive<u64> = 250_000..=10_000_000;
}

/// What an experiment is given.
pub struct Experiment<'a> {
    /// The platform.
    pub profile: &'a Profile,
    /// How much is run.
    pub scale: Scale,
    /// Whether whoever waits does not any more.
    pub stop: &'a dyn Fn() -> bool,
}

impl Experiment<'_> {
    /// Goes on, unless it is to stop.
    ///
    /// # Errors
    /// [`DriveError::Stopped`].
    pub fn go_on(&self) -> Result<(), DriveError> {
        if (self.stop)() { Err(DriveError::Stopped) } else { Ok(()) }
    }
}

/// Draws a figure from its rows, as SVG.
type Plot = fn(&[Row]) -> Result<String, BenchError>;

/// A figure or table of the paper.
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, as a heading.
    pub about: &'static str,
    rows: fn(&Experiment<'_>) -> Result<Vec<Row>, DriveError>,
    plot: Option<Plot>,
}

/// All of them. Table I is what goes in: it is the profile.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "table2",
        about: "Table II: pages of TPC-C written per second, bound by the CPU",
        rows: table2::rows,
        plot: None,
    },
    Figure {
        name: "fig9",
        about: "Fig. 9: pages of TPC-C written per second over the size of the write buffer",
        rows: fig9::rows,
        plot: Some(fig9::plot),
    },
    Figure {
        name: "fig10a",
        about: "Fig. 10a: operations of a B-tree per second over the size of its cache",
        rows: fig10::throughput,
        plot: Some(fig10::plot_throughput),
    },
    Figure {
        name: "fig10b",
        about: "Fig. 10b: bytes that the B-tree writes to the drive",
        rows: fig10::bytes,
        plot: Some(fig10::plot_bytes),
    },
    Figure {
        name: "fig10c",
        about: "Fig. 10c: what garbage collection costs the B-tree, at a cache of 10 %",
        rows: fig10::collection,
        plot: None,
    },
    Figure {
        name: "recovery",
        about: "Section VIII: what is found after a power cut, and how soon",
        rows: recovery::rows,
        plot: None,
    },
];

impl Figure {
    /// Its rows.
    ///
    /// # Errors
    /// When a run fails, or is to stop.
    pub fn rows(&self, x: &Experiment<'_>) -> Result<Vec<Row>, BenchError> {
        let mut rows = (self.rows)(x)?;
        for r in &mut rows {
            r.figure = self.name;
        }
        Ok(rows)
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
        if let Some(plot) = figure.plot {
            files.push(ReportFile { name: format!("{PAPER}-{}.svg", figure.name), content: plot(rows)? });
        }
    }
    Ok(files)
}

/// A row without a published figure, in modelled time.
fn row(series: &str, x: X, metric: &str, unit: &'static str, ours: f64, note: &str) -> Row {
    Row {
        paper: PAPER,
        figure: "",
        series: series.into(),
        x,
        metric: metric.into(),
        unit,
        published: None,
        ours,
        by: Method::Executed,
        note: note.into(),
    }
}

/// The curves of a metric, one for each series.
fn curves(
    rows: &[Row],
    metric: &str,
    heading: Heading,
    x: Axis,
    y_label: &str,
    unit: f64,
) -> Result<String, BenchError> {
    const COLOURS: [plotters::style::RGBColor; 5] =
        [colour::BLUE, colour::GREEN, colour::VERMILION, colour::ORANGE, colour::PURPLE];
    let mut series: Vec<Series> = Vec::new();
    for r in rows.iter().filter(|r| r.metric == metric) {
        let X::Number(at) = r.x else { continue };
        let point = (at, r.ours / unit);
        match series.iter_mut().find(|s| s.name == r.series) {
            Some(s) => s.points.push(point),
            None => {
                let colour = COLOURS[series.len() % COLOURS.len()];
                series.push(Series { name: r.series.clone(), colour, dashed: false, points: vec![point] });
            }
        }
    }
    let most = series.iter().flat_map(|s| &s.points).map(|p| p.1).fold(0.0, f64::max);
    LinePlot { heading, x, y: upwards(y_label, most), series }.svg()
}

/// An axis from 0 to a round number above `most`, with up to five ticks.
fn upwards(label: &str, most: f64) -> Axis {
    let most = most.max(1e-9);
    let power = 10f64.powi(most.log10().floor() as i32);
    let step =
        [0.2, 0.5, 1.0, 2.0].into_iter().map(|s| s * power).find(|s| s * 5.0 >= most).unwrap_or(2.0 * power);
    let steps = (most / step).ceil().max(1.0);
    // Rounded, so that labels are short.
    let round = |v: f64| (v / power * 10.0).round() * power / 10.0;
    let ticks = (0..=steps as u32).map(|n| round(f64::from(n) * step)).collect();
    Axis { label: label.into(), ticks, from: 0.0, to: round(steps * step), log: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_above_what_it_shows() {
        for most in [0.3, 1.0, 1.7, 4.0, 9.9, 49.0, 100.0, 447.0] {
            let a = upwards("", most);
            assert!(a.to >= most && a.to <= 2.1 * most && a.ticks.len() <= 7, "{most}: {a:?}");
            assert_eq!(a.ticks.last(), Some(&a.to));
        }
    }
}
