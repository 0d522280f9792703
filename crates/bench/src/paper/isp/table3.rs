//! Table 3: the difference between the analytic model and a simulated one.
//!
//! Claim, setup and expected shape: [`FIGURE`]. The equations and the drive share only the profile. If they agreed to
//! the last digit, one would be computed from the other, so this is an error.

use lode_base::{Profile, VirtualDuration};

use super::equations::Parameters;
use super::executed::Executor;
use super::experiment::{Experiment, System, of_the_paper};
use super::shared::row;
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;

/// The table.
pub const FIGURE: Figure = Figure {
    name: "table3",
    about: "Table 3: how far the equations are from what is executed",
    claim: "The equations differ from a cycle-accurate simulation by 6.4 % (cpu-ISP) and 0.9 % (hw-ISP).",
    setup: "8 channels of 100 MB/s. The executed drive stands for the simulation.",
    expected: "No error above the published one, and none of exactly 0.",
    differs: "The paper gives cycles of its simulation, but not for how many records. Only the errors are compared.",
    sizes: &[],
    rows: |run: &mut Run<'_>| executed(Executor::of(run)?),
    plot: None,
};

/// A scan that the modelled drive executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Executed {
    /// The system.
    pub system: System,
    /// The conditions, with the actual records and selectivity.
    pub experiment: Experiment,
    /// The modelled time.
    pub took: VirtualDuration,
}

/// The rows of the table: both times, and the error of the equations.
///
/// # Errors
/// [`BenchError::ComparedWithItself`] if the two agree to the picosecond.
pub fn rows(profile: &Profile, executed: &[Executed]) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for run in executed {
        let (name, e) = (run.system.name(), &run.experiment);
        let calculated = Parameters::new(profile, e).scan(run.system).total();
        let took = run.took.as_secs_f64();
        if (calculated - took).abs() < 1e-12 {
            return Err(BenchError::ComparedWithItself(name));
        }
        let note = format!(
            "{} channels of {}, {} records, selectivity {:.4}",
            e.channels, e.nand, e.records, e.selectivity
        );
        let ns = |seconds: f64| seconds * 1e9 / e.records as f64;
        let latency = |by, seconds| Row {
            by,
            note: format!(
                "{note}; the paper gives cycles, but not for how many records, and its Table 2 contradicts them"
            ),
            ..row(name, X::None, "latency", "ns/record", ns(seconds))
        };
        rows.push(latency(Method::Equations, calculated));
        rows.push(latency(Method::Executed, took));
        rows.push(Row {
            by: Method::Executed,
            aim: Aim::AtMost,
            published: match run.system {
                System::Ihp => None,
                System::CpuIsp => Some(6.4),
                System::HwIsp => Some(0.9),
            },
            note: format!("of the equations, relative to what was executed; {note}"),
            ..row(name, X::None, "error", "%", 100.0 * (calculated - took).abs() / took)
        });
    }
    Ok(rows)
}

/// The table, from new runs.
///
/// # Errors
/// If a run fails; those of [`rows`].
pub fn executed(x: &mut Executor) -> Result<Vec<Row>, BenchError> {
    let profile = x.profile().clone();
    let e = of_the_paper(&profile);
    let mut runs = Vec::new();
    for system in System::ALL {
        let scan = x.in_phases(system, &e)?;
        let selectivity = scan.matched as f64 / scan.records as f64;
        let experiment = Experiment { records: scan.records, selectivity, ..e };
        runs.push(Executed { system, experiment, took: scan.took });
    }
    rows(&profile, &runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(system: System, factor: f64) -> (Profile, Executed) {
        let profile = Profile::find("isp-adms11").unwrap();
        let experiment = of_the_paper(&profile);
        let seconds = Parameters::new(&profile, &experiment).scan(system).total() * factor;
        let took = VirtualDuration::from_ps((seconds * 1e12).round() as u64);
        (profile, Executed { system, experiment, took })
    }

    #[test]
    fn the_error_is_to_what_was_executed_as_in_the_paper() {
        // The paper's own numbers: 317,446 cycles simulated, 297,282 by its model.
        let (profile, run) = took(System::CpuIsp, 317_446.0 / 297_282.0);
        let rows = rows(&profile, &[run]).unwrap();
        let error = rows.iter().find(|r| r.metric == "error").unwrap();
        assert_eq!((error.published, (error.ours * 10.0).round()), (Some(6.4), 64.0));
        let latency: Vec<_> = rows.iter().filter(|r| r.metric == "latency").map(|r| r.ours).collect();
        assert!((latency[0] - 469.034).abs() < 1e-3 && (latency[1] - 500.847).abs() < 1e-2, "{latency:?}");
    }

    #[test]
    fn a_faster_drive_has_an_error_too() {
        let (profile, run) = took(System::Ihp, 0.5);
        let rows = rows(&profile, &[run]).unwrap();
        assert_eq!((rows[2].published, rows[2].ours.round()), (None, 100.0));
    }

    #[test]
    fn a_model_compared_with_itself_is_refused() {
        let (profile, run) = took(System::HwIsp, 1.0);
        let e = rows(&profile, &[run]).unwrap_err();
        assert!(matches!(e, BenchError::ComparedWithItself("hw-ISP")), "{e}");
    }
}
