//! The numbers of a queue's batches in its session.
//!
//! ```text
//!   None ─► opening ─► open: take 1, 2, 3, ...     a number failed: none is taken before all are answered,
//!     ▲                  │                         then they go on behind the last that was applied
//!     └── a number could mean two things
//! ```
//!
//! Batches get a number when they are sent. Where one fails, those sent behind it are refused by the drive, which takes numbers in
//! order: they wait until all are answered, and are sent again with numbers of their own, in their order. A batch that may be
//! there although it failed takes the session with it.
//!
//! Invariant: a number stands for one batch, until the drive said that it was not applied.

use std::collections::BTreeSet;

use lode_base::SessionId;
use lode_command::{CommandError, Reply, SessionWrite};

/// The session that batches are numbered in.
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

/// What a batch may do that wants a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbered {
    /// Have this one.
    As(SessionWrite),
    /// Wait for answers to others.
    Wait,
    /// Have none before a session is open, which is asked for now.
    OpenSession,
}

/// What follows from the answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// It was refused for the sake of one before it, and is sent again: it has no answer yet.
    pub(super) again: bool,
    /// Those that are sent again now, in order, before all others.
    pub(super) resent: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Numbering {
    session: Session,
    /// Numbers under way.
    under_way: BTreeSet<u64>,
    /// A number failed: no further one is given before all are answered.
    drains: bool,
    /// And then the session is another.
    abandons: bool,
    /// Batches that were refused for the sake of one before them.
    again: BTreeSet<u64>,
}

impl Numbering {
    /// The next number, if there is one to be had.
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

    /// The session that was asked for is there, or is not.
    pub(super) fn opened(&mut self, id: Option<SessionId>) {
        self.session = id.map_or(Session::None, |id| Session::Open { id, applied: 0, next: 1 });
    }

    /// The session, if one is open.
    pub(super) fn session(&self) -> Option<SessionId> {
        match self.session {
            Session::Open { id, .. } => Some(id),
            Session::None | Session::Opening => None,
        }
    }

    /// Batch `tag`, which had this number, was answered.
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

    /// Once no number is under way any more, numbers go on behind the last that was applied.
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

    /// The drive was opened anew: nothing is under way. The session is asked how far it is, if there is one.
    pub(super) fn start_over(&mut self) {
        let keeps = !self.abandons && self.session != Session::Opening;
        let session = if keeps { self.session } else { Session::None };
        *self = Self { session, ..Self::default() };
    }

    /// How far the session is, now that it was asked; `None` when it is not open any more.
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
        assert_eq!(number(&mut n), 2, "the number of the one that was not applied");
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
        assert_eq!(n.take(), Numbered::OpenSession, "nobody answers what was asked before");
    }
}
