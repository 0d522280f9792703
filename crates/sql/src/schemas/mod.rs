//! Schemas: what makes, renames and drops them, and those of temporary relations.
//!
//! ```text
//!   CREATE SCHEMA s ─► an object of the catalog          CREATE TABLE s.t ─► a table that the engine calls s, a separator, t
//!   CREATE TEMP TABLE t ─► a table of the schema pg_temp_3 ─► dropped with the session, or when the database is next opened
//! ```

mod define;
mod relation;
mod temporary;

pub(crate) use define::{alter_schema, create_schema, drop_schemas};
pub(crate) use relation::alter_relation;
pub(crate) use temporary::{Temporaries, drop_left, temporary_schema};
