//! What a unit of a scan task sees of the drive.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use lode_base::epochs::Epoch;
use lode_base::profile::ScanUnitKind;
use lode_base::{Lpid, PageBuf, ViewId};
use lode_command::{CommandError, PageRange};
use lode_flash::timing::{Model, Sink};
use lode_program::index::metered_verdict;
use lode_program::{IndexEntry, IndexRule, Program, Verdict};

use super::reader::Reader;
use crate::ScanPlacement;
use crate::compute::{Located, PageAccess, PageCost, Together};
use crate::entry::Entry;
use crate::pages::{GROUP_PAGES, Level, OldIndex};
use crate::planted::{self, Planted};

/// What filters rows. A pattern matcher knows no rows, so that cores filter them.
fn rows_of(m: &Model, placement: ScanPlacement) -> ScanPlacement {
    match m.profile().scan_unit.kind {
        ScanUnitKind::Comparators => placement,
        ScanUnitKind::Matcher => ScanPlacement::Core,
    }
}

/// Where pages go whose rows are filtered.
fn sink_of(m: &Model, placement: ScanPlacement) -> Sink {
    match rows_of(m, placement) {
        ScanPlacement::ScanUnit => Sink::ScanUnit,
        ScanPlacement::Core => Sink::Dram,
    }
}

/// The union that covers these pages.
fn level_of(pages: &PageRange) -> Level {
    let group = |page: u16| usize::from(page / GROUP_PAGES);
    let (first, last) = (group(pages.first), group(pages.first + pages.count - 1));
    if first == last { Level::Group(first) } else { Level::Extent }
}

/// What a unit of a scan task sees of the drive. EBLOCKs that it reads are not programmed again before it ended.
pub(crate) struct UnitAccess<'a> {
    reader: Reader<'a>,
    _epoch: Epoch<'a>,
    /// Pages that were found in the version table, with their index entries.
    old: RefCell<HashMap<Lpid, Option<Arc<OldIndex>>>>,
    view: ViewId,
    placement: ScanPlacement,
}

impl<'a> UnitAccess<'a> {
    pub(crate) fn new(reader: Reader<'a>, view: ViewId, placement: ScanPlacement) -> Self {
        if let Some(m) = reader.env().medium().model() {
            m.read_into(sink_of(m, placement));
        }
        Self { reader, _epoch: reader.env().epochs().enter(), old: RefCell::default(), view, placement }
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
        let (env, pages) = (self.reader.env(), self.reader.pages());
        assert_eq!(view, self.view, "a unit reads at one view");
        let commit = self.reader.view_commit(view)?;
        let page = pages.map_page(env, range.extent)?;
        let mut found = Vec::with_capacity(range.count.into());
        let mut old = self.old.borrow_mut();
        for p in range.first..range.first + range.count {
            let lpid = range.extent.page(p);
            let mut entry = page.as_ref().and_then(|m| m.load(p));
            let old_version = || pages.versions().find(lpid, commit);
            if let Some(v) = planted::instead(Planted::ScanOfAnotherView, old_version, || None) {
                entry = v.entry;
                old.insert(lpid, v.index);
            }
            if let Some(e) = entry {
                found.push(Located { lpid, entry: e });
            }
        }
        self.reader.view_commit(view)?;
        Ok(found)
    }

    fn charge(&self, placement: ScanPlacement, cost: &PageCost) {
        let Some(m) = self.reader.env().medium().model() else { return };
        let c = &m.profile().cores;
        m.dram(cost.matched_bytes);
        m.unpack(cost.unpacked_bytes);
        let mut cycles = u64::from(if cost.looked_up { c.lookup_cycles } else { 0 });
        cycles += cost.keys_compared * u64::from(c.index_cycles);
        cycles += u64::from(if cost.read { c.page_cycles } else { 0 });
        match rows_of(m, placement) {
            // The scan unit filters and adds up rows as they pass. The result goes to the memory of the device. Groups lie
            // there, too: a core looks each group up.
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
        let (env, pages) = (self.reader.env(), self.reader.pages());
        if let Some(old) = self.old.borrow().get(&at.lpid) {
            return old.as_ref().map(|o| Self::decode(o.rule.clone(), at.lpid, &o.bytes)).transpose();
        }
        let (extent, page) = (at.lpid.extent(), at.lpid.page());
        let Some(map) = pages.map_page(env, extent)? else { return Ok(None) };
        let is_it = |e: Entry| !e.redo() && e.same_place(at.entry);
        let Some(before) = map.load(page).filter(|e| is_it(*e)) else { return Ok(None) };
        let rules = pages.rules().get();
        let Some(rule) = pages.extents().owner(extent).and_then(|o| rules.get(o).cloned()) else {
            return Ok(None);
        };
        let Some(index) = pages.index_page(env, at.lpid, &rule)? else { return Ok(None) };
        let Some(bytes) = index.get(rule.number, page) else { return Ok(None) };
        // The index entry may be of a newer version: then the mapping has that version by now. The mapping page is looked up
        // again, since the one at hand may have been evicted, and a newer copy of it changed.
        let map = pages.map_page(env, extent)?;
        if map.and_then(|m| m.load(page)) != Some(before) {
            return Ok(None);
        }
        Self::decode(rule.rule, at.lpid, &bytes).map(Some)
    }

    fn excluded(&self, view: ViewId, range: PageRange, p: &Program) -> Result<Together, CommandError> {
        let (env, pages) = (self.reader.env(), self.reader.pages());
        let commit = self.reader.view_commit(view)?;
        let rules = pages.rules().get();
        let rule = pages.extents().owner(range.extent).and_then(|o| rules.get(o));
        let Some(rule) = rule else { return Ok(Together::default()) };
        let Some(union) = pages.union(env, range.extent, rule, level_of(&range))? else {
            return Ok(Together::default());
        };
        let (verdict, compared) = metered_verdict(p, &rule.rule, &union.entry);
        let keys_compared = compared + u64::from(union.looked_at);
        let no = Together { excluded: None, keys_compared };
        if verdict != Verdict::No {
            return Ok(no);
        }
        // The versions that the view shows are looked up after the union was taken, which is of the newest. Where none is older, the union
        // has the entry of what the view shows.
        let map = pages.map_page(env, range.extent)?;
        let mut excluded = 0;
        for page in range.first..range.first + range.count {
            let is_mapped = map.as_ref().is_some_and(|m| m.load(page).is_some());
            let is_old = || pages.versions().find(range.extent.page(page), commit).is_some();
            if is_mapped && !union.is_of(page) || planted::instead(Planted::UnionOfNewest, is_old, || false) {
                return Ok(no);
            }
            excluded += u64::from(is_mapped);
        }
        self.reader.view_commit(view)?;
        Ok(Together { excluded: Some(excluded), keys_compared })
    }

    fn read_own(&self, at: &Located) -> Result<(PageBuf, u64), CommandError> {
        let (bytes, media_bytes) = self.read(at, 0..at.len_bytes())?;
        // A short page would keep the whole read unit that it lies in.
        let is_short = at.len_bytes() < self.reader.env().geometry().rblock_bytes();
        Ok((if is_short { PageBuf::copy_from(&bytes) } else { bytes }, media_bytes))
    }

    fn read_past_matcher(&self, at: &Located) -> Result<(PageBuf, u64), CommandError> {
        let Some(m) = self.reader.env().medium().model() else { return self.read(at, 0..at.len_bytes()) };
        m.read_into(Sink::ScanUnit);
        let read = self.read(at, 0..at.len_bytes());
        m.read_into(sink_of(m, self.placement));
        read
    }

    fn read(&self, at: &Located, range: Range<u32>) -> Result<(PageBuf, u64), CommandError> {
        at.check_has(&range)?;
        // The bytes are pinned while the view is open, and the epoch keeps them if it closes meanwhile.
        let cells = self.reader.cells_of(at.entry, &range);
        let media_bytes =
            cells.map_or(0, |(from, len, _)| self.reader.env().medium().read_units_bytes(from, len));
        Ok((self.reader.read_range(at.lpid, at.entry, range)?, media_bytes))
    }
}
