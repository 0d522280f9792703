//! Lanes: the channels that are written side by side, and how evenly they are filled.
//!
//! ```text
//!   bytes ahead of the least filled:   lane 0 ████      lane 1 ██      lane 2 (least)
//!   80 KB more ─► level: up to where they are filled alike ─► lane 2 gets most of it
//! ```

use lode_base::Geometry;

use super::EBLOCKS_MIN;

/// Bytes given to each lane, and which is next.
pub(super) struct Lanes {
    /// The lane that takes the next pages.
    next: usize,
    /// Bytes that each lane was given beyond the one that was given least, the log's included: at most an EBLOCK.
    ahead: Vec<u64>,
    eblock_bytes: u64,
}

impl Lanes {
    pub(super) fn new(g: &Geometry) -> Self {
        let count = Self::count_of(g).into();
        Self { next: 0, ahead: vec![0; count], eblock_bytes: g.eblock_bytes().into() }
    }

    /// How many lanes a drive has: one per channel, or fewer where each would have few EBLOCKs.
    pub(super) fn count_of(g: &Geometry) -> u16 {
        g.channels().min(g.eblock_count() / EBLOCKS_MIN).max(1) as u16
    }

    pub(super) fn count(&self) -> usize {
        self.ahead.len()
    }

    /// The lane that takes the next pages.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Pages went to `count` lanes from the next one on.
    pub(super) fn advance(&mut self, count: usize) {
        self.next = (self.next + count) % self.ahead.len();
    }

    /// A lane was given `bytes`.
    pub(super) fn took(&mut self, lane: usize, bytes: u64) {
        let Some(l) = self.ahead.get_mut(lane) else { return };
        *l += bytes;
        let least = self.ahead.iter().copied().min().unwrap_or(0);
        let most = self.eblock_bytes;
        self.ahead.iter_mut().for_each(|l| *l = (*l - least).min(most));
    }

    /// Bytes by which a lane is ahead of the one that was given least.
    pub(super) fn ahead(&self, lane: usize) -> u64 {
        self.ahead[lane]
    }

    /// The level up to which `bytes` more fill all lanes alike; a lane that is ahead of it gets nothing.
    ///
    /// Lanes that are 0, 80 and 0 KB ahead, and 60 KB more: the level is 30 KB.
    pub(super) fn level(&self, bytes: u64) -> u64 {
        let mut ahead = self.ahead.clone();
        ahead.sort_unstable();
        let mut below = 0;
        for (n, &a) in ahead.iter().enumerate() {
            if n as u64 * a >= bytes + below {
                return (bytes + below).div_ceil(n as u64);
            }
            below += a;
        }
        (bytes + below).div_ceil(ahead.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_fills_the_lanes_that_are_behind() {
        let mut l = Lanes::new(&Geometry::new(4, 1, 1, 4096, 4096, 1 << 20, 64).unwrap());
        assert_eq!((l.count(), l.level(80)), (4, 20));
        l.took(1, 80 << 10);
        assert_eq!((l.ahead(1), l.level(30 << 10), l.level(400 << 10)), (80 << 10, 10 << 10, 120 << 10));
        // Nobody waits without end for a lane that was given very much.
        l.took(2, 1 << 40);
        assert_eq!(l.ahead(2), 1 << 20);
    }
}
