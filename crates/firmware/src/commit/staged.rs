//! Staged actions: those that have their place in the order of all, and are not over.

use std::sync::Arc;

use super::action::{Action, Slot};
use super::overlay::Overlay;
use crate::pages::Rules;

#[derive(Default)]
pub(super) struct Staged {
    /// The newest installed commit.
    pub(super) commit: u64,
    /// The newest staged one.
    pub(super) staged_commit: u64,
    /// Actions that no log group has taken yet.
    pub(super) actions: Vec<Action>,
    /// Bytes that their records take, about.
    pub(super) bytes: u64,
    pub(super) overlay: Overlay,
    /// Actions that were begun and are not over.
    pub(super) under_way: u32,
    /// The index rules once all that is staged is installed.
    pub(super) rules: Arc<Rules>,
}

impl Staged {
    /// Puts an action behind all others.
    #[inline]
    pub(super) fn push(&mut self, action: Action) -> Arc<Slot> {
        self.overlay.advance();
        let slot = action.slot.clone();
        self.bytes += action.record.bytes_about();
        self.actions.push(action);
        slot
    }

    /// All actions that no log group has taken yet: one takes them now.
    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        self.bytes = 0;
        std::mem::take(&mut self.actions)
    }

    /// What must hold while nothing is under way.
    pub(super) fn check_at_rest(&self) {
        assert!(self.actions.is_empty() && self.overlay.is_empty(), "something is staged for nobody");
        assert_eq!(self.commit, self.staged_commit, "a staged commit was forgotten");
    }
}
