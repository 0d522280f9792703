//! Pass 1: restores addresses. It finds the end of the log, the homes of own pages, and what happened to EBLOCKs.
//!
//! ```text
//!   group ─► known durable, or verified? ─► homes of own pages, live bytes by EBLOCK, EBLOCKs opened and closed
//! ```
//!
//! Invariant: the memory that this takes depends on the number of EBLOCKs and own pages, not on pages of users; except for
//! those of groups that may not be durable.
//!
//! Source: ELEOS §VIII-C1.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use lode_base::EblockId;

use super::context::Recovery;
use crate::FirmwareError;
use crate::checkpoint::CheckpointRecord;
use crate::entry::Entry;
use crate::log::{Group, LogEnd, decode_buffer, read_log_judged};
use crate::own::{OwnKind, PART_PIECES_FROM};
use crate::planted::at;
use crate::record::Record;
use crate::space::{PageName, read_metadata};

/// Most pieces of a table: 256 TB of pages of 64 bytes.
const PIECES_MAX: u64 = 1 << 22;

/// What pass 1 finds in the log.
#[derive(Default)]
pub(super) struct Found {
    /// The LSN as of which an own page was written last.
    pub(super) as_of: HashMap<(OwnKind, u64), u64>,
    /// Where mapping and index pages went, in order.
    pub(super) moved: Vec<(OwnKind, u64, Option<Entry>)>,
    /// What happened to EBLOCKs, in order.
    pub(super) changes: Vec<(u64, Change)>,
    /// Cells that users wrote.
    pub(super) cells: u64,
    /// EBLOCKs that rejected groups name: groups whose data is not whole.
    pub(super) rejected: BTreeSet<EblockId>,
    /// The group in the power-protected buffer that the log does not have.
    pub(super) pending: Option<Group>,
    pub(super) groups: u64,
    pub(super) records: u64,
    /// The kinds of the records of the last group, a bit each.
    pub(super) last_kinds: u16,
}

pub(super) enum Change {
    State(Record),
    /// Bytes that live more, bytes that live less, and the WBLOCK up to which pages were found.
    Live {
        eblock: EblockId,
        added: u64,
        freed: u64,
        data_end: u32,
    },
}

/// Whether a table may have a piece of this number.
fn is_piece(kind: OwnKind, number: u64) -> bool {
    let parts = PART_PIECES_FROM as u64;
    number < PIECES_MAX || kind == OwnKind::IndexHomes && (parts..2 * parts).contains(&number)
}

impl Found {
    /// Whether a record at `lsn` came after the page was written.
    pub(super) fn lacks(&self, kind: OwnKind, number: u64, lsn: u64) -> bool {
        let lsn = at!(ReplayedOnceMore => lsn + 1, lsn);
        self.as_of.get(&(kind, number)).is_none_or(|&as_of| lsn > as_of)
    }
}

impl Recovery<'_> {
    /// Restores addresses: where the log ends, and where the drive's own pages lie.
    pub(super) fn pass_1(self, record: &CheckpointRecord) -> Result<(Found, LogEnd), FirmwareError> {
        let mut found = Found::default();
        let buffer = self.medium().protected();
        let pending = at!(PendingNotReplayed => None, decode_buffer(&buffer));
        // Groups before the checkpoint record are durable, and so are all before the pending group.
        let is_sure = |group: &Group| group.lsn <= record.end || pending.is_some_and(|p| group.lsn <= p.0);
        let mut rejected = BTreeSet::new();
        let mut judge = |last: &[Group]| {
            last.iter().for_each(|group| self.note_generations(group));
            let count = at!(GroupNotVerified => Ok(last.len()), self.whole(last, is_sure))?;
            let g = self.geometry();
            let refused = last[count..].iter().flat_map(|group| self.written(std::slice::from_ref(group)));
            rejected = refused.map(|(_, e)| g.locate(e.ppa(g)).0).collect();
            Ok(count)
        };
        let mut end = read_log_judged(self.medium(), &record.log, &mut judge, &mut |mut group, durable| {
            self.note_generations(&group);
            if !durable && !is_sure(&group) {
                self.forget_unwritten_closes(&mut group);
            }
            self.find(&mut found, group)?;
            Ok(ControlFlow::Continue(()))
        })?;
        found.rejected = rejected;
        if let Some(group) = self.pending(&end, pending)? {
            self.note_generations(&group);
            end.lsn = group.lsn;
            self.find(&mut found, group.clone())?;
            found.pending = Some(group);
        }
        if end.lsn < record.end {
            let what = format!("the log ends with page {}, but page {} was durable", end.lsn, record.end);
            return Err(FirmwareError::damaged(self.medium().path(), what));
        }
        Ok((found, end))
    }

    /// The group in the power-protected buffer, if it is not in the log.
    fn pending(self, end: &LogEnd, pending: Option<(u64, &[u8])>) -> Result<Option<Group>, FirmwareError> {
        let Some((lsn, records)) = pending.filter(|(lsn, _)| *lsn > end.lsn) else { return Ok(None) };
        let damaged = |what: String| FirmwareError::damaged(self.medium().path(), what);
        if lsn > end.lsn + 1 {
            let what = format!("the log ends with page {}, but page {} was durable", end.lsn, lsn - 1);
            return Err(damaged(what));
        }
        let records = Record::decode_all(records, self.geometry())
            .map_err(|e| damaged(format!("the power-protected buffer: {e}")))?;
        Ok(Some(Group { lsn, position: end.position, records }))
    }

    /// Tells the medium the generations of the EBLOCKs that a group opened.
    fn note_generations(self, group: &Group) {
        for r in &group.records {
            if let Record::Opened { eblock, generation, .. } = r {
                self.medium().set_generation(*eblock, *generation);
            }
        }
    }

    /// The pages that must be on the medium if these groups are durable, each with the number of the group that wrote it: pages
    /// that are still needed at their end. If a later action replaced a page, its EBLOCK may have been reused since.
    fn written(self, groups: &[Group]) -> Vec<(usize, Entry)> {
        let mut written: HashMap<PageName, (usize, Entry)> = HashMap::new();
        let records = groups.iter().enumerate().flat_map(|(i, g)| g.records.iter().map(move |r| (i, r)));
        for (i, r) in records {
            match r {
                Record::Commit(c) => {
                    written.extend(c.writes.iter().map(|w| (PageName::User(w.lpid), (i, w.entry))));
                    c.trims.iter().for_each(|l| {
                        written.remove(&PageName::User(*l));
                    });
                    if !c.releases.is_empty() {
                        written.retain(
                            |name, _| !matches!(name, PageName::User(l) if c.releases.contains(&l.extent())),
                        );
                    }
                }
                Record::Moved { pages, .. } => {
                    written.extend(pages.iter().map(|(lpid, e)| (PageName::User(*lpid), (i, *e))));
                }
                Record::Flushed { pages, .. } => {
                    for &(kind, number, home) in pages {
                        match home {
                            Some(home) => written.insert(PageName::Own(kind, number), (i, home)),
                            None => written.remove(&PageName::Own(kind, number)),
                        };
                    }
                }
                _ => {}
            }
        }
        // Inlined pages are in the record itself.
        written.into_values().filter(|(_, e)| !e.is_inlined()).collect()
    }

    /// How many of these groups count: the most after which every page that is still needed is whole on the medium.
    ///
    /// # Errors
    /// When the medium cannot be read.
    fn whole(self, groups: &[Group], is_sure: impl Fn(&Group) -> bool) -> Result<usize, FirmwareError> {
        let g = self.geometry();
        let mut looked: HashMap<u64, bool> = HashMap::new();
        let mut count = groups.len();
        loop {
            // A damaged page is needed from its group up to the group that replaces it: the log ends before its group, or
            // after the one that replaces it.
            let mut first_missing = count;
            for (i, e) in self.written(&groups[..count]) {
                if i >= first_missing || is_sure(&groups[i]) {
                    continue;
                }
                let is_whole = match looked.get(&e.word()) {
                    Some(&known) => known,
                    None => match self.medium().read(e.ppa(g), e.len_bytes() as u32) {
                        Ok(_) => true,
                        Err(e) if e.is_uncorrectable() => false,
                        Err(e) => return Err(e.into()),
                    },
                };
                looked.insert(e.word(), is_whole);
                if !is_whole {
                    first_missing = i;
                }
            }
            if first_missing == count {
                return Ok(count);
            }
            count = first_missing;
        }
    }

    /// Drops the records of closed EBLOCKs whose metadata is not on the medium. Either it never was durable, or the group emptied
    /// the EBLOCK, which was reused since. Such an EBLOCK is examined like an open one. Source: ELEOS §VIII-C.
    fn forget_unwritten_closes(self, group: &mut Group) {
        let g = self.geometry();
        group.records.retain(|r| match r {
            Record::Closed { eblock, data_end, end, .. }
                if data_end < end && *end <= g.wblocks_per_eblock() =>
            {
                read_metadata(self.medium(), *eblock, *data_end, end - data_end).is_ok()
            }
            _ => true,
        });
    }

    fn find(self, found: &mut Found, group: Group) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let lsn = group.lsn;
        found.groups += 1;
        found.last_kinds = 0;
        for r in group.records {
            found.records += 1;
            found.last_kinds |= 1 << r.kind();
            let mut live: BTreeMap<EblockId, (u64, u64, u32)> = BTreeMap::new();
            let mut add = |e: Entry| {
                let Some(ppa) = e.place(&g) else { return };
                let (eblock, offset) = g.locate(ppa);
                let l = live.entry(eblock).or_default();
                l.0 += u64::from(e.cells_bytes());
                l.2 = l.2.max((offset + e.cells_bytes()).div_ceil(g.wblock_bytes()));
            };
            let mut freed: &[(EblockId, u32)] = &[];
            match &r {
                Record::Commit(c) => {
                    c.writes.iter().for_each(|w| add(w.entry));
                    found.cells += c.writes.iter().map(|w| u64::from(w.entry.cells_bytes())).sum::<u64>()
                        / lode_base::CELL_BYTES as u64;
                    freed = &c.freed;
                }
                Record::Moved { pages, freed: f } => {
                    pages.iter().for_each(|p| add(p.1));
                    freed = f;
                }
                Record::Flushed { as_of, pages, freed: f } => {
                    let mut state = self.state();
                    for &(kind, number, home) in pages {
                        home.into_iter().for_each(&mut add);
                        found.as_of.insert((kind, number), *as_of);
                        match kind {
                            OwnKind::Map | OwnKind::Index => found.moved.push((kind, number, home)),
                            OwnKind::Root => {
                                // The checkpoint record on the medium names the old root.
                                state.tables_mut().replace_root(home);
                            }
                            piece if is_piece(piece, number) => {
                                state.tables_mut().set(piece, number as usize, home)
                            }
                            piece => {
                                let what = format!("the log names {piece} {number}");
                                return Err(FirmwareError::damaged(self.medium().path(), what));
                            }
                        }
                    }
                    freed = f;
                }
                _ => {}
            }
            for &(e, bytes) in freed {
                live.entry(e).or_default().1 += u64::from(bytes);
            }
            for (eblock, (added, freed, data_end)) in live {
                found.changes.push((lsn, Change::Live { eblock, added, freed, data_end }));
            }
            if matches!(r, Record::Opened { .. } | Record::Closed { .. } | Record::Retired { .. }) {
                found.changes.push((lsn, Change::State(r)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lode_base::{ExtentId, Geometry, Lpid, OwnerId, PageBuf};
    use lode_command::{Align, Batch, Command, PageWrite, Reply};
    use lode_flash::Medium;

    use super::super::open::from_record;
    use super::*;
    use crate::DriveOptions;
    use crate::command::run;
    use crate::record::{Commit, LoggedWrite};

    #[test]
    fn the_clock_goes_on_and_the_report_says_what_the_log_held() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap();
        let core = crate::recovery::format(Medium::memory(g), DriveOptions::default()).unwrap();
        let allocate = Command::AllocateExtents { owner: OwnerId::new(1), count: 1 };
        let Ok(Reply::Extents(extents)) = run(&core, allocate) else { panic!("no extent") };
        for n in 0..5 {
            let data = PageBuf::copy_from(&vec![7; 10_000]);
            let writes = vec![PageWrite { lpid: extents[0].page(n), data, align: Align::Cell }];
            run(&core, Command::Write(Batch { writes, ..Batch::default() })).unwrap();
        }
        let clock = core.state().eblocks().clock();
        assert_eq!(clock, 5 * 10_048 / 64);
        let medium = core.env().medium().after_power_cut().unwrap();
        let (_, bytes) = medium.newest_checkpoint_record().unwrap().unwrap();
        let Ok(record) = CheckpointRecord::decode(&bytes, &g) else { panic!("no record") };
        assert_eq!(record.clock, 0, "all of it is in the log");
        let found = from_record(medium, DriveOptions::default(), &record).unwrap();
        assert_eq!(found.state().eblocks().clock(), clock);
        let report = found.recovery();
        assert_eq!((report.clean, report.pages, report.log_groups_rejected), (false, 1, 0));
        // Those that the checkpoint wrote lie behind the place that it names.
        assert!(report.log_groups >= 5 && report.log_records > report.log_groups, "{report:?}");
        let commit = Record::Commit(Commit::default()).kind();
        assert_ne!(report.last_kinds & 1 << commit, 0);
    }

    /// Of a group that may not be durable, all is looked at that its last action leaves, and nothing else.
    #[test]
    fn what_a_group_left_is_to_be_on_the_medium() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 40).unwrap();
        let core = crate::recovery::format(Medium::memory(g), DriveOptions::default()).unwrap();
        let extent = |n| ExtentId::new(n).unwrap();
        let entry = |n| Entry::new(g.ppa(EblockId::new(n), 0).unwrap(), 100, false);
        let commit = |writes: &[(Lpid, Entry)], trims: &[Lpid], releases: &[ExtentId]| {
            let write = |&(lpid, entry): &(Lpid, Entry)| LoggedWrite { lpid, entry, index: None };
            let inlined = writes.iter().filter(|w| w.1.is_inlined()).map(|_| PageBuf::copy_from(&[5; 70]));
            Record::Commit(Commit {
                inlined: inlined.collect(),
                writes: writes.iter().map(write).collect(),
                trims: trims.to_vec(),
                releases: releases.to_vec(),
                ..Commit::default()
            })
        };
        let [a, b, c, d, e] = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)].map(|(x, page)| extent(x).page(page));
        let own = |number, home| Record::Flushed {
            as_of: 1,
            pages: vec![(OwnKind::Map, number, home)],
            freed: Vec::new(),
        };
        let left = |records: &[Record]| {
            let group = Group { lsn: 9, position: core.state().log_position(), records: records.to_vec() };
            let written = Recovery::new(&core).written(std::slice::from_ref(&group));
            let mut left: Vec<u64> = written.into_iter().map(|(_, e)| e.word()).collect();
            left.sort_unstable();
            left.into_iter().map(|w| Entry::from_word(w).unwrap()).collect::<Vec<_>>()
        };
        let mut records = vec![commit(&[(a, entry(1)), (b, entry(2)), (c, entry(3))], &[], &[])];
        assert_eq!(left(&records), [1, 2, 3].map(entry));
        records.push(commit(&[(d, entry(4)), (e, Entry::inlined(7, 70, false))], &[], &[]));
        assert_eq!(left(&records), [1, 2, 3, 4].map(entry), "what is inlined is in the record itself");
        records.push(Record::Moved { pages: vec![(a, entry(5)), (c, entry(6))], freed: Vec::new() });
        assert_eq!(left(&records), [2, 4, 5, 6].map(entry));
        records.push(commit(&[], &[d], &[]));
        assert_eq!(left(&records), [2, 5, 6].map(entry));
        records.push(commit(&[(d, entry(7))], &[], &[extent(1)]));
        assert_eq!(left(&records), [6, 7].map(entry), "of an extent that was released nothing is");
        records.extend([own(4, Some(entry(8))), own(5, Some(entry(9))), own(4, None), own(6, None)]);
        assert_eq!(left(&records), [6, 7, 9].map(entry));
    }
}
