//! On a modelled device: reads of pages that the host will want are under way before it wants them.
//!
//! ```text
//!   wanted: page │ page │ page ─► under way, as many as the queue is deep: header ─► segments ─► pool ◄─ the host reads
//! ```
//!
//! In wall time the file's own cache is as near as a queue would be, and pages are read as they are wanted.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::{Command, Completion, Outcome, Queue, ReadRequest, Tag};
use lode_page::TablePage;

use crate::storage::columns as read;
use crate::storage::pool::Part;
use crate::storage::store;
use crate::trees::snapshot::Snapshot;
use crate::{EngineError, LinkStats};

/// Reads of pages of a scan, ahead of the host.
pub struct ReadAhead {
    snapshot: Snapshot,
    columns: Vec<u16>,
    depth: usize,
    /// Pages under way at a time, at most; grows up to `depth`.
    window: usize,
    queue: Option<Box<dyn Queue>>,
    wanted: VecDeque<Lpid>,
    under_way: Vec<Read>,
    link: LinkStats,
}

/// A command under way.
struct Read {
    tag: Tag,
    lpid: Lpid,
    lengths: Vec<Option<usize>>,
    of: Of,
}

enum Of {
    Header,
    Segments { page: Arc<TablePage>, columns: Vec<u16> },
}

impl ReadAhead {
    pub(crate) fn new(snapshot: Snapshot, mut columns: Vec<u16>, depth: u32, few: bool) -> Self {
        columns.sort_unstable();
        columns.dedup();
        let depth = depth as usize;
        let window = if few { 1 } else { depth };
        let (wanted, under_way, link) = (VecDeque::new(), Vec::new(), LinkStats::default());
        Self { snapshot, columns, depth, window, queue: None, wanted, under_way, link }
    }

    /// Pages that are worth knowing ahead.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The host will want this page, after those that it wanted before.
    pub fn want(&mut self, lpid: Lpid) {
        // What the transaction changed is not read as the drive has it.
        if !self.snapshot.own().is_some_and(|own| own.covers(lpid)) {
            self.wanted.push_back(lpid);
        }
    }

    /// Waits until a page that was wanted is in the pool; those behind it are under way then. Answers what crossed the link
    /// since it was asked last.
    ///
    /// # Errors
    /// Those of any page under way. What was wanted is then forgotten.
    pub fn until(&mut self, lpid: Lpid) -> Result<LinkStats, EngineError> {
        let done = self.read_until(lpid);
        if done.is_err() {
            (self.queue, self.under_way) = (None, Vec::new());
            self.wanted.clear();
        }
        self.window = self.depth.min(self.window + 1);
        done.map(|()| std::mem::take(&mut self.link))
    }

    fn read_until(&mut self, lpid: Lpid) -> Result<(), EngineError> {
        loop {
            while self.under_way.len() < self.window
                && let Some(next) = self.wanted.pop_front()
            {
                self.begin(next)?;
            }
            if !self.under_way.iter().any(|r| r.lpid == lpid) && !self.wanted.contains(&lpid) {
                return Ok(());
            }
            self.take()?;
        }
    }

    fn begin(&mut self, lpid: Lpid) -> Result<(), EngineError> {
        match read::held(&self.snapshot, lpid) {
            Some(page) => self.segments(lpid, page),
            None => {
                let request = read::prefix_request(read::table_of(&self.snapshot, lpid)?, lpid);
                self.submit(lpid, vec![request], Of::Header)
            }
        }
    }

    /// Reads the columns of a page that the pool does not hold.
    fn segments(&mut self, lpid: Lpid, page: Arc<TablePage>) -> Result<(), EngineError> {
        let (pool, commit) = (&self.snapshot.shared().pool, self.snapshot.commit());
        let missing =
            |c: &u16| usize::from(*c) < page.columns() && pool.get(lpid, Part::Column(*c), commit).is_none();
        let columns: Vec<u16> = self.columns.iter().copied().filter(missing).collect();
        let requests = read::segment_requests(&page, &columns);
        match requests.is_empty() {
            true => Ok(()),
            false => self.submit(lpid, requests, Of::Segments { page, columns }),
        }
    }

    fn submit(&mut self, lpid: Lpid, pages: Vec<ReadRequest>, of: Of) -> Result<(), EngineError> {
        let store = self.snapshot.store();
        let lengths = store::lengths(&pages);
        let command = Command::Read { view: Some(self.snapshot.view_id()), pages };
        let link = LinkStats { commands: 1, bytes_down: command.link_bytes(), bytes_up: 0 };
        let queue = match &mut self.queue {
            Some(queue) => queue,
            None => self.queue.insert(store.deep_queue(self.depth as u32)?),
        };
        let tag = store.submit(&mut **queue, command)?;
        self.under_way.push(Read { tag, lpid, lengths, of });
        self.count(link);
        Ok(())
    }

    /// Takes what is answered next.
    fn take(&mut self) -> Result<(), EngineError> {
        let mut out: Vec<Completion> = Vec::with_capacity(1);
        let queue = self.queue.as_mut().expect("reads are in a queue");
        self.snapshot.store().take(&mut **queue, &mut out)?;
        for c in out {
            self.count(LinkStats { commands: 0, bytes_down: 0, bytes_up: c.link_bytes() });
            let Some(i) = self.under_way.iter().position(|r| r.tag == c.tag) else { continue };
            let Outcome::Done(reply) = c.outcome else { continue };
            let Read { lpid, lengths, of, .. } = self.under_way.swap_remove(i);
            let pages = reply.map_err(EngineError::from).and_then(|r| store::pages(r, &lengths));
            let pages = self.snapshot.noting_age(pages)?;
            match of {
                Of::Header => {
                    let page = read::keep_header(&self.snapshot, lpid, &pages[0])?;
                    self.segments(lpid, page)?;
                }
                Of::Segments { page, columns } => {
                    let segments = read::dealt(&page, &columns, pages);
                    for (&c, segment) in columns.iter().zip(segments) {
                        read::keep_column(&self.snapshot, &page, c, segment)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, l: LinkStats) {
        self.link += l;
        self.snapshot.store().count(l);
    }
}
