//! Pages: which version of a page lies where, and who owns it. This is the committed state, which readers share.
//!
//! ```text
//!   LPID ─► extent ─► mapping page ─► entry ─┬─► in an EBLOCK
//!                                            └─► inlined: in memory, and in the log
//!           at a view ─► version table: what the page was before it was replaced, while a view shows that
//!           extent ─► owner ─► index rule ─► index page ─► index entry of the page
//! ```
//!
//! What must hold: entries are atomic words, so readers take no lock over them; only the installation of an action
//! changes them, in the order of all actions (`commit`). A page without an index entry, or with one of an older rule, is
//! never skipped; an index entry that is answered for a version was made of that version; a union that excludes pages was made of
//! the versions that the view shows, and of each of them.
//!
//! Source: ELEOS §III-B (mapping, small and tiny table); FLIXR (index in the drive, made on write).

mod extents;
mod index;
mod inlined;
mod map;
mod pins;
mod registered;
mod replace;
mod rules;
mod unions;
mod versions;

use std::sync::Arc;

use lode_base::{ExtentId, Lpid};
use lode_program::IndexEntry;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use extents::Extents;
pub(crate) use index::{
    GROUP_PAGES, IndexPage, Level, Union, extent_of as index_extent, is_long, number_of as index_number,
    page_bytes as index_page_bytes, part_of as index_part, parts_of as index_parts,
};
pub(crate) use inlined::{InlinedPages, pages_bytes};
pub(crate) use map::MapPage;
pub(crate) use pins::{Pinned, Pins, by_extent};
pub(crate) use registered::{KeysPlace, Registered};
pub(crate) use replace::{Change, replace};
pub(crate) use rules::{Rule, Rules};
pub(crate) use versions::{OldIndex, Versions};

use crate::FirmwareError;
use crate::entry::Entry;
use crate::env::Env;
use crate::own::PageCache;
use crate::planted::{self, Planted};
use index::{GROUPS, Present};
use rules::CurrentRules;
use unions::ExtentUnions;

/// Unions of extents with parts take this fraction of the memory for index pages, beside it.
const UNIONS_OF_CACHE: usize = 32;

/// The committed state of all pages.
pub(crate) struct Pages {
    map: PageCache<MapPage>,
    index: PageCache<IndexPage>,
    unions: ExtentUnions,
    rules: CurrentRules,
    extents: RwLock<Extents>,
    versions: Versions,
    inlined: InlinedPages,
    registered: Registered,
}

impl Pages {
    /// No page yet.
    pub(crate) fn new(env: &Env) -> Self {
        let o = env.options();
        Self {
            map: PageCache::new(o.map_cache_bytes),
            index: PageCache::new(o.index_cache_bytes),
            unions: ExtentUnions::new(o.index_cache_bytes / UNIONS_OF_CACHE),
            rules: CurrentRules::default(),
            extents: RwLock::default(),
            versions: Versions::new(o.views_max, o.view_commits_max),
            inlined: InlinedPages::new(o, env.geometry()),
            registered: Registered::new(o.registered_bytes_max),
        }
    }

    /// Mapping pages, by extent.
    #[inline]
    pub(crate) fn map(&self) -> &PageCache<MapPage> {
        &self.map
    }

    /// Index pages, by extent, or by part of an extent.
    #[inline]
    pub(crate) fn index(&self) -> &PageCache<IndexPage> {
        &self.index
    }

    /// The registered index rules.
    #[inline]
    pub(crate) fn rules(&self) -> &CurrentRules {
        &self.rules
    }

    /// Owners of extents.
    #[inline]
    pub(crate) fn extents(&self) -> RwLockReadGuard<'_, Extents> {
        self.extents.read()
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn extents_mut(&self) -> RwLockWriteGuard<'_, Extents> {
        self.extents.write()
    }

    /// Read views, and old versions of pages.
    #[inline]
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Inlined pages.
    #[inline]
    pub(crate) fn inlined(&self) -> &InlinedPages {
        &self.inlined
    }

    /// Programs, keys, and sets of them.
    #[inline]
    pub(crate) fn registered(&self) -> &Registered {
        &self.registered
    }

    /// The mapping page of an extent; `None` when it has none.
    #[inline]
    pub(crate) fn map_page(&self, env: &Env, e: ExtentId) -> Result<Option<Arc<MapPage>>, FirmwareError> {
        self.map.get(env.medium(), env.epochs(), e.raw())
    }

    /// The index page that has the entries of a page by this rule; `None` when there is none.
    #[inline]
    pub(crate) fn index_page(
        &self,
        env: &Env,
        lpid: Lpid,
        rule: &Rule,
    ) -> Result<Option<Arc<IndexPage>>, FirmwareError> {
        self.index.get(env.medium(), env.epochs(), index_number(lpid, rule.rule.entry_bytes()))
    }

    /// The union of a level of an extent, of the pages with an entry that `rule` made. `None` if there is no such page.
    pub(crate) fn union(
        &self,
        env: &Env,
        extent: ExtentId,
        rule: &Rule,
        level: Level,
    ) -> Result<Option<Union>, FirmwareError> {
        let first = match level {
            Level::Extent if is_long(rule.rule.entry_bytes()) => {
                return self.union_of_parts(env, extent, rule);
            }
            Level::Extent => 0,
            Level::Group(g) => g as u16 * GROUP_PAGES,
        };
        Ok(self.index_page(env, extent.page(first), rule)?.and_then(|index| index.union(rule, level)))
    }

    /// The union of all parts of an extent, one read after the other.
    fn union_of_parts(
        &self,
        env: &Env,
        extent: ExtentId,
        rule: &Rule,
    ) -> Result<Option<Union>, FirmwareError> {
        let changes = self.unions.changes(extent);
        if let Some(kept) = self.unions.get(extent, rule) {
            return Ok(Some(kept));
        }
        let (mut union, mut present, mut looked_at) = (None::<IndexEntry>, Present::NONE, 0);
        for group in 0..GROUPS {
            let Some(of) = self.union(env, extent, rule, Level::Group(group))? else { continue };
            present.add(&of.present);
            looked_at += of.looked_at + 1;
            match &mut union {
                Some(union) => rule.rule.widen(union, &of.entry),
                None => union = Some((*of.entry).clone()),
            }
        }
        let Some(entry) = union else { return Ok(None) };
        let union = Union { entry: Arc::new(entry), present, looked_at };
        self.unions.keep(extent, rule, changes, &union);
        Ok(Some(union))
    }

    /// Parts of an extent have changed.
    fn parts_changed(&self, extent: ExtentId) {
        planted::unless(Planted::UnionKept, || self.unions.changed(extent));
    }

    /// An entry of so many bytes was set: index pages of the extent that have entries of another length are of a rule that is no more.
    /// To be called under the commit lock.
    fn drop_stale(&self, extent: ExtentId, entry_bytes: usize) {
        match is_long(entry_bytes) {
            true => self.vacate_index(extent.raw()),
            false => self.drop_parts(extent),
        }
    }

    /// Entries in parts of an extent are of no use any more. To be called under the commit lock.
    pub(crate) fn drop_parts(&self, extent: ExtentId) {
        if self.index.has_parts_beside(index_parts(extent).start) {
            index_parts(extent).for_each(|n| self.vacate_index(n));
            self.parts_changed(extent);
        }
    }

    /// An index page becomes vacant, without being read. To be called under the commit lock.
    pub(crate) fn vacate_index(&self, number: u64) {
        self.index.vacate(number, IndexPage::vacant, IndexPage::empty);
    }

    /// Whether there are, or were since the drive was opened, rules with long entries or index pages of parts: earlier versions of Lode
    /// do not know them.
    pub(crate) fn had_long_entries(&self) -> bool {
        self.rules.had_long() || self.index.has_parts()
    }

    /// The newest entry of a page.
    #[inline]
    pub(crate) fn newest(&self, env: &Env, lpid: Lpid) -> Result<Option<Entry>, FirmwareError> {
        match self.map.look(lpid.extent().raw(), |map| map.load(lpid.page())) {
            Some(entry) => Ok(entry),
            None => Ok(self.map_page(env, lpid.extent())?.and_then(|map| map.load(lpid.page()))),
        }
    }

    /// Bytes that all mapping and index pages take on the medium, about.
    #[inline]
    pub(crate) fn media_bytes(&self) -> u64 {
        self.map.media_bytes() + self.index.media_bytes()
    }

    /// Extents that there may be pages of: all below this number.
    pub(crate) fn extents_end(&self) -> u64 {
        self.map.numbers()
    }

    /// What must hold between two commands.
    pub(crate) fn check_invariants(&self, under_way: bool) {
        self.inlined.check_invariants(under_way);
        self.map.check_invariants(under_way);
        self.index.check_invariants(under_way);
    }
}
