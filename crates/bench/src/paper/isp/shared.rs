//! Functions that the figures of this paper share: rows, and the axis and curves of throughput.

use lode_base::profile::Rate;

use crate::paper::plot::Axis;
use crate::paper::row::{Method, Row, X};

/// The metric of records scanned per second.
pub(super) const THROUGHPUT: &str = "throughput";

/// A row by the equations, without a published value and a note.
pub(super) fn row(series: &str, x: X, metric: &str, unit: &'static str, ours: f64) -> Row {
    Row::new(Method::Equations, series, x, metric, unit, ours, "")
}

/// Megabytes per second.
pub(super) fn mb(rate: Rate) -> f64 {
    rate.bytes_per_s() as f64 / 1e6
}

/// The curve of a series: millions of records per second over x.
pub(super) fn throughput(rows: &[Row], series: &str) -> Vec<(f64, f64)> {
    let of_it = rows.iter().filter(|r| r.series == series && r.metric == THROUGHPUT);
    let point = |r: &Row| match r.x {
        X::Number(x) => Some((x, r.ours / 1e6)),
        _ => None,
    };
    of_it.filter_map(point).collect()
}

/// The axis of such curves.
pub(super) fn throughput_axis() -> Axis {
    Axis {
        label: "throughput (million records/s)".into(),
        ticks: vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0],
        from: 1.0,
        to: 50.0,
        log: true,
    }
}

/// The method by which the rows of a plot were found, as words.
pub(super) fn told(rows: &[Row]) -> &'static str {
    match rows.first().map(|r| r.by) {
        Some(Method::Executed) => "Executed in modelled time",
        _ => "By the paper's equations",
    }
}
