//! How many views of the drive are open at each commit: the oldest one says which old versions are still read.

use std::collections::BTreeMap;

use lode_base::CommitNo;
use parking_lot::Mutex;

/// Open views, by the commit that they show.
#[derive(Default)]
pub(crate) struct OpenViews {
    counts: Mutex<BTreeMap<CommitNo, u32>>,
}

impl OpenViews {
    /// A view of this commit opens.
    pub(crate) fn enter(&self, commit: CommitNo) {
        *self.counts.lock().entry(commit).or_default() += 1;
    }

    /// A view of this commit closes.
    ///
    /// # Panics
    /// When none is open.
    pub(crate) fn leave(&self, commit: CommitNo) {
        let mut counts = self.counts.lock();
        let count = counts.get_mut(&commit).expect("every open view is counted");
        *count -= 1;
        if *count == 0 {
            counts.remove(&commit);
        }
    }

    /// The commit of the oldest open view.
    pub(crate) fn oldest(&self) -> Option<CommitNo> {
        self.counts.lock().keys().next().copied()
    }
}
