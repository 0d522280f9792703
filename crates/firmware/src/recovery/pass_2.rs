//! Pass 2: applies records to the pages that lack them.
//!
//! ```text
//!   record at LSN l ─► mapping, index, owners, rules, sessions: the page was written as of an LSN below l? ─► apply
//! ```
//!
//! Invariants: each record is applied exactly once to each page that it changes; what the page on the medium has counts as
//! applied. Pages that do not fit in memory are written to EBLOCKs that were free.
//!
//! Source: ELEOS §VIII-C2, C3 (flush LSNs).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid};

use super::context::Recovery;
use super::pass_1::Found;
use crate::FirmwareError;
use crate::checkpoint::CheckpointRecord;
use crate::entry::Entry;
use crate::log::{Group, LogEnd, read_log_to};
use crate::own::{OwnKind, TABLE_PIECE_ENTRIES};
use crate::pages::{IndexPage, MapPage, index_number, index_part, index_parts, is_long};
use crate::planted::{self, Planted, at};
use crate::record::{Commit, LoggedIndex, Record};
use crate::space::PageName;

impl Recovery<'_> {
    /// Applies the records to the pages that lack them; answers to how many pages.
    pub(super) fn pass_2(
        self,
        record: &CheckpointRecord,
        found: &Found,
        end: &LogEnd,
    ) -> Result<u64, FirmwareError> {
        let mut touched = HashSet::new();
        let mut given = BTreeSet::new();
        let mut replay = |group: &Group| {
            let lsn = group.lsn;
            let records = at!(HalfGroupReplayed => half_of_the_last(group, end), &group.records[..]);
            for r in records {
                self.replay(found, lsn, r, &mut touched).map_err(|e| match e {
                    Replay::Firmware(e) => e,
                    Replay::Bad(what) => {
                        let what = format!("the log group that ends at page {lsn}: {what}");
                        FirmwareError::damaged(self.medium().path(), what)
                    }
                })?;
            }
            self.write_back_unlogged(&mut given)
        };
        // The pending group has the last LSN, and no log page.
        let last = end.lsn - u64::from(found.pending.is_some());
        read_log_to(self.medium(), &record.log, last, &mut |group| replay(&group))?;
        found.pending.iter().try_for_each(replay)?;
        self.pages().inlined().restored(|lpid, entry| {
            match self.pages().map_page(self.env(), lpid.extent()) {
                Ok(map) => map.and_then(|m| m.load(lpid.page())).is_some_and(|now| now.same_place(entry)),
                // Nobody knows before the page can be read.
                Err(_) => true,
            }
        });
        Ok(touched.len() as u64)
    }

    fn replay(self, found: &Found, lsn: u64, r: &Record, touched: &mut HashSet<u64>) -> Result<(), Replay> {
        match r {
            Record::Allocated { owner, extent } => {
                if found.lacks(OwnKind::Owners, extent.raw() / TABLE_PIECE_ENTRIES as u64, lsn) {
                    self.pages().extents_mut().replay(*owner, *extent)?;
                }
            }
            Record::Commit(c) => self.replay_commit(found, lsn, c, touched)?,
            Record::Indexed { pages } => {
                for p in pages {
                    self.replay_page(found, lsn, p.lpid, Some(p.entry), Some(p.index.as_ref()), touched)?;
                }
            }
            Record::Moved { pages, .. } => {
                for (lpid, entry) in pages {
                    self.replay_page(found, lsn, *lpid, Some(*entry), None, touched)?;
                    self.replay_name(found, lsn, PageName::User(*lpid), *entry);
                }
            }
            Record::Flushed { pages, .. } => {
                for &(kind, number, home) in pages {
                    if let Some(home) = home {
                        self.replay_name(found, lsn, PageName::Own(kind, number), home);
                    }
                }
            }
            Record::SessionOpened { session } if found.lacks(OwnKind::Sessions, 0, lsn) => {
                self.state().sessions_mut().restore_open(*session);
            }
            Record::SessionClosed { session } if found.lacks(OwnKind::Sessions, 0, lsn) => {
                planted::unless(Planted::CloseNotReplayed, || {
                    self.state().sessions_mut().close(*session);
                });
            }
            Record::SessionOpened { .. }
            | Record::SessionClosed { .. }
            | Record::Opened { .. }
            | Record::Closed { .. }
            | Record::Retired { .. }
            | Record::Checkpointed { .. } => {}
        }
        Ok(())
    }

    fn replay_commit(
        self,
        found: &Found,
        lsn: u64,
        c: &Commit,
        touched: &mut HashSet<u64>,
    ) -> Result<(), Replay> {
        {
            let mut state = self.state();
            if let Err(newest) = state.replay_commit(c.number) {
                return Err(Replay::Bad(format!("commit {} follows commit {newest}", c.number)));
            }
            if let Some((session, wsn)) = c.session
                && found.lacks(OwnKind::Sessions, 0, lsn)
            {
                state.sessions_mut().apply(session, wsn);
            }
            if !c.rules.is_empty() && found.lacks(OwnKind::Rules, 0, lsn) {
                let rules = self.pages().rules();
                rules.restore(Arc::new(rules.get().with(&c.rules, c.number)));
                rules.mark_changed();
            }
        }
        for (lpid, number, data) in c.inlined() {
            if at!(InlinedNotRestored => found.lacks(OwnKind::Map, lpid.extent().raw(), lsn), true) {
                self.pages().inlined().restore(number, lpid, data.clone());
            }
        }
        for p in &c.writes {
            self.replay_page(found, lsn, p.lpid, Some(p.entry), Some(p.index.as_ref()), touched)?;
            if !p.entry.is_inlined() {
                self.replay_name(found, lsn, PageName::User(p.lpid), p.entry);
            }
        }
        for lpid in &c.trims {
            self.replay_page(found, lsn, *lpid, None, Some(None), touched)?;
        }
        for extent in &c.releases {
            self.replay_release(found, lsn, *extent, touched)?;
        }
        Ok(())
    }

    /// A page got this entry; with `index`, also this index entry, or none.
    fn replay_page(
        self,
        found: &Found,
        lsn: u64,
        lpid: Lpid,
        entry: Option<Entry>,
        index: Option<Option<&LoggedIndex>>,
        touched: &mut HashSet<u64>,
    ) -> Result<(), Replay> {
        let n = lpid.extent().raw();
        let map = found.lacks(OwnKind::Map, n, lsn);
        if map {
            let page = self.pages().map().pin(self.medium(), self.env().epochs(), n, MapPage::vacant)?;
            page.store(lpid.page(), entry);
            self.pages().map().changed(n);
            self.pages().map().unpin(n);
        }
        let indexes = match index {
            Some(Some(index)) => self.replay_index(found, lsn, lpid, index)?,
            Some(None) => self.replay_no_index(found, lsn, lpid)?,
            None => false,
        };
        if map || indexes {
            touched.insert(n);
        }
        Ok(())
    }

    /// A page got this index entry; answers whether an index page lacked it. Index pages with entries of another length are of a rule
    /// that was replaced before.
    fn replay_index(
        self,
        found: &Found,
        lsn: u64,
        lpid: Lpid,
        (rule, bytes): &LoggedIndex,
    ) -> Result<bool, FirmwareError> {
        let index = self.pages().index();
        let n = index_number(lpid, bytes.len());
        let lacks = found.lacks(OwnKind::Index, n, lsn);
        if lacks {
            let page = index.pin(self.medium(), self.env().epochs(), n, IndexPage::vacant)?;
            page.set(*rule, lpid.page(), bytes);
            index.changed(n);
            index.unpin(n);
        }
        match is_long(bytes.len()) {
            true => self.replay_vacant(found, lsn, std::iter::once(lpid.extent().raw())),
            false => self.replay_no_parts(found, lsn, lpid.extent()),
        }
        Ok(lacks)
    }

    /// A page has no index entry any more; answers whether an index page lacked that.
    fn replay_no_index(self, found: &Found, lsn: u64, lpid: Lpid) -> Result<bool, FirmwareError> {
        let index = self.pages().index();
        let part = Some(index_part(lpid)).filter(|n| index.has_parts_beside(*n));
        let mut lacks = false;
        for n in std::iter::once(lpid.extent().raw()).chain(part) {
            if !found.lacks(OwnKind::Index, n, lsn) {
                continue;
            }
            lacks = true;
            if let Some(page) = index.pin_existing(self.medium(), self.env().epochs(), n)? {
                page.clear(lpid.page());
                index.changed(n);
                index.unpin(n);
            }
        }
        Ok(lacks)
    }

    /// The entries of these index pages became useless.
    fn replay_vacant(self, found: &Found, lsn: u64, numbers: impl Iterator<Item = u64>) {
        numbers.filter(|n| found.lacks(OwnKind::Index, *n, lsn)).for_each(|n| self.pages().vacate_index(n));
    }

    /// The entries in all parts of an extent became useless.
    fn replay_no_parts(self, found: &Found, lsn: u64, extent: ExtentId) {
        let parts = index_parts(extent);
        if self.pages().index().has_parts_beside(parts.start) {
            self.replay_vacant(found, lsn, parts);
        }
    }

    fn replay_release(
        self,
        found: &Found,
        lsn: u64,
        extent: ExtentId,
        touched: &mut HashSet<u64>,
    ) -> Result<(), Replay> {
        let n = extent.raw();
        if found.lacks(OwnKind::Owners, n / TABLE_PIECE_ENTRIES as u64, lsn) {
            self.pages().extents_mut().release(extent, lsn);
        }
        if found.lacks(OwnKind::Map, n, lsn)
            && let Some(map) = self.pages().map().pin_existing(self.medium(), self.env().epochs(), n)?
        {
            touched.insert(n);
            planted::unless(Planted::ReleaseNotReplayed, || {
                (0..EXTENT_PAGES as u16).for_each(|p| map.store(p, None));
            });
            self.pages().map().changed(n);
            self.pages().map().unpin(n);
        }
        if found.lacks(OwnKind::Index, n, lsn)
            && let Some(index) = self.pages().index().pin_existing(self.medium(), self.env().epochs(), n)?
        {
            index.empty();
            self.pages().index().changed(n);
            self.pages().index().unpin(n);
        }
        self.replay_no_parts(found, lsn, extent);
        Ok(())
    }

    /// A page was provisioned in an EBLOCK: its metadata in memory names it again.
    fn replay_name(self, found: &Found, lsn: u64, name: PageName, at: Entry) {
        let g = self.geometry();
        if found.lacks(OwnKind::Open, 0, lsn) {
            let (eblock, _) = g.locate(at.ppa(g));
            planted::unless(Planted::NameNotReplayed, || {
                self.state().eblocks_mut().name(eblock, name.word_at(at, g));
            });
        }
    }

    /// Writes dirty pages when they take too much memory. Nothing is logged: if recovery is cut short, the next one finds the
    /// old homes, which stay until the new checkpoint is durable.
    fn write_back_unlogged(self, given: &mut BTreeSet<(OwnKind, u64)>) -> Result<(), FirmwareError> {
        let (pages, checkpointer) = (self.pages(), self.core().checkpointer());
        if pages.map().wants_writing() {
            checkpointer.flush_unlogged(pages.map(), given)?;
        }
        if pages.index().wants_writing() {
            checkpointer.flush_unlogged(pages.index(), given)?;
        }
        Ok(())
    }
}

/// The first half of the records of the last group; of any other group all: the fault `HalfGroupReplayed`.
fn half_of_the_last<'a>(group: &'a Group, end: &LogEnd) -> &'a [Record] {
    let all = &group.records[..];
    if group.lsn == end.lsn { &all[..all.len() / 2] } else { all }
}

/// Why a record cannot be replayed.
enum Replay {
    Firmware(FirmwareError),
    Bad(String),
}

impl From<FirmwareError> for Replay {
    fn from(e: FirmwareError) -> Self {
        Self::Firmware(e)
    }
}

impl From<&'static str> for Replay {
    fn from(what: &'static str) -> Self {
        Self::Bad(what.into())
    }
}
