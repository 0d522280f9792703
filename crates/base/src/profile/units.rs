//! Quantities of a profile. They are checked when they are parsed, and exact afterwards.
//!
//! Times are whole picoseconds. The time of some bytes at a rate is rounded up. No float is left after parsing.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::VirtualDuration;

const PS_PER_S: u64 = 1_000_000_000_000;

/// The time of `count` items at `per_s` per second, in picoseconds, rounded up.
fn ps_of(count: u64, per_s: u64) -> Option<u64> {
    // The product nearly always fits 64 bits, where a division is much faster.
    match count.checked_mul(PS_PER_S) {
        Some(ps) => Some(ps.div_ceil(per_s)),
        None => u64::try_from((u128::from(count) * u128::from(PS_PER_S)).div_ceil(per_s.into())).ok(),
    }
}

/// Bytes in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// A rate in bytes per second; at least one.
    pub const fn from_bytes_per_s(bytes: u64) -> Self {
        assert!(bytes > 0);
        Self(bytes)
    }

    /// Bytes in a second.
    pub const fn bytes_per_s(self) -> u64 {
        self.0
    }

    /// The time that this many bytes take, rounded up to a picosecond.
    pub fn time(self, bytes: u64) -> VirtualDuration {
        VirtualDuration::from_ps(ps_of(bytes, self.0).expect("a transfer of less than 213 days"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MB/s", self.0 as f64 / 1e6)
    }
}

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frequency(u64);

impl Frequency {
    /// A clock of this many cycles per second; at least one.
    pub const fn from_hz(hz: u64) -> Self {
        assert!(hz > 0);
        Self(hz)
    }

    /// Cycles in a second.
    pub const fn hz(self) -> u64 {
        self.0
    }

    /// The time that this many cycles take, rounded up to a picosecond.
    pub fn time(self, cycles: u64) -> VirtualDuration {
        VirtualDuration::from_ps(ps_of(cycles, self.0).expect("a computation of less than 213 days"))
    }
}

/// An energy, in femtojoules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Energy(u64);

impl Energy {
    /// Its femtojoules.
    pub const fn as_fj(self) -> u64 {
        self.0
    }

    /// The energy of `count` of these, in joules.
    pub fn joules(self, count: u64) -> f64 {
        (u128::from(self.0) * u128::from(count)) as f64 / 1e15
    }
}

/// A power, in microwatts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Power(u64);

impl Power {
    /// The energy over a time, in joules.
    pub fn joules(self, over: VirtualDuration) -> f64 {
        self.0 as f64 / 1e6 * over.as_secs_f64()
    }
}

/// A number between two others.
fn number<'de, D: Deserializer<'de>>(d: D, least: f64, most: f64) -> Result<f64, D::Error> {
    let n = f64::deserialize(d)?;
    if (least..=most).contains(&n) {
        return Ok(n);
    }
    Err(D::Error::custom(format!("{n} is not from {least} to {most}")))
}

fn scaled<'de, D: Deserializer<'de>>(d: D, scale: f64, least: f64, most: f64) -> Result<u64, D::Error> {
    Ok((number(d, least, most)? * scale).round() as u64)
}

/// How a number of a profile becomes a quantity.
pub(super) mod read {
    use super::*;

    pub(in super::super) fn us<'de, D: Deserializer<'de>>(d: D) -> Result<VirtualDuration, D::Error> {
        scaled(d, 1e6, 0.0, 1e6).map(VirtualDuration::from_ps)
    }

    pub(in super::super) fn ns<'de, D: Deserializer<'de>>(d: D) -> Result<VirtualDuration, D::Error> {
        scaled(d, 1e3, 0.0, 1e9).map(VirtualDuration::from_ps)
    }

    pub(in super::super) fn mb_per_s<'de, D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
        scaled(d, 1e6, 0.001, 1e7).map(Rate)
    }

    pub(in super::super) fn mhz<'de, D: Deserializer<'de>>(d: D) -> Result<Frequency, D::Error> {
        scaled(d, 1e6, 0.001, 1e6).map(Frequency)
    }

    pub(in super::super) fn nj<'de, D: Deserializer<'de>>(d: D) -> Result<Energy, D::Error> {
        scaled(d, 1e6, 0.0, 1e9).map(Energy)
    }

    pub(in super::super) fn pj<'de, D: Deserializer<'de>>(d: D) -> Result<Energy, D::Error> {
        scaled(d, 1e3, 0.0, 1e9).map(Energy)
    }

    pub(in super::super) fn mw<'de, D: Deserializer<'de>>(d: D) -> Result<Power, D::Error> {
        scaled(d, 1e3, 0.0, 1e9).map(Power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bytes_and_cycles_take_is_exact_and_rounded_up() {
        let bus = Rate::from_bytes_per_s(100_000_000);
        assert_eq!(bus.time(8192), VirtualDuration::from_ns(81_920));
        assert_eq!(Rate::from_bytes_per_s(1_200_000_000).time(1), VirtualDuration::from_ps(834));
        assert_eq!(Rate::from_bytes_per_s(1).time(3), VirtualDuration::from_ns(3_000_000_000));
        assert_eq!(Frequency::from_hz(100_000_000).time(24), VirtualDuration::from_ns(240));
        assert_eq!(bus.time(0), VirtualDuration::ZERO);
        // The intermediate product does not fit 64 bits.
        assert_eq!(bus.time(1 << 40).as_ps(), (1 << 40) * 10_000);
        assert_eq!(ps_of(u64::MAX, 1), None);
        assert_eq!(Rate::from_bytes_per_s(2_664_000_000).to_string(), "2664 MB/s");
    }
}
