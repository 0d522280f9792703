//! Views, by names of the client's own: those of the drive begin anew when it is opened again.
//!
//! ```text
//!   view 7 of the client ─► view 3 of opening 12, at commit 90
//!   the drive is opened anew (13), its newest commit is 90 ─► view 7 is view 1 of opening 13: the state is the same
//!                                                     is 91 ─► view 7 is closed
//! ```
//!
//! The server pins the state that it found the drive in. A view that showed just that goes on as that one, and so may several:
//! it is closed for good when the last of them is. A batch that was applied although its answer was lost is answered with it,
//! too: its own commit is that one or before it, and no view that is still open shows less.
//!
//! Invariant: a name stands for one commit for ever.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::{CommitNo, ViewId};

use crate::message::Recovered;

/// A name that no drive gives to a view.
const CLOSED: ViewId = ViewId::new(u64::MAX);

#[derive(Clone, Copy, Debug)]
struct Seen {
    opening: u64,
    view: ViewId,
    commit: CommitNo,
    /// It stands for the recovered state, as others may.
    shared: bool,
}

/// What to do about a view that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The drive closes it.
    Send(ViewId),
    /// Others stand for the same view of the drive.
    Done,
    /// It is not open.
    Closed,
}

pub(crate) struct Views {
    opening: u64,
    named: u64,
    open: BTreeMap<u64, Seen>,
    recovered: Option<Recovered>,
    /// Those that stand for the recovered state, and queues that may still come to.
    shared: u32,
    /// Queues with a batch under way that asked for a view.
    pinning: BTreeSet<u64>,
    /// Of those, which were so when the drive was opened, and have not looked what became of their batches.
    asking: BTreeSet<u64>,
    queues: u64,
    left: Option<(u64, ViewId)>,
}

impl Views {
    pub(crate) fn new(opening: u64) -> Self {
        Self {
            opening,
            named: 0,
            open: BTreeMap::new(),
            recovered: None,
            shared: 0,
            pinning: BTreeSet::new(),
            asking: BTreeSet::new(),
            queues: 0,
            left: None,
        }
    }

    /// A number for a queue.
    pub(crate) fn queue(&mut self) -> u64 {
        self.queues += 1;
        self.queues
    }

    /// Which opening of the drive is the newest.
    pub(crate) fn opening(&self) -> u64 {
        self.opening
    }

    /// A connection is to this opening of the drive; an error when a later one is known.
    pub(crate) fn meet(&mut self, opening: u64, recovered: Option<Recovered>) -> Result<(), ()> {
        if opening < self.opening {
            return Err(());
        }
        if opening == self.opening {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.opening, opening);
        self.recovered = recovered;
        self.shared = 0;
        self.asking = self.pinning.clone();
        if let Some(r) = recovered {
            for seen in self.open.values_mut().filter(|s| s.opening == before && s.commit == r.commit) {
                *seen = Seen { opening, view: r.view, commit: r.commit, shared: true };
                self.shared += 1;
            }
        }
        Ok(())
    }

    /// A view that the drive opened, in this opening of it, which may be over meanwhile.
    pub(crate) fn opened(&mut self, opening: u64, view: ViewId, commit: CommitNo) -> ViewId {
        match self.recovered {
            Some(r) if opening < self.opening && r.commit == commit && r.view != CLOSED => {
                self.shared += 1;
                self.name(Seen { opening: self.opening, view: r.view, commit, shared: true })
            }
            _ => self.name(Seen { opening, view, commit, shared: false }),
        }
    }

    fn name(&mut self, seen: Seen) -> ViewId {
        self.named += 1;
        self.open.insert(self.named, seen);
        ViewId::new(self.named)
    }

    /// The drive's name of a view, in its newest opening; `None` when it is closed.
    pub(crate) fn of_drive(&self, view: ViewId) -> Option<ViewId> {
        self.open.get(&view.raw()).filter(|s| s.opening == self.opening).map(|s| s.view)
    }

    /// Who closes a view asks this, once.
    pub(crate) fn close(&mut self, view: ViewId) -> Closing {
        let newest = self.opening;
        match self.open.remove(&view.raw()) {
            Some(s) if s.opening != newest => Closing::Closed,
            None => Closing::Closed,
            Some(s) if !s.shared => Closing::Send(s.view),
            Some(_) => {
                self.shared -= 1;
                self.unused().map_or(Closing::Done, Closing::Send)
            }
        }
    }

    /// The drive says that a view is closed.
    pub(crate) fn is_closed(&mut self, view: ViewId) {
        if let Some(s) = self.open.remove(&view.raw())
            && s.shared
            && s.opening == self.opening
        {
            self.shared -= 1;
        }
    }

    /// A queue has a batch under way that asked for a view, or none any more.
    pub(crate) fn pins(&mut self, queue: u64, some: bool) {
        match some {
            true => self.pinning.insert(queue),
            false => self.pinning.remove(&queue),
        };
    }

    /// What is answered for a batch that was applied before the drive was opened: a commit, and the view if it asked for one.
    /// Nothing when the server did not say what it found.
    pub(crate) fn applied(&mut self, pin: bool) -> Option<(CommitNo, Option<ViewId>)> {
        let r = self.recovered?;
        let view = pin.then(|| {
            self.shared += 1;
            self.name(Seen { opening: self.opening, view: r.view, commit: r.commit, shared: true })
        });
        Some((r.commit, view))
    }

    /// A queue knows what became of its batches, or is gone. Answers the recovered view if nobody needs it any more.
    pub(crate) fn looked(&mut self, queue: u64) -> Option<ViewId> {
        self.asking.remove(&queue);
        self.unused()
    }

    /// A view of the drive that whoever comes next closes: who found that nobody needs it could not.
    pub(crate) fn leave(&mut self, view: ViewId) {
        self.left = Some((self.opening, view));
    }

    /// Takes over the closing of a view that was left.
    pub(crate) fn take_left(&mut self) -> Option<ViewId> {
        let opening = self.opening;
        self.left.take().filter(|(o, _)| *o == opening).map(|(_, v)| v)
    }

    /// The recovered view, once nobody stands for it or may come to: it is to be closed.
    fn unused(&mut self) -> Option<ViewId> {
        if self.shared > 0 || !self.asking.is_empty() {
            return None;
        }
        let r = self.recovered.as_mut()?;
        // Its commit is still what applied batches are answered with.
        let view = std::mem::replace(&mut r.view, CLOSED);
        (view != CLOSED).then_some(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(n: u64) -> ViewId {
        ViewId::new(n)
    }

    fn commit(n: u64) -> CommitNo {
        CommitNo::new(n)
    }

    fn recovered(n: u64, v: u64) -> Option<Recovered> {
        Some(Recovered { commit: commit(n), view: view(v) })
    }

    #[test]
    fn names_stand_for_views_of_one_opening() {
        let mut v = Views::new(5);
        let a = v.opened(5, view(1), commit(10));
        let b = v.opened(5, view(2), commit(11));
        assert_eq!((v.of_drive(a), v.of_drive(b)), (Some(view(1)), Some(view(2))));
        assert_eq!(v.close(a), Closing::Send(view(1)));
        assert_eq!(v.close(a), Closing::Closed);
        v.meet(6, recovered(12, 1)).unwrap();
        assert_eq!(v.of_drive(b), None);
        assert_eq!(v.close(b), Closing::Closed);
        assert_eq!(v.meet(5, None), Err(()));
        assert_eq!(v.looked(1), Some(view(1)));
        assert_eq!(v.looked(1), None, "it is closed once");
    }

    #[test]
    fn views_of_the_recovered_state_go_on_until_the_last_closes() {
        let mut v = Views::new(5);
        let [a, b] = [1, 2].map(|n| v.opened(5, view(n), commit(10)));
        let older = v.opened(5, view(3), commit(9));
        let q = v.queue();
        v.pins(q, true);
        v.meet(6, recovered(10, 77)).unwrap();
        assert_eq!((v.of_drive(a), v.of_drive(b), v.of_drive(older)), (Some(view(77)), Some(view(77)), None));
        let Some((at, Some(c))) = v.applied(true) else { panic!("it asked for a view") };
        assert_eq!((at, v.of_drive(c)), (commit(10), Some(view(77))));
        assert_eq!([v.close(a), v.close(b), v.close(c)], [Closing::Done; 3]);
        assert_eq!(v.looked(q), Some(view(77)), "the queue might have needed it");
        let Some((at, Some(d))) = v.applied(true) else { panic!("it asked for a view") };
        assert_eq!((at, v.of_drive(d)), (commit(10), Some(view(u64::MAX))));
    }
}
