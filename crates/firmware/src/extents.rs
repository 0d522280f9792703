//! Extents and their owners.
//!
//! ```text
//!   free ── allocate ─► owned ── release (commit R) ─► resting ── every view older than R closed ─► free
//! ```
//!
//! An allocation is logged with the next system action; until then a crash undoes it. A released extent
//! rests, so that no view meets another owner's pages under an LPID that it knows. On the medium: owner + 1
//! for each extent, 0 without.

use std::collections::BTreeSet;

use lode_base::{ExtentId, OwnerId};

use crate::drive_page::TABLE_PIECE_ENTRIES;
use crate::planted::{self, Planted};

#[derive(Default)]
pub(crate) struct Extents {
    /// Owner + 1 of each extent; 0 has none.
    owners: Vec<u32>,
    free: BTreeSet<u64>,
    /// Released extents and the commit that released them.
    resting: Vec<(u64, u64)>,
    /// Allocated, and not logged yet.
    unlogged: Vec<(OwnerId, ExtentId)>,
    /// Pieces that changed since they were written.
    dirty: BTreeSet<usize>,
}

impl Extents {
    pub(crate) fn owner(&self, e: ExtentId) -> Option<OwnerId> {
        let owner = self.owners.get(usize::try_from(e.raw()).ok()?)?;
        owner.checked_sub(1).map(OwnerId::new)
    }

    /// All extents with an owner.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ExtentId, OwnerId)> {
        let owned =
            |(i, &o): (usize, &u32)| Some((ExtentId::new(i as u64)?, OwnerId::new(o.checked_sub(1)?)));
        self.owners.iter().enumerate().filter_map(owned)
    }

    /// How many have an owner.
    pub(crate) fn owned(&self) -> u64 {
        self.all().count() as u64
    }

    /// Hands out `count` extents, lowest first. Those released after `shown`, the oldest
    /// commit that a view shows or may come to show, are left to rest.
    pub(crate) fn allocate(&mut self, owner: OwnerId, count: u32, shown: u64) -> Vec<ExtentId> {
        self.resting.retain(|&(extent, released)| {
            let rests = shown < released && !planted::is(Planted::ExtentTooEarly);
            if !rests {
                self.free.insert(extent);
            }
            rests
        });
        let next = |this: &mut Self| this.free.pop_first().unwrap_or(this.owners.len() as u64);
        (0..count)
            .map(|_| {
                let raw = next(self);
                let extent = ExtentId::new(raw).expect("extents are numbered below 2^38");
                self.set(extent, Some(owner));
                self.unlogged.push((owner, extent));
                extent
            })
            .collect()
    }

    fn set(&mut self, e: ExtentId, owner: Option<OwnerId>) {
        let at = e.raw() as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, 0);
        }
        self.owners[at] = owner.map_or(0, |o| o.raw() + 1);
        self.dirty.insert(at / TABLE_PIECE_ENTRIES);
    }

    /// Allocations that the log does not have yet.
    pub(crate) fn unlogged(&self) -> Vec<(OwnerId, ExtentId)> {
        self.unlogged.clone()
    }

    /// The first `count` of them are logged now.
    pub(crate) fn logged(&mut self, count: usize) {
        self.unlogged.drain(..count);
    }

    /// Takes an extent from its owner at `commit`.
    pub(crate) fn release(&mut self, e: ExtentId, commit: u64) {
        self.set(e, None);
        self.resting.push((e.raw(), commit));
    }

    /// Replays an allocation.
    pub(crate) fn replay(&mut self, owner: OwnerId, e: ExtentId) -> Result<(), &'static str> {
        // Extents are dense: one far beyond the others was never handed out.
        if e.raw() > self.owners.len() as u64 + (1 << 24) {
            return Err("an extent far beyond the others is allocated");
        }
        self.set(e, Some(owner));
        Ok(())
    }

    /// The table is as it was on the medium, and replayed: what has no owner is free.
    pub(crate) fn restored(&mut self) {
        self.resting.clear();
        let free = |(i, &o): (usize, &u32)| (o == 0).then_some(i as u64);
        self.free = self.owners.iter().enumerate().filter_map(free).collect();
    }

    pub(crate) fn restore_piece(&mut self, piece: usize, owners: &[u32]) {
        let from = piece * TABLE_PIECE_ENTRIES;
        if self.owners.len() < from + owners.len() {
            self.owners.resize(from + owners.len(), 0);
        }
        self.owners[from..from + owners.len()].copy_from_slice(owners);
    }

    /// The changed pieces, which count as written from now on.
    pub(crate) fn take_dirty_pieces(&mut self) -> Vec<(usize, Vec<u32>)> {
        let piece = |p: usize| {
            let from = p * TABLE_PIECE_ENTRIES;
            self.owners[from..(from + TABLE_PIECE_ENTRIES).min(self.owners.len())].to_vec()
        };
        std::mem::take(&mut self.dirty).into_iter().map(|p| (p, piece(p))).collect()
    }

    /// A piece whose writing failed, or which is to be written anew.
    pub(crate) fn mark_piece_dirty(&mut self, piece: usize) {
        self.dirty.insert(piece);
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Bytes of the whole table.
    pub(crate) fn media_bytes(&self) -> u64 {
        self.owners.len() as u64 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_extent_rests_until_older_views_closed() {
        let mut x = Extents::default();
        let (a, b) = (OwnerId::new(0), OwnerId::new(7));
        assert_eq!(x.allocate(a, 2, 0).iter().map(|e| e.raw()).collect::<Vec<_>>(), [0, 1]);
        let zero = ExtentId::new(0).unwrap();
        x.release(zero, 5);
        assert_eq!(x.owner(zero), None);
        assert_eq!(x.allocate(b, 1, 4)[0].raw(), 2);
        assert_eq!(x.allocate(b, 1, 5)[0].raw(), 0);
        assert_eq!(x.all().map(|(e, o)| (e.raw(), o.raw())).collect::<Vec<_>>(), [(0, 7), (1, 0), (2, 7)]);
    }
}
