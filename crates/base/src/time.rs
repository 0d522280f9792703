//! Virtual time: the clock of the modelled device, in whole picoseconds. Wall time never appears here.
//!
//! Instant minus instant is a duration, instant plus duration an instant; adding two instants does not compile. Picoseconds,
//! since a byte on a fast bus takes a fraction of a nanosecond; 64 bits of them are 213 days.
//!
//! Invariant: no sum wraps. Times from a peer are added too, so a sum that overflows saturates.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// An instant of virtual time, in picoseconds since the device was opened. Runs in wall time pass [`VirtualTime::ZERO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtualTime(u64);

/// A length of virtual time, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtualDuration(u64);

impl VirtualTime {
    /// The start of virtual time.
    pub const ZERO: Self = Self(0);
    /// An instant that is never reached.
    pub const NEVER: Self = Self(u64::MAX);
    /// The last instant at which a modelled device begins a command: half of the 64-bit range (106 days). The other
    /// half is for the work that has begun, so that its end does not overflow.
    pub const BEGIN_MAX: Self = Self(1 << 63);

    /// The instant this many picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The duration from an earlier instant to this one; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> VirtualDuration {
        VirtualDuration(self.0.saturating_sub(earlier.0))
    }
}

impl VirtualDuration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// A duration of this many picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// A duration of this many nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1000)
    }

    /// Its picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whether it is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Its seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Add<VirtualDuration> for VirtualTime {
    type Output = Self;
    fn add(self, d: VirtualDuration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<VirtualDuration> for VirtualTime {
    fn add_assign(&mut self, d: VirtualDuration) {
        self.0 = self.0.saturating_add(d.0);
    }
}

impl Sub for VirtualTime {
    type Output = VirtualDuration;
    fn sub(self, earlier: Self) -> VirtualDuration {
        VirtualDuration(self.0.checked_sub(earlier.0).expect("virtual time runs forward"))
    }
}

impl Add for VirtualDuration {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign for VirtualDuration {
    fn add_assign(&mut self, d: Self) {
        self.0 = self.0.saturating_add(d.0);
    }
}

impl Sub for VirtualDuration {
    type Output = Self;
    fn sub(self, d: Self) -> Self {
        Self(self.0.checked_sub(d.0).expect("a duration is not negative"))
    }
}

impl Mul<u64> for VirtualDuration {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Sum for VirtualDuration {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_durations() {
        let t = VirtualTime::from_ps(5) + VirtualDuration::from_ps(7);
        assert_eq!(t - VirtualTime::from_ps(2), VirtualDuration::from_ps(10));
        assert_eq!(VirtualTime::from_ps(2).since(t), VirtualDuration::ZERO);
        let ns = VirtualDuration::from_ns(3);
        assert_eq!((ns * 2, [ns, ns].into_iter().sum()), (VirtualDuration::from_ps(6000), ns + ns));
        assert_eq!(VirtualDuration::from_ns(1_500_000_000).as_secs_f64(), 1.5);
    }

    /// Found by review: sums of times from a peer overflowed.
    #[test]
    fn sums_of_whatever_a_peer_says_do_not_wrap() {
        let most = VirtualDuration::from_ps(u64::MAX);
        let (mut at, mut sum) = (VirtualTime::NEVER, most);
        at += VirtualDuration::from_ps(1);
        sum += most;
        assert_eq!((at, at + most), (VirtualTime::NEVER, VirtualTime::NEVER));
        assert_eq!((sum, sum + most, sum * 3, [most, most].into_iter().sum()), (most, most, most, most));
    }
}
