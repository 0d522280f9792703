//! The table of views. The client names views itself, because the drive's names start over with each opening.
//!
//! ```text
//!   view 7 of the client ─► view 3 of opening 12, at commit 90
//!   the drive is opened anew (13); its newest commit is 90 ─► view 7 is view 1 of opening 13: the state is the same
//!                                  its newest commit is 91 ─► view 7 is closed
//! ```
//!
//! The server opens a view of the state in which it found the drive: the recovered view. Every client view of exactly
//! that commit continues as the recovered view. The drive closes the recovered view when the last of them is closed. A
//! batch that was applied although its answer was lost is answered with the recovered view, too. This is safe: the
//! batch's own commit is that commit or an earlier one, and no open view shows an earlier commit.
//!
//! Invariant: a name stands for one commit, forever.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::{CommitNo, ViewId};

use crate::message::Recovered;

/// A name that a drive never gives to a view.
const CLOSED: ViewId = ViewId::new(u64::MAX);

#[derive(Clone, Copy, Debug)]
struct OpenView {
    opening: u64,
    view: ViewId,
    commit: CommitNo,
    /// Whether the name stands for the recovered view. Other names may stand for it, too.
    shared: bool,
}

/// What to do when the host closes a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Tell the drive to close this view.
    Send(ViewId),
    /// Nothing: other names still stand for the drive's view.
    Done,
    /// Fail: the view is not open.
    Closed,
}

pub(crate) struct Views {
    opening: u64,
    named: u64,
    open: BTreeMap<u64, OpenView>,
    recovered: Option<Recovered>,
    /// The number of names that stand for the recovered view.
    shared: u32,
    /// The queues with a batch under way that asked for a view.
    pinning: BTreeSet<u64>,
    /// The queues that were in `pinning` when the drive was opened anew and have not yet resolved their batches. They
    /// may still need the recovered view.
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

    /// Assigns a number to a queue.
    pub(crate) fn queue(&mut self) -> u64 {
        self.queues += 1;
        self.queues
    }

    /// The newest known opening of the drive.
    pub(crate) fn opening(&self) -> u64 {
        self.opening
    }

    /// Records that a connection leads to this opening of the drive. Fails if a later opening is known.
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
                *seen = OpenView { opening, view: r.view, commit: r.commit, shared: true };
                self.shared += 1;
            }
        }
        Ok(())
    }

    /// Names a view that the drive opened in `opening`, which may no longer be the newest.
    pub(crate) fn opened(&mut self, opening: u64, view: ViewId, commit: CommitNo) -> ViewId {
        match self.recovered {
            Some(r) if opening < self.opening && r.commit == commit && r.view != CLOSED => {
                self.shared += 1;
                self.name(OpenView { opening: self.opening, view: r.view, commit, shared: true })
            }
            _ => self.name(OpenView { opening, view, commit, shared: false }),
        }
    }

    fn name(&mut self, seen: OpenView) -> ViewId {
        self.named += 1;
        self.open.insert(self.named, seen);
        ViewId::new(self.named)
    }

    /// The drive's name of a view in its newest opening, or `None` if the view is closed.
    pub(crate) fn of_drive(&self, view: ViewId) -> Option<ViewId> {
        self.open.get(&view.raw()).filter(|s| s.opening == self.opening).map(|s| s.view)
    }

    /// Closes a view and returns what the queue must do next.
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

    /// Records that the drive has closed a view.
    pub(crate) fn is_closed(&mut self, view: ViewId) {
        if let Some(s) = self.open.remove(&view.raw())
            && s.shared
            && s.opening == self.opening
        {
            self.shared -= 1;
        }
    }

    /// Records whether a queue has a batch under way that asked for a view.
    pub(crate) fn pins(&mut self, queue: u64, some: bool) {
        match some {
            true => self.pinning.insert(queue),
            false => self.pinning.remove(&queue),
        };
    }

    /// The answer to a batch that was applied before the drive was opened anew: a commit, and a view if the batch
    /// asked for one. `None` if the server did not say in which state it found the drive.
    pub(crate) fn applied(&mut self, pin: bool) -> Option<(CommitNo, Option<ViewId>)> {
        let r = self.recovered?;
        let view = pin.then(|| {
            self.shared += 1;
            self.name(OpenView { opening: self.opening, view: r.view, commit: r.commit, shared: true })
        });
        Some((r.commit, view))
    }

    /// Records that a queue has resolved its batches, or is gone. Returns the recovered view if it is no longer
    /// needed.
    pub(crate) fn looked(&mut self, queue: u64) -> Option<ViewId> {
        self.asking.remove(&queue);
        self.unused()
    }

    /// Leaves a view for another queue to close, because the queue that found it unused is going away.
    pub(crate) fn leave(&mut self, view: ViewId) {
        self.left = Some((self.opening, view));
    }

    /// Takes over the closing of a view that was left.
    pub(crate) fn take_left(&mut self) -> Option<ViewId> {
        let opening = self.opening;
        self.left.take().filter(|(o, _)| *o == opening).map(|(_, v)| v)
    }

    /// Returns the recovered view, for closing, if no name stands for it and no queue may still need it.
    fn unused(&mut self) -> Option<ViewId> {
        if self.shared > 0 || !self.asking.is_empty() {
            return None;
        }
        let r = self.recovered.as_mut()?;
        // The entry stays: applied batches are still answered with its commit.
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
