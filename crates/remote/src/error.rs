//! Why a drive cannot be reached or served.

use std::io;

use lode_command::DeviceError;

/// Why there is no device behind an address.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No server answers at the address, or the server that answers does not serve a drive.
    #[error("{addr}: {what}")]
    Unreachable {
        /// The address.
        addr: String,
        /// The last error.
        what: String,
    },
    /// Another client is connected. A drive has one client at a time.
    #[error("{addr}: the drive is in use by another client")]
    Busy {
        /// The address.
        addr: String,
    },
    /// The server answers, but the drive reports an error.
    #[error("{addr}: {error}")]
    Device {
        /// The address.
        addr: String,
        /// The drive's error.
        error: DeviceError,
    },
    /// The server cannot run.
    #[error("cannot serve: {0}")]
    Server(#[from] io::Error),
}
