//! Reads of columns ahead of the host, on a modelled device.
//!
//! ```text
//!   column pages  wanted: page │ page │ page ─► under way, as many as the queue is deep: header ─► segments ─► pool ◄─ the host reads
//!   row pages     wanted: page │ page │ page ─► bulk reads under way, whole pages in each ───────────────────► pool ◄─ the host reads
//! ```
//!
//! Row pages are small, so that one command reads many of them whole. A queue of depth 1 reads one page at a time.
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

/// Bytes of a bulk read. Source: YourSQL, section 4.1.2: requests of 256 KiB reach the drive's bandwidth.
const BULK_BYTES: usize = 256 << 10;
/// Bulk reads under way at a time, at most.
const BULKS_MAX: usize = 4;

/// At most so many windows of pages are ahead of the host: one under way, and one that has arrived.
const AHEAD_WINDOWS: usize = 2;

/// How far reads are ahead of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// As far as the queue allows.
    Full,
    /// The first page is read alone, and each page that is taken lets one more command be under way: the host may need few.
    Growing,
    /// Not at all: the host waits for each page, and works on it before it asks for the next.
    None,
}

/// What pages are read ahead as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageReads {
    /// The header of a page, and then the segments of its wanted columns.
    Parts,
    /// Whole pages of about so many bytes.
    Whole {
        /// Bytes of a page.
        page_bytes: usize,
    },
}

/// Reads that are under way while the host works on the pages before them.
pub(crate) struct ColumnReads {
    view: Arc<View>,
    columns: Vec<u16>,
    depth: usize,
    /// Commands under way at a time, at most. Grows up to `depth`.
    window: usize,
    /// Pages that one command reads whole, at most; `None` if commands read parts of a page.
    bulk: Option<usize>,
    ahead: Ahead,
    queue: Option<Box<dyn Queue>>,
    wanted: VecDeque<Lpid>,
    /// Pages that were wanted, and that the host has not come to yet: they are under way, or the pool had them.
    ahead_of_host: VecDeque<Lpid>,
    under_way: Vec<PageRead>,
    link: LinkStats,
}

/// A command under way.
struct PageRead {
    tag: Tag,
    lpids: Vec<Lpid>,
    lengths: Vec<Option<usize>>,
    stage: Stage,
}

/// What of a page a command reads.
enum Stage {
    Whole,
    Header,
    Segments { page: Arc<TablePage>, columns: Vec<u16> },
}

impl ColumnReads {
    /// Reads of these columns at a view, at most `depth` commands at a time.
    pub(crate) fn new(
        view: Arc<View>,
        mut columns: Vec<u16>,
        reads: PageReads,
        depth: u32,
        ahead: Ahead,
    ) -> Self {
        columns.sort_unstable();
        columns.dedup();
        let depth = if ahead == Ahead::None { 1 } else { depth as usize };
        let (depth, bulk) = match reads {
            PageReads::Parts => (depth, None),
            PageReads::Whole { .. } if depth == 1 || ahead == Ahead::Growing => (depth, Some(1)),
            PageReads::Whole { page_bytes } => (depth.min(BULKS_MAX), Some((BULK_BYTES / page_bytes).max(1))),
        };
        let window = if ahead == Ahead::Full { depth } else { 1 };
        let (wanted, ahead_of_host, under_way, link) = Default::default();
        let queue = None;
        Self { view, columns, depth, window, bulk, ahead, queue, wanted, ahead_of_host, under_way, link }
    }

    /// Pages under way at a time, at most.
    pub(crate) fn depth(&self) -> usize {
        self.depth * self.bulk.unwrap_or(1)
    }

    /// The host will want this page, after those that it wanted before.
    pub(crate) fn want(&mut self, lpid: Lpid) {
        self.wanted.push_back(lpid);
    }

    /// Begins to read pages that are wanted, as many as may be under way.
    ///
    /// # Errors
    /// Those of the drive. All pages that were wanted are forgotten then.
    pub(crate) fn start(&mut self, owners: &impl PageOwners) -> Result<(), EngineError> {
        if self.ahead == Ahead::None {
            return Ok(());
        }
        let done = self.begin_more(owners);
        self.forgetting(done)
    }

    /// Waits until a page that was wanted is in the pool. Reads of the pages behind it are under way then. Answers what crossed
    /// the link since the last call.
    ///
    /// # Errors
    /// Those of any page under way. All pages that were wanted are forgotten then.
    pub(crate) fn until(&mut self, owners: &impl PageOwners, lpid: Lpid) -> Result<LinkStats, EngineError> {
        self.comes_to(lpid);
        let done = self.read_until(owners, lpid);
        self.window = self.depth.min(self.window + 1);
        self.forgetting(done).map(|()| std::mem::take(&mut self.link))
    }

    fn forgetting(&mut self, done: Result<(), EngineError>) -> Result<(), EngineError> {
        if done.is_err() {
            (self.queue, self.under_way) = (None, Vec::new());
            self.wanted.clear();
            self.ahead_of_host.clear();
        }
        done
    }

    fn read_until(&mut self, owners: &impl PageOwners, lpid: Lpid) -> Result<(), EngineError> {
        loop {
            if self.ahead != Ahead::None || self.awaits(lpid) {
                self.begin_more(owners)?;
            }
            if !self.awaits(lpid) {
                return Ok(());
            }
            self.take(owners)?;
        }
    }

    /// Whether the page that the host is at was wanted, and is not in the pool yet.
    fn awaits(&self, lpid: Lpid) -> bool {
        self.under_way.iter().any(|r| r.lpids.contains(&lpid)) || self.wanted.front() == Some(&lpid)
    }

    /// The host is at this page: it was at those before it, if this one was wanted.
    fn comes_to(&mut self, lpid: Lpid) {
        if let Some(at) = self.ahead_of_host.iter().position(|l| *l == lpid) {
            self.ahead_of_host.drain(..=at);
        } else if let Some(at) = self.wanted.iter().position(|l| *l == lpid) {
            self.ahead_of_host.clear();
            self.wanted.drain(..at);
        }
    }

    /// The next page that is wanted, if the host is near enough to begin with so many. Further ahead the pool would evict pages before the
    /// host reads them.
    fn next_wanted(&mut self, pages: usize) -> Option<Lpid> {
        if self.ahead_of_host.len() + pages > AHEAD_WINDOWS * self.window * self.bulk.unwrap_or(1) {
            return None;
        }
        let next = self.wanted.pop_front()?;
        self.ahead_of_host.push_back(next);
        Some(next)
    }

    fn begin_more(&mut self, owners: &impl PageOwners) -> Result<(), EngineError> {
        while self.under_way.len() < self.window
            && let Some(next) = self.next_wanted(self.bulk.unwrap_or(1))
        {
            match self.bulk {
                Some(bulk) => self.begin_bulk(next, bulk)?,
                None => self.begin(owners, next)?,
            }
        }
        Ok(())
    }

    /// Reads this page whole, and those that are wanted after it, as far as the pool does not have them.
    fn begin_bulk(&mut self, first: Lpid, bulk: usize) -> Result<(), EngineError> {
        let mut lpids = Vec::with_capacity(bulk.min(self.wanted.len() + 1));
        let mut next = Some(first);
        while let Some(lpid) = next.take() {
            let has = |page: &TablePage| self.missing(page).is_empty();
            if !columns::pooled_page(&self.view, lpid).is_some_and(|page| has(&page)) {
                lpids.push(lpid);
            }
            if lpids.len() < bulk {
                next = self.next_wanted(1);
            }
        }
        if lpids.is_empty() {
            return Ok(());
        }
        let requests = lpids.iter().map(|&lpid| ReadRequest { lpid, range: None }).collect();
        self.submit(lpids, requests, Stage::Whole)
    }

    fn begin(&mut self, owners: &impl PageOwners, lpid: Lpid) -> Result<(), EngineError> {
        match columns::pooled_page(&self.view, lpid) {
            Some(page) => self.segments(lpid, page),
            None => {
                let request = columns::prefix_request(owners.owner_of(lpid)?, lpid);
                self.submit(vec![lpid], vec![request], Stage::Header)
            }
        }
    }

    /// Reads the columns of a page that the pool does not have.
    fn segments(&mut self, lpid: Lpid, page: Arc<TablePage>) -> Result<(), EngineError> {
        let columns = self.missing(&page);
        let requests = columns::segment_requests(&page, &columns);
        match requests.is_empty() {
            true => Ok(()),
            false => self.submit(vec![lpid], requests, Stage::Segments { page, columns }),
        }
    }

    /// The wanted columns of a page that the pool does not have.
    fn missing(&self, page: &TablePage) -> Vec<u16> {
        let (pool, commit, lpid) = (self.view.storage().pool(), self.view.commit(), page.meta().lpid);
        let is_missing =
            |c: &u16| usize::from(*c) < page.columns() && pool.get(lpid, Part::Column(*c), commit).is_none();
        self.columns.iter().copied().filter(is_missing).collect()
    }

    fn submit(&mut self, lpids: Vec<Lpid>, pages: Vec<ReadRequest>, stage: Stage) -> Result<(), EngineError> {
        let store = self.view.storage().store();
        let lengths = store::lengths(&pages);
        let command = Command::Read { view: Some(self.view.id()), pages };
        let link = LinkStats { commands: 1, bytes_down: command.link_bytes(), bytes_up: 0 };
        let queue = match &mut self.queue {
            Some(queue) => queue,
            None => self.queue.insert(store.deep_queue(self.depth as u32)?),
        };
        let tag = store.submit(&mut **queue, command)?;
        self.under_way.push(PageRead { tag, lpids, lengths, stage });
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
            let PageRead { lpids, lengths, stage, .. } = self.under_way.swap_remove(i);
            let pages = reply.map_err(EngineError::from).and_then(|r| store::pages(r, &lengths));
            let pages = self.view.noting_age(pages)?;
            let lpid = lpids[0];
            match stage {
                Stage::Whole => {
                    for (lpid, bytes) in lpids.into_iter().zip(pages) {
                        let owner = owners.owner_of(lpid)?;
                        let page = columns::keep_header(&self.view, owner, lpid, &bytes)?;
                        if page.page_bytes() as usize != bytes.len() {
                            let what =
                                format!("it has {} bytes, and says {}", bytes.len(), page.page_bytes());
                            return Err(EngineError::BadPage { table: owner.name.into(), lpid, what });
                        }
                        for c in self.missing(&page) {
                            let segment = page.segment(c.into());
                            let segment = bytes.slice(segment.start as usize..segment.end as usize);
                            columns::keep_column(&self.view, &page, c, segment)?;
                        }
                    }
                }
                Stage::Header => {
                    if let Some(more) = columns::rest_of_prefix(owners.owner_of(lpid)?, lpid, &pages[0])
                        && more.range.as_ref().is_some_and(|r| r.end as usize > pages[0].len())
                    {
                        self.submit(lpids, vec![more], Stage::Header)?;
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
