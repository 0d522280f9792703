//! Functions that the figures of this paper share: rows, and curves over an axis from 0.

use plotters::style::RGBColor;

use crate::BenchError;
use crate::paper::plot::{Axis, Heading, LinePlot, Series, colour};
use crate::paper::row::{Method, Row, X};

/// A row without a published value, in modelled time.
pub(super) fn row(series: &str, x: X, metric: &str, unit: &'static str, ours: f64, note: &str) -> Row {
    Row::new(Method::Executed, series, x, metric, unit, ours, note)
}

/// The curves of a metric, one for each series.
pub(super) fn curves(
    rows: &[Row],
    metric: &str,
    heading: Heading,
    x: Axis,
    y_label: &str,
    unit: f64,
) -> Result<String, BenchError> {
    const COLOURS: [RGBColor; 5] =
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
    LinePlot { heading, x, y: Axis::upwards(y_label, most), series }.svg()
}
