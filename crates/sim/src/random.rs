//! Numbers that only a seed decides.

use lode_base::random::STEP;
pub(crate) use lode_base::random::mix;

/// The `i`-th number of a seed.
pub(crate) fn nth(seed: u64, i: u64) -> u64 {
    mix(seed.wrapping_add(STEP.wrapping_mul(i.wrapping_add(1))))
}

/// A row of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: mix(seed ^ STEP), drawn: 0 }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.drawn += 1;
        nth(self.seed, self.drawn)
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// As [`Random::between`], with each power of two as likely as the next: small numbers are frequent.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let span = high - low + 1;
        let bits = self.below(u64::from(u64::BITS - span.leading_zeros()) + 1);
        low + self.below(span.min(1 << bits))
    }

    /// One of these, each as likely as its weight times what `more` says.
    pub(crate) fn weighted<T: Copy>(&mut self, of: &[(T, u64)], more: impl Fn(T) -> u64) -> T {
        let mut at = self.below(of.iter().map(|&(t, weight)| weight * more(t)).sum());
        for &(t, weight) in of {
            let weight = weight * more(t);
            if at < weight {
                return t;
            }
            at -= weight;
        }
        unreachable!("the number is below the sum of all");
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let i = self.below(of.len().max(1) as u64);
        of.get(i as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_all_and_bounds_hold() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next() == b.next()));
        assert_ne!(Random::new(8).next(), Random::new(9).next());
        let drawn: Vec<u64> = (0..2000).map(|_| a.skewed(3, 100)).collect();
        assert!(drawn.iter().all(|n| (3..=100).contains(n)));
        assert!(drawn.contains(&3) && drawn.contains(&100));
        assert!(drawn.iter().filter(|&&n| n < 20).count() > 800, "small ones are frequent");
        assert_eq!(a.pick::<u8>(&[]), None);
        let of = [('a', 1), ('b', 1), ('c', 5)];
        let picked: String = (0..2000).map(|_| a.weighted(&of, |t| if t == 'c' { 0 } else { 1 })).collect();
        assert!(
            !picked.contains('c') && picked.matches('a').count() > 800 && picked.matches('b').count() > 800
        );
    }
}
