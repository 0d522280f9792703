//! An image in a file: positioned reads and writes, a lock against other openers, and growth by whole groups.
//!
//! The lock belongs to the open file, so it ends with the process, even after a crash.

use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::FlashError;
use crate::backing::{Backing, HostFile};
use crate::layout::{GROUP_BYTES, group_at, whole_groups};

/// A write of at least this many bytes starts writeback at once. A sync of fewer bytes is cheap anyway.
const WRITEBACK_BYTES: u64 = 128 << 10;

pub(crate) struct FileBacking {
    file: Box<dyn HostFile>,
    path: PathBuf,
    len: AtomicU64,
    /// Its length when it was opened.
    found: u64,
    /// A bit for each group whose blocks are allocated. Groups beyond the end are not.
    prepared: Vec<AtomicU64>,
    /// Held while the file grows; readers never take it.
    growing: Mutex<()>,
}

impl FileBacking {
    /// Takes the lock on `file` and its length.
    ///
    /// # Errors
    /// [`FlashError::Busy`] when another opener has it.
    pub(crate) fn new(file: Box<dyn HostFile>, path: &Path) -> Result<Self, FlashError> {
        if !file.try_lock().map_err(|e| FlashError::io(path, "lock the image", e))? {
            return Err(FlashError::Busy { path: path.into() });
        }
        let len = file.len().map_err(|e| FlashError::io(path, "read the image's length", e))?;
        let (prepared, growing) = (Vec::new(), Mutex::new(()));
        Ok(Self { file, path: path.into(), len: AtomicU64::new(len), found: len, prepared, growing })
    }

    /// Sets the number of groups of the medium. Groups that already lie in the file count as allocated.
    pub(crate) fn with_groups(mut self, groups: u64) -> Self {
        let whole = whole_groups(self.len());
        let word = |i: u64| match whole.saturating_sub(i * 64) {
            n @ 0..64 => (1 << n) - 1,
            _ => u64::MAX,
        };
        self.prepared = (0..groups.div_ceil(64)).map(|i| AtomicU64::new(word(i))).collect();
        self
    }

    fn prepared(&self, group: u64) -> (&AtomicU64, u64) {
        (&self.prepared[(group / 64) as usize], 1 << (group % 64))
    }

    fn write_ahead(&self, group: u64) -> io::Result<()> {
        static ZEROES: [u8; 128 << 10] = [0; 128 << 10];
        let (at, end) = (group_at(group), group_at(group + 1));
        // If a power cut left the image ending within the group, the bytes before that end may be valid data, even if
        // the image has grown since.
        let from = if (at..end).contains(&self.found) { self.found } else { at };
        // One write for all, so that the page cache holds the group in few large pieces, and later writes reach the
        // disk in as few.
        let mut left = (end - from) as usize;
        let mut parts = Vec::with_capacity(left.div_ceil(ZEROES.len()));
        while left > 0 {
            let part = left.min(ZEROES.len());
            parts.push(IoSlice::new(&ZEROES[..part]));
            left -= part;
        }
        self.write_all_vectored(from, &mut parts)
    }

    fn write_all(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_vectored(at, &mut [IoSlice::new(data)])
    }

    fn write_all_vectored(&self, at: u64, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let (from, mut at) = (at, at);
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match self.file.pwrite_vectored(at, parts) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    IoSlice::advance_slices(&mut parts, n);
                    at += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let before = self.len.fetch_max(at, Ordering::Relaxed);
        // New blocks are allocated by the sync, all at once, which is faster.
        if at - from >= WRITEBACK_BYTES && at <= before {
            self.file.begin_writeback(from, at - from);
        }
        Ok(())
    }
}

impl Backing for FileBacking {
    fn path(&self) -> &Path {
        &self.path
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn read(&self, at: u64, out: &mut [u8], operation: &'static str) -> Result<(), FlashError> {
        let mut done = 0;
        while done < out.len() {
            match self.file.pread(at + done as u64, &mut out[done..]) {
                Ok(0) => {
                    out[done..].fill(0);
                    break;
                }
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(FlashError::io(&self.path, operation, e)),
            }
        }
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8], operation: &'static str) -> Result<(), FlashError> {
        self.write_all(at, data).map_err(|e| FlashError::io(&self.path, operation, e))
    }

    fn write_vectored(&self, at: u64, parts: &[&[u8]], operation: &'static str) -> Result<(), FlashError> {
        let mut parts: Vec<_> = parts.iter().map(|p| IoSlice::new(p)).collect();
        self.write_all_vectored(at, &mut parts).map_err(|e| FlashError::io(&self.path, operation, e))
    }

    fn prepare_group(&self, group: u64, ahead: bool) -> Result<(), FlashError> {
        let (word, bit) = self.prepared(group);
        if word.load(Ordering::Acquire) & bit != 0 {
            return Ok(());
        }
        let _growing = self.growing.lock();
        if word.load(Ordering::Acquire) & bit != 0 {
            return Ok(());
        }
        let end = group_at(group) + GROUP_BYTES;
        let grown = match (ahead, end > self.len()) {
            (true, _) => self.write_ahead(group),
            (false, true) => self.file.set_len(end),
            (false, false) => Ok(()),
        };
        grown.map_err(|e| FlashError::io(&self.path, "grow the image", e))?;
        self.len.fetch_max(end, Ordering::Relaxed);
        word.fetch_or(bit, Ordering::Release);
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) -> Result<(), FlashError> {
        let len = len.min(self.len().saturating_sub(at));
        if len == 0 {
            return Ok(());
        }
        match self.file.punch(at, len) {
            Err(e) if e.kind() != ErrorKind::Unsupported => {
                Err(FlashError::io(&self.path, "punch a hole", e))
            }
            _ => Ok(()),
        }
    }

    fn space_left(&self) -> Option<u64> {
        self.file.space_left()
    }

    fn forget_group(&self, group: u64) {
        let (word, bit) = self.prepared(group);
        word.fetch_and(!bit, Ordering::AcqRel);
    }

    fn sync(&self) -> Result<(), FlashError> {
        self.file.fdatasync().map_err(|e| FlashError::io(&self.path, "sync the image", e))
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::layout::DATA_AT;

    #[test]
    fn a_group_is_written_ahead_once_and_the_file_never_shrinks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let open = || {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            Box::new(file.unwrap())
        };
        let b = FileBacking::new(open(), &path).unwrap().with_groups(70);
        assert!(matches!(FileBacking::new(open(), &path), Err(FlashError::Busy { .. })));
        b.prepare_group(2, false).unwrap();
        b.prepare_group(1, true).unwrap();
        assert_eq!(b.len(), DATA_AT + 3 * GROUP_BYTES);
        b.write(group_at(1), &[7; 10], "write").unwrap();
        b.prepare_group(1, true).unwrap();
        let mut out = [0; 10];
        b.read(group_at(1), &mut out, "read").unwrap();
        assert_eq!(out, [7; 10]);
        drop(b);
        let b = FileBacking::new(open(), &path).unwrap().with_groups(70);
        assert_eq!(b.len(), DATA_AT + 3 * GROUP_BYTES);
        assert_eq!(b.prepared[0].load(Ordering::Relaxed), 0b111);
        b.read(b.len() - 5, &mut out, "read").unwrap();
        assert_eq!(out, [0; 10], "beyond the end there are zeroes");
    }

    /// Found by the simulation: after a power cut the image ended within a group, and its valid bytes there were
    /// overwritten with zeroes.
    #[test]
    fn growing_spares_what_lies_before_the_end_of_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let b = FileBacking::new(Box::new(file()), &path).unwrap().with_groups(70);
        b.prepare_group(1, true).unwrap();
        b.write(group_at(1), &[7; 10], "write").unwrap();
        drop(b);
        file().set_len(group_at(1) + 5000).unwrap();
        // Found by simulation seed 64558: the image had grown by another group before.
        for groups in [&[1][..], &[3, 1]] {
            let b = FileBacking::new(Box::new(file()), &path).unwrap().with_groups(70);
            groups.iter().for_each(|&g| b.prepare_group(g, true).unwrap());
            let mut out = [0; 10];
            b.read(group_at(1), &mut out, "read").unwrap();
            let end = group_at(groups[0] + 1);
            assert_eq!((out, b.len()), ([7; 10], end));
            drop(b);
            file().set_len(group_at(1) + 5000).unwrap();
        }
    }
}
