//! Operations of the modelled machine, and their energy.

use crate::VirtualDuration;
use crate::profile::EnergyCosts;

/// Operations of a modelled device and of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Operations {
    /// Pages that the array read.
    pub reads: u64,
    /// Reads of the array that the page buffer in the device's memory spared.
    pub buffered: u64,
    /// Program units.
    pub programs: u64,
    /// Erase units.
    pub erases: u64,
    /// Bytes on the channels.
    pub bus_bytes: u64,
    /// Bytes that scan units filtered.
    pub scan_bytes: u64,
    /// Bytes into and out of the device's memory.
    pub dram_bytes: u64,
    /// Cycles of the device's cores.
    pub core_cycles: u64,
    /// Bytes to the host.
    pub up_bytes: u64,
    /// Bytes to the device.
    pub down_bytes: u64,
    /// Time that the host computed.
    pub host_busy: VirtualDuration,
}

/// Energy by what used it, in joules.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct EnergyUse {
    /// Array reads.
    pub reads: f64,
    /// Programs.
    pub programs: f64,
    /// Erasures.
    pub erases: f64,
    /// Channels.
    pub bus: f64,
    /// Scan units.
    pub scan: f64,
    /// The device's memory.
    pub dram: f64,
    /// The device's cores.
    pub cores: f64,
    /// The link.
    pub link: f64,
    /// The device, idle or not.
    pub idle: f64,
    /// The host's CPU, above idling.
    pub host_busy: f64,
    /// The host, idle or not.
    pub host_idle: f64,
}

impl EnergyUse {
    /// Each part with its name.
    pub fn parts(&self) -> [(&'static str, f64); 11] {
        [
            ("array reads", self.reads),
            ("programs", self.programs),
            ("erasures", self.erases),
            ("channels", self.bus),
            ("scan units", self.scan),
            ("device memory", self.dram),
            ("device cores", self.cores),
            ("link", self.link),
            ("device idle", self.idle),
            ("host computing", self.host_busy),
            ("host idle", self.host_idle),
        ]
    }

    /// The sum of all parts.
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|p| p.1).sum()
    }

    /// The device's share.
    pub fn device(&self) -> f64 {
        self.total() - self.host_busy - self.host_idle
    }
}

impl Operations {
    /// The operations since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            buffered: self.buffered - before.buffered,
            programs: self.programs - before.programs,
            erases: self.erases - before.erases,
            bus_bytes: self.bus_bytes - before.bus_bytes,
            scan_bytes: self.scan_bytes - before.scan_bytes,
            dram_bytes: self.dram_bytes - before.dram_bytes,
            core_cycles: self.core_cycles - before.core_cycles,
            up_bytes: self.up_bytes - before.up_bytes,
            down_bytes: self.down_bytes - before.down_bytes,
            host_busy: self.host_busy - before.host_busy,
        }
    }

    /// The energy of these operations over a time.
    pub fn energy(&self, costs: &EnergyCosts, over: VirtualDuration) -> EnergyUse {
        EnergyUse {
            reads: costs.read.joules(self.reads),
            programs: costs.program.joules(self.programs),
            erases: costs.erase.joules(self.erases),
            bus: costs.bus_byte.joules(self.bus_bytes),
            scan: costs.scan_byte.joules(self.scan_bytes),
            dram: costs.dram_byte.joules(self.dram_bytes),
            cores: costs.core_cycle.joules(self.core_cycles),
            link: costs.link_byte.joules(self.up_bytes + self.down_bytes),
            idle: costs.idle.joules(over),
            host_busy: costs.host_busy.joules(self.host_busy),
            host_idle: costs.host_idle.joules(over),
        }
    }
}
