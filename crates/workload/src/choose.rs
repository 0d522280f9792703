//! Chooses the next record as YCSB does.
//!
//! ```text
//!   uniform: any record
//!   zipfian: one of 10^10 ranks by Zipf's law with 0.99, hashed (FNV-1a) onto the records
//!   latest:  one of as many ranks as records by the same law, counted back from the newest
//! ```
//!
//! Source: B. Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, and its ScrambledZipfianGenerator
//! and SkewedLatestGenerator. Ranks are drawn without a table: see [`crate::zipf`].

use crate::random::Random;
use crate::zipf::Zipf;

/// The exponent of YCSB's Zipf.
pub const THETA: f64 = 0.99;
/// The number of ranks of the scrambled distribution, for any number of records.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;

/// How records are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All records with the same probability.
    Uniform,
    /// A few records often. These records are scattered over all records.
    Zipfian,
    /// The newest records most often.
    Latest,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Zipfian, Self::Latest];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
        }
    }
}

/// Chooses records.
#[derive(Clone, Debug)]
pub struct Chooser {
    distribution: Distribution,
    /// The number of records, and the distribution of their ranks.
    zipf: (u64, Zipf),
}

impl Chooser {
    /// A chooser for this many records, above 0.
    pub fn new(distribution: Distribution, records: u64) -> Self {
        let n = if distribution == Distribution::Zipfian { SCRAMBLED_RANKS } else { records };
        Self { distribution, zipf: (n, Zipf::new(n, THETA)) }
    }

    /// The next record of `records`, counted from 0. The number of records may have grown since the last call.
    pub fn next(&mut self, random: &mut Random, records: u64) -> u64 {
        match self.distribution {
            Distribution::Uniform => random.below(records),
            Distribution::Zipfian => fnv(self.zipf.1.rank(random) - 1) % records,
            Distribution::Latest => {
                if self.zipf.0 != records {
                    self.zipf = (records, Zipf::new(records, THETA));
                }
                records - self.zipf.1.rank(random)
            }
        }
    }
}

/// FNV-1a over the eight bytes of a number, the lowest first. As in YCSB, the sign is dropped.
pub fn fnv(n: u64) -> u64 {
    let hash = n
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(1_099_511_628_211));
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: Distribution, records: u64, draws: u32) -> Vec<u32> {
        let (mut chooser, mut random) = (Chooser::new(distribution, records), Random(3));
        let mut drawn = vec![0; records as usize];
        (0..draws).for_each(|_| drawn[chooser.next(&mut random, records) as usize] += 1);
        drawn
    }

    #[test]
    fn uniform_is_even_and_latest_prefers_the_newest() {
        assert!(drawn(Distribution::Uniform, 100, 100_000).iter().all(|n| (850..1150).contains(n)));
        let latest = drawn(Distribution::Latest, 100, 100_000);
        // The weight of the first rank of 100 is 1 / 5.24.
        assert!((18_000..20_200).contains(&latest[99]), "{}", latest[99]);
        assert!(latest[99] > latest[98] && latest[98] > latest[50] && latest[50] > 0);
    }

    #[test]
    fn zipfian_has_hot_records_where_their_hash_is() {
        let drawn = drawn(Distribution::Zipfian, 1000, 200_000);
        let hottest = (0..1000).max_by_key(|i| drawn[*i]).unwrap();
        assert_eq!(hottest as u64, fnv(0) % 1000);
        // The first of 10^10 ranks has a weight of 1 / 26.47, and other ranks fall on the same record.
        assert!((7_300..8_300).contains(&drawn[hottest]), "{}", drawn[hottest]);
    }

    #[test]
    fn records_that_come_later_are_chosen_too() {
        let (mut chooser, mut random) = (Chooser::new(Distribution::Latest, 10), Random(1));
        assert!((0..1000).all(|_| chooser.next(&mut random, 10) < 10));
        assert!((0..1000).any(|_| chooser.next(&mut random, 20) >= 10));
        assert!((0..1000).all(|_| Chooser::new(Distribution::Zipfian, 1).next(&mut random, 1) == 0));
    }

    /// Keys depend on the hash, so every byte of it is fixed.
    #[test]
    fn the_hash_is_the_published_one() {
        let slow = |n: u64| {
            let (mut h, mut left) = (0xCBF2_9CE4_8422_2325u64, n);
            for _ in 0..8 {
                h = (h ^ (left & 0xFF)).wrapping_mul(1_099_511_628_211);
                left >>= 8;
            }
            (h as i64).unsigned_abs()
        };
        assert!((0..100).chain([u64::MAX, 1 << 40]).all(|n| fnv(n) == slow(n)));
        assert_eq!(fnv(0), 6_284_781_860_667_377_211);
    }
}
