//! The page buffer of a device: read units that lie in its memory, because they were read or programmed lately.
//!
//! Invariant: of the units that were put in last, as many are there as fit; one that is used counts as put in again.
//! Source: FLIXR, table 2: page cache replacement, least recently used.

use std::collections::{BTreeMap, HashMap};

/// Read units in memory, by number, counted over all EBLOCKs.
#[derive(Debug, Default)]
pub(super) struct PageBuffer {
    units_max: usize,
    units: HashMap<u64, Held>,
    /// The units by their last use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    used: u64,
    /// The time since when it is in memory.
    since: u64,
}

impl PageBuffer {
    /// An empty buffer for so many units.
    pub(super) fn new(units_max: usize) -> Self {
        Self { units_max, ..Self::default() }
    }

    /// The time since when all of these units are in memory, if they are by `latest`: an array read is not slower then. They are used.
    pub(super) fn holds(&mut self, units: std::ops::Range<u64>, latest: u64) -> Option<u64> {
        let since = |u| self.units.get(&u).map(|h| h.since).filter(|since| *since <= latest);
        let all = units.clone().map(since).try_fold(0, |a, b| Some(a.max(b?)))?;
        units.for_each(|u| self.put(u, self.units[&u].since));
        Some(all)
    }

    /// A unit was read into memory, at this time. It may have been there before.
    pub(super) fn read(&mut self, unit: u64, at: u64) {
        self.put(unit, self.units.get(&unit).map_or(at, |h| h.since.min(at)));
    }

    /// A unit was programmed from memory, which has its new bytes from this time on.
    pub(super) fn programmed(&mut self, unit: u64, at: u64) {
        self.put(unit, at);
    }

    fn put(&mut self, unit: u64, since: u64) {
        if self.units_max == 0 {
            return;
        }
        self.uses += 1;
        if let Some(old) = self.units.insert(unit, Held { used: self.uses, since }) {
            self.by_use.remove(&old.used);
        }
        self.by_use.insert(self.uses, unit);
        if self.units.len() > self.units_max
            && let Some((_, least)) = self.by_use.pop_first()
        {
            self.units.remove(&least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_unit_goes_first() {
        let (mut b, end) = (PageBuffer::new(3), u64::MAX);
        (0..3).for_each(|u| b.read(u, 10 * u));
        assert_eq!(b.holds(0..2, end), Some(10));
        b.read(9, 7);
        assert_eq!(b.holds(2..3, end), None);
        assert_eq!((b.holds(0..2, end), b.holds(9..10, end)), (Some(10), Some(7)));
        // A unit that is read again was there before; one that is programmed anew was not.
        b.read(9, 50);
        assert_eq!((b.holds(9..10, end), b.units.len(), b.by_use.len()), (Some(7), 3, 3));
        b.programmed(9, 99);
        assert_eq!((b.holds(9..10, end), b.holds(9..10, 98)), (Some(99), None));
        assert_eq!(b.holds(1..4, end), None);
        let mut none = PageBuffer::new(0);
        none.read(1, 1);
        assert_eq!(none.holds(1..2, end), None);
    }
}
