//! Batches of pages with their bytes.

use crate::random::Random;

/// Pages have 64 to 3,760 bytes, 1,912 on average: TPC-C pages of 4 KB, compressed (ELEOS, Table II).
const PAGE_BYTES: [u64; 2] = [64, 3760];
/// Their mean.
pub(super) const PAGE_BYTES_MEAN: u64 = (PAGE_BYTES[0] + PAGE_BYTES[1]) / 2;
/// The number of pages in a batch: a mebibyte on average.
pub const BATCH_PAGES: u64 = 548;
/// The size of the source of page contents. It is larger than a core's cache.
pub(super) const SOURCE_BYTES: usize = 4 << 20;
/// In the source, pages begin at multiples of this.
const CELL: u64 = 64;

/// The order in which pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Consecutive pages, in a cycle.
    InTurn,
    /// Random pages. A batch has each page at most once.
    Random,
}

/// Generates batches.
pub struct PageBatches {
    random: Random,
    pages: u64,
    next: u64,
    /// The pages of the batch with the ranges of their bytes in the source.
    batch: Vec<(u64, std::ops::Range<usize>)>,
}

impl PageBatches {
    /// Batches over this many pages.
    pub fn new(pages: u64, seed: u64) -> Self {
        Self { random: Random(seed), pages, next: 0, batch: Vec::new() }
    }

    /// The next batch: pages with the ranges of their bytes in the source.
    pub fn next(&mut self, order: Order) -> &[(u64, std::ops::Range<usize>)] {
        self.batch.clear();
        let count = BATCH_PAGES.min(self.pages);
        let mut which: Vec<u64> = match order {
            Order::InTurn => (self.next..self.next + count).map(|n| n % self.pages).collect(),
            Order::Random => (0..count).map(|_| self.random.below(self.pages)).collect(),
        };
        if order == Order::InTurn {
            self.next = (self.next + count) % self.pages;
        }
        which.sort_unstable();
        which.dedup();
        for page in which {
            let [least, most] = PAGE_BYTES;
            let len = least + self.random.below(most - least + 1);
            let at = self.random.below((SOURCE_BYTES as u64 - len) / CELL) * CELL;
            self.batch.push((page, at as usize..(at + len) as usize));
        }
        &self.batch
    }
}

/// Incompressible bytes.
pub(super) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_each_page_once_and_are_a_mebibyte_in_mean() {
        let mut batches = PageBatches::new(10_000, 1);
        for order in [Order::InTurn, Order::Random] {
            let (mut bytes, mut met) = (0, vec![0u32; 10_000]);
            for _ in 0..200 {
                let batch = batches.next(order);
                assert!(batch.windows(2).all(|w| w[0].0 < w[1].0));
                assert!(batch.len() > 500);
                for (page, at) in batch {
                    bytes += at.len();
                    met[*page as usize] += 1;
                    assert!((64..=3760).contains(&at.len()) && at.end <= SOURCE_BYTES);
                }
            }
            assert!((180 << 20..220 << 20).contains(&bytes), "{order:?}: {bytes}");
            let even = met.iter().max().unwrap() - met.iter().min().unwrap();
            assert_eq!(even <= 1, order == Order::InTurn);
        }
    }
}
