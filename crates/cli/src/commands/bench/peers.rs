//! Runs `lode-peers`. It is a separate binary because RocksDB takes long to compile.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{CliError, CliResult};

const NAME: &str = "lode-peers";

/// Runs a command of `lode-peers` with these arguments.
pub(super) fn run(command: &str, args: impl Iterator<Item = OsString>) -> CliResult {
    let path = beside().filter(|p| p.is_file()).ok_or_else(|| {
        CliError::Failed(format!(
            "{NAME} is not in the folder of this binary: scripts/build_peers.sh builds it"
        ))
    })?;
    let status =
        Command::new(&path).arg(command).args(args).status().map_err(|e| CliError::file(&path, e))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(CliError::Failed(format!("{NAME} ended with status {code}"))),
        None => Err(CliError::Interrupted),
    }
}

fn beside() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.join(NAME))
}
