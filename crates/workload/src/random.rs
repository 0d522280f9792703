//! The random numbers of workloads, which depend only on a seed.

use lode_base::random::{STEP, mix};

/// A sequence of pseudorandom numbers from a seed. It has the numbers of [`lode_base::random::Random`], but its `below`
/// scales by a multiplication instead of taking a remainder. Published digits of modelled runs depend on this sequence.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `n`, which is above 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Puts `all` into an order, each with the same probability (Fisher and Yates).
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// A number from 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_seed_and_within_bounds() {
        // The first number of SplitMix64 from seed 0.
        assert_eq!(Random(0).next_u64(), 0xE220_A839_7B1D_CDAF);
        let mut r = Random(1);
        let of = |_| (r.below(10), r.fraction());
        let all: Vec<_> = (0..10_000).map(of).collect();
        assert!((0..10).all(|n| all.iter().filter(|a| a.0 == n).count() > 800));
        assert!(all.iter().all(|a| (0.0..1.0).contains(&a.1)));
    }
}
