//! Chooses the next page to overwrite: uniformly, or some pages more often than others.
//!
//! ```text
//!   seed ─► SplitMix64 ─► rank (hot first) ─► page, scattered over all by a fixed permutation
//! ```

use super::theory::Class;
use crate::random::Random;

/// How often each page is overwritten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// All pages equally often.
    Uniform,
    /// A fifth of the pages gets four fifths of the writes.
    Hot,
    /// The page of rank r with a probability proportional to 1 / r^0.99, as in YCSB.
    Zipf,
}

impl Skew {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Hot, Self::Zipf];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Hot => "80/20",
            Self::Zipf => "zipf 0.99",
        }
    }

    /// The cumulative shares of writes of `pages` pages, hottest first. The last one is 1.
    fn cumulative(self, pages: u64) -> Vec<f64> {
        let hot = (pages / 5).max(1);
        let weight = |rank: u64| match self {
            Self::Uniform => 1.0,
            Self::Hot if rank < hot => 0.8 / hot as f64,
            Self::Hot => 0.2 / (pages - hot).max(1) as f64,
            Self::Zipf => ((rank + 1) as f64).powf(-0.99),
        };
        let mut sum = 0.0;
        let mut all: Vec<f64> = (0..pages)
            .map(|rank| {
                sum += weight(rank);
                sum
            })
            .collect();
        all.iter_mut().for_each(|c| *c /= sum);
        all
    }

    /// The pages in a few classes by update frequency.
    pub fn classes(self, pages: u64) -> Vec<Class> {
        let ends: Vec<u64> = match self {
            Self::Uniform => vec![pages],
            Self::Hot => vec![(pages / 5).max(1), pages],
            // Each class is a seventh wider than the one before, so the frequencies within a class differ little.
            Self::Zipf => {
                let mut ends = vec![1];
                while let Some(&last) = ends.last().filter(|last| **last < pages) {
                    ends.push((last + 1 + last / 7).min(pages));
                }
                ends
            }
        };
        let cumulative = self.cumulative(pages);
        let mut from = 0;
        let class = |end: u64| {
            let before = if from == 0 { 0.0 } else { cumulative[from as usize - 1] };
            let class = Class {
                pages: (end - from) as f64 / pages as f64,
                writes: cumulative[end as usize - 1] - before,
            };
            from = end;
            class
        };
        ends.into_iter().map(class).collect()
    }
}

/// Draws pages.
pub struct Picker {
    random: Random,
    cumulative: Vec<f64>,
    /// The page of each rank.
    pages: Vec<u32>,
    uniform: bool,
}

impl Picker {
    /// Draws from `pages` pages. Their number is above 0 and below 2^32.
    pub fn new(skew: Skew, pages: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut order: Vec<u32> = (0..u32::try_from(pages).expect("fewer than 2^32 pages")).collect();
        random.shuffle(&mut order);
        let uniform = skew == Skew::Uniform;
        let cumulative = if uniform { Vec::new() } else { skew.cumulative(pages) };
        Self { random, cumulative, pages: order, uniform }
    }

    /// The next page to overwrite.
    pub fn next_page(&mut self) -> u64 {
        let rank = if self.uniform {
            self.random.below(self.pages.len() as u64) as usize
        } else {
            let at = self.random.fraction();
            self.cumulative.partition_point(|c| *c <= at).min(self.pages.len() - 1)
        };
        u64::from(self.pages[rank])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_all_of_it_and_what_is_drawn() {
        const PAGES: u64 = 1000;
        const DRAWS: u32 = 200_000;
        for skew in Skew::ALL {
            let classes = skew.classes(PAGES);
            let sum = |of: fn(&Class) -> f64| classes.iter().map(of).sum::<f64>();
            assert!(
                (sum(|c| c.pages) - 1.0).abs() < 1e-9 && (sum(|c| c.writes) - 1.0).abs() < 1e-9,
                "{skew:?}"
            );
            let mut picker = Picker::new(skew, PAGES, 7);
            let mut drawn = vec![0u32; PAGES as usize];
            (0..DRAWS).for_each(|_| drawn[picker.next_page() as usize] += 1);
            drawn.sort_unstable_by(|a, b| b.cmp(a));
            // The share of the hottest fifth agrees with the classes, within the noise of drawing.
            let (mut pages, mut writes) = (0.0, 0.0);
            for c in &classes {
                let part = ((0.2 - pages) / c.pages).clamp(0.0, 1.0);
                pages += part * c.pages;
                writes += part * c.writes;
            }
            let got = f64::from(drawn[..PAGES as usize / 5].iter().sum::<u32>()) / f64::from(DRAWS);
            assert!((got - writes).abs() < 0.03, "{skew:?}: {got} of the writes, expected {writes}");
        }
    }
}
