//! What an error is about, by name: the table, the column and the constraint that PostgreSQL's error fields hold.

use lode_engine::EngineError;

use super::{SqlError, state};
use crate::names::split;

/// The names of what an error is about, where they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFields {
    /// The schema of the table.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The constraint, or the index that is one.
    pub constraint: Option<String>,
}

impl ErrorFields {
    fn of(table: &str) -> Self {
        let (schema, table) = split(table);
        Self { schema: Some(schema.to_owned()), table: Some(table.to_owned()), ..Self::default() }
    }

    fn column(self, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..self }
    }

    fn constraint(self, constraint: &str) -> Self {
        Self { constraint: Some(constraint.to_owned()), ..self }
    }
}

impl SqlError {
    /// The table, the column and the constraint that the error is about, where they are known.
    pub fn fields(&self) -> ErrorFields {
        match self {
            Self::NoColumn { table, column } => ErrorFields::of(table).column(column),
            Self::ColumnTwice { column, .. } | Self::BadValue { column, .. } => {
                ErrorFields::default().column(column)
            }
            Self::Malformed { state: state::NOT_NULL_VIOLATION, table, column, .. } => {
                ErrorFields::of(table).column(column)
            }
            Self::Malformed { column, .. } => ErrorFields::default().column(column),
            Self::Check { table, constraint } => ErrorFields::of(table).constraint(constraint),
            Self::Engine(e) => of_engine(e),
            _ => ErrorFields::default(),
        }
    }
}

fn of_engine(e: &EngineError) -> ErrorFields {
    match e {
        // A primary key has PostgreSQL's name of one that was given none.
        EngineError::DuplicateKey { table, constraint, .. } => {
            let usual = || format!("{}_pkey", split(table).1);
            ErrorFields::of(table).constraint(&constraint.clone().unwrap_or_else(usual))
        }
        EngineError::Unique { table, constraint, .. } | EngineError::ForeignKey { table, constraint, .. } => {
            ErrorFields::of(table).constraint(constraint)
        }
        EngineError::NotNull { table, column }
        | EngineError::ContainsNulls { table, column }
        | EngineError::TooLong { table, column, .. }
        | EngineError::DuplicateColumn { table, column } => ErrorFields::of(table).column(column),
        EngineError::NoSuchTable(table)
        | EngineError::TableExists(table)
        | EngineError::Invalid { table, .. }
        | EngineError::Referenced { table, .. }
        | EngineError::RowTooLong { table, .. } => ErrorFields::of(table),
        _ => ErrorFields::default(),
    }
}
