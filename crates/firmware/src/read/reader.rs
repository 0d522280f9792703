//! The read path: from an LPID, at a view, to bytes. No lock is held over I/O.
//!
//! ```text
//!   epoch ─► mapping entry ─► version table, if at a view ─► view still open? ─► RBLOCKs of the wanted part
//! ```
//!
//! Source: ELEOS §V.

use std::ops::Range;

use lode_base::{CELL_BYTES, Lpid, PageBuf, Ppa, ViewId};
use lode_command::{ANSWER_BYTES_MAX, CommandError, ReadRequest, Reply, check_answer};
use lode_flash::{FlashError, Medium};

use crate::entry::Entry;
use crate::env::Env;
use crate::pages::Pages;
use crate::planted::at;

/// Pages of a command that are looked up before the first of them is read.
const PAGES_AHEAD: usize = 32;

/// Reads pages.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    env: &'a Env,
    pages: &'a Pages,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(env: &'a Env, pages: &'a Pages) -> Self {
        Self { env, pages }
    }

    #[inline]
    pub(super) fn env(self) -> &'a Env {
        self.env
    }

    #[inline]
    pub(super) fn pages(self) -> &'a Pages {
        self.pages
    }

    /// The commit that a view shows.
    pub(crate) fn view_commit(self, view: ViewId) -> Result<u64, CommandError> {
        self.pages.versions().commit_of(view).ok_or(CommandError::ViewClosed(view))
    }

    /// Reads pages or parts of them.
    pub(crate) fn read_pages(
        self,
        view: Option<ViewId>,
        pages: &[ReadRequest],
    ) -> Result<Reply, CommandError> {
        // Fewer pages fit an answer, however long they are.
        let many = pages.len() as u64 * u64::from(self.env.identity().page_bytes_max) > ANSWER_BYTES_MAX;
        let mut left = ANSWER_BYTES_MAX;
        if many {
            check_answer(self.answer_bytes(view, pages)?)?;
        }
        let mut read = Vec::with_capacity(pages.len());
        if let Some(m) = self.env.medium().model() {
            m.think(u64::from(m.profile().cores.lookup_cycles) * pages.len() as u64);
        }
        for some in pages.chunks(PAGES_AHEAD) {
            let _epoch = self.env.epochs().enter();
            let commit = view.map(|v| self.view_commit(v)).transpose()?;
            match some {
                [one] => {
                    let (entry, range) = self.located(view, commit, one)?;
                    read.push(self.read_up(one.lpid, entry, range)?);
                }
                some => self.read_together(view, commit, some, &mut read)?,
            }
            if many {
                left = self.took(left, &mut read, some.len())?;
            }
        }
        Ok(Reply::Pages(read))
    }

    /// Bytes of the answer, by looking pages up without reading them. If a look-up fails, the answer ends there with its error,
    /// so the bytes before it count.
    fn answer_bytes(self, view: Option<ViewId>, pages: &[ReadRequest]) -> Result<u64, CommandError> {
        let mut bytes = 0;
        for some in pages.chunks(PAGES_AHEAD) {
            let _epoch = self.env.epochs().enter();
            let commit = view.map(|v| self.view_commit(v)).transpose()?;
            for r in some {
                let Ok((_, range)) = self.located(view, commit, r) else { return Ok(bytes) };
                bytes += u64::from(range.end - range.start);
            }
        }
        Ok(bytes)
    }

    /// The last `count` pages of an answer were read: answers how many bytes are left for the others. Pages may have grown since
    /// they were looked up. Small parts are copied, so that they do not keep the whole read units in memory.
    fn took(self, left: u64, read: &mut [PageBuf], count: usize) -> Result<u64, CommandError> {
        let from = read.len() - count;
        let mut bytes = 0;
        for page in &mut read[from..] {
            bytes += page.len() as u64;
            if page.len() < self.env.geometry().rblock_bytes() as usize {
                *page = PageBuf::copy_from(page);
            }
        }
        if bytes > left {
            check_answer(ANSWER_BYTES_MAX - left + bytes)?;
        }
        Ok(left - bytes)
    }

    /// Prefetches the mapping entries of pages that are to be read into the caches of the CPU, if their mapping pages are in
    /// memory: so cache misses overlap.
    pub(crate) fn prefetch(self, pages: &[ReadRequest]) {
        for r in pages.iter().take(PAGES_AHEAD) {
            self.pages.map().look(r.lpid.extent().raw(), |map| map.prefetch(r.lpid.page()));
        }
    }

    /// Reads pages. All are looked up before the first is read, so that cache misses of the CPU overlap. The caller is in an
    /// epoch.
    fn read_together(
        self,
        view: Option<ViewId>,
        commit: Option<u64>,
        pages: &[ReadRequest],
        read: &mut Vec<PageBuf>,
    ) -> Result<(), CommandError> {
        self.prefetch(pages);
        let mut found = Vec::with_capacity(pages.len());
        let mut failed = None;
        for r in pages {
            match self.located(view, commit, r) {
                Ok((entry, range)) => {
                    if let Some((at, len, _)) = self.cells_of(entry, &range) {
                        self.env.medium().prefetch(at, len);
                    }
                    found.push((r.lpid, entry, range));
                }
                // The pages before it are read first: the first error counts.
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        for (lpid, entry, range) in found {
            read.push(self.read_up(lpid, entry, range)?);
        }
        failed.map_or(Ok(()), Err)
    }

    /// The entry of a page, and which of its bytes are to be read: at a view, which shows `commit`, or at the newest commit. The
    /// caller is in an epoch.
    fn located(
        self,
        view: Option<ViewId>,
        commit: Option<u64>,
        r: &ReadRequest,
    ) -> Result<(Entry, Range<u32>), CommandError> {
        let newest = self.pages.newest(self.env, r.lpid)?;
        let old = commit.and_then(|c| self.pages.versions().find(r.lpid, c));
        if let Some(v) = view {
            self.view_commit(v)?;
        }
        let entry = old.map_or(newest, |v| v.entry).ok_or(CommandError::Unmapped(r.lpid))?;
        let len = entry.len_bytes() as u32;
        let range = r.range.clone().unwrap_or(0..len);
        if range.start > range.end || range.end > len {
            let what = format!("bytes {range:?} of page {}, which has {len}", r.lpid);
            return Err(CommandError::Invalid(what));
        }
        Ok((entry, range))
    }

    /// As [`Reader::read_range`]; on a modelled device the bytes go to the host as soon as they are read.
    fn read_up(self, lpid: Lpid, entry: Entry, range: Range<u32>) -> Result<PageBuf, CommandError> {
        let bytes = self.read_range(lpid, entry, range)?;
        if let Some(m) = self.env.medium().model() {
            m.up(bytes.len() as u64);
        }
        Ok(bytes)
    }

    /// Bytes `range` of the page that an entry names. The caller is in the epoch in which it found the entry.
    pub(crate) fn read_range(
        self,
        lpid: Lpid,
        entry: Entry,
        range: Range<u32>,
    ) -> Result<PageBuf, CommandError> {
        if range.is_empty() {
            return Ok(PageBuf::empty());
        }
        if let Some(number) = entry.inlined_number() {
            let page = self.pages.inlined().read(number).filter(|p| p.len() == entry.len_bytes());
            let page = page.ok_or_else(|| {
                CommandError::Medium(format!(
                    "page {lpid} cannot be read: it was inlined in the log, and is not there"
                ))
            })?;
            let nothing = || self.env.medium().unkept(range.end - range.start);
            return Ok(nothing().unwrap_or_else(|| page.slice(range.start as usize..range.end as usize)));
        }
        let (at, len, skip) = self.cells(entry.ppa(self.env.geometry()), &range);
        let medium = self.env.medium();
        let read = at!(ReplyUnverified => read_anyhow(medium, at, len), medium.read(at, len));
        let bytes = read.map_err(|e| match e.is_uncorrectable() {
            true => CommandError::Uncorrectable { lpid, ppa: at, what: e.to_string() },
            false => CommandError::Medium(e.to_string()),
        })?;
        Ok(if skip == 0 { bytes } else { bytes.slice(skip..) })
    }

    /// The cells to be read for a part of a page, if it is not empty and the page lies on the medium.
    pub(super) fn cells_of(self, entry: Entry, range: &Range<u32>) -> Option<(Ppa, u32, usize)> {
        let ppa = entry.place(self.env.geometry()).filter(|_| !range.is_empty())?;
        Some(self.cells(ppa, range))
    }

    /// The cells that a part of a page lies in, and how many bytes of the first come before it.
    fn cells(self, ppa: Ppa, range: &Range<u32>) -> (Ppa, u32, usize) {
        let first = range.start / CELL_BYTES as u32;
        let at = self
            .env
            .geometry()
            .ppa_from_cell(ppa.cell() + u64::from(first))
            .expect("a page lies on the medium");
        let from = first * CELL_BYTES as u32;
        (at, range.end - from, (range.start - from) as usize)
    }
}

/// Reads bytes even if they do not verify: the fault `ReplyUnverified`.
fn read_anyhow(medium: &Medium, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
    match medium.read(at, len) {
        Err(e) if e.is_uncorrectable() => medium.read_unverified(at, len),
        read => read,
    }
}
