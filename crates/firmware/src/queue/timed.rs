//! A queue of a modelled device: what its commands take, and when each is answered.
//!
//! ```text
//!   host waits ─► all that was submitted, by its time: begin ─ command ─ work ─ bytes up ─ completion ─► ended
//!                 ended, by the time of its end ─► answered: at once, the first, or all up to a time
//!   unit of a task taken ─► the task goes on from then
//! ```
//!
//! Invariants: a command takes the resources of the device from the time at which it was submitted; a task's next unit
//! begins when the last one was taken, and not before.

use lode_base::{Split, ViewId, VirtualTime};
use lode_command::{Batch, Command, CommandError, Completion, Outcome, Reply, ScanCounts, Tag, Until};
use lode_flash::timing::Model;

use super::{DriveQueue, Job, Work};
use crate::compute::ScanRun;

impl DriveQueue {
    pub(super) fn complete_timed(&mut self, at: VirtualTime, until: Until, out: &mut Vec<Completion>) {
        self.carry_out();
        match until {
            Until::Ready => while self.answer(at, |end| end <= at, out) {},
            Until::One => {
                self.answer(at, |_| true, out);
            }
            Until::Before(limit) => {
                while self.answer(at, |end| end < limit, out) {
                    // What was taken may have more to answer before that.
                    self.carry_out();
                }
            }
        }
    }

    /// Answers what ends first, if it ends in time; the task whose unit it is goes on.
    fn answer(
        &mut self,
        at: VirtualTime,
        in_time: impl Fn(VirtualTime) -> bool,
        out: &mut Vec<Completion>,
    ) -> bool {
        let first = self.ended.iter().enumerate().min_by_key(|(_, c)| (c.at, c.tag)).map(|(i, c)| (i, c.at));
        let Some((i, end)) = first.filter(|f| in_time(f.1)) else { return false };
        let answered = self.ended.swap_remove(i);
        if let Some(p) = self.parked.iter().position(|j| j.tag == answered.tag) {
            let job = self.parked.swap_remove(p);
            self.jobs.push_back(Job { at: end.max(at), ..job });
        }
        out.push(answered);
        true
    }

    /// The job that comes first, by its time.
    fn first_job(&self) -> Option<usize> {
        (0..self.jobs.len()).min_by_key(|&i| (self.jobs[i].at, self.jobs[i].tag))
    }

    /// Carries out all that was submitted, by its time.
    fn carry_out(&mut self) {
        let core = self.core.clone();
        let model = core.medium.model().expect("the device is modelled");
        while let Some(Job { tag, at, work }) = self.first_job().and_then(|i| self.jobs.remove(i)) {
            let down_bytes = down_bytes(&work);
            match work {
                Work::Cancelled => {
                    model.begin(at);
                    self.ends(model, tag, Outcome::Done(Err(CommandError::Cancelled)));
                }
                Work::Command(Command::Write(batch)) => self.writes_timed(model, tag, at, batch, down_bytes),
                Work::Command(Command::Scan(task)) => {
                    model.begin(at);
                    let view = task.view;
                    model.command(down_bytes);
                    match self.scan_of(task) {
                        Ok(run) => self.unit_timed(model, tag, run, view, ScanCounts::default()),
                        Err(e) => self.ends(model, tag, Outcome::Done(Err(e))),
                    }
                }
                Work::Scan { run, view, total } => {
                    model.begin(at);
                    self.unit_timed(model, tag, run, view, total);
                }
                Work::Command(c) => {
                    model.begin(at);
                    model.command(down_bytes);
                    let outcome = Outcome::Done(core.run(c));
                    self.ends(model, tag, outcome);
                }
            }
        }
    }

    /// The step under way is all of a command, or of a unit.
    fn ends(&mut self, model: &Model, tag: Tag, outcome: Outcome) {
        let mut c = Completion { tag, at: VirtualTime::ZERO, split: Split::default(), outcome };
        model.wait();
        // Pages went up as they were read.
        model.up(match &c.outcome {
            Outcome::Done(Ok(Reply::Pages(pages))) => {
                c.link_bytes() - pages.iter().map(|p| p.len() as u64).sum::<u64>()
            }
            _ => c.link_bytes(),
        });
        model.complete();
        (c.at, c.split) = model.end();
        self.ended.push(c);
    }

    fn unit_timed(&mut self, model: &Model, tag: Tag, run: ScanRun, view: ViewId, total: ScanCounts) {
        let (outcome, more) = self.unit(run, view, total);
        self.parked.extend(more.map(|work| Job { tag, at: VirtualTime::NEVER, work }));
        self.ends(model, tag, outcome);
    }

    /// A write, and those that were submitted after it and before anything else: under way together.
    fn writes_timed(&mut self, model: &Model, tag: Tag, at: VirtualTime, batch: Batch, down_bytes: u64) {
        let core = self.core.clone();
        let lookup = u64::from(model.profile().cores.lookup_cycles);
        let begin = |at, batch: Batch, down_bytes| {
            model.begin(at);
            model.command(down_bytes);
            model.think(lookup * (batch.writes.len() + batch.trims.len()) as u64);
            let begun = core.begin(batch);
            (begun, model.step())
        };
        let mut under_way = vec![(tag, begin(at, batch, down_bytes))];
        let most = core.identity.in_flight_max as usize;
        while under_way.len() < most {
            let is_write = |i: &usize| matches!(self.jobs[*i].work, Work::Command(Command::Write(_)));
            let Some(i) = self.first_job().filter(is_write) else { break };
            let bytes = self::down_bytes(&self.jobs[i].work);
            if let Some(Job { tag, at, work: Work::Command(Command::Write(batch)) }) = self.jobs.remove(i) {
                under_way.push((tag, begin(at, batch, bytes)));
            }
        }
        // One group takes them all: it is written once the last of them came.
        let together = under_way.iter().map(|w| w.1.1).reduce(|a, b| a.join(b)).expect("there is one");
        model.resume(together);
        let mut outcomes = Vec::with_capacity(under_way.len());
        for (tag, (begun, own)) in under_way {
            outcomes.push((tag, own, begun.and_then(|b| core.end(b))));
        }
        let durable = model.step();
        for (tag, own, outcome) in outcomes {
            model.resume(own.after(durable));
            self.ends(model, tag, Outcome::Done(outcome));
        }
        model.resume(durable);
    }
}

/// Bytes of a command on the link.
fn down_bytes(work: &Work) -> u64 {
    match work {
        Work::Command(c) => c.link_bytes(),
        Work::Scan { .. } | Work::Cancelled => 0,
    }
}
