//! The calls of a host's file that an image needs. One member is the real file; in `faults` there is one in memory
//! that fails.
//!
//! All calls take positions, so that no call depends on another. Reads and writes may be partial, as those of the
//! system.

use std::fs::{File, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// A file of the host.
pub(crate) trait HostFile: Send + Sync {
    /// Reads a prefix of `out`. Returns 0 at the end of the file.
    fn pread(&self, at: u64, out: &mut [u8]) -> io::Result<usize>;
    /// Writes a prefix of `data`.
    fn pwrite(&self, at: u64, data: &[u8]) -> io::Result<usize>;
    /// Writes a prefix of the concatenated `parts`.
    fn pwrite_vectored(&self, at: u64, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        parts.iter().find(|p| !p.is_empty()).map_or(Ok(0), |p| self.pwrite(at, p))
    }
    /// Starts writeback of bytes that were just written, if the system can, so that the next sync waits for less.
    fn begin_writeback(&self, _at: u64, _len: u64) {}
    /// Makes all that was written, and the length, durable.
    fn fdatasync(&self) -> io::Result<()>;
    /// Makes the file longer, by zeroes that need no space.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Zeroes bytes and frees their space; `Unsupported` if the file system cannot.
    fn punch(&self, at: u64, len: u64) -> io::Result<()>;
    /// Bytes that the file system has left; `None` where nobody knows.
    fn space_left(&self) -> Option<u64> {
        None
    }
    /// Its length.
    fn len(&self) -> io::Result<u64>;
    /// Locks it against other openers; false when one has it. The lock ends with the file.
    fn try_lock(&self) -> io::Result<bool>;
}

impl HostFile for File {
    /// Bypasses the C library: its call is a cancellation point, which costs a cached read some percent.
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

    /// DONTNEED for dirty pages starts writeback without waiting. The pages stay in the page cache.
    #[cfg(target_os = "linux")]
    fn begin_writeback(&self, at: u64, len: u64) {
        use rustix::fs::{Advice, fadvise};
        // Errors are ignored: this is advice that affects only time, and the sync reports writes that fail.
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

    #[cfg(target_os = "linux")]
    fn space_left(&self) -> Option<u64> {
        let of = rustix::fs::fstatvfs(self).ok()?;
        Some(of.f_bavail.saturating_mul(of.f_frsize))
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
