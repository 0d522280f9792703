//! Plots of reports, as SVG.
//!
//! ```text
//!   +--------------------------------------+
//!   | title, subtitle                      |
//!   | y axis | plot              | legend  |
//!   |        | x axis            |         |
//!   +--------------------------------------+
//! ```
//!
//! The legend stands beside the plot, so that it covers nothing. No font is measured, so the bytes are the same on every
//! machine. A viewer shows the text in a font of its own.

use std::ops::Range;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, Drawable, PathElement, PointCollection, Rectangle, Text};
use plotters::prelude::Cartesian2d;
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE};

use crate::BenchError;

const WIDTH: i32 = 1000;
const HEIGHT: i32 = 560;
/// Margins of the plot itself.
const LEFT: i32 = 84;
const RIGHT: i32 = 236;
const TOP: i32 = 84;
const BOTTOM: i32 = 84;

/// Sizes of text. A size of 1.24 in Plotters is 1 in SVG.
const TITLE: f64 = 20.0 * 1.24;
const LABEL: f64 = 15.0 * 1.24;
const SMALL: f64 = 13.0 * 1.24;

/// The space between groups of bars, relative to the width of a bar.
const GAP: f64 = 0.7;

const GREY: RGBColor = RGBColor(90, 90, 90);
const MESH: RGBColor = RGBColor(222, 222, 222);

/// Colours that colour-blind people can distinguish, too (Okabe and Ito, 2008).
pub mod colour {
    use plotters::style::RGBColor;

    /// Blue.
    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    /// Vermilion.
    pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
    /// Green.
    pub const GREEN: RGBColor = RGBColor(0, 158, 115);
    /// Orange.
    pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
    /// Purple.
    pub const PURPLE: RGBColor = RGBColor(204, 121, 167);
}

/// The text above a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Heading {
    /// What the plot shows.
    pub title: String,
    /// The conditions.
    pub subtitle: String,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity along the axis, with its unit.
    pub label: String,
    /// The values that have a label.
    pub ticks: Vec<f64>,
    /// The first value.
    pub from: f64,
    /// The last value.
    pub to: f64,
    /// Whether the axis is logarithmic.
    pub log: bool,
}

impl Axis {
    /// An axis from 0 to a round number above `most`, with up to five ticks.
    pub fn upwards(label: &str, most: f64) -> Self {
        let most = most.max(1e-9);
        let power = 10f64.powi(most.log10().floor() as i32);
        let steps = [0.2, 0.5, 1.0, 2.0].into_iter().map(|s| s * power);
        let step = steps.into_iter().find(|s| s * 5.0 >= most).unwrap_or(2.0 * power);
        let steps = (most / step).ceil().max(1.0);
        // Rounding keeps labels short.
        let round = |v: f64| (v / power * 10.0).round() * power / 10.0;
        let ticks = (0..=steps as u32).map(|n| round(f64::from(n) * step)).collect();
        Self { label: label.into(), ticks, from: 0.0, to: round(steps * step), log: false }
    }

    /// A logarithmic axis of whole powers of ten that holds both values, with a tick at each.
    pub fn decades(label: &str, least: f64, most: f64) -> Self {
        let low = least.clamp(1e-9, 1e9).log10().floor() as i32;
        let high = (most.clamp(1e-9, 1e9).log10().ceil() as i32).max(low + 1);
        let power = |e: i32| format!("1e{e}").parse().expect("a power of ten is a number");
        let ticks = (low..=high).map(power).collect();
        Self { label: label.into(), ticks, from: power(low), to: power(high), log: true }
    }

    /// The place of a value along the axis: 0 at its beginning, 1 at its end.
    fn share(&self, value: f64) -> f64 {
        let scaled = |v: f64| if self.log { v.log10() } else { v };
        (scaled(value) - scaled(self.from)) / (scaled(self.to) - scaled(self.from))
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: RGBColor,
    /// Whether the line is dashed rather than solid.
    pub dashed: bool,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Curves over one pair of axes.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePlot {
    /// The text above the plot.
    pub heading: Heading,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
}

/// Bars of several parts, in groups.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPlot {
    /// The text above the plot.
    pub heading: Heading,
    /// The meaning of the labels below the bars, with the unit.
    pub x_label: String,
    /// The vertical axis, from 0.
    pub y: Axis,
    /// The parts of each bar, from below.
    pub parts: Vec<(String, RGBColor)>,
    /// Groups, from the left.
    pub groups: Vec<Group>,
}

/// Bars beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The label of each bar, and its parts.
    pub bars: Vec<(String, Vec<f64>)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

impl LinePlot {
    /// The plot as an SVG document.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn svg(&self) -> Result<String, BenchError> {
        draw(&self.heading, |root| {
            let mut chart = axes(root, &self.x, &self.y, true)?;
            // Dashed curves are drawn first, so that a disc covers a ring at the same point.
            let (dashed, solid): (Vec<_>, Vec<_>) = self.series.iter().partition(|s| s.dashed);
            for s in dashed.into_iter().chain(solid) {
                let style = s.colour.stroke_width(2);
                match s.dashed {
                    true => chart.draw_series(DashedLineSeries::new(s.points.clone(), 7, 5, style)).map(drop),
                    false => chart.draw_series(LineSeries::new(s.points.clone(), style)).map(drop),
                }
                .map_err(failed)?;
                for (size, style) in markers(s) {
                    chart
                        .draw_series(s.points.iter().map(|p| Circle::new(*p, size, style)))
                        .map_err(failed)?;
                }
            }
            for (line, s) in self.series.iter().enumerate() {
                let (x, y) = legend_place(line);
                let style = s.colour.stroke_width(2);
                let strokes = if s.dashed { vec![(0, 9), (13, 21), (25, 34)] } else { vec![(0, 34)] };
                for (from, to) in strokes {
                    put(root, &PathElement::new([(x + from, y), (x + to, y)], style))?;
                }
                for (size, style) in markers(s) {
                    put(root, &Circle::new((x + 17, y), size, style))?;
                }
                put(root, &text(&s.name, (x + 44, y), LABEL, HPos::Left, VPos::Center))?;
            }
            Ok(())
        })
    }
}

impl BarPlot {
    /// The plot as an SVG document.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn svg(&self) -> Result<String, BenchError> {
        let width = self.groups.iter().map(|g| g.bars.len() as f64 + GAP).sum();
        let x = Axis { label: self.x_label.clone(), ticks: vec![], from: 0.0, to: width, log: false };
        draw(&self.heading, |root| {
            let mut chart = axes(root, &x, &self.y, false)?;
            let mut left = GAP / 2.0;
            for group in &self.groups {
                let begin = left;
                for (label, parts) in &group.bars {
                    let mut below = 0.0;
                    for (part, (_, colour)) in parts.iter().zip(&self.parts) {
                        let (from, to) = ((left + 0.1, below), (left + 0.9, below + part));
                        below += part;
                        if *part > 0.0 {
                            chart
                                .draw_series([Rectangle::new([from, to], colour.filled())])
                                .map_err(failed)?;
                        }
                    }
                    under(root, &chart, left + 0.5, label, 8, SMALL)?;
                    left += 1.0;
                }
                under(root, &chart, (begin + left) / 2.0, &group.name, 28, LABEL)?;
                left += GAP;
            }
            // The legend has the order of the bars: the topmost part comes first.
            for (line, (name, colour)) in self.parts.iter().rev().enumerate() {
                let (x, y) = legend_place(line);
                put(root, &Rectangle::new([(x, y - 8), (x + 18, y + 8)], colour.filled()))?;
                put(root, &text(name, (x + 28, y), LABEL, HPos::Left, VPos::Center))?;
            }
            Ok(())
        })
    }
}

/// The circles of a point: a disc on a solid line, a ring on a dashed one.
fn markers(s: &Series) -> Vec<(u32, ShapeStyle)> {
    match s.dashed {
        true => vec![(5, WHITE.filled()), (5, s.colour.stroke_width(2))],
        false => vec![(3, s.colour.filled())],
    }
}

/// Text below the horizontal axis.
fn under(
    root: &Area<'_>,
    chart: &Chart<'_>,
    x: f64,
    words: &str,
    distance: i32,
    size: f64,
) -> Result<(), BenchError> {
    let (x, _) = chart.plotting_area().map_coordinate(&(x, 0.0));
    put(root, &text(words, (x, HEIGHT - BOTTOM + distance), size, HPos::Center, VPos::Top))
}

/// A page with its heading. `content` draws the rest.
fn draw(
    heading: &Heading,
    content: impl FnOnce(&Area<'_>) -> Result<(), BenchError>,
) -> Result<String, BenchError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, HEIGHT as u32)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        put(&root, &text(&heading.title, (LEFT, 34), TITLE, HPos::Left, VPos::Center))?;
        let subtitle = text(&heading.subtitle, (LEFT, 60), SMALL, HPos::Left, VPos::Center);
        put(&root, &subtitle)?;
        content(&root)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// The frame of a plot: its axes, their labels, and lines at the ticks.
fn axes<'a>(root: &Area<'a>, x: &Axis, y: &Axis, ticks_below: bool) -> Result<Chart<'a>, BenchError> {
    let mut chart = ChartBuilder::on(root)
        .margin_top(TOP)
        .margin_right(RIGHT)
        .x_label_area_size(BOTTOM)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x.clone(), y.clone())
        .map_err(failed)?;
    let font = |size: f64| ("sans-serif", size).into_font().color(&BLACK);
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(MESH)
        .light_line_style(MESH)
        .axis_style(GREY)
        .label_style(font(SMALL))
        .x_label_formatter(&f64::to_string)
        .y_label_formatter(&f64::to_string);
    if !ticks_below {
        mesh.disable_x_mesh().x_labels(0);
    }
    mesh.draw().map_err(failed)?;
    drop(mesh);
    let middle = (LEFT + (WIDTH - LEFT - RIGHT) / 2, TOP + (HEIGHT - TOP - BOTTOM) / 2);
    let below = if ticks_below { HEIGHT - BOTTOM + 44 } else { HEIGHT - 22 };
    put(root, &text(&x.label, (middle.0, below), LABEL, HPos::Center, VPos::Center))?;
    let style = font(LABEL).transform(FontTransform::Rotate270).pos(Pos::new(HPos::Center, VPos::Center));
    put(root, &Text::new(y.label.clone(), (24, middle.1), style))?;
    Ok(chart)
}

/// Where a line of the legend begins.
fn legend_place(line: usize) -> (i32, i32) {
    (WIDTH - RIGHT + 24, TOP + 16 + 26 * line as i32)
}

fn text(words: &str, at: (i32, i32), size: f64, h: HPos, v: VPos) -> Text<'static, (i32, i32), String> {
    let style: TextStyle<'static> = ("sans-serif", size).into_font().color(&BLACK).pos(Pos::new(h, v));
    Text::new(words.to_string(), at, style)
}

fn put<'a, E>(root: &Area<'_>, element: &'a E) -> Result<(), BenchError>
where
    &'a E: PointCollection<'a, (i32, i32)>,
    for<'b> E: Drawable<SVGBackend<'b>>,
{
    root.draw(element).map_err(failed)
}

fn failed(e: impl std::fmt::Display) -> BenchError {
    BenchError::Plot(e.to_string())
}

#[cfg(test)]
pub(super) use tests::assert_legible;

#[cfg(test)]
mod tests {
    use super::*;

    /// A drawn label: its words, and the box that a common font would fill.
    fn labels(svg: &str) -> Vec<(String, [f64; 4])> {
        let mut labels = Vec::new();
        for part in svg.split("<text ").skip(1) {
            let (attributes, rest) = part.split_once('>').unwrap();
            let words = rest.split_once("</text>").unwrap().0.trim().to_string();
            let attribute = |name: &str| {
                let from = attributes
                    .split_once(&format!(" {name}=\""))
                    .or(attributes.split_once(&format!("{name}=\"")));
                from.unwrap_or_else(|| panic!("{name} of {words}")).1.split_once('"').unwrap().0
            };
            let number = |name: &str| attribute(name).parse::<f64>().unwrap();
            let (x, y, size) = (number("x"), number("y"), number("font-size"));
            // In sans-serif fonts, a character is on average 0.45 to 0.58 times as wide as the size of the font.
            let width = 0.56 * size * words.chars().count() as f64;
            let left = match attribute("text-anchor") {
                "start" => 0.0,
                "middle" => width / 2.0,
                _ => width,
            };
            let (top, below) = match attribute("dy") {
                "0.76em" => (0.0, 1.0),
                "0.5ex" => (0.5, 0.5),
                _ => (1.0, 0.0),
            };
            let flat = [x - left, y - top * size, x - left + width, y + below * size];
            // The label is turned by 270 degrees about (x, y): its right end points up.
            let turned = attributes.contains("rotate(270");
            let area = match turned {
                true => [x - top * size, y - (flat[2] - x), x + below * size, y - (flat[0] - x)],
                false => flat,
            };
            labels.push((words, area));
        }
        labels
    }

    /// Checks that labels are on the page, and that none covers another.
    pub(in super::super) fn assert_legible(svg: &str) {
        let labels = labels(svg);
        assert!(labels.len() > 10, "{} labels", labels.len());
        for (at, (words, a)) in labels.iter().enumerate() {
            let inside = a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= f64::from(WIDTH) && a[3] <= f64::from(HEIGHT);
            assert!(!words.is_empty() && inside, "'{words}' at {a:?} is off the page");
            for (other, b) in &labels[..at] {
                let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                assert!(apart, "'{words}' covers '{other}'");
            }
        }
    }

    fn heading() -> Heading {
        Heading { title: "Title <&>".into(), subtitle: "under it".into() }
    }

    #[test]
    fn an_axis_ends_above_what_it_shows() {
        for most in [0.3, 1.0, 1.7, 4.0, 9.9, 49.0, 100.0, 447.0] {
            let a = Axis::upwards("", most);
            assert!(a.to >= most && a.to <= 2.1 * most && a.ticks.len() <= 7, "{most}: {a:?}");
            assert_eq!(a.ticks.last(), Some(&a.to));
        }
        let ticks = |least, most| Axis::decades("", least, most).ticks;
        assert_eq!(ticks(0.05, 9.0), [0.01, 0.1, 1.0, 10.0]);
        assert_eq!(ticks(3.0, 3.0), [1.0, 10.0]);
    }

    fn axis(label: &str, log: bool) -> Axis {
        Axis { label: label.into(), ticks: vec![1.0, 2.0, 5.0, 10.0], from: 1.0, to: 10.0, log }
    }

    #[test]
    fn a_line_plot_has_all_that_a_reader_needs() {
        let series = |name: &str, dashed| Series {
            name: name.into(),
            colour: colour::BLUE,
            dashed,
            points: vec![(1.0, 2.0), (10.0, 5.0)],
        };
        let plot = LinePlot {
            heading: heading(),
            x: axis("across (m)", false),
            y: axis("up (s)", true),
            series: vec![series("one", false), series("two", true)],
        };
        let svg = plot.svg().unwrap();
        for words in
            ["Title &lt;&amp;&gt;", "under it", "across (m)", "up (s)", "one", "two", "\n5\n", "\n10\n"]
        {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        // Each curve has two points and one in the legend. A ring has two circles.
        assert_eq!(svg.matches("<circle").count(), 9);
        assert_legible(&svg);
        assert_eq!(svg, plot.svg().unwrap());
    }

    #[test]
    fn bars_stand_on_each_other() {
        let bar = |label: &str, parts: [f64; 2]| (label.to_string(), parts.to_vec());
        let plot = BarPlot {
            heading: heading(),
            x_label: "kind".into(),
            y: Axis { from: 0.0, ..axis("up (s)", false) },
            parts: vec![("lower".into(), colour::BLUE), ("upper".into(), colour::GREEN)],
            groups: vec![
                Group { name: "left".into(), bars: vec![bar("a", [2.0, 3.0]), bar("b", [5.0, 0.0])] },
                Group { name: "right".into(), bars: vec![bar("c", [1.0, 1.0])] },
            ],
        };
        let svg = plot.svg().unwrap();
        assert_legible(&svg);
        let of = |colour: &str| -> Vec<(f64, f64)> {
            let rects = svg.split("<rect ").skip(1).filter(|r| r.contains(colour));
            let number = |r: &str, name: &str| {
                r.split_once(&format!("{name}=\""))
                    .unwrap()
                    .1
                    .split_once('"')
                    .unwrap()
                    .0
                    .parse::<f64>()
                    .unwrap()
            };
            rects.map(|r| (number(r, " y"), number(r, "height"))).collect()
        };
        let (lower, upper) = (of("#0072B2"), of("#009E73"));
        // The last square of each part is that of the legend. An empty part is not drawn.
        assert_eq!((lower.len(), upper.len()), (4, 3));
        assert!((upper[0].0 + upper[0].1 - lower[0].0).abs() <= 1.0, "{upper:?} {lower:?}");
        assert!((upper[0].1 / lower[0].1 - 1.5).abs() < 0.02, "{upper:?} {lower:?}");
    }
}
