//! Pass 2: applies records to the pages that lack them.
//!
//! ```text
//!   record at LSN l ─► mapping, index, owners, rules, sessions: the page was written as of an LSN below l? ─► apply
//! ```
//!
//! Invariants: each record is applied to each page that it changes exactly once, counting what the page on the medium
//! has; pages that do not fit in memory are written where nothing is that counts.
//! Source: ELEOS §VIII-C2, C3 (flush LSNs).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid};

use super::pass_1::Found;
use crate::FirmwareError;
use crate::checkpoint::CheckpointRecord;
use crate::core::Core;
use crate::entry::Entry;
use crate::log::{Group, LogEnd, read_log_to};
use crate::own::{OwnKind, TABLE_PIECE_ENTRIES};
use crate::pages::{IndexPage, MapPage};
use crate::planted::{self, Planted};
use crate::record::{Commit, LoggedIndex, Record};
use crate::space::PageName;

impl Core {
    /// Applies the records to the pages on the medium that lack them; answers how many pages that touched.
    pub(super) fn pass_2(
        &self,
        record: &CheckpointRecord,
        found: &Found,
        end: &LogEnd,
    ) -> Result<u64, FirmwareError> {
        let mut touched = HashSet::new();
        let mut given = BTreeSet::new();
        let mut replay = |group: &Group| {
            let lsn = group.lsn;
            let half = planted::is(Planted::HalfGroupReplayed) && lsn == end.lsn;
            let count = if half { group.records.len() / 2 } else { group.records.len() };
            for r in &group.records[..count] {
                self.replay(found, lsn, r, &mut touched).map_err(|e| match e {
                    Replay::Firmware(e) => e,
                    Replay::Bad(what) => {
                        let what = format!("the log group that ends at page {lsn}: {what}");
                        FirmwareError::damaged(self.medium.path(), what)
                    }
                })?;
            }
            self.write_back_unlogged(&mut given)
        };
        // What is pending has the last LSN, and no page.
        let last = end.lsn - u64::from(found.pending.is_some());
        read_log_to(&self.medium, &record.log, last, &mut |group| replay(&group))?;
        found.pending.iter().try_for_each(replay)?;
        self.inlined.restored(|lpid, entry| {
            match self.map.get(&self.medium, &self.epochs, lpid.extent().raw()) {
                Ok(map) => map.and_then(|m| m.load(lpid.page())).is_some_and(|now| now.same_place(entry)),
                // What the page says will be known when it can be read.
                Err(_) => true,
            }
        });
        Ok(touched.len() as u64)
    }

    fn replay(&self, found: &Found, lsn: u64, r: &Record, touched: &mut HashSet<u64>) -> Result<(), Replay> {
        match r {
            Record::Allocated { owner, extent } => {
                if found.lacks(OwnKind::Owners, extent.raw() / TABLE_PIECE_ENTRIES as u64, lsn) {
                    self.extents.write().replay(*owner, *extent)?;
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
                self.seq.lock().sessions.restore_open(*session);
            }
            Record::SessionClosed { session }
                if found.lacks(OwnKind::Sessions, 0, lsn) && !planted::is(Planted::CloseNotReplayed) =>
            {
                self.seq.lock().sessions.close(*session);
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
        &self,
        found: &Found,
        lsn: u64,
        c: &Commit,
        touched: &mut HashSet<u64>,
    ) -> Result<(), Replay> {
        {
            let mut w = self.seq.lock();
            if c.number != w.commit + 1 {
                return Err(Replay::Bad(format!("commit {} follows commit {}", c.number, w.commit)));
            }
            w.commit = c.number;
            if let Some((session, wsn)) = c.session
                && found.lacks(OwnKind::Sessions, 0, lsn)
            {
                w.sessions.apply(session, wsn);
            }
            if !c.rules.is_empty() && found.lacks(OwnKind::Rules, 0, lsn) {
                let with = self.rules.read().with(&c.rules, c.number);
                *self.rules.write() = Arc::new(with);
                w.rules_changed = true;
            }
        }
        for (lpid, number, data) in c.inlined() {
            let lacks = found.lacks(OwnKind::Map, lpid.extent().raw(), lsn);
            if lacks || !planted::is(Planted::InlinedNotRestored) {
                self.inlined.restore(number, lpid, data.clone());
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

    /// What a page became: its entry, and with `index`, its index entry.
    fn replay_page(
        &self,
        found: &Found,
        lsn: u64,
        lpid: Lpid,
        entry: Option<Entry>,
        index: Option<Option<&LoggedIndex>>,
        touched: &mut HashSet<u64>,
    ) -> Result<(), Replay> {
        let n = lpid.extent().raw();
        let map = found.lacks(OwnKind::Map, n, lsn);
        let pages = index.filter(|_| found.lacks(OwnKind::Index, n, lsn));
        if !map && pages.is_none() {
            return Ok(());
        }
        touched.insert(n);
        if map {
            let page = self.map.pin(&self.medium, &self.epochs, n, MapPage::vacant)?;
            page.store(lpid.page(), entry);
            self.map.changed(n);
            self.map.unpin(n);
        }
        match pages {
            Some(Some((rule, bytes))) => {
                let page = self.index.pin(&self.medium, &self.epochs, n, IndexPage::vacant)?;
                page.set(*rule, lpid.page(), bytes);
                self.index.changed(n);
                self.index.unpin(n);
            }
            Some(None) => {
                if let Some(page) = self.index.pin_existing(&self.medium, &self.epochs, n)? {
                    page.clear(lpid.page());
                    self.index.changed(n);
                    self.index.unpin(n);
                }
            }
            None => {}
        }
        Ok(())
    }

    fn replay_release(
        &self,
        found: &Found,
        lsn: u64,
        extent: ExtentId,
        touched: &mut HashSet<u64>,
    ) -> Result<(), Replay> {
        let n = extent.raw();
        if found.lacks(OwnKind::Owners, n / TABLE_PIECE_ENTRIES as u64, lsn) {
            self.extents.write().release(extent, lsn);
        }
        if found.lacks(OwnKind::Map, n, lsn)
            && let Some(map) = self.map.pin_existing(&self.medium, &self.epochs, n)?
        {
            touched.insert(n);
            if !planted::is(Planted::ReleaseNotReplayed) {
                (0..EXTENT_PAGES as u16).for_each(|p| map.store(p, None));
            }
            self.map.changed(n);
            self.map.unpin(n);
        }
        if found.lacks(OwnKind::Index, n, lsn)
            && let Some(index) = self.index.pin_existing(&self.medium, &self.epochs, n)?
        {
            (0..EXTENT_PAGES as u16).for_each(|p| index.clear(p));
            self.index.changed(n);
            self.index.unpin(n);
        }
        Ok(())
    }

    /// A page was provisioned in an EBLOCK: its metadata in memory says so again.
    fn replay_name(&self, found: &Found, lsn: u64, name: PageName, at: Entry) {
        let g = self.geometry();
        if found.lacks(OwnKind::Open, 0, lsn) && !planted::is(Planted::NameNotReplayed) {
            let (eblock, _) = g.locate(at.ppa(g));
            self.seq.lock().space.name(eblock, name.word_at(at, g));
        }
    }

    /// Writes dirty pages when they take too much memory. Nothing is logged: should recovery be cut short, the next finds
    /// the old homes, which stay until the new checkpoint is durable.
    fn write_back_unlogged(&self, given: &mut BTreeSet<(OwnKind, u64)>) -> Result<(), FirmwareError> {
        if self.map.wants_writing() {
            self.flush_unlogged(&self.map, given)?;
        }
        if self.index.wants_writing() {
            self.flush_unlogged(&self.index, given)?;
        }
        Ok(())
    }
}

/// Why a record can not be replayed.
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
