//! Sessions are opened and closed, durably.

use lode_base::SessionId;
use lode_command::{CommandError, Reply};
use parking_lot::MutexGuard;

use super::writer::Writer;
use crate::commit::{Action, CommitState};
use crate::planted::at;
use crate::record::Record;

/// Bytes that the record takes in the log, at most.
const RECORD_BYTES: usize = 64;

impl Writer<'_> {
    /// Opens a session.
    pub(crate) fn open_session(self) -> Result<Reply, CommandError> {
        self.upkeep().log_room(RECORD_BYTES)?;
        let mut state = self.state();
        self.env().check_writable()?;
        let mut salt = u64::from(self.medium().open_epoch()).rotate_left(40);
        for half in self.medium().uuid().as_chunks::<8>().0 {
            salt ^= u64::from_le_bytes(*half);
        }
        let session = state.sessions_mut().draw(salt, self.env().options().sessions_max)?;
        self.carry_out(state, Record::SessionOpened { session })?;
        Ok(Reply::Session { session, highest: 0 })
    }

    /// Closes a session.
    pub(crate) fn close_session(self, session: SessionId) -> Result<Reply, CommandError> {
        self.upkeep().log_room(RECORD_BYTES)?;
        let mut state = self.state();
        self.env().check_writable()?;
        state.sessions().highest(session)?;
        state.check_not_closing(session)?;
        state.stage_close(session);
        self.carry_out(state, Record::SessionClosed { session })?;
        Ok(Reply::Done)
    }

    /// Carries out an action that writes nothing but its record.
    fn carry_out(self, mut state: MutexGuard<'_, CommitState>, record: Record) -> Result<(), CommandError> {
        state.begin_action();
        let action = Action::new(record).unforced(at!(SessionUnforced => true, false));
        self.committer().carry_out(state, action).map(drop)
    }
}
