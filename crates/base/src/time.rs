//! Virtual time: the clock of the modelled device. Wall time never appears here.
//!
//! Instant minus instant is a duration, instant plus duration an instant; adding two instants does not compile.

use std::ops::{Add, AddAssign, Sub};

/// An instant of virtual time, in nanoseconds since the device was opened. Runs in wall time pass [`VirtualNs::ZERO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtualNs(u64);

/// A length of virtual time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtualDuration(u64);

impl VirtualNs {
    /// The start of virtual time.
    pub const ZERO: Self = Self(0);

    /// The instant this many nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
}

impl VirtualDuration {
    /// A duration of this many nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Its nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
}

impl Add<VirtualDuration> for VirtualNs {
    type Output = Self;
    fn add(self, d: VirtualDuration) -> Self {
        Self(self.0 + d.0)
    }
}

impl AddAssign<VirtualDuration> for VirtualNs {
    fn add_assign(&mut self, d: VirtualDuration) {
        self.0 += d.0;
    }
}

impl Sub for VirtualNs {
    type Output = VirtualDuration;
    fn sub(self, earlier: Self) -> VirtualDuration {
        VirtualDuration(self.0.checked_sub(earlier.0).expect("virtual time runs forward"))
    }
}

impl Add for VirtualDuration {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0 + d.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_durations() {
        let t = VirtualNs::from_ns(5) + VirtualDuration::from_ns(7);
        assert_eq!(t - VirtualNs::from_ns(2), VirtualDuration::from_ns(10));
    }
}
