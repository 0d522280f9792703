//! Maps from LPIDs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use lode_base::Lpid;

/// A map from LPIDs, which are numbers: they need no more than to be spread.
pub(crate) type LpidMap<V> = HashMap<Lpid, V, BuildHasherDefault<LpidHasher>>;

/// Spreads LPIDs.
#[derive(Default)]
pub(crate) struct LpidHasher(u64);

impl Hasher for LpidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(b.into());
        }
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
