//! A paper, and its figures.
//!
//! ```text
//!   Paper ── figures ─► Figure ── rows(run) ─► Row, Row, ...
//!     │                   └────── plot ──────► SVG
//!     └─ profile, what it says, examples ────► command line, help, JSON, page
//! ```
//!
//! A figure is one file with a `const FIGURE`, and one line in its paper's `figures`. A paper is one folder with a
//! `const PAPER`, and one line in [`PAPERS`](super::PAPERS). A paper outside of this table can run, too:
//! [`Report::run`](super::Report::run) takes any paper.

use super::row::{Method, Row};
use super::run::{Run, SizeOption};
use crate::BenchError;

/// A paper that is run again.
#[derive(Debug)]
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its subject, authors and year, in a line.
    pub about: &'static str,
    /// Its title, authors and place.
    pub citation: &'static str,
    /// Which of its figures are run again and how, in a few sentences.
    pub text: &'static str,
    /// Its platform: the name of a profile.
    pub profile: &'static str,
    /// The help of `--quick`: what this option makes smaller.
    pub quick: &'static str,
    /// Examples of command lines, without `lode paper`.
    pub examples: &'static [&'static str],
    /// Its figures and tables.
    pub figures: &'static [Figure],
}

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// The heading: what the figure shows.
    pub about: &'static str,
    /// The claim that the paper makes with it.
    pub claim: &'static str,
    /// The setup: what runs, and on which platform.
    pub setup: &'static str,
    /// The shape that is expected: who wins, where it crosses over.
    pub expected: &'static str,
    /// What differs from the paper and why, in addition to the notes of rows. Empty if nothing differs.
    pub differs: &'static str,
    /// Sizes that the user may choose.
    pub sizes: &'static [SizeOption],
    /// Runs it.
    pub rows: fn(&mut Run<'_>) -> Result<Vec<Row>, BenchError>,
    /// Its plot, if it has one.
    pub plot: Option<Plot>,
}

/// How to draw a figure. There is one plot for each method by which its rows were found.
#[derive(Debug)]
pub struct Plot {
    /// Draws rows that were found by one method, as an SVG document.
    pub draw: fn(&[Row]) -> Result<String, BenchError>,
    /// The methods, in the order of the files.
    pub by: &'static [Method],
}

impl Paper {
    /// The figure with this name.
    pub fn figure(&self, name: &str) -> Option<&'static Figure> {
        self.figures.iter().find(|f| f.name == name)
    }

    /// The size options of all its figures, each once.
    pub fn sizes(&self) -> Vec<&'static SizeOption> {
        let mut sizes: Vec<&SizeOption> = Vec::new();
        for option in self.figures.iter().flat_map(|f| f.sizes) {
            if !sizes.contains(&option) {
                sizes.push(option);
            }
        }
        sizes
    }

    /// The names of the files that a report on all of its figures writes into a directory.
    pub fn files(&self) -> Vec<String> {
        let plots = self.figures.iter().flat_map(|f| {
            let by = f.plot.as_ref().map_or(&[][..], |p| p.by);
            by.iter().map(|by| self.plot_name(f, *by))
        });
        self.row_files().into_iter().chain(plots).collect()
    }

    /// The names of the files of all rows: CSV and JSON lines.
    pub(super) fn row_files(&self) -> [String; 2] {
        [format!("{}.csv", self.name), format!("{}.jsonl", self.name)]
    }

    /// The name of the file of a plot.
    pub(super) fn plot_name(&self, figure: &Figure, by: Method) -> String {
        format!("{}-{}{}.svg", self.name, figure.name, by.suffix())
    }
}
