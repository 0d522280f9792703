//! What a time was spent on.

use std::fmt;
use std::ops::AddAssign;

use crate::VirtualDuration;

/// A part of the modelled machine that time is spent on, waiting for it included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The flash array.
    Media,
    /// The buses of the channels.
    Bus,
    /// Cores, scan units and decompressors of the device.
    Device,
    /// The memory of the device.
    Dram,
    /// Between device and host.
    Link,
    /// The host's CPU.
    Host,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Media, Self::Bus, Self::Device, Self::Dram, Self::Link, Self::Host];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::Bus => "bus",
            Self::Device => "device",
            Self::Dram => "dram",
            Self::Link => "link",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A time, by what it was spent on: the parts of it add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Split([VirtualDuration; Part::ALL.len()]);

impl Split {
    /// What was spent on a part.
    pub const fn of(&self, part: Part) -> VirtualDuration {
        self.0[part as usize]
    }

    /// All of it.
    pub fn total(&self) -> VirtualDuration {
        self.0.iter().copied().sum()
    }

    /// Spends a time on a part.
    pub fn add(&mut self, part: Part, time: VirtualDuration) {
        self.0[part as usize] += time;
    }
}

impl AddAssign for Split {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }
}
