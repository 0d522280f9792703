//! Fig. 10: power over time while Q2 runs.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::VirtualDuration;

use super::rig::{Rig, Stretch};
use super::systems::{ENABLED, System};
use crate::BenchError;
use crate::paper::figure::{Figure, Plot};
use crate::paper::plot::{Axis, Heading, LinePlot, Series, colour};
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "power",
    about: "Fig. 10: power over time while Q2 runs",
    claim: "YourSQL draws more power than MySQL, since it uses the drive's bandwidth better, and for a much shorter time.",
    setup: "Q2 from an empty buffer pool, as in Table 7. The clock is read every 0.1 ms; the energy of each stretch is \
            divided by its time. Each curve has 40 intervals of one length.",
    expected: "YourSQL's curve is a little higher and much shorter. Most of the power is the server's idle power, which both have.",
    differs: "The paper's meter measured a whole server, which drew 119 W with MySQL and 212 W with YourSQL on average (its Table 7 by its times). What is \
              modelled is the drive, the host's core and its idle power. The paper sees power after the end of a query, for writes of the buffer pool; \
              here a query that only reads leaves nothing to write.",
    sizes: &[scales::PERCENT],
    rows,
    plot: Some(Plot { draw: plot, by: &[Method::Executed] }),
};

const METRIC: &str = "power";
/// Intervals of each curve.
const INTERVALS: usize = 40;
/// How often the clock is read.
const EVERY: VirtualDuration = VirtualDuration::from_ns(100_000);

/// The systems with the published energy in joules and time in seconds.
const SYSTEMS: [(System, Option<(f64, f64)>); 4] = [
    (System::MySql, Some((131_000.0, 1_104.0))),
    (System::YourSql, Some((5_300.0, 25.0))),
    (System::Strong, None),
    (System::Lode, None),
];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let q2 = ENABLED.iter().find(|q| q.number == 2).expect("Q2 is filtered early");
    let (mut rows, mut means) = (Vec::new(), Vec::new());
    for (system, published) in SYSTEMS {
        run.go_on()?;
        let rig = Rig::of(run)?;
        rig.watch(Some(EVERY));
        let took = system.run(rig, q2);
        rig.watch(None);
        let took = took?;
        let (seconds, joules) = (took.time.as_secs_f64(), took.energy.total());
        let each = seconds / INTERVALS as f64;
        for (n, watts) in spread(&took.stretches, each).into_iter().enumerate() {
            // In milliseconds, to the microsecond.
            let x = X::Number(((n as f64 + 0.5) * each * 1e6).round() / 1e3);
            let note = "mean of an interval; x is its middle, in milliseconds";
            rows.push(Row::new(Method::Executed, system.name(), x, METRIC, "W", watts, note));
        }
        means.push(Row {
            published: published.map(|(joules, seconds)| joules / seconds),
            aim: Aim::NotCompared,
            ..Row::new(
                Method::Executed,
                system.name(),
                X::None,
                "mean power",
                "W",
                joules / seconds,
                system.about(),
            )
        });
    }
    rows.extend(means);
    Ok(rows)
}

/// The mean power in intervals of so many seconds. A stretch has the same power in each of its moments.
fn spread(stretches: &[Stretch], each: f64) -> [f64; INTERVALS] {
    let mut joules = [0.0; INTERVALS];
    let mut from = 0.0;
    for stretch in stretches {
        let seconds = stretch.time.as_secs_f64();
        let to = from + seconds;
        let first = ((from / each) as usize).min(INTERVALS - 1);
        let last = ((to / each) as usize).min(INTERVALS - 1);
        for (n, joules) in joules.iter_mut().enumerate().take(last + 1).skip(first) {
            let (begin, end) = (n as f64 * each, (n + 1) as f64 * each);
            // The end of the last interval is that of the last stretch, but for rounding.
            let end = if n + 1 == INTERVALS { end.max(to) } else { end };
            let shared = (to.min(end) - from.max(begin)).max(0.0);
            *joules += if seconds > 0.0 { stretch.joules * shared / seconds } else { 0.0 };
        }
        from = to;
    }
    joules.map(|j| j / each)
}

/// Its plot.
///
/// # Errors
/// When it cannot be drawn.
fn plot(rows: &[Row]) -> Result<String, BenchError> {
    let colours = [colour::VERMILION, colour::BLUE, colour::ORANGE, colour::GREEN];
    let series: Vec<Series> =
        SYSTEMS.iter().zip(colours).map(|((system, _), c)| curve(rows, *system, c)).collect();
    let points = || series.iter().flat_map(|s| &s.points);
    let least = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let last = points().map(|p| p.0).fold(0.0, f64::max);
    let most = points().map(|p| p.1).fold(0.0, f64::max);
    LinePlot {
        heading: Heading {
            title: "Fig. 10: power while Q2 runs".into(),
            subtitle:
                "Drive, the host's core and the server's idle power. The horizontal axis is logarithmic."
                    .into(),
        },
        x: Axis::decades("time since the query began, in milliseconds", least, last),
        y: Axis::upwards("power, in watts", most),
        series,
    }
    .svg()
}

fn curve(rows: &[Row], system: System, colour: plotters::style::RGBColor) -> Series {
    let of_it = rows.iter().filter(|r| r.series == system.name() && r.metric == METRIC);
    let points = of_it.filter_map(|r| match r.x {
        X::Number(x) => Some((x, r.ours)),
        _ => None,
    });
    Series { name: system.name().into(), colour, dashed: false, points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_kept_when_it_is_spread() {
        let stretch = |ms: u64, joules| Stretch { time: VirtualDuration::from_ns(ms * 1_000_000), joules };
        // 400 ms: intervals of 10 ms. 2 J within the first interval, 30 J over the next thirty, 8 J over the rest.
        let watts = spread(&[stretch(4, 1.0), stretch(6, 1.0), stretch(300, 30.0), stretch(90, 8.0)], 0.01);
        assert!(
            (watts[0] - 200.0).abs() < 1e-6
                && (watts[1] - 100.0).abs() < 1e-6
                && (watts[30] - 100.0).abs() < 1e-6
        );
        assert!((watts[39] - 8.0 / 0.09).abs() < 1e-6, "{watts:?}");
        assert!((watts.iter().sum::<f64>() * 0.01 - 40.0).abs() < 1e-6);
    }
}
