//! The store: the only caller of the drive.
//!
//! ```text
//!   call(Command) ─► a queue of the pool ─► Reply        scans hold a queue of their own while they run
//! ```
//!
//! Everything that crosses the link is counted here. With a modelled device a command begins at the time of the host's clock, and the
//! clock waits for its completion. In wall time all virtual times are 0.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::{CommitNo, ExtentId, Lpid, OwnerId, PageBuf, ViewId, VirtualTime};
use lode_command::{
    Batch, Budget, Command, Completion, Device, ExtentInfo, Identity, IndexedPage, Outcome, Progress, Queue,
    ReadRequest, Reply, Tag, Until,
};
use parking_lot::Mutex;

use crate::{EngineError, HostClock};

/// Idle queues that are kept for the next command.
const IDLE_QUEUES_MAX: usize = 16;
/// Commands that a queue takes at a time: the engine waits for each of them.
const QUEUE_DEPTH: u32 = 1;

/// What crossed the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Commands sent.
    pub commands: u64,
    /// Bytes of commands.
    pub bytes_down: u64,
    /// Bytes of completions.
    pub bytes_up: u64,
}

impl std::ops::AddAssign for LinkStats {
    fn add_assign(&mut self, o: Self) {
        self.commands += o.commands;
        self.bytes_down += o.bytes_down;
        self.bytes_up += o.bytes_up;
    }
}

/// What the drive answered a batch.
#[derive(Debug)]
pub(crate) struct SentBatch {
    pub(crate) commit: CommitNo,
    /// The view that the batch asked for.
    pub(crate) view: Option<ViewId>,
    /// The index entries of the pages that it wrote, if the batch asked for them.
    pub(crate) entries: Vec<IndexedPage>,
}

pub(crate) struct Store {
    device: Arc<dyn Device>,
    host: Option<Arc<HostClock>>,
    idle: Mutex<Vec<Box<dyn Queue>>>,
    commands: AtomicU64,
    bytes_down: AtomicU64,
    bytes_up: AtomicU64,
    /// The newest commit that was answered, and the newest that is known to be durable.
    answered: AtomicU64,
    durable: AtomicU64,
}

impl Store {
    pub(crate) fn new(device: Arc<dyn Device>, host: Option<Arc<HostClock>>) -> Self {
        let zero = || AtomicU64::new(0);
        let (commands, bytes_down, bytes_up) = (zero(), zero(), zero());
        let (answered, durable) = (zero(), zero());
        Self { device, host, idle: Mutex::default(), commands, bytes_down, bytes_up, answered, durable }
    }

    /// The host of a modelled device.
    pub(crate) fn host(&self) -> Option<&Arc<HostClock>> {
        self.host.as_ref()
    }

    /// Sends a command. It begins at once, before a command of a later time is sent on another queue.
    pub(crate) fn submit(&self, q: &mut dyn Queue, c: Command) -> Result<Tag, EngineError> {
        let tag = q.submit(self.now(), c).expect("the queue has room");
        if self.host.is_some() {
            // The device begins the command when it is asked for completions. None comes before time 0.
            q.complete(self.now(), Until::Before(VirtualTime::ZERO), &mut Vec::new())?;
        }
        Ok(tag)
    }

    /// When a command that is sent now begins.
    fn now(&self) -> VirtualTime {
        self.host.as_ref().map_or(VirtualTime::ZERO, |h| h.now())
    }

    /// Takes the next completions of a queue. The host waits for them.
    pub(crate) fn take(&self, q: &mut dyn Queue, out: &mut Vec<Completion>) -> Result<(), EngineError> {
        q.complete(self.now(), Until::One, out)?;
        assert!(!out.is_empty(), "a queue with a command in it completes something");
        if let Some(host) = &self.host {
            out.iter().for_each(|c| host.takes(c));
        }
        Ok(())
    }

    pub(crate) fn identity(&self) -> &Identity {
        self.device.identity()
    }

    pub(crate) fn link(&self) -> LinkStats {
        LinkStats {
            commands: self.commands.load(Ordering::Relaxed),
            bytes_down: self.bytes_down.load(Ordering::Relaxed),
            bytes_up: self.bytes_up.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count(&self, l: LinkStats) {
        self.commands.fetch_add(l.commands, Ordering::Relaxed);
        self.bytes_down.fetch_add(l.bytes_down, Ordering::Relaxed);
        self.bytes_up.fetch_add(l.bytes_up, Ordering::Relaxed);
    }

    /// An idle queue, or a new one.
    pub(crate) fn queue(&self) -> Result<Box<dyn Queue>, EngineError> {
        match self.idle.lock().pop() {
            Some(q) => Ok(q),
            None => Ok(self.device.open_queue(QUEUE_DEPTH)?),
        }
    }

    /// A new queue that takes so many commands at a time.
    pub(crate) fn deep_queue(&self, depth: u32) -> Result<Box<dyn Queue>, EngineError> {
        Ok(self.device.open_queue(depth)?)
    }

    /// Takes back a queue of [`Store::queue`] in which nothing runs.
    pub(crate) fn give_back(&self, q: Box<dyn Queue>) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_QUEUES_MAX {
            idle.push(q);
        }
    }

    /// Runs one command to its end. Answers the reply, and what crossed the link.
    fn call(&self, c: Command) -> Result<(Reply, LinkStats), EngineError> {
        let mut q = self.queue()?;
        let mut link = LinkStats { commands: 1, bytes_down: c.link_bytes(), bytes_up: 0 };
        let tag = self.submit(&mut *q, c)?;
        let mut out: Vec<Completion> = Vec::with_capacity(1);
        let result = loop {
            out.clear();
            self.take(&mut *q, &mut out)?;
            let mut done = None;
            for c in out.drain(..) {
                link.bytes_up += c.link_bytes();
                if let (true, Outcome::Done(r)) = (c.tag == tag, c.outcome) {
                    done = Some(r);
                }
            }
            if let Some(r) = done {
                break r;
            }
        };
        self.give_back(q);
        self.count(link);
        Ok((result?, link))
    }

    /// Sends a batch. When this returns, the batch is durable, unless it is unforced. A batch that asked for a view gets one.
    pub(crate) fn write(&self, batch: Batch) -> Result<SentBatch, EngineError> {
        let forced = !batch.unforced;
        match self.call(Command::Write(batch))?.0 {
            Reply::Committed { commit, view, entries } => {
                self.answered.fetch_max(commit.raw(), Ordering::AcqRel);
                if forced {
                    self.durable.fetch_max(commit.raw(), Ordering::AcqRel);
                }
                Ok(SentBatch { commit, view, entries })
            }
            _ => Err(EngineError::Protocol { command: "a batch" }),
        }
    }

    /// Reads pages or parts of them, at a view or at the newest commit.
    pub(crate) fn read(
        &self,
        view: Option<ViewId>,
        pages: Vec<ReadRequest>,
    ) -> Result<(Vec<PageBuf>, LinkStats), EngineError> {
        let lengths = lengths(&pages);
        let (reply, link) = self.call(Command::Read { view, pages })?;
        Ok((self::pages(reply, &lengths)?, link))
    }

    /// Reads one whole page.
    pub(crate) fn read_page(&self, view: Option<ViewId>, lpid: Lpid) -> Result<PageBuf, EngineError> {
        let (mut pages, _) = self.read(view, vec![ReadRequest { lpid, range: None }])?;
        Ok(pages.remove(0))
    }

    pub(crate) fn open_view(&self) -> Result<(ViewId, CommitNo), EngineError> {
        match self.call(Command::OpenView)?.0 {
            Reply::View { view, commit } => Ok((view, commit)),
            _ => Err(EngineError::Protocol { command: "the opening of a view" }),
        }
    }

    pub(crate) fn close_view(&self, view: ViewId) -> Result<(), EngineError> {
        self.call(Command::CloseView(view)).map(drop)
    }

    /// One fresh extent.
    pub(crate) fn allocate(&self, owner: OwnerId) -> Result<ExtentId, EngineError> {
        match self.call(Command::AllocateExtents { owner, count: 1 })?.0 {
            Reply::Extents(e) if e.len() == 1 => Ok(e[0]),
            _ => Err(EngineError::Protocol { command: "the allocation of an extent" }),
        }
    }

    pub(crate) fn extents(&self) -> Result<Vec<ExtentInfo>, EngineError> {
        match self.call(Command::ListExtents)?.0 {
            Reply::ExtentList(e) => Ok(e),
            _ => Err(EngineError::Protocol { command: "the listing of extents" }),
        }
    }

    pub(crate) fn build_index(&self, owner: OwnerId) -> Result<u64, EngineError> {
        match self.call(Command::BuildIndex(owner))?.0 {
            Reply::Indexed { pages } => Ok(pages),
            _ => Err(EngineError::Protocol { command: "the building of an index" }),
        }
    }

    pub(crate) fn read_index(
        &self,
        view: ViewId,
        pages: Vec<lode_command::PageRange>,
    ) -> Result<Vec<IndexedPage>, EngineError> {
        match self.call(Command::ReadIndex { view, pages })?.0 {
            Reply::IndexEntries(e) => Ok(e),
            _ => Err(EngineError::Protocol { command: "the reading of an index" }),
        }
    }

    /// One bounded step of the drive's background work.
    pub(crate) fn work(&self, write_bytes: u64) -> Progress {
        self.device.work(self.now(), Budget { write_bytes })
    }

    /// Makes unforced batches durable.
    pub(crate) fn flush(&self) -> Result<(), EngineError> {
        let answered = self.answered.load(Ordering::Acquire);
        self.call(Command::Flush)?;
        self.durable.fetch_max(answered, Ordering::AcqRel);
        Ok(())
    }

    /// Whether a commit that was answered is known to be durable.
    pub(crate) fn is_durable(&self, commit: CommitNo) -> bool {
        commit.raw() <= self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn checkpoint(&self) -> Result<(), EngineError> {
        self.call(Command::Checkpoint).map(drop)
    }
}

/// Bytes that each request of a read asks for; `None` for whole pages.
pub(crate) fn lengths(requests: &[ReadRequest]) -> Vec<Option<usize>> {
    requests.iter().map(|p| p.range.as_ref().map(Range::len)).collect()
}

/// The pages that a read answered. It must have answered as many bytes as it was asked for.
pub(crate) fn pages(reply: Reply, lengths: &[Option<usize>]) -> Result<Vec<PageBuf>, EngineError> {
    match reply {
        Reply::Pages(got)
            if got.len() == lengths.len()
                && got.iter().zip(lengths).all(|(g, l)| l.is_none_or(|l| l == g.len())) =>
        {
            Ok(got)
        }
        _ => Err(EngineError::Protocol { command: "a read" }),
    }
}
