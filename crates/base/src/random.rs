//! Pseudorandom numbers from a seed. Not for secrets.
//!
//! Source: SplitMix64; Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

/// The step from one seed to the next.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A well mixed number for each `n`. The function is a bijection.
pub const fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

/// A sequence of pseudorandom numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A sequence that starts at a mixed seed, so that the sequences of seeds close to each other have nothing in common.
    pub const fn of_seed(seed: u64) -> Self {
        Self(mix(seed ^ STEP).wrapping_add(STEP))
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `n`, which is not 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// As [`Random::between`], but with the same probability for each power of two, so that small numbers are frequent.
    pub const fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let span = high - low + 1;
        let bits = self.below((u64::BITS - span.leading_zeros()) as u64 + 1);
        let range = if 1 << bits < span { 1 << bits } else { span };
        low + self.below(range)
    }

    /// True with a probability of 1 / `n`.
    pub const fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these, or `None` if there are none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let i = self.below(of.len().max(1) as u64);
        of.get(i as usize)
    }

    /// One of these, with a probability proportional to its weight times `factor`.
    pub fn weighted<T: Copy>(&mut self, of: &[(T, u64)], factor: impl Fn(T) -> u64) -> T {
        let mut at = self.below(of.iter().map(|&(t, weight)| weight * factor(t)).sum());
        for &(t, weight) in of {
            let weight = weight * factor(t);
            if at < weight {
                return t;
            }
            at -= weight;
        }
        unreachable!("the number is below the sum of all");
    }

    /// Bytes that differ from those of the next call.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let seed = self.next();
        (0..len).map(|i| (seed.rotate_left(i as u32 % 61) as u8) ^ (i as u8)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_seed() {
        let mut r = Random(0);
        assert_eq!([r.next(), r.next()], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4]);
        assert!((0..100).all(|_| r.below(7) < 7));
        assert_ne!(r.bytes(9), r.bytes(9));
        assert_eq!((r.bytes(9).len(), r.bytes(0).len()), (9, 0));
    }

    #[test]
    fn choices_depend_on_the_seed_alone_and_keep_their_bounds() {
        let (mut a, mut b) = (Random::of_seed(7), Random::of_seed(7));
        assert!((0..100).all(|_| a.next() == b.next()));
        assert_ne!(Random::of_seed(8).next(), Random::of_seed(9).next());
        let drawn: Vec<u64> = (0..2000).map(|_| a.skewed(3, 100)).collect();
        assert!(drawn.iter().all(|n| (3..=100).contains(n)));
        assert!(drawn.contains(&3) && drawn.contains(&100));
        assert!(drawn.iter().filter(|&&n| n < 20).count() > 800, "small numbers are frequent");
        assert_eq!(a.pick::<u8>(&[]), None);
        let of = [('a', 1), ('b', 1), ('c', 5)];
        let picked: String = (0..2000).map(|_| a.weighted(&of, |t| if t == 'c' { 0 } else { 1 })).collect();
        assert!(
            !picked.contains('c') && picked.matches('a').count() > 800 && picked.matches('b').count() > 800
        );
    }

    #[test]
    fn a_seed_stands_for_one_sequence() {
        // Records of simulations depend on these numbers.
        let mut r = Random::of_seed(7);
        assert_eq!(
            [r.next(), r.next(), r.between(10, 20), r.skewed(0, 1000)],
            [0x75642EFE96062FD4, 0xDD85CF50E730D8F6, 20, 1]
        );
    }
}
