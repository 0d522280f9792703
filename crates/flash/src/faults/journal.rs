//! Keeps the contents before each unsynced write, so that any subset of these writes can be undone.
//!
//! ```text
//!   write, hole ─► what was there, sector by sector         sync ─► forgotten: all of it is durable
//!   power cut   ─► each sector as it was at some moment since the last sync, in no order among sectors
//! ```
//!
//! This models a page cache. The last write that survives in a sector may be torn at a multiple of 512 bytes.

use lode_base::random::Random;
use std::collections::BTreeMap;

use crate::backing::{Bytes, PIECE_BYTES, Pieces};

/// Bytes that reach a medium together, unless a write is torn.
const SECTOR_BYTES: u64 = 4096;
/// Bytes that always reach it together.
pub(crate) const TEAR_BYTES: u64 = 512;

/// The contents of a part of a sector before a write.
struct Undo {
    /// Where the part begins in its sector.
    offset: u64,
    len: u64,
    old: Old,
}

enum Old {
    Zeroes,
    Bytes(Box<[u8]>),
    /// The same place in a piece that was freed.
    Piece(Bytes),
}

impl Undo {
    /// Restores the contents of `sector` from offset `from` on.
    fn apply(&self, to: &Pieces, sector: u64, from: u64) {
        let skip = from.saturating_sub(self.offset);
        if skip >= self.len {
            return;
        }
        let at = sector * SECTOR_BYTES + self.offset + skip;
        let (skip, len) = (skip as usize, self.len as usize);
        match &self.old {
            Old::Zeroes => to.punch(at, self.len - skip as u64),
            Old::Bytes(b) => to.write(at, &b[skip..len]),
            Old::Piece(p) => to.write(at, &p[(at % PIECE_BYTES) as usize..][..len - skip]),
        }
    }
}

#[derive(Default)]
pub(crate) struct Journal {
    /// By sector, oldest first.
    sectors: BTreeMap<u64, Vec<Undo>>,
    durable_len: u64,
}

impl Journal {
    /// A journal without unsynced writes.
    pub(crate) fn synced(len: u64) -> Self {
        Self { sectors: BTreeMap::new(), durable_len: len }
    }

    /// Records `len` bytes at `at` before they are written.
    pub(crate) fn before_write(&mut self, bytes: &Pieces, at: u64, len: u64) {
        self.before(at, len, |at, len| match bytes.piece(at / PIECE_BYTES) {
            None => Old::Zeroes,
            Some(p) => Old::Bytes(p[(at % PIECE_BYTES) as usize..][..len as usize].into()),
        });
    }

    /// Records bytes before they become a hole.
    pub(crate) fn before_punch(&mut self, bytes: &Pieces, at: u64, len: u64) {
        self.before(at, len, |at, _| bytes.piece(at / PIECE_BYTES).map_or(Old::Zeroes, Old::Piece));
    }

    fn before(&mut self, at: u64, len: u64, old: impl Fn(u64, u64) -> Old) {
        let end = at + len;
        let mut at = at;
        while at < end {
            let offset = at % SECTOR_BYTES;
            let len = (SECTOR_BYTES - offset).min(end - at);
            self.sectors.entry(at / SECTOR_BYTES).or_default().push(Undo { offset, len, old: old(at, len) });
            at += len;
        }
    }

    /// Undoes the writes that `seed` chooses in `bytes`, a file of `len` bytes. Returns the length that the file then
    /// has.
    pub(crate) fn undo(&self, bytes: &Pieces, len: u64, seed: u64) -> u64 {
        let mut random = Random(seed);
        let mode = random.below(5);
        let mut found_len = if mode == 0 { len } else { self.durable_len };
        for (&sector, writes) in &self.sectors {
            let all = writes.len();
            let kept = match mode {
                0 => all,
                1 => 0,
                2 if random.below(8) > 0 => all,
                3 if random.below(8) > 0 => 0,
                _ => random.below(all as u64 + 1) as usize,
            };
            for undo in writes[kept..].iter().rev() {
                undo.apply(bytes, sector, 0);
            }
            if kept > 0 {
                let last = &writes[kept - 1];
                if mode > 1 && random.below(16) == 0 {
                    last.apply(bytes, sector, TEAR_BYTES * random.below(SECTOR_BYTES / TEAR_BYTES));
                }
                found_len = found_len.max((sector * SECTOR_BYTES + last.offset + last.len).min(len));
            }
        }
        found_len
    }
}
