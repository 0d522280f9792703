//! Where the names of a session lead.
//!
//! ```text
//!   SELECT ... FROM t ─► path of the session: pg_temp_3, b, public ─► the first schema with a relation t ─► FROM b.t
//!   CREATE TABLE t    ─► the first schema of the path that is there
//! ```
//!
//! The engine knows names only: `names.rs` joins schema and name. The schema `public` is always there; others are objects of the catalog
//! (`schemas/`). As long as a session has the default path and no temporary relations, names need no such step.

mod known;
mod path;
mod resolve;

pub(crate) use known::{NameSpaces, Relations, TEMPORARY, Temporary, has_key};
pub(crate) use path::SearchPath;
pub(crate) use resolve::{no_schema, resolve};
