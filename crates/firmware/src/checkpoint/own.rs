//! The drive's own pages on their way to the medium: mapping and index pages, and the pieces of the tables.
//!
//! ```text
//!   [image, as of the last installed LSN] ─► program ─► record: kind, number, new home, as of ─► install: the home
//! ```
//!
//! Invariants: an image has exactly what is installed up to its LSN, so that replay knows which records it lacks. It is
//! taken under the commit lock, and written without. The old home is let go once the record is durable, since recovery
//! finds the newest homes in the log first.
//!
//! Source: ELEOS §VIII-B (table pages are flushed by system actions), §VIII-C1 (their addresses are in the log).

use std::collections::BTreeSet;

use lode_base::{CELL_BYTES, EblockId};
use lode_command::Align;

use super::checkpointer::Checkpointer;
use crate::FirmwareError;
use crate::commit::{Action, CommitState, Freed};
use crate::entry::Entry;
use crate::own::{OwnKind, PageCache, Resident, TABLES, encode_page};
use crate::planted::{self, Planted, at};
use crate::record::Record;
use crate::space::{Item, PageName, Purpose, page_bytes_max};
use crate::stream::Stream;

/// Bytes of own pages that are written at a time.
const FLUSH_BYTES: usize = 4 << 20;
/// Most bytes of one piece of a table that is written whole.
const BLOB_PIECE_BYTES_MAX: usize = 1 << 20;

/// An own page as it is to be written; `None` takes its home away.
pub(super) struct OwnPage {
    pub(super) kind: OwnKind,
    pub(super) number: u64,
    pub(super) bytes: Option<Vec<u8>>,
}

impl OwnPage {
    fn piece(kind: OwnKind, number: usize, payload: &[u8]) -> Self {
        let number = number as u64;
        Self { kind, number, bytes: Some(encode_page(kind, number, payload)) }
    }

    fn item(kind: OwnKind, number: u64, bytes: &[u8]) -> Item {
        Item { len: bytes.len(), align: Align::Cell, word: PageName::Own(kind, number).word() }
    }
}

/// All but the last of several dirty mapping pages: the fault `DirtyForgotten`.
fn all_but_one(kind: OwnKind, mut dirty: Vec<u64>) -> Vec<u64> {
    if kind == OwnKind::Map && dirty.len() > 1 {
        dirty.pop();
    }
    dirty
}

fn words(words: Vec<u64>) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn owners(owners: Vec<u32>) -> Vec<u8> {
    owners.iter().flat_map(|o| o.to_le_bytes()).collect()
}

impl Checkpointer<'_> {
    /// Where an own page lies.
    fn home_of(self, state: &CommitState, kind: OwnKind, number: u64) -> Option<Entry> {
        match kind {
            OwnKind::Map => self.pages().map().home(number),
            OwnKind::Index => self.pages().index().home(number),
            OwnKind::Root => state.tables().root(),
            piece => state.tables().home(piece, number as usize),
        }
    }

    /// Writes pages that were taken as of LSN `as_of`.
    pub(super) fn write_own(self, pages: Vec<OwnPage>, as_of: u64) -> Result<(), FirmwareError> {
        if pages.is_empty() {
            return Ok(());
        }
        let some = || pages.iter().filter_map(|p| Some((p, p.bytes.as_deref()?)));
        let items: Vec<Item> = some().map(|(p, bytes)| OwnPage::item(p.kind, p.number, bytes)).collect();
        let data: Vec<&[u8]> = some().map(|(_, bytes)| bytes).collect();
        let placed = self.appender().append(Stream::Drive, &items, &data, Purpose::Own)?;
        let mut places = placed.places.iter();
        let g = *self.env().geometry();
        let mut state = self.state();
        state.begin_action();
        let mut freed = Freed::default();
        let mut homes = Vec::with_capacity(pages.len());
        for p in &pages {
            self.home_of(&state, p.kind, p.number).into_iter().for_each(|old| freed.add(&g, old));
            let place = |b: &Vec<u8>| (*places.next().expect("every page has a place"), b.len());
            let home = p.bytes.as_ref().map(place).map(|(ppa, len)| Entry::new(ppa, len, false));
            homes.push((p.kind, p.number, home));
        }
        let as_of = at!(AsOfHigh => as_of + 1, at!(AsOfLow => as_of.saturating_sub(1), as_of));
        let record = Record::Flushed { as_of, pages: homes, freed: freed.into_vec() };
        let unforced = at!(CheckpointBeforeForce => true, false);
        let action = Action::new(record).entered(placed.eblocks).unforced(unforced);
        self.committer().carry_out(state, action).map(drop).map_err(FirmwareError::Refused)
    }

    /// Writes the dirty pages of a cache.
    pub(super) fn flush<T: Resident>(self, cache: &PageCache<T>) -> Result<(), FirmwareError> {
        let dirty = at!(DirtyForgotten => all_but_one(T::KIND, cache.dirty()), cache.dirty());
        let mut dirty = dirty.into_iter().peekable();
        while dirty.peek().is_some() {
            let (mut pages, mut bytes) = (Vec::new(), 0);
            let as_of = {
                let mut state = self.committer().settled();
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
                state.as_of()
            };
            let numbers: Vec<u64> = pages.iter().map(|p| p.number).collect();
            if let Err(e) = self.write_own(pages, as_of) {
                let forget = |n| cache.flushed(n, cache.home(n));
                numbers
                    .into_iter()
                    .for_each(|n| at!(FailedFlushForgotten => forget(n), cache.flush_failed(n)));
                return Err(e);
            }
        }
        cache.make_room();
        Ok(())
    }

    /// Writes dirty mapping and index pages when they take too much of their budgets.
    pub(crate) fn write_back(self) -> Result<(), FirmwareError> {
        if self.pages().map().wants_writing() {
            self.flush(self.pages().map())?;
        }
        if self.pages().index().wants_writing() {
            self.flush(self.pages().index())?;
        }
        Ok(())
    }

    /// Writes the dirty pages of a cache in recovery: nothing is logged, and old homes stay until the new checkpoint is
    /// durable, but for those that were `given` here, which nobody else knows. Without room the pages stay in memory.
    pub(crate) fn flush_unlogged<T: Resident>(
        self,
        cache: &PageCache<T>,
        given: &mut BTreeSet<(OwnKind, u64)>,
    ) -> Result<(), FirmwareError> {
        let g = *self.env().geometry();
        for number in cache.dirty() {
            let Some((number, page)) = cache.take_dirty(number) else { continue };
            let mut home = None;
            if let Some(bytes) = &page {
                let item = OwnPage::item(T::KIND, number, bytes);
                let placed = match self.appender().append(Stream::Drive, &[item], &[bytes], Purpose::Unlogged)
                {
                    Ok(placed) => placed,
                    Err(e) => {
                        cache.flush_failed(number);
                        // A drive that takes no writes any more is recovered in memory.
                        let stays = e.is_no_space() || !self.env().is_writable();
                        return if stays { Ok(()) } else { Err(e) };
                    }
                };
                let to = Entry::new(placed.places[0], bytes.len(), false);
                self.state().eblocks_mut().add_live(to);
                self.appender().leave(placed.eblocks);
                home = Some(to);
            }
            if let Some(old) = cache.home(number) {
                let mut state = self.state();
                state.eblocks_mut().sub_live(g.locate(old.ppa(&g)).0, old.cells_bytes());
                if !given.remove(&(T::KIND, number)) {
                    state.eblocks_mut().pin(old);
                    state.tables_mut().supersede(old);
                }
            }
            if home.is_some() {
                given.insert((T::KIND, number));
            }
            cache.flushed(number, home);
        }
        cache.make_room();
        self.committer().reclaim().map(drop)
    }

    /// Writes the changed pieces of the tables, the summary last, since writing the others changes it.
    pub(super) fn write_tables(self) -> Result<(), FirmwareError> {
        for some in [&TABLES[..TABLES.len() - 1], &[OwnKind::Summary]] {
            let (pages, as_of) = {
                let mut state = self.committer().settled();
                (self.take_pieces(&mut state, some), state.as_of())
            };
            let taken: Vec<_> = pages.iter().map(|p| (p.kind, p.number as usize)).collect();
            // In one action, so that all pieces of a table are of one moment.
            if let Err(e) = self.write_own(pages, as_of) {
                planted::unless(Planted::FailedPieceForgotten, || {
                    self.mark_pieces(&mut self.state(), &taken)
                });
                return Err(e);
            }
        }
        Ok(())
    }

    /// The changed pieces of these tables. They count as written from now on.
    fn take_pieces(self, state: &mut CommitState, kinds: &[OwnKind]) -> Vec<OwnPage> {
        let (all, mut pages) = (self.pages(), Vec::new());
        for &kind in kinds {
            let piece = |(number, payload): (usize, Vec<u8>)| OwnPage::piece(kind, number, &payload);
            let homes = |(number, homes): (usize, Option<Vec<u64>>)| match homes {
                Some(homes) => OwnPage::piece(kind, number, &words(homes)),
                None => OwnPage { kind, number: number as u64, bytes: None },
            };
            match kind {
                OwnKind::MapHomes => pages.extend(all.map().take_dirty_pieces().into_iter().map(homes)),
                OwnKind::IndexHomes => pages.extend(all.index().take_dirty_pieces().into_iter().map(homes)),
                OwnKind::Owners => {
                    let changed = all.extents_mut().take_dirty_pieces();
                    pages.extend(changed.into_iter().map(|(number, some)| match some {
                        Some(some) => OwnPage::piece(kind, number, &owners(some)),
                        None => OwnPage { kind, number: number as u64, bytes: None },
                    }));
                }
                OwnKind::Summary => {
                    pages.extend(state.eblocks_mut().take_changed_pieces().into_iter().map(piece));
                }
                OwnKind::Rules => self.cut(state, kind, all.rules().take_changed(), &mut pages),
                OwnKind::Sessions => {
                    let changed = state.sessions_mut().take_changed();
                    self.cut(state, kind, changed, &mut pages);
                }
                OwnKind::Open => {
                    let changed = state.eblocks_mut().take_changed_unwritten();
                    self.cut(state, kind, changed, &mut pages);
                }
                k => unreachable!("{k} is no table"),
            }
        }
        pages
    }

    /// Cuts a table that is written whole into pieces, if it changed.
    fn cut(self, state: &CommitState, kind: OwnKind, table: Option<Vec<u8>>, pages: &mut Vec<OwnPage>) {
        let Some(table) = table else { return };
        let piece_bytes = (page_bytes_max(self.env().geometry()) / 2).min(BLOB_PIECE_BYTES_MAX);
        let some: Vec<&[u8]> = table.chunks(piece_bytes).collect();
        pages.extend(some.iter().enumerate().map(|(n, b)| OwnPage::piece(kind, n, b)));
        for number in some.len() as u64..state.tables().pieces(kind).count() as u64 {
            pages.push(OwnPage { kind, number, bytes: None });
        }
    }

    /// Pieces that could not be written, or are to be written anew.
    pub(crate) fn mark_pieces(self, state: &mut CommitState, pieces: &[(OwnKind, usize)]) {
        let pages = self.pages();
        for &(kind, piece) in pieces {
            match kind {
                OwnKind::MapHomes => pages.map().mark_piece_dirty(piece),
                OwnKind::IndexHomes => pages.index().mark_piece_dirty(piece),
                OwnKind::Owners => pages.extents_mut().mark_piece_dirty(piece),
                OwnKind::Summary => state.eblocks_mut().mark_piece_changed(piece),
                OwnKind::Rules => pages.rules().mark_changed(),
                OwnKind::Sessions => state.sessions_mut().mark_changed(),
                OwnKind::Open => state.eblocks_mut().mark_unwritten_changed(),
                k => unreachable!("{k} is no table"),
            }
        }
    }

    /// Whether the tables, or pages of a cache, changed since they were written.
    pub(super) fn has_changed(self, state: &CommitState) -> bool {
        let pages = self.pages();
        pages.map().has_dirty()
            || pages.index().has_dirty()
            || pages.extents().is_dirty()
            || pages.rules().have_changed()
            || state.sessions().have_changed()
    }

    /// Writes those of these own pages elsewhere that lie in an EBLOCK.
    pub(crate) fn rewrite_own(
        self,
        victim: EblockId,
        names: BTreeSet<(OwnKind, u64)>,
    ) -> Result<(), FirmwareError> {
        let (medium, epochs, g) = (self.medium(), self.env().epochs(), *self.env().geometry());
        let mut pieces = Vec::new();
        let mut root = false;
        for (kind, number) in names {
            let home = self.home_of(&self.state(), kind, number);
            if home.is_none_or(|h| g.locate(h.ppa(&g)).0 != victim) {
                continue;
            }
            match kind {
                OwnKind::Map => self.pages().map().rewrite(medium, epochs, number)?,
                OwnKind::Index => self.pages().index().rewrite(medium, epochs, number)?,
                OwnKind::Root => root = true,
                piece => pieces.push((piece, number as usize)),
            }
        }
        let pinned = {
            let mut state = self.state();
            self.mark_pieces(&mut state, &pieces);
            state.tables().superseded().iter().any(|e| g.locate(e.ppa(&g)).0 == victim)
        };
        if root || pinned {
            return self.checkpoint(false);
        }
        self.flush(self.pages().map())?;
        self.flush(self.pages().index())?;
        if !pieces.is_empty() {
            self.write_tables()?;
        }
        Ok(())
    }

    /// Names of the own pages that lie in an EBLOCK.
    pub(crate) fn own_names_in(self, e: EblockId) -> Vec<PageName> {
        let g = *self.env().geometry();
        let here = |home: Entry| g.locate(home.ppa(&g)).0 == e;
        let mut names = Vec::new();
        let own = |kind| move |n| PageName::Own(kind, n);
        names.extend(self.pages().map().at_home_in(here).into_iter().map(own(OwnKind::Map)));
        names.extend(self.pages().index().at_home_in(here).into_iter().map(own(OwnKind::Index)));
        let state = self.state();
        for kind in TABLES {
            let pieces = state.tables().pieces(kind).filter(|(_, home)| here(*home));
            names.extend(pieces.map(|(p, _)| PageName::Own(kind, p as u64)));
        }
        if state.tables().root().is_some_and(here) {
            names.push(PageName::Own(OwnKind::Root, 0));
        }
        names
    }
}
