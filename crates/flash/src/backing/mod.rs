//! The storage of an image's bytes. All members have the same layout (see `layout`).

mod file;
mod host;
mod memory;
mod pieces;

use std::path::Path;

pub(crate) use file::FileBacking;
pub(crate) use host::HostFile;
pub(crate) use memory::MemoryBacking;
pub(crate) use pieces::{Bytes, PIECE_BYTES, Pieces};

use crate::FlashError;

/// Bytes at positions. Any number of threads may read and write at the same time.
pub(crate) trait Backing: Send + Sync {
    /// The name in messages.
    fn path(&self) -> &Path;

    /// Whether synced bytes survive the process.
    fn is_durable(&self) -> bool;

    /// Fills `out` from position `at`. Bytes that were never written read as zeroes.
    fn read(&self, at: u64, out: &mut [u8], operation: &'static str) -> Result<(), FlashError>;

    /// Writes `data` at position `at`.
    fn write(&self, at: u64, data: &[u8], operation: &'static str) -> Result<(), FlashError>;

    /// Writes `parts`, one behind the other, from position `at` on.
    fn write_vectored(&self, at: u64, parts: &[&[u8]], operation: &'static str) -> Result<(), FlashError> {
        let mut at = at;
        for part in parts {
            self.write(at, part, operation)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Prepares group `group` for writes. With `ahead`, its blocks are written now, so that many small synced writes
    /// need not each allocate.
    fn prepare_group(&self, group: u64, ahead: bool) -> Result<(), FlashError>;

    /// Frees the space of these bytes. They then read as zeroes, or as before.
    fn punch(&self, at: u64, len: u64) -> Result<(), FlashError>;

    /// Marks a group whose space was freed: it must be prepared again before its next write.
    fn forget_group(&self, group: u64);

    /// Bytes that the file system has left; `None` where nobody knows.
    fn space_left(&self) -> Option<u64>;

    /// Makes all writes durable.
    fn sync(&self) -> Result<(), FlashError>;

    /// The length of the image.
    fn len(&self) -> u64;

    /// A copy of the image, if that is possible.
    fn copy(&self) -> Option<Box<dyn Backing>> {
        None
    }
}
