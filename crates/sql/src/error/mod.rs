//! What can be wrong with a statement: an SQLSTATE, and one line that names the problem and its place.
//!
//! ```text
//!   sqlparser, DataFusion, Arrow ─► libraries, phrases ─┐
//!   engine ─────────────────────────────────────────────┴─► SqlError ─► "line 1, column 8: there is no column x ..."
//! ```
//!
//! An error gets its SQLSTATE where it is made. `state.rs` names the states. Some errors of the libraries differ in their text
//! alone: `phrases.rs` is the only file that looks at it.
//!
//! Invariant: no message holds a line break.

mod fields;
mod libraries;
mod phrases;
pub(crate) mod state;

use std::io;
use std::path::Path;

use lode_command::CommandError;
use lode_engine::EngineError;

use crate::names::shown;

pub use fields::ErrorFields;
pub(crate) use libraries::arrow_sqlstate;

/// Why a statement failed. It changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The text is not SQL.
    #[error("syntax error at line {line}, column {column}: {message}")]
    Syntax {
        /// Line of the script, from 1; 0 where the parser does not know it.
        line: u64,
        /// Column of the line, from 1.
        column: u64,
        /// What was expected and what was found.
        message: String,
    },
    /// SQL that Lode does not support.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The statement contradicts the catalog, its types or its values, or failed as it ran.
    #[error("{}{message}", place_prefix(.place))]
    Failed {
        /// Its SQLSTATE.
        state: &'static str,
        /// Line and column of the script, where they are known.
        place: Option<(u64, u64)>,
        /// What is wrong.
        message: String,
    },
    /// A column that its table does not have.
    #[error("table \"{}\" has no column \"{column}\"", shown(table))]
    NoColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A column that a definition or a list of columns names twice.
    #[error("column \"{column}\" is {how} twice")]
    ColumnTwice {
        /// The column.
        column: String,
        /// How it is used: declared, named.
        how: &'static str,
    },
    /// A value that the type of its column cannot hold.
    #[error("column \"{column}\": {message}")]
    BadValue {
        /// Its SQLSTATE.
        state: &'static str,
        /// The column.
        column: String,
        /// What is wrong with it.
        message: String,
    },
    /// A row for which a CHECK is false.
    #[error("table \"{}\": a row violates the check constraint \"{constraint}\"", shown(table))]
    Check {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
    },
    /// A number that its type cannot hold.
    #[error("{0} out of range")]
    OutOfRange(&'static str),
    /// A division, or a remainder, by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A text that is no value of a type.
    #[error("invalid input syntax for type {of}: {value:?}")]
    BadInput {
        /// Its SQLSTATE: dates and times have one of their own.
        state: &'static str,
        /// The type.
        of: String,
        /// The text.
        value: String,
    },
    /// Two types between which there is no cast.
    #[error("cannot cast type {from} to {to}")]
    NoCast {
        /// The type of the value.
        from: String,
        /// The type that was asked for.
        to: String,
    },
    /// An operator that does not take these types: `date = integer`.
    #[error("operator does not exist: {0}")]
    NoOperator(String),
    /// Types that have no type in common.
    #[error("{0} cannot be matched")]
    NoMatch(String),
    /// The transaction failed before; it can only be rolled back.
    #[error("current transaction is aborted, commands ignored until end of transaction block")]
    TransactionFailed,
    /// A change within a transaction that is READ ONLY.
    #[error("cannot change anything in a read-only transaction")]
    ReadOnly,
    /// A statement that needs an open transaction.
    #[error("{0} can only be used in transaction blocks")]
    NoTransaction(&'static str),
    /// No savepoint of that name.
    #[error("savepoint \"{0}\" does not exist")]
    NoSavepoint(String),
    /// The engine refused.
    #[error("{}", shown(&.0.to_string()))]
    Engine(#[from] EngineError),
    /// A file that cannot be read or written, or is not what COPY expects.
    #[error("{path}: {message}")]
    File {
        /// Its SQLSTATE.
        state: &'static str,
        /// The file, as the statement names it.
        path: String,
        /// What went wrong.
        message: String,
    },
    /// A malformed value in a file.
    #[error("{path}: line {line}, column {column}: {message}")]
    Malformed {
        /// The table that would have had the row.
        table: String,
        /// Its SQLSTATE.
        state: &'static str,
        /// The file, as the statement names it.
        path: String,
        /// Line (CSV) or row (Parquet), from 1.
        line: u64,
        /// The column: its name, or its number from 1 where it has none.
        column: String,
        /// What is wrong with the value.
        message: String,
    },
}

impl SqlError {
    /// The error of a statement with ON CONFLICT, of which a key was free at its snapshot: another transaction has taken it since.
    pub(crate) fn of_race(self) -> Self {
        match self {
            Self::Engine(e @ (EngineError::DuplicateKey { .. } | EngineError::Unique { .. })) => {
                EngineError::Conflict { what: e.to_string() }.into()
            }
            other => other,
        }
    }

    /// The SQLSTATE by which PostgreSQL's clients know such an error.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => state::SYNTAX_ERROR,
            Self::Unsupported(_) => state::FEATURE_NOT_SUPPORTED,
            Self::OutOfRange(_) => state::NUMERIC_VALUE_OUT_OF_RANGE,
            Self::DivisionByZero => state::DIVISION_BY_ZERO,
            Self::NoCast { .. } => state::CANNOT_COERCE,
            Self::NoOperator(_) => state::UNDEFINED_FUNCTION,
            Self::NoMatch(_) => state::DATATYPE_MISMATCH,
            Self::TransactionFailed => state::FAILED_TRANSACTION,
            Self::ReadOnly => state::READ_ONLY_TRANSACTION,
            Self::Check { .. } => state::CHECK_VIOLATION,
            Self::NoTransaction(_) => state::NO_ACTIVE_TRANSACTION,
            Self::NoSavepoint(_) => state::INVALID_SAVEPOINT,
            Self::NoColumn { .. } => state::UNDEFINED_COLUMN,
            Self::ColumnTwice { .. } => state::DUPLICATE_COLUMN,
            Self::Engine(e) => engine_sqlstate(e),
            Self::Failed { state, .. }
            | Self::BadValue { state, .. }
            | Self::BadInput { state, .. }
            | Self::File { state, .. }
            | Self::Malformed { state, .. } => state,
        }
    }

    /// The line of the script that is to blame, from 1, where it is known.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Syntax { line, .. } if *line > 0 => Some(*line),
            Self::Failed { place: Some((line, _)), .. } => Some(*line),
            _ => None,
        }
    }

    /// The same error of a script that begins `lines` lines before the text that was run.
    #[must_use]
    pub fn moved_down(self, lines: u64) -> Self {
        match self {
            Self::Syntax { line, column, message } if line > 0 => {
                Self::Syntax { line: line + lines, column, message }
            }
            Self::Failed { state, place: Some((line, column)), message } => {
                Self::Failed { state, place: Some((line + lines, column)), message }
            }
            other => other,
        }
    }

    /// A failure without a place.
    pub(crate) fn failed(state: &'static str, message: impl AsRef<str>) -> Self {
        Self::Failed { state, place: None, message: one_line(message.as_ref()) }
    }

    /// A text that is no value of type `of`.
    pub(crate) fn bad_input(of: impl Into<String>, value: impl Into<String>) -> Self {
        Self::BadInput { state: state::INVALID_TEXT_REPRESENTATION, of: of.into(), value: value.into() }
    }

    /// The runtime ends while a statement is under way.
    pub(crate) fn shutting_down() -> Self {
        Self::failed(state::ADMIN_SHUTDOWN, "the database is shutting down")
    }

    /// A file that the system refuses.
    pub(crate) fn io(path: impl AsRef<Path>, error: &io::Error) -> Self {
        let state = match error.kind() {
            io::ErrorKind::NotFound => state::UNDEFINED_FILE,
            _ => state::IO_ERROR,
        };
        Self::File { state, path: path.as_ref().display().to_string(), message: one_line(&error.to_string()) }
    }

    /// A file that COPY cannot read or write, or that is not what it expects.
    pub(crate) fn file(state: &'static str, path: impl AsRef<Path>, error: impl std::fmt::Display) -> Self {
        Self::File { state, path: path.as_ref().display().to_string(), message: one_line(&error.to_string()) }
    }

    /// The same error at a place of the script, unless it already has one.
    pub(crate) fn at(self, line: u64, column: u64) -> Self {
        match self {
            Self::Failed { state, place: None, message } => {
                Self::Failed { state, place: Some((line, column)), message }
            }
            other => other,
        }
    }
}

fn engine_sqlstate(e: &EngineError) -> &'static str {
    match e {
        EngineError::Conflict { .. } => state::SERIALIZATION_FAILURE,
        EngineError::SequenceEnd { .. } => state::SEQUENCE_LIMIT_EXCEEDED,
        EngineError::DuplicateKey { .. } | EngineError::Unique { .. } => state::UNIQUE_VIOLATION,
        EngineError::ForeignKey { .. } => state::FOREIGN_KEY_VIOLATION,
        EngineError::NotNull { .. } | EngineError::ContainsNulls { .. } => state::NOT_NULL_VIOLATION,
        EngineError::Referenced { .. } | EngineError::ReferencedKey { .. } => {
            state::DEPENDENT_OBJECTS_STILL_EXIST
        }
        EngineError::NoSuchTable(_) => state::UNDEFINED_TABLE,
        EngineError::TableExists(_) | EngineError::IndexExists(_) => state::DUPLICATE_TABLE,
        EngineError::NoSuchIndex(_) | EngineError::NoSuchTree(_) | EngineError::NoSuchConstraint { .. } => {
            state::UNDEFINED_OBJECT
        }
        EngineError::TreeExists(_) => state::DUPLICATE_OBJECT,
        EngineError::DuplicateColumn { .. } => state::DUPLICATE_COLUMN,
        EngineError::Invalid { .. } => state::INVALID_TABLE_DEFINITION,
        EngineError::TooLong { .. } => state::STRING_DATA_RIGHT_TRUNCATION,
        EngineError::RowTooLong { .. }
        | EngineError::EntryTooLong { .. }
        | EngineError::TransactionTooLarge { .. } => state::PROGRAM_LIMIT_EXCEEDED,
        EngineError::KeyOrder { .. } => state::DATA_EXCEPTION,
        EngineError::SnapshotTooOld => state::SNAPSHOT_TOO_OLD,
        EngineError::BadCatalog { .. }
        | EngineError::BadPage { .. }
        | EngineError::BadTreePage { .. }
        | EngineError::BadRedo { .. }
        | EngineError::Page(_) => state::DATA_CORRUPTED,
        EngineError::NewerCatalog { .. }
        | EngineError::NoCatalog { .. }
        | EngineError::NoSuchRow { .. }
        | EngineError::Program(_)
        | EngineError::Protocol { .. } => state::INTERNAL_ERROR,
        EngineError::Drive(CommandError::NoMemory { .. }) => state::OUT_OF_MEMORY,
        EngineError::Drive(CommandError::Overflow(_)) => state::NUMERIC_VALUE_OUT_OF_RANGE,
        EngineError::OutOfSpace { .. } | EngineError::Drive(CommandError::MediumFull(_)) => state::DISK_FULL,
        EngineError::Halted(_) | EngineError::Drive(_) | EngineError::Device(_) => state::IO_ERROR,
    }
}

fn place_prefix(place: &Option<(u64, u64)>) -> String {
    place.map_or_else(String::new, |(line, column)| format!("line {line}, column {column}: "))
}

/// Characters of a message that are shown: a quoted piece of a statement can be as long as the statement.
const MESSAGE_CHARS: usize = 600;

/// `text` on one line of bounded length; runs of blanks and line breaks become one blank.
pub(crate) fn one_line(text: &str) -> String {
    let parts: Vec<&str> = text.split(['\n', '\r']).map(str::trim).filter(|p| !p.is_empty()).collect();
    let line = shown(&parts.join(" "));
    match line.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
