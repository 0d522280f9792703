//! Where the partitions of a build side leave their keys.
//!
//! ```text
//!   partitions of the build side ─ keys ─► slot ─ the last one is in ─► set ─► scans that wait
//!                                            └─ one is dropped early, or the keys are too many ─► no set
//! ```
//!
//! Invariant: a set has the keys of all partitions, or there is none.

use std::sync::Arc;

use parking_lot::Mutex;

use super::gather::Gathered;
use crate::scan::JoinKeys;

/// The keys of one column of one build side.
#[derive(Debug)]
pub(super) struct Slot {
    /// `None` once the outcome is known.
    state: Mutex<Option<State>>,
    outcome: Arc<JoinKeys>,
}

#[derive(Debug, Default)]
struct State {
    /// The partitions that have ended.
    ended: usize,
    gathered: Option<Gathered>,
}

impl Slot {
    /// A slot whose keys are for `outcome`.
    pub(super) fn new(outcome: Arc<JoinKeys>) -> Self {
        Self { state: Mutex::new(Some(State::default())), outcome }
    }

    /// What comes of it.
    pub(super) fn outcome(&self) -> &Arc<JoinKeys> {
        &self.outcome
    }

    /// Adds the keys of one of so many partitions, which has ended.
    pub(super) fn add(&self, keys: Gathered, partitions: usize) {
        let mut state = self.state.lock();
        let Some(State { ended, gathered }) = &mut *state else { return };
        *ended += 1;
        let all = match gathered.take() {
            Some(mut all) => {
                all.merge(keys);
                all
            }
            None => keys,
        };
        if *ended < partitions {
            *gathered = Some(all);
            return;
        }
        *state = None;
        self.outcome.known(all.into_set());
    }

    /// Ends without a set: a partition was dropped before its end.
    pub(super) fn give_up(&self) {
        if self.state.lock().take().is_some() {
            self.outcome.known(None);
        }
    }
}
