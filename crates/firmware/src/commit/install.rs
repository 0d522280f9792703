//! Installs a system action: what its record says becomes what readers see.
//!
//! ```text
//!   a page:  save the old version ─► take its index entry away ─► store the mapping entry ─► set the new index entry
//! ```
//!
//! Invariants: all pages that an installation touches are pinned before it begins, so that it neither fails nor waits;
//! in the order above a reader that finds the same mapping entry before and after it took the index entry has the entry
//! of that version, or none. What an action frees is what its record says (asserted).

use std::sync::Arc;

use lode_base::{EblockId, ExtentId, Lpid};

use crate::FirmwareError;
use crate::commit::{Action, Installed, Pinned, Pins};
use crate::core::{Core, Counts, Sequencer};
use crate::entry::Entry;
use crate::own::OwnKind;
use crate::pages::{IndexPage, Install, MapPage, OldIndex, Rule};
use crate::planted::{self, Planted};
use crate::record::{Commit, LoggedIndex, Record};
use crate::write::by_extent;

/// What a page becomes.
struct Change<'a> {
    lpid: Lpid,
    entry: Option<Entry>,
    index: Option<&'a LoggedIndex>,
}

/// What a batch replaced.
#[derive(Default)]
struct Replaced {
    /// Bytes in EBLOCKs.
    bytes: u64,
    /// Inlined pages that no view shows.
    inlined: Vec<u32>,
}

impl Core {
    fn pin_extent(
        &self,
        pins: &mut Pins,
        extent: ExtentId,
        writes: bool,
        indexes: bool,
    ) -> Result<(), FirmwareError> {
        let n = extent.raw();
        if let Some(p) = pins.get_mut(&extent) {
            if indexes && p.index.is_none() {
                p.index = Some(self.index.pin(&self.medium, &self.epochs, n, IndexPage::vacant)?);
            }
            return Ok(());
        }
        let map = match writes {
            true => self.map.pin(&self.medium, &self.epochs, n, MapPage::vacant)?,
            false => match self.map.pin_existing(&self.medium, &self.epochs, n)? {
                Some(map) => map,
                None => return Ok(()),
            },
        };
        let index = match indexes {
            true => self.index.pin(&self.medium, &self.epochs, n, IndexPage::vacant).map(Some),
            false => self.index.pin_existing(&self.medium, &self.epochs, n),
        };
        // It is noted in any case, so that whoever gives up unpins it.
        let (index, failed) = match index {
            Ok(index) => (index, None),
            Err(e) => (None, Some(e)),
        };
        pins.insert(extent, Pinned { map, index });
        failed.map_or(Ok(()), Err)
    }

    /// Keeps the mapping pages of extents in memory, as [`Core::pin`].
    pub(crate) fn pin_maps(&self, extents: impl Iterator<Item = ExtentId>) -> Result<Pins, FirmwareError> {
        self.pin_or_none(|pins| {
            for extent in extents {
                if !pins.contains_key(&extent)
                    && let Some(map) = self.map.pin_existing(&self.medium, &self.epochs, extent.raw())?
                {
                    pins.insert(extent, Pinned { map, index: None });
                }
            }
            Ok(())
        })
    }

    /// Keeps in memory what an action touches, until [`Core::unpin`].
    pub(crate) fn pin(
        &self,
        writes: impl Iterator<Item = (Lpid, bool)>,
        others: impl Iterator<Item = ExtentId>,
    ) -> Result<Pins, FirmwareError> {
        self.pin_or_none(|pins| {
            let mut last = None;
            for (lpid, indexes) in writes {
                let this = Some((lpid.extent(), indexes));
                if last != this {
                    self.pin_extent(pins, lpid.extent(), true, indexes)?;
                    last = this;
                }
            }
            for extent in others {
                self.pin_extent(pins, extent, false, false)?;
            }
            Ok(())
        })
    }

    /// What `pin_all` pins; nothing, if that fails.
    fn pin_or_none(
        &self,
        pin_all: impl FnOnce(&mut Pins) -> Result<(), FirmwareError>,
    ) -> Result<Pins, FirmwareError> {
        let mut pins = Pins::default();
        match pin_all(&mut pins) {
            Ok(()) => Ok(pins),
            Err(e) => {
                self.unpin(&pins);
                Err(e)
            }
        }
    }

    /// Installs the first staged action, which is durable.
    pub(crate) fn install(&self, w: &mut Sequencer, a: &Action) -> Installed {
        let mut installed = Installed { commit: w.commit, ..Installed::default() };
        match &a.record {
            Record::Commit(c) => {
                installed = self.install_commit(w, c, a);
            }
            Record::Moved { pages, freed } => {
                let mut old = Vec::new();
                for (lpid, entry) in pages {
                    let map = &a.pins[&lpid.extent()].map;
                    old.extend(map.load(lpid.page()));
                    map.store(lpid.page(), Some(*entry));
                    w.space.add_live(*entry);
                }
                self.forget_inlined(old.into_iter());
                self.changed(&a.pins);
                if !planted::is(Planted::MovedNotFreed) {
                    self.free(w, freed);
                }
                installed.pages = pages.len() as u64;
            }
            Record::Indexed { pages } => {
                for p in pages {
                    let pinned = &a.pins[&p.lpid.extent()];
                    let (Some(index), Some((rule, bytes))) = (&pinned.index, &p.index) else { continue };
                    index.set(*rule, p.lpid.page(), bytes);
                    pinned.map.store(p.lpid.page(), Some(p.entry));
                }
                self.changed(&a.pins);
                installed.pages = pages.len() as u64;
            }
            Record::Flushed { pages, freed, .. } => {
                for &(kind, number, home) in pages {
                    if let Some(home) = home {
                        w.space.add_live(home);
                    }
                    match kind {
                        OwnKind::Map => self.map.flushed(number, home),
                        OwnKind::Index => self.index.flushed(number, home),
                        OwnKind::Root => {
                            // The checkpoint on the medium names the old one until the next is durable.
                            if let Some(old) = w.tables.replace_root(home) {
                                w.space.pin(old);
                            }
                        }
                        piece => w.tables.set(piece, number as usize, home),
                    }
                }
                self.free(w, freed);
            }
            Record::SessionOpened { session } => w.sessions.opened(*session, true),
            Record::SessionClosed { session } => w.sessions.close(*session),
            Record::Checkpointed { .. } => {}
            r => unreachable!("no action has the record {r:?}"),
        }
        for (lpid, old, new) in &a.copies {
            if planted::is(Planted::MoveKeepsVersion) || self.versions.relocate(*lpid, *old, *new) {
                w.space.unpin(*old);
                self.forget_inlined(std::iter::once(*old));
                w.space.pin(*new);
                installed.pages += 1;
            }
        }
        w.overlay.installed(&a.record);
        if let Some(e) = w.space.miscounted() {
            let what = format!("the summary of {e:?} counts less than is mapped there");
            self.fatal(&FirmwareError::damaged(self.medium.path(), what));
        }
        installed
    }

    /// The pinned pages were changed.
    pub(crate) fn changed(&self, pins: &Pins) {
        for (extent, p) in pins {
            self.map.changed(extent.raw());
            if p.index.is_some() {
                self.index.changed(extent.raw());
            }
        }
    }

    fn free(&self, w: &mut Sequencer, freed: &[(EblockId, u32)]) {
        for &(e, bytes) in freed {
            w.space.sub_live(e, bytes);
        }
    }

    fn install_commit(&self, w: &mut Sequencer, c: &Commit, a: &Action) -> Installed {
        let old_rules = self.rules.read().clone();
        let rules = match c.rules.is_empty() {
            true => old_rules.clone(),
            false => Arc::new(old_rules.with(&c.rules, c.number)),
        };
        let owner = |extent| self.extents.read().owner(extent);
        c.inlined().for_each(|(lpid, number, data)| self.inlined.insert(number, lpid, data.clone()));
        let mut install = self.versions.install(c.number);
        let mut replaced = Replaced::default();
        let mut of = by_extent(|e| (owner(e).and_then(|o| old_rules.get(o)), &a.pins[&e]));
        for page in &c.writes {
            let (old_rule, pinned) = of(page.lpid.extent());
            let change = Change { lpid: page.lpid, entry: Some(page.entry), index: page.index.as_ref() };
            self.replace(w, &mut install, pinned, old_rule, &change, &mut replaced);
        }
        for &lpid in &c.trims {
            if let Some(p) = a.pins.get(&lpid.extent()) {
                let old_rule = owner(lpid.extent()).and_then(|o| old_rules.get(o));
                let change = Change { lpid, entry: None, index: None };
                self.replace(w, &mut install, p, old_rule, &change, &mut replaced);
            }
        }
        for &extent in &c.releases {
            if let Some(p) = a.pins.get(&extent) {
                let old_rule = owner(extent).and_then(|o| old_rules.get(o));
                for (page, _) in p.map.mapped().collect::<Vec<_>>() {
                    let change = Change { lpid: extent.page(page), entry: None, index: None };
                    self.replace(w, &mut install, p, old_rule, &change, &mut replaced);
                }
            }
            self.extents.write().release(extent, c.number);
        }
        self.changed(&a.pins);
        self.free(w, &c.freed);
        let freed = c.freed.iter().map(|f| u64::from(f.1)).sum::<u64>();
        assert_eq!(freed, replaced.bytes, "commit {} frees what it said when it was staged", c.number);
        self.inlined.forget(&self.epochs, replaced.inlined);
        if !c.rules.is_empty() {
            *self.rules.write() = rules;
            planted::unless(Planted::RulesForgotten, || w.rules_changed = true);
        }
        if let Some((session, wsn)) = c.session {
            w.sessions.apply(session, wsn);
        }
        let bytes = c.writes.iter().map(|w| w.entry.len_bytes() as u64).sum();
        Counts::add(&self.counts.user_bytes, bytes);
        w.commit = c.number;
        let view = install.finish(a.pin_view);
        Installed { commit: c.number, view, pages: c.writes.len() as u64, bytes }
    }

    /// Makes a page what it becomes, and counts the version that it was.
    fn replace(
        &self,
        w: &mut Sequencer,
        install: &mut Install<'_>,
        p: &Pinned,
        old_rule: Option<&Rule>,
        change: &Change<'_>,
        replaced: &mut Replaced,
    ) {
        let g = self.geometry();
        let page = change.lpid.page();
        let old = p.map.load(page);
        if old.is_none() && change.entry.is_none() {
            return;
        }
        let old_index = || {
            let indexed = old.is_some_and(|e| !e.redo());
            let (r, index) = (old_rule.filter(|_| indexed)?, p.index.as_ref()?);
            Some(OldIndex { rule: r.rule.clone(), bytes: index.get(r.number, page)? })
        };
        let trimmed = change.entry.is_none();
        let keeps = planted::instead(Planted::TrimmedNotKept, || true, || !trimmed);
        let pinned = keeps && install.save(change.lpid, old, trimmed, old_index);
        if let Some(index) = &p.index
            && !planted::is(Planted::IndexKept)
        {
            index.clear(page);
        }
        p.map.store(page, change.entry);
        if let (Some(index), Some((rule, bytes))) = (&p.index, change.index) {
            index.set(*rule, page, bytes);
        }
        if let Some(new) = change.entry {
            w.space.add_live(new);
        }
        let Some(old) = old else { return };
        match old.eblock(g) {
            Some(_) => {
                if pinned {
                    w.space.pin(old);
                }
                replaced.bytes += u64::from(old.cells_bytes());
            }
            None if pinned && !planted::is(Planted::InlinedVersionGone) => {}
            None => replaced.inlined.extend(old.inlined_number()),
        }
    }
}
