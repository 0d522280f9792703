//! How a command ends: quietly, or with one line on standard error and an exit status.

use std::io;
use std::path::Path;

use lode_bench::BenchError;
use lode_engine::EngineError;
use lode_firmware::FirmwareError;
use lode_sql::SqlError;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum CliError {
    /// It failed; the text says why.
    Failed(String),
    /// Its command line makes no sense.
    Usage(String),
    /// A signal stopped it.
    Interrupted,
    /// Whoever read its output went away: no error.
    OutputClosed,
}

/// What every command returns.
pub(crate) type CliResult<T = ()> = Result<T, CliError>;

impl CliError {
    /// A failure to do with a file.
    pub(crate) fn file(path: &Path, error: impl std::fmt::Display) -> Self {
        let (path, text) = (path.display().to_string(), error.to_string());
        // Some errors name their file already.
        if text.contains(&path) { Self::Failed(text) } else { Self::Failed(format!("{path}: {text}")) }
    }

    /// The line for standard error, if there is one to write.
    pub(crate) fn message(&self) -> Option<String> {
        let text = match self {
            Self::Failed(text) | Self::Usage(text) => text,
            Self::Interrupted => "interrupted",
            Self::OutputClosed => return None,
        };
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The exit status.
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Interrupted => 128 + crate::interrupt::signal().unwrap_or(signal_hook::consts::SIGINT),
            Self::OutputClosed => 0,
        }
    }
}

impl From<SqlError> for CliError {
    fn from(e: SqlError) -> Self {
        Self::Failed(e.to_string())
    }
}

impl From<EngineError> for CliError {
    fn from(e: EngineError) -> Self {
        Self::Failed(e.to_string())
    }
}

impl From<lode::Error> for CliError {
    fn from(e: lode::Error) -> Self {
        Self::Failed(e.to_string())
    }
}

impl From<FirmwareError> for CliError {
    fn from(e: FirmwareError) -> Self {
        Self::Failed(e.to_string())
    }
}

impl From<BenchError> for CliError {
    fn from(e: BenchError) -> Self {
        match e {
            BenchError::Interrupted => Self::Interrupted,
            e => Self::Failed(e.to_string()),
        }
    }
}

impl From<io::Error> for CliError {
    /// Of writing to standard output; errors of files carry their path ([`CliError::file`]).
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("standard output: {e}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let e = CliError::file(Path::new("a.lode"), "first\n  second");
        assert_eq!(e.message().as_deref(), Some("a.lode: first second"));
        assert_eq!(
            CliError::file(Path::new("a.lode"), "a.lode is empty").message().as_deref(),
            Some("a.lode is empty")
        );
        assert_eq!((e.status(), CliError::Usage(String::new()).status()), (1, 2));
    }
}
