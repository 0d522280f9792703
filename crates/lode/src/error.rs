//! Why a database could not be opened, used or closed.

use std::path::{Path, PathBuf};

use lode_base::Geometry;
use lode_command::CommandError;
use lode_engine::EngineError;
use lode_firmware::FirmwareError;

use crate::drive::SCHEME;

/// Why a database could not be opened, used or closed.
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
        /// What is wrong; it names the address.
        what: String,
    },
    /// An address was given where an image is made.
    #[error("{}: an image is a file", path.display())]
    NotAFile {
        /// The address.
        path: PathBuf,
    },
    /// A profile was asked for with a drive that is served: its device is modelled where it is served.
    #[error("{}: the device is modelled where it is served: lode drive serve --profile", path.display())]
    ModelledElsewhere {
        /// The address.
        path: PathBuf,
    },
    /// The image has other units than the profile of the device that is to be modelled.
    #[error(
        "{}: an image of {}; {profile} has {}: lode drive format --profile {profile} makes one",
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
    /// A capacity that is too small or too large for an image.
    #[error("{0}")]
    Capacity(String),
}

impl Error {
    /// An error of the drive in the image at `path`.
    pub fn file(path: &Path) -> impl FnOnce(FirmwareError) -> Self + '_ {
        move |source| Self::File { path: path.into(), source }
    }

    /// Whether the message says which database failed.
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

/// A message that names the file once.
fn of_file(path: &Path, source: &FirmwareError) -> String {
    let names_the_file = match source {
        FirmwareError::Flash(e) => e.path().is_some(),
        FirmwareError::Damaged { .. }
        | FirmwareError::NewerVersion { .. }
        | FirmwareError::NoCheckpoint { .. }
        | FirmwareError::Full { .. }
        | FirmwareError::LogDead { .. } => true,
        // The medium's own words, which begin with its file.
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

/// A geometry in a few words.
fn units(g: &Geometry) -> String {
    format!(
        "{} channels x {} ways x {} planes, units of {}, {} and {} bytes, {} of them",
        g.channels(),
        g.ways(),
        g.planes(),
        g.rblock_bytes(),
        g.wblock_bytes(),
        g.eblock_bytes(),
        g.eblock_count()
    )
}
