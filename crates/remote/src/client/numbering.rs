//! The numbers of a queue's batches in its session.
//!
//! ```text
//!   None ─► opening ─► open: take 1, 2, 3, ...     a batch failed: no number is taken until all are answered,
//!     ▲                  │                         then the numbers continue after the last applied one
//!     └── a failed batch may have been applied
//! ```
//!
//! A batch gets its number when it is sent. The drive applies numbers in order, so if a batch fails, the drive
//! refuses the batches sent after it. The client waits until every batch under way is answered. Then it sends the
//! refused batches again, in the same order, with new numbers. If a failed batch may have been applied despite its
//! error, the client abandons the session.
//!
//! Invariant: a number stands for one batch until the drive has said that it did not apply that batch.

use std::collections::BTreeSet;

use lode_base::SessionId;
use lode_command::{CommandError, Reply, SessionWrite};

/// The session in which batches are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Session {
    #[default]
    None,
    Opening,
    Open {
        id: SessionId,
        applied: u64,
        next: u64,
    },
}

/// What to do with a batch that needs a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbered {
    /// Send it with this number.
    As(SessionWrite),
    /// Wait until other batches are answered.
    Wait,
    /// Open a session first. The caller sends that command now.
    OpenSession,
}

/// What the client does after the answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Whether the batch was refused because an earlier one failed. The client sends it again, so it has no answer yet.
    pub(super) again: bool,
    /// The tags of the batches to send again now, in this order, before all others.
    pub(super) resent: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Numbering {
    session: Session,
    /// The numbers of the batches under way.
    under_way: BTreeSet<u64>,
    /// Whether a batch failed. If so, no number is assigned until every batch under way is answered.
    drains: bool,
    /// Whether a new session is needed once every batch under way is answered.
    abandons: bool,
    /// The tags of the batches that were refused because an earlier one failed.
    again: BTreeSet<u64>,
}

impl Numbering {
    /// Takes the next number, if one can be assigned now.
    pub(super) fn take(&mut self) -> Numbered {
        match &mut self.session {
            Session::None => {
                self.session = Session::Opening;
                Numbered::OpenSession
            }
            Session::Opening => Numbered::Wait,
            Session::Open { .. } if self.drains => Numbered::Wait,
            Session::Open { id, next, .. } => {
                let place = SessionWrite { session: *id, wsn: *next };
                *next += 1;
                self.under_way.insert(place.wsn);
                Numbered::As(place)
            }
        }
    }

    /// Records the answer to opening a session: its id, or `None` if the drive opened none.
    pub(super) fn opened(&mut self, id: Option<SessionId>) {
        self.session = id.map_or(Session::None, |id| Session::Open { id, applied: 0, next: 1 });
    }

    /// The open session, if there is one.
    pub(super) fn session(&self) -> Option<SessionId> {
        match self.session {
            Session::Open { id, .. } => Some(id),
            Session::None | Session::Opening => None,
        }
    }

    /// Records the answer to batch `tag`, which had the number `wsn`.
    pub(super) fn answered(&mut self, tag: u64, wsn: u64, result: &Result<Reply, CommandError>) -> Answered {
        self.under_way.remove(&wsn);
        let again = matches!(result, Err(CommandError::WrongSequence { .. }));
        match result {
            Ok(_) => {
                if let Session::Open { applied, .. } = &mut self.session {
                    *applied = wsn;
                }
            }
            Err(e) => {
                self.drains = true;
                self.abandons |= matches!(
                    e,
                    CommandError::Medium(_)
                        | CommandError::MediumFull(_)
                        | CommandError::ReadOnly(_)
                        | CommandError::NoSuchSession(_)
                );
            }
        }
        if again {
            self.again.insert(tag);
        }
        Answered { again, resent: self.drained() }
    }

    /// If no batch is under way, continues the numbers after the last that was applied, and returns the batches to
    /// send again.
    fn drained(&mut self) -> Vec<u64> {
        if !self.drains || !self.under_way.is_empty() {
            return Vec::new();
        }
        self.drains = false;
        if let Session::Open { applied, next, .. } = &mut self.session {
            *next = *applied + 1;
        }
        if std::mem::take(&mut self.abandons) {
            self.session = Session::None;
        }
        std::mem::take(&mut self.again).into_iter().collect()
    }

    /// Starts over after the drive was opened anew. No batch is under way. The caller then resumes the session, if
    /// there still is one.
    pub(super) fn start_over(&mut self) {
        let keeps = !self.abandons && self.session != Session::Opening;
        let session = if keeps { self.session } else { Session::None };
        *self = Self { session, ..Self::default() };
    }

    /// Records the highest number that the resumed session has applied, or `None` if the session is no longer open.
    pub(super) fn resumed(&mut self, applied: Option<u64>) {
        if let Session::Open { id, .. } = self.session {
            let open = |applied| Session::Open { id, applied, next: applied + 1 };
            self.session = applied.map_or(Session::None, open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Numbering {
        let mut n = Numbering::default();
        assert_eq!((n.take(), n.take()), (Numbered::OpenSession, Numbered::Wait));
        n.opened(Some(SessionId::new(7)));
        n
    }

    fn number(n: &mut Numbering) -> u64 {
        match n.take() {
            Numbered::As(place) => place.wsn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn those_behind_one_that_failed_wait_for_all_and_go_again_in_order() {
        let mut n = open();
        let numbers: Vec<u64> = (0..4).map(|_| number(&mut n)).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        let done = Ok(Reply::Done);
        let full = Err(CommandError::OutOfSpace { free_bytes: 0, needed_bytes: 1 });
        let behind = Err(CommandError::WrongSequence { session: SessionId::new(7), wsn: 3, highest: 1 });
        assert_eq!(n.answered(10, 1, &done), Answered { again: false, resent: vec![] });
        assert_eq!(n.answered(11, 2, &full), Answered { again: false, resent: vec![] });
        assert_eq!(n.take(), Numbered::Wait);
        assert_eq!(n.answered(13, 4, &behind), Answered { again: true, resent: vec![] });
        assert_eq!(n.answered(12, 3, &behind), Answered { again: true, resent: vec![12, 13] });
        assert_eq!(number(&mut n), 2, "the number of the batch that was not applied");
    }

    #[test]
    fn a_batch_that_may_be_there_although_it_failed_takes_the_session_with_it() {
        let mut n = open();
        let wsn = number(&mut n);
        n.answered(1, wsn, &Err(CommandError::ReadOnly("broken".into())));
        assert_eq!((n.session(), n.take()), (None, Numbered::OpenSession));
    }

    #[test]
    fn a_drive_that_was_opened_anew_says_where_numbers_go_on() {
        let mut n = open();
        assert_eq!([number(&mut n), number(&mut n), number(&mut n)], [1, 2, 3]);
        n.start_over();
        n.resumed(Some(2));
        assert_eq!(number(&mut n), 3);
        n.start_over();
        n.resumed(None);
        assert_eq!(n.take(), Numbered::OpenSession);
        n.start_over();
        assert_eq!(n.take(), Numbered::OpenSession, "the request from before the reopening has no answer");
    }
}
