//! The store as a device. It takes the same commands as a drive of batches, except those that need the drive's own
//! computing.
//!
//! ```text
//!   submit ─► jobs ── complete ─► writes that wait together: one group │ anything else: alone ─► answers
//! ```
//!
//! A drive of blocks has no page index, no programs and no sessions. So pages have no index entries, a scan task
//! returns only the names of its pages, and sessions are refused. Index rules are accepted and have no effect.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_base::{Lpid, Split, VirtualTime};
use lode_command::{
    Answer, Batch, Budget, Command, CommandError, Completion, Device, DeviceError, Identity, IndexedPage,
    Outcome, PageRows, Progress, Queue, Refused, Reply, ScanCounts, ScanTask, ScanUnit, Tag, Until,
};
use lode_program::Program;

use crate::blocks::{BlockCounts, BlockOptions, Blocks};
use crate::store::Store;
use crate::{Clock, LssError, LssInfo, LssOptions};

/// The most writes in one group.
const GROUP_MAX: usize = 32;

/// A log-structured store on a drive of blocks. A clone is the same store.
#[derive(Clone)]
pub struct Lss {
    store: Arc<Store>,
    identity: Arc<Identity>,
}

impl Lss {
    /// Makes a new, empty store on the first `capacity_blocks` blocks of `device`. `id` distinguishes it from other
    /// stores. On a modelled device, the work begins at the time of `clock` and advances `clock`.
    ///
    /// # Errors
    /// If the device holds something other than blocks, is too small, or fails.
    pub fn format(
        device: Arc<dyn Device>,
        capacity_blocks: u64,
        block_options: BlockOptions,
        options: LssOptions,
        id: u64,
        clock: &mut Clock,
    ) -> Result<Self, LssError> {
        let blocks = Blocks::new(device, capacity_blocks, block_options, clock)?;
        Store::format(blocks, options, id, clock).map(Self::of)
    }

    /// Opens the store that the blocks of `device` hold, as of the last acknowledged batch.
    ///
    /// # Errors
    /// If the blocks hold no store, the store is damaged, or the device fails.
    pub fn open(
        device: Arc<dyn Device>,
        capacity_blocks: u64,
        block_options: BlockOptions,
        options: LssOptions,
        clock: &mut Clock,
    ) -> Result<Self, LssError> {
        let blocks = Blocks::new(device, capacity_blocks, block_options, clock)?;
        Store::open(blocks, options, clock).map(Self::of)
    }

    fn of(store: Store) -> Self {
        let below = store.blocks.device().identity();
        let identity = Identity {
            model: format!("log-structured store on blocks of {}", below.model),
            page_bytes_max: store.page_bytes_max(),
            views_max: store.options.views_max,
            sessions_max: 0,
            in_flight_max: GROUP_MAX as u32,
            ..below.clone()
        };
        Self { store: Arc::new(store), identity: Arc::new(identity) }
    }

    /// Statistics of the store.
    pub fn info(&self) -> LssInfo {
        self.store.info()
    }

    /// The traffic through the block interface.
    pub fn counts(&self) -> BlockCounts {
        self.store.blocks.counts()
    }

    /// Checks the invariants of all state in memory. They hold between any two commands.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn check_invariants(&self) {
        self.store.check();
    }
}

impl std::fmt::Debug for Lss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lss({:?})", self.store.blocks)
    }
}

impl Device for Lss {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        let max = self.identity.queue_depth_max;
        if !(1..=max).contains(&depth) {
            return Err(DeviceError::QueueDepth { got: depth, max });
        }
        Ok(Box::new(LssQueue {
            store: self.store.clone(),
            depth: depth as usize,
            jobs: VecDeque::new(),
            ended: VecDeque::new(),
            next_tag: 0,
        }))
    }

    fn work(&self, at: VirtualTime, budget: Budget) -> Progress {
        if budget.write_bytes == 0 {
            return Progress::Idle;
        }
        let mut clock = Clock::at(at);
        let below = self.store.blocks.device().work(at, budget);
        // The next write returns this error.
        match self.store.work(&mut clock) {
            Ok(true) => Progress::More,
            Ok(false) | Err(_) => below,
        }
    }
}

struct QueuedCommand {
    tag: Tag,
    at: VirtualTime,
    command: Option<Command>,
}

struct LssQueue {
    store: Arc<Store>,
    depth: usize,
    jobs: VecDeque<QueuedCommand>,
    /// The completions that the caller has not fetched yet, in the order of their times.
    ended: VecDeque<Completion>,
    next_tag: u64,
}

impl LssQueue {
    /// Runs the first job. If it is a write, the waiting writes behind it run with it as one group.
    fn step(&mut self) {
        let Some(job) = self.jobs.pop_front() else { return };
        let mut clock = Clock::at(job.at);
        match job.command {
            None => self.ends(job.tag, Clock::at(job.at), Outcome::Done(Err(CommandError::Cancelled))),
            Some(Command::Write(batch)) => {
                let mut tags = vec![(job.tag, job.at)];
                let mut batches: Vec<Batch> = vec![batch];
                while tags.len() < GROUP_MAX
                    && let Some(QueuedCommand { command: Some(Command::Write(_)), .. }) = self.jobs.front()
                    && let Some(QueuedCommand { tag, at, command: Some(Command::Write(b)) }) =
                        self.jobs.pop_front()
                {
                    tags.push((tag, at));
                    batches.push(b);
                }
                // The group begins at the time at which its last write was submitted.
                let begin = tags.iter().map(|t| t.1).max().unwrap_or(job.at);
                clock = Clock::at(begin);
                let replies = self.store.write(&mut clock, batches);
                for ((tag, at), reply) in tags.into_iter().zip(replies) {
                    let mut own = Clock::at(at);
                    own.computes(begin.since(at));
                    let mut split = own.split();
                    split += clock.split();
                    self.ended.push_back(Completion {
                        tag,
                        at: clock.now(),
                        split,
                        outcome: Outcome::Done(reply),
                    });
                }
            }
            Some(Command::Scan(task)) => {
                let outcomes = self.scan(&task);
                outcomes.into_iter().for_each(|o| self.ends(job.tag, clock, o));
            }
            Some(command) => {
                let reply = self.run(&mut clock, command);
                self.ends(job.tag, clock, Outcome::Done(reply));
            }
        }
    }

    fn ends(&mut self, tag: Tag, clock: Clock, outcome: Outcome) {
        self.ended.push_back(Completion { tag, at: clock.now(), split: clock.split(), outcome });
    }

    fn run(&self, clock: &mut Clock, command: Command) -> Result<Reply, CommandError> {
        let store = &self.store;
        let no_sessions = || Err(CommandError::Invalid("a drive of blocks has no sessions".into()));
        match command {
            Command::Read { view, pages } => store.read(clock, view, &pages).map(Reply::Pages),
            Command::OpenView => {
                let (view, commit) = store.open_view();
                Ok(Reply::View { view, commit })
            }
            Command::CloseView(view) => store.close_view(view).map(|()| Reply::Done),
            Command::AllocateExtents { owner, count } => store.allocate(owner, count).map(Reply::Extents),
            Command::ListExtents => Ok(Reply::ExtentList(store.extents())),
            Command::ReadIndex { view, pages } => {
                let mapped = store.mapped(view, &pages)?;
                Ok(Reply::IndexEntries(
                    mapped
                        .into_iter()
                        .map(|(lpid, len_bytes)| IndexedPage { lpid, len_bytes, entry: None })
                        .collect(),
                ))
            }
            Command::BuildIndex(_) => Ok(Reply::Indexed { pages: 0 }),
            Command::RegisterProgram { .. } | Command::RegisterKeys { .. } | Command::ReadIndexed(_) => {
                Err(CommandError::Invalid("a drive of 4 KB blocks has no page index".into()))
            }
            Command::Checkpoint => store.checkpoint_now(clock).map(|()| Reply::Done),
            // Every batch is durable by the time it is answered.
            Command::Flush => Ok(Reply::Done),
            Command::OpenSession | Command::ResumeSession(_) | Command::CloseSession(_) => no_sessions(),
            Command::Write(_) | Command::Scan(_) => unreachable!("a queue runs these itself"),
        }
    }

    /// The names of the pages of a scan task, in units.
    fn scan(&self, task: &ScanTask) -> Vec<Outcome> {
        if task.answer != Answer::Mapped {
            let what = "a drive of blocks runs no programs: the host must filter";
            return vec![Outcome::Done(Err(CommandError::Invalid(what.into())))];
        }
        let mapped = match self.store.mapped(task.view, &task.pages) {
            Ok(mapped) => mapped,
            Err(e) => return vec![Outcome::Done(Err(e))],
        };
        let mut total = ScanCounts::default();
        let unit = |pages: &[(Lpid, u32)]| {
            let counts = ScanCounts { pages: pages.len() as u64, ..ScanCounts::default() };
            total += counts;
            let page = |&(lpid, _): &(Lpid, u32)| PageRows::name(lpid);
            Outcome::Unit(ScanUnit { pages: pages.iter().map(page).collect(), counts, ..ScanUnit::default() })
        };
        let mut outcomes: Vec<Outcome> = mapped.chunks(task.unit_pages.max(1) as usize).map(unit).collect();
        outcomes.push(Outcome::Done(Ok(Reply::Scanned(total))));
        outcomes
    }
}

impl Queue for LssQueue {
    fn submit(&mut self, at: VirtualTime, c: Command) -> Result<Tag, Refused> {
        let answers = self.ended.iter().filter(|c| matches!(c.outcome, Outcome::Done(_))).count();
        if self.jobs.len() + answers >= self.depth {
            return Err(Refused(Box::new(c)));
        }
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        self.jobs.push_back(QueuedCommand { tag, at, command: Some(c) });
        Ok(tag)
    }

    fn complete(
        &mut self,
        at: VirtualTime,
        until: Until,
        out: &mut Vec<Completion>,
    ) -> Result<(), DeviceError> {
        let _ = at;
        match until {
            Until::Ready => {}
            Until::One if self.ended.is_empty() => self.step(),
            Until::One => {}
            Until::Before(_) => {
                while !self.jobs.is_empty() {
                    self.step();
                }
            }
        }
        match until {
            Until::Ready => out.extend(self.ended.drain(..)),
            Until::One => out.extend(self.ended.pop_front()),
            Until::Before(end) => {
                let (now, later): (VecDeque<_>, VecDeque<_>) = self.ended.drain(..).partition(|c| c.at < end);
                out.extend(now);
                self.ended = later;
            }
        }
        Ok(())
    }

    fn narrow(&mut self, _: Tag, _: Arc<Program>) {
        // The answer has only names, so the host applies the filter.
    }

    fn cancel(&mut self, tag: Tag) {
        if let Some(job) = self.jobs.iter_mut().find(|j| j.tag == tag) {
            job.command = None;
        } else if let Some(at) = self.ended.iter().position(|c| c.tag == tag && !is_done(c)) {
            // The units that the caller has not fetched are dropped. One final completion replaces them.
            let end = self.ended[at].at;
            self.ended.retain(|c| c.tag != tag);
            let outcome = Outcome::Done(Err(CommandError::Cancelled));
            self.ended.push_back(Completion { tag, at: end, split: Split::default(), outcome });
        }
    }
}

fn is_done(c: &Completion) -> bool {
    matches!(c.outcome, Outcome::Done(_))
}
