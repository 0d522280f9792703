//! An image in memory: volatile, sparse.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::FlashError;
use crate::backing::{Backing, Pieces};
use crate::layout::{DATA_AT, GROUP_BYTES};

pub(crate) struct MemoryBacking {
    pieces: Pieces,
    len: AtomicU64,
}

impl MemoryBacking {
    pub(crate) fn new() -> Self {
        Self { pieces: Pieces::default(), len: AtomicU64::new(DATA_AT) }
    }
}

impl Backing for MemoryBacking {
    fn path(&self) -> &Path {
        Path::new("<memory>")
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn read(&self, at: u64, out: &mut [u8], _: &'static str) -> Result<(), FlashError> {
        self.pieces.read(at, out);
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8], _: &'static str) -> Result<(), FlashError> {
        self.pieces.write(at, data);
        self.len.fetch_max(at + data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn prepare_group(&self, group: u64, _: bool) -> Result<(), FlashError> {
        self.len.fetch_max(DATA_AT + (group + 1) * GROUP_BYTES, Ordering::Relaxed);
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) -> Result<(), FlashError> {
        self.pieces.punch(at, len);
        Ok(())
    }

    fn space_left(&self) -> Option<u64> {
        None
    }

    fn forget_group(&self, _: u64) {}

    fn sync(&self) -> Result<(), FlashError> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn copy(&self) -> Option<Box<dyn Backing>> {
        Some(Box::new(Self { pieces: self.pieces.copy(), len: AtomicU64::new(self.len()) }))
    }
}
