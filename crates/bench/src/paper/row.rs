//! A row: one published figure, and ours beside it.
//!
//! ```text
//!   series, x, metric, unit │ published │ ours, and how we found it │ note: what it is, and why it differs
//! ```

use std::fmt;

use serde::Serialize;

/// How a figure of ours was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Calculated, by the paper's own equations.
    Equations,
    /// Calculated from the paper's parameters, where it gives no equation.
    Arithmetic,
    /// Executed, in modelled time.
    Executed,
    /// Measured, in wall time, on this machine.
    Measured,
}

impl Method {
    /// What stands above a column of its figures.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Equations => "by the equations",
            Self::Arithmetic => "by arithmetic",
            Self::Executed => "executed",
            Self::Measured => "in wall time",
        }
    }

    /// What the name of a plot of its figures ends with.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Equations => "-equations",
            Self::Arithmetic => "-arithmetic",
            Self::Executed => "",
            Self::Measured => "-wall",
        }
    }

    /// Whether no drive ran.
    pub fn is_calculated(self) -> bool {
        matches!(self, Self::Equations | Self::Arithmetic)
    }
}

/// Where along its series a figure lies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum X {
    /// A quantity.
    Number(f64),
    /// One of several kinds.
    Name(String),
    /// The series has one figure only.
    None,
}

impl fmt::Display for X {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Name(name) => f.write_str(name),
            Self::None => Ok(()),
        }
    }
}

/// When a figure of ours meets the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Within [`Aim::TOLERANCE`] of it.
    Equal,
    /// At least as much: the paper claims a gain.
    AtLeast,
    /// At most as much: the paper claims a bound on a cost or an error.
    AtMost,
    /// Never: the two are of different machines or queries. The note says which.
    NotCompared,
}

impl Aim {
    /// By how much, relative to the published figure, an equal one may differ.
    pub const TOLERANCE: f64 = 0.1;

    /// Whether `ours` meets `published`; nothing where they are not compared.
    pub fn is_met(self, published: f64, ours: f64) -> Option<bool> {
        match self {
            Self::Equal => Some((ours - published).abs() <= Self::TOLERANCE * published.abs()),
            Self::AtLeast => Some(ours >= published),
            Self::AtMost => Some(ours <= published),
            Self::NotCompared => None,
        }
    }
}

/// One figure: published, and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The curve, or the line of a table.
    pub series: String,
    /// Where along it.
    pub x: X,
    /// What is measured, such as `throughput`.
    pub metric: String,
    /// In what.
    pub unit: &'static str,
    /// What the paper says; nothing where it gives only a plot, or nothing.
    pub published: Option<f64>,
    /// When ours meets it.
    pub aim: Aim,
    /// What we find.
    pub ours: f64,
    /// How we found it.
    pub by: Method,
    /// What the figure is, and why it differs.
    pub note: String,
}

/// A row as JSON and CSV have it.
#[derive(Serialize)]
pub(super) struct Written<'a> {
    pub(super) paper: &'a str,
    pub(super) figure: &'a str,
    pub(super) series: &'a str,
    pub(super) x: &'a X,
    pub(super) metric: String,
    pub(super) unit: &'a str,
    pub(super) published: Option<f64>,
    pub(super) ours: f64,
    pub(super) note: String,
}

impl Row {
    /// A row that has no published figure.
    pub fn new(
        by: Method,
        series: &str,
        x: X,
        metric: &str,
        unit: &'static str,
        ours: f64,
        note: &str,
    ) -> Self {
        Self {
            series: series.into(),
            x,
            metric: metric.into(),
            unit,
            published: None,
            aim: Aim::Equal,
            ours,
            by,
            note: note.into(),
        }
    }

    /// Ours to the published figure.
    pub fn ratio(&self) -> Option<f64> {
        self.published.map(|p| self.ours / p)
    }

    /// Whether ours meets the published figure; nothing where there is none, or where the two are not compared.
    pub fn is_met(&self) -> Option<bool> {
        self.published.and_then(|p| self.aim.is_met(p, self.ours))
    }

    /// As JSON and CSV have it, in a figure of a paper.
    pub(super) fn written<'a>(&'a self, paper: &'a str, figure: &'a str) -> Written<'a> {
        // An executed figure has the plain name of its metric; any other says how it was found.
        let metric = match self.by {
            Method::Executed => self.metric.clone(),
            by => format!("{}, {}", self.metric, by.heading()),
        };
        Written {
            paper,
            figure,
            series: &self.series,
            x: &self.x,
            metric,
            unit: self.unit,
            published: self.published,
            ours: self.ours,
            note: format!("{}: {}", self.by.heading(), self.note),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_met_as_the_paper_means_it() {
        let check = |aim: Aim, published, ours, expected| {
            assert_eq!(aim.is_met(published, ours), expected, "{aim:?} {published} {ours}");
        };
        check(Aim::Equal, 10.0, 9.0, Some(true));
        check(Aim::Equal, 10.0, 11.1, Some(false));
        check(Aim::Equal, 0.0, 0.0, Some(true));
        check(Aim::AtLeast, 10.0, 10.0, Some(true));
        check(Aim::AtLeast, 10.0, 9.99, Some(false));
        check(Aim::AtMost, 10.0, 0.1, Some(true));
        check(Aim::AtMost, 10.0, 10.01, Some(false));
        check(Aim::NotCompared, 10.0, 10.0, None);
        let row = Row::new(Method::Executed, "s", X::None, "m", "x", 10.0, "n");
        assert_eq!((row.is_met(), row.ratio()), (None, None));
        let row = Row { published: Some(20.0), ..row };
        assert_eq!((row.is_met(), row.ratio()), (Some(false), Some(0.5)));
    }
}
