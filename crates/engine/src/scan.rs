//! Scans: a program over pages of one table at one snapshot, run in the drive unit by unit.
//!
//! Nothing is submitted before the first [`Scan::next`], since a run-time filter may still come; dropping a scan
//! cancels its task.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_base::VirtualTime;
use lode_command::{
    Command, CommandError, Completion, Outcome, Queue, Reply, ScanCounts, ScanTask, ScanUnit, Tag, Until,
};
use lode_program::Program;

use crate::snapshot::Snapshot;
use crate::{EngineError, LinkStats};

/// A running scan. Dropping it cancels the drive's task.
pub struct Scan {
    snapshot: Snapshot,
    state: State,
    ready: VecDeque<ScanUnit>,
    counts: ScanCounts,
    link: LinkStats,
}

enum State {
    Waiting(Box<ScanTask>),
    Running { queue: Box<dyn Queue>, tag: Tag },
    Over,
}

impl Scan {
    pub(crate) fn new(snapshot: Snapshot, task: ScanTask) -> Self {
        let state = if task.pages.is_empty() { State::Over } else { State::Waiting(Box::new(task)) };
        let counts = ScanCounts::default();
        Self { snapshot, state, ready: VecDeque::new(), counts, link: LinkStats::default() }
    }

    /// The next unit; `None` after the last. After an error the scan is over.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<ScanUnit>, EngineError> {
        loop {
            if let Some(unit) = self.ready.pop_front() {
                return Ok(Some(unit));
            }
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Ok(None),
                State::Waiting(task) => self.submit(*task)?,
                State::Running { queue, tag } => self.advance(queue, tag)?,
            }
        }
    }

    fn submit(&mut self, task: ScanTask) -> Result<(), EngineError> {
        let mut queue = self.snapshot.store().queue()?;
        let command = Command::Scan(task);
        self.count(LinkStats { commands: 1, bytes_down: command.link_bytes(), bytes_up: 0 });
        let tag = queue.submit(VirtualTime::ZERO, command).expect("an idle queue has room");
        self.state = State::Running { queue, tag };
        Ok(())
    }

    fn advance(&mut self, mut queue: Box<dyn Queue>, tag: Tag) -> Result<(), EngineError> {
        let mut out: Vec<Completion> = Vec::with_capacity(1);
        queue.complete(VirtualTime::ZERO, Until::One, &mut out)?;
        assert!(!out.is_empty(), "a queue with a task in it completes something");
        let mut end = None;
        for c in out {
            self.count(LinkStats { commands: 0, bytes_down: 0, bytes_up: c.link_bytes() });
            if c.tag != tag {
                continue;
            }
            match c.outcome {
                Outcome::Unit(unit) => {
                    self.counts += unit.counts;
                    self.ready.push_back(unit);
                }
                Outcome::Done(r) => end = Some(r),
            }
        }
        match end {
            None => {
                self.state = State::Running { queue, tag };
                Ok(())
            }
            Some(result) => {
                self.snapshot.store().give_back(queue);
                match result {
                    Ok(Reply::Scanned(total)) => {
                        self.counts = total;
                        Ok(())
                    }
                    Ok(_) => Err(EngineError::Protocol { command: "a scan" }),
                    Err(e) => {
                        if matches!(e, CommandError::ViewClosed(_)) {
                            self.snapshot.mark_stale();
                        }
                        Err(e.into())
                    }
                }
            }
        }
    }

    /// From the next unit on, the program is this one: the first with more filter.
    pub fn narrow(&mut self, program: Arc<Program>) {
        match &mut self.state {
            State::Waiting(task) => task.program = program,
            State::Running { queue, tag } => {
                let bytes_down = program.link_bytes() as u64;
                queue.narrow(*tag, program);
                self.count(LinkStats { commands: 1, bytes_down, bytes_up: 0 });
            }
            State::Over => {}
        }
    }

    /// What the units so far took.
    pub fn counts(&self) -> ScanCounts {
        self.counts
    }

    /// Bytes that came up the link for this scan so far.
    pub fn link_bytes_up(&self) -> u64 {
        self.link.bytes_up
    }

    /// Bytes that went down the link for this scan so far.
    pub fn link_bytes_down(&self) -> u64 {
        self.link.bytes_down
    }

    fn count(&mut self, l: LinkStats) {
        self.link += l;
        self.snapshot.store().count(l);
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let State::Running { queue, tag } = &mut self.state {
            queue.cancel(*tag);
        }
    }
}
