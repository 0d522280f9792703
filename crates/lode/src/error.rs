//! Errors of opening, using and closing a database.

use std::path::{Path, PathBuf};

use lode_base::Geometry;
use lode_command::CommandError;
use lode_engine::EngineError;
use lode_firmware::FirmwareError;

use crate::drive::SCHEME;

/// An error of opening, using or closing a database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not an image, is damaged, in use, or cannot be written.
    #[error("{}", of_file(path, source))]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FirmwareError,
    },
    /// No drive is served at this address.
    #[error("{SCHEME}{what}")]
    Served {
        /// The address.
        address: String,
        /// What is wrong. The text begins with the address.
        what: String,
    },
    /// An address was given where an image is to be created.
    #[error("{}: an image can only be made in a file, not at a network address", path.display())]
    NotAFile {
        /// The address.
        path: PathBuf,
    },
    /// A profile was given for a served drive. The server of a drive models its device.
    #[error("{}: a served drive takes its profile from its server: lode drive serve --profile", path.display())]
    ModelledElsewhere {
        /// The address.
        path: PathBuf,
    },
    /// The units of the image differ from those of the profile.
    #[error(
        "{}: the image has {}, but {profile} has {}: make one with lode drive format --profile {profile}",
        path.display(), units(image), units(wanted)
    )]
    Units {
        /// The image.
        path: PathBuf,
        /// Its units.
        image: Box<Geometry>,
        /// The profile.
        profile: String,
        /// The units of the profile.
        wanted: Box<Geometry>,
    },
    /// The database on the drive failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The thread for background work could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The capacity is too small or too large for an image.
    #[error("{0}")]
    Capacity(String),
}

impl Error {
    /// An error of the drive in the image at `path`.
    pub fn file(path: &Path) -> impl FnOnce(FirmwareError) -> Self + '_ {
        move |source| Self::File { path: path.into(), source }
    }

    /// Whether the message names the database that failed.
    pub fn names_the_database(&self) -> bool {
        match self {
            Self::File { .. }
            | Self::Served { .. }
            | Self::NotAFile { .. }
            | Self::ModelledElsewhere { .. }
            | Self::Units { .. } => true,
            Self::Engine(_) | Self::Thread(_) | Self::Capacity(_) => false,
        }
    }
}

/// The message of a drive's error, with the file's name exactly once.
fn of_file(path: &Path, source: &FirmwareError) -> String {
    let names_the_file = match source {
        FirmwareError::Flash(e) => e.path().is_some(),
        FirmwareError::Damaged { .. }
        | FirmwareError::NewerVersion { .. }
        | FirmwareError::NoCheckpoint { .. }
        | FirmwareError::Full { .. }
        | FirmwareError::LogDead { .. } => true,
        // The text comes from the medium and begins with its file.
        FirmwareError::Refused(
            CommandError::Medium(_) | CommandError::MediumFull(_) | CommandError::ReadOnly(_),
        )
        | FirmwareError::ReadOnly(_) => true,
        FirmwareError::Geometry(_)
        | FirmwareError::TooSmall { .. }
        | FirmwareError::NoSpares { .. }
        | FirmwareError::Refused(_) => false,
    };
    if names_the_file { source.to_string() } else { format!("{}: {source}", path.display()) }
}

/// Describes a geometry in a few words.
fn units(g: &Geometry) -> String {
    format!(
        "{} channels x {} ways x {} planes and {} EBLOCKs of {} bytes (RBLOCK {}, WBLOCK {})",
        g.channels(),
        g.ways(),
        g.planes(),
        g.eblock_count(),
        g.eblock_bytes(),
        g.rblock_bytes(),
        g.wblock_bytes()
    )
}
