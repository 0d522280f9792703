//! Group commit: one leader writes the records of all staged actions to the log, syncs once, and installs them in order.
//!
//! ```text
//!   wait for a slot ─┬─ no leader: lead ─► [take all staged] ─► log group ─► sync ─► [install all] ─► wake the others
//!                    └─ a leader: wait; what is staged meanwhile is the next group    │
//!                                            all of the group unforced: no sync ──────┘   flush ─► one sync for all so far
//! ```
//!
//! Invariants: an action is installed only once its record is durable, or in the log if all of its group are unforced: then
//! what it frees is not used again before a later group proves it durable (`Sequencer::proven_lsn`); a group that fails for
//! want of space takes all that is staged along and changes nothing; after a failed sync, or a dead log, the drive is
//! read-only.
//!
//! Source: ELEOS §IV-C (forced commit records); group commit as in the design.

use std::sync::Arc;

use lode_command::CommandError;

use crate::FirmwareError;
use crate::commit::{Action, Installed, Slot};
use crate::core::{Core, Counts, Sequencer};
use crate::planted::{self, Planted};
use crate::record::Record;

/// Whoever has it leads. A leader that panics leaves nobody knows what in the log: then nothing is written any more, and those
/// that wait go on.
struct Leads<'a>(&'a Core);

impl Drop for Leads<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.read_only.set("a thread panicked while it wrote the log".into());
        }
        *self.0.leading.lock() = false;
        self.0.led.notify_all();
    }
}

impl Core {
    /// Makes a staged action durable, with all that was staged before it; answers what it came to.
    pub(crate) fn finish(&self, slot: &Slot) -> Result<Installed, CommandError> {
        loop {
            let mut leading = self.leading.lock();
            loop {
                if let Some(r) = slot.take() {
                    return r;
                }
                if !*leading {
                    break;
                }
                self.led.wait(&mut leading);
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
            // Whoever led before panicked, and took the action along.
            self.check_writable()?;
        }
    }

    /// Writes one group with all that is staged.
    fn lead(&self) {
        let mut log = self.log.lock();
        let (changes, actions, pending_max) = {
            let mut w = self.seq.lock();
            w.staged_bytes = 0;
            let changes = w.space.take_changes();
            (changes, std::mem::take(&mut w.staged), self.pending_max(w.recovering))
        };
        if actions.is_empty() {
            self.seq.lock().space.restore_changes(changes);
            return;
        }
        let _span = tracing::debug_span!("group", actions = actions.len()).entered();
        let allocated = self.extents.read().unlogged();
        let mut group = Vec::new();
        if !planted::is(Planted::OpenedAfterPages) {
            changes.iter().for_each(|r| r.encode(&mut group));
        }
        planted::unless(Planted::AllocationNotLogged, || {
            let record = |&(owner, extent): &_| Record::Allocated { owner, extent };
            allocated.iter().map(record).for_each(|r| r.encode(&mut group));
        });
        actions.iter().for_each(|a| a.record.encode(&mut group));
        if planted::is(Planted::OpenedAfterPages) {
            changes.iter().for_each(|r| r.encode(&mut group));
        }
        let late = planted::is(Planted::LateForce) && self.medium.sync().is_ok()
            || planted::is(Planted::SmallGroupNotForced) && actions.iter().all(|a| a.eblocks.is_empty())
            || planted::is(Planted::MoveNotForced)
                && actions.iter().all(|a| matches!(a.record, Record::Moved { .. }));

        let forced = actions.iter().any(|a| !a.unforced);
        let pends = group.len() <= pending_max;
        let fits = pends && log.pending_bytes() + group.len() <= pending_max;
        let programs = !changes.is_empty() || actions.iter().any(|a| !a.eblocks.is_empty());
        // One that failed to become durable may have left the log's end in doubt: nothing comes behind it.
        let behind = self.check_writable().and_then(|()| match fits {
            true => self.seal(&mut log),
            false => self.write_pending(&mut log),
        });
        let before = log.position();
        // The buffer is believed in all that it holds.
        let proven = if pends { before.lsn } else { log.durable() };
        let last = behind.and_then(|()| match pends {
            true => self.pend(&mut log, &group, programs),
            false => self.append_group(&mut log, &group),
        });
        let last = match last {
            Ok(last) => last,
            Err(e) => {
                let changes_first = |w: &mut Sequencer| w.space.restore_changes(changes);
                return self.abort(actions, e, changes_first);
            }
        };
        if !pends {
            if forced {
                if !late && let Err(e) = self.medium.sync() {
                    return self.abort(actions, e.into(), |_| {});
                }
                log.synced();
            }
            Counts::add(&self.counts.groups, 1);
        }
        Counts::add(&self.counts.actions, actions.len() as u64);
        let mut w = self.seq.lock();
        w.installed_lsn = last;
        // The page that says so must be durable itself.
        if forced || pends {
            w.proven_lsn = w.proven_lsn.max(proven);
        } else if planted::is(Planted::UnforcedProves) {
            w.proven_lsn = last;
        }
        // Not where another action shares the group.
        if actions.iter().all(|a| matches!(a.record, Record::Checkpointed { .. })) {
            w.empty_lsn = last;
        }
        w.log_position = log.position();
        w.log_bytes += (log.position().lsn - before.lsn) * log.page_bytes(self.geometry());
        self.extents.write().logged(allocated.len());
        for a in actions {
            let installed = self.install(&mut w, &a);
            self.over(&mut w, &a, Ok(installed));
        }
    }

    /// Makes everything durable that is in the log. Whoever comes while the medium is synced shares the next sync.
    pub(crate) fn flush_log(&self) -> Result<(), FirmwareError> {
        let asked = self.log.lock().last();
        let _syncing = self.syncing.lock();
        self.check_writable()?;
        let last = {
            let log = self.log.lock();
            if log.durable() >= asked {
                return Ok(());
            }
            log.last()
        };
        if planted::is(Planted::FlushLies) {
            return Ok(());
        }
        self.sync_log()?;
        self.log.lock().synced_to(last);
        Ok(())
    }

    /// Syncs the medium. A sync that fails, for want of space too, leaves open what is durable: it is never tried again.
    pub(crate) fn sync_log(&self) -> Result<(), FirmwareError> {
        self.medium.sync().map_err(|e| {
            let e = FirmwareError::from(e);
            self.fatal(&e);
            self.log_failed(e)
        })
    }

    /// An action is over, and its pages and EBLOCKs are free of it.
    fn over(&self, w: &mut Sequencer, a: &Action, r: Result<Installed, CommandError>) {
        a.eblocks.iter().for_each(|&e| w.space.leave(e));
        self.unpin(&a.pins);
        w.under_way -= 1;
        a.slot.set(r);
    }

    /// What to answer once the log could not be written: without space it may be later, else never again.
    pub(crate) fn log_failed(&self, e: FirmwareError) -> FirmwareError {
        if !e.is_no_space() {
            self.fatal(&e);
        }
        self.check_writable().err().unwrap_or(e)
    }

    /// Fails these actions and all that were staged after them.
    pub(crate) fn abort(&self, actions: Vec<Action>, e: FirmwareError, undo: impl FnOnce(&mut Sequencer)) {
        let why = CommandError::from(self.log_failed(e));
        let mut w = self.seq.lock();
        undo(&mut w);
        let staged = std::mem::take(&mut w.staged);
        w.staged_bytes = 0;
        w.staged_commit = w.commit;
        planted::unless(Planted::AbortKeepsRules, || w.staged_rules = self.rules.read().clone());
        if !planted::is(Planted::SessionNotUnstaged) {
            w.sessions.unstage();
        }
        if !planted::is(Planted::AbortKeepsOverlay) {
            w.overlay.clear();
        }
        let failed: Result<Installed, _> = Err(why);
        let behind = planted::instead(
            Planted::StagedBehindAcknowledged,
            || failed.clone(),
            || Ok(Installed::default()),
        );
        let first = actions.into_iter().map(|a| (a, &failed));
        for (a, ended) in first.chain(staged.into_iter().map(|a| (a, &behind))) {
            match &a.record {
                Record::SessionOpened { session } => w.sessions.opened(*session, false),
                Record::Commit(c) => self.inlined.give_up(c.inlined.iter()),
                _ => {}
            }
            self.over(&mut w, &a, ended.clone());
        }
    }

    /// Writes a group that changes nothing: what EBLOCKs have to tell goes with it, and it says up to where the log before it
    /// was durable.
    pub(crate) fn log_nothing(
        &self,
        mut w: parking_lot::MutexGuard<'_, Sequencer>,
    ) -> Result<(), FirmwareError> {
        w.under_way += 1;
        let record = Record::Checkpointed { lsn: w.installed_lsn };
        let action = Action { record, ..Action::default() };
        self.carry_out(w, action).map(drop).map_err(FirmwareError::Refused)
    }

    /// Stages an action that nobody else waits for, and makes it durable.
    pub(crate) fn carry_out(
        &self,
        mut w: parking_lot::MutexGuard<'_, Sequencer>,
        a: Action,
    ) -> Result<Installed, CommandError> {
        let slot: Arc<Slot> = w.stage(a);
        drop(w);
        self.finish(&slot)
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
    use crate::entry::Entry;

    fn core() -> Core {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap();
        crate::recovery::format(Medium::memory(g), DriveOptions::default()).unwrap()
    }

    /// A record that says nothing.
    fn nothing(core: &Core) -> Action {
        let mut w = core.seq.lock();
        w.under_way += 1;
        Action { record: Record::Checkpointed { lsn: w.installed_lsn }, ..Action::default() }
    }

    /// Whoever waited for a leader that panicked waited for ever, and so did all who came later.
    #[test]
    fn a_leader_that_panics_leaves_a_drive_that_is_read_only_and_nobody_who_waits() {
        let core = core();
        let behind = nothing(&core);
        let lpid = ExtentId::new(3).unwrap().page(1);
        // Its extent is not pinned, so that it can not be installed.
        let moved = Record::Moved { pages: vec![(lpid, Entry::inlined(1, 100, false))], freed: Vec::new() };
        let panics = Action { record: moved, ..nothing(&core) };
        let (panics, behind) = {
            let mut w = core.seq.lock();
            (w.stage(panics), w.stage(behind))
        };
        assert!(catch_unwind(AssertUnwindSafe(|| core.finish(&panics))).is_err());
        let lost = core.finish(&behind).map(drop).unwrap_err();
        assert!(matches!(lost, CommandError::ReadOnly(_)), "{lost}");
        let late = nothing(&core);
        let late = core.seq.lock().stage(late);
        assert!(matches!(core.finish(&late), Err(CommandError::ReadOnly(_))));
    }

    fn full() -> FirmwareError {
        FirmwareError::Full { path: "<memory>".into(), what: "a test" }
    }

    /// Fails all that is staged, as a group that finds no space does.
    fn fail_group(core: &Core) {
        let actions = std::mem::take(&mut core.seq.lock().staged);
        core.abort(actions, full(), |_| {});
    }

    /// An abort that kept staged rules was found by no test: later pages were held against a rule that nobody has.
    #[test]
    fn rules_of_a_group_that_failed_are_no_rules() {
        let core = core();
        let owner = OwnerId::new(5);
        let Ok(Reply::Extents(extents)) = core.run(Command::AllocateExtents { owner, count: 1 }) else {
            panic!()
        };
        let columns = vec![ColumnType { data_type: DataType::BigInt, nullable: false }];
        let rule = IndexRule::new(Schema { version: 1, columns }, vec![0]).unwrap();
        let rules = Batch { index_rules: vec![(owner, Some(rule))], ..Batch::default() };
        let begun = core.begin(rules.clone()).unwrap();
        fail_group(&core);
        assert!(core.end(begun).is_err());
        core.check_invariants();
        // Not a page of that rule.
        let data = PageBuf::copy_from(&[1; 100]);
        let writes = vec![PageWrite { lpid: extents[0].page(1), data, align: Align::Cell }];
        let plain = Batch { writes, ..Batch::default() };
        core.write(plain.clone()).unwrap();
        core.write(rules).unwrap();
        assert!(matches!(core.write(plain), Err(CommandError::BadPage { .. })));
    }

    /// Actions that were staged while a group failed were answered as if they were durable, and no test found it.
    #[test]
    fn what_was_staged_behind_a_group_that_failed_fails_too() {
        let core = core();
        let actions: Vec<_> = [nothing(&core), nothing(&core), nothing(&core)].into();
        let mut slots = Vec::new();
        let mut group = Vec::new();
        for (n, a) in actions.into_iter().enumerate() {
            let mut w = core.seq.lock();
            slots.push(w.stage(a));
            if n == 0 {
                group = std::mem::take(&mut w.staged);
            }
        }
        core.abort(group, full(), |_| {});
        for slot in slots {
            let outcome = slot.take().expect("it is over");
            assert!(
                matches!(outcome, Err(CommandError::MediumFull(_))),
                "it was answered as if it were durable"
            );
        }
        core.check_invariants();
        // The next group goes on.
        let late = nothing(&core);
        let late = core.seq.lock().stage(late);
        core.finish(&late).unwrap();
    }
}
