//! `--log`: prints the traces of the libraries on standard error.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::error::{CliError, CliResult};

/// Whether a part of a filter is a word alone, but not a level. The filter would take it for the name of a module, and print
/// nothing.
fn is_mistyped(part: &str) -> bool {
    let is_word = !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
    is_word && part != "lode" && part.parse::<LevelFilter>().is_err()
}

/// Prints what passes the filter from now on: each event, and each span with its duration when it ends.
pub(crate) fn show(filter: &str) -> CliResult {
    if let Some(word) = filter.split(',').map(str::trim).find(|part| is_mistyped(part)) {
        let levels = "off, error, warn, info, debug, trace";
        let word = word.escape_debug();
        return Err(CliError::Usage(format!("--log: '{word}' is no level ({levels}) and no target=level")));
    }
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
