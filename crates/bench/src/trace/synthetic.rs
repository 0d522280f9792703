//! Requests generated from a seed, to replay in place of a trace.
//!
//! ```text
//!   sequential: block after block, from the first again after the last
//!   uniform:    every block with the same probability
//!   zipf:       the block of rank r with a probability proportional to 1 / r^theta; a permutation scatters ranks
//! ```
//!
//! There is no table of blocks, so a device of terabytes costs no more than a small one (see `lode_workload::zipf`).

use super::{Op, Request, TRANSFER_BYTES_MAX, TraceError, TraceTime};
use crate::random::Random;
use crate::zipf::{Scatter, Zipf};

/// How the next block is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// The block after the last one.
    Sequential,
    /// Any block, with the same probability.
    Uniform,
    /// Some blocks more often than others.
    Zipf {
        /// The exponent, above 0 and at most 10; YCSB's is 0.99.
        theta: f64,
    },
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// How blocks are chosen.
    pub pattern: Pattern,
    /// The percentage of reads, from 0 to 100. The other requests are writes.
    pub read_percent: u8,
    /// The length of each request in bytes. Its offset is a multiple of it.
    pub block_bytes: u64,
    /// The used bytes of the device, from the first one on. An incomplete last block is left out.
    pub region_bytes: u64,
    /// The number of requests.
    pub requests: u64,
    /// The time between two requests in an open loop, or 0 for a closed loop.
    pub interval: TraceTime,
}

/// The requests of a workload.
#[derive(Clone, Debug)]
pub struct Synthetic {
    shape: Shape,
    random: Random,
    blocks: u64,
    zipf: Option<(Zipf, Scatter)>,
    /// The number of requests generated so far.
    made: u64,
}

impl Synthetic {
    /// The requests of a workload with this seed.
    pub fn new(shape: Shape, seed: u64) -> Result<Self, TraceError> {
        let Shape { pattern, read_percent, block_bytes, region_bytes, requests, interval } = shape;
        let refuse = |what| Err(TraceError::Workload(what));
        if block_bytes == 0 || block_bytes > TRANSFER_BYTES_MAX {
            return refuse("the block size must be from 1 byte to 1 GiB");
        }
        if region_bytes < block_bytes {
            return refuse("the region is smaller than a block");
        }
        if read_percent > 100 {
            return refuse("more than 100 % of the requests cannot be reads");
        }
        if requests == 0 {
            return refuse("a workload has at least one request");
        }
        if (requests - 1).checked_mul(interval.as_ps()).is_none() {
            return refuse("the last request would come more than 213 days after the first");
        }
        let blocks = region_bytes / block_bytes;
        let mut random = Random(seed);
        let zipf = match pattern {
            Pattern::Zipf { theta } if theta > 0.0 && theta <= 10.0 => {
                Some((Zipf::new(blocks, theta), Scatter::new(blocks, &mut random)))
            }
            Pattern::Zipf { .. } => return refuse("the exponent of zipf must be above 0 and at most 10"),
            Pattern::Sequential | Pattern::Uniform => None,
        };
        Ok(Self { shape, random, blocks, zipf, made: 0 })
    }
}

impl Iterator for Synthetic {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let n = self.made;
        if n == self.shape.requests {
            return None;
        }
        self.made += 1;
        let read = self.random.below(100) < u64::from(self.shape.read_percent);
        let block = match (self.shape.pattern, &self.zipf) {
            (Pattern::Sequential, _) => n % self.blocks,
            (_, Some((zipf, scatter))) => scatter.block(zipf.rank(&mut self.random) - 1),
            (_, None) => self.random.below(self.blocks),
        };
        Some(Request {
            at: TraceTime::from_ps(n * self.shape.interval.as_ps()),
            op: if read { Op::Read } else { Op::Write },
            offset: block * self.shape.block_bytes,
            len: self.shape.block_bytes,
            line: n + 1,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.shape.requests - self.made) as usize;
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        pattern: Pattern::Uniform,
        read_percent: 70,
        block_bytes: 4096,
        region_bytes: 1000 * 4096 + 4095,
        requests: 200_000,
        interval: TraceTime::from_ps(7),
    };

    fn made(shape: Shape, seed: u64) -> Vec<Request> {
        Synthetic::new(shape, seed).unwrap().collect()
    }

    #[test]
    fn requests_are_those_of_the_seed() {
        for pattern in [Pattern::Sequential, Pattern::Uniform, Pattern::Zipf { theta: 0.99 }] {
            let shape = Shape { pattern, requests: 1000, ..SHAPE };
            assert_eq!(made(shape, 1), made(shape, 1));
            assert_ne!(made(shape, 1), made(shape, 2), "{pattern:?}");
        }
    }

    /// Reports name a workload by its seed, so a seed must give these requests on every machine, in debug and
    /// release.
    #[test]
    fn a_seed_stands_for_these_requests() {
        for (pattern, expected) in [
            (
                Pattern::Uniform,
                [
                    43_955_834_092,
                    94_610_423_747,
                    238_656_716_431,
                    220_076_014_503,
                    170_007_055_882,
                    135_511_835_537,
                ],
            ),
            (
                Pattern::Zipf { theta: 0.99 },
                [
                    169_362_278_638,
                    57_118_923_615,
                    156_831_312_847,
                    253_405_498_321,
                    129_950_586_544,
                    225_521_725_819,
                ],
            ),
        ] {
            let shape = Shape { pattern, region_bytes: 1 << 50, requests: 6, ..SHAPE };
            let blocks: Vec<u64> = made(shape, 42).iter().map(|r| r.offset / 4096).collect();
            assert_eq!(blocks, expected, "{pattern:?}");
        }
    }

    #[test]
    fn requests_are_of_the_shape() {
        for pattern in [Pattern::Sequential, Pattern::Uniform, Pattern::Zipf { theta: 0.5 }] {
            let all = made(Shape { pattern, ..SHAPE }, 3);
            assert_eq!(all.len(), 200_000);
            let reads = all.iter().filter(|r| r.op == Op::Read).count();
            assert!((139_000..141_000).contains(&reads), "{pattern:?}: {reads}");
            for (n, r) in (0..).zip(&all) {
                assert_eq!((r.at.as_ps(), r.line, r.len), (n * 7, n + 1, 4096));
                assert!(r.offset.is_multiple_of(4096) && r.offset + 4096 <= 1000 * 4096);
                assert!(pattern != Pattern::Sequential || r.offset == n % 1000 * 4096);
            }
        }
        for (percent, op) in [(0, Op::Write), (100, Op::Read)] {
            assert!(made(Shape { read_percent: percent, ..SHAPE }, 3).iter().all(|r| r.op == op));
        }
    }

    /// Checks by chi-square how often each block was drawn. With 999 degrees of freedom, the value is 999 on average
    /// with a standard deviation of 45.
    fn check_frequencies(pattern: Pattern, weight: impl Fn(u64) -> f64, block: impl Fn(u64) -> u64) {
        let all = made(Shape { pattern, ..SHAPE }, 11);
        let mut drawn = vec![0u32; 1000];
        all.iter().for_each(|r| drawn[(r.offset / 4096) as usize] += 1);
        let sum: f64 = (0..1000).map(&weight).sum();
        let squares: f64 = (0..1000)
            .map(|rank| {
                let expected = weight(rank) / sum * all.len() as f64;
                (f64::from(drawn[block(rank) as usize]) - expected).powi(2) / expected
            })
            .sum();
        assert!((800.0..1200.0).contains(&squares), "{pattern:?}: {squares}");
    }

    #[test]
    fn blocks_are_drawn_as_often_as_they_should() {
        check_frequencies(Pattern::Uniform, |_| 1.0, |rank| rank);
        for theta in [0.2, 0.99, 1.0, 1.2] {
            let pattern = Pattern::Zipf { theta };
            let (_, scatter) = Synthetic::new(Shape { pattern, ..SHAPE }, 11).unwrap().zipf.unwrap();
            check_frequencies(pattern, |rank| ((rank + 1) as f64).powf(-theta), |rank| scatter.block(rank));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (shape, expected) in [
            (Shape { block_bytes: 0, ..SHAPE }, "the block size must be from 1 byte to 1 GiB"),
            (Shape { block_bytes: (1 << 30) + 1, ..SHAPE }, "the block size must be from 1 byte to 1 GiB"),
            (Shape { region_bytes: 4095, ..SHAPE }, "the region is smaller than a block"),
            (Shape { read_percent: 101, ..SHAPE }, "more than 100 % of the requests cannot be reads"),
            (Shape { requests: 0, ..SHAPE }, "a workload has at least one request"),
            (
                Shape { requests: 3, interval: TraceTime::from_ps(u64::MAX), ..SHAPE },
                "the last request would come more than 213 days after the first",
            ),
            (
                Shape { pattern: Pattern::Zipf { theta: 0.0 }, ..SHAPE },
                "the exponent of zipf must be above 0 and at most 10",
            ),
            (
                Shape { pattern: Pattern::Zipf { theta: f64::NAN }, ..SHAPE },
                "the exponent of zipf must be above 0 and at most 10",
            ),
        ] {
            assert_eq!(Synthetic::new(shape, 1).unwrap_err().to_string(), expected);
        }
    }
}
