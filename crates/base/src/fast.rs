//! Maps with numbers as keys that Lode itself assigns. Hashing takes a few cycles.
//!
//! A caller that makes such numbers collide slows only its own batches. Source: the multiplication of rustc-hash
//! (Firefox's hash).

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such numbers.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
/// A set of such numbers.
pub type FastSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// Hashes a number or two.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut n = [0; 8];
            n[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(n));
        }
    }

    fn finish(&self) -> u64 {
        // A map uses the low bits, where a product is weak, and a few of the top bits.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_steps_are_spread() {
        let hash = |n: u64| {
            let mut h = NumberHasher::default();
            h.write_u64(n);
            h.finish()
        };
        for step in [1, 64, 1024, 1 << 20, 1 << 30] {
            let low: FastSet<u64> = (0..4096).map(|n| hash(n * step) % 4096).collect();
            let top: FastSet<u64> = (0..4096).map(|n| hash(n * step) >> 57).collect();
            assert!(low.len() > 1000 && top.len() > 60, "{step}: {} {}", low.len(), top.len());
        }
    }
}
