//! Why a drive can not be reached, or not be served.

use std::io;

use lode_command::DeviceError;

/// Why there is no device behind an address.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Nobody answers there, or what answers is no drive.
    #[error("{addr}: {what}")]
    Unreachable {
        /// The address.
        addr: String,
        /// What went wrong last.
        what: String,
    },
    /// Another client is connected: a drive has one at a time.
    #[error("{addr}: the drive is in use by another client")]
    Busy {
        /// The address.
        addr: String,
    },
    /// The drive can not be used.
    #[error("{addr}: {error}")]
    Device {
        /// The address.
        addr: String,
        /// Why.
        error: DeviceError,
    },
    /// The server can not run.
    #[error("cannot serve: {0}")]
    Server(#[from] io::Error),
}
