//! What the bytes of an image lie in. All members have the same layout (see `layout`).

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

/// Bytes at positions, read and written by any number of threads at a time.
pub(crate) trait Backing: Send + Sync {
    /// The name in messages.
    fn path(&self) -> &Path;

    /// Whether what was synced is there after the process has ended.
    fn is_durable(&self) -> bool;

    /// Fills `out` from position `at`; what was never written reads as zeroes.
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

    /// Makes group `group` ready to be written. With `ahead`, its blocks are written now, so that many small
    /// synced writes to it do not each allocate.
    fn prepare_group(&self, group: u64, ahead: bool) -> Result<(), FlashError>;

    /// Gives the space of these bytes back; they then read as zeroes, or as before.
    fn punch(&self, at: u64, len: u64) -> Result<(), FlashError>;

    /// Whole groups whose space was given back, to be prepared again before their next write.
    fn forget_group(&self, group: u64);

    /// Makes all that was written durable.
    fn sync(&self) -> Result<(), FlashError>;

    /// The length of the image.
    fn len(&self) -> u64;

    /// Another image with the same bytes, where that is possible.
    fn copy(&self) -> Option<Box<dyn Backing>> {
        None
    }
}
