//! Power cuts, closing, and what must be there when the drive is opened again.

use lode_firmware::{Drive, FirmwareError, Unrecovered};

use super::{Done, World};
use crate::failure::{Kind, wrong};
use crate::random::nth;
use crate::step::Cut;

impl World<'_> {
    /// Power goes, if it is not gone yet, and comes back, more than once where `cut` says so.
    pub(super) fn reopen(&mut self, cut: &Cut) -> Done {
        if !self.faults.is_cut() {
            self.faults.cut();
        }
        self.coverage.crashes += 1;
        for i in 0.. {
            let again = cut.again.get(i);
            match self.open(nth(cut.seed, i as u64), again.copied()) {
                Ok(Some(drive)) => return self.recovered(drive),
                Ok(None) => self.coverage.recoveries_cut += 1,
                Err(e) => {
                    self.harm.look(&self.faults);
                    if !self.harm.excuses_refusal(&e) {
                        return wrong(Kind::NotOpened, e.to_string());
                    }
                    self.coverage.refused_images += 1;
                    self.over = true;
                    return Ok(());
                }
            }
        }
        unreachable!("cuts are finite in number")
    }

    /// One attempt; `None` when power went in the middle of it.
    fn open(&mut self, seed: u64, cut_after: Option<u64>) -> Result<Option<Drive>, FirmwareError> {
        self.harm.look(&self.faults);
        let (medium, faults) = self.faults.restored(seed)?;
        self.harm.reopened();
        self.faults = faults;
        if let Some(operations) = cut_after {
            self.faults.cut_after(operations);
        }
        let drive = Unrecovered::new(medium, self.scenario.options.clone()).recover();
        if self.faults.is_cut() {
            return Ok(None);
        }
        // What was not used up by the recovery strikes nobody else.
        self.faults.cut_after(u64::MAX);
        drive.map(Some)
    }

    /// Every acknowledged batch is there, those under way are there whole or not at all, and all is as it was written.
    fn recovered(&mut self, drive: Drive) -> Done {
        self.device = (self.lens)(drive.clone());
        self.drive = drive;
        self.read_only = None;
        let commit = self.drive.info().commit.raw();
        let (before, pending) = (self.oracle.now.commit, self.oracle.pending.len());
        let states = self.oracle.settle(commit);
        // What hit the end of the log, or the data of the batches there, looks as if they were never finished.
        if states.is_empty() && self.harm.hit_data() && self.oracle.loses_tail(commit) {
            self.coverage.lost_tails += 1;
            return self.is_there();
        }
        let mut first = None;
        for (applied, state) in states {
            self.oracle.now = state;
            match self.is_there() {
                Ok(()) => {
                    self.coverage.settled(applied, pending);
                    return Ok(());
                }
                Err(wrong) => first = first.or(Some(wrong)),
            }
        }
        match first {
            Some(wrong) => Err(wrong),
            None if commit < before => {
                wrong(Kind::Lost, format!("the newest commit is {commit}; {before} was acknowledged"))
            }
            None => {
                let what =
                    format!("the newest commit is {commit}; {before} and {pending} more were submitted");
                wrong(Kind::NotAtomic, what)
            }
        }
    }

    /// All is there, and nothing else.
    fn is_there(&mut self) -> Done {
        self.oracle.tail.clear();
        self.forget_extents()?;
        self.compare_all()?;
        self.checks_itself()
    }

    /// Closes the drive in order, and opens it again.
    pub(super) fn close(&mut self, cut: &Cut) -> Done {
        let closed = self.drive.clone().close();
        if let Err(e) = closed
            && !self.faults.is_cut()
        {
            self.excused("closing it", &e.into())?;
        }
        self.reopen(cut)
    }

    /// A drive that takes no writes answers reads as before.
    pub(super) fn reads_go_on(&mut self) -> Done {
        self.compare_all()
    }

    /// The drive's own check.
    pub(super) fn checks_itself(&mut self) -> Done {
        if self.faults.is_cut() {
            return Ok(());
        }
        let report = self.drive.check();
        match report.problems.first() {
            Some(first) if !self.faults.is_cut() => {
                self.harm.look(&self.faults);
                if self.harm.hit_any() {
                    return Ok(());
                }
                wrong(Kind::Check, format!("{} problems: {first}", report.problems.len()))
            }
            _ => Ok(()),
        }
    }
}
