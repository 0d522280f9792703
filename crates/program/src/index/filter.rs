//! A Bloom filter in a few bytes of an index entry.
//!
//! ```text
//!   | NULL: bit 7, probes: bits 0 to 3 | bits |        0 probes: nothing is in it
//! ```
//!
//! The number of probes is the best one for what is in it. With n of them in m bits, k probes each, another hash passes with probability
//! (1 - (1 - 1/m)^(kn))^k. Each probe is a hash of its own, so small filters keep to that too.
//! Source: Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970.

use lode_base::random::mix;

use super::keys::set_bits;
use super::leaf::Outcomes;

const NULL: u8 = 0x80;
const PROBES: u8 = 0x0f;

/// The bytes of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<'a>(pub(super) &'a [u8]);

/// Appends a filter of `bytes` bytes in all with these distinct hashes.
pub(super) fn put_filter(hashes: &[u64], has_null: bool, bytes: usize, out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + bytes, 0);
    let places = 8 * (bytes as u64 - 1);
    let probes = match hashes.len() {
        0 => 0,
        n => (places as f64 / n as f64 * std::f64::consts::LN_2).round().clamp(1.0, PROBES.into()) as u8,
    };
    out[at] = probes | if has_null { NULL } else { 0 };
    for hash in hashes {
        for place in probed(*hash, probes, places) {
            out[at + 1 + (place / 8) as usize] |= 1 << (place % 8);
        }
    }
}

/// Widens `union` to what is in `part` as well. Of two numbers of probes the lesser stays: the first probes of a hash are the same,
/// however many there are.
pub(super) fn widen_filter(union: &mut [u8], part: Filter<'_>) {
    let of = Filter(union);
    let (probes, has_null) = (of.probes(), of.has_null() || part.has_null());
    let probes = match (probes, part.probes()) {
        (0, n) | (n, 0) => n,
        (a, b) => a.min(b),
    };
    union[0] = probes | if has_null { NULL } else { 0 };
    set_bits(&mut union[1..], part.bits());
}

/// The places of a hash, one a probe.
fn probed(hash: u64, probes: u8, places: u64) -> impl Iterator<Item = u64> {
    (0..u64::from(probes)).map(move |probe| {
        let h = mix(hash.wrapping_add(probe));
        ((u128::from(h) * u128::from(places)) >> 64) as u64
    })
}

impl<'a> Filter<'a> {
    fn bits(self) -> &'a [u8] {
        &self.0[1..]
    }

    pub(super) fn has_null(self) -> bool {
        self.0[0] & NULL != 0
    }

    fn probes(self) -> u8 {
        self.0[0] & PROBES
    }

    pub(super) fn contains(self, hash: u64) -> bool {
        let bits = self.bits();
        let is_set = |place: u64| bits[(place / 8) as usize] >> (place % 8) & 1 == 1;
        self.probes() > 0 && probed(hash, self.probes(), 8 * bits.len() as u64).all(is_set)
    }

    /// Checks for what [`put_filter`] never makes.
    pub(super) fn is_sound(self) -> bool {
        let unused = self.0[0] & !(NULL | PROBES);
        let is_empty = self.bits().iter().all(|&b| b == 0);
        unused == 0 && is_empty == (self.probes() == 0)
    }

    /// Whether it excludes something that is in `own`: it has another number of probes, so that nothing is known, or lacks one of its bits.
    pub(super) fn denies(self, own: Self) -> bool {
        let has_all = || self.bits().iter().zip(own.bits()).all(|(a, b)| b & !a == 0);
        let values = own.probes() > 0 && !(self.probes() == own.probes() && has_all());
        values || own.has_null() && !self.has_null()
    }

    /// The outcomes of a predicate of the column that is NULL just where the column is, and of whose other values one may pass or not.
    pub(super) fn outcomes(self, may_pass: bool) -> Outcomes {
        Outcomes {
            can_be_true: self.probes() > 0 && may_pass,
            can_be_false: self.probes() > 0,
            can_be_null: self.has_null(),
        }
    }

    /// Those of IS NULL.
    pub(super) fn is_null(self) -> Outcomes {
        Outcomes::of_is_null(self.has_null(), self.probes() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 200,000 hashes pass that are not in a filter of so many bytes with so many in it, and what theory says.
    fn passing(bytes: usize, count: u64) -> (f64, f64) {
        let tries = 200_000u64;
        let (mut passed, filters) = (0, 100);
        let mut theory = 0.0;
        for f in 0..filters {
            let of = |i: u64| mix(f << 40 | i);
            let hashes: Vec<u64> = (0..count).map(of).collect();
            let mut b = Vec::new();
            put_filter(&hashes, false, bytes, &mut b);
            let filter = Filter(&b);
            assert!(filter.is_sound() && hashes.iter().all(|&h| filter.contains(h)));
            passed += (0..tries / filters).filter(|i| filter.contains(of(1 << 30 | i))).count();
            let (m, k) = ((8 * (bytes - 1)) as f64, f64::from(filter.probes()));
            theory += (1.0 - (1.0 - 1.0 / m).powf(k * count as f64)).powf(k) / filters as f64;
        }
        (passed as f64 / tries as f64, theory)
    }

    #[test]
    fn others_pass_as_often_as_theory_says() {
        for (bytes, count) in [(17, 20), (17, 100), (65, 50), (129, 100), (257, 1000)] {
            let (passed, theory) = passing(bytes, count);
            assert!(passed > 0.0, "{bytes} bytes, {count} values");
            assert!(
                (passed / theory - 1.0).abs() < 0.1,
                "{bytes} bytes, {count} values: {passed} for {theory}"
            );
        }
    }

    #[test]
    fn an_empty_filter_has_nothing() {
        let mut b = Vec::new();
        put_filter(&[], true, 9, &mut b);
        assert!(Filter(&b).has_null() && !Filter(&b).contains(7) && Filter(&b).is_sound());
    }
}
