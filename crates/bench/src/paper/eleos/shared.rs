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
    LinePlot { heading, x, y: upwards(y_label, most), series }.svg()
}

/// An axis from 0 to a round number above `most`, with up to five ticks.
fn upwards(label: &str, most: f64) -> Axis {
    let most = most.max(1e-9);
    let power = 10f64.powi(most.log10().floor() as i32);
    let step =
        [0.2, 0.5, 1.0, 2.0].into_iter().map(|s| s * power).find(|s| s * 5.0 >= most).unwrap_or(2.0 * power);
    let steps = (most / step).ceil().max(1.0);
    // Rounding keeps labels short.
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
