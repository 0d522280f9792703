//! Sparse bytes in memory with copy-on-write copies.
//!
//! ```text
//!   position ── / 64 KB ─► piece (shared until it is written)     no piece: zeroes, no space taken
//! ```
//!
//! Invariant: a copy is a consistent snapshot. A writer holds the table's lock for reading, so that no copy has a
//! write without all writes that ended before it began.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes that are allocated at a time.
pub(crate) const PIECE_BYTES: u64 = 64 << 10;

/// The bytes of a piece, perhaps shared with copies.
pub(crate) type Bytes = Arc<[u8]>;
type Piece = Arc<RwLock<Bytes>>;

#[derive(Default)]
pub(crate) struct Pieces(RwLock<HashMap<u64, Piece>>);

/// One piece of zeroes, which all zeroes share.
fn zeroes() -> &'static Bytes {
    static ZEROES: OnceLock<Bytes> = OnceLock::new();
    ZEROES.get_or_init(|| vec![0; PIECE_BYTES as usize].into())
}

impl Pieces {
    /// A copy.
    pub(crate) fn copy(&self) -> Self {
        let copy = |(&i, p): (&u64, &Piece)| (i, Arc::new(RwLock::new(p.read().clone())));
        let pieces = self.0.write();
        Self(RwLock::new(pieces.iter().map(copy).collect()))
    }

    /// The bytes of a piece; `None` if it was never written.
    pub(crate) fn piece(&self, index: u64) -> Option<Bytes> {
        self.0.read().get(&index).map(|p| p.read().clone())
    }

    /// Whether a whole range is allocated.
    pub(crate) fn holds(&self, at: u64, len: u64) -> bool {
        let pieces = self.0.read();
        parts(at, len).all(|(index, ..)| pieces.contains_key(&index))
    }

    /// Fills `out` from `at`.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) {
        for (index, offset, done, part) in parts(at, out.len() as u64) {
            let piece = self.0.read().get(&index).cloned();
            match piece {
                Some(p) => out[done..done + part].copy_from_slice(&p.read()[offset..offset + part]),
                None => out[done..done + part].fill(0),
            }
        }
    }

    /// Writes `data` at `at`.
    pub(crate) fn write(&self, at: u64, data: &[u8]) {
        for (index, offset, done, part) in parts(at, data.len() as u64) {
            let pieces = self.for_write(index);
            let mut piece = pieces[&index].write();
            let data = &data[done..done + part];
            if !Arc::ptr_eq(&piece, zeroes()) || data != &zeroes()[..part] {
                Arc::make_mut(&mut piece)[offset..offset + part].copy_from_slice(data);
            }
        }
    }

    /// The table, locked for reading, with this piece in it.
    fn for_write(&self, index: u64) -> RwLockReadGuard<'_, HashMap<u64, Piece>> {
        let pieces = self.0.read();
        if pieces.contains_key(&index) {
            return pieces;
        }
        drop(pieces);
        let mut pieces = self.0.write();
        pieces.entry(index).or_insert_with(|| Arc::new(RwLock::new(zeroes().clone())));
        RwLockWriteGuard::downgrade(pieces)
    }

    /// Zeroes a range. Whole pieces are freed.
    pub(crate) fn punch(&self, at: u64, len: u64) {
        for (index, offset, _, part) in parts(at, len) {
            if part as u64 == PIECE_BYTES {
                self.0.write().remove(&index);
            } else if let Some(p) = self.0.read().get(&index) {
                Arc::make_mut(&mut p.write())[offset..offset + part].fill(0);
            }
        }
    }
}

/// Splits `len` bytes at `at` into (piece, offset in it, offset in the buffer, bytes).
fn parts(at: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let at = at + done;
            let offset = at % PIECE_BYTES;
            let part = (PIECE_BYTES - offset).min(len - done);
            done += part;
            (at / PIECE_BYTES, offset as usize, (done - part) as usize, part as usize)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_copy_and_its_original_go_their_own_ways() {
        let a = Pieces::default();
        a.write(PIECE_BYTES - 3, &[1; 6]);
        let b = a.copy();
        a.write(PIECE_BYTES, &[2; 2]);
        b.punch(0, PIECE_BYTES);
        b.punch(PIECE_BYTES + 2, 1);
        let read = |p: &Pieces| {
            let mut out = [9; 8];
            p.read(PIECE_BYTES - 4, &mut out);
            out
        };
        assert_eq!(read(&a), [0, 1, 1, 1, 2, 2, 1, 0]);
        assert_eq!(read(&b), [0, 0, 0, 0, 1, 1, 0, 0]);
        assert!(a.holds(0, 2 * PIECE_BYTES) && !b.holds(0, 2 * PIECE_BYTES) && !a.holds(0, 1 << 20));
    }

    #[test]
    fn a_copy_has_no_write_without_those_that_were_over_before_it() {
        // Found by a test: a copied drive lacked a log page although a later page proved it durable.
        let p = Pieces::default();
        let over = AtomicBool::new(false);
        let value = |p: &Pieces, piece: u64| {
            let mut out = [0; 8];
            p.read(piece * PIECE_BYTES, &mut out);
            u64::from_le_bytes(out)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0_u64.. {
                    (0..40).for_each(|i| p.write(i * PIECE_BYTES, &n.to_le_bytes()));
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
            let found: Vec<Vec<u64>> = (0..200)
                .map(|_| {
                    let copy = p.copy();
                    (0..40).map(|i| value(&copy, i)).collect()
                })
                .collect();
            over.store(true, Ordering::SeqCst);
            for f in found {
                assert!(f.is_sorted_by(|a, b| a >= b) && f[0] <= f[39] + 1, "{f:?}");
            }
        });
    }

    #[test]
    fn zeroes_take_space_but_no_memory_until_they_are_overwritten() {
        let p = Pieces::default();
        p.write(0, &vec![0; PIECE_BYTES as usize * 2]);
        assert!(p.holds(0, PIECE_BYTES * 2));
        assert!(Arc::ptr_eq(&p.piece(1).unwrap(), zeroes()));
        p.write(5, &[7]);
        p.write(5, &[0]);
        assert!(zeroes().iter().all(|&b| b == 0));
        let mut out = [9];
        p.read(5, &mut out);
        assert_eq!(out, [0]);
    }
}
