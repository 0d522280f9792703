//! Pinned pages: the mapping and index pages that an action changes are kept in memory while it is under way.
//!
//! Invariant: all that an installation touches is pinned before it begins, so that it neither fails nor waits.

use std::sync::Arc;

use lode_base::fast::FastMap;
use lode_base::{ExtentId, Lpid};

use super::Pages;
use super::index::{IndexPage, is_long, part_of};
use super::map::MapPage;
use crate::FirmwareError;
use crate::env::Env;
use crate::record::LoggedIndex;

/// The pages of an extent.
pub(crate) struct Pinned {
    map: Arc<MapPage>,
    index: Option<Arc<IndexPage>>,
    /// The index pages of parts, by number.
    parts: Vec<(u64, Arc<IndexPage>)>,
    /// Bytes of the index entries that pages of the extent get, if any gets one.
    entry_bytes: Option<usize>,
}

/// Those of all extents that an action touches.
pub(crate) type Pins = FastMap<ExtentId, Pinned>;

/// What `find` answers, asked once for each run of pages of one extent: most batches touch few extents.
#[inline]
pub(crate) fn by_extent<T: Copy>(mut find: impl FnMut(ExtentId) -> T) -> impl FnMut(ExtentId) -> T {
    let mut known = None;
    move |e| match known {
        Some((last, found)) if last == e => found,
        _ => known.insert((e, find(e))).1,
    }
}

impl Pinned {
    fn of(map: Arc<MapPage>, index: Option<Arc<IndexPage>>) -> Self {
        Self { map, index, parts: Vec::new(), entry_bytes: None }
    }

    #[inline]
    pub(crate) fn map(&self) -> &MapPage {
        &self.map
    }

    /// The index page that has the entry of a page, if the entry has so many bytes.
    #[inline]
    pub(crate) fn index(&self, lpid: Lpid, entry_bytes: usize) -> Option<&IndexPage> {
        if is_long(entry_bytes) { self.part(lpid) } else { self.index.as_deref() }
    }

    fn part(&self, lpid: Lpid) -> Option<&IndexPage> {
        let number = part_of(lpid);
        self.parts.iter().find(|(n, _)| *n == number).map(|(_, part)| &**part)
    }

    /// Takes the index entry of a page away, of whatever rule it is.
    #[inline]
    pub(super) fn clear_index(&self, lpid: Lpid) {
        if let Some(index) = self.index.as_deref() {
            index.clear(lpid.page());
        }
        if !self.parts.is_empty()
            && let Some(part) = self.part(lpid)
        {
            part.clear(lpid.page());
        }
    }

    /// Sets the index entry of a page.
    #[inline]
    pub(crate) fn set_index(&self, lpid: Lpid, (rule, bytes): &LoggedIndex) {
        if let Some(index) = self.index(lpid, bytes.len()) {
            index.set(*rule, lpid.page(), bytes);
        }
    }
}

impl Pages {
    fn pin_extent(
        &self,
        env: &Env,
        pins: &mut Pins,
        extent: ExtentId,
        writes: bool,
        indexes: bool,
    ) -> Result<(), FirmwareError> {
        let (medium, epochs, n) = (env.medium(), env.epochs(), extent.raw());
        if let Some(p) = pins.get_mut(&extent) {
            if indexes && p.index.is_none() {
                p.index = Some(self.index().pin(medium, epochs, n, IndexPage::vacant)?);
            }
            return Ok(());
        }
        let map = match writes {
            true => self.map().pin(medium, epochs, n, MapPage::vacant)?,
            false => match self.map().pin_existing(medium, epochs, n)? {
                Some(map) => map,
                None => return Ok(()),
            },
        };
        let index = match indexes {
            true => self.index().pin(medium, epochs, n, IndexPage::vacant).map(Some),
            false => self.index().pin_existing(medium, epochs, n),
        };
        // It is noted in any case, so that whoever gives up unpins it.
        let (index, failed) = match index {
            Ok(index) => (index, None),
            Err(e) => (None, Some(e)),
        };
        pins.insert(extent, Pinned::of(map, index));
        failed.map_or(Ok(()), Err)
    }

    /// Pins the index page of the part that a page is of: if it `indexes` the page there, or if there is one.
    fn pin_part(&self, env: &Env, pins: &mut Pins, lpid: Lpid, indexes: bool) -> Result<(), FirmwareError> {
        let (medium, epochs, n) = (env.medium(), env.epochs(), part_of(lpid));
        let Some(p) = pins.get_mut(&lpid.extent()) else { return Ok(()) };
        let is_none = !indexes && !self.index().has_parts_beside(n);
        if is_none || p.parts.iter().any(|(part, _)| *part == n) {
            return Ok(());
        }
        let part = match indexes {
            true => Some(self.index().pin(medium, epochs, n, IndexPage::vacant)?),
            false => self.index().pin_existing(medium, epochs, n)?,
        };
        p.parts.extend(part.map(|part| (n, part)));
        Ok(())
    }

    /// Pins what a page that is written changes; with `entry_bytes`, it gets an index entry.
    fn pin_write(
        &self,
        env: &Env,
        pins: &mut Pins,
        lpid: Lpid,
        entry_bytes: Option<usize>,
    ) -> Result<(), FirmwareError> {
        let long = entry_bytes.is_some_and(is_long);
        self.pin_extent(env, pins, lpid.extent(), true, entry_bytes.is_some() && !long)?;
        if long || self.index().has_parts() {
            self.pin_part(env, pins, lpid, long)?;
        }
        if let Some(p) = pins.get_mut(&lpid.extent()) {
            p.entry_bytes = entry_bytes.or(p.entry_bytes);
        }
        Ok(())
    }

    /// Pins the mapping pages that there are of these extents.
    pub(crate) fn pin_maps(
        &self,
        env: &Env,
        extents: impl Iterator<Item = ExtentId>,
    ) -> Result<Pins, FirmwareError> {
        self.pin_or_none(|pins| {
            for extent in extents {
                if !pins.contains_key(&extent)
                    && let Some(map) = self.map().pin_existing(env.medium(), env.epochs(), extent.raw())?
                {
                    pins.insert(extent, Pinned::of(map, None));
                }
            }
            Ok(())
        })
    }

    /// Pins what an action touches, until [`Pages::unpin`]: pages that it writes, each with the bytes of the index entry that it gets;
    /// pages that it trims and extents that it releases, where there is something. Parts of released extents are not pinned:
    /// [`Pages::drop_parts`] needs none of what they hold.
    pub(crate) fn pin(
        &self,
        env: &Env,
        writes: impl Iterator<Item = (Lpid, Option<usize>)>,
        trims: impl Iterator<Item = Lpid>,
        releases: impl Iterator<Item = ExtentId>,
    ) -> Result<Pins, FirmwareError> {
        self.pin_or_none(|pins| {
            let mut last = None;
            for (lpid, entry_bytes) in writes {
                let this = Some((part_of(lpid), entry_bytes));
                if last != this {
                    self.pin_write(env, pins, lpid, entry_bytes)?;
                    last = this;
                }
            }
            for lpid in trims {
                self.pin_extent(env, pins, lpid.extent(), false, false)?;
                if self.index().has_parts() {
                    self.pin_part(env, pins, lpid, false)?;
                }
            }
            for extent in releases {
                self.pin_extent(env, pins, extent, false, false)?;
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

    /// The pinned pages were changed.
    pub(crate) fn changed(&self, pins: &Pins) {
        for (extent, p) in pins {
            self.map().changed(extent.raw());
            if p.index.is_some() {
                self.index().changed(extent.raw());
            }
            p.parts.iter().for_each(|(n, _)| self.index().changed(*n));
            if !p.parts.is_empty() {
                self.parts_changed(*extent);
            }
            if let Some(entry_bytes) = p.entry_bytes {
                self.drop_stale(*extent, entry_bytes);
            }
        }
    }

    /// The pinned pages may leave memory again.
    pub(crate) fn unpin(&self, pins: &Pins) {
        for (extent, p) in pins {
            self.map().unpin(extent.raw());
            if p.index.is_some() {
                self.index().unpin(extent.raw());
            }
            p.parts.iter().for_each(|(n, _)| self.index().unpin(*n));
        }
    }
}
