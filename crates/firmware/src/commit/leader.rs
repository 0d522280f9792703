//! Group commit: one leader writes the records of all staged actions to the log, syncs once, and installs them in order.
//!
//! ```text
//!   wait for a slot ─┬─ no leader: lead ─► [take all staged] ─► log group ─► sync ─► [install all] ─► wake the others
//!                    └─ a leader: wait; what is staged meanwhile is the next group    │
//!                                            all of the group unforced: no sync ──────┘   flush ─► one sync for all so far
//! ```
//!
//! Invariants: an action is installed after its record is durable, in the log or in the power-protected buffer. If all actions
//! of a group are unforced, their records are only in the log, and space that they free is not used again before a later group
//! proves the records durable. If a group fails, all staged actions fail with it. A group that fails for lack of space changes
//! nothing, and the drive continues. After a failed sync, or if no log page can be programmed, the drive is read-only.
//!
//! Source: ELEOS §IV-C (forced commit records).

use std::sync::Arc;

use lode_command::CommandError;
use lode_flash::FlashError;
use parking_lot::MutexGuard;

use super::action::{Action, Installed, Slot};
use super::committer::Committer;
use super::group::StagedGroup;
use super::install::install;
use super::progress::Logged;
use super::state::CommitState;
use crate::FirmwareError;
use crate::env::Count;
use crate::log::LogWriter;
use crate::planted::{self, Planted, at};
use crate::record::Record;

/// The leader holds it. After a leader panics, the contents of the log are unknown: the drive becomes read-only, and waiting
/// threads wake and get an error.
struct Leads<'a>(Committer<'a>);

impl Drop for Leads<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.env().stop("a thread panicked while it wrote the log");
        }
        *self.0.commits.leading.lock() = false;
        self.0.commits.led.notify_all();
    }
}

/// Why a group failed.
enum NotWritten {
    /// It is not in the log.
    NotLogged(FirmwareError),
    /// It is in the log, and its durability is unknown.
    NotDurable(FirmwareError),
}

impl From<FirmwareError> for NotWritten {
    fn from(e: FirmwareError) -> Self {
        Self::NotLogged(e)
    }
}

impl Committer<'_> {
    /// Waits until a staged action is over, and returns its outcome. Leads groups while no other thread does. A forced action
    /// is durable afterwards.
    pub(crate) fn finish(self, slot: &Slot) -> Result<Installed, CommandError> {
        let commits = self.commits;
        loop {
            let mut leading = commits.leading.lock();
            loop {
                if let Some(r) = slot.take() {
                    return r;
                }
                if !*leading {
                    break;
                }
                commits.led.wait(&mut leading);
            }
            *leading = true;
            drop(leading);
            {
                let _leads = Leads(self);
                self.lead();
            }
            if let Some(r) = slot.take() {
                return r;
            }
            // An earlier leader took this action into its group, and then panicked.
            self.env().check_writable()?;
        }
    }

    /// Writes one group with all that is staged.
    fn lead(self) {
        let mut log = self.commits.log.lock();
        let Some((group, pending_max)) = self.next_group() else { return };
        let _span = tracing::debug_span!("group", actions = group.actions.len()).entered();
        match self.write_group(&mut log, &group, pending_max) {
            Ok(logged) => self.install_group(&log, group, logged),
            Err(NotWritten::NotLogged(e)) => {
                let changes = group.changes;
                self.abort(group.actions, e, |state| state.eblocks.restore_changes(changes));
            }
            Err(NotWritten::NotDurable(e)) => self.abort(group.actions, e, |_| {}),
        }
    }

    /// All staged actions, if there are some, and how many bytes may lie in the power-protected buffer.
    fn next_group(self) -> Option<(StagedGroup, usize)> {
        let (actions, changes, pending_max) = {
            let mut state = self.state();
            if state.staged.actions.is_empty() {
                return None;
            }
            (state.staged.take_actions(), state.eblocks.take_changes(), self.pending_max(&state))
        };
        let allocated = self.pages().extents().unlogged();
        Some((StagedGroup::new(actions, changes, &allocated), pending_max))
    }

    /// Writes a group to the power-protected buffer if that then has no more than `pending_max` bytes, else to the log. Makes
    /// it durable if it is forced.
    fn write_group(
        self,
        log: &mut LogWriter,
        group: &StagedGroup,
        pending_max: usize,
    ) -> Result<Logged, NotWritten> {
        at!(LateForce => drop(self.medium().sync()), ());
        let pends = group.bytes.len() <= pending_max;
        let fits = pends && log.pending_bytes() + group.bytes.len() <= pending_max;
        // An earlier failed sync leaves the end of the log unknown, so nothing is appended after it.
        self.env().check_writable()?;
        match fits {
            true => self.seal(log)?,
            false => self.write_pending(log)?,
        }
        let before = log.position().lsn;
        // A group in the buffer is durable at once, so it proves its own page.
        let proves = if pends { before } else { log.durable() };
        let last = match pends {
            true => self.pend(log, group)?,
            false => self.append_group(log, &group.bytes)?,
        };
        let forced = group.is_forced();
        if !pends {
            if forced {
                self.sync_group(group).map_err(|e| NotWritten::NotDurable(e.into()))?;
                log.synced();
            }
            self.env().count(Count::Groups, 1);
        }
        let bytes = (log.position().lsn - before) * log.page_bytes(self.env().geometry());
        // An unforced group is not durable yet, so it proves nothing.
        let proves = (forced || pends).then_some(proves);
        Ok(Logged { last, bytes, proves, empty: group.is_empty() })
    }

    /// Makes a group in the log durable.
    fn sync_group(self, group: &StagedGroup) -> Result<(), FlashError> {
        let left_out = at!(LateForce => true, false)
            || at!(SmallGroupNotForced => !group.names_eblocks(), false)
            || at!(MoveNotForced => group.only_moves(), false);
        if left_out { Ok(()) } else { self.medium().sync() }
    }

    /// Installs the actions of a group in their order.
    fn install_group(self, log: &LogWriter, group: StagedGroup, logged: Logged) {
        self.env().count(Count::Actions, group.actions.len() as u64);
        let mut state = self.state();
        state.log.group_logged(logged, log.position());
        self.pages().extents_mut().logged(group.allocated);
        for a in group.actions {
            let installed = install(self.env(), self.pages(), &mut state, &a);
            self.over(&mut state, &a, Ok(installed));
        }
    }

    /// Ends an action: unpins its pages, ends its uses of EBLOCKs, and sets its outcome.
    fn over(self, state: &mut CommitState, a: &Action, r: Result<Installed, CommandError>) {
        a.eblocks.iter().for_each(|&e| state.eblocks.leave(e));
        self.pages().unpin(&a.pins);
        state.staged.under_way -= 1;
        a.slot.set(r);
    }

    /// The error to return after the log could not be written. Lack of space is temporary; any other error makes the drive
    /// read-only.
    pub(super) fn log_failed(self, e: FirmwareError) -> FirmwareError {
        if !e.is_no_space() {
            self.env().fatal(&e);
        }
        self.env().check_writable().err().unwrap_or(e)
    }

    /// Fails these actions and all that were staged after them; `undo` comes first.
    fn abort(self, actions: Vec<Action>, e: FirmwareError, undo: impl FnOnce(&mut CommitState)) {
        let why = CommandError::from(self.log_failed(e));
        let mut state = self.state();
        undo(&mut state);
        let staged = state.staged.take_actions();
        state.staged.staged_commit = state.staged.commit;
        planted::unless(Planted::AbortKeepsRules, || state.staged.rules = self.pages().rules().get());
        planted::unless(Planted::SessionNotUnstaged, || state.sessions.unstage());
        planted::unless(Planted::AbortKeepsOverlay, || state.staged.overlay.clear());
        let failed: Result<Installed, _> = Err(why);
        let behind = at!(StagedBehindAcknowledged => Ok(Installed::default()), failed.clone());
        let first = actions.into_iter().map(|a| (a, &failed));
        for (a, outcome) in first.chain(staged.into_iter().map(|a| (a, &behind))) {
            match &a.record {
                Record::SessionOpened { session } => state.sessions.opened(*session, false),
                Record::Commit(c) => self.pages().inlined().give_up(c.inlined.iter()),
                _ => {}
            }
            self.over(&mut state, &a, outcome.clone());
        }
    }

    /// Stages an action after `begin_action`, and makes it durable. No other thread waits for it.
    pub(crate) fn carry_out(
        self,
        mut state: MutexGuard<'_, CommitState>,
        a: Action,
    ) -> Result<Installed, CommandError> {
        let slot: Arc<Slot> = state.stage(a);
        drop(state);
        self.finish(&slot)
    }

    /// Writes a group without actions. It carries the waiting records of EBLOCKs, and proves the log pages before it.
    pub(crate) fn log_nothing(self, mut state: MutexGuard<'_, CommitState>) -> Result<(), FirmwareError> {
        state.begin_action();
        let record = Record::Checkpointed { lsn: state.installed_lsn() };
        self.carry_out(state, Action::new(record)).map(drop).map_err(FirmwareError::Refused)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use lode_base::{ExtentId, Geometry, OwnerId, PageBuf};
    use lode_command::{Align, Batch, Command, PageWrite, Reply};
    use lode_flash::Medium;
    use lode_page::{ColumnType, DataType, Schema};
    use lode_program::IndexRule;

    use super::*;
    use crate::DriveOptions;
    use crate::command::run;
    use crate::core::Core;
    use crate::entry::Entry;

    fn core() -> Core {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap();
        crate::recovery::format(Medium::memory(g), DriveOptions::default()).unwrap()
    }

    /// The record of an action that changes nothing.
    fn nothing(core: &Core) -> Action {
        let mut state = core.state();
        state.begin_action();
        Action::new(Record::Checkpointed { lsn: state.installed_lsn() })
    }

    /// Regression: threads that waited for a leader that panicked, and all later ones, waited for ever.
    #[test]
    fn a_leader_that_panics_leaves_a_drive_that_is_read_only_and_nobody_who_waits() {
        let core = core();
        let behind = nothing(&core);
        let lpid = ExtentId::new(3).unwrap().page(1);
        // Its extent is not pinned, so it cannot be installed.
        let moved = Record::Moved { pages: vec![(lpid, Entry::inlined(1, 100, false))], freed: Vec::new() };
        let panics = Action { record: moved, ..nothing(&core) };
        let (panics, behind) = {
            let mut w = core.state();
            (w.stage(panics), w.stage(behind))
        };
        assert!(catch_unwind(AssertUnwindSafe(|| core.committer().finish(&panics))).is_err());
        let lost = core.committer().finish(&behind).map(drop).unwrap_err();
        assert!(matches!(lost, CommandError::ReadOnly(_)), "{lost}");
        let late = nothing(&core);
        let late = core.state().stage(late);
        assert!(matches!(core.committer().finish(&late), Err(CommandError::ReadOnly(_))));
    }

    fn full() -> FirmwareError {
        FirmwareError::Full { path: "<memory>".into(), what: "a test" }
    }

    /// Fails all that is staged, as a group that finds no space does.
    fn fail_group(core: &Core) {
        let actions = core.state().staged.take_actions();
        core.committer().abort(actions, full(), |_| {});
    }

    /// Regression: after an abort, staged index rules applied to later pages.
    #[test]
    fn rules_of_a_group_that_failed_are_no_rules() {
        let core = core();
        let owner = OwnerId::new(5);
        let Ok(Reply::Extents(extents)) = run(&core, Command::AllocateExtents { owner, count: 1 }) else {
            panic!()
        };
        let columns = vec![ColumnType { data_type: DataType::BigInt, nullable: false }];
        let rule = IndexRule::new(Schema { version: 1, columns, absent: Vec::new() }, vec![0]).unwrap();
        let rules = Batch { index_rules: vec![(owner, Some(rule))], ..Batch::default() };
        let begun = core.writer().begin(rules.clone()).unwrap();
        fail_group(&core);
        assert!(core.writer().end(begun).is_err());
        core.committer().check_invariants();
        // Not a page of that rule.
        let data = PageBuf::copy_from(&[1; 100]);
        let writes = vec![PageWrite { lpid: extents[0].page(1), data, align: Align::Cell }];
        let plain = Batch { writes, ..Batch::default() };
        core.writer().write(plain.clone()).unwrap();
        core.writer().write(rules).unwrap();
        assert!(matches!(core.writer().write(plain), Err(CommandError::BadPage { .. })));
    }

    /// Regression: actions that were staged while a group failed were answered as durable.
    #[test]
    fn what_was_staged_behind_a_group_that_failed_fails_too() {
        let core = core();
        let actions: Vec<_> = [nothing(&core), nothing(&core), nothing(&core)].into();
        let mut slots = Vec::new();
        let mut group = Vec::new();
        for (n, a) in actions.into_iter().enumerate() {
            let mut w = core.state();
            slots.push(w.stage(a));
            if n == 0 {
                group = w.staged.take_actions();
            }
        }
        core.committer().abort(group, full(), |_| {});
        for slot in slots {
            let outcome = slot.take().expect("it is over");
            assert!(
                matches!(outcome, Err(CommandError::MediumFull(_))),
                "it was answered as if it were durable"
            );
        }
        core.committer().check_invariants();
        // The next group goes on.
        let late = nothing(&core);
        let late = core.state().stage(late);
        core.committer().finish(&late).unwrap();
    }

    /// Whether two actions are acknowledged: one whose group fails, and one that was staged meanwhile, as by another thread.
    #[cfg(feature = "planted")]
    fn acknowledged(fault: Option<Planted>) -> [bool; 2] {
        let core = core();
        let [first, behind] = [nothing(&core), nothing(&core)];
        let first = core.state().stage(first);
        let group = core.state().staged.take_actions();
        let behind = core.state().stage(behind);
        planted::plant(fault);
        core.committer().abort(group, FirmwareError::ReadOnly("its sync failed".into()), |_| {});
        planted::plant(None);
        [first, behind].map(|slot| slot.take().expect("it is over").is_ok())
    }

    #[cfg(feature = "planted")]
    #[test]
    fn what_is_staged_behind_a_group_that_fails_is_not_acknowledged() {
        assert_eq!(acknowledged(None), [false, false]);
        assert_eq!(acknowledged(Some(Planted::StagedBehindAcknowledged)), [false, true]);
    }
}
