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
mod versions;

use std::sync::Arc;

use lode_base::{ExtentId, Lpid};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use extents::Extents;
pub(crate) use index::{GROUP_PAGES, IndexPage, Level, page_bytes as index_page_bytes};
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
use rules::CurrentRules;

/// The committed state of all pages.
pub(crate) struct Pages {
    map: PageCache<MapPage>,
    index: PageCache<IndexPage>,
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

    /// Index pages, by extent.
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

    /// The index page of an extent; `None` when it has none.
    #[inline]
    pub(crate) fn index_page(&self, env: &Env, e: ExtentId) -> Result<Option<Arc<IndexPage>>, FirmwareError> {
        self.index.get(env.medium(), env.epochs(), e.raw())
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
