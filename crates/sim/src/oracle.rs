//! The state of the oracle: the acknowledged state, the state of each open view, and the changes with unknown
//! outcomes.
//!
//! ```text
//!   now ── apply(change) ─► now'        a view keeps the state at which it was opened
//!   crash: the drive reports commit m ─► the first m - now.commit of the pending changes took effect, and no other
//!                                        m below now.commit: the drive is in the state before unforced batch m + 1
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;

use lode_base::{CELL_BYTES, ExtentId, Lpid, OwnerId, SessionId, ViewId};
use lode_program::IndexRule;

use crate::content::Content;

/// A version of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) content: Content,
    pub(crate) owner: OwnerId,
    /// The length of the page in bytes.
    pub(crate) len: u32,
    /// Whether the page should begin on a read unit.
    pub(crate) aligned: bool,
    /// The most bytes that the page takes on the medium. If it begins on a read unit, this includes the skipped bytes
    /// before it.
    pub(crate) media_bytes: u32,
    /// The number of the index rule under which the page certainly has an index entry.
    pub(crate) indexed_by: Option<u64>,
}

/// An index rule and the commit that registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) number: u64,
    pub(crate) rule: IndexRule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) owner: OwnerId,
    /// Whether a batch wrote to the extent. If so, its allocation is durable.
    pub(crate) written: bool,
}

/// The expected state of the drive after a commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) commit: u64,
    pub(crate) pages: BTreeMap<Lpid, Page>,
    pub(crate) extents: BTreeMap<ExtentId, Extent>,
    pub(crate) rules: BTreeMap<OwnerId, Rule>,
    /// The rules no longer in force, with the commits that ended them.
    pub(crate) ended_rules: Vec<(u64, Rule)>,
    /// The open sessions with the highest number that each has applied.
    pub(crate) sessions: BTreeMap<SessionId, u64>,
}

/// The change of the state by a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) writes: Vec<(Lpid, Page)>,
    pub(crate) trims: Vec<Lpid>,
    pub(crate) releases: Vec<ExtentId>,
    pub(crate) rules: Vec<(OwnerId, Option<IndexRule>)>,
    pub(crate) session: Option<(SessionId, u64)>,
    /// Whether the batch may be answered before it is durable.
    pub(crate) unforced: bool,
}

impl State {
    /// Applies the next commit.
    pub(crate) fn apply(&mut self, change: &Change) {
        self.commit += 1;
        for (owner, rule) in &change.rules {
            let before = match rule {
                Some(rule) => self.rules.insert(*owner, Rule { number: self.commit, rule: rule.clone() }),
                None => self.rules.remove(owner),
            };
            self.ended_rules.extend(before.map(|r| (self.commit, r)));
        }
        if let Some((session, wsn)) = change.session {
            self.sessions.insert(session, wsn);
        }
        for lpid in &change.trims {
            self.pages.remove(lpid);
        }
        for extent in &change.releases {
            self.extents.remove(extent);
            self.pages.retain(|l, _| l.extent() != *extent);
        }
        for (lpid, page) in &change.writes {
            let indexed_by = self.rules.get(&page.owner).map(|r| r.number);
            self.pages.insert(*lpid, Page { indexed_by, ..page.clone() });
            if let Some(extent) = self.extents.get_mut(&lpid.extent()) {
                extent.written = true;
            }
        }
    }

    /// Whether a batch is the next of its session.
    pub(crate) fn takes(&self, change: &Change) -> bool {
        change.session.is_none_or(|(s, wsn)| self.sessions.get(&s).is_some_and(|highest| highest + 1 == wsn))
    }

    /// The pages of an extent.
    pub(crate) fn pages_of(&self, extent: ExtentId) -> impl Iterator<Item = (Lpid, &Page)> {
        self.pages.range(extent.page(0)..=extent.page(1023)).map(|(l, p)| (*l, p))
    }

    /// The extents of an owner.
    pub(crate) fn extents_of(&self, owner: OwnerId) -> Vec<ExtentId> {
        self.extents.iter().filter(|(_, e)| e.owner == owner).map(|(id, _)| *id).collect()
    }

    /// The bytes of all pages, in whole cells.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.pages.values().map(|p| u64::from(p.len).next_multiple_of(CELL_BYTES as u64)).sum()
    }
}

/// A batch that may or may not have taken effect after the next open.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) change: Change,
    /// Whether the batch failed because of the medium. If so, later batches can take effect without it.
    pub(crate) failed: bool,
}

/// The host's knowledge of the drive.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) now: Rc<State>,
    /// The open views with their states, in the order of opening.
    pub(crate) views: Vec<(ViewId, Rc<State>)>,
    /// The batches without a conclusive answer, in the order of submission.
    pub(crate) pending: Vec<Pending>,
    /// The states to which the batches under way lead.
    pub(crate) beside: Vec<Rc<State>>,
    /// The sessions that were opened or closed since the last acknowledged batch.
    pub(crate) fresh_sessions: Vec<SessionId>,
    /// The sessions that may or may not be open after the next open.
    pub(crate) doubtful_sessions: Vec<SessionId>,
    /// The number of further sessions that may or may not be open, whose ids are not known.
    pub(crate) sessions_in_doubt: u32,
    /// The number of open sessions whose ids are not known.
    pub(crate) unknown_sessions: u32,
    /// The states before each unforced batch since the last forced one. After the next open, the drive may be in any of
    /// these states; all later batches are then lost.
    pub(crate) unforced: Vec<Rc<State>>,
    /// The batches that a hit at the end of the log may lose.
    tail: Tail,
    /// The pages that got index entries after the last complete batch. A hit may lose those entries, too.
    pub(crate) indexed_last: Vec<Lpid>,
}

/// The last acknowledged batches. At most one later log page proves that they are durable.
///
/// ```text
///   a, b unforced ─► p forced ─► q forced ─► r forced          page p proves the forced batches before a durable;
///                                                              q proves a, b, p; r proves q
/// ```
///
/// Each forced batch proves the batches before it. Once q is written, p is proven, and only q can be lost. But q is the
/// only proof of a and b. From q on, the drive may use the space again that a and b freed of each other. If q is hit,
/// the data of a and b may be overwritten, and they look like batches that were never finished. So a and b leave the
/// tail only when r proves q.
#[derive(Debug, Default)]
struct Tail {
    /// The state before each batch, and whether the batch was unforced.
    batches: Vec<(Rc<State>, bool)>,
    /// The number of batches that the last forced page proves.
    told: usize,
    /// The number of batches that are durable.
    synced: usize,
}

impl Tail {
    /// Records a forced group without hits. The group proves all batches that were synced before.
    fn prove(&mut self) {
        let unforced = self.batches[self.told..self.synced].iter().any(|b| b.1);
        let gone = if unforced { self.told } else { self.synced };
        self.batches.drain(..gone);
        self.synced -= gone;
        self.told = self.synced;
    }
}

impl Oracle {
    /// Applies the next commit.
    pub(crate) fn apply(&mut self, change: &Change) {
        self.tail.batches.push((self.now.clone(), change.unforced));
        if change.unforced {
            self.unforced.push(self.now.clone());
        }
        Rc::make_mut(&mut self.now).apply(change);
        if !change.unforced {
            self.forced();
        }
    }

    /// Records that all answered batches are durable.
    pub(crate) fn forced(&mut self) {
        self.unforced.clear();
        self.tail.synced = self.tail.batches.len();
    }

    /// Records a forced batch without hits.
    pub(crate) fn proves(&mut self) {
        self.tail.prove();
        self.indexed_last.clear();
        self.fresh_sessions.clear();
    }

    /// Clears all doubts, after the state was found.
    pub(crate) fn found(&mut self) {
        self.tail = Tail::default();
        self.unforced.clear();
    }

    /// Forgets the allocation of an extent to which no batch wrote. Returns false if a batch wrote to it.
    pub(crate) fn forgets(&mut self, e: ExtentId) -> bool {
        let now = Rc::make_mut(&mut self.now);
        let forgotten = now.extents.get(&e).is_none_or(|x| !x.written);
        if forgotten {
            now.extents.remove(&e);
        }
        forgotten
    }

    /// The most bytes that the needed versions take: the newest ones and those of open views.
    pub(crate) fn needed_bytes(&self) -> u64 {
        let mut old: BTreeMap<(Lpid, u64), u32> = BTreeMap::new();
        for (_, state) in &self.views {
            for (lpid, page) in &state.pages {
                if self.now.pages.get(lpid).map(|p| p.content) != Some(page.content) {
                    old.insert((*lpid, page.content.seed()), page.media_bytes);
                }
            }
        }
        let now = self.now.pages.values().map(|p| p.media_bytes);
        now.chain(old.into_values()).map(u64::from).sum()
    }

    /// Returns the possible states after a power cut, given the drive's newest commit, each with the number of pending
    /// batches that took effect. Returns no state if that commit is not possible.
    pub(crate) fn settle(&mut self, commit: u64) -> Vec<(usize, Rc<State>)> {
        self.views.clear();
        let pending = std::mem::take(&mut self.pending);
        let Some(applied) = commit.checked_sub(self.now.commit) else {
            let state = self.unforced.iter().find(|s| s.commit == commit);
            return state.map(|s| (0, s.clone())).into_iter().collect();
        };
        let mut found = Vec::new();
        some_of(&pending, self.now.clone(), applied, &mut |state| found.push((applied as usize, state)));
        found
    }

    /// Drops the acknowledged batches after this commit. Returns false if they are not all in the tail.
    pub(crate) fn loses_tail(&mut self, commit: u64) -> bool {
        let tail = std::mem::take(&mut self.tail);
        match tail.batches.into_iter().find(|(s, _)| s.commit == commit) {
            Some((state, _)) => {
                self.now = state;
                true
            }
            None => false,
        }
    }
}

/// Passes to `found` each state that `count` of these batches can lead to. Only a failed batch can be left out before
/// an applied one.
fn some_of(pending: &[Pending], state: Rc<State>, count: u64, found: &mut dyn FnMut(Rc<State>)) {
    if count == 0 {
        return found(state);
    }
    let Some((first, rest)) = pending.split_first() else { return };
    if !state.takes(&first.change) {
        return some_of(rest, state, count, found);
    }
    let mut after = state.clone();
    Rc::make_mut(&mut after).apply(&first.change);
    some_of(rest, after, count - 1, found);
    if first.failed {
        some_of(rest, state, count, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(page: u16, seed: u64) -> Change {
        let lpid = ExtentId::new(1).unwrap().page(page);
        let (content, owner) = (Content::Bytes { seed, len: 100 }, OwnerId::new(3));
        let page = Page { content, owner, len: 100, aligned: false, media_bytes: 128, indexed_by: None };
        Change { writes: vec![(lpid, page)], ..Change::default() }
    }

    #[test]
    fn of_what_was_under_way_a_prefix_counts_and_nothing_that_was_acknowledged_is_gone() {
        let settled = |commit, failed: bool| -> Vec<Vec<u64>> {
            let mut o = Oracle::default();
            o.apply(&change(0, 1));
            o.views.push((ViewId::new(1), o.now.clone()));
            o.pending.push(Pending { change: change(0, 2), failed });
            o.pending.push(Pending { change: change(1, 3), failed: false });
            let seeds = |s: Rc<State>| s.pages.values().map(|p| p.content.seed()).collect();
            let states = o.settle(commit).into_iter().map(|(_, s)| seeds(s)).collect();
            assert!(o.views.is_empty() && o.pending.is_empty());
            states
        };
        assert_eq!(settled(1, false), [[1]]);
        assert_eq!(settled(2, false), [[2]]);
        assert_eq!(settled(3, false), [[2, 3]]);
        assert!(settled(0, false).is_empty(), "an acknowledged batch cannot be lost");
        assert!(settled(4, false).is_empty(), "only submitted batches can take effect");
        assert_eq!(settled(2, true), [vec![2], vec![1, 3]], "a batch that the medium failed can be missing");
    }

    fn unforced(page: u16, seed: u64) -> Change {
        Change { unforced: true, ..change(page, seed) }
    }

    #[test]
    fn of_unforced_batches_a_prefix_counts_and_none_behind_which_something_was_forced_is_gone() {
        let settled = |commit, flushes: bool| -> Vec<usize> {
            let mut o = Oracle::default();
            [change(0, 1), unforced(1, 2), unforced(2, 3)].iter().for_each(|c| o.apply(c));
            if flushes {
                o.forced();
            }
            o.pending.push(Pending { change: change(3, 4), failed: false });
            o.settle(commit).into_iter().map(|(_, s)| s.pages.len()).collect()
        };
        for commit in 0..=5 {
            let there = |from| if (from..=4).contains(&commit) { vec![commit as usize] } else { Vec::new() };
            assert_eq!((settled(commit, false), settled(commit, true)), (there(1), there(3)), "{commit}");
        }
    }

    #[test]
    fn unforced_batches_leave_the_tail_once_two_pages_say_that_they_were_durable() {
        let mut o = Oracle::default();
        let mut left = |c: Change| {
            if !c.unforced {
                o.proves();
            }
            o.apply(&c);
            o.tail.batches.iter().map(|(s, _)| s.commit + 1).collect::<Vec<_>>()
        };
        assert_eq!((left(change(0, 1)), left(change(0, 2))), (vec![1], vec![2]), "one after the other");
        assert_eq!((left(unforced(0, 3)), left(unforced(0, 4))), (vec![2, 3], vec![2, 3, 4]));
        assert_eq!(left(change(0, 5)), [3, 4, 5], "it proves 2");
        assert_eq!(left(change(0, 6)), [3, 4, 5, 6], "it is the only proof of 3 and 4");
        assert_eq!(left(change(0, 7)), [7]);
    }

    #[test]
    fn a_view_keeps_what_it_shows_and_that_counts() {
        let mut o = Oracle::default();
        o.apply(&change(0, 1));
        o.views.push((ViewId::new(1), o.now.clone()));
        assert_eq!(o.needed_bytes(), 128);
        o.apply(&change(0, 2));
        assert_eq!((o.needed_bytes(), o.now.live_bytes()), (256, 128));
        assert_eq!(o.views[0].1.pages.values().next().unwrap().content.seed(), 1);
        let release = Change { releases: vec![ExtentId::new(1).unwrap()], ..Change::default() };
        o.apply(&release);
        assert_eq!((o.now.commit, o.now.live_bytes(), o.needed_bytes()), (3, 0, 128));
    }
}
