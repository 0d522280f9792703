//! The snapshots that are open, by what they see.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::CommitNo;
use parking_lot::Mutex;

use crate::trees::tree::Csn;

/// What a snapshot sees: all commits up to `csn`. Its view of the drive is of commit `view`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sight {
    pub(crate) csn: Csn,
    pub(crate) view: CommitNo,
}

impl Sight {
    /// Whether it is older than something that began when nobody saw more than `begun`. A commit to trees shows what it did with
    /// its CSN; a change that has no CSN shows with a view.
    pub(super) fn is_before(self, begun: Self) -> bool {
        self.csn <= begun.csn && self.view <= begun.view
    }
}

/// How many snapshots are open, by what they see.
#[derive(Default)]
pub(super) struct OpenSnapshots {
    counts: Mutex<BTreeMap<Sight, u32>>,
    /// How many snapshots were opened so far.
    opened: AtomicU64,
}

impl OpenSnapshots {
    pub(super) fn enter(&self, sight: Sight) {
        let mut counts = self.counts.lock();
        *counts.entry(sight).or_default() += 1;
        self.opened.fetch_add(1, Ordering::Release);
    }

    /// A snapshot closes. If it was the last one of the oldest sight, `oldest_closed` is called before anybody else enters or
    /// leaves.
    pub(super) fn leave(&self, sight: Sight, oldest_closed: impl FnOnce()) {
        let mut counts = self.counts.lock();
        let count = counts.get_mut(&sight).expect("every open snapshot is counted");
        *count -= 1;
        if *count == 0 {
            if counts.first_key_value().is_some_and(|(oldest, _)| *oldest == sight) {
                oldest_closed();
            }
            counts.remove(&sight);
        }
    }

    /// A list of the open sights that is brought up to date whenever it is read.
    pub(super) fn sights(&self) -> OpenSights<'_> {
        OpenSights { open: self, opened: None, sights: Vec::new() }
    }
}

/// What the open snapshots see. Some that have closed may be among them.
pub(super) struct OpenSights<'a> {
    open: &'a OpenSnapshots,
    opened: Option<u64>,
    sights: Vec<Sight>,
}

impl OpenSights<'_> {
    /// What the snapshots see that are open now.
    ///
    /// To decide whether a version may leave, ask this *after* looking at the version: whether it is dirty, and which version
    /// follows it. Only the writer opens snapshots. A snapshot that needs a version, since its view of the drive does not have it,
    /// is opened after the version was made, and before the version is written back or followed by the next one. So a list that was
    /// read before the look may lack such a snapshot.
    pub(super) fn now(&mut self) -> &[Sight] {
        let opened = Some(self.open.opened.load(Ordering::Acquire));
        if self.opened != opened {
            let counts = self.open.counts.lock();
            self.opened = opened;
            self.sights.clear();
            self.sights.extend(counts.keys());
        }
        &self.sights
    }
}
