//! Walks every structure of a drive, and says what is wrong.
//!
//! ```text
//!   checkpoint slots ─► log ─► tables ─► each mapping page ─► each page: verified, in a used EBLOCK, alone there,
//!                                                            its index entry made again and compared
//!   and at the end: bytes counted = bytes in the summary
//! ```

use std::collections::BTreeMap;

use lode_base::{EblockId, ExtentId, Lpid};

use crate::CheckReport;
use crate::checkpoint::{BadRecord, CheckpointRecord, TABLES};
use crate::compute::entry_of;
use crate::core::{Core, Writer};
use crate::drive_page::{self, DriveKind};
use crate::index::{IndexPage, Rules};
use crate::log::read_log;
use crate::map::{Entry, MapPage, PageCache, Resident};
use crate::summary::State;

/// A walk under way.
struct Walk<'a> {
    core: &'a Core,
    report: CheckReport,
    /// What lies in each EBLOCK: (first byte, end, what).
    places: BTreeMap<EblockId, Vec<(u32, u32, String)>>,
}

impl Core {
    /// Walks every structure. Batches wait until it is over.
    pub(crate) fn check(&self) -> CheckReport {
        let mut w = self.writer.lock();
        let mut walk = Walk { core: self, report: CheckReport::default(), places: BTreeMap::new() };
        if self.read_only.get().is_none()
            && let Err(e) = self.reclaim(&mut w)
        {
            walk.problem(self.failed(e).to_string());
        }
        walk.records(&w);
        walk.tables(&w);
        walk.resident(&self.map);
        walk.resident(&self.index);
        walk.extents(&w);
        walk.space(&w);
        walk.report
    }
}

impl Walk<'_> {
    fn problem(&mut self, what: impl Into<String>) {
        self.report.problems.push(what.into());
    }

    /// The checkpoint slots, and the log from the newest record on.
    fn records(&mut self, w: &Writer) {
        let m = &self.core.medium;
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
        if self.core.read_only.get().is_some() {
            return;
        }
        match read_log(m, record.log) {
            Err(e) => self.problem(e.to_string()),
            Ok(read) => {
                let end = read.groups.last().map_or(record.log.lsn, |g| g.lsn + 1);
                let expected = w.log.place().lsn;
                if end != expected {
                    self.problem(format!(
                        "the log ends before page {end}, and should end before page {expected}"
                    ));
                }
            }
        }
    }

    /// The root, the pieces of the tables, and what only the newest checkpoint needs.
    fn tables(&mut self, w: &Writer) {
        let m = &self.core.medium;
        if let Some(root) = w.tables.root {
            self.own_page(DriveKind::Root, 0, root);
        }
        for kind in TABLES {
            for (piece, home) in w.tables.pieces(kind) {
                self.own_page(kind, piece as u64, home);
            }
        }
        for old in &w.superseded {
            let at = old.ppa(m.geometry());
            if let Err(e) = m.read(at, old.len_bytes() as u32) {
                self.problem(format!("a page of the newest checkpoint at {at}: {e}"));
            }
        }
    }

    /// Reads a page of the drive's own, which lies at `home`.
    fn own_page(&mut self, kind: DriveKind, number: u64, home: Entry) -> Option<Vec<u8>> {
        self.place(home, || format!("{kind} {number}"));
        match drive_page::read(&self.core.medium, kind, number, home) {
            Ok(bytes) => Some(bytes),
            Err(e) => {
                self.problem(e.to_string());
                None
            }
        }
    }

    /// The written pages of a cache: each decodes, and is what memory has where that did not change since.
    fn resident<T: Resident>(&mut self, cache: &PageCache<T>) {
        for n in cache.at_home_in(|_| true) {
            let Some(home) = cache.home(n) else { continue };
            let Some(bytes) = self.own_page(T::KIND, n, home) else { continue };
            if let Err(what) = T::decode(&bytes, self.core.geometry()) {
                self.problem(format!("{} {n}: {what}", T::KIND));
            } else if cache.clean(n).is_some_and(|p| p.encode() != bytes) {
                self.problem(format!("{} {n} is not what memory has", T::KIND));
            }
        }
    }

    fn extents(&mut self, w: &Writer) {
        let core = self.core;
        let rules = core.rules.read().clone();
        for n in 0..core.map.numbers() {
            let Some(extent) = ExtentId::new(n) else { break };
            let map = match core.map.get(&core.medium, &core.epochs, n) {
                Ok(Some(map)) => map,
                Ok(None) => continue,
                // It was told already, when the page was read at its home.
                Err(_) => continue,
            };
            let index = core.index.get(&core.medium, &core.epochs, n).ok().flatten();
            self.extent(w, extent, &map, index.as_deref(), &rules);
        }
    }

    fn extent(
        &mut self,
        w: &Writer,
        extent: ExtentId,
        map: &MapPage,
        index: Option<&IndexPage>,
        rules: &Rules,
    ) {
        let core = self.core;
        let owner = core.extents.read().owner(extent);
        if owner.is_none() && map.mapped().next().is_some() {
            self.problem(format!("extent {extent} has pages and no owner"));
        }
        for (page, entry) in map.mapped() {
            let lpid = extent.page(page);
            let ppa = entry.ppa(core.geometry());
            self.place(entry, || format!("page {lpid}"));
            let (e, _) = core.geometry().locate(ppa);
            let state = w.space.summary.get(e).state;
            if !matches!(state, State::Open { .. } | State::Used { .. }) {
                self.problem(format!("page {lpid} lies in {e:?}, which is {state:?}"));
            }
            let bytes = match core.read_range(lpid, ppa, 0..entry.len_bytes() as u32) {
                Ok(bytes) => bytes,
                Err(e) => {
                    self.problem(e.to_string());
                    continue;
                }
            };
            let rule = owner.and_then(|o| rules.get(o)).filter(|_| !entry.redo());
            let kept = rule.and_then(|r| Some((r, index?.get(r.number, page)?)));
            if let Some((r, kept)) = kept {
                self.index_entry(lpid, &kept, entry_of(&r.rule, lpid, &bytes).map(|e| e.encode()));
            }
        }
    }

    fn index_entry(&mut self, lpid: Lpid, kept: &[u8], made: Result<Vec<u8>, lode_command::CommandError>) {
        match made {
            Ok(made) if made == kept => {}
            Ok(_) => self.problem(format!("the index entry of page {lpid} is not that of the page")),
            Err(e) => self.problem(format!("the index entry of page {lpid} can not be made again: {e}")),
        }
    }

    /// Notes that bytes are needed.
    fn place(&mut self, entry: Entry, what: impl Fn() -> String) {
        let g = self.core.geometry();
        let (e, offset) = g.locate(entry.ppa(g));
        self.report.pages += 1;
        self.report.bytes += entry.len_bytes() as u64;
        self.places.entry(e).or_default().push((offset, offset + entry.cells_bytes(), what()));
    }

    /// No two pages overlap, none lies beyond the programmed end, and the summary counts what was found.
    fn space(&mut self, w: &Writer) {
        let mut problems = Vec::new();
        let mut places = std::mem::take(&mut self.places);
        for (e, d) in w.space.summary.all() {
            let mut here = places.remove(&e).unwrap_or_default();
            here.sort_unstable();
            for two in here.windows(2) {
                if two[0].1 > two[1].0 {
                    problems.push(format!("{} and {} overlap in {e:?}", two[0].2, two[1].2));
                }
            }
            let end = self.core.medium.next_wblock(e) * self.core.geometry().wblock_bytes();
            if let Some(beyond) = here.iter().find(|p| p.1 > end) {
                problems.push(format!("{} lies beyond what was programmed of {e:?}", beyond.2));
            }
            let live: u64 = here.iter().map(|p| u64::from(p.1 - p.0)).sum();
            if live != u64::from(d.live) {
                problems.push(format!("{e:?} has {live} live bytes, and the summary says {}", d.live));
            }
        }
        for (e, here) in places {
            problems.push(format!("{} lies in {e:?}, which was never used", here[0].2));
        }
        self.report.problems.append(&mut problems);
    }
}
