//! Equations (1) to (9) of the paper, as written.
//!
//! ```text
//!   flash ─(1)─► FMC ─(2), filtered (7)─► DRAM ─(3)─► host          a channel brings P bytes at a time
//!                                          └─(5) embedded CPU       cpu-ISP (6), hw-ISP (8), IHP (9)
//! ```
//!
//! Times are in seconds. Phases are added up and never overlap. Within a phase, the slower of two parts counts.
//!
//! We interpret the text in two places. P is 65,536 bytes: a page of each way of a channel. With the 8,192 of Table
//! 1, equation (1) would wait for tR once per page, and 8 channels of 100 MB/s would read 497 MB/s, where the text
//! has 743. The DRAM writes of (2) and (7) count all channels, because the channels share the DRAM. The text's limit
//! of 2,664 MB/s for 16 channels of 200 MB/s confirms this.
//!
//! Source: ADMS'11, sections 4.1 to 4.4. This module does not use the event model: the two share only the profile.

use lode_base::Profile;

use super::experiment::{Experiment, RECORD_BYTES, System};

/// The variables of the equations. They come from the profile, unless the experiment replaces them.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// L_page.
    pub page_bytes: u64,
    /// N_way.
    pub ways: u64,
    /// N_ch.
    pub channels: u64,
    /// P.
    pub transfer_bytes: u64,
    /// tR.
    pub read_s: f64,
    /// The rate of a channel's bus.
    pub bus_bytes_per_s: f64,
    /// The rate of the device's memory.
    pub dram_bytes_per_s: f64,
    /// The rate of the link to the host.
    pub up_bytes_per_s: f64,
    /// The rate of the link to the device.
    pub down_bytes_per_s: f64,
    /// The clock rate of the embedded CPU's bus.
    pub cycles_per_s: f64,
    /// t_comp, in those cycles.
    pub compare_cycles: f64,
    /// t_result, in those cycles.
    pub emit_cycles: f64,
    /// t_IHP_scan_rec_cpu.
    pub host_record_s: f64,
    /// L_rec.
    pub record_bytes: f64,
    /// The share of records that match, from 0 to 1.
    pub selectivity: f64,
    /// N_rec.
    pub records: f64,
}

/// The time of a scan by component: the four components of Fig. 6.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Breakdown {
    /// From the flash controllers to DRAM.
    pub fmc_to_dram: f64,
    /// The embedded CPU.
    pub embedded_cpu: f64,
    /// From DRAM to the host.
    pub dram_to_host: f64,
    /// The host's CPU.
    pub host_cpu: f64,
}

impl Breakdown {
    /// The sum of the components.
    pub fn total(&self) -> f64 {
        self.fmc_to_dram + self.embedded_cpu + self.dram_to_host + self.host_cpu
    }
}

impl Parameters {
    /// The variables of a profile in an experiment.
    pub fn new(profile: &Profile, experiment: &Experiment) -> Self {
        let page_bytes = u64::from(profile.geometry.rblock_bytes());
        let ways = u64::from(profile.geometry.ways());
        Self {
            page_bytes,
            ways,
            channels: experiment.channels.into(),
            transfer_bytes: page_bytes * ways,
            read_s: profile.nand.read.as_secs_f64(),
            bus_bytes_per_s: experiment.nand.bytes_per_s() as f64,
            dram_bytes_per_s: experiment.dram.bytes_per_s() as f64,
            up_bytes_per_s: experiment.link.bytes_per_s() as f64,
            down_bytes_per_s: experiment.link.bytes_per_s() as f64,
            cycles_per_s: profile.cores.clock.hz() as f64,
            compare_cycles: profile.cores.compare_cycles.into(),
            emit_cycles: profile.cores.emit_cycles.into(),
            host_record_s: profile.host.filter.as_secs_f64(),
            record_bytes: RECORD_BYTES as f64,
            selectivity: experiment.selectivity,
            records: experiment.records as f64,
        }
    }

    /// t_page: the transfer of a page over the bus of its channel.
    fn page_transfer(&self) -> f64 {
        self.page_bytes as f64 / self.bus_bytes_per_s
    }

    /// The transfer of `bytes` into DRAM or out of it.
    fn dram(&self, bytes: f64) -> f64 {
        bytes / self.dram_bytes_per_s
    }

    /// The transfer of P bytes of each channel into the shared DRAM.
    fn dram_write_of_all_channels(&self) -> f64 {
        self.dram((self.channels * self.transfer_bytes) as f64)
    }

    /// Equation (1), t_flash_read: P bytes from the ways of a channel to its controller.
    pub fn flash_read(&self) -> f64 {
        let pages = self.transfer_bytes.div_ceil(self.page_bytes) as f64;
        let rounds = self.transfer_bytes.div_ceil(self.page_bytes * self.ways) as f64;
        pages * self.page_transfer() + rounds * self.read_s
    }

    /// Equation (2), t_FMC→DRAM: P bytes of each channel to DRAM.
    pub fn fmc_to_dram(&self) -> f64 {
        self.flash_read().max(self.dram_write_of_all_channels())
    }

    /// Equation (3), t_DRAM→Host: P bytes to the host.
    pub fn dram_to_host(&self) -> f64 {
        let bytes = self.transfer_bytes as f64;
        (bytes / self.up_bytes_per_s).max(self.dram(bytes))
    }

    /// Equation (4), t_Host→DRAM: P bytes from the host. A scan does not need it.
    pub fn host_to_dram(&self) -> f64 {
        let bytes = self.transfer_bytes as f64;
        (bytes / self.down_bytes_per_s).max(self.dram(bytes))
    }

    /// Equation (5), t_scan_cpu: the embedded CPU over the whole table.
    pub fn scan_cpu(&self) -> f64 {
        self.records * self.record_cycles() / self.cycles_per_s
    }

    /// Cycles of the embedded CPU for a record, on average: the bracket of equation (5).
    pub fn record_cycles(&self) -> f64 {
        self.compare_cycles + self.selectivity * self.emit_cycles
    }

    /// Equation (6): the table goes to DRAM, the embedded CPU filters it, and the matching records go to the host.
    pub fn cpu_isp(&self) -> Breakdown {
        Breakdown {
            fmc_to_dram: self.rounds() * self.fmc_to_dram(),
            embedded_cpu: self.scan_cpu(),
            dram_to_host: self.selectivity * self.transfers() * self.dram_to_host(),
            host_cpu: 0.0,
        }
    }

    /// Equation (7), t^S_FMC→DRAM: P bytes of each channel, of which only the matching records go to DRAM.
    pub fn fmc_to_dram_filtered(&self) -> f64 {
        self.flash_read().max(self.selectivity * self.dram_write_of_all_channels())
    }

    /// Equation (8): the controllers filter, without any CPU.
    pub fn hw_isp(&self) -> Breakdown {
        Breakdown {
            fmc_to_dram: self.rounds() * self.fmc_to_dram_filtered(),
            embedded_cpu: 0.0,
            dram_to_host: self.selectivity * self.transfers() * self.dram_to_host(),
            host_cpu: 0.0,
        }
    }

    /// Equation (9): the whole table goes to the host, which filters it.
    pub fn ihp(&self) -> Breakdown {
        Breakdown {
            fmc_to_dram: self.rounds() * self.fmc_to_dram(),
            embedded_cpu: 0.0,
            dram_to_host: self.transfers() * self.dram_to_host(),
            host_cpu: self.records * self.host_record_s,
        }
    }

    /// The time of a scan by the equation of a system.
    pub fn scan(&self, system: System) -> Breakdown {
        match system {
            System::Ihp => self.ihp(),
            System::CpuIsp => self.cpu_isp(),
            System::HwIsp => self.hw_isp(),
        }
    }

    /// Records that a system scans per second.
    pub fn records_per_s(&self, system: System) -> f64 {
        self.records / self.scan(system).total()
    }

    /// Bytes that all channels together read per second: P bytes each in the time of (1).
    pub fn array_bytes_per_s(&self) -> f64 {
        (self.channels * self.transfer_bytes) as f64 / self.flash_read()
    }

    /// N_rec L_rec / P.
    fn transfers(&self) -> f64 {
        self.records * self.record_bytes / self.transfer_bytes as f64
    }

    /// N_rec L_rec / (P N_ch).
    fn rounds(&self) -> f64 {
        self.transfers() / self.channels as f64
    }
}

#[cfg(test)]
mod tests {
    use lode_base::{Profile, VirtualDuration};

    use super::super::experiment::{mb_per_s, of_the_paper};
    use super::*;

    fn given(channels: u32, nand: u64, change: impl FnOnce(&mut Experiment)) -> Parameters {
        let profile = Profile::find("isp-adms11").unwrap();
        let mut e = Experiment { channels, nand: mb_per_s(nand), ..of_the_paper(&profile) };
        change(&mut e);
        Parameters::new(&profile, &e)
    }

    /// Checks that the two are equal to this many digits.
    #[track_caller]
    fn check(ours: f64, expected: f64, digits: i32) {
        let unit = 10f64.powi(expected.abs().log10().floor() as i32 + 1 - digits);
        assert!((ours - expected).abs() <= unit / 2.0 * (1.0 + 1e-9), "{ours} is not {expected}");
    }

    /// Nanoseconds per record of a system.
    fn ns(p: &Parameters, system: System) -> f64 {
        1e9 / p.records_per_s(system)
    }

    #[test]
    fn the_equations_give_the_papers_own_figures() {
        check(given(8, 100, |_| ()).array_bytes_per_s() / 1e6, 743.3, 4);
        check(given(16, 200, |_| ()).array_bytes_per_s() / 1e6, 2776.4, 5);
        // "About 29 bus cycles": 24 + 0.013 x 403 = 29.24.
        let p = given(8, 100, |_| ());
        check(p.record_cycles(), 29.0, 2);
        check(p.record_bytes * p.cycles_per_s / p.record_cycles().round() / 1e6, 441.0, 3);
        // Table 4.
        check(given(16, 400, |_| ()).array_bytes_per_s() / 128.0, 3.83e7, 3);
        let all = given(16, 400, |e| e.selectivity = 1.0);
        check(all.records / all.scan_cpu(), 2.34e5, 3);
        // The paper's 7.06e7 has digits that the 0.0142 us of its Table 2 lost by rounding. Values that round to it
        // give 7.02e7 to 7.07e7.
        check(1.0 / all.host_record_s, 7.04e7, 3);
        assert!((1e6 / 0.01425..1e6 / 0.01415).contains(&7.06e7));
        for (mb, records) in [(375, 2.93e6), (750, 5.86e6), (8000, 6.25e7)] {
            check(given(16, 400, |e| e.link = mb_per_s(mb)).up_bytes_per_s / 128.0, records, 3);
        }
    }

    #[test]
    fn the_best_ratios_of_figure_5() {
        let p = given(16, 400, |_| ());
        check(ns(&p, System::Ihp) / ns(&p, System::HwIsp), 13.2, 3);
        check(ns(&p, System::CpuIsp) / ns(&p, System::HwIsp), 11.3, 3);
    }

    /// Checks the report's note on the published 13.9: a DRAM at 70 % of its peak would give it, but only over IHP.
    #[test]
    fn a_dram_below_its_peak_would_make_the_published_ratio() {
        let p = given(16, 400, |e| e.dram = mb_per_s(2664 * 7 / 10));
        check(ns(&p, System::Ihp) / ns(&p, System::HwIsp), 13.9, 3);
        for dram in [1000, 1865, 2664, 5328] {
            let p = given(16, 400, |e| e.dram = mb_per_s(dram));
            check(ns(&p, System::Ihp) - ns(&p, System::CpuIsp), 58.7, 3);
        }
    }

    #[test]
    fn at_selectivity_1_hw_isp_still_leads() {
        let lead = |dram, link| {
            let p = given(16, 400, |e| {
                (e.selectivity, e.dram, e.link) = (1.0, mb_per_s(dram), mb_per_s(link));
            });
            ns(&p, System::Ihp) / ns(&p, System::HwIsp)
        };
        check(lead(5328, 375), 1.04, 3);
        check(lead(5328, 750), 1.07, 3);
        // By (3), the DRAM at 5.3 GB/s limits a link of 8 GB/s. With a DRAM that is faster than the link, the lead
        // would be 1.34.
        check(lead(5328, 8000), 1.28, 3);
        check(lead(8000, 8000), 1.34, 3);
    }

    /// Nanoseconds per record at 8 x 100 and at 16 x 400, each worked out by hand.
    ///
    /// 8 x 100: (1) 8 x 81.92 + 50 = 705.36 us for 4,096 records: 172.207 ns. Link 128 / 375 MB/s = 341.333 ns.
    /// 16 x 400: (1) 8 x 20.48 + 50 = 213.84 us for 8,192 records: 26.104 ns; DRAM 128 / 2,664 MB/s = 48.048 ns.
    #[test]
    fn each_system_as_worked_out_by_hand() {
        for (p, flash, dram) in
            [(given(8, 100, |_| ()), 172.207, 0.0), (given(16, 400, |_| ()), 26.104, 48.048)]
        {
            let through_dram = f64::max(flash, dram);
            check(ns(&p, System::HwIsp), flash + 0.013 * 341.333, 5);
            check(ns(&p, System::CpuIsp), through_dram + 292.39 + 0.013 * 341.333, 5);
            check(ns(&p, System::Ihp), through_dram + 341.333 + 14.2, 5);
        }
    }

    #[test]
    fn halving_tr_takes_25_us_from_each_round_that_the_flash_bounds() {
        let profile = Profile::find("isp-adms11").unwrap();
        let mut fast = profile.clone();
        fast.nand.read = VirtualDuration::from_ns(25_000);
        for (channels, nand) in [(8, 100), (16, 400)] {
            let e = Experiment { channels, nand: mb_per_s(nand), ..of_the_paper(&profile) };
            let (slow, fast) = (Parameters::new(&profile, &e), Parameters::new(&fast, &e));
            let saved = 25_000.0 / (f64::from(channels) * 512.0);
            check(ns(&slow, System::HwIsp) - ns(&fast, System::HwIsp), saved, 6);
            for system in [System::CpuIsp, System::Ihp] {
                // At 16 x 400, the DRAM bounds both systems, with either tR.
                let expected = if channels == 8 { saved } else { 0.0 };
                assert!((ns(&slow, system) - ns(&fast, system) - expected).abs() < 1e-9, "{system:?}");
            }
        }
        check(Parameters::new(&fast, &of_the_paper(&fast)).array_bytes_per_s() / 1e6, 770.6, 4);
    }

    #[test]
    fn doubling_the_channels_halves_the_flash_until_the_dram_bounds() {
        let change =
            |nand, system| ns(&given(8, nand, |_| ()), system) - ns(&given(16, nand, |_| ()), system);
        for system in System::ALL {
            check(change(100, system), 172.207 / 2.0, 5);
        }
        // (1) at 400 MB/s: 52.207 ns at 8 channels, 26.104 at 16, where the DRAM needs 48.048.
        check(change(400, System::HwIsp), 26.104, 4);
        check(change(400, System::CpuIsp), 52.207 - 48.048, 3);
        check(change(400, System::Ihp), 52.207 - 48.048, 3);
    }

    #[test]
    fn doubling_the_link_halves_what_goes_over_it() {
        let change = |system| {
            ns(&given(8, 100, |_| ()), system) - ns(&given(8, 100, |e| e.link = mb_per_s(750)), system)
        };
        check(change(System::Ihp), 341.333 / 2.0, 5);
        check(change(System::CpuIsp), 0.013 * 341.333 / 2.0, 5);
        check(change(System::HwIsp), 0.013 * 341.333 / 2.0, 5);
    }

    /// If the controllers pass every record on and the host filters, (8) at selectivity 1 plus the host's time equals
    /// (9). With the embedded CPU in the place of the comparators, (8) equals (6) unless the DRAM is the bound.
    #[test]
    fn switching_the_comparators_off_leaves_ihp_or_cpu_isp() {
        for (channels, nand) in [(8, 100), (8, 400), (16, 200), (16, 400)] {
            let off = given(channels, nand, |e| e.selectivity = 1.0);
            let on = given(channels, nand, |_| ());
            check(off.hw_isp().total() + off.records * off.host_record_s, on.ihp().total(), 12);
            let passed_on = off.hw_isp().fmc_to_dram + on.hw_isp().dram_to_host;
            check(passed_on + on.scan_cpu(), on.cpu_isp().total(), 12);
        }
    }

    #[test]
    fn both_directions_of_the_link_know_the_dram() {
        let p = given(8, 100, |e| e.link = mb_per_s(8000));
        check(p.dram_to_host() * 1e6, 65_536.0 / 2664.0, 12);
        check(p.host_to_dram() * 1e6, 65_536.0 / 2664.0, 12);
        check(given(8, 100, |_| ()).host_to_dram() * 1e6, 65_536.0 / 375.0, 12);
    }

    #[test]
    fn a_transfer_that_ends_within_a_page_reads_it_whole() {
        let p = Parameters { transfer_bytes: 65_537, ..given(8, 100, |_| ()) };
        check(p.flash_read() * 1e6, 9.0 * 81.92 + 2.0 * 50.0, 12);
    }
}
