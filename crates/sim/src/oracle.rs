//! The oracle's memory: what is acknowledged, what each open view shows, and what may or may not have happened.
//!
//! ```text
//!   now ── apply(change) ─► now'        a view keeps the state that it was opened at
//!   crash: the drive says commit m ─► the first m - now.commit of the pending changes took effect, and no other
//!                                     m below now.commit: it is in the state before the unforced batch m + 1
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;

use lode_base::{CELL_BYTES, ExtentId, Lpid, OwnerId, SessionId, ViewId};
use lode_program::IndexRule;

use crate::content::Content;

/// One version of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) content: Content,
    pub(crate) owner: OwnerId,
    /// Its length in bytes.
    pub(crate) len: u32,
    /// Whether it is to begin on a read unit.
    pub(crate) aligned: bool,
    /// Bytes that it takes on the medium at most: with what is passed over before it, where it begins a read unit.
    pub(crate) media_bytes: u32,
    /// The number of the index rule under which its entry is there for sure.
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
    /// Whether a batch wrote into it: then its owner is durable.
    pub(crate) written: bool,
}

/// The drive after one commit, as it should be.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) commit: u64,
    pub(crate) pages: BTreeMap<Lpid, Page>,
    pub(crate) extents: BTreeMap<ExtentId, Extent>,
    pub(crate) rules: BTreeMap<OwnerId, Rule>,
    /// Rules that stand no more, and the commits that ended them.
    pub(crate) ended_rules: Vec<(u64, Rule)>,
    /// Open sessions, and the highest number that each has applied.
    pub(crate) sessions: BTreeMap<SessionId, u64>,
}

/// What one batch makes of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) writes: Vec<(Lpid, Page)>,
    pub(crate) trims: Vec<Lpid>,
    pub(crate) releases: Vec<ExtentId>,
    pub(crate) rules: Vec<(OwnerId, Option<IndexRule>)>,
    pub(crate) session: Option<(SessionId, u64)>,
    /// Whether it may be answered before it is durable.
    pub(crate) unforced: bool,
}

impl State {
    /// Carries out the next commit.
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

    /// Extents of an owner.
    pub(crate) fn extents_of(&self, owner: OwnerId) -> Vec<ExtentId> {
        self.extents.iter().filter(|(_, e)| e.owner == owner).map(|(id, _)| *id).collect()
    }

    /// Bytes of the pages, in whole cells.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.pages.values().map(|p| u64::from(p.len).next_multiple_of(CELL_BYTES as u64)).sum()
    }
}

/// A batch that may be there after the next open, or not.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) change: Change,
    /// Whether the medium failed it: then others can be there without it.
    pub(crate) failed: bool,
}

/// What the host knows of the drive.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) now: Rc<State>,
    /// Open views and what they show, in the order in which they were opened.
    pub(crate) views: Vec<(ViewId, Rc<State>)>,
    /// Batches without an answer that counts, in the order in which they were submitted.
    pub(crate) pending: Vec<Pending>,
    /// The states that batches lead to which are under way.
    pub(crate) beside: Vec<Rc<State>>,
    /// Sessions that were opened or closed since the last batch was acknowledged.
    pub(crate) fresh_sessions: Vec<SessionId>,
    /// Sessions that may be open or not after the next open.
    pub(crate) doubtful_sessions: Vec<SessionId>,
    /// Further ones of which not even the number is known.
    pub(crate) sessions_in_doubt: u32,
    /// Sessions that are open, and whose number nobody heard.
    pub(crate) unknown_sessions: u32,
    /// The states before each of the unforced batches behind which nothing was forced: it may be any of them after the
    /// next open, and then nothing of what came later is there.
    pub(crate) unforced: Vec<Rc<State>>,
    /// What a fault that hits the end of the log may take along.
    tail: Tail,
    /// Pages that got their index entries last, behind which no batch is whole yet: a fault may take those along, too.
    pub(crate) indexed_last: Vec<Lpid>,
}

/// The batches that were acknowledged last: a later page of the log does not yet say that they were durable, or does so
/// alone.
///
/// ```text
///   a, b unforced ─► p forced ─► q forced ─► r forced          page p says that what was forced before a is durable; q
///                                                              that a, b, p are; r that q is
/// ```
///
/// Of batches that were forced one by one each says so of the one before: once q is there, p is proven and q alone can
/// go. Page q is the only one that says so of a and b, and what they freed of each other may be used again from then
/// on: where q is hit, their data is not there, and they are taken for batches that were never finished. So they leave
/// only once r says so of q.
#[derive(Debug, Default)]
struct Tail {
    /// The state before each, and whether it was unforced.
    batches: Vec<(Rc<State>, bool)>,
    /// Of the first so many the last page that was forced says so.
    told: usize,
    /// The first so many are durable.
    synced: usize,
}

impl Tail {
    /// A group was forced that nothing hit: it says so of all that was synced before.
    fn prove(&mut self) {
        let unforced = self.batches[self.told..self.synced].iter().any(|b| b.1);
        let gone = if unforced { self.told } else { self.synced };
        self.batches.drain(..gone);
        self.synced -= gone;
        self.told = self.synced;
    }
}

impl Oracle {
    /// The next commit.
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

    /// All that was answered is durable.
    pub(crate) fn forced(&mut self) {
        self.unforced.clear();
        self.tail.synced = self.tail.batches.len();
    }

    /// A batch was forced that nothing hit.
    pub(crate) fn proves(&mut self) {
        self.tail.prove();
        self.indexed_last.clear();
        self.fresh_sessions.clear();
    }

    /// Nothing is in doubt any more.
    pub(crate) fn found(&mut self) {
        self.tail = Tail::default();
        self.unforced.clear();
    }

    /// Forgets an extent that no batch wrote into; false when it is another one.
    pub(crate) fn forgets(&mut self, e: ExtentId) -> bool {
        let now = Rc::make_mut(&mut self.now);
        let forgotten = now.extents.get(&e).is_none_or(|x| !x.written);
        if forgotten {
            now.extents.remove(&e);
        }
        forgotten
    }

    /// Bytes that all versions take at most that are needed: the newest, and those of open views.
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

    /// The power is back, and the drive says that this is its newest commit: the states that it may be in, with how
    /// many pending batches took effect. None when that can not be.
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

    /// Forgets the batches that were acknowledged last, down to this commit; false when others would go too.
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

/// Tells `found` each state that comes of `count` of these batches: a failed one can be left out, and no other one that
/// comes before one that counts.
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
        assert!(settled(0, false).is_empty(), "an acknowledged batch is gone");
        assert!(settled(4, false).is_empty(), "a batch that nobody submitted");
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
        assert_eq!(left(change(0, 5)), [3, 4, 5], "it says so of 2");
        assert_eq!(left(change(0, 6)), [3, 4, 5, 6], "it alone says so of 3 and 4");
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
