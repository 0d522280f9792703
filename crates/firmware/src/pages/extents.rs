//! Extents and their owners.
//!
//! ```text
//!   free ── allocate ─► owned ── release (commit R) ─► resting ── every view older than R closed ─► free
//! ```
//!
//! An allocation is logged with the next log group; a crash before that undoes it. A released extent rests, so that no view
//! meets another owner's pages under an LPID that it knows.
//!
//! On the medium a piece of the table has owner + 1 of each of its extents, 0 for none, up to the last extent that has an
//! owner. A piece without owners is not there.
//!
//! Invariants: the table takes space only for extents up to the last one with an owner in each piece. The lowest free extents
//! are handed out first.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::{ExtentId, OwnerId};

use crate::own::TABLE_PIECE_ENTRIES;
use crate::planted::at;

/// How far beyond all others an extent may be numbered.
const NUMBERS_AHEAD_MAX: u64 = 1 << 30;

/// The owners of consecutive extents.
#[derive(Default)]
struct Piece {
    /// Owner + 1 of each extent; 0 has none. The last one has an owner.
    owners: Vec<u32>,
    owned: usize,
}

#[derive(Default)]
pub(crate) struct Extents {
    /// Pieces with an owner in them; the last one has some.
    pieces: Vec<Option<Box<Piece>>>,
    owned: u64,
    /// Entries of all pieces.
    entries: u64,
    /// Every extent below this has an owner or rests.
    lowest: u64,
    /// Released extents and the commit that released them.
    resting: BTreeMap<u64, u64>,
    /// Allocated, and not logged yet.
    unlogged: Vec<(OwnerId, ExtentId)>,
    /// Pieces that changed since they were written.
    dirty: BTreeSet<usize>,
}

/// The piece of an extent, and its number there.
fn place(e: u64) -> (usize, usize) {
    let of_piece = TABLE_PIECE_ENTRIES as u64;
    ((e / of_piece) as usize, (e % of_piece) as usize)
}

impl Extents {
    pub(crate) fn owner(&self, e: ExtentId) -> Option<OwnerId> {
        let (piece, at) = place(e.raw());
        let owner = self.pieces.get(piece)?.as_ref()?.owners.get(at)?;
        owner.checked_sub(1).map(OwnerId::new)
    }

    /// All extents with an owner.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ExtentId, OwnerId)> {
        let pieces = self.pieces.iter().enumerate().filter_map(|(i, p)| Some((i, p.as_ref()?)));
        pieces.flat_map(|(i, p)| {
            let from = (i * TABLE_PIECE_ENTRIES) as u64;
            let owned = move |(at, &o): (usize, &u32)| {
                Some((ExtentId::new(from + at as u64)?, OwnerId::new(o.checked_sub(1)?)))
            };
            p.owners.iter().enumerate().filter_map(owned)
        })
    }

    /// How many have an owner.
    pub(crate) fn owned(&self) -> u64 {
        self.owned
    }

    /// The `count` lowest extents that may be handed out. Extents that were released after `shown` go on resting: the oldest
    /// commit that a view shows, or may come to show. `None` when an extent would lie too far beyond all others.
    pub(crate) fn choose(&mut self, count: u32, shown: u64) -> Option<Vec<ExtentId>> {
        let lowest = &mut self.lowest;
        self.resting.retain(|&extent, &mut released| {
            let rests = at!(ExtentTooEarly => false, shown < released);
            if !rests {
                *lowest = (*lowest).min(extent);
            }
            rests
        });
        let mut chosen = Vec::with_capacity(count as usize);
        let mut at = self.lowest;
        while chosen.len() < count as usize {
            let (piece, in_piece) = place(at);
            let p = self.pieces.get(piece).and_then(|p| p.as_deref());
            if p.is_some_and(|p| p.owned == TABLE_PIECE_ENTRIES) {
                at = (piece as u64 + 1) * TABLE_PIECE_ENTRIES as u64;
                continue;
            }
            let owned = p.and_then(|p| p.owners.get(in_piece)).is_some_and(|&o| o != 0);
            if !owned && !self.resting.contains_key(&at) {
                chosen.push(ExtentId::new(at).filter(|e| !self.is_far(*e))?);
            }
            at += 1;
        }
        Some(chosen)
    }

    /// The bytes and the number of pieces that the table would have if these extents had owners, too.
    pub(crate) fn media_bytes_with(&self, chosen: &[ExtentId]) -> (u64, u64) {
        let len =
            |piece: usize| self.pieces.get(piece).and_then(|p| p.as_ref()).map_or(0, |p| p.owners.len());
        let mut entries = self.entries;
        // The extents ascend: the last of each piece counts.
        for (i, e) in chosen.iter().enumerate() {
            let (piece, at) = place(e.raw());
            if chosen.get(i + 1).is_none_or(|next| place(next.raw()).0 != piece) {
                entries += (at + 1).saturating_sub(len(piece)) as u64;
            }
        }
        let last = chosen.last().map_or(0, |e| place(e.raw()).0 + 1);
        (entries * 4, last.max(self.pieces.len()) as u64)
    }

    /// Hands out what was chosen.
    pub(crate) fn hand_out(&mut self, owner: OwnerId, chosen: &[ExtentId]) {
        for &e in chosen {
            self.set(e, Some(owner));
            self.unlogged.push((owner, e));
            self.lowest = e.raw() + 1;
        }
    }

    /// Whether an extent lies so far beyond the others that it was never handed out: extents are dense.
    fn is_far(&self, e: ExtentId) -> bool {
        e.raw() > (self.pieces.len() * TABLE_PIECE_ENTRIES) as u64 + NUMBERS_AHEAD_MAX
    }

    fn set(&mut self, e: ExtentId, owner: Option<OwnerId>) {
        let (piece, at) = place(e.raw());
        self.dirty.insert(piece);
        if self.pieces.len() <= piece {
            if owner.is_none() {
                return;
            }
            self.pieces.resize_with(piece + 1, || None);
        }
        let p = self.pieces[piece].get_or_insert_default();
        self.owned -= p.owned as u64;
        self.entries -= p.owners.len() as u64;
        if p.owners.len() <= at {
            p.owners.resize(at + 1, 0);
        }
        let before = std::mem::replace(&mut p.owners[at], owner.map_or(0, |o| o.raw() + 1));
        p.owned = p.owned + usize::from(owner.is_some()) - usize::from(before != 0);
        p.shrink();
        self.owned += p.owned as u64;
        self.entries += p.owners.len() as u64;
        if p.owned == 0 {
            self.pieces[piece] = None;
            self.drop_last();
        }
    }

    /// Drops empty pieces at the end.
    fn drop_last(&mut self) {
        while self.pieces.pop_if(|p| p.is_none()).is_some() {}
    }

    /// Allocations that the log does not have yet.
    pub(crate) fn unlogged(&self) -> Vec<(OwnerId, ExtentId)> {
        self.unlogged.clone()
    }

    /// How many those are.
    pub(crate) fn unlogged_count(&self) -> usize {
        self.unlogged.len()
    }

    /// The first `count` of them are logged now.
    pub(crate) fn logged(&mut self, count: usize) {
        self.unlogged.drain(..count);
    }

    /// Takes an extent from its owner at `commit`.
    pub(crate) fn release(&mut self, e: ExtentId, commit: u64) {
        self.set(e, None);
        self.resting.insert(e.raw(), commit);
    }

    /// Replays an allocation.
    pub(crate) fn replay(&mut self, owner: OwnerId, e: ExtentId) -> Result<(), &'static str> {
        if self.is_far(e) {
            return Err("an extent far beyond the others is allocated");
        }
        self.set(e, Some(owner));
        Ok(())
    }

    /// Recovery is over: extents without an owner are free.
    pub(crate) fn restored(&mut self) {
        self.resting.clear();
        self.lowest = 0;
    }

    /// Sets a piece as it lies on the medium. Earlier versions wrote pieces without owners; the next checkpoint drops them.
    pub(crate) fn restore_piece(&mut self, piece: usize, owners: &[u32]) {
        let owned = owners.iter().filter(|o| **o != 0).count();
        if owned == 0 {
            self.dirty.insert(piece);
            return;
        }
        if self.pieces.len() <= piece {
            self.pieces.resize_with(piece + 1, || None);
        }
        let mut p = Piece { owners: owners.to_vec(), owned };
        p.shrink();
        self.owned += owned as u64;
        self.entries += p.owners.len() as u64;
        self.pieces[piece] = Some(Box::new(p));
    }

    /// The changed pieces, which count as written from now on; `None` for a piece without owners.
    pub(crate) fn take_dirty_pieces(&mut self) -> Vec<(usize, Option<Vec<u32>>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let owners = |p: usize| Some(self.pieces.get(p)?.as_ref()?.owners.clone());
        dirty.into_iter().map(|p| (p, owners(p))).collect()
    }

    /// A piece is to be written again.
    pub(crate) fn mark_piece_dirty(&mut self, piece: usize) {
        self.dirty.insert(piece);
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Bytes of the whole table.
    pub(crate) fn media_bytes(&self) -> u64 {
        self.entries * 4
    }
}

impl Piece {
    /// Drops free extents behind the last owner.
    fn shrink(&mut self) {
        while self.owners.pop_if(|o| *o == 0).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(x: &mut Extents, owner: u32, count: u32, shown: u64) -> Vec<u64> {
        let chosen = x.choose(count, shown).unwrap();
        let expected = x.media_bytes_with(&chosen);
        x.hand_out(OwnerId::new(owner), &chosen);
        assert_eq!(expected, (x.media_bytes(), x.pieces.len() as u64));
        assert_eq!(x.owned(), x.all().count() as u64);
        chosen.into_iter().map(ExtentId::raw).collect()
    }

    fn release(x: &mut Extents, extents: impl Iterator<Item = u64>, commit: u64) {
        extents.for_each(|e| x.release(ExtentId::new(e).unwrap(), commit));
    }

    #[test]
    fn a_released_extent_rests_until_older_views_closed() {
        let mut x = Extents::default();
        assert_eq!(allocate(&mut x, 0, 2, 0), [0, 1]);
        release(&mut x, 0..1, 5);
        assert_eq!(x.owner(ExtentId::new(0).unwrap()), None);
        assert_eq!(allocate(&mut x, 7, 1, 4), [2]);
        assert_eq!(allocate(&mut x, 7, 1, 5), [0]);
        assert_eq!(x.all().map(|(e, o)| (e.raw(), o.raw())).collect::<Vec<_>>(), [(0, 7), (1, 0), (2, 7)]);
    }

    /// Extents that were released kept their bytes in the table for good.
    #[test]
    fn the_table_takes_what_has_owners() {
        let mut x = Extents::default();
        allocate(&mut x, 1, 5000, 0);
        assert_eq!(x.media_bytes(), 20_000);
        x.take_dirty_pieces();
        release(&mut x, 4500..5000, 3);
        assert_eq!((x.media_bytes(), x.owned()), (18_000, 4500));
        // A hole takes nothing but in the pieces that it begins and ends in; its extents rest, and come again.
        release(&mut x, 100..4000, 4);
        assert_eq!((x.media_bytes(), x.owned()), ((100 + 4500 - 3 * 1024) * 4, 600));
        let empty: Vec<_> = x.take_dirty_pieces().into_iter().map(|(p, b)| (p, b.map(|b| b.len()))).collect();
        assert_eq!(empty, [(0, Some(100)), (1, None), (2, None), (3, Some(1024)), (4, Some(404))]);
        assert_eq!(allocate(&mut x, 2, 2, 2), [5000, 5001]);
        assert_eq!(allocate(&mut x, 2, 2, 3), [4500, 4501]);
        assert_eq!(allocate(&mut x, 2, 2, 4), [100, 101]);
        let all: Vec<u64> = x.all().map(|(e, _)| e.raw()).collect();
        release(&mut x, all.into_iter(), 5);
        assert_eq!((x.media_bytes(), x.owned(), x.pieces.len()), (0, 0, 0));
        assert!(x.take_dirty_pieces().iter().all(|(_, b)| b.is_none()));
        assert_eq!(allocate(&mut x, 3, 3, 5), [0, 1, 2]);
    }

    /// Before, released extents were written as zeros.
    #[test]
    fn a_table_as_it_was_written_once_shrinks_when_it_is_read() {
        let mut x = Extents::default();
        x.restore_piece(0, &[0; 1024]);
        x.restore_piece(1, &[0, 0, 4, 0, 0]);
        x.restore_piece(2, &[0; 700]);
        x.restored();
        assert_eq!((x.media_bytes(), x.owned(), x.pieces.len()), (12, 1, 2));
        assert_eq!(x.take_dirty_pieces(), [(0, None), (2, None)], "they go with the next checkpoint");
        assert_eq!(allocate(&mut x, 9, 1026, 0).last(), Some(&1025));
        assert_eq!(allocate(&mut x, 9, 1, 0), [1027]);
    }
}
