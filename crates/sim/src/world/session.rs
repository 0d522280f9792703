//! Sessions: opening, resuming, closing, and batches that come in order, twice or too early.

use std::rc::Rc;

use lode_base::SessionId;
use lode_command::{Command, CommandError, Reply};

use super::{Done, World};
use crate::failure::{FailureKind, wrong};
use crate::oracle::Pending;

impl World<'_> {
    pub(super) fn open_session(&mut self) -> Done {
        let open = self.oracle.now.sessions.len() as u32 + self.oracle.unknown_sessions;
        let answer = self.run(Command::OpenSession)?;
        if self.faults.is_cut() {
            // The session may exist. If its id is known, it is resumed after the reopen.
            if let Ok(Reply::Session { session, .. }) = answer {
                self.oracle.doubtful_sessions.push(session);
            }
            self.oracle.sessions_in_doubt += 1;
            return Ok(());
        }
        match answer {
            Ok(Reply::Session { session, highest: 0 }) => {
                self.oracle.forced();
                self.oracle.fresh_sessions.push(session);
                if Rc::make_mut(&mut self.oracle.now).sessions.insert(session, 0).is_some() {
                    return wrong(FailureKind::Answer, format!("{session} is opened twice"));
                }
                match open < self.device.identity().sessions_max {
                    true => Ok(()),
                    false => wrong(FailureKind::Answer, format!("{session} is opened beyond the limit")),
                }
            }
            Err(CommandError::TooManySessions(max)) if open + self.oracle.sessions_in_doubt >= max => Ok(()),
            answer => {
                self.oracle.sessions_in_doubt += 1;
                self.failed("opening a session", answer)
            }
        }
    }

    fn session(&self, which: u64) -> Option<(SessionId, u64)> {
        let open = &self.oracle.now.sessions;
        let at = which % open.len().max(1) as u64;
        open.iter().nth(at as usize).map(|(s, highest)| (*s, *highest))
    }

    pub(super) fn close_session(&mut self, which: u64) -> Done {
        let Some((session, _)) = self.session(which) else { return Ok(()) };
        let answer = self.run(Command::CloseSession(session))?;
        if self.faults.is_cut() {
            self.oracle.doubtful_sessions.push(session);
            return Ok(());
        }
        match answer {
            Ok(Reply::Done) => {
                self.oracle.forced();
                self.oracle.fresh_sessions.push(session);
                Rc::make_mut(&mut self.oracle.now).sessions.remove(&session);
            }
            answer => {
                self.oracle.doubtful_sessions.push(session);
                return self.failed("closing a session", answer);
            }
        }
        match self.run(Command::ResumeSession(session))? {
            Err(CommandError::NoSuchSession(s)) if s == session => Ok(()),
            answer => self.failed("resuming a session that was closed", answer),
        }
    }

    pub(super) fn resume_session(&mut self, which: u64) -> Done {
        let Some((session, highest)) = self.session(which) else { return Ok(()) };
        self.has_session(session, highest)
    }

    fn has_session(&mut self, session: SessionId, highest: u64) -> Done {
        match self.run(Command::ResumeSession(session))? {
            Ok(Reply::Session { session: s, highest: h }) if s == session && h == highest => Ok(()),
            Err(CommandError::NoSuchSession(_)) => wrong(FailureKind::Lost, format!("{session} is not open")),
            Ok(reply) => wrong(
                FailureKind::WrongBytes,
                format!("{session}, of which {highest} were applied: {reply:?}"),
            ),
            answer => self.failed("resuming a session", answer),
        }
    }

    /// After a reopen, checks that opened sessions are open, with the numbers of their batches. Sessions that were
    /// being opened or closed are resumed, to find out whether they are open. With `all`, all sessions are resumed,
    /// because the last writes were lost.
    pub(super) fn sessions_are_there(&mut self, all: bool) -> Done {
        let now = self.oracle.now.clone();
        let mut doubtful = self.oracle.doubtful_sessions.clone();
        if all {
            doubtful.extend(now.sessions.keys());
        }
        // A hit at the end of the log may have lost these sessions.
        if self.harm.hit_data() {
            doubtful.extend(&self.oracle.fresh_sessions);
        }
        for session in doubtful {
            let open = match self.run(Command::ResumeSession(session))? {
                Ok(Reply::Session { highest, .. }) => Some(highest),
                Err(CommandError::NoSuchSession(_)) => None,
                answer => return self.failed("resuming a session", answer),
            };
            let sessions = &mut Rc::make_mut(&mut self.oracle.now).sessions;
            match (open, now.sessions.get(&session)) {
                (None, _) => {
                    sessions.remove(&session);
                }
                (Some(highest), None) => {
                    sessions.insert(session, highest);
                }
                (Some(_), Some(_)) => {}
            }
        }
        for (session, highest) in self.oracle.now.clone().sessions.iter() {
            self.has_session(*session, *highest)?;
        }
        let (got, expected) = (self.drive.info().sessions, self.oracle.now.sessions.len() as u32);
        let o = &mut self.oracle;
        let unknown = got.checked_sub(expected);
        let Some(unknown) = unknown.filter(|u| all || *u <= o.unknown_sessions + o.sessions_in_doubt) else {
            return wrong(FailureKind::NotAtomic, format!("{got} sessions are open instead of {expected}"));
        };
        (o.unknown_sessions, o.sessions_in_doubt) = (unknown, 0);
        o.doubtful_sessions.clear();
        o.fresh_sessions.clear();
        Ok(())
    }

    /// Checks that a batch was rightly refused because its number is not the next of its session.
    pub(super) fn out_of_order(&mut self, session: SessionId, wsn: u64, highest: u64) -> Done {
        let applied = self.oracle.now.sessions.get(&session).copied();
        self.coverage.met("batch of a session out of its order, refused");
        // A failed batch under way may have taken the number.
        let taken = |p: &Pending| p.change.session == Some((session, wsn)) && p.failed;
        match applied {
            Some(_) if self.oracle.pending.iter().any(taken) => Ok(()),
            Some(applied) if wsn != applied + 1 && highest <= applied => Ok(()),
            _ => {
                let what = format!(
                    "write {wsn} of {session} is refused, since {highest} is the last; it is {applied:?}"
                );
                wrong(FailureKind::Answer, what)
            }
        }
    }
}
