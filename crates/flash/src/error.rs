//! Errors of the medium, and of the image file that it lies in.

use std::io;
use std::path::{Path, PathBuf};

use lode_base::{EblockId, Ppa};

use crate::Generation;

/// The number of an input or output error on Linux and similar systems.
pub(crate) const EIO: i32 = 5;
/// The operation of programming a WBLOCK, in messages.
pub(crate) const WRITE_DATA: &str = "write data";
/// The operation before it, if the image must grow first.
pub(crate) const GROW: &str = "grow the image";
const PROGRAM_OPERATIONS: [&str; 2] = [WRITE_DATA, GROW];

/// Why an image was refused, or an operation of the medium failed. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum FlashError {
    /// There is no such file.
    #[error("{}: no such file", path.display())]
    NotFound {
        /// The image.
        path: PathBuf,
    },
    /// A new image would overwrite something.
    #[error("{}: the file exists already; it is not overwritten", path.display())]
    Exists {
        /// The image.
        path: PathBuf,
    },
    /// A directory, a pipe or a device.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// The image.
        path: PathBuf,
    },
    /// The file may not be read and written by this user.
    #[error("{}: permission denied", path.display())]
    NoPermission {
        /// The image.
        path: PathBuf,
    },
    /// Another process, or another part of this one, has the image open.
    #[error("{}: the image is open elsewhere", path.display())]
    Busy {
        /// The image.
        path: PathBuf,
    },
    /// The file has no bytes.
    #[error("{}: the file is empty, not a Lode image", path.display())]
    Empty {
        /// The image.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{}: not a Lode image", path.display())]
    Foreign {
        /// The image.
        path: PathBuf,
    },
    /// The file lost its end.
    #[error("{}: the image is truncated: it has {got_bytes} bytes of at least {needed_bytes}", path.display())]
    Truncated {
        /// The image.
        path: PathBuf,
        /// Its length.
        got_bytes: u64,
        /// The length that it had.
        needed_bytes: u64,
    },
    /// The superblock, its copy or the epoch record is invalid.
    #[error("{}: corrupt superblock: {what}", path.display())]
    CorruptSuperblock {
        /// The image.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// A newer Lode wrote the image.
    #[error("{}: the image has format version {version}; this Lode reads up to {known}", path.display())]
    NewerVersion {
        /// The image.
        path: PathBuf,
        /// Its major version.
        version: u32,
        /// The newest known here.
        known: u32,
    },
    /// An older Lode wrote the image, in a format that is no longer read.
    #[error("{}: the image has format version {version}; this Lode reads {known}: export its data with the Lode that wrote it", path.display())]
    OlderVersion {
        /// The image.
        path: PathBuf,
        /// Its major version.
        version: u32,
        /// The version known here.
        known: u32,
    },
    /// The image uses features that this Lode does not know.
    #[error("{}: the image needs features that this Lode does not know (bits {bits:#x})", path.display())]
    UnknownFeatures {
        /// The image.
        path: PathBuf,
        /// The unknown bits.
        bits: u64,
    },
    /// The operating system refused.
    #[error("{}: cannot {operation}: {source}", path.display())]
    Io {
        /// The image.
        path: PathBuf,
        /// The operation, to follow "cannot".
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier sync failed, so it is unknown what is durable.
    #[error("{}: no more writes until it is opened again, since {cause}", path.display())]
    Poisoned {
        /// The image.
        path: PathBuf,
        /// The failure.
        cause: String,
    },
    /// The bytes of a read unit do not match its tag.
    #[error("checksum mismatch at {at}: got {got:#010x}, expected {expected:#010x}")]
    ChecksumMismatch {
        /// Where the read unit begins.
        at: Ppa,
        /// The checksum of the bytes.
        got: u32,
        /// The checksum in the tag.
        expected: u32,
    },
    /// A read unit of another generation: stale, or never programmed.
    #[error("wrong generation at {at}: got {got}, expected {expected}")]
    WrongGeneration {
        /// Where the read unit begins.
        at: Ppa,
        /// The generation in the tag.
        got: Generation,
        /// The EBLOCK's generation.
        expected: Generation,
    },
    /// The medium could not program a WBLOCK. Its EBLOCK is ended.
    #[error("the medium cannot program the WBLOCK at {at}")]
    ProgramFailed {
        /// Where the WBLOCK begins.
        at: Ppa,
    },
    /// The medium could not erase an EBLOCK. The failure is permanent.
    #[error("the medium cannot erase EBLOCK {eblock}")]
    EraseFailed {
        /// The EBLOCK.
        eblock: EblockId,
    },
    /// The medium could not read a unit, in several attempts.
    #[error("the medium cannot read the unit at {at}")]
    ReadFailed {
        /// Where the read unit begins.
        at: Ppa,
    },
    /// A range that does not lie within one EBLOCK.
    #[error("{len_bytes} bytes at {at} do not lie within one EBLOCK")]
    BadAddress {
        /// Where they would begin.
        at: Ppa,
        /// How many.
        len_bytes: u32,
    },
}

impl FlashError {
    /// The image, if the message names it; `None` for errors that name a place within an image.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::NotFound { path }
            | Self::Exists { path }
            | Self::NotAFile { path }
            | Self::NoPermission { path }
            | Self::Busy { path }
            | Self::Empty { path }
            | Self::Foreign { path }
            | Self::Truncated { path, .. }
            | Self::CorruptSuperblock { path, .. }
            | Self::NewerVersion { path, .. }
            | Self::OlderVersion { path, .. }
            | Self::UnknownFeatures { path, .. }
            | Self::Io { path, .. }
            | Self::Poisoned { path, .. } => Some(path),
            Self::ChecksumMismatch { .. }
            | Self::WrongGeneration { .. }
            | Self::ProgramFailed { .. }
            | Self::EraseFailed { .. }
            | Self::ReadFailed { .. }
            | Self::BadAddress { .. } => None,
        }
    }

    /// Whether the file system, or the user's quota, is full.
    pub fn is_no_space(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }

    /// Whether only this page cannot be read, so that the drive goes on.
    pub fn is_uncorrectable(&self) -> bool {
        matches!(self, Self::ChecksumMismatch { .. } | Self::WrongGeneration { .. } | Self::ReadFailed { .. })
    }

    /// Whether the program may be repeated in another EBLOCK. The failed EBLOCK takes no more programs. A full file
    /// system does not count, since no other place would help.
    pub fn is_program_failure(&self) -> bool {
        match self {
            Self::ProgramFailed { .. } => true,
            Self::Io { operation, .. } => PROGRAM_OPERATIONS.contains(operation) && !self.is_no_space(),
            _ => false,
        }
    }

    /// Whether an EBLOCK cannot be erased, and must be retired.
    pub fn is_erase_failure(&self) -> bool {
        matches!(self, Self::EraseFailed { .. })
    }

    /// Whether the host cannot read this place of the file.
    pub(crate) fn is_bad_block(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.raw_os_error() == Some(EIO))
    }

    /// The error for `operation` on `path`: missing files and permissions have their own.
    pub(crate) fn io(path: &Path, operation: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::AlreadyExists => Self::Exists { path },
            io::ErrorKind::PermissionDenied => Self::NoPermission { path },
            _ => Self::Io { path, operation, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_one_line_and_names_file_and_operation() {
        let io = |kind: io::ErrorKind| FlashError::io(Path::new("a.lode"), "write data", kind.into());
        assert_eq!(io(io::ErrorKind::PermissionDenied).to_string(), "a.lode: permission denied");
        assert_eq!(io(io::ErrorKind::NotFound).to_string(), "a.lode: no such file");
        let full = io(io::ErrorKind::StorageFull);
        assert!(full.is_no_space());
        assert_eq!(full.to_string(), "a.lode: cannot write data: no storage space");
        assert!(!io(io::ErrorKind::PermissionDenied).is_no_space());
    }
}
