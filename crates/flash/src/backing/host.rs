//! The few calls of a host's file that an image needs; the real file, and (in `faults`) one in memory that fails.
//!
//! All take positions, so that no call depends on another. Reads and writes may do a part only, as the system's do.

use std::fs::{File, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// A file of the host.
pub(crate) trait HostFile: Send + Sync {
    /// Fills the beginning of `out`; 0 at the end of the file.
    fn pread(&self, at: u64, out: &mut [u8]) -> io::Result<usize>;
    /// Writes the beginning of `data`.
    fn pwrite(&self, at: u64, data: &[u8]) -> io::Result<usize>;
    /// Writes the beginning of `parts`, one behind the other.
    fn pwrite_vectored(&self, at: u64, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        parts.iter().find(|p| !p.is_empty()).map_or(Ok(0), |p| self.pwrite(at, p))
    }
    /// Begins to bring what was just written to the disk, where the system can: the sync that follows waits for less.
    fn begin_writeback(&self, _at: u64, _len: u64) {}
    /// Makes all that was written, and the length, durable.
    fn fdatasync(&self) -> io::Result<()>;
    /// Makes the file longer, by zeroes that need no space.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes bytes zeroes and gives their space back; `Unsupported` where the file system can not.
    fn punch(&self, at: u64, len: u64) -> io::Result<()>;
    /// Its length.
    fn len(&self) -> io::Result<u64>;
    /// Locks it against other openers; false when one has it. The lock ends with the file.
    fn try_lock(&self) -> io::Result<bool>;
}

impl HostFile for File {
    /// Past the C library, whose call can be cancelled, which costs a cached read some percents.
    #[cfg(target_os = "linux")]
    fn pread(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::pread(self, out, at)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn pread(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.read_at(out, at)
    }

    fn pwrite(&self, at: u64, data: &[u8]) -> io::Result<usize> {
        self.write_at(data, at)
    }

    #[cfg(target_os = "linux")]
    fn pwrite_vectored(&self, at: u64, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::pwritev(self, parts, at)?)
    }

    /// To say that dirty pages are not needed is how to have them written without waiting; they stay in the page cache.
    #[cfg(target_os = "linux")]
    fn begin_writeback(&self, at: u64, len: u64) {
        use rustix::fs::{Advice, fadvise};
        // Advice: whether it is taken changes nothing but time, and the sync tells of writes that fail.
        let _ = fadvise(self, at, std::num::NonZeroU64::new(len), Advice::DontNeed);
    }

    fn fdatasync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    #[cfg(target_os = "linux")]
    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        Ok(fallocate(self, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn try_lock(&self) -> io::Result<bool> {
        match File::try_lock(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}
