//! A queue: commands run on the thread that completes them, in the order in which they came. Scan tasks take turns, one unit
//! each.
//!
//! ```text
//!   submit ─► [ scan a │ read │ scan b ]      complete: run the first; a scan that has more goes to the end
//!             [ write │ write │ write │ .. ]  consecutive writes are under way together: one group, one sync
//! ```
//!
//! On a modelled device, all submitted commands are carried out when the host first waits for one of them, in the order of
//! their times. They are answered in the order in which they end on the device (`timed.rs`).
//!
//! Invariants: every command ends in exactly one final completion, cancelled or not; writes take effect in the order in
//! which they were submitted.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_base::{Split, ViewId, VirtualTime};
use lode_command::{
    Batch, Command, CommandError, Completion, DeviceError, Outcome, Queue, Refused, Reply, ScanCounts, Tag,
    Until,
};
use lode_program::Program;

use crate::command;
use crate::compute::ScanRun;
use crate::core::Core;
use crate::read::UnitAccess;

mod timed;

enum Work {
    Command(Command),
    Task(Box<Task>),
    Cancelled,
}

/// A task under way.
struct Task {
    run: ScanRun,
    view: ViewId,
    /// The sum over the units so far.
    total: ScanCounts,
    /// Whether it is a read by the page index: then the answer of its last unit is its end.
    is_read: bool,
}

struct Job {
    tag: Tag,
    at: VirtualTime,
    work: Work,
}

pub(crate) struct DriveQueue {
    core: Arc<Core>,
    depth: usize,
    next_tag: u64,
    jobs: VecDeque<Job>,
    /// On a modelled device: commands that were carried out and not answered yet. The first to end is last.
    ended: Vec<Completion>,
    /// Tasks whose last unit was not taken yet.
    parked: Vec<Job>,
}

impl DriveQueue {
    pub(crate) fn new(core: Arc<Core>, depth: u32) -> Self {
        Self {
            core,
            depth: depth as usize,
            next_tag: 1,
            jobs: VecDeque::new(),
            ended: Vec::new(),
            parked: Vec::new(),
        }
    }

    /// Runs the first job, or its next unit.
    fn step(&mut self, out: &mut Vec<Completion>) {
        let Some(Job { tag, at, work }) = self.jobs.pop_front() else { return };
        let outcome = match work {
            Work::Cancelled => Outcome::Done(Err(CommandError::Cancelled)),
            Work::Command(task @ (Command::Scan(_) | Command::ReadIndexed(_))) => match self.begin(task) {
                Ok(begun) => return self.scan_unit(tag, at, begun, out),
                Err(e) => Outcome::Done(Err(e)),
            },
            Work::Command(Command::Write(batch)) => return self.writes(tag, at, batch, out),
            Work::Command(c) => Outcome::Done(command::run(&self.core, c)),
            Work::Task(task) => return self.scan_unit(tag, at, task, out),
        };
        out.push(Completion { tag, at, split: Split::default(), outcome });
    }

    /// Carries out a write, and the writes right behind it, up to as many as may be under way.
    fn writes(&mut self, tag: Tag, at: VirtualTime, batch: Batch, out: &mut Vec<Completion>) {
        let mut begun = vec![(tag, at, self.core.writer().begin(batch))];
        let most = self.core.env().identity().in_flight_max as usize;
        while begun.len() < most
            && let Some(Job { work: Work::Command(Command::Write(_)), .. }) = self.jobs.front()
            && let Some(Job { tag, at, work: Work::Command(Command::Write(batch)) }) = self.jobs.pop_front()
        {
            begun.push((tag, at, self.core.writer().begin(batch)));
        }
        for (tag, at, begun) in begun {
            let outcome = Outcome::Done(begun.and_then(|b| self.core.writer().end(b)));
            out.push(Completion { tag, at, split: Split::default(), outcome });
        }
    }

    fn scan_unit(&mut self, tag: Tag, at: VirtualTime, task: Box<Task>, out: &mut Vec<Completion>) {
        let (outcome, more) = self.unit(task);
        self.jobs.extend(more.map(|work| Job { tag, at, work }));
        out.push(Completion { tag, at, split: Split::default(), outcome });
    }

    /// Begins a task.
    fn begin(&self, task: Command) -> Result<Box<Task>, CommandError> {
        self.core.env().check_content()?;
        let is_read = matches!(task, Command::ReadIndexed(_));
        let (view, run) = match task {
            Command::Scan(task) => (task.view, ScanRun::new(task, self.core.env().options().scan_placement)?),
            Command::ReadIndexed(read) => (read.view, self.core.reader().indexed(read)?),
            _ => unreachable!("no other command is a task"),
        };
        Ok(Box::new(Task { run, view, total: ScanCounts::default(), is_read }))
    }

    /// The next unit of a task, and the rest of it.
    fn unit(&self, mut task: Box<Task>) -> (Outcome, Option<Work>) {
        let access = UnitAccess::new(self.core.reader(), task.view, task.run.placement());
        let unit = match task.run.next_unit(&access) {
            Ok(unit) => unit,
            Err(e) => return (Outcome::Done(Err(e)), None),
        };
        task.total += unit.as_ref().map_or(ScanCounts::default(), |u| u.counts);
        let counts = task.total;
        match unit {
            Some(unit) if !task.is_read || !task.run.is_over() => {
                (Outcome::Unit(unit), Some(Work::Task(task)))
            }
            None if !task.is_read => (Outcome::Done(Ok(Reply::Scanned(counts))), None),
            unit => {
                let saved = task.run.collected().map_or(Ok(()), |c| self.core.reader().save_keys(c));
                let unit = Box::new(unit.unwrap_or_default());
                (Outcome::Done(saved.map(|()| Reply::LastUnit { unit, counts })), None)
            }
        }
    }

    /// Jobs that are not over.
    fn all_jobs(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.iter_mut().chain(&mut self.parked)
    }
}

impl Queue for DriveQueue {
    fn submit(&mut self, at: VirtualTime, c: Command) -> Result<Tag, Refused> {
        // The unit of a parked task does not count beside its task.
        let answers = self.ended.iter().filter(|c| matches!(c.outcome, Outcome::Done(_))).count();
        if self.jobs.len() + self.parked.len() + answers >= self.depth {
            return Err(Refused(Box::new(c)));
        }
        // More pages are looked up together when they are read.
        if let Command::Read { pages, .. } = &c
            && pages.len() == 1
        {
            self.core.reader().prefetch(pages);
        }
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        self.jobs.push_back(Job { tag, at, work: Work::Command(c) });
        Ok(tag)
    }

    fn complete(
        &mut self,
        at: VirtualTime,
        until: Until,
        out: &mut Vec<Completion>,
    ) -> Result<(), DeviceError> {
        if self.core.env().medium().model().is_some() {
            self.complete_timed(at, until, out);
            return Ok(());
        }
        match until {
            // Commands run only in here: so what needs no running is ready, and nothing else.
            Until::Ready => {
                let (ready, jobs): (VecDeque<Job>, VecDeque<Job>) = std::mem::take(&mut self.jobs)
                    .into_iter()
                    .partition(|j| matches!(j.work, Work::Cancelled));
                self.jobs = jobs;
                let cancelled = |j: Job| Completion {
                    tag: j.tag,
                    at: j.at,
                    split: Split::default(),
                    outcome: Outcome::Done(Err(CommandError::Cancelled)),
                };
                out.extend(ready.into_iter().map(cancelled));
            }
            Until::One => self.step(out),
            // Without a model, no command takes time; a task moves by one unit.
            Until::Before(end) => {
                for _ in 0..self.jobs.len() {
                    match self.jobs.front() {
                        Some(j) if j.at < end => self.step(out),
                        _ => self.jobs.rotate_left(1),
                    }
                }
            }
        }
        Ok(())
    }

    fn narrow(&mut self, task: Tag, p: Arc<Program>) {
        match self.all_jobs().find(|j| j.tag == task).map(|j| &mut j.work) {
            // A read by the page index has the program that its set was, or will be, collected by.
            Some(Work::Task(task)) if !task.is_read => task.run.narrow(p),
            Some(Work::Command(Command::Scan(t))) => {
                let old = &t.program;
                let same = old.schema() == p.schema()
                    && old.projection() == p.projection()
                    && old.slots() == p.slots();
                assert!(same, "a running task may change its filter and nothing else");
                t.program = p;
            }
            _ => {}
        }
    }

    fn cancel(&mut self, tag: Tag) {
        if let Some(j) = self.all_jobs().find(|j| j.tag == tag) {
            j.work = Work::Cancelled;
        }
    }
}
