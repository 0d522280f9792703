//! The drive's own pages on their way to the medium: mapping and index pages, and the pieces of the tables.
//!
//! ```text
//!   [snapshot, as of the last installed LSN] ─► program ─► record: kind, number, new home, as of ─► install: the home
//! ```
//!
//! Invariants: a snapshot has exactly what is installed up to its LSN, so that replay knows which records it lacks; it is
//! taken under the sequencer, and written without; the old home is let go once the record is durable, since recovery
//! finds the newest homes in the log first. One writes own pages at a time (the background).
//!
//! Source: ELEOS §VIII-B (table pages are flushed by system actions), §VIII-C1 (their addresses are in the log).

use std::collections::BTreeSet;

use lode_base::{CELL_BYTES, EblockId};
use lode_command::Align;

use crate::FirmwareError;
use crate::commit::{Action, Freed};
use crate::core::{Core, Sequencer};
use crate::entry::Entry;
use crate::own::{OwnKind, PageCache, Resident, TABLES, encode_page};
use crate::planted::{self, Planted};
use crate::record::Record;
use crate::space::{Item, PageName, Purpose, page_bytes_max};
use crate::stream::Stream;

/// Bytes of the drive's own pages that are written at a time.
const FLUSH_BYTES: usize = 4 << 20;

/// A page of the drive's own as it is to be written; `None` takes its home away.
pub(crate) struct OwnPage {
    pub(crate) kind: OwnKind,
    pub(crate) number: u64,
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Core {
    /// Where a page of the drive's own lies.
    fn home_of(&self, w: &Sequencer, kind: OwnKind, number: u64) -> Option<Entry> {
        match kind {
            OwnKind::Map => self.map.home(number),
            OwnKind::Index => self.index.home(number),
            OwnKind::Root => w.tables.root(),
            piece => w.tables.home(piece, number as usize),
        }
    }

    /// Writes pages that were taken as of LSN `as_of`.
    pub(crate) fn write_own(&self, pages: Vec<OwnPage>, as_of: u64) -> Result<(), FirmwareError> {
        if pages.is_empty() {
            return Ok(());
        }
        let some: Vec<&OwnPage> = pages.iter().filter(|p| p.bytes.is_some()).collect();
        let bytes = |p: &&OwnPage| p.bytes.as_deref().expect("it has some").len();
        let item = |p: &&OwnPage| Item {
            len: bytes(p),
            align: Align::Cell,
            word: PageName::Own(p.kind, p.number).word(),
        };
        let items: Vec<Item> = some.iter().map(item).collect();
        let data: Vec<&[u8]> = some.iter().map(|p| p.bytes.as_deref().expect("it has some")).collect();
        let placed = self.append(Stream::Drive, &items, &data, Purpose::Own, 0)?;
        let mut places = placed.places.iter();
        let g = *self.geometry();
        let mut w = self.seq.lock();
        w.under_way += 1;
        let mut freed = Freed::default();
        let mut homes = Vec::with_capacity(pages.len());
        for p in &pages {
            self.home_of(&w, p.kind, p.number).into_iter().for_each(|old| freed.add(&g, old));
            let home = p
                .bytes
                .as_ref()
                .map(|b| Entry::new(*places.next().expect("every page has a place"), b.len(), false));
            homes.push((p.kind, p.number, home));
        }
        let as_of = as_of + u64::from(planted::is(Planted::AsOfHigh));
        let as_of = as_of.saturating_sub(planted::is(Planted::AsOfLow).into());
        let record = Record::Flushed { as_of, pages: homes, freed: freed.into_vec() };
        let unforced = planted::is(Planted::CheckpointBeforeForce);
        let action = Action { record, eblocks: placed.eblocks, unforced, ..Action::default() };
        self.carry_out(w, action).map(drop).map_err(FirmwareError::Refused)
    }

    /// Writes the dirty pages of a cache.
    pub(crate) fn flush<T: Resident>(&self, cache: &PageCache<T>) -> Result<(), FirmwareError> {
        let mut dirty = cache.dirty();
        if planted::is(Planted::DirtyForgotten) && T::KIND == OwnKind::Map && dirty.len() > 1 {
            dirty.pop();
        }
        let mut dirty = dirty.into_iter().peekable();
        while dirty.peek().is_some() {
            let (mut pages, mut bytes) = (Vec::new(), 0);
            let as_of = {
                let (_log, mut w) = self.settled();
                while bytes < FLUSH_BYTES
                    && let Some(number) = dirty.next()
                {
                    let Some((number, page)) = cache.take_dirty(number) else { continue };
                    if page.is_none() && cache.home(number).is_none() {
                        cache.flushed(number, None);
                        continue;
                    }
                    bytes += page.as_ref().map_or(64, |p| p.len().next_multiple_of(CELL_BYTES));
                    pages.push(OwnPage { kind: T::KIND, number, bytes: page });
                }
                w.as_of()
            };
            let numbers: Vec<u64> = pages.iter().map(|p| p.number).collect();
            if let Err(e) = self.write_own(pages, as_of) {
                if planted::is(Planted::FailedFlushForgotten) {
                    numbers.into_iter().for_each(|n| cache.flushed(n, cache.home(n)));
                    return Err(e);
                }
                numbers.into_iter().for_each(|n| cache.flush_failed(n));
                return Err(e);
            }
        }
        cache.make_room();
        Ok(())
    }

    /// Writes dirty mapping and index pages when they take too much of their budgets, by whoever holds the background.
    pub(crate) fn write_back(&self) -> Result<(), FirmwareError> {
        if self.map.wants_writing() {
            self.flush(&self.map)?;
        }
        if self.index.wants_writing() {
            self.flush(&self.index)?;
        }
        Ok(())
    }

    /// As [`Core::flush`], in recovery: nothing is logged, and old homes stay until the new checkpoint is durable, but for
    /// those that were given here (`given`), which nobody else knows. Without room the pages stay in memory.
    pub(crate) fn flush_unlogged<T: Resident>(
        &self,
        cache: &PageCache<T>,
        given: &mut BTreeSet<(OwnKind, u64)>,
    ) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        for number in cache.dirty() {
            let Some((number, page)) = cache.take_dirty(number) else { continue };
            let mut home = None;
            if let Some(bytes) = &page {
                let word = PageName::Own(T::KIND, number).word();
                let item = Item { len: bytes.len(), align: Align::Cell, word };
                let placed = match self.append(Stream::Drive, &[item], &[bytes], Purpose::Unlogged, 0) {
                    Ok(placed) => placed,
                    Err(e) => {
                        cache.flush_failed(number);
                        // A drive that takes no writes any more is recovered in memory.
                        let stays = e.is_no_space() || self.check_writable().is_err();
                        return if stays { Ok(()) } else { Err(e) };
                    }
                };
                let to = Entry::new(placed.places[0], bytes.len(), false);
                let mut w = self.seq.lock();
                w.space.add_live(to);
                placed.eblocks.into_iter().for_each(|e| w.space.leave(e));
                home = Some(to);
            }
            if let Some(old) = cache.home(number) {
                let mut w = self.seq.lock();
                let e = g.locate(old.ppa(&g)).0;
                w.space.sub_live(e, old.cells_bytes());
                if !given.remove(&(T::KIND, number)) {
                    w.space.pin(old);
                    w.tables.supersede(old);
                }
            }
            if home.is_some() {
                given.insert((T::KIND, number));
            }
            cache.flushed(number, home);
        }
        cache.make_room();
        self.reclaim().map(drop)
    }

    /// Writes the changed pieces of the tables, the summary last, since writing the others changes it.
    pub(crate) fn write_tables(&self) -> Result<(), FirmwareError> {
        for some in [&TABLES[..TABLES.len() - 1], &[OwnKind::Summary]] {
            let (pages, as_of) = {
                let (_log, mut w) = self.settled();
                (self.take_pieces(&mut w, some), w.as_of())
            };
            let taken: Vec<_> = pages.iter().map(|p| (p.kind, p.number as usize)).collect();
            // In one action, so that all pieces of a table are of one moment.
            if let Err(e) = self.write_own(pages, as_of) {
                if !planted::is(Planted::FailedPieceForgotten) {
                    self.mark_pieces(&mut self.seq.lock(), &taken);
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// The changed pieces of these tables. They count as written from now on.
    fn take_pieces(&self, w: &mut Sequencer, kinds: &[OwnKind]) -> Vec<OwnPage> {
        let mut pages: Vec<OwnPage> = Vec::new();
        let piece = |kind, number: usize, payload: &[u8]| {
            let bytes = Some(encode_page(kind, number as u64, payload));
            OwnPage { kind, number: number as u64, bytes }
        };
        let words = |v: Vec<u64>| v.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        for &kind in kinds {
            let blob = match kind {
                OwnKind::MapHomes => {
                    pages.extend(
                        self.map.take_dirty_pieces().into_iter().map(|(p, v)| piece(kind, p, &words(v))),
                    );
                    None
                }
                OwnKind::IndexHomes => {
                    pages.extend(
                        self.index.take_dirty_pieces().into_iter().map(|(p, v)| piece(kind, p, &words(v))),
                    );
                    None
                }
                OwnKind::Owners => {
                    let owners = self.extents.write().take_dirty_pieces();
                    let bytes = |v: Vec<u32>| v.iter().flat_map(|o| o.to_le_bytes()).collect::<Vec<u8>>();
                    pages.extend(owners.into_iter().map(|(p, v)| match v {
                        Some(v) => piece(kind, p, &bytes(v)),
                        None => OwnPage { kind, number: p as u64, bytes: None },
                    }));
                    None
                }
                OwnKind::Summary => {
                    let dirty = w.space.take_changed_pieces();
                    pages.extend(dirty.into_iter().map(|(p, b)| piece(kind, p, &b)));
                    None
                }
                OwnKind::Rules => std::mem::take(&mut w.rules_changed).then(|| self.rules.read().encode()),
                OwnKind::Sessions => std::mem::take(&mut w.sessions.changed).then(|| w.sessions.encode()),
                OwnKind::Open => w.space.take_changed_unwritten(),
                k => unreachable!("{k} is no table"),
            };
            let Some(blob) = blob else { continue };
            let some: Vec<&[u8]> = blob.chunks(self.blob_piece_bytes()).collect();
            pages.extend(some.iter().enumerate().map(|(n, b)| piece(kind, n, b)));
            for number in some.len() as u64..w.tables.pieces(kind).count() as u64 {
                pages.push(OwnPage { kind, number, bytes: None });
            }
        }
        pages
    }

    /// Bytes of one piece of a table that is written whole.
    fn blob_piece_bytes(&self) -> usize {
        (page_bytes_max(self.geometry()) / 2).min(1 << 20)
    }

    /// Pieces that could not be written, or are to be written anew.
    pub(crate) fn mark_pieces(&self, w: &mut Sequencer, pieces: &[(OwnKind, usize)]) {
        for &(kind, piece) in pieces {
            match kind {
                OwnKind::MapHomes => self.map.mark_piece_dirty(piece),
                OwnKind::IndexHomes => self.index.mark_piece_dirty(piece),
                OwnKind::Owners => self.extents.write().mark_piece_dirty(piece),
                OwnKind::Summary => w.space.mark_piece_changed(piece),
                OwnKind::Rules => w.rules_changed = true,
                OwnKind::Sessions => w.sessions.changed = true,
                OwnKind::Open => w.space.mark_unwritten_changed(),
                k => unreachable!("{k} is no table"),
            }
        }
    }

    /// Whether the tables, or pages of a cache, changed since they were written.
    pub(crate) fn has_dirty(&self, w: &Sequencer) -> bool {
        self.map.has_dirty()
            || self.index.has_dirty()
            || self.extents.read().is_dirty()
            || w.rules_changed
            || w.sessions.changed
    }

    /// Writes those of the drive's own pages that lie in an EBLOCK elsewhere.
    pub(crate) fn rewrite_own(
        &self,
        victim: EblockId,
        names: BTreeSet<(OwnKind, u64)>,
    ) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let mut pieces = Vec::new();
        let mut root = false;
        for (kind, number) in names {
            let home = self.home_of(&self.seq.lock(), kind, number);
            if home.is_none_or(|h| g.locate(h.ppa(&g)).0 != victim) {
                continue;
            }
            match kind {
                OwnKind::Map => self.map.rewrite(&self.medium, &self.epochs, number)?,
                OwnKind::Index => self.index.rewrite(&self.medium, &self.epochs, number)?,
                OwnKind::Root => root = true,
                piece => pieces.push((piece, number as usize)),
            }
        }
        let pinned = {
            let mut w = self.seq.lock();
            self.mark_pieces(&mut w, &pieces);
            w.tables.superseded().iter().any(|e| g.locate(e.ppa(&g)).0 == victim)
        };
        if root || pinned {
            return self.checkpoint_now(false);
        }
        self.flush(&self.map)?;
        self.flush(&self.index)?;
        if !pieces.is_empty() {
            self.write_tables()?;
        }
        Ok(())
    }

    /// Names of the drive's own pages that lie in an EBLOCK.
    pub(crate) fn own_names_in(&self, e: EblockId) -> Vec<PageName> {
        let g = *self.geometry();
        let here = |home: Entry| g.locate(home.ppa(&g)).0 == e;
        let mut names = Vec::new();
        names.extend(self.map.at_home_in(here).into_iter().map(|n| PageName::Own(OwnKind::Map, n)));
        names.extend(self.index.at_home_in(here).into_iter().map(|n| PageName::Own(OwnKind::Index, n)));
        let w = self.seq.lock();
        for kind in TABLES {
            let pieces = w.tables.pieces(kind).filter(|(_, home)| here(*home));
            names.extend(pieces.map(|(p, _)| PageName::Own(kind, p as u64)));
        }
        if w.tables.root().is_some_and(here) {
            names.push(PageName::Own(OwnKind::Root, 0));
        }
        names
    }
}
