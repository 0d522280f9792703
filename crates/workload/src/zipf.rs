//! Draws ranks by Zipf's law and scatters them over blocks.
//!
//! ```text
//!   rank r of n, with a probability proportional to 1 / r^theta ─► a block of n, by a fixed permutation
//! ```
//!
//! There is no table, so a billion blocks cost no more than ten: ranks are drawn by rejection-inversion and scattered
//! by a multiplication modulo their number.
//!
//! Source: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
//! ACM TOMACS 6(3), 1996.

use crate::random::Random;

/// Draws ranks from 1 to n. Rank r has a weight of 1 / r^theta.
///
/// The area under h(x) = x^-theta from 1/2 to n + 1/2 is cut into pieces around the integers. A random point of the
/// area, drawn with the inverse of the integral H, falls into the piece of some k. Because h is convex, the piece is
/// at least as large as h(k). If the point lies in the excess part, another point is drawn. This is rare, and a cheap
/// test usually shows that the point does not lie there.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    /// 1 - theta.
    power: f64,
    /// H at both ends of the range to draw from. The left end is moved so that the piece of 1 is exactly h(1).
    area: (f64, f64),
    /// If x is at least k - near, the point is accepted without a further test.
    near: f64,
}

impl Zipf {
    /// A distribution of ranks from 1 to `n` with the exponent `theta`. Both are above 0.
    pub fn new(n: u64, theta: f64) -> Self {
        let mut z = Self { n: n as f64, power: 1.0 - theta, area: (0.0, 0.0), near: 0.0 };
        z.area = (z.integral(1.5) - 1.0, z.integral(z.n + 0.5));
        z.near = 2.0 - z.inverse(z.integral(2.5) - z.weight(2.0));
        z
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp((self.power - 1.0) * libm::log(x))
    }

    /// H(x), which is 0 at 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        if self.power == 0.0 { log } else { libm::expm1(self.power * log) / self.power }
    }

    fn inverse(&self, y: f64) -> f64 {
        if self.power == 0.0 {
            return libm::exp(y);
        }
        // Rounding must not take it below -1, where the logarithm is not defined.
        libm::exp(libm::log1p((y * self.power).max(-1.0)) / self.power)
    }

    /// The next rank.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let (left, right) = self.area;
        loop {
            let y = right + random.fraction() * (left - right);
            let x = self.inverse(y);
            let k = libm::round(x).clamp(1.0, self.n);
            if k - x <= self.near || y >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64;
            }
        }
    }
}

/// A permutation of the blocks that moves neighbours far apart.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    blocks: u64,
    factor: u64,
    start: u64,
}

impl Scatter {
    /// A permutation of this many blocks, above 0.
    pub fn new(blocks: u64, random: &mut Random) -> Self {
        let start = random.below(blocks);
        // Multiples of a factor near the golden ratio are spread most evenly. The factor has no common divisor with
        // the number of blocks, so each block occurs once.
        let golden = ((u128::from(blocks) * 0x9E37_79B9_7F4A_7C15) >> 64) as u64;
        let factor = (golden.max(1)..).find(|f| common_divisor(*f, blocks) == 1);
        Self { blocks, factor: factor.expect("a number of primes follows"), start }
    }

    /// The block of a rank, both from 0.
    pub fn block(&self, rank: u64) -> u64 {
        let at = u128::from(rank) * u128::from(self.factor) + u128::from(self.start);
        (at % u128::from(self.blocks)) as u64
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A steep distribution of a few ranks, so that redrawing matters. Chi-square with 5 degrees of freedom is above
    /// 25 for one in 7,000 seeds.
    #[test]
    fn steep_weights_are_exact() {
        for theta in [1.0, 2.0, 4.0] {
            let (zipf, mut random) = (Zipf::new(6, theta), Random(2));
            let mut drawn = [0u32; 6];
            (0..500_000).for_each(|_| drawn[zipf.rank(&mut random) as usize - 1] += 1);
            let weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0f64].map(|rank| rank.powf(-theta));
            let sum: f64 = weights.iter().sum();
            let square = |(got, weight): (&u32, f64)| {
                let expected = weight / sum * 500_000.0;
                (f64::from(*got) - expected).powi(2) / expected
            };
            let squares: f64 = drawn.iter().zip(weights).map(square).sum();
            assert!(squares < 25.0, "{theta}: {squares}, {drawn:?}");
        }
    }

    #[test]
    fn ranks_stay_within_large_and_small_numbers() {
        for n in [1, 2, 3, 1 << 20, 1 << 38, 1 << 52] {
            for theta in [1e-9, 0.5, 0.99, 1.0, 1.0 + 1e-12, 2.0, 10.0] {
                let (zipf, mut random) = (Zipf::new(n, theta), Random(5));
                for _ in 0..2000 {
                    let rank = zipf.rank(&mut random);
                    assert!((1..=n).contains(&rank), "{n}, {theta}: {rank}");
                }
            }
        }
    }

    #[test]
    fn ranks_are_scattered_over_all_blocks() {
        for blocks in (1..200).chain([1000, 4096, 99_991]) {
            let scatter = Scatter::new(blocks, &mut Random(blocks));
            let mut met: Vec<u64> = (0..blocks).map(|rank| scatter.block(rank)).collect();
            met.sort_unstable();
            assert!(met.iter().copied().eq(0..blocks), "{blocks}");
        }
        let scatter = Scatter::new(1 << 40, &mut Random(1));
        assert!((0..100).all(|rank| scatter.block(rank).abs_diff(scatter.block(rank + 1)) > 1 << 38));
    }
}
