//! Lode's own names: of the catalog and the schema, and those that users may not use.

use datafusion::sql::sqlparser::ast::Ident;

use crate::SqlError;
use crate::error::state;

/// The one catalog.
pub(crate) const CATALOG: &str = "lode";
/// The one schema of tables.
pub(crate) const SCHEMA: &str = "public";
/// The rows for RETURNING.
pub(crate) const RETURNED: &str = "__lode_returned";
/// The rows that an INSERT with ON CONFLICT proposes.
pub(crate) const PROPOSED: &str = "__lode_proposed";
/// The name under which a DELETE or UPDATE scans the table that it changes.
pub(crate) const TARGET: &str = "__lode_target";
/// Names that begin with this are Lode's own.
pub(crate) const RESERVED_PREFIX: &str = "__lode_";

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
