//! Pinned pages: the mapping and index pages that an action changes are kept in memory while it is under way.
//!
//! Invariant: all that an installation touches is pinned before it begins, so that it neither fails nor waits.

use std::sync::Arc;

use lode_base::fast::FastMap;
use lode_base::{ExtentId, Lpid};

use super::Pages;
use super::index::IndexPage;
use super::map::MapPage;
use crate::FirmwareError;
use crate::env::Env;

/// The pages of an extent.
pub(crate) struct Pinned {
    map: Arc<MapPage>,
    index: Option<Arc<IndexPage>>,
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
    #[inline]
    pub(crate) fn map(&self) -> &MapPage {
        &self.map
    }

    #[inline]
    pub(crate) fn index(&self) -> Option<&IndexPage> {
        self.index.as_deref()
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
        pins.insert(extent, Pinned { map, index });
        failed.map_or(Ok(()), Err)
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
                    pins.insert(extent, Pinned { map, index: None });
                }
            }
            Ok(())
        })
    }

    /// Pins what an action touches, until [`Pages::unpin`]: pages that it writes, each with whether it gets an index entry,
    /// and `others`, extents that it touches if they have pages.
    pub(crate) fn pin(
        &self,
        env: &Env,
        writes: impl Iterator<Item = (Lpid, bool)>,
        others: impl Iterator<Item = ExtentId>,
    ) -> Result<Pins, FirmwareError> {
        self.pin_or_none(|pins| {
            let mut last = None;
            for (lpid, indexes) in writes {
                let this = Some((lpid.extent(), indexes));
                if last != this {
                    self.pin_extent(env, pins, lpid.extent(), true, indexes)?;
                    last = this;
                }
            }
            for extent in others {
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
        }
    }

    /// The pinned pages may leave memory again.
    pub(crate) fn unpin(&self, pins: &Pins) {
        for (extent, p) in pins {
            self.map().unpin(extent.raw());
            if p.index.is_some() {
                self.index().unpin(extent.raw());
            }
        }
    }
}
