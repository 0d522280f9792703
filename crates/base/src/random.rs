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
    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `n`, which is not 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
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
}
