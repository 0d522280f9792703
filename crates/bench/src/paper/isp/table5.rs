//! Table 5: the energy of a scan, relative to that of IHP.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use super::executed::Executor;
use super::experiment::{System, of_the_paper};
use super::shared::row;
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;

/// The table.
pub const FIGURE: Figure = Figure {
    name: "table5",
    about: "Table 5: the energy of a scan",
    claim: "A scan by comparators needs 0.142 of the energy of IHP. The paper measured a string search on a laptop with \
            modified firmware: another platform and another query.",
    setup: "8 channels of 100 MB/s, selectivity 0.013. The energy of each component of the modelled drive and host, from the \
            operations that were executed, idle power included.",
    expected: "hw-ISP needs a fraction of the energy of IHP, most of it saved at the host.",
    differs: "The paper measured another platform and another query. So its figure stands beside ours and is not compared.",
    sizes: &[],
    rows: |run: &mut Run<'_>| executed(Executor::of(run)?),
    plot: None,
};

/// Joules that a scan used, by component.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Used {
    /// Reads of the flash array.
    pub flash: f64,
    /// The channels' buses.
    pub bus: f64,
    /// The comparators.
    pub scan_units: f64,
    /// The device's memory.
    pub dram: f64,
    /// The embedded CPU.
    pub cores: f64,
    /// The link.
    pub link: f64,
    /// The device's idle power, over the whole time.
    pub device_idle: f64,
    /// The host's CPU while it computed.
    pub host_busy: f64,
    /// The host's idle power, over the whole time.
    pub host_idle: f64,
}

impl Used {
    fn parts(&self) -> [(&'static str, f64); 9] {
        [
            ("flash", self.flash),
            ("channel buses", self.bus),
            ("comparators", self.scan_units),
            ("DRAM", self.dram),
            ("embedded CPU", self.cores),
            ("link", self.link),
            ("device idle", self.device_idle),
            ("host CPU", self.host_busy),
            ("host idle", self.host_idle),
        ]
    }

    /// The sum of the components.
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|p| p.1).sum()
    }
}

/// The rows of the table, from the energy of scans of the same table: the energy of each system by component, and its
/// ratio to that of IHP.
pub fn rows(ihp: &Used, others: &[(System, Used)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (system, used) in [(System::Ihp, *ihp)].iter().chain(others) {
        let parts = used.parts().into_iter().chain([("all", used.total())]);
        rows.extend(parts.map(|(part, joules)| Row {
            by: Method::Executed,
            note: "by component, from the operations that were counted and the profile's costs".into(),
            ..row(system.name(), X::Name(part.into()), "energy", "J", joules)
        }));
    }
    rows.extend(others.iter().map(|(system, used)| Row {
        by: Method::Executed,
        aim: Aim::NotCompared,
        published: (*system == System::HwIsp).then_some(0.142),
        note: "the paper measured a string search on a laptop, with firmware that stood in for the comparators; ours is \
               the modelled drive and host with idle power"
            .into(),
        ..row(system.name(), X::None, "energy to IHP", "x", used.total() / ihp.total())
    }));
    rows
}

/// The table, from new runs.
///
/// # Errors
/// When a run fails.
pub fn executed(x: &mut Executor) -> Result<Vec<Row>, BenchError> {
    let e = of_the_paper(x.profile());
    let mut used = |system| {
        let e = x.in_phases(system, &e)?.energy;
        Ok::<_, BenchError>(Used {
            flash: e.reads + e.programs + e.erases,
            bus: e.bus,
            scan_units: e.scan,
            dram: e.dram,
            cores: e.cores,
            link: e.link,
            device_idle: e.idle,
            host_busy: e.host_busy,
            host_idle: e.host_idle,
        })
    };
    let (ihp, cpu, hw) = (used(System::Ihp)?, used(System::CpuIsp)?, used(System::HwIsp)?);
    Ok(rows(&ihp, &[(System::CpuIsp, cpu), (System::HwIsp, hw)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_adds_up_and_the_ratio_is_of_the_totals() {
        let ihp = Used { flash: 1.0, link: 2.0, host_busy: 3.0, host_idle: 4.0, ..Used::default() };
        let hw = Used { flash: 1.0, scan_units: 0.5, device_idle: 0.5, ..Used::default() };
        let rows = rows(&ihp, &[(System::CpuIsp, ihp), (System::HwIsp, hw)]);
        let ratios: Vec<_> = rows.iter().filter(|r| r.unit == "x").map(|r| (r.published, r.ours)).collect();
        assert_eq!(ratios, [(None, 1.0), (Some(0.142), 0.2)]);
        for system in ["IHP", "cpu-ISP", "hw-ISP"] {
            let joules: Vec<f64> =
                rows.iter().filter(|r| r.series == system && r.unit == "J").map(|r| r.ours).collect();
            let (all, parts) = joules.split_last().unwrap();
            assert_eq!((parts.len(), parts.iter().sum::<f64>()), (9, *all));
        }
    }
}
