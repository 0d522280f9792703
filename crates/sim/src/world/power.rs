//! Power cuts and closing, and the checks after the drive is opened again.

use std::rc::Rc;

use lode_command::CommandError;
use lode_firmware::{Drive, FirmwareError, RecoveryReport, Unrecovered};
use lode_flash::FaultKind;

use super::{Done, READS, TRANSIENT, World};
use crate::failure::{FailureKind, wrong};
use crate::random::nth;
use crate::step::Cut;

impl World<'_> {
    /// Cuts the power, if it is not cut already, and reopens. `cut` may cut the power again during recoveries.
    pub(super) fn reopen(&mut self, cut: &Cut) -> Done {
        if !self.faults.is_cut() {
            self.faults.cut();
        }
        self.coverage.met("reopened");
        self.count();
        let worn = std::mem::take(&mut self.worn);
        for i in 0.. {
            let fault = cut.fault.filter(|_| i == 0);
            match self.open(nth(cut.seed, i as u64), cut.again.get(i).copied(), fault) {
                Ok(Some(drive)) => {
                    self.recovered(drive)?;
                    return self.is_worn(worn);
                }
                Ok(None) => self.coverage.met("recoveries cut"),
                Err(e) => {
                    self.harm.look(&self.faults);
                    let host = [FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError];
                    if fault.is_some()
                        && self.harm.struck(&host)
                        && !matches!(e, FirmwareError::Damaged { .. })
                    {
                        // The next try opens the drive without the host's fault.
                        self.coverage.met("recoveries that the host failed");
                        continue;
                    }
                    // After an orderly close, either slot of the superblock is enough.
                    let whole = self.closed_whole && !self.harm.hit_data();
                    if whole || !self.harm.excuses_refusal(&e) {
                        return wrong(FailureKind::NotOpened, e.to_string());
                    }
                    self.coverage.met("image that faults hit, refused");
                    self.over = true;
                    return Ok(());
                }
            }
        }
        unreachable!("the number of cuts is finite")
    }

    /// Checks that erase counts survive, except for erasures that no log page recorded. While the host fails, any
    /// number of erasures may be unrecorded. Otherwise at most two may be, if the log freed an EBLOCK that was used
    /// again before the next group.
    fn is_worn(&self, before: u32) -> Done {
        let now = self.drive.info().erase_counts.1;
        let host =
            self.harm.struck_ever(&[FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError]) > 0;
        if now + 2 < before && !self.harm.hit_any() && !host && !self.over {
            let what = format!("an EBLOCK was erased {before} times, and the greatest erase count is {now}");
            return wrong(FailureKind::Lost, what);
        }
        Ok(())
    }

    /// Tries to open. Returns `None` if the power was cut meanwhile.
    fn open(
        &mut self,
        seed: u64,
        cut_after: Option<u64>,
        fault: Option<(FaultKind, u64, u64)>,
    ) -> Result<Option<Drive>, FirmwareError> {
        self.harm.look(&self.faults);
        let (medium, faults) = self.faults.restored(seed)?;
        self.harm.reopened();
        self.faults = faults;
        if let Some((kind, seed)) = self.due_flip.take() {
            match kind {
                FaultKind::FlipCheckpoint => drop(self.faults.lose_checkpoint(seed)),
                _ => drop(self.faults.flip(kind, seed)),
            }
        }
        if let Some((kind, after, seed)) = fault {
            self.faults.arm(kind, after, seed);
        }
        if let Some(operations) = cut_after {
            self.faults.cut_after(operations);
        }
        let drive = Unrecovered::new(medium, self.scenario.options.clone()).recover();
        if self.faults.is_cut() {
            return Ok(None);
        }
        // Faults that were meant for the recovery must not strike later.
        self.faults.disarm_all();
        drive.map(Some)
    }

    /// Checks that all acknowledged batches survived, that those under way survived whole or not at all, and that all
    /// contents are right.
    fn recovered(&mut self, drive: Drive) -> Done {
        self.device = (self.lens)(drive.clone());
        self.drive = drive;
        self.registered = Default::default();
        self.read_only = None;
        self.retired = 0;
        self.harm.look(&self.faults);
        let recovery = self.drive.info().recovery;
        self.find_state(recovery)
    }

    /// Finds the state of the drive among the possible ones.
    fn find_state(&mut self, recovery: RecoveryReport) -> Done {
        let commit = self.drive.info().commit.raw();
        for kind in recovery.last_kinds() {
            self.coverage.met(kind);
        }
        let (before, pending) = (self.oracle.now.commit, self.oracle.pending.len());
        let unforced = self.oracle.unforced.len() as u64;
        let states = self.oracle.settle(commit);
        // A hit at the end of the log, or in the data of the last batches, makes these batches look as if they were
        // never finished.
        if states.is_empty() && self.harm.hit_data() && self.oracle.loses_tail(commit) {
            self.coverage.met("last batches that a fault hit, gone");
            return self.is_there(true);
        }
        let mut first = None;
        for (applied, state) in states {
            self.oracle.now = state;
            match self.is_there(false) {
                Ok(()) => {
                    match applied {
                        _ if pending == 0 => {}
                        0 => self.coverage.met("cut with batches under way, none there"),
                        n if n < pending => self.coverage.met("cut with batches under way, some there"),
                        _ => self.coverage.met("cut with batches under way, all there"),
                    }
                    match before.saturating_sub(commit) {
                        _ if unforced == 0 => {}
                        0 => self.coverage.met("cut with unforced batches, none lost"),
                        n if n < unforced => self.coverage.met("cut with unforced batches, some lost"),
                        _ => self.coverage.met("cut with unforced batches, all lost"),
                    }
                    return Ok(());
                }
                Err(wrong) => first = first.or(Some(wrong)),
            }
        }
        match first {
            Some(wrong) => Err(wrong),
            None if commit < before => {
                let what = match unforced {
                    0 => format!("the newest commit is {commit}; {before} was acknowledged"),
                    n => format!("the newest commit is {commit}; {before} was acknowledged, {n} unforced"),
                };
                wrong(FailureKind::Lost, what)
            }
            None => {
                let what =
                    format!("the newest commit is {commit}; {before} and {pending} more were submitted");
                wrong(FailureKind::NotAtomic, what)
            }
        }
    }

    /// Checks that the drive holds the expected state and nothing else.
    fn is_there(&mut self, lost_tail: bool) -> Done {
        self.oracle.found();
        let indexed = std::mem::take(&mut self.oracle.indexed_last);
        if self.harm.hit_data() {
            let now = Rc::make_mut(&mut self.oracle.now);
            for lpid in &indexed {
                if let Some(page) = now.pages.get_mut(lpid) {
                    page.indexed_by = None;
                }
            }
        }
        if let Some(why) = self.drive.info().read_only {
            self.excused("opening it", &CommandError::ReadOnly(why))?;
            // The drive stays read-only.
            self.over = true;
        }
        self.forget_extents()?;
        self.sessions_are_there(lost_tail)?;
        self.compare_all()?;
        self.checks_itself()
    }

    /// Adds the drive's counts since it was opened to the coverage.
    pub(super) fn count(&mut self) {
        let info = self.drive.info();
        self.coverage.met_times("EBLOCKs emptied by GC", info.gc_victims);
        self.coverage.met_times("checkpoints", info.checkpoints);
    }

    /// Closes the drive in order and opens it again.
    pub(super) fn close(&mut self, cut: &Cut) -> Done {
        let closed = self.drive.clone().close();
        let flips = self.due_flip.map(|(kind, _)| kind);
        self.closed_whole =
            closed.is_ok() && !self.faults.is_cut() && flips == Some(FaultKind::FlipCheckpoint);
        if let Err(e) = closed
            && !self.faults.is_cut()
        {
            self.excused("closing it", &e.into())?;
        } else if !self.faults.is_cut() {
            self.oracle.forced();
        }
        let retired = self.drive.info().eblocks_retired;
        self.reopen(cut)?;
        let info = self.drive.info();
        if info.recovery.clean && info.eblocks_retired < retired {
            let got = info.eblocks_retired;
            return wrong(
                FailureKind::Lost,
                format!("{got} EBLOCKs are retired; {retired} were when it was closed"),
            );
        }
        Ok(())
    }

    /// Closes the drive in order, changes a bit or loses one of the two checkpoint records, and opens the drive
    /// again.
    pub(super) fn close_damaged(&mut self, kind: FaultKind, seed: u64, cut: &Cut) -> Done {
        self.due_flip = Some((kind, seed));
        let closed = self.close(cut);
        (self.due_flip, self.closed_whole) = (None, false);
        closed
    }

    /// Checks that a read-only drive still answers reads.
    pub(super) fn reads_go_on(&mut self) -> Done {
        self.drive.check_invariants();
        self.compare_all()
    }

    /// Runs the drive's own check.
    pub(super) fn checks_itself(&mut self) -> Done {
        if self.faults.is_cut() {
            return Ok(());
        }
        let report = self.drive.check();
        self.harm.look(&self.faults);
        // Data whose reads all fail counts as damaged.
        if self.faults.is_cut() || self.harm.hit_any() || self.harm.times_now(&TRANSIENT) >= READS {
            return Ok(());
        }
        // The next checkpoint replaces a record that the host wrote only in part.
        let host =
            self.harm.struck_ever(&[FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError]) > 0;
        let torn = |p: &str| host && p.starts_with("checkpoint slot");
        let problems = report.problems.iter().filter(|p| !torn(p));
        match problems.clone().next() {
            Some(first) => wrong(FailureKind::Check, format!("{} problems: {first}", problems.count())),
            None => Ok(()),
        }
    }
}
