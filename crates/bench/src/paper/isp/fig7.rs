//! Fig. 7: throughput over selectivity, for three links.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::Profile;

use super::equations::Parameters;
use super::executed::Executor;
use super::experiment::{Experiment, System, mb_per_s, of_the_paper};
use super::shared::{THROUGHPUT, row, throughput, throughput_axis, told};
use crate::BenchError;
use crate::paper::figure::{Figure, Plot};
use crate::paper::plot::{Axis, Heading, LinePlot, Series, colour};
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig7",
    about: "Fig. 7: throughput over selectivity and host link",
    claim: "hw-ISP nears IHP as selectivity nears 1, with every link.",
    setup: "DRAM at 1,333 MHz, 16 channels of 400 MB/s; SATA 2, SATA 3 and PCIe x16; selectivity 0 to 1.",
    expected: "IHP does not depend on selectivity. hw-ISP falls and stays above IHP, which also needs the host's CPU.",
    differs: "The paper says that hw-ISP converges to IHP. It stays above, because IHP also needs the host's CPU for every record.",
    sizes: &[],
    rows,
    plot: Some(Plot { draw: plot, by: &[Method::Executed, Method::Equations] }),
};

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = by_equations(run.profile());
    rows.extend(executed(Executor::of(run)?)?);
    Ok(rows)
}

/// The links, with their rates in MB/s.
pub const LINKS: [(&str, u64); 3] = [("SATA 2", 375), ("SATA 3", 750), ("PCIe x16", 8000)];
const SELECTIVITIES: [f64; 10] = [0.0, 0.013, 0.03, 0.06, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
/// The two systems that the figure is about.
const SYSTEMS: [System; 2] = [System::HwIsp, System::Ihp];

fn name(system: System, link: &str) -> String {
    format!("{}, {link}", system.name())
}

/// The fastest drive of the paper, with one of its links.
pub(super) fn fastest(profile: &Profile, link: u64) -> Experiment {
    let (nand, dram, link) = (mb_per_s(400), mb_per_s(5328), mb_per_s(link));
    Experiment { channels: 16, nand, dram, link, ..of_the_paper(profile) }
}

/// The rows of the figure by one method. `records_per_s` returns how many records a system scans per second.
///
/// # Errors
/// The errors of `records_per_s`.
fn rows_by<E>(
    profile: &Profile,
    by: Method,
    mut records_per_s: impl FnMut(System, &Experiment) -> Result<f64, E>,
) -> Result<Vec<Row>, E> {
    let (mut rows, mut leads) = (Vec::new(), Vec::new());
    for (link, mb) in LINKS {
        let mut last = [0.0; 2];
        for (system, last) in SYSTEMS.into_iter().zip(&mut last) {
            for selectivity in SELECTIVITIES {
                let e = Experiment { selectivity, ..fastest(profile, mb) };
                *last = records_per_s(system, &e)?;
                let r = row(&name(system, link), X::Number(selectivity), THROUGHPUT, "records/s", *last);
                let note = format!(
                    "records scanned per second over selectivity, {} channels of {}, DRAM {}, link {}; published as a plot",
                    e.channels, e.nand, e.dram, e.link
                );
                rows.push(Row { by, note, ..r });
            }
        }
        let lead = row(link, X::Number(1.0), "hw-ISP to IHP", "x", last[0] / last[1]);
        let mut note =
            "at selectivity 1. The paper says that the two converge; what keeps them apart here is the host's CPU"
                .to_string();
        if mb > 5328 {
            note += "; equation (3) includes the DRAM, whose 5,328 MB/s is less than this link's rate; over the link alone the ratio would be 1.34";
        }
        leads.push(Row { by, note, ..lead });
    }
    rows.extend(leads);
    Ok(rows)
}

/// The figure by the equations.
pub fn by_equations(profile: &Profile) -> Vec<Row> {
    let calculated = |system, e: &Experiment| Ok(Parameters::new(profile, e).records_per_s(system));
    let Ok::<_, std::convert::Infallible>(rows) = rows_by(profile, Method::Equations, calculated);
    rows
}

/// The executed figure.
///
/// # Errors
/// When a run fails.
pub fn executed(x: &mut Executor) -> Result<Vec<Row>, BenchError> {
    let profile = x.profile().clone();
    rows_by(&profile, Method::Executed, |s, e| Ok(x.in_phases(s, e)?.records_per_s()))
}

/// Its plot.
///
/// # Errors
/// When it cannot be drawn.
pub fn plot(rows: &[Row]) -> Result<String, BenchError> {
    let colours = [colour::GREEN, colour::VERMILION, colour::BLUE];
    let mut series = Vec::new();
    for ((link, _), colour) in LINKS.into_iter().zip(colours).rev() {
        for system in SYSTEMS {
            let name = name(system, link);
            let points = throughput(rows, &name);
            series.push(Series { name, colour, dashed: system == System::Ihp, points });
        }
    }
    LinePlot {
        heading: Heading {
            title: "Fig. 7: scan throughput over selectivity and host link".into(),
            subtitle: format!(
                "{}: 16 channels of 400 MB/s, DRAM 5,328 MB/s. The vertical axis is logarithmic.",
                told(rows)
            ),
        },
        x: Axis {
            label: "selectivity (share of records that match)".into(),
            ticks: vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
            from: 0.0,
            to: 1.02,
            log: false,
        },
        y: throughput_axis(),
        series,
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hw_isp_nears_ihp_and_stays_above() {
        let rows = by_equations(&Profile::find("isp-adms11").unwrap());
        for (link, _) in LINKS {
            let curve = |s| -> Vec<f64> {
                let it = name(s, link);
                rows.iter().filter(|r| r.series == it).map(|r| r.ours).collect()
            };
            let (hw, ihp) = (curve(System::HwIsp), curve(System::Ihp));
            assert_eq!((hw.len(), ihp.len()), (SELECTIVITIES.len(), SELECTIVITIES.len()));
            assert!(ihp.windows(2).all(|w| w[0] == w[1]), "{ihp:?}");
            assert!(hw.windows(2).all(|w| w[0] > w[1]) && hw[SELECTIVITIES.len() - 1] > ihp[0], "{hw:?}");
            // Without a match, only the flash counts, with any link.
            assert!((hw[0] / 3.83e7 - 1.0).abs() < 0.001, "{hw:?}");
        }
        let leads: Vec<f64> = rows.iter().filter(|r| r.unit == "x").map(|r| r.ours).collect();
        assert_eq!(leads.iter().map(|l| (l * 100.0).round()).collect::<Vec<_>>(), [104.0, 107.0, 128.0]);
    }
}
