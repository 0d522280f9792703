//! An image in memory: volatile, sparse.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::FlashError;
use crate::backing::Backing;
use crate::layout::{DATA_AT, GROUP_BYTES};

/// Bytes that are allocated at a time.
const PIECE_BYTES: u64 = 256 << 10;

type Piece = Arc<RwLock<Box<[u8]>>>;

pub(crate) struct MemoryBacking {
    pieces: RwLock<HashMap<u64, Piece>>,
    len: AtomicU64,
}

impl MemoryBacking {
    pub(crate) fn new() -> Self {
        Self { pieces: RwLock::default(), len: AtomicU64::new(DATA_AT) }
    }

    /// Another image with the same bytes.
    pub(crate) fn duplicate(&self) -> Self {
        let pieces = self.pieces.read();
        let pieces = pieces.iter().map(|(&i, p)| (i, Arc::new(RwLock::new(p.read().clone())))).collect();
        Self { pieces: RwLock::new(pieces), len: AtomicU64::new(self.len.load(Ordering::Relaxed)) }
    }

    fn piece_for_write(&self, index: u64) -> Piece {
        if let Some(p) = self.pieces.read().get(&index) {
            return p.clone();
        }
        let empty = || Arc::new(RwLock::new(vec![0; PIECE_BYTES as usize].into_boxed_slice()));
        self.pieces.write().entry(index).or_insert_with(empty).clone()
    }
}

/// Splits `len` bytes at `at` into (piece, offset in it, offset in the buffer, bytes).
fn parts(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let at = at + done as u64;
            let offset = (at % PIECE_BYTES) as usize;
            let part = (PIECE_BYTES as usize - offset).min(len - done);
            done += part;
            (at / PIECE_BYTES, offset, done - part, part)
        })
    })
}

impl Backing for MemoryBacking {
    fn path(&self) -> &Path {
        Path::new("<memory>")
    }

    fn read(&self, at: u64, out: &mut [u8], _: &'static str) -> Result<(), FlashError> {
        for (index, offset, done, part) in parts(at, out.len()) {
            let piece = self.pieces.read().get(&index).cloned();
            match piece {
                Some(p) => out[done..done + part].copy_from_slice(&p.read()[offset..offset + part]),
                None => out[done..done + part].fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8], _: &'static str) -> Result<(), FlashError> {
        for (index, offset, done, part) in parts(at, data.len()) {
            self.piece_for_write(index).write()[offset..offset + part]
                .copy_from_slice(&data[done..done + part]);
        }
        self.len.fetch_max(at + data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn prepare_group(&self, group: u64, _: bool) -> Result<(), FlashError> {
        self.len.fetch_max(DATA_AT + (group + 1) * GROUP_BYTES, Ordering::Relaxed);
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) -> Result<(), FlashError> {
        let mut pieces = self.pieces.write();
        for (index, _, _, part) in parts(at, len as usize) {
            if part as u64 == PIECE_BYTES {
                pieces.remove(&index);
            }
        }
        Ok(())
    }

    fn forget_group(&self, _: u64) {}

    fn sync(&self) -> Result<(), FlashError> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn copy(&self) -> Option<Box<dyn Backing>> {
        Some(Box::new(self.duplicate()))
    }
}
