//! Errors of sqlparser, Arrow and DataFusion as Lode's own.
//!
//! ```text
//!   DataFusionError ─► an error of ours that travelled within it?  ─► taken out
//!                  ─► a kind that says what is wrong               ─► its SQLSTATE
//!                  ─► only a text                                  ─► phrases
//! ```

use std::error::Error;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::TokenizerError;
use lode_engine::EngineError;

use super::{SqlError, engine_sqlstate, one_line, phrases, state};
use crate::names::RESERVED_PREFIX;

/// The SQLSTATE of an error of the libraries that has no better one.
const OTHER: &str = state::SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION;

impl From<SqlError> for DataFusionError {
    fn from(e: SqlError) -> Self {
        Self::External(Box::new(e))
    }
}

impl From<TokenizerError> for SqlError {
    fn from(e: TokenizerError) -> Self {
        Self::Syntax { line: e.location.line, column: e.location.column, message: one_line(&e.message) }
    }
}

impl From<ParserError> for SqlError {
    fn from(e: ParserError) -> Self {
        let text = match e {
            ParserError::TokenizerError(m) | ParserError::ParserError(m) => m,
            ParserError::RecursionLimitExceeded => "the statement is nested too deeply".into(),
        };
        let (message, place) = phrases::split_place(&text);
        let (line, column) = place.unwrap_or((0, 0));
        Self::Syntax { line, column, message: one_line(message) }
    }
}

impl From<ArrowError> for SqlError {
    fn from(e: ArrowError) -> Self {
        match e {
            ArrowError::ExternalError(inner) => from_boxed(inner),
            other => Self::failed(arrow_sqlstate(&other), arrow_message(&other)),
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
                errors.into_iter().next().map_or_else(|| Self::failed(OTHER, "unknown error"), Self::from)
            }
            DataFusionError::Shared(shared) => match std::sync::Arc::try_unwrap(shared) {
                Ok(e) => e.into(),
                Err(shared) => from_shared(&shared),
            },
            DataFusionError::ArrowError(e, _) => (*e).into(),
            DataFusionError::SQL(e, _) => (*e).into(),
            DataFusionError::NotImplemented(m) => Self::Unsupported(one_line(&m)),
            other => from_shared(&other),
        }
    }
}

fn from_boxed(e: Box<dyn Error + Send + Sync>) -> SqlError {
    match e.downcast::<SqlError>() {
        Ok(e) => *e,
        Err(e) => match e.downcast::<DataFusionError>() {
            Ok(e) => (*e).into(),
            Err(e) => match e.downcast::<EngineError>() {
                Ok(e) => (*e).into(),
                Err(e) => {
                    let text = e.to_string();
                    SqlError::failed(phrases::sqlstate(&text).unwrap_or(OTHER), text)
                }
            },
        },
    }
}

/// An error that others hold too, so that only its SQLSTATE and its message can be taken over.
fn from_shared(e: &DataFusionError) -> SqlError {
    let message = describe(e);
    let message = phrases::clearer(&message).unwrap_or(message);
    SqlError::failed(datafusion_sqlstate(e), message)
}

fn datafusion_sqlstate(e: &DataFusionError) -> &'static str {
    match e {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            datafusion_sqlstate(inner)
        }
        DataFusionError::Shared(inner) => datafusion_sqlstate(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(OTHER, datafusion_sqlstate),
        DataFusionError::ArrowError(e, _) => arrow_sqlstate(e),
        DataFusionError::External(e) => match e.downcast_ref::<SqlError>() {
            Some(e) => e.sqlstate(),
            None => e.downcast_ref::<EngineError>().map_or(OTHER, engine_sqlstate),
        },
        DataFusionError::SchemaError(e, _) => match &**e {
            SchemaError::FieldNotFound { field, valid_fields } if is_of_no_table(field, valid_fields) => {
                state::UNDEFINED_TABLE
            }
            SchemaError::FieldNotFound { .. } => state::UNDEFINED_COLUMN,
            SchemaError::AmbiguousReference { .. } => state::AMBIGUOUS_COLUMN,
            SchemaError::DuplicateQualifiedField { .. } | SchemaError::DuplicateUnqualifiedField { .. } => {
                state::DUPLICATE_COLUMN
            }
        },
        DataFusionError::ResourcesExhausted(_) => state::OUT_OF_MEMORY,
        DataFusionError::Configuration(_) => state::INVALID_PARAMETER_VALUE,
        DataFusionError::NotImplemented(_) => state::FEATURE_NOT_SUPPORTED,
        DataFusionError::SQL(..) => state::SYNTAX_ERROR,
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => state::IO_ERROR,
        DataFusionError::Plan(text) | DataFusionError::Execution(text) | DataFusionError::Internal(text) => {
            phrases::sqlstate(text).unwrap_or(OTHER)
        }
        _ => OTHER,
    }
}

/// The SQLSTATE of an error of Arrow. Casts that SQL asks for have errors of their own (`semantics/checked_cast.rs`).
pub(crate) fn arrow_sqlstate(e: &ArrowError) -> &'static str {
    match e {
        ArrowError::DivideByZero => state::DIVISION_BY_ZERO,
        ArrowError::ArithmeticOverflow(_) => state::NUMERIC_VALUE_OUT_OF_RANGE,
        ArrowError::CastError(_) | ArrowError::ParseError(_) => state::INVALID_TEXT_REPRESENTATION,
        ArrowError::IoError(..) => state::IO_ERROR,
        ArrowError::MemoryError(_) => state::OUT_OF_MEMORY,
        ArrowError::OffsetOverflowError(_)
        | ArrowError::DictionaryKeyOverflowError
        | ArrowError::RunEndIndexOverflowError => state::PROGRAM_LIMIT_EXCEEDED,
        ArrowError::NotYetImplemented(_) => state::FEATURE_NOT_SUPPORTED,
        ArrowError::ComputeError(text) => phrases::sqlstate(text).unwrap_or(OTHER),
        _ => OTHER,
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
        | DataFusionError::Ffi(m) => sql_type_names(m),
        DataFusionError::SchemaError(e, _) => schema_message(e),
        DataFusionError::ResourcesExhausted(m) => format!("out of memory: {m}"),
        DataFusionError::Internal(m) => format!("internal error: {m}"),
        other => other.strip_backtrace(),
    }
}

/// Whether a column that was not found names a table that the query does not read.
fn is_of_no_table(field: &Column, valid_fields: &[Column]) -> bool {
    field.relation.is_some() && valid_fields.iter().all(|c| c.relation != field.relation)
}

/// DataFusion's message about a name, without the columns that Lode hides.
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
    match e {
        ArrowError::CastError(m)
        | ArrowError::ParseError(m)
        | ArrowError::InvalidArgumentError(m)
        | ArrowError::ComputeError(m)
        | ArrowError::ArithmeticOverflow(m) => sql_type_names(m),
        ArrowError::DivideByZero => "division by zero".into(),
        ArrowError::ExternalError(e) => e.to_string(),
        other => other.to_string(),
    }
}

/// Arrow's names of types in a message, as SQL calls them.
fn sql_type_names(message: &str) -> String {
    const NAMES: [(&str, &str); 15] = [
        ("Interval(MonthDayNano)", "INTERVAL"),
        ("Timestamp(Microsecond, None)", "TIMESTAMP"),
        ("Timestamp(µs)", "TIMESTAMP"),
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
        ("Binary", "BYTEA"),
        ("Boolean", "BOOLEAN"),
    ];
    NAMES.iter().fold(message.to_owned(), |m, (arrow, sql)| m.replace(arrow, sql))
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
