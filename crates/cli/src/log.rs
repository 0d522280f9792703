//! `--log`: prints the traces of the libraries on standard error.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::error::{CliError, CliResult};

/// Prints what passes the filter from now on: each event, and each span with its duration when it ends.
pub(crate) fn show(filter: &str) -> CliResult {
    let filter = EnvFilter::try_new(filter)
        .map_err(|e| CliError::Usage(format!("--log '{}': {e}", filter.escape_debug())))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(io::stderr)
        .init();
    Ok(())
}
