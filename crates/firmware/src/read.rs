//! The read path: from an LPID, at a view, to bytes. No lock is held over I/O.
//!
//! ```text
//!   epoch ─► mapping entry ─► version table, if at a view ─► view still open? ─► RBLOCKs of the wanted part
//! ```
//!
//! Source: ELEOS §V.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use lode_base::epochs::Epoch;
use lode_base::{CELL_BYTES, Lpid, PageBuf, Ppa, ViewId};
use lode_command::{ANSWER_BYTES_MAX, CommandError, PageRange, ReadRequest, Reply, check_answer};
use lode_flash::timing::Sink;
use lode_program::{IndexEntry, IndexRule};

use crate::ScanPlacement;
use crate::compute::{Located, PageAccess, PageCost};
use crate::core::Core;
use crate::entry::Entry;
use crate::pages::OldIndex;
use crate::planted::{self, Planted};

/// Pages of a command that are looked up before the first of them is read.
const PAGES_AHEAD: usize = 32;

impl Core {
    /// The commit that a view shows.
    pub(crate) fn view_commit(&self, view: ViewId) -> Result<u64, CommandError> {
        self.versions.commit_of(view).ok_or(CommandError::ViewClosed(view))
    }

    /// Reads pages or parts of them.
    pub(crate) fn read_pages(
        &self,
        view: Option<ViewId>,
        pages: &[ReadRequest],
    ) -> Result<Reply, CommandError> {
        // Fewer fit, whatever they are.
        let many = pages.len() as u64 * u64::from(self.identity.page_bytes_max) > ANSWER_BYTES_MAX;
        let mut left = ANSWER_BYTES_MAX;
        if many {
            check_answer(self.answer_bytes(view, pages)?)?;
        }
        let mut read = Vec::with_capacity(pages.len());
        if let Some(m) = self.medium.model() {
            m.think(u64::from(m.profile().cores.lookup_cycles) * pages.len() as u64);
        }
        for some in pages.chunks(PAGES_AHEAD) {
            let _epoch = self.epochs.enter();
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

    /// Bytes of what is asked for, as far as there is no error: nothing is read. What can not be looked up ends the answer
    /// there, with an error.
    fn answer_bytes(&self, view: Option<ViewId>, pages: &[ReadRequest]) -> Result<u64, CommandError> {
        let mut bytes = 0;
        for some in pages.chunks(PAGES_AHEAD) {
            let _epoch = self.epochs.enter();
            let commit = view.map(|v| self.view_commit(v)).transpose()?;
            for r in some {
                let Ok((_, range)) = self.located(view, commit, r) else { return Ok(bytes) };
                bytes += u64::from(range.end - range.start);
            }
        }
        Ok(bytes)
    }

    /// Of many pages the last `count` were read: what is left of the answer. They may have grown since they were looked up,
    /// and small parts do not keep the read units that they lie in.
    fn took(&self, left: u64, read: &mut [PageBuf], count: usize) -> Result<u64, CommandError> {
        let from = read.len() - count;
        let mut bytes = 0;
        for page in &mut read[from..] {
            bytes += page.len() as u64;
            if page.len() < self.geometry().rblock_bytes() as usize {
                *page = PageBuf::copy_from(page);
            }
        }
        if bytes > left {
            check_answer(ANSWER_BYTES_MAX - left + bytes)?;
        }
        Ok(left - bytes)
    }

    /// Asks the CPU for the mapping entries of pages that are to be read, as far as they are in memory: where they are in none
    /// of its caches, it need not wait for one after the other.
    pub(crate) fn prefetch(&self, pages: &[ReadRequest]) {
        for r in pages.iter().take(PAGES_AHEAD) {
            self.map.look(r.lpid.extent().raw(), |map| map.prefetch(r.lpid.page()));
        }
    }

    /// Reads pages, all of which are looked up before the first is read: the CPU waits for what is in none of its caches once,
    /// instead of for each. The caller is in an epoch.
    fn read_together(
        &self,
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
                        self.medium.prefetch(at, len);
                    }
                    found.push((r.lpid, entry, range));
                }
                // What comes before it is read first: the first error counts.
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

    /// The newest entry of a page. The caller is in an epoch.
    fn newest(&self, lpid: Lpid) -> Result<Option<Entry>, CommandError> {
        let (extent, page) = (lpid.extent().raw(), lpid.page());
        Ok(match self.map.look(extent, |p| p.load(page)) {
            Some(entry) => entry,
            None => self.map.get(&self.medium, &self.epochs, extent)?.and_then(|p| p.load(page)),
        })
    }

    /// The entry of a page at a view, which shows `commit`, or at the newest commit; and which of its bytes are to be read.
    /// The caller is in an epoch.
    fn located(
        &self,
        view: Option<ViewId>,
        commit: Option<u64>,
        r: &ReadRequest,
    ) -> Result<(Entry, Range<u32>), CommandError> {
        let newest = self.newest(r.lpid)?;
        let old = commit.and_then(|c| self.versions.find(r.lpid, c));
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

    /// As [`Core::read_range`]; on a modelled device the bytes go to the host as soon as they are read.
    fn read_up(&self, lpid: Lpid, entry: Entry, range: Range<u32>) -> Result<PageBuf, CommandError> {
        let bytes = self.read_range(lpid, entry, range)?;
        if let Some(m) = self.medium.model() {
            m.up(bytes.len() as u64);
        }
        Ok(bytes)
    }

    /// Bytes `range` of the page that an entry names. The caller is in the epoch in which it found the entry.
    pub(crate) fn read_range(
        &self,
        lpid: Lpid,
        entry: Entry,
        range: Range<u32>,
    ) -> Result<PageBuf, CommandError> {
        if range.is_empty() {
            return Ok(PageBuf::empty());
        }
        if let Some(number) = entry.inlined_number() {
            let page = self.inlined.read(number).filter(|p| p.len() == entry.len_bytes());
            let page = page.ok_or_else(|| {
                CommandError::Medium(format!(
                    "page {lpid} can not be read: it was inlined in the log, and is not there"
                ))
            })?;
            let nothing = || self.medium.unkept(range.end - range.start);
            return Ok(nothing().unwrap_or_else(|| page.slice(range.start as usize..range.end as usize)));
        }
        let (at, len, skip) = self.cells(entry.ppa(self.geometry()), &range);
        let read = match self.medium.read(at, len) {
            Err(e) if e.is_uncorrectable() && planted::is(Planted::ReplyUnverified) => {
                self.medium.read_unverified(at, len)
            }
            read => read,
        };
        let bytes = read.map_err(|e| match e.is_uncorrectable() {
            true => CommandError::Uncorrectable { lpid, ppa: at, what: e.to_string() },
            false => CommandError::Medium(e.to_string()),
        })?;
        Ok(if skip == 0 { bytes } else { bytes.slice(skip..) })
    }

    /// The cells to be read for a part of a page, if it is not empty and the page lies on the medium.
    fn cells_of(&self, entry: Entry, range: &Range<u32>) -> Option<(Ppa, u32, usize)> {
        let ppa = entry.place(self.geometry()).filter(|_| !range.is_empty())?;
        Some(self.cells(ppa, range))
    }

    /// The cells that a part of a page lies in, and how many bytes of the first come before it.
    fn cells(&self, ppa: Ppa, range: &Range<u32>) -> (Ppa, u32, usize) {
        let first = range.start / CELL_BYTES as u32;
        let at =
            self.geometry().ppa_from_cell(ppa.cell() + u64::from(first)).expect("a page lies on the medium");
        let from = first * CELL_BYTES as u32;
        (at, range.end - from, (range.start - from) as usize)
    }
}

/// What a unit of a scan sees of the drive: EBLOCKs that it reads are not programmed again until it ended.
pub(crate) struct UnitAccess<'a> {
    core: &'a Core,
    _epoch: Epoch<'a>,
    /// Pages that were found in the version table, with their index entries.
    old: RefCell<HashMap<Lpid, Option<Arc<OldIndex>>>>,
    view: ViewId,
}

impl<'a> UnitAccess<'a> {
    pub(crate) fn new(core: &'a Core, view: ViewId, placement: ScanPlacement) -> Self {
        if let Some(m) = core.medium.model() {
            m.read_into(match placement {
                ScanPlacement::ScanUnit => Sink::ScanUnit,
                ScanPlacement::Core => Sink::Dram,
            });
        }
        Self { core, _epoch: core.epochs.enter(), old: RefCell::default(), view }
    }

    fn decode(
        rule: Arc<IndexRule>,
        lpid: Lpid,
        bytes: &[u8],
    ) -> Result<(Arc<IndexRule>, IndexEntry), CommandError> {
        let entry = IndexEntry::decode(&rule, bytes)
            .map_err(|e| CommandError::Medium(format!("the index entry of page {lpid}: {e}")))?;
        Ok((rule, entry))
    }
}

impl PageAccess for UnitAccess<'_> {
    fn mapped(&self, view: ViewId, range: PageRange) -> Result<Vec<Located>, CommandError> {
        let core = self.core;
        assert_eq!(view, self.view, "a unit reads at one view");
        let commit = core.view_commit(view)?;
        let page = core.map.get(&core.medium, &core.epochs, range.extent.raw())?;
        let mut found = Vec::with_capacity(range.count.into());
        let mut old = self.old.borrow_mut();
        for p in range.first..range.first + range.count {
            let lpid = range.extent.page(p);
            let mut entry = page.as_ref().and_then(|m| m.load(p));
            if let Some(v) = core.versions.find(lpid, commit) {
                entry = v.entry;
                old.insert(lpid, v.index);
            }
            if let Some(e) = entry {
                found.push(Located { lpid, entry: e });
            }
        }
        core.view_commit(view)?;
        Ok(found)
    }

    fn charge(&self, placement: ScanPlacement, cost: &PageCost) {
        let Some(m) = self.core.medium.model() else { return };
        let c = &m.profile().cores;
        let mut cycles = u64::from(if cost.looked_up { c.lookup_cycles } else { 0 });
        cycles += u64::from(if cost.index { c.index_cycles } else { 0 });
        cycles += u64::from(if cost.read { c.page_cycles } else { 0 });
        match placement {
            // Each row is looked at as it passes, and added up; what comes out goes to the memory of the device. Groups
            // lie there too: a core looks each up.
            ScanPlacement::ScanUnit => {
                if cost.grouped {
                    m.compute_rows(cost.rows_aggregated * u64::from(c.aggregate_cycles));
                }
                m.dram(cost.bytes_out);
            }
            ScanPlacement::Core => {
                let (compare, emit) = (u64::from(c.compare_cycles), u64::from(c.emit_cycles));
                let add = u64::from(c.aggregate_cycles);
                m.compute_rows(cost.rows_in * compare + cost.rows_out * emit + cost.rows_aggregated * add);
                m.dram(cost.bytes_out);
            }
        }
        m.compute(cycles);
    }

    fn index_entry(&self, at: &Located) -> Result<Option<(Arc<IndexRule>, IndexEntry)>, CommandError> {
        let core = self.core;
        if let Some(old) = self.old.borrow().get(&at.lpid) {
            return old.as_ref().map(|o| Self::decode(o.rule.clone(), at.lpid, &o.bytes)).transpose();
        }
        let (extent, page) = (at.lpid.extent(), at.lpid.page());
        let Some(map) = core.map.get(&core.medium, &core.epochs, extent.raw())? else { return Ok(None) };
        let is_it = |e: Entry| !e.redo() && e.same_place(at.entry);
        let Some(before) = map.load(page).filter(|e| is_it(*e)) else { return Ok(None) };
        let rules = core.rules.read().clone();
        let Some(rule) = core.extents.read().owner(extent).and_then(|o| rules.get(o).cloned()) else {
            return Ok(None);
        };
        let Some(index) = core.index.get(&core.medium, &core.epochs, extent.raw())? else { return Ok(None) };
        let Some(bytes) = index.get(rule.number, page) else { return Ok(None) };
        // The entry of a newer version can have come between: then the mapping has that version by now. The
        // mapping page is looked up anew, since the one at hand may have left memory, and been changed
        // elsewhere, since.
        let map = core.map.get(&core.medium, &core.epochs, extent.raw())?;
        if map.and_then(|m| m.load(page)) != Some(before) {
            return Ok(None);
        }
        Self::decode(rule.rule, at.lpid, &bytes).map(Some)
    }

    fn read(&self, at: &Located, range: Range<u32>) -> Result<(PageBuf, u64), CommandError> {
        let core = self.core;
        if range.start > range.end || range.end > at.len_bytes() {
            let what = format!("it has {} bytes, and its directory names {range:?}", at.len_bytes());
            return Err(CommandError::BadPage { lpid: at.lpid, what });
        }
        // The bytes are pinned while the view is open, and the epoch keeps them if it closes meanwhile.
        let cells = core.cells_of(at.entry, &range);
        let media_bytes = cells.map_or(0, |(from, len, _)| core.medium.read_units_bytes(from, len));
        Ok((core.read_range(at.lpid, at.entry, range)?, media_bytes))
    }
}
