//! The outcome of a command: quiet success, or one line on standard error and an exit status.

use std::fmt::Display;
use std::io;
use std::path::Path;

use lode_bench::BenchError;
use lode_command::CommandError;
use lode_engine::EngineError;
use lode_firmware::FirmwareError;
use lode_sql::SqlError;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum CliError {
    /// It failed for this reason.
    Failed(String),
    /// A SQL statement failed.
    Sql(SqlError),
    /// Its command line is wrong.
    Usage(String),
    /// A signal stopped it.
    Interrupted,
    /// The reader of its output is gone. This is not an error.
    OutputClosed,
}

/// The result of every command.
pub(crate) type CliResult<T = ()> = Result<T, CliError>;

impl CliError {
    /// A failure of a file that `error` does not name.
    pub(crate) fn file(path: &Path, error: impl Display) -> Self {
        Self::Failed(format!("{}: {error}", path.display()))
    }

    /// A failure of the database at `path`, which is an image or the address of a served drive.
    pub(crate) fn database(path: &Path, error: impl Into<lode::Error>) -> Self {
        match error.into() {
            // The text comes from the medium and begins with its file.
            lode::Error::Engine(EngineError::Drive(
                e @ (CommandError::Medium(_) | CommandError::MediumFull(_) | CommandError::ReadOnly(_)),
            )) if lode::drive::address(path).is_none() => Self::Failed(e.to_string()),
            e if e.names_the_database() => Self::Failed(e.to_string()),
            e => Self::file(path, e),
        }
    }

    /// A failure of the drive in the image at `path`.
    pub(crate) fn drive(path: &Path) -> impl FnOnce(FirmwareError) -> Self + '_ {
        move |e| Self::Failed(lode::Error::file(path)(e).to_string())
    }

    /// Whether it is a failure, and not an interrupt or a closed output.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Sql(_) | Self::Usage(_))
    }

    /// The line for standard error, if there is one.
    pub(crate) fn message(&self) -> Option<String> {
        let statement;
        let text = match self {
            Self::Failed(text) | Self::Usage(text) => text,
            Self::Sql(e) => {
                statement = with_sqlstate(e);
                &statement
            }
            Self::Interrupted => "interrupted",
            Self::OutputClosed => return None,
        };
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The exit status.
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Failed(_) | Self::Sql(_) => 1,
            Self::Usage(_) => 2,
            Self::Interrupted => 128 + crate::interrupt::signal().unwrap_or(signal_hook::consts::SIGINT),
            Self::OutputClosed => 0,
        }
    }
}

/// A failure of a statement as users see it: `ERROR 42P01: there is no table x`.
pub(crate) fn with_sqlstate(e: &SqlError) -> String {
    format!("ERROR {}: {e}", e.sqlstate())
}

impl From<SqlError> for CliError {
    fn from(e: SqlError) -> Self {
        Self::Sql(e)
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

impl From<BenchError> for CliError {
    fn from(e: BenchError) -> Self {
        match e {
            BenchError::Interrupted => Self::Interrupted,
            e => Self::Failed(e.to_string()),
        }
    }
}

impl From<io::Error> for CliError {
    /// An error of writing to standard output. Errors of files carry their path ([`CliError::file`]).
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
    fn a_database_is_named_once() {
        let path = Path::new("a.lode");
        let check = |e: CliError, expected: &str| assert_eq!(e.message().as_deref(), Some(expected));
        check(
            CliError::database(path, EngineError::SnapshotTooOld),
            "a.lode: snapshot too old: the drive closed its view",
        );
        let full = CommandError::MediumFull("a.lode: cannot write data: no space".into());
        check(
            CliError::database(path, EngineError::Drive(full.clone())),
            "a.lode: cannot write data: no space",
        );
        check(CliError::drive(path)(FirmwareError::Refused(full)), "a.lode: cannot write data: no space");
        let no_checkpoint = FirmwareError::NoCheckpoint { path: path.into() };
        check(CliError::drive(path)(no_checkpoint), "a.lode: the image has no checkpoint record, but data");
        let spares = FirmwareError::NoSpares { retired: 3, spares: 2 };
        check(CliError::drive(path)(spares), "a.lode: 3 EBLOCKs failed, and there are 2 spares");
    }

    #[test]
    fn a_message_is_one_line() {
        let e = CliError::file(Path::new("a.lode"), "first\n  second");
        assert_eq!(e.message().as_deref(), Some("a.lode: first second"));
        assert_eq!((e.status(), CliError::Usage(String::new()).status()), (1, 2));
    }
}
