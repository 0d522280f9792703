//! The calendar of one resource: intervals in which it is taken.
//!
//! ```text
//!   taken:   ███████      ████          ████████
//!   asked:      ready ▲ ──────► here: the first gap behind `ready` that is long enough
//! ```
//!
//! Invariants: intervals do not overlap; adjacent intervals are merged. Commands are simulated one after the other,
//! but the resource goes to the request that is ready first. So a bus does not idle for a request that was made
//! earlier but is ready later.

use std::collections::VecDeque;

/// The calendar of a resource, in picoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    taken: VecDeque<(u64, u64)>,
    /// The total time for which it was taken.
    busy: u64,
}

impl Calendar {
    /// Takes the resource for `len`, in the first gap from `ready` on that is long enough. Returns the start. There
    /// will be no request before `floor`.
    pub(crate) fn take(&mut self, floor: u64, ready: u64, len: u64) -> u64 {
        if len == 0 {
            return ready;
        }
        self.counts(floor, len);
        if let Some(at) = self.append(ready, len) {
            return at;
        }
        let at = self.first_fit(ready, len);
        self.insert(self.taken.partition_point(|t| t.0 < at), at, at + len);
        at
    }

    /// The fast path: if nothing begins after `ready`, takes the resource behind all intervals. Returns the start.
    fn append(&mut self, ready: u64, len: u64) -> Option<u64> {
        match self.taken.back_mut() {
            Some(last) if ready < last.0 => None,
            Some(last) if ready <= last.1 => {
                let at = last.1;
                last.1 += len;
                Some(at)
            }
            _ => {
                self.taken.push_back((ready, ready + len));
                Some(ready)
            }
        }
    }

    /// Adds `len` to the total, and drops intervals that ended before `floor`.
    fn counts(&mut self, floor: u64, len: u64) {
        while self.taken.front().is_some_and(|t| t.1 <= floor) {
            self.taken.pop_front();
        }
        self.busy += len;
    }

    /// Takes the resource for `len` in total, in all gaps from `ready` on. Returns the end of the last piece. For
    /// resources that are shared in small pieces.
    pub(crate) fn fill(&mut self, floor: u64, ready: u64, len: u64) -> u64 {
        if len == 0 {
            return ready;
        }
        self.counts(floor, len);
        if let Some(at) = self.append(ready, len) {
            return at + len;
        }
        let first = self.taken.partition_point(|t| t.1 < ready);
        let (mut left, mut end, mut last) = (len, ready, first);
        // Everything in between becomes one interval.
        while let Some(&(from, to)) = self.taken.get(last) {
            let gap = from.saturating_sub(end);
            if gap > left {
                break;
            }
            left -= gap;
            end = to.max(end);
            last += 1;
            if left == 0 {
                break;
            }
        }
        let begins = self.taken.get(first).filter(|_| last > first).map_or(ready, |t| t.0.min(ready));
        // If the last gap is filled completely, the piece ends where the next interval begins.
        let ended = if left == 0 { self.taken[last - 1].0 } else { end + left };
        let end = end.max(ended);
        self.taken.drain(first..last);
        match self.taken.get_mut(first).filter(|t| t.0 == end) {
            Some(next) => next.0 = begins,
            None => self.taken.insert(first, (begins, end)),
        }
        ended
    }

    /// Inserts an interval before interval `i`, or at the end.
    fn insert(&mut self, i: usize, from: u64, to: u64) {
        let before = i > 0 && self.taken[i - 1].1 == from;
        let behind = self.taken.get(i).is_some_and(|t| t.0 == to);
        match (before, behind) {
            (true, true) => {
                self.taken[i - 1].1 = self.taken[i].1;
                self.taken.remove(i);
            }
            (true, false) => self.taken[i - 1].1 = to,
            (false, true) => self.taken[i].0 = from,
            (false, false) => self.taken.insert(i, (from, to)),
        }
    }

    /// The first start from `ready` on with a gap of `len`.
    pub(crate) fn first_fit(&self, ready: u64, len: u64) -> u64 {
        let mut at = ready;
        for t in self.taken.iter().skip(self.taken.partition_point(|t| t.1 <= ready)) {
            if at + len <= t.0 {
                break;
            }
            at = t.1;
        }
        at
    }

    /// The total time for which it was taken.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        assert!(self.taken.iter().all(|t| t.0 < t.1));
        assert!(self.taken.iter().zip(self.taken.iter().skip(1)).all(|(a, b)| a.1 < b.0), "{:?}", self.taken);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_are_filled_and_what_adjoins_is_one() {
        let mut c = Calendar::default();
        assert_eq!(c.take(0, 10, 5), 10);
        assert_eq!(c.take(0, 30, 5), 30);
        assert_eq!(c.take(0, 12, 15), 15, "it fits the gap exactly");
        assert_eq!(c.taken, [(10, 35)]);
        assert_eq!((c.take(0, 0, 11), c.take(0, 0, 10)), (35, 0));
        assert_eq!((c.taken.clone(), c.busy()), (VecDeque::from([(0, 46)]), 46));
        assert_eq!(c.take(0, 50, 0), 50);
        assert_eq!(c.take(46, 60, 2), 60);
        assert_eq!(c.taken, [(60, 62)], "what is over is forgotten");
    }

    proptest! {
        /// Compared with a model that has a bit for each picosecond.
        #[test]
        fn each_gets_the_first_gap_that_is_long_enough(asked in vec((0..120u64, 0..9u64), 0..60)) {
            let mut c = Calendar::default();
            let mut taken = vec![false; 1000];
            for (ready, len) in asked {
                let free = |at: u64| (at..at + len).all(|t| !taken[t as usize]);
                let expected = (ready..).find(|&at| free(at)).unwrap();
                prop_assert_eq!(c.first_fit(ready, len.max(1)), (ready..).find(|&at| {
                    (at..at + len.max(1)).all(|t| !taken[t as usize])
                }).unwrap());
                prop_assert_eq!(c.take(0, ready, len), expected);
                (expected..expected + len).for_each(|t| taken[t as usize] = true);
                c.check_invariants();
                prop_assert_eq!(c.busy(), taken.iter().filter(|t| **t).count() as u64);
            }
        }

        /// Whole requests and pieces, compared with a model that has a bit for each picosecond.
        #[test]
        fn pieces_fill_whatever_is_free(asked in vec((0..120u64, 0..15u64, any::<bool>()), 0..60)) {
            let mut c = Calendar::default();
            let mut taken = vec![false; 2000];
            for (ready, len, pieces) in asked {
                if pieces {
                    let free: Vec<_> = (ready..).filter(|t| !taken[*t as usize]).take(len as usize).collect();
                    let expected = free.last().map_or(ready, |t| t + 1);
                    prop_assert_eq!(c.fill(0, ready, len), expected);
                    free.into_iter().for_each(|t| taken[t as usize] = true);
                } else {
                    let at = c.take(0, ready, len);
                    (at..at + len).for_each(|t| {
                        assert!(!taken[t as usize]);
                        taken[t as usize] = true;
                    });
                }
                c.check_invariants();
                prop_assert_eq!(c.busy(), taken.iter().filter(|t| **t).count() as u64);
            }
        }
    }
}
