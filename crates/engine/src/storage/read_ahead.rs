//! Reads of columns ahead of the host, on a modelled device.
//!
//! ```text
//!   wanted: page │ page │ page ─► under way, as many as the queue is deep: header ─► segments ─► pool ◄─ the host reads
//! ```
//!
//! In wall time the cache of the image's file serves as well as a queue, and pages are read when they are wanted.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::{Command, Completion, Outcome, Queue, ReadRequest, Tag};
use lode_page::TablePage;

use super::columns::{self, PageOwners};
use super::pool::Part;
use super::store;
use super::view::View;
use crate::{EngineError, LinkStats};

/// Reads that are under way while the host works on the pages before them.
pub(crate) struct ColumnReads {
    view: Arc<View>,
    columns: Vec<u16>,
    depth: usize,
    /// Pages under way at a time, at most. Grows up to `depth`.
    window: usize,
    queue: Option<Box<dyn Queue>>,
    wanted: VecDeque<Lpid>,
    under_way: Vec<PageRead>,
    link: LinkStats,
}

/// A command under way.
struct PageRead {
    tag: Tag,
    lpid: Lpid,
    lengths: Vec<Option<usize>>,
    stage: Stage,
}

/// What of a page a command reads.
enum Stage {
    Header,
    Segments { page: Arc<TablePage>, columns: Vec<u16> },
}

impl ColumnReads {
    /// Reads of these columns at a view, at most `depth` pages at a time. With `few`, the first page is read alone, and each
    /// page that is taken lets one more be under way.
    pub(crate) fn new(view: Arc<View>, mut columns: Vec<u16>, depth: u32, few: bool) -> Self {
        columns.sort_unstable();
        columns.dedup();
        let depth = depth as usize;
        let window = if few { 1 } else { depth };
        let (wanted, under_way, link) = (VecDeque::new(), Vec::new(), LinkStats::default());
        Self { view, columns, depth, window, queue: None, wanted, under_way, link }
    }

    /// Pages under way at a time, at most.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The host will want this page, after those that it wanted before.
    pub(crate) fn want(&mut self, lpid: Lpid) {
        self.wanted.push_back(lpid);
    }

    /// Waits until a page that was wanted is in the pool. Reads of the pages behind it are under way then. Answers what crossed
    /// the link since the last call.
    ///
    /// # Errors
    /// Those of any page under way. All pages that were wanted are forgotten then.
    pub(crate) fn until(&mut self, owners: &impl PageOwners, lpid: Lpid) -> Result<LinkStats, EngineError> {
        let done = self.read_until(owners, lpid);
        if done.is_err() {
            (self.queue, self.under_way) = (None, Vec::new());
            self.wanted.clear();
        }
        self.window = self.depth.min(self.window + 1);
        done.map(|()| std::mem::take(&mut self.link))
    }

    fn read_until(&mut self, owners: &impl PageOwners, lpid: Lpid) -> Result<(), EngineError> {
        loop {
            while self.under_way.len() < self.window
                && let Some(next) = self.wanted.pop_front()
            {
                self.begin(owners, next)?;
            }
            if !self.under_way.iter().any(|r| r.lpid == lpid) && !self.wanted.contains(&lpid) {
                return Ok(());
            }
            self.take(owners)?;
        }
    }

    fn begin(&mut self, owners: &impl PageOwners, lpid: Lpid) -> Result<(), EngineError> {
        match columns::pooled_page(&self.view, lpid) {
            Some(page) => self.segments(lpid, page),
            None => {
                let request = columns::prefix_request(owners.owner_of(lpid)?, lpid);
                self.submit(lpid, vec![request], Stage::Header)
            }
        }
    }

    /// Reads the columns of a page that the pool does not have.
    fn segments(&mut self, lpid: Lpid, page: Arc<TablePage>) -> Result<(), EngineError> {
        let (pool, commit) = (self.view.storage().pool(), self.view.commit());
        let missing =
            |c: &u16| usize::from(*c) < page.columns() && pool.get(lpid, Part::Column(*c), commit).is_none();
        let columns: Vec<u16> = self.columns.iter().copied().filter(missing).collect();
        let requests = columns::segment_requests(&page, &columns);
        match requests.is_empty() {
            true => Ok(()),
            false => self.submit(lpid, requests, Stage::Segments { page, columns }),
        }
    }

    fn submit(&mut self, lpid: Lpid, pages: Vec<ReadRequest>, stage: Stage) -> Result<(), EngineError> {
        let store = self.view.storage().store();
        let lengths = store::lengths(&pages);
        let command = Command::Read { view: Some(self.view.id()), pages };
        let link = LinkStats { commands: 1, bytes_down: command.link_bytes(), bytes_up: 0 };
        let queue = match &mut self.queue {
            Some(queue) => queue,
            None => self.queue.insert(store.deep_queue(self.depth as u32)?),
        };
        let tag = store.submit(&mut **queue, command)?;
        self.under_way.push(PageRead { tag, lpid, lengths, stage });
        self.count(link);
        Ok(())
    }

    /// Takes what is answered next.
    fn take(&mut self, owners: &impl PageOwners) -> Result<(), EngineError> {
        let mut out: Vec<Completion> = Vec::with_capacity(1);
        let queue = self.queue.as_mut().expect("reads are in a queue");
        self.view.storage().store().take(&mut **queue, &mut out)?;
        for c in out {
            self.count(LinkStats { commands: 0, bytes_down: 0, bytes_up: c.link_bytes() });
            let Some(i) = self.under_way.iter().position(|r| r.tag == c.tag) else { continue };
            let Outcome::Done(reply) = c.outcome else { continue };
            let PageRead { lpid, lengths, stage, .. } = self.under_way.swap_remove(i);
            let pages = reply.map_err(EngineError::from).and_then(|r| store::pages(r, &lengths));
            let pages = self.view.noting_age(pages)?;
            match stage {
                Stage::Header => {
                    if let Some(more) = columns::rest_of_prefix(owners.owner_of(lpid)?, lpid, &pages[0])
                        && more.range.as_ref().is_some_and(|r| r.end as usize > pages[0].len())
                    {
                        self.submit(lpid, vec![more], Stage::Header)?;
                        continue;
                    }
                    let page = columns::keep_header(&self.view, owners.owner_of(lpid)?, lpid, &pages[0])?;
                    self.segments(lpid, page)?;
                }
                Stage::Segments { page, columns } => {
                    let segments = columns::segments_of(&page, &columns, pages);
                    for (&c, segment) in columns.iter().zip(segments) {
                        columns::keep_column(&self.view, &page, c, segment)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, l: LinkStats) {
        self.link += l;
        self.view.storage().store().count(l);
    }
}
