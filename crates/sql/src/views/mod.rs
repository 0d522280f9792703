//! Views: queries with names.
//!
//! ```text
//!   CREATE VIEW v AS query ─► the query's text; its relations by number, with the columns that they have now ─► an object of the catalog
//!   SELECT ... FROM v      ─► the text, planned over these relations and columns ─► a part of the statement's plan
//! ```
//!
//! The text keeps its names for good: what the relations are called later does not matter to it, and columns that they get later are not in
//! `*`. A relation or a column that a view needs goes only with the view (`view_readers.rs`).

mod define;
mod plan;

pub(crate) use define::create_view;
pub(crate) use plan::open_view;
