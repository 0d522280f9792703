//! Identifiers as the catalog has them.

use datafusion::sql::sqlparser::ast::{Expr, Insert, ObjectName, OptimizerHint, OptimizerHintStyle};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::LodeDialect;
use crate::SqlError;
use crate::error::state;
use crate::names::{CATALOG, fold, in_schema};

/// The parts of a name, as the catalog has them.
pub(crate) fn parts(name: &ObjectName) -> Result<Vec<String>, SqlError> {
    let parts: Option<_> = name.0.iter().map(|part| part.as_ident().map(fold)).collect();
    parts.ok_or_else(|| SqlError::Unsupported(format!("the name {name}")))
}

/// The engine's name of the relation that `name` names: `t`, `schema.t` or `lode.schema.t`. A name without a schema is one of the
/// first schema: `schemas/resolve.rs` has put others in their schema.
pub(crate) fn table_name(name: &ObjectName) -> Result<String, SqlError> {
    match parts(name)?.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [table] => Ok((*table).to_owned()),
        [schema, table] | [CATALOG, schema, table] => Ok(in_schema(schema, table)),
        _ => {
            let message = format!("cross-database references are not implemented: {name}");
            Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message))
        }
    }
}

/// An expression from the text of a definition.
///
/// # Errors
/// When it is none.
pub(crate) fn parse_expression(text: &str) -> Result<Expr, SqlError> {
    let mut parser = Parser::new(&LodeDialect).try_with_sql(text)?;
    Ok(parser.parse_expr()?)
}

/// What `OVERRIDING ... VALUE` says of an INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// Values are taken for columns that are GENERATED ALWAYS AS IDENTITY.
    System,
    /// Values for IDENTITY columns are not taken.
    User,
}

impl Overriding {
    const fn name(self) -> &'static str {
        match self {
            Self::System => "overriding system value",
            Self::User => "overriding user value",
        }
    }

    /// Notes it in the INSERT. sqlparser has no place of its own for it, and Lode's dialect has no hints.
    pub(super) fn note(self, insert: &mut Insert) {
        insert.optimizer_hints.push(OptimizerHint {
            prefix: String::new(),
            text: self.name().into(),
            style: OptimizerHintStyle::MultiLine,
        });
    }
}

/// What an INSERT overrides.
pub(crate) fn overriding(insert: &Insert) -> Option<Overriding> {
    let has = |o: &Overriding| insert.optimizer_hints.iter().any(|hint| hint.text == o.name());
    [Overriding::System, Overriding::User].into_iter().find(has)
}
