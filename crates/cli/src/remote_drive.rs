//! Drives that are served elsewhere: `tcp://HOST:PORT` in the place of a file.

use std::path::Path;
use std::sync::Arc;

use lode_remote::{ClientOptions, RemoteDevice};

use crate::error::{CliError, CliResult};

/// What an address begins with.
pub(crate) const SCHEME: &str = "tcp://";

/// The address, if it is one.
pub(crate) fn address(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(SCHEME)
}

/// Connects to a drive.
pub(crate) fn connect(addr: &str) -> CliResult<RemoteDevice> {
    let options = ClientOptions::new(Arc::new(std::thread::sleep));
    RemoteDevice::connect(addr, options).map_err(|e| CliError::Failed(format!("{SCHEME}{e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_files() {
        assert_eq!(address(Path::new("tcp://localhost:4780")), Some("localhost:4780"));
        assert_eq!(address(Path::new("tcp.lode")), None);
        assert_eq!(address(Path::new("/tcp://x")), None);
    }
}
