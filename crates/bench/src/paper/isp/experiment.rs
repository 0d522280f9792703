//! The parameters that the paper varies, and the three systems that it compares.
//!
//! The equations and the modelled drive both take an experiment and the profile.

use lode_base::Profile;
use lode_base::profile::Rate;

/// L_rec: a record of the table, in bytes (section 5.2.2).
pub const RECORD_BYTES: u64 = 128;
/// α of Table 2: the share of records that Q6's predicate lets through.
pub const SELECTIVITY: f64 = 0.013;
/// N_rec: records of `lineitem` at scale 1, on which the paper profiled (section 5.1).
pub const RECORDS: u64 = 6_001_215;
/// Numbers of channels (Table 1).
pub const CHANNELS: [u32; 2] = [8, 16];
/// Speeds of a channel's bus, in MB/s (Table 1).
pub const NAND_MB_PER_S: [u64; 3] = [100, 200, 400];

/// The part that filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// In-host processing: the host's CPU.
    Ihp,
    /// The embedded CPU of the drive.
    CpuIsp,
    /// Comparators in the flash controllers.
    HwIsp,
}

impl System {
    /// All of them, as the paper names them.
    pub const ALL: [Self; 3] = [Self::Ihp, Self::CpuIsp, Self::HwIsp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ihp => "IHP",
            Self::CpuIsp => "cpu-ISP",
            Self::HwIsp => "hw-ISP",
        }
    }

    /// Its name with this number of channels, as in the legends of Fig. 5 and 6: `hw-ch8`.
    pub fn with_channels(self, channels: u32) -> String {
        let prefix = match self {
            Self::Ihp => "IHP",
            Self::CpuIsp => "cpu",
            Self::HwIsp => "hw",
        };
        format!("{prefix}-ch{channels}")
    }
}

/// The parameters that an experiment varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experiment {
    /// Channels.
    pub channels: u32,
    /// The speed of a channel's bus.
    pub nand: Rate,
    /// The device's memory.
    pub dram: Rate,
    /// The link to the host.
    pub link: Rate,
    /// The share of records that match, from 0 to 1.
    pub selectivity: f64,
    /// Records of the table.
    pub records: u64,
}

/// The unchanged profile, with the paper's table and predicate.
pub fn of_the_paper(profile: &Profile) -> Experiment {
    Experiment {
        channels: profile.geometry.channels(),
        nand: profile.bus.rate,
        dram: profile.dram.rate,
        link: profile.link.up,
        selectivity: SELECTIVITY,
        records: RECORDS,
    }
}

/// A rate of this many megabytes per second.
pub fn mb_per_s(mb: u64) -> Rate {
    Rate::from_bytes_per_s(mb * 1_000_000)
}
