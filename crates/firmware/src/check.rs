//! Check: walks every structure of a drive, and reports what is wrong.
//!
//! ```text
//!   checkpoint slots ─► log ─► tables ─► each mapping page ─► each page: verified, in a used EBLOCK, alone there,
//!                                                            its index entry made again and compared
//!   and at the end: bytes counted = bytes in the summary
//! ```

use std::collections::{BTreeMap, BTreeSet};

use lode_base::{EXTENT_PAGES, EblockId, ExtentId, Lpid};
use lode_flash::WblockState;

use crate::CheckReport;
use crate::checkpoint::{BadRecord, CheckpointRecord};
use crate::commit::CommitState;
use crate::compute::entry_of;
use crate::core::Core;
use crate::entry::Entry;
use crate::log::check_log;
use crate::own::{OwnKind, PageCache, Resident, TABLES, read_page};
use crate::pages::{GROUP_PAGES, MapPage, Rules, index_parts};
use crate::space::{PageName, State, read_metadata};

/// A walk under way.
struct Walk<'a> {
    core: &'a Core,
    report: CheckReport,
    /// What lies in each EBLOCK: (first byte, end, what).
    places: BTreeMap<EblockId, Vec<Piece>>,
}

/// Bytes of an EBLOCK that are needed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    from: u32,
    to: u32,
    name: PageName,
}

/// Walks every structure. Batches wait until it is over.
pub(crate) fn check(core: &Core) -> CheckReport {
    let _background = core.upkeep().lock();
    let mut walk = Walk { core, report: CheckReport::default(), places: BTreeMap::new() };
    if core.env().is_writable()
        && let Err(e) = core.committer().reclaim()
    {
        core.env().note(&e);
        walk.problem(e.to_string());
    }
    // Nothing is installed while the commit lock is held.
    let state = core.state();
    walk.records(&state);
    walk.tables(&state);
    walk.resident(core.pages().map());
    walk.resident(core.pages().index());
    walk.extents(&state);
    walk.space(&state);
    walk.report
}

impl Walk<'_> {
    fn problem(&mut self, what: impl Into<String>) {
        self.report.problems.push(what.into());
    }

    /// The checkpoint slots, and the log from the newest record on.
    fn records(&mut self, state: &CommitState) {
        let m = self.core.env().medium();
        let slots = match m.read_checkpoint_records() {
            Ok(slots) => slots,
            Err(e) => return self.problem(e.to_string()),
        };
        for (i, slot) in slots.iter().enumerate() {
            if slot.is_none() {
                self.problem(format!("checkpoint slot {i} holds no whole record"));
            }
        }
        let newest = match m.newest_checkpoint_record() {
            Ok(newest) => newest,
            Err(e) => return self.problem(e.to_string()),
        };
        let Some((slot, bytes)) = newest else { return };
        let record = match CheckpointRecord::decode(&bytes, m.geometry()) {
            Ok(r) => r,
            Err(BadRecord::Malformed(e)) => return self.problem(format!("checkpoint slot {slot}: {e}")),
            Err(BadRecord::Newer(v)) => return self.problem(format!("checkpoint slot {slot}: version {v}")),
        };
        if state.tables().root() != Some(record.root) && !state.tables().superseded().contains(&record.root) {
            self.problem("the root that the checkpoint record names is let go");
        }
        if !self.core.env().is_writable() {
            return;
        }
        // Pending records have no log page yet.
        let expected = state.log_position().lsn - 1;
        match check_log(m, &record.log, expected) {
            Err(e) => self.problem(e.to_string()),
            Ok(read) => {
                if read.lsn < expected {
                    let end = read.lsn;
                    self.problem(format!(
                        "the log ends with page {end}, and should go up to page {expected}"
                    ));
                }
                if read.repaired > 0 {
                    self.problem(format!(
                        "{} pages of the log are whole in their second copy only",
                        read.repaired
                    ));
                }
            }
        }
    }

    /// The root, the pieces of the tables, and what only the newest checkpoint needs.
    fn tables(&mut self, state: &CommitState) {
        let m = self.core.env().medium();
        if let Some(root) = state.tables().root() {
            self.own_page(OwnKind::Root, 0, root);
        }
        for kind in TABLES {
            for (piece, home) in state.tables().pieces(kind) {
                self.own_page(kind, piece as u64, home);
            }
        }
        for old in state.tables().superseded() {
            let at = old.ppa(m.geometry());
            if let Err(e) = m.read(at, old.len_bytes() as u32) {
                self.problem(format!("a page of the newest checkpoint at {at}: {e}"));
            }
        }
    }

    /// Reads a page of the drive's own, which lies at `home`.
    fn own_page(&mut self, kind: OwnKind, number: u64, home: Entry) -> Option<Vec<u8>> {
        self.place(home, PageName::Own(kind, number));
        match read_page(self.core.env().medium(), kind, number, home) {
            Ok(bytes) => Some(bytes),
            Err(e) => {
                self.problem(e.to_string());
                None
            }
        }
    }

    /// The written pages of a cache: each decodes, and equals the page in memory if that is clean.
    fn resident<T: Resident>(&mut self, cache: &PageCache<T>) {
        for n in cache.at_home_in(|_| true) {
            let Some(home) = cache.home(n) else { continue };
            let Some(bytes) = self.own_page(T::KIND, n, home) else { continue };
            if let Err(what) = T::decode(n, &bytes, self.core.env().geometry()) {
                self.problem(format!("{} {n}: {what}", T::KIND));
            } else if cache.clean(n).is_some_and(|p| p.encode() != bytes) {
                self.problem(format!("{} {n} is not what memory has", T::KIND));
            }
        }
    }

    fn extents(&mut self, state: &CommitState) {
        let core = self.core;
        let (env, pages) = (core.env(), core.pages());
        let rules = pages.rules().get();
        for extent in (0..pages.extents_end()).map_while(ExtentId::new) {
            let map = match pages.map_page(env, extent) {
                Ok(Some(map)) => map,
                Ok(None) => continue,
                // It was reported when the page was read at its home.
                Err(_) => continue,
            };
            let parts = index_parts(extent).enumerate().map(|(part, n)| (n, part as u16 * GROUP_PAGES));
            for (number, first) in std::iter::once((extent.raw(), 0)).chain(parts) {
                self.index_page(extent, &map, number, first);
            }
            self.extent(state, extent, &map, &rules);
        }
    }

    /// An index page has entries of mapped pages only: its first slot is of page `first` of the extent.
    fn index_page(&mut self, extent: ExtentId, map: &MapPage, number: u64, first: u16) {
        let env = self.core.env();
        // One that cannot be read was reported when it was read at its home.
        let index = self.core.pages().index().get(env.medium(), env.epochs(), number).ok().flatten();
        let slots_max = if number == extent.raw() { EXTENT_PAGES as u16 } else { GROUP_PAGES };
        for slot in index.iter().flat_map(|index| index.slots()) {
            if slot >= slots_max {
                self.problem(format!("index page {number} has an entry beyond its pages"));
            } else if map.load(first + slot).is_none_or(Entry::redo) {
                let lpid = extent.page(first + slot);
                self.problem(format!("page {lpid} has an index entry that is not its own"));
            }
        }
    }

    fn extent(&mut self, state: &CommitState, extent: ExtentId, map: &MapPage, rules: &Rules) {
        let core = self.core;
        let owner = core.pages().extents().owner(extent);
        if owner.is_none() && map.mapped().next().is_some() {
            self.problem(format!("extent {extent} has pages and no owner"));
        }
        for (page, entry) in map.mapped() {
            let lpid = extent.page(page);
            self.place(entry, PageName::User(lpid));
            if let Some(e) = entry.eblock(core.env().geometry()) {
                let state = state.eblocks().descriptor(e).state;
                if !matches!(state, State::Open { .. } | State::Used { .. } | State::Failed { .. }) {
                    self.problem(format!("page {lpid} lies in {e:?}, which is {state:?}"));
                }
            }
            let bytes = match core.reader().read_range(lpid, entry, 0..entry.len_bytes() as u32) {
                Ok(bytes) => bytes,
                Err(e) => {
                    self.problem(e.to_string());
                    continue;
                }
            };
            let rule = owner.and_then(|o| rules.get(o)).filter(|_| !entry.redo());
            let index = |r| core.pages().index_page(core.env(), lpid, r).ok().flatten();
            let kept = rule.and_then(|r| Some((r, index(r)?.get(r.number, page)?)));
            if let Some((r, kept)) = kept {
                self.index_entry(lpid, &kept, entry_of(&r.rule, lpid, &bytes).map(|e| e.encode()));
            }
        }
    }

    fn index_entry(&mut self, lpid: Lpid, kept: &[u8], made: Result<Vec<u8>, lode_command::CommandError>) {
        match made {
            Ok(made) if made == kept => {}
            Ok(_) => self.problem(format!("the index entry of page {lpid} is not that of the page")),
            Err(e) => self.problem(format!("the index entry of page {lpid} cannot be made again: {e}")),
        }
    }

    /// The first programmed WBLOCK of an open EBLOCK from `end` on.
    fn behind(&self, e: EblockId, end: u32) -> Option<u32> {
        let m = self.core.env().medium();
        let programmed = |w: &u32| m.probe(e, *w).is_ok_and(|s| s != WblockState::Empty);
        (end.max(m.next_wblock(e))..m.geometry().wblocks_per_eblock()).find(programmed)
    }

    /// Notes that the bytes of a page are needed.
    fn place(&mut self, entry: Entry, name: PageName) {
        let g = self.core.env().geometry();
        self.report.pages += 1;
        self.report.bytes += entry.len_bytes() as u64;
        let Some(ppa) = entry.place(g) else { return };
        let (e, from) = g.locate(ppa);
        self.places.entry(e).or_default().push(Piece { from, to: from + entry.cells_bytes(), name });
    }

    /// No two pages overlap; no page lies beyond the programmed end; the summary counts the bytes that were found; the metadata
    /// of each EBLOCK names its pages.
    fn space(&mut self, state: &CommitState) {
        let mut problems = Vec::new();
        let mut places = std::mem::take(&mut self.places);
        let g = *self.core.env().geometry();
        for (e, d) in state.eblocks().descriptors() {
            let mut here = places.remove(&e).unwrap_or_default();
            here.sort_unstable();
            for two in here.windows(2) {
                if two[0].to > two[1].from {
                    problems.push(format!("{} and {} overlap in {e:?}", two[0].name, two[1].name));
                }
            }
            let end = self.core.env().medium().next_wblock(e).min(d.data_end) * g.wblock_bytes();
            if let Some(beyond) = here.iter().find(|p| p.to > end) {
                problems.push(format!("{} lies beyond what was programmed of {e:?}", beyond.name));
            }
            if let (State::Open { .. }, Some(at)) = (d.state, self.behind(e, d.data_end)) {
                problems.push(format!("WBLOCK {at} of {e:?} is programmed, and will be again"));
            }
            let live: u64 = here.iter().map(|p| u64::from(p.to - p.from)).sum();
            if live != u64::from(d.live) {
                problems.push(format!("{e:?} has {live} live bytes, and the summary says {}", d.live));
            }
            if here.is_empty() {
                continue;
            }
            let names: BTreeSet<PageName> = match state.eblocks().unwritten_of(e) {
                Some(words) => words.iter().filter_map(|&w| PageName::from_word(w)).collect(),
                None => match read_metadata(self.core.env().medium(), e, d.data_end, d.metadata) {
                    Ok(words) => words.into_iter().filter_map(PageName::from_word).collect(),
                    Err(what) => {
                        problems.push(what.to_string());
                        continue;
                    }
                },
            };
            if let Some(p) = here.iter().find(|p| !names.contains(&p.name)) {
                problems.push(format!("the metadata of {e:?} does not name {}", p.name));
            }
        }
        for (e, here) in places {
            problems.push(format!("{} lies in {e:?}, which was never used", here[0].name));
        }
        self.report.problems.append(&mut problems);
    }
}
