//! Samples: pages of a table drawn at random, and what they say of all of its rows.
//!
//! ```text
//!   pages of the table ─► as many strata of equal length as pages are wanted ─► a page of each, by the seed ─► passed rows of each
//!                                                                             ─► share of the rows, and between what it lies
//! ```
//!
//! The rows of a page are often alike, so a page is one observation, however many rows it has. The interval holds whatever the
//! pages have in them: passed rows of a page are a number between 0 and the most rows of a page, and nothing else is assumed.
//! Source: Hoeffding, "Probability inequalities for sums of bounded random variables" (1963), theorem 1.

use lode_base::random::{STEP, mix};
use lode_command::PageRange;

/// One interval in so many may miss the share, at most.
const MISSED: f64 = 20.0;
/// Steps of a bisection between 0 and 1.
const STEPS: u32 = 40;

/// What a sample says of the rows of a table that pass a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The share of the rows that pass, 0 to 1.
    pub(crate) share: f64,
    /// The share lies between these in 19 of 20 samples or more.
    pub(crate) low: f64,
    /// The upper end.
    pub(crate) high: f64,
    /// Pages of the sample.
    pub(crate) pages: u64,
}

impl Sample {
    /// What `passed` rows of pages say, where all other pages of the `pages` drawn had none. The table has `table_rows` rows on
    /// `table_pages` pages.
    pub(crate) fn of(share: f64, passed: &[u64], pages: u64, table_rows: u64, table_pages: u64) -> Self {
        let mean_rows = table_rows.div_ceil(table_pages.max(1));
        let most = passed.iter().copied().max().unwrap_or(0).max(mean_rows).max(1) as f64;
        let mean = passed.iter().sum::<u64>() as f64 / (pages.max(1) as f64 * most);
        let to_share = most * table_pages as f64 / table_rows.max(1) as f64;
        let (low, high) = interval(mean, pages);
        Self { share, low: (low * to_share).min(share), high: (high * to_share).min(1.0).max(share), pages }
    }
}

/// What a sample says of the pages of a table that have the keys of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MatchedPages {
    /// The share of the pages, 0 to 1.
    pub(crate) share: f64,
    /// The share lies between these in 19 of 20 samples or more.
    pub(crate) low: f64,
    /// The upper end.
    pub(crate) high: f64,
    /// Pages of the sample.
    pub(crate) pages: u64,
}

impl MatchedPages {
    /// What `matched` of the `pages` pages drawn say.
    pub(crate) fn of(matched: u64, pages: u64) -> Self {
        let share = matched as f64 / pages.max(1) as f64;
        let (low, high) = interval(share, pages);
        Self { share, low, high, pages }
    }
}

/// Between what the mean of numbers from 0 to 1 lies, `count` of which have the mean `seen`.
fn interval(seen: f64, count: u64) -> (f64, f64) {
    let most = (2.0 * MISSED).ln() / count.max(1) as f64;
    let is_possible = |mean: f64| divergence(seen, mean) <= most;
    // Towards each end the divergence grows.
    let bisected = |end: f64| {
        let (mut inside, mut outside) = (seen, end);
        if is_possible(end) {
            return end;
        }
        for _ in 0..STEPS {
            let middle = (inside + outside) / 2.0;
            if is_possible(middle) { inside = middle } else { outside = middle }
        }
        outside
    };
    (bisected(0.0), bisected(1.0))
}

/// The divergence of a coin that falls with probability `p` from one with `q` (Kullback and Leibler).
fn divergence(p: f64, q: f64) -> f64 {
    let term = |p: f64, q: f64| match (p > 0.0, q > 0.0) {
        (false, _) => 0.0,
        (true, false) => f64::INFINITY,
        (true, true) => p * (p / q).ln(),
    };
    term(p, q) + term(1.0 - p, 1.0 - q)
}

/// One page of each of `wanted` strata of these pages, in their order. The same seed draws the same pages.
pub(crate) fn draw(ranges: &[PageRange], wanted: u64, seed: u64) -> Vec<PageRange> {
    let pages: u64 = ranges.iter().map(|r| u64::from(r.count)).sum();
    let wanted = wanted.min(pages);
    let mut ranges = ranges.iter();
    let mut range = ranges.next();
    let mut before = 0;
    let mut pick = |i: u64| {
        let (first, end) = (i * pages / wanted, (i + 1) * pages / wanted);
        let at = first + mix(mix(seed).wrapping_add(i.wrapping_mul(STEP))) % (end - first);
        while let Some(r) = range {
            if at < before + u64::from(r.count) {
                return Some(PageRange { extent: r.extent, first: r.first + (at - before) as u16, count: 1 });
            }
            before += u64::from(r.count);
            range = ranges.next();
        }
        None
    };
    (0..wanted).filter_map(&mut pick).collect()
}

#[cfg(test)]
mod tests {
    use lode_base::ExtentId;

    use super::*;

    /// Rows of each page that pass, out of 100.
    fn tables() -> Vec<(&'static str, Vec<u64>)> {
        let random = |share: u64| {
            (0..4000).map(move |p| (0..100).filter(|r| mix(p * 100 + r) % 1000 < share).count() as u64)
        };
        vec![
            ("a few of each page", random(20).collect()),
            ("half of each page", random(500).collect()),
            ("whole pages, side by side", (0..4000).map(|p| if p < 300 { 100 } else { 0 }).collect()),
            ("every tenth page", (0..4000).map(|p| if p % 10 == 3 { 100 } else { 0 }).collect()),
            ("more and more", (0..4000).map(|p| p / 40).collect()),
            ("none", vec![0; 4000]),
            ("one page of all", (0..4000).map(|p| if p == 1777 { 100 } else { 0 }).collect()),
            ("all", vec![100; 4000]),
        ]
    }

    #[test]
    fn the_share_lies_within_its_interval_in_19_of_20_samples() {
        let range = |e| PageRange { extent: ExtentId::new(e).unwrap(), first: 0, count: 1000 };
        let ranges = [range(1), range(2), range(3), range(4)];
        for (name, passed) in tables() {
            let share = passed.iter().sum::<u64>() as f64 / (100.0 * passed.len() as f64);
            for wanted in [2, 8, 32] {
                let mut missed = 0;
                for seed in 0..10_000 {
                    let drawn = draw(&ranges, wanted, seed);
                    let of =
                        |r: &PageRange| passed[(r.extent.raw() as usize - 1) * 1000 + usize::from(r.first)];
                    let each: Vec<u64> = drawn.iter().map(of).collect();
                    let seen = each.iter().sum::<u64>() as f64 / (100.0 * each.len() as f64);
                    let s = Sample::of(seen, &each, wanted, 400_000, 4000);
                    assert!(
                        (0.0..=1.0).contains(&s.low)
                            && s.low <= s.share
                            && s.share <= s.high
                            && s.high <= 1.0
                    );
                    missed += u32::from(!(s.low..=s.high).contains(&share));
                }
                assert!(missed <= 500, "{name}, {wanted} pages: {missed} of 10,000 intervals miss {share}");
            }
        }
    }

    #[test]
    fn more_pages_say_more() {
        let width = |pages: u64| {
            let s = Sample::of(0.1, &vec![10; pages as usize], pages, 400_000, 4000);
            s.high - s.low
        };
        assert!(width(2) > 0.7 && width(32) < 0.35 && width(1000) < 0.06);
        // 32 pages without a row that passes: fewer than one row in nine do.
        let none = Sample::of(0.0, &[], 32, 400_000, 4000);
        assert!(none.low == 0.0 && (0.10..0.12).contains(&none.high), "{none:?}");
    }

    #[test]
    fn pages_are_drawn_one_of_each_stratum_and_lie_in_the_table() {
        let range = |e, first, count| PageRange { extent: ExtentId::new(e).unwrap(), first, count };
        let ranges = [range(1, 0, 100), range(2, 7, 60), range(3, 1000, 24)];
        for seed in 0..200 {
            for wanted in [1, 2, 7, 32, 184, 500] {
                let drawn = draw(&ranges, wanted, seed);
                assert_eq!(drawn.len() as u64, wanted.min(184), "seed {seed}");
                for d in &drawn {
                    let within = |r: &PageRange| {
                        r.extent == d.extent
                            && (r.first..r.first + r.count).contains(&d.first)
                            && d.count == 1
                    };
                    assert!(ranges.iter().any(within), "{d:?}");
                }
                let places: Vec<_> = drawn.iter().map(|d| (d.extent.raw(), d.first)).collect();
                assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
            }
        }
        assert_eq!(draw(&ranges, 7, 3), draw(&ranges, 7, 3));
        assert_ne!(draw(&ranges, 7, 3), draw(&ranges, 7, 4));
        assert!(draw(&[], 4, 0).is_empty());
    }
}
