//! Splits a modelled time into the parts of the machine that used it.

use std::fmt;
use std::ops::AddAssign;

use crate::VirtualDuration;

/// A part of the modelled machine. Waiting for a part counts as its time.
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
    /// The link between device and host.
    Link,
    /// The host's CPU.
    Host,
}

impl Part {
    /// All parts.
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

/// A time, split into parts that add up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Split([VirtualDuration; Part::ALL.len()]);

impl Split {
    /// The time of one part.
    pub const fn of(&self, part: Part) -> VirtualDuration {
        self.0[part as usize]
    }

    /// The whole time.
    pub fn total(&self) -> VirtualDuration {
        self.0.iter().copied().sum()
    }

    /// The time since `before`.
    ///
    /// # Panics
    /// When a part was larger before.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] - before.0[i]))
    }

    /// Divides `waited` as this time was divided: each part gets its share, rounded down to a picosecond, and the largest part gets
    /// the remainder.
    ///
    /// # Panics
    /// When `waited` is longer than this time.
    #[must_use]
    pub fn share(&self, waited: VirtualDuration) -> Self {
        let (total, waited) = (self.total().as_ps(), waited.as_ps());
        assert!(waited <= total, "{waited} ps of {total}");
        if waited == 0 {
            return Self::default();
        }
        let part = |d: VirtualDuration| u128::from(d.as_ps()) * u128::from(waited) / u128::from(total);
        let mut shares = self.0.map(|d| VirtualDuration::from_ps(part(d) as u64));
        let left = VirtualDuration::from_ps(waited) - shares.iter().copied().sum();
        let largest = (0..shares.len()).rev().max_by_key(|&i| self.0[i]).expect("there are parts");
        shares[largest] += left;
        Self(shares)
    }

    /// Adds time to a part.
    pub fn add(&mut self, part: Part, time: VirtualDuration) {
        self.0[part as usize] += time;
    }
}

impl AddAssign for Split {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(parts: [u64; 6]) -> Split {
        Split(parts.map(VirtualDuration::from_ps))
    }

    #[test]
    fn shares_of_a_time_add_up_to_the_picosecond() {
        let check = |parts, waited, expected| {
            let got = split(parts).share(VirtualDuration::from_ps(waited));
            assert_eq!(got, split(expected), "{waited} of {parts:?}");
            assert_eq!(got.total().as_ps(), waited);
        };
        check([50, 30, 20, 0, 0, 0], 10, [5, 3, 2, 0, 0, 0]);
        check([50, 30, 20, 0, 0, 0], 100, [50, 30, 20, 0, 0, 0]);
        check([50, 30, 20, 0, 0, 0], 0, [0; 6]);
        check([1, 1, 1, 0, 0, 0], 2, [2, 0, 0, 0, 0, 0]);
        check([3, 4, 4, 0, 0, 0], 5, [1, 3, 1, 0, 0, 0]);
        let huge = 1 << 62;
        check([huge, huge, 0, 0, 0, 0], 3, [2, 1, 0, 0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "11 ps of 10")]
    fn nobody_waits_longer_than_what_he_waits_for() {
        let _ = split([10, 0, 0, 0, 0, 0]).share(VirtualDuration::from_ps(11));
    }
}
