//! Lode's own names: of the catalog and the first schema, and those that users may not use. And names within schemas.
//!
//! ```text
//!   SQL: t, public.t ─► the engine: t          SQL: s.t ─► the engine: s, a separator, t          messages: s.t
//! ```

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::Ident;
use lode_engine::TableDef;

use crate::SqlError;
use crate::error::state;

/// The one catalog.
pub(crate) const CATALOG: &str = "lode";
/// The schema that is always there.
pub(crate) const SCHEMA: &str = "public";
/// Schemas of temporary relations are called so, and a number.
pub(crate) const TEMPORARY_PREFIX: &str = "pg_temp_";
/// Between a schema and a name in it, in names of the engine. No name has a control character.
const SEPARATOR: char = '\u{1f}';
/// The rows for RETURNING.
pub(crate) const RETURNED: &str = "__lode_returned";
/// The rows that an INSERT with ON CONFLICT proposes.
pub(crate) const PROPOSED: &str = "__lode_proposed";
/// The name under which a DELETE or UPDATE scans the table that it changes.
pub(crate) const TARGET: &str = "__lode_target";
/// Names that begin with this are Lode's own.
pub(crate) const RESERVED_PREFIX: &str = "__lode_";

/// The engine's name of what is called `name` in a schema.
pub(crate) fn in_schema(schema: &str, name: &str) -> String {
    match schema {
        SCHEMA => name.to_owned(),
        _ => format!("{schema}{SEPARATOR}{name}"),
    }
}

/// The schema of a name of the engine, and the name within it.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once(SEPARATOR).unwrap_or((SCHEMA, name))
}

/// The engine's name of what is called `name` in the schema of `of`.
pub(crate) fn beside(of: &str, name: &str) -> String {
    in_schema(split(of).0, name)
}

/// Whether a name of the engine is that of a temporary relation.
pub(crate) fn is_temporary(name: &str) -> bool {
    split(name).0.starts_with(TEMPORARY_PREFIX)
}

/// A text with names of the engine in it, as users see it.
pub(crate) fn shown(text: &str) -> String {
    text.replace(SEPARATOR, ".")
}

/// The name of a table's primary key.
pub(crate) fn primary_key_name(def: &TableDef) -> String {
    def.primary_key_name.clone().unwrap_or_else(|| format!("{}_pkey", split(&def.name).1))
}

/// A name of the engine as users see it: `t`, or `schema.t`.
pub fn shown_name(name: &str) -> String {
    shown(name)
}

/// The engine's name of the table of a reference.
pub(crate) fn referenced(reference: &TableReference) -> String {
    in_schema(reference.schema().unwrap_or(SCHEMA), reference.table())
}

/// A name of the engine as a statement has it, in quotes.
pub(crate) fn qualified(name: &str) -> String {
    match split(name) {
        (SCHEMA, name) => quoted(name),
        (schema, name) => format!("{}.{}", quoted(schema), quoted(name)),
    }
}

/// A name as a statement has it, in quotes.
pub(crate) fn quoted(name: &str) -> String {
    Ident::with_quote('"', name).to_string()
}

/// An identifier as in the catalog: in lower case unless it was quoted.
pub(crate) fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Refuses names that no object may have: empty ones, reserved ones, and those with control characters.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), SqlError> {
    let state = match name {
        "" => state::SYNTAX_ERROR,
        name if name.starts_with(RESERVED_PREFIX) => state::RESERVED_NAME,
        name if name.chars().any(char::is_control) => state::INVALID_NAME,
        _ => return Ok(()),
    };
    Err(SqlError::failed(state, format!("a {what} cannot be named \"{}\"", name.escape_debug())))
}

/// The names of a list, which commas separate.
pub(crate) fn listed(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}
