//! The ends of transactions and definitions, compared with the model.

use lode_engine::{Durability, EngineError};

use super::{Done, OpenTxn, World};
use crate::failure::{FailureKind, wrong};
use crate::tables::model::{Expected, State};

impl World<'_> {
    /// Commits a transaction. `cut`: the event of a power cut meanwhile.
    pub(super) fn commit(&mut self, open: OpenTxn, cut: Option<&'static str>) -> Done {
        let OpenTxn { txn, durability, work, began, savepoints } = open;
        drop(savepoints);
        let newest = self.model.newest().clone();
        let expected = work.expected(&newest);
        let unchanged = txn.is_unchanged() || work.changes_nothing();
        let result = txn.commit();
        let done = self.ended(result.map(drop), expected, durability, unchanged, began, cut);
        self.machine.crowd.leave();
        done
    }

    fn ended(
        &mut self,
        result: Result<(), EngineError>,
        expected: Expected,
        durability: Durability,
        unchanged: bool,
        began: usize,
        cut: Option<&'static str>,
    ) -> Done {
        if self.machine.is_cut() {
            cut.into_iter().for_each(|event| self.machine.met(event));
            if let Expected::Done(after) | Expected::DoneOrConflict(after) = expected
                && !unchanged
            {
                self.model.may_commit(after);
            }
            return Ok(());
        }
        let is_broken = |e: &EngineError| {
            matches!(
                e,
                EngineError::DuplicateKey { .. }
                    | EngineError::Unique { .. }
                    | EngineError::ForeignKey { .. }
            )
        };
        match (result, expected) {
            (Ok(()), Expected::Done(after)) => {
                self.acknowledged(after, durability == Durability::Commit && !unchanged);
                self.machine.met("commits");
                Ok(())
            }
            (Ok(()), Expected::DoneOrConflict(after)) => {
                self.acknowledged(after, durability == Durability::Commit && !unchanged);
                self.machine.met("commits");
                self.machine.met("tables altered");
                Ok(())
            }
            (Err(EngineError::Conflict { .. }), Expected::Conflict | Expected::DoneOrConflict(_)) => {
                self.machine.met("conflicts");
                Ok(())
            }
            (Err(e), Expected::Broken(_)) if is_broken(&e) => {
                self.machine.met("broken constraints");
                Ok(())
            }
            (Ok(()), Expected::Conflict) if unchanged => Ok(()),
            (Ok(()), Expected::Conflict) => {
                wrong(FailureKind::Isolation, "a commit was accepted, and another one was first")
            }
            (Ok(()), Expected::Broken(what)) => {
                wrong(FailureKind::Isolation, format!("a commit made {what}"))
            }
            (Err(e), expected) => {
                if matches!(e, EngineError::Conflict { .. }) || is_broken(&e) {
                    let expected = match expected {
                        Expected::Done(_) | Expected::DoneOrConflict(_) => "success",
                        Expected::Conflict => "a conflict",
                        Expected::Broken(_) => "a broken constraint",
                    };
                    return wrong(FailureKind::Answer, format!("a commit: {e}; expected was {expected}"));
                }
                if matches!(e, EngineError::SnapshotTooOld) {
                    return self.machine.excused_read("a commit", began, &e);
                }
                self.failed("a commit", &e, expected)
            }
        }
    }

    /// Checks an error of a commit or a definition.
    fn failed(&mut self, what: &str, e: &EngineError, expected: Expected) -> Done {
        if self.machine.excused(what, e)? {
            self.machine.met("commits that a fault failed");
            if let Expected::Done(after) | Expected::DoneOrConflict(after) = expected {
                self.model.may_commit(after);
            }
        } else if matches!(e, EngineError::OutOfSpace { .. }) {
            self.machine.met("commits refused on a full drive");
        }
        Ok(())
    }

    fn acknowledged(&mut self, after: State, durable: bool) {
        self.model.commit(after);
        if durable {
            self.model.is_durable();
        }
    }

    /// Checks the answer to a definition, which makes the state `after`.
    pub(super) fn defined(
        &mut self,
        what: &'static str,
        result: Result<(), EngineError>,
        after: State,
    ) -> Done<bool> {
        if self.machine.is_cut() {
            self.machine.met("power cuts within a definition");
            self.model.may_commit(after);
            return Ok(false);
        }
        match result {
            Ok(()) => {
                self.acknowledged(after, true);
                Ok(true)
            }
            Err(EngineError::SnapshotTooOld) => {
                let began = self.machine.crowd.enter();
                let done = self.machine.excused_read(what, began, &EngineError::SnapshotTooOld);
                self.machine.crowd.leave();
                done.map(|()| false)
            }
            Err(e) => self.failed(what, &e, Expected::Done(after)).map(|()| false),
        }
    }
}
