//! What has an order: the staged actions, and all that actions change beside pages. The commit lock guards it.
//!
//! Whoever holds the lock sees all of it as of one moment, between two installations. It is held for short: never while
//! pages are read or programmed, nor while the medium is synced.

use std::sync::Arc;

use lode_base::{ExtentId, Lpid, SessionId};
use lode_command::{CommandError, SessionWrite};

use super::action::{Action, Slot};
use super::progress::LogProgress;
use super::staged::Staged;
use crate::FirmwareError;
use crate::entry::Entry;
use crate::env::Env;
use crate::log::{LogPosition, LogWriter};
use crate::own::Tables;
use crate::pages::{MapPage, Pages, Rules};
use crate::planted::{self, Planted, at};
use crate::session::Sessions;
use crate::space::{Budget, Eblocks, LogUse, log_bytes_max, spare_eblocks};

/// What the commit lock guards.
pub(crate) struct CommitState {
    pub(super) eblocks: Eblocks,
    pub(super) sessions: Sessions,
    pub(super) tables: Tables,
    pub(super) staged: Staged,
    pub(super) log: LogProgress,
    /// Whether the drive is not yet in use.
    pub(super) recovering: bool,
}

impl CommitState {
    /// The state of a drive of which nothing is known; its log goes on at `position`.
    pub(super) fn new(env: &Env, position: LogPosition) -> Self {
        Self {
            eblocks: Eblocks::new(env.geometry()),
            sessions: Sessions::default(),
            tables: Tables::default(),
            staged: Staged::default(),
            log: LogProgress::new(position),
            recovering: true,
        }
    }

    #[inline]
    pub(crate) fn eblocks(&self) -> &Eblocks {
        &self.eblocks
    }

    #[inline]
    pub(crate) fn eblocks_mut(&mut self) -> &mut Eblocks {
        &mut self.eblocks
    }

    #[inline]
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    #[inline]
    pub(crate) fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// Where the pieces of the tables lie.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// The newest installed commit.
    #[inline]
    pub(crate) fn commit(&self) -> u64 {
        self.staged.commit
    }

    /// The newest staged commit.
    #[inline]
    pub(crate) fn staged_commit(&self) -> u64 {
        self.staged.staged_commit
    }

    /// The index rules once all that is staged is installed.
    #[inline]
    pub(crate) fn staged_rules(&self) -> &Arc<Rules> {
        &self.staged.rules
    }

    /// Whether the drive is not yet in use.
    #[inline]
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovering
    }
}

/// Staging.
impl CommitState {
    /// An action is begun: it is under way until it is staged and over, or given up.
    #[inline]
    pub(crate) fn begin_action(&mut self) {
        self.staged.under_way += 1;
    }

    /// A begun action is given up before it was staged.
    pub(crate) fn give_up_action(&mut self) {
        self.staged.under_way -= 1;
    }

    /// Puts a begun action behind all others. Whoever staged it asks its slot what it came to.
    #[inline]
    pub(crate) fn stage(&mut self, action: Action) -> Arc<Slot> {
        self.staged.push(action)
    }

    /// Commit `number` is about to be staged: it leaves these index rules, and is the next of its session.
    #[inline]
    pub(crate) fn stage_commit(&mut self, number: u64, rules: Arc<Rules>, session: Option<SessionWrite>) {
        self.staged.staged_commit = number;
        self.staged.rules = rules;
        if let Some(s) = session {
            at!(SessionNotChecked => (), at!(SessionNotStaged => (), self.sessions.stage(s)));
        }
    }

    /// The entry of a page once all that is staged is installed.
    #[inline]
    pub(crate) fn staged_entry(&self, lpid: Lpid, map: &MapPage) -> Option<Entry> {
        self.staged.overlay.entry(lpid, map)
    }

    /// The action that is about to be staged gives a page this entry.
    #[inline]
    pub(crate) fn stage_entry(&mut self, lpid: Lpid, entry: Option<Entry>) {
        self.staged.overlay.set(lpid, entry);
    }

    /// The action that is about to be staged releases an extent.
    pub(crate) fn stage_release(&mut self, extent: ExtentId) {
        self.staged.overlay.release(extent);
    }

    /// Whether a staged action releases an extent.
    #[inline]
    pub(crate) fn is_released(&self, extent: ExtentId) -> bool {
        self.staged.overlay.is_released(extent)
    }

    /// The action that is about to be staged closes a session.
    pub(crate) fn stage_close(&mut self, session: SessionId) {
        self.staged.overlay.close(session);
    }

    /// Refuses a session that a staged action closes.
    pub(crate) fn check_not_closing(&self, session: SessionId) -> Result<(), CommandError> {
        match self.staged.overlay.is_closing(session) {
            true => Err(CommandError::NoSuchSession(session)),
            false => Ok(()),
        }
    }
}

/// The log, and space.
impl CommitState {
    /// Where the next log page goes.
    pub(crate) fn log_position(&self) -> LogPosition {
        self.log.position()
    }

    /// Bytes of log since the newest checkpoint.
    #[inline]
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// The last log page of what is installed.
    pub(crate) fn installed_lsn(&self) -> u64 {
        self.log.installed()
    }

    /// Bytes of the records that are staged, about.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.staged.bytes
    }

    /// The LSN as of which a page of the drive's own is taken now: all later records get higher ones.
    pub(crate) fn as_of(&mut self) -> u64 {
        self.log.as_of()
    }

    /// A checkpoint is durable that was written when the log had `bytes` bytes, and says that page `lsn` is durable.
    pub(crate) fn log_truncated(&mut self, lsn: u64, bytes: u64) {
        self.log.truncated(lsn, bytes);
    }

    /// What space is computed from.
    #[inline]
    pub(crate) fn budget<'a>(&'a self, env: &'a Env, pages: &Pages) -> Budget<'a> {
        Budget {
            options: env.options(),
            eblocks: &self.eblocks,
            log: LogUse { bytes: self.log.bytes(), wblock: self.log.position().candidates[0].wblock },
            mapping_bytes: pages.media_bytes(),
            owners_bytes: pages.extents().media_bytes(),
            homes_bytes: 0,
            inlined_bytes: pages.inlined().bytes(),
            inlines: pages.inlined().is_enabled(),
            recovering: self.recovering,
        }
    }

    /// Whether the log takes one more record of about so many bytes before a checkpoint is due.
    #[inline]
    pub(crate) fn log_fits(&self, env: &Env, record_bytes: usize) -> bool {
        let changes = self.eblocks.changes_count() as u64 * 48;
        let bytes = record_bytes as u64 + self.staged.bytes + changes;
        let (o, g) = (env.options(), env.geometry());
        let group = LogWriter::group_bytes(g, o.log_copies, bytes as usize);
        self.log.bytes() + group <= log_bytes_max(o, g)
    }

    /// Makes the drive read-only when more EBLOCKs failed than there are spares.
    #[inline]
    pub(crate) fn check_spares(&self, env: &Env) {
        let (retired, spares) = (self.eblocks.retired(), spare_eblocks(env.options(), env.geometry()));
        if retired > spares {
            planted::unless(Planted::SparesIgnored, || {
                env.fatal(&FirmwareError::NoSpares { retired, spares })
            });
        }
    }
}

/// Recovery.
impl CommitState {
    /// Sets what the checkpoint says: where the tables lie, and the newest commit.
    pub(crate) fn restore(&mut self, tables: Tables, commit: u64) {
        self.tables = tables;
        self.staged.commit = commit;
    }

    /// Sets the session table as it was written.
    pub(crate) fn restore_sessions(&mut self, sessions: Sessions) {
        self.sessions = sessions;
    }

    /// Replays a commit.
    ///
    /// # Errors
    /// The newest commit, when this is not the one after it.
    pub(crate) fn replay_commit(&mut self, number: u64) -> Result<(), u64> {
        if number != self.staged.commit + 1 {
            return Err(self.staged.commit);
        }
        self.staged.commit = number;
        Ok(())
    }

    /// The log was replayed up to page `lsn`; these rules are in force.
    pub(crate) fn replayed(&mut self, rules: Arc<Rules>, lsn: u64) {
        self.staged.staged_commit = self.staged.commit;
        self.staged.rules = rules;
        self.log.restore(lsn);
    }

    /// The drive is in use from now on.
    pub(crate) fn recovered(&mut self) {
        self.recovering = false;
    }
}

impl CommitState {
    /// What must hold between two commands.
    pub(super) fn check_invariants(&self, env: &Env) {
        let under_way = self.staged.under_way > 0;
        self.eblocks.check_invariants(env.medium());
        self.sessions.check_invariants(under_way);
        let (commit, staged) = (self.staged.commit, self.staged.staged_commit);
        assert!(commit <= staged, "a commit was installed that was not staged");
        if !under_way {
            self.staged.check_at_rest();
            let in_flight = self.eblocks.descriptors().map(|(_, d)| d.in_flight).sum::<u32>();
            assert_eq!(in_flight, 0, "EBLOCKs wait for nobody");
        }
        if env.is_writable() {
            // A drive that found out that its image lied has said so, and takes no writes.
            if let Some(e) = self.eblocks.miscounted() {
                panic!("the summary of {e:?} counts less than is mapped there");
            }
            let enough = self.eblocks.retired() > 0 || self.eblocks.free_eblocks() >= 1;
            assert!(enough, "GC has no EBLOCK left to move pages to");
        }
    }

    /// Whether an action is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.staged.under_way > 0
    }
}
