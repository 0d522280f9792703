//! Lode's own names: of the catalog and the schema, and those that users may not use.

use datafusion::sql::sqlparser::ast::Ident;

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
