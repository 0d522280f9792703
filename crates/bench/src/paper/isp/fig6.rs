//! Fig. 6: the latency of a scan, by component.
//!
//! Claim, setup and expected shape: [`FIGURE`]. The bandwidth of section 5.2.3 is here too.

use lode_base::Profile;

use super::equations::{Breakdown, Parameters};
use super::executed::Executor;
use super::experiment::{CHANNELS, Experiment, NAND_MB_PER_S, System, mb_per_s, of_the_paper};
use super::shared::{mb, row, told};
use crate::BenchError;
use crate::paper::figure::{Figure, Plot};
use crate::paper::plot::{Axis, BarPlot, Group, Heading, colour};
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "fig6",
    about: "Fig. 6: where the time of a scan goes",
    claim: "IHP is bound by the link and cpu-ISP by the embedded CPU. Both are bound by the DRAM from 16 channels of 200 MB/s \
            on. hw-ISP is bound by the flash alone.",
    setup: "8 and 16 channels of 100, 200 and 400 MB/s; DRAM at 667 MHz, SATA 2, selectivity 0.013. Phases are added up.",
    expected: "The embedded CPU is more than half of cpu-ISP. The link is the largest part of IHP. With 16 channels, IHP and \
               cpu-ISP take as long at 200 as at 400 MB/s.",
    differs: "",
    sizes: &[],
    rows,
    plot: Some(Plot { draw: plot, by: &[Method::Executed, Method::Equations] }),
};

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = by_equations(run.profile());
    rows.extend(executed(Executor::of(run)?)?);
    Ok(rows)
}

/// The four components, from below.
const PARTS: [&str; 4] = ["FMC to DRAM", "embedded CPU", "DRAM to host", "host CPU"];

fn parts(b: &Breakdown) -> [f64; 4] {
    [b.fmc_to_dram, b.embedded_cpu, b.dram_to_host, b.host_cpu]
}

/// The rows of the figure by one method. `scan` returns how long a scan takes, by component.
///
/// # Errors
/// The errors of `scan`.
fn rows_by<E>(
    profile: &Profile,
    by: Method,
    mut scan: impl FnMut(System, &Experiment) -> Result<Breakdown, E>,
) -> Result<Vec<Row>, E> {
    let paper = of_the_paper(profile);
    let note = format!(
        "time per record, phases added up, DRAM {}, link {}, selectivity {}; published as a plot",
        paper.dram, paper.link, paper.selectivity
    );
    let mut rows = Vec::new();
    for system in System::ALL {
        for channels in CHANNELS {
            for nand in NAND_MB_PER_S.map(mb_per_s) {
                let e = Experiment { channels, nand, ..paper };
                for (part, seconds) in PARTS.into_iter().zip(parts(&scan(system, &e)?)) {
                    let ns = seconds * 1e9 / e.records as f64;
                    let r = row(&system.with_channels(channels), X::Number(mb(nand)), part, "ns/record", ns);
                    rows.push(Row { by, note: note.clone(), ..r });
                }
            }
        }
    }
    Ok(rows)
}

/// The figure by the equations, and the bandwidth of section 5.2.3.
pub fn by_equations(profile: &Profile) -> Vec<Row> {
    let calculated = |system, e: &Experiment| Ok(Parameters::new(profile, e).scan(system));
    let Ok::<_, std::convert::Infallible>(mut rows) = rows_by(profile, Method::Equations, calculated);
    let e = Experiment { channels: 16, nand: mb_per_s(200), ..of_the_paper(profile) };
    let rate = Parameters::new(profile, &e).array_bytes_per_s() / 1e6;
    let array = row("flash, 16 channels", X::Number(200.0), "bandwidth", "MB/s", rate);
    let note = "section 5.2.3: (1) with P of 65,536 bytes per channel; above the DRAM's 2,664".into();
    rows.push(Row { published: Some(2776.0), note, ..array });
    rows
}

/// The executed figure.
///
/// # Errors
/// When a run fails.
pub fn executed(x: &mut Executor) -> Result<Vec<Row>, BenchError> {
    let profile = x.profile().clone();
    rows_by(&profile, Method::Executed, |s, e| Ok(x.in_phases(s, e)?.breakdown(e.records)))
}

/// Its plot.
///
/// # Errors
/// When it cannot be drawn.
pub fn plot(rows: &[Row]) -> Result<String, BenchError> {
    let ours = |series: &str, speed: u64, part: &str| {
        let is_it = |r: &&Row| r.series == series && r.x == X::Number(speed as f64) && r.metric == part;
        rows.iter().find(is_it).map_or(0.0, |r| r.ours)
    };
    let bar =
        |series: &str, speed| (format!("{speed}"), PARTS.map(|part| ours(series, speed, part)).to_vec());
    let group = |name: String| Group { bars: NAND_MB_PER_S.map(|s| bar(&name, s)).to_vec(), name };
    let names = System::ALL.map(|s| CHANNELS.map(|c| s.with_channels(c))).concat();
    let colours = [colour::BLUE, colour::VERMILION, colour::GREEN, colour::ORANGE];
    BarPlot {
        heading: Heading {
            title: "Fig. 6: where the time of a scan goes".into(),
            subtitle: format!("{}: DRAM 2,664 MB/s, link 375 MB/s (SATA 2), selectivity 0.013.", told(rows)),
        },
        x_label: "NAND speed (MB/s per channel), system and channels".into(),
        y: Axis {
            label: "latency (ns per record)".into(),
            ticks: (0..=6).map(|n| f64::from(n) * 100.0).collect(),
            from: 0.0,
            to: 600.0,
            log: false,
        },
        parts: PARTS.map(String::from).into_iter().zip(colours).collect(),
        groups: names.into_iter().map(group).collect(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_is_bound_by_what_the_paper_says() {
        let profile = Profile::find("isp-adms11").unwrap();
        let scan = |system, channels, nand| {
            let e = Experiment { channels, nand: mb_per_s(nand), ..of_the_paper(&profile) };
            Parameters::new(&profile, &e).scan(system)
        };
        for channels in CHANNELS {
            for nand in NAND_MB_PER_S {
                let [ihp, cpu, hw] = System::ALL.map(|s| scan(s, channels, nand));
                assert!(ihp.dram_to_host > ihp.total() / 2.0, "{ihp:?}");
                assert!(cpu.embedded_cpu > cpu.total() / 2.0, "{cpu:?}");
                assert!(hw.fmc_to_dram > hw.total() * 0.8, "{hw:?}");
            }
        }
        for system in [System::Ihp, System::CpuIsp] {
            assert_eq!(scan(system, 16, 200).fmc_to_dram, scan(system, 16, 400).fmc_to_dram);
        }
        assert!(scan(System::HwIsp, 16, 400).fmc_to_dram < scan(System::HwIsp, 16, 200).fmc_to_dram);
    }

    #[test]
    fn rows_are_times_a_record_that_add_up() {
        let profile = Profile::find("isp-adms11").unwrap();
        let one = |_: System, e: &Experiment| {
            let s = e.records as f64 / 1e9;
            Ok::<_, ()>(Breakdown {
                fmc_to_dram: s,
                embedded_cpu: 2.0 * s,
                dram_to_host: 3.0 * s,
                host_cpu: 4.0 * s,
            })
        };
        let rows = rows_by(&profile, Method::Executed, one).unwrap();
        assert_eq!(rows.len(), 72);
        let first: Vec<f64> = rows[..4].iter().map(|r| r.ours.round()).collect();
        assert_eq!(first, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(rows[1].metric, "embedded CPU");
    }
}
