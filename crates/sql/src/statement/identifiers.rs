//! Identifiers as the catalog has them.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

use crate::SqlError;
use crate::error::state;
use crate::names::{CATALOG, SCHEMA};

/// An identifier as in the catalog: in lower case unless it was quoted.
pub(crate) fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The table that `name` names: `t`, `public.t` or `lode.public.t`.
pub(crate) fn table_name(name: &ObjectName) -> Result<String, SqlError> {
    let parts: Vec<String> = name
        .0
        .iter()
        .map(|part| part.as_ident().map(fold))
        .collect::<Option<_>>()
        .ok_or_else(|| SqlError::Unsupported(format!("the name {name}")))?;
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [table] | [SCHEMA, table] | [CATALOG, SCHEMA, table] => Ok((*table).to_owned()),
        _ => {
            let message = format!("there is no schema for {name}: tables are in {CATALOG}.{SCHEMA}");
            Err(SqlError::failed(state::INVALID_SCHEMA_NAME, message))
        }
    }
}
