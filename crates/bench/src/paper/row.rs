//! A row: one published value, and ours beside it.
//!
//! ```text
//!   series, x, metric, unit │ published │ ours, and its method │ note: what the value is, and why it differs
//! ```

use std::fmt;

use serde::Serialize;

/// The method by which a value of ours was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Calculated, by the paper's own equations.
    Equations,
    /// Calculated from the paper's parameters, if the paper gives no equation.
    Arithmetic,
    /// Executed, in modelled time.
    Executed,
    /// Measured, in wall time, on this machine.
    Measured,
}

impl Method {
    /// The heading of a column of its values.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Equations => "by the equations",
            Self::Arithmetic => "by arithmetic",
            Self::Executed => "executed",
            Self::Measured => "in wall time",
        }
    }

    /// The end of the name of a plot of its values.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Equations => "-equations",
            Self::Arithmetic => "-arithmetic",
            Self::Executed => "",
            Self::Measured => "-wall",
        }
    }

    /// Whether the values are calculated, so no drive ran.
    pub fn is_calculated(self) -> bool {
        matches!(self, Self::Equations | Self::Arithmetic)
    }
}

/// The place of a value along its series.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum X {
    /// A quantity.
    Number(f64),
    /// One of several kinds.
    Name(String),
    /// None, because the series has only one value.
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

/// When a value of ours meets the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Within [`Aim::TOLERANCE`] of it.
    Equal,
    /// Ours must be at least as large, because the paper claims a gain.
    AtLeast,
    /// Ours must be at most as large, because the paper claims a bound on a cost or an error.
    AtMost,
    /// The two are not compared, because they come from different machines or queries. The note says which.
    NotCompared,
}

impl Aim {
    /// The greatest difference of an equal value, relative to the published one.
    pub const TOLERANCE: f64 = 0.1;

    /// Whether `ours` meets `published`, or `None` if the two are not compared.
    pub fn is_met(self, published: f64, ours: f64) -> Option<bool> {
        match self {
            Self::Equal => Some((ours - published).abs() <= Self::TOLERANCE * published.abs()),
            Self::AtLeast => Some(ours >= published),
            Self::AtMost => Some(ours <= published),
            Self::NotCompared => None,
        }
    }
}

/// One value: the published one, and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The curve, or the line of a table.
    pub series: String,
    /// The place along the series.
    pub x: X,
    /// What is measured, such as `throughput`.
    pub metric: String,
    /// The unit.
    pub unit: &'static str,
    /// The published value, or `None` if the paper gives only a plot or no value.
    pub published: Option<f64>,
    /// When ours meets the published value.
    pub aim: Aim,
    /// Our value.
    pub ours: f64,
    /// The method by which we found our value.
    pub by: Method,
    /// What our value is, and why it differs.
    pub note: String,
}

/// A row in the form of JSON and CSV.
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
    /// A row without a published value.
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

    /// The ratio of our value to the published one.
    pub fn ratio(&self) -> Option<f64> {
        self.published.map(|p| self.ours / p)
    }

    /// Whether ours meets the published value, or `None` if there is none or the two are not compared.
    pub fn is_met(&self) -> Option<bool> {
        self.published.and_then(|p| self.aim.is_met(p, self.ours))
    }

    /// The row in the form of JSON and CSV, in a figure of a paper.
    pub(super) fn written<'a>(&'a self, paper: &'a str, figure: &'a str) -> Written<'a> {
        // An executed value has the plain name of its metric. For other values, the name includes the method.
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
