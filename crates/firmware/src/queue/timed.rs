//! A queue of a modelled device: how long its commands take, and when each is answered.
//!
//! ```text
//!   host waits ─► all that was submitted, by its time: begin ─ command ─ work ─ bytes up ─ completion ─► ended
//!                 ended, by the time of its end ─► answered: at once, the first, or all up to a time
//!   unit of a task taken ─► the task goes on from then
//! ```
//!
//! Invariants: a command takes the resources of the device from the time at which it was submitted, or from the time at which
//! the device began the latest command before it, if that is later. The next unit of a task begins when the last one was
//! taken. Of all queues, one has a step under way. A time is checked before anything begins at it, so that no time that a
//! peer sends overflows.

use std::cmp::Reverse;

use lode_base::{Lpid, Split, VirtualTime};
use lode_command::{Batch, Command, CommandError, Completion, Outcome, Reply, Tag, Until};
use lode_flash::timing::Model;

use super::{DriveQueue, Job, Task, Work};
use crate::command;

/// A read may overtake writes if each names at most so many pages: they are compared one by one.
const PASSED_MAX: usize = 128;

impl DriveQueue {
    pub(super) fn complete_timed(&mut self, at: VirtualTime, until: Until, out: &mut Vec<Completion>) {
        let core = self.core.clone();
        let _stepping = core.begin_step();
        self.carry_out();
        match until {
            Until::Ready => while self.answer(at, |end| end <= at, out) {},
            Until::One => {
                self.answer(at, |_| true, out);
            }
            Until::Before(limit) => {
                while self.answer(at, |end| end < limit, out) {
                    // A task whose unit was taken may have more to answer before that.
                    self.carry_out();
                }
            }
        }
        // Tasks whose units were taken go on, before anyone else submits something at a later time.
        self.carry_out();
    }

    /// Answers the command that ends first, if it ends in time. If that is a unit, its task goes on.
    fn answer(
        &mut self,
        at: VirtualTime,
        in_time: impl Fn(VirtualTime) -> bool,
        out: &mut Vec<Completion>,
    ) -> bool {
        let Some(answered) = self.ended.pop_if(|first| in_time(first.at)) else { return false };
        if let Some(p) = self.parked.iter().position(|j| j.tag == answered.tag) {
            let job = self.parked.swap_remove(p);
            self.jobs.push_back(Job { at: answered.at.max(at), ..job });
        }
        out.push(answered);
        true
    }

    /// Carries out all that was submitted, by its time.
    fn carry_out(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let core = self.core.clone();
        let model = core.env().medium().model().expect("the device is modelled");
        self.check_times(model);
        // Mostly they are in order already.
        self.jobs.make_contiguous().sort_by_key(|j| (j.at, j.tag));
        while let Some(Job { tag, at, work }) = self.jobs.pop_front() {
            let down_bytes = down_bytes(&work);
            match work {
                Work::Cancelled => {
                    model.begin(at);
                    self.ends(model, tag, Outcome::Done(Err(CommandError::Cancelled)));
                }
                Work::Command(Command::Write(batch)) => self.writes_timed(model, tag, at, batch, down_bytes),
                Work::Command(task @ (Command::Scan(_) | Command::ReadIndexed(_))) => {
                    model.arrives(at, down_bytes);
                    match self.begin(task) {
                        Ok(begun) => self.unit_timed(model, tag, begun),
                        Err(e) => self.ends(model, tag, Outcome::Done(Err(e))),
                    }
                }
                Work::Task(task) => {
                    model.begin(at);
                    self.unit_timed(model, tag, task);
                }
                Work::Command(c) => {
                    model.arrives(at, down_bytes);
                    let outcome = Outcome::Done(command::run(&core, c));
                    self.ends(model, tag, outcome);
                }
            }
        }
        self.ended.sort_unstable_by_key(|c| Reverse((c.at, c.tag)));
    }

    /// Lets no job begin before the latest step did, and refuses jobs whose time is out of range. A device whose clock has run
    /// out refuses all.
    fn check_times(&mut self, model: &Model) {
        let (earliest, latest, max) = (model.earliest(), model.latest(), VirtualTime::BEGIN_MAX);
        let ended = &mut self.ended;
        self.jobs.retain_mut(|j| {
            j.at = j.at.max(earliest);
            let at = j.at.max(latest);
            if at <= max {
                return true;
            }
            let outcome = Outcome::Done(Err(CommandError::TimeOutOfRange { at, max }));
            // A refused job takes no time, and moves no clock.
            ended.push(Completion { tag: j.tag, at: earliest, split: Split::default(), outcome });
            false
        });
    }

    /// The step under way ends: it was a command, or a unit.
    fn ends(&mut self, model: &Model, tag: Tag, outcome: Outcome) {
        let mut c = Completion { tag, at: VirtualTime::ZERO, split: Split::default(), outcome };
        // Pages of a read went up as they were read.
        let went = match &c.outcome {
            Outcome::Done(Ok(Reply::Pages(pages))) => pages.iter().map(|p| p.len() as u64).sum::<u64>(),
            _ => 0,
        };
        (c.at, c.split) = model.answers(c.link_bytes() - went);
        self.ended.push(c);
    }

    fn unit_timed(&mut self, model: &Model, tag: Tag, task: Box<Task>) {
        let (outcome, more) = self.unit(task);
        self.parked.extend(more.map(|work| Job { tag, at: VirtualTime::NEVER, work }));
        self.ends(model, tag, outcome);
    }

    /// Carries out a write together with the writes behind it, up to a command that must wait for them. Reads of other pages
    /// overtake them.
    fn writes_timed(&mut self, model: &Model, tag: Tag, at: VirtualTime, batch: Batch, down_bytes: u64) {
        let core = self.core.clone();
        let lookup = u64::from(model.profile().cores.lookup_cycles);
        let begin = |at, batch: Batch, down_bytes| {
            model.arrives(at, down_bytes);
            model.think(lookup * (batch.writes.len() + batch.trims.len()) as u64);
            let begun = core.writer().begin(batch);
            (begun, model.step())
        };
        let mut written = Written::default();
        written.add(&batch);
        let mut under_way = vec![(tag, begin(at, batch, down_bytes))];
        let most = core.env().identity().in_flight_max as usize;
        while under_way.len() < most
            && let Some(Job { work: Work::Command(next), .. }) = self.jobs.front()
            && written.lets_pass(next)
            && let Some(Job { tag, at, work: Work::Command(next) }) = self.jobs.pop_front()
        {
            let bytes = next.link_bytes();
            match next {
                Command::Write(batch) => {
                    written.add(&batch);
                    under_way.push((tag, begin(at, batch, bytes)));
                }
                read => {
                    model.arrives(at, bytes);
                    self.ends(model, tag, Outcome::Done(command::run(&core, read)));
                }
            }
        }
        // One log group takes them all: it is written once the last of them came.
        let together = under_way.iter().map(|w| w.1.1).reduce(|a, b| a.join(b)).expect("there is one");
        model.resume(together);
        let mut outcomes = Vec::with_capacity(under_way.len());
        for (tag, (begun, own)) in under_way {
            outcomes.push((tag, own, begun.and_then(|b| core.writer().end(b))));
        }
        let durable = model.step();
        for (tag, own, outcome) in outcomes {
            model.resume(own.after(durable));
            self.ends(model, tag, Outcome::Done(outcome));
        }
        model.resume(durable);
    }
}

/// What the writes that are under way change.
#[derive(Default)]
struct Written {
    pages: Vec<Lpid>,
    /// Whether one of them changes more than pages: then no command overtakes them.
    more: bool,
}

impl Written {
    fn add(&mut self, batch: &Batch) {
        self.pages.extend(batch.writes.iter().map(|w| w.lpid).chain(batch.trims.iter().copied()));
        self.more |=
            !batch.releases.is_empty() || !batch.index_rules.is_empty() || self.pages.len() > PASSED_MAX;
    }

    /// Whether a later command need not wait for these writes.
    fn lets_pass(&self, next: &Command) -> bool {
        match next {
            Command::Write(_) => true,
            Command::Read { pages, .. } if !self.more && pages.len() <= PASSED_MAX => {
                !pages.iter().any(|r| self.pages.contains(&r.lpid))
            }
            _ => false,
        }
    }
}

/// Bytes of a command on the link.
fn down_bytes(work: &Work) -> u64 {
    match work {
        Work::Command(c) => c.link_bytes(),
        Work::Task(_) | Work::Cancelled => 0,
    }
}
