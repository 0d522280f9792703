//! Why a drive cannot be made, opened or kept.

use std::path::{Path, PathBuf};

use lode_base::GeometryError;
use lode_command::CommandError;
use lode_flash::FlashError;

/// Why a drive cannot be made, opened or kept. Each message is one line that names the problem and the
/// place.
#[derive(Debug, thiserror::Error)]
pub enum FirmwareError {
    /// The medium, or the image that it lies in.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// An impossible shape.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A structure of the drive is not what was written.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// The image.
        path: PathBuf,
        /// Which structure, where, and what is wrong with it.
        what: String,
    },
    /// A newer Lode wrote a structure of the drive.
    #[error("{}: {structure} has format version {version}; this Lode reads up to {known}", path.display())]
    NewerVersion {
        /// The image.
        path: PathBuf,
        /// Which structure.
        structure: &'static str,
        /// Its version.
        version: u16,
        /// The newest known here.
        known: u16,
    },
    /// There is data, but no checkpoint that says where.
    #[error("{}: the image has no checkpoint record, but data", path.display())]
    NoCheckpoint {
        /// The image.
        path: PathBuf,
    },
    /// The medium has too few erase units, or too small ones, for a drive.
    #[error(
        "the medium has {got} EBLOCKs of {got_bytes} bytes; a drive needs at least {needed} of {needed_bytes}"
    )]
    TooSmall {
        /// EBLOCKs that it has.
        got: u32,
        /// EBLOCKs that are needed.
        needed: u32,
        /// Their bytes.
        got_bytes: u32,
        /// Bytes of an EBLOCK that are needed.
        needed_bytes: u32,
    },
    /// No EBLOCK is left for what the drive itself must write.
    #[error("{}: the medium is full: no EBLOCK is left for {what}", path.display())]
    Full {
        /// The image.
        path: PathBuf,
        /// What needed it.
        what: &'static str,
    },
    /// More EBLOCKs failed than there are spares for.
    #[error("{retired} EBLOCKs failed, and there are {spares} spares")]
    NoSpares {
        /// EBLOCKs that failed.
        retired: u32,
        /// EBLOCKs that may fail.
        spares: u32,
    },
    /// None of the candidates for the next log page can be programmed.
    #[error("{}: the log cannot go on: all {candidates} candidates for page {lsn} failed", path.display())]
    LogDead {
        /// The image.
        path: PathBuf,
        /// The page.
        lsn: u64,
        /// How many candidates there were.
        candidates: usize,
    },
    /// A command failed that the drive gave itself.
    #[error("{0}")]
    Refused(CommandError),
    /// An earlier failure left the drive read-only.
    #[error("the drive is read-only until it is opened again: {0}")]
    ReadOnly(String),
}

impl FirmwareError {
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.into(), what: what.into() }
    }

    /// Whether the file system is full, or the medium: trying again later can help.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Flash(e) => e.is_no_space(),
            Self::Full { .. } => true,
            Self::Refused(e) => matches!(e, CommandError::OutOfSpace { .. } | CommandError::MediumFull(_)),
            _ => false,
        }
    }

    /// Whether a structure on the medium is damaged: it is lost, and the drive goes on.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Flash(e) => e.is_uncorrectable(),
            _ => false,
        }
    }
}

impl From<FirmwareError> for CommandError {
    fn from(e: FirmwareError) -> Self {
        match e {
            FirmwareError::ReadOnly(why) => Self::ReadOnly(why),
            FirmwareError::Refused(e) => e,
            e if e.is_no_space() => Self::MediumFull(e.to_string()),
            e => Self::Medium(e.to_string()),
        }
    }
}
