//! Installs a system action: what its record says becomes what readers see. Replay does the same.
//!
//! ```text
//!   a page:  save the old version ─► take its index entry away ─► store the mapping entry ─► set the new index entry
//! ```
//!
//! Invariants: all pages that an installation touches are resident and dirty before it begins, so that it
//! neither fails nor waits; in the order above a reader that finds the same mapping entry before and after it
//! took the index entry has the entry of that version, or none.

use std::collections::HashMap;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, ViewId};

use crate::FirmwareError;
use crate::core::{Core, Writer};
use crate::index::{IndexPage, Rule};
use crate::log::{Commit, Indexed};
use crate::map::{Entry, MapPage};
use crate::versions::{Install, OldIndex};

/// The resident pages of an extent that an installation touches.
pub(crate) struct Touched {
    map: Arc<MapPage>,
    index: Option<Arc<IndexPage>>,
}

/// All of them, by extent.
pub(crate) type TouchedPages = HashMap<ExtentId, Touched>;

/// What a page becomes.
struct Change<'a> {
    lpid: Lpid,
    entry: Option<Entry>,
    index: Option<&'a [u8]>,
}

impl Core {
    fn touch_extent(
        &self,
        touched: &mut TouchedPages,
        extent: ExtentId,
        writes: bool,
        indexes: bool,
    ) -> Result<(), FirmwareError> {
        let n = extent.raw();
        if let Some(t) = touched.get_mut(&extent) {
            if indexes && t.index.is_none() {
                t.index = Some(self.index.get_for_write(&self.medium, &self.epochs, n, IndexPage::vacant)?);
            }
            return Ok(());
        }
        if !writes && self.map.get(&self.medium, &self.epochs, n)?.is_none() {
            return Ok(());
        }
        let has_index = indexes || self.index.get(&self.medium, &self.epochs, n)?.is_some();
        let index = has_index
            .then(|| self.index.get_for_write(&self.medium, &self.epochs, n, IndexPage::vacant))
            .transpose()?;
        let map = self.map.get_for_write(&self.medium, &self.epochs, n, MapPage::vacant)?;
        touched.insert(extent, Touched { map, index });
        Ok(())
    }

    /// Makes resident and dirty what the commit touches.
    pub(crate) fn touch(
        &self,
        writes: impl Iterator<Item = (Lpid, bool)>,
        trims: &[Lpid],
        releases: &[ExtentId],
    ) -> Result<TouchedPages, FirmwareError> {
        let mut touched = HashMap::new();
        for (lpid, indexes) in writes {
            self.touch_extent(&mut touched, lpid.extent(), true, indexes)?;
        }
        for lpid in trims {
            self.touch_extent(&mut touched, lpid.extent(), false, false)?;
        }
        for &extent in releases {
            self.touch_extent(&mut touched, extent, false, false)?;
        }
        Ok(touched)
    }

    /// Installs a commit that is durable; with `pin`, answers a view at it.
    pub(crate) fn install(
        &self,
        w: &mut Writer,
        c: &Commit,
        touched: &TouchedPages,
        pin: bool,
    ) -> Option<ViewId> {
        let old_rules = self.rules.read().clone();
        let rules = match c.rules.is_empty() {
            true => old_rules.clone(),
            false => Arc::new(old_rules.with(&c.rules, c.number)),
        };
        let owner = |extent| self.extents.read().owner(extent);
        let mut install = self.versions.install(c.number);
        // Pages of a batch mostly lie in one extent: its rules are looked up once.
        let mut of: Option<(ExtentId, Option<&Rule>, Option<&Rule>)> = None;
        for page in &c.writes {
            let extent = page.lpid.extent();
            let (_, old_rule, rule) = match of {
                Some(known) if known.0 == extent => known,
                _ => {
                    let owner = owner(extent);
                    let known =
                        (extent, owner.and_then(|o| old_rules.get(o)), owner.and_then(|o| rules.get(o)));
                    of = Some(known);
                    known
                }
            };
            let change = Change { lpid: page.lpid, entry: Some(page.entry), index: page.index.as_deref() };
            self.replace(w, &mut install, &touched[&extent], old_rule, rule, &change);
        }
        for &lpid in &c.trims {
            if let Some(t) = touched.get(&lpid.extent()) {
                let old_rule = owner(lpid.extent()).and_then(|o| old_rules.get(o));
                let change = Change { lpid, entry: None, index: None };
                self.replace(w, &mut install, t, old_rule, None, &change);
            }
        }
        for &extent in &c.releases {
            if let Some(t) = touched.get(&extent) {
                let old_rule = owner(extent).and_then(|o| old_rules.get(o));
                for (page, _) in t.map.mapped().collect::<Vec<_>>() {
                    let change = Change { lpid: extent.page(page), entry: None, index: None };
                    self.replace(w, &mut install, t, old_rule, None, &change);
                }
            }
            let homes = [self.map.remove(extent.raw()), self.index.remove(extent.raw())];
            homes.into_iter().for_each(|old| self.supersede(w, old));
            self.extents.write().release(extent, c.number);
        }
        for extent in touched.keys() {
            self.index.resized(extent.raw());
        }
        if !c.rules.is_empty() {
            *self.rules.write() = rules;
            w.rules_changed = true;
        }
        w.commit = c.number;
        let view = install.finish(pin);
        if let Some(e) = w.space.summary.miscounted {
            let what = format!("the summary of {e:?} counts less than is mapped there");
            self.fatal(&FirmwareError::damaged(self.medium.path(), what));
        }
        view
    }

    fn replace(
        &self,
        w: &mut Writer,
        install: &mut Install<'_>,
        t: &Touched,
        old_rule: Option<&Rule>,
        rule: Option<&Rule>,
        change: &Change<'_>,
    ) {
        let g = self.geometry();
        let page = change.lpid.page();
        let old = t.map.load(page);
        if old.is_none() && change.entry.is_none() {
            return;
        }
        let old_index = || {
            let indexed = old.is_some_and(|e| !e.redo());
            let (r, index) = (old_rule.filter(|_| indexed)?, t.index.as_ref()?);
            Some(OldIndex { rule: r.rule.clone(), bytes: index.get(r.number, page)? })
        };
        let pinned = install.save(change.lpid, old, old_index);
        if let Some(index) = &t.index {
            index.clear(page);
        }
        t.map.store(page, change.entry);
        if let (Some(index), Some(bytes), Some(r)) = (&t.index, change.index, rule)
            && bytes.len() == r.rule.entry_bytes()
        {
            index.set(r.number, page, bytes);
        }
        if let Some(new) = change.entry {
            w.space.summary.add_live(g.locate(new.ppa(g)).0, new.cells_bytes());
        }
        if let Some(old) = old {
            w.space.summary.sub_live(g.locate(old.ppa(g)).0, old.cells_bytes(), pinned);
        }
    }

    /// Installs index entries of pages that had none; a page that was written meanwhile keeps what it has.
    /// Answers for how many pages the entry was installed.
    pub(crate) fn install_indexed(&self, i: &Indexed, touched: &TouchedPages) -> u64 {
        let rules = self.rules.read().clone();
        let Some(rule) = rules.get(i.owner) else { return 0 };
        let mut installed = 0;
        for p in &i.pages {
            let (Some(t), Some(bytes)) = (touched.get(&p.lpid.extent()), &p.index) else { continue };
            let page = p.lpid.page();
            let Some(now) = t.map.load(page).filter(|e| e.same_place(p.entry)) else { continue };
            if bytes.len() != rule.rule.entry_bytes() {
                continue;
            }
            let index = t.index.as_ref().expect("the index page was touched");
            index.set(rule.number, page, bytes);
            t.map.store(page, Some(now.without_redo()));
            installed += 1;
        }
        for extent in touched.keys() {
            self.index.resized(extent.raw());
        }
        installed
    }
}
