//! The trail of the log: which EBLOCKs its pages lie in, and where its groups begin.
//!
//! ```text
//!   stretch: pages 5..9 from WBLOCK 3 of EBLOCK a │ 9..40 from 0 of b │ 40..40: c, in which the first program failed
//!   starts:  5, 6, 8, 12, 13, ...
//! ```
//!
//! Invariants: stretches are in the order of their pages and leave no page out. An EBLOCK is let go once no page that is kept
//! lies in it, and no later page may go there.

use std::collections::VecDeque;

use lode_base::EblockId;

use super::candidate::{CANDIDATES, Candidate, LogPosition};

/// Pages that follow each other in one EBLOCK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Where the first page lies.
    pub(super) candidate: Candidate,
    pub(super) first: u64,
    /// The page after the last.
    pub(super) end: u64,
    /// Copies of each page.
    pub(super) copies: u32,
    /// The opening of the medium that wrote them.
    pub(super) epoch: u32,
    /// Where the log goes on when the EBLOCK ends.
    pub(super) next: [Candidate; CANDIDATES - 1],
}

impl Stretch {
    fn spot_of(&self, lsn: u64) -> Candidate {
        self.candidate.plus((lsn - self.first) as u32 * self.copies)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Trail {
    stretches: VecDeque<Stretch>,
    /// LSNs of the first pages of groups.
    starts: VecDeque<u64>,
}

impl Trail {
    /// Adds pages that follow the last one.
    pub(super) fn add(&mut self, new: Stretch) {
        if let Some(s) = self.stretches.back_mut()
            && (s.copies, s.epoch, s.end) == (new.copies, new.epoch, new.first)
            && s.spot_of(new.first) == new.candidate
        {
            s.end = new.end;
        } else {
            self.stretches.push_back(new);
        }
    }

    /// Page `lsn` was not written to this EBLOCK, and no later page will be.
    pub(super) fn pass_over(&mut self, candidate: Candidate, lsn: u64) {
        if !self.stretches.iter().any(|s| s.candidate.eblock == candidate.eblock) {
            let next = [candidate; CANDIDATES - 1];
            self.stretches.push_back(Stretch { candidate, first: lsn, end: lsn, copies: 1, epoch: 0, next });
        }
    }

    pub(super) fn begin_group(&mut self, lsn: u64) {
        assert!(self.starts.back().is_none_or(|&s| s < lsn), "groups begin in order");
        self.starts.push_back(lsn);
    }

    /// The start of the group that holds page `lsn`, or of the first after it; `None` when there is none.
    pub(super) fn position_of(&self, lsn: u64) -> Option<LogPosition> {
        let after = self.starts.partition_point(|&s| s <= lsn);
        let &start = self.starts.get(after.saturating_sub(1))?;
        let s = self.stretches.iter().rev().find(|s| s.first <= start && start < s.end);
        let s = s.expect("the pages of a group that is kept are kept");
        Some(LogPosition { lsn: start, epoch: s.epoch, candidates: [s.spot_of(start), s.next[0], s.next[1]] })
    }

    /// Forgets the groups before page `keep`. The answer: EBLOCKs that are not needed any more.
    pub(super) fn truncate(&mut self, keep: u64, may_come: impl Fn(EblockId) -> bool) -> Vec<EblockId> {
        while self.starts.front().is_some_and(|&s| s < keep) {
            self.starts.pop_front();
        }
        let mut gone = Vec::new();
        self.stretches.retain(|s| {
            let stays = s.end > keep || may_come(s.candidate.eblock);
            if !stays {
                gone.push(s.candidate.eblock);
            }
            stays
        });
        gone.sort_unstable();
        gone.dedup();
        gone.retain(|&e| !self.eblocks().any(|kept| kept == e));
        gone
    }

    /// EBLOCKs, in order; one may come more than once.
    pub(super) fn eblocks(&self) -> impl Iterator<Item = EblockId> {
        self.stretches.iter().map(|s| s.candidate.eblock)
    }

    /// The trail leads up to page `lsn`, in order.
    pub(super) fn check_invariants(&self, lsn: u64) {
        let mut at = None;
        for s in &self.stretches {
            assert!(s.first <= s.end, "{s:?} ends before it begins");
            assert!(at.is_none_or(|at| at == s.first), "{s:?} does not begin where the one before ends");
            at = Some(s.end);
        }
        assert!(at.is_none_or(|at| at <= lsn), "the trail leads beyond page {lsn}");
        assert!(self.starts.iter().is_sorted_by(|a, b| a < b), "groups begin in order");
        if let (Some(&first), Some(s)) = (self.starts.front(), self.stretches.front()) {
            assert!(s.first <= first, "the group that begins at page {first} is not kept");
        }
        assert!(self.starts.back().is_none_or(|&s| s < lsn && at.is_some_and(|at| s < at)));
    }
}

#[cfg(test)]
mod tests {
    use lode_flash::Generation;

    use super::*;

    #[test]
    fn pages_that_follow_each_other_are_one_stretch() {
        let candidate =
            |n, wblock| Candidate { eblock: EblockId::new(n), generation: Generation::from_raw(8), wblock };
        let next = [candidate(8, 0), candidate(9, 0)];
        let mut t = Trail::default();
        let mut add = |first, copies, epoch, candidate| {
            t.add(Stretch { candidate, first, end: first + 1, copies, epoch, next });
            t.begin_group(first);
            t.check_invariants(first + 1);
            t.stretches.len()
        };
        assert_eq!(
            [add(5, 2, 1, candidate(1, 0)), add(6, 2, 1, candidate(1, 2)), add(7, 2, 1, candidate(1, 4))],
            [1, 1, 1]
        );
        assert_eq!(
            [add(8, 1, 1, candidate(1, 6)), add(9, 1, 1, candidate(1, 7))],
            [2, 2],
            "in another number of copies"
        );
        assert_eq!(
            [add(10, 1, 2, candidate(1, 8)), add(11, 1, 2, candidate(1, 9))],
            [3, 3],
            "in another opening"
        );
        assert_eq!(
            [add(12, 1, 2, candidate(2, 0)), add(13, 1, 2, candidate(2, 1))],
            [4, 4],
            "in another EBLOCK"
        );
        let expected = [0, 2, 4, 6, 7, 8, 9]
            .map(|w| candidate(1, w))
            .into_iter()
            .chain([candidate(2, 0), candidate(2, 1)]);
        for (lsn, first) in (5..).zip(expected) {
            let position = t.position_of(lsn).unwrap();
            assert_eq!((position.lsn, position.candidates), (lsn, [first, next[0], next[1]]));
            assert_eq!(position.epoch, if lsn < 10 { 1 } else { 2 });
        }
    }
}
