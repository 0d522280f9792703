//! What can be wrong with a statement, told in one line that names the problem and its place.
//!
//! ```text
//!   sqlparser, DataFusion, Arrow, engine ─► SqlError ─► "line 1, column 8: no column \"x\" ..."
//! ```
//!
//! Invariant: no message holds a line break.

use std::path::Path;

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use lode_command::CommandError;
use lode_engine::EngineError;

use crate::names::RESERVED_PREFIX;

/// Why a statement was not done. Whatever the reason, it changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The text is not SQL.
    #[error("syntax error at line {line}, column {column}: {message}")]
    Syntax {
        /// Line of the script, from 1; 0 where the parser told none.
        line: u64,
        /// Column of the line, from 1.
        column: u64,
        /// What was expected and what was found.
        message: String,
    },
    /// SQL that Lode does not do.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The statement contradicts the catalog, its types or its values.
    #[error("{0}")]
    Invalid(String),
    /// An option that there is not, or a value that it cannot have.
    #[error("{0}")]
    BadOption(String),
    /// A column that its table does not have.
    #[error("table \"{table}\" has no column \"{column}\"")]
    NoColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A column that a statement names twice.
    #[error("column \"{column}\" is {what} twice")]
    ColumnTwice {
        /// The column.
        column: String,
        /// What is done to it.
        what: &'static str,
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
    /// The query cannot be planned, or failed as it ran.
    #[error("{}{message}", place_prefix(.place))]
    Query {
        /// Its SQLSTATE.
        state: &'static str,
        /// Line and column of the script, where they are known.
        place: Option<(u64, u64)>,
        /// What went wrong.
        message: String,
    },
    /// A row for which a CHECK is false.
    #[error("table \"{table}\": a row violates the check constraint \"{constraint}\"")]
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
    /// An argument for which a function has no value.
    #[error("{message}")]
    Domain {
        /// Its SQLSTATE.
        state: &'static str,
        /// What is wrong with it.
        message: &'static str,
    },
    /// A value, spelled so, that is none of a type.
    #[error("invalid input syntax for type {of}: {value:?}")]
    BadInput {
        /// The type.
        of: &'static str,
        /// How it is spelled.
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
    /// Types that no operator of this name takes: `date = integer`.
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
    /// What is only said within a transaction.
    #[error("{0} can only be used in transaction blocks")]
    NoTransaction(&'static str),
    /// No savepoint of that name.
    #[error("savepoint \"{0}\" does not exist")]
    NoSavepoint(String),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file cannot be read or written.
    #[error("{path}: {message}")]
    File {
        /// The file, as the statement names it.
        path: String,
        /// What went wrong.
        message: String,
    },
    /// A value in a file is malformed.
    #[error("{path}: line {line}, column {column}: {message}")]
    Malformed {
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
    /// The SQLSTATE that PostgreSQL's clients know such an error by.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "42601",
            Self::Unsupported(_) => "0A000",
            Self::OutOfRange(_) => "22003",
            Self::DivisionByZero => "22012",
            Self::Domain { state, .. } => state,
            Self::BadInput { .. } => "22P02",
            Self::NoCast { .. } => "42846",
            Self::NoOperator(_) => "42883",
            Self::NoMatch(_) => "42804",
            Self::TransactionFailed => "25P02",
            Self::ReadOnly => "25006",
            Self::Check { .. } => "23514",
            Self::NoTransaction(_) => "25P01",
            Self::NoSavepoint(_) => "3B001",
            Self::File { .. } => "58030",
            Self::Malformed { .. } => "22P02",
            Self::Engine(e) => engine_sqlstate(e),
            Self::NoColumn { .. } => "42703",
            Self::ColumnTwice { .. } => "42701",
            Self::Query { state, .. } | Self::BadValue { state, .. } => state,
            Self::Invalid(_) => "42000",
            Self::BadOption(_) => "22023",
        }
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(path: impl AsRef<Path>, error: impl std::fmt::Display) -> Self {
        Self::File { path: path.as_ref().display().to_string(), message: one_line(&error.to_string()) }
    }

    fn query(state: &'static str, message: &str) -> Self {
        Self::Query { state, place: None, message: one_line(message) }
    }

    /// The same error at a place of the script, unless it already has one.
    pub(crate) fn at(self, line: u64, column: u64) -> Self {
        match self {
            Self::Query { state, place: None, message } => {
                Self::Query { state, place: Some((line, column)), message }
            }
            other => other,
        }
    }
}

fn engine_sqlstate(e: &EngineError) -> &'static str {
    match e {
        EngineError::Conflict { .. } => "40001",
        EngineError::DuplicateKey { .. } | EngineError::Unique { .. } => "23505",
        EngineError::ForeignKey { .. } => "23503",
        EngineError::Referenced { .. } => "2BP01",
        EngineError::NotNull { .. } => "23502",
        EngineError::NoSuchTable(_) => "42P01",
        EngineError::TableExists(_) | EngineError::IndexExists(_) => "42P07",
        EngineError::NoSuchIndex(_) | EngineError::NoSuchTree(_) => "42704",
        EngineError::TreeExists(_) => "42710",
        EngineError::EntryTooLong { .. } | EngineError::TransactionTooLarge { .. } => "54000",
        EngineError::KeyOrder { .. } => "22000",
        EngineError::Halted(_) => "58030",
        EngineError::DuplicateColumn { .. } => "42701",
        EngineError::TooLong { .. } => "22001",
        EngineError::RowTooLong { .. } => "54000",
        EngineError::OutOfSpace { .. } => "53100",
        EngineError::SnapshotTooOld => "72000",
        EngineError::Invalid { .. } => "42P16",
        EngineError::BadCatalog { .. }
        | EngineError::BadPage { .. }
        | EngineError::BadTreePage { .. }
        | EngineError::BadRedo { .. }
        | EngineError::Page(_) => "XX001",
        EngineError::NewerCatalog { .. } | EngineError::NoCatalog { .. } => "XX000",
        EngineError::NoSuchRow { .. } | EngineError::Program(_) | EngineError::Protocol { .. } => "XX000",
        EngineError::Drive(CommandError::Overflow(_)) => "22003",
        EngineError::Drive(CommandError::MediumFull(_)) => "53100",
        EngineError::Drive(_) | EngineError::Device(_) => "58030",
    }
}

/// The SQLSTATE of what has no better one.
const STATE: &str = "42000";

/// The SQLSTATE of an error of DataFusion.
fn datafusion_sqlstate(e: &DataFusionError) -> &'static str {
    match e {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            datafusion_sqlstate(inner)
        }
        DataFusionError::Shared(inner) => datafusion_sqlstate(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(STATE, datafusion_sqlstate),
        DataFusionError::ArrowError(e, _) => arrow_sqlstate(e),
        DataFusionError::External(e) => match e.downcast_ref::<SqlError>() {
            Some(e) => e.sqlstate(),
            None => e.downcast_ref::<EngineError>().map_or(STATE, engine_sqlstate),
        },
        DataFusionError::SchemaError(e, _) => match **e {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            SchemaError::DuplicateQualifiedField { .. } | SchemaError::DuplicateUnqualifiedField { .. } => {
                "42701"
            }
        },
        DataFusionError::ResourcesExhausted(_) => "53200",
        DataFusionError::Plan(words) => planner_sqlstate(words),
        _ => STATE,
    }
}

/// The planner of DataFusion has one kind of error for these, so that only its words tell them apart.
fn planner_sqlstate(words: &str) -> &'static str {
    const KNOWN: [(&str, &str); 3] =
        [("table '", "42P01"), ("Invalid function", "42883"), ("ambiguous", "42702")];
    KNOWN.iter().find(|(known, _)| words.contains(known)).map_or(STATE, |(_, state)| state)
}

/// The SQLSTATE of an error of Arrow, whose casts have one kind of error for a text that is no number and for a number that
/// is too large.
pub(crate) fn arrow_sqlstate(e: &ArrowError) -> &'static str {
    match e {
        ArrowError::DivideByZero => "22012",
        ArrowError::ArithmeticOverflow(_) => "22003",
        ArrowError::CastError(words) if words.starts_with("Can't cast value") => "22003",
        ArrowError::CastError(_) | ArrowError::ParseError(_) => "22P02",
        ArrowError::InvalidArgumentError(words) if words.contains("non-nullable") => "23502",
        _ => STATE,
    }
}

fn place_prefix(place: &Option<(u64, u64)>) -> String {
    place.map_or_else(String::new, |(line, column)| format!("line {line}, column {column}: "))
}

impl From<SqlError> for DataFusionError {
    fn from(e: SqlError) -> Self {
        Self::External(Box::new(e))
    }
}

impl From<ParserError> for SqlError {
    fn from(e: ParserError) -> Self {
        let text = match e {
            ParserError::TokenizerError(m) | ParserError::ParserError(m) => m,
            ParserError::RecursionLimitExceeded => "the statement is nested too deeply".into(),
        };
        // sqlparser appends the place to its text: "... at Line: 1, Column: 8".
        let place = text.rfind(" at Line: ").and_then(|at| {
            let (line, column) = text[at + " at Line: ".len()..].split_once(", Column: ")?;
            Some((at, line.trim().parse().ok()?, column.trim().parse().ok()?))
        });
        match place {
            Some((at, line, column)) => Self::Syntax { line, column, message: one_line(&text[..at]) },
            None => Self::Syntax { line: 0, column: 0, message: one_line(&text) },
        }
    }
}

impl From<ArrowError> for SqlError {
    fn from(e: ArrowError) -> Self {
        match e {
            ArrowError::ExternalError(inner) => from_boxed(inner),
            other => Self::query(arrow_sqlstate(&other), &arrow_message(&other)),
        }
    }
}

impl From<DataFusionError> for SqlError {
    fn from(e: DataFusionError) -> Self {
        match e {
            DataFusionError::External(inner) => from_boxed(inner),
            DataFusionError::Context(_, inner) => (*inner).into(),
            DataFusionError::Diagnostic(diagnostic, inner) => {
                let e = Self::from(*inner);
                match diagnostic.span {
                    Some(span) => e.at(span.start.line, span.start.column),
                    None => e,
                }
            }
            DataFusionError::Collection(errors) => {
                errors.into_iter().next().map_or_else(|| Self::query(STATE, "unknown error"), Self::from)
            }
            DataFusionError::Shared(shared) => match std::sync::Arc::try_unwrap(shared) {
                Ok(e) => e.into(),
                Err(shared) => Self::query(datafusion_sqlstate(&shared), &describe(&shared)),
            },
            DataFusionError::ArrowError(e, _) => (*e).into(),
            DataFusionError::SQL(e, _) => (*e).into(),
            DataFusionError::NotImplemented(m) => Self::Unsupported(one_line(&m)),
            other => Self::query(datafusion_sqlstate(&other), &describe(&other)),
        }
    }
}

fn from_boxed(e: Box<dyn std::error::Error + Send + Sync>) -> SqlError {
    match e.downcast::<SqlError>() {
        Ok(e) => *e,
        Err(e) => match e.downcast::<DataFusionError>() {
            Ok(e) => (*e).into(),
            Err(e) => match e.downcast::<EngineError>() {
                Ok(e) => (*e).into(),
                Err(e) => SqlError::query(STATE, &e.to_string()),
            },
        },
    }
}

/// The innermost cause of `e`, without DataFusion's headings.
fn describe(e: &DataFusionError) -> String {
    match e {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => describe(inner),
        DataFusionError::Shared(inner) => describe(inner),
        DataFusionError::Collection(errors) => errors.first().map(describe).unwrap_or_default(),
        DataFusionError::ArrowError(e, _) => arrow_message(e),
        DataFusionError::External(e) => e.to_string(),
        DataFusionError::Plan(m)
        | DataFusionError::Configuration(m)
        | DataFusionError::Execution(m)
        | DataFusionError::Ffi(m) => m.clone(),
        DataFusionError::SchemaError(e, _) => schema_message(e),
        DataFusionError::ResourcesExhausted(m) => format!("out of memory: {m}"),
        DataFusionError::Internal(m) => format!("internal error: {m}"),
        other => other.strip_backtrace(),
    }
}

/// What DataFusion says of names, without Lode's own hidden ones.
fn schema_message(e: &SchemaError) -> String {
    let SchemaError::FieldNotFound { field, valid_fields } = e else { return e.to_string() };
    let known: Vec<String> = valid_fields
        .iter()
        .filter(|c| !c.name.starts_with(RESERVED_PREFIX))
        .map(|c| c.quoted_flat_name())
        .collect();
    let field = field.quoted_flat_name();
    match known.as_slice() {
        [] => format!("there is no column {field}"),
        known => format!("there is no column {field} among {}", known.join(", ")),
    }
}

fn arrow_message(e: &ArrowError) -> String {
    let text = match e {
        ArrowError::CastError(m) | ArrowError::ParseError(m) | ArrowError::InvalidArgumentError(m) => {
            sql_type_names(m)
        }
        ArrowError::DivideByZero => "division by zero".into(),
        ArrowError::ArithmeticOverflow(m) => sql_type_names(m),
        ArrowError::ExternalError(e) => e.to_string(),
        other => other.to_string(),
    };
    text.strip_prefix("Cast error: ").map(str::to_owned).unwrap_or(text)
}

/// Arrow's names of types in a message, as SQL calls them.
fn sql_type_names(message: &str) -> String {
    const NAMES: [(&str, &str); 12] = [
        ("Int16", "SMALLINT"),
        ("Int32", "INTEGER"),
        ("Int64", "BIGINT"),
        ("Float32", "REAL"),
        ("Float64", "DOUBLE"),
        ("Date32", "DATE"),
        ("Decimal128", "DECIMAL"),
        ("Utf8View", "VARCHAR"),
        ("Utf8", "VARCHAR"),
        ("BinaryView", "BYTEA"),
        ("Timestamp(Microsecond, None)", "TIMESTAMP"),
        ("Timestamp(µs)", "TIMESTAMP"),
    ];
    NAMES.iter().fold(message.to_owned(), |m, (arrow, sql)| m.replace(arrow, sql))
}

/// Characters of a message that are shown: a quoted piece of a statement can be as long as the statement.
const MESSAGE_CHARS: usize = 600;

/// `text` on one line of bounded length; runs of blanks and line breaks become one blank.
pub(crate) fn one_line(text: &str) -> String {
    let parts: Vec<&str> = text.split(['\n', '\r']).map(str::trim).filter(|p| !p.is_empty()).collect();
    let line = parts.join(" ");
    match line.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(e: impl Into<SqlError>, expected: &str) {
        assert_eq!(e.into().to_string(), expected);
    }

    #[test]
    fn messages_are_one_line_and_name_the_place() {
        check(
            ParserError::ParserError("Expected: an expression, found: EOF at Line: 2, Column: 14".into()),
            "syntax error at line 2, column 14: Expected: an expression, found: EOF",
        );
        check(DataFusionError::Plan("a\nb\n  c".into()), "a b c");
        check(
            DataFusionError::Context(
                "simplify".into(),
                Box::new(ArrowError::CastError("Can't cast value 70000 to type Int16".into()).into()),
            ),
            "Can't cast value 70000 to type SMALLINT",
        );
        check(DataFusionError::NotImplemented("X".into()), "not supported: X");
    }

    #[test]
    fn our_own_errors_survive_the_way_through_datafusion() {
        let e: DataFusionError = SqlError::Unsupported("BEGIN".into()).into();
        check(DataFusionError::Context("here".into(), Box::new(e)), "not supported: BEGIN");
    }
}
