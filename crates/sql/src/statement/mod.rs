//! Statements: from text to a checked tree, and their results.
//!
//! ```text
//!   script ─► parse (dialect, depth) ─► Statement ─► prepare (shape, literals, rows) ─► check_names ─► tree to plan
//! ```

mod depth;
mod dialect;
mod literals;
mod names;
mod parse;
mod prepare;
mod result;
mod rows;
mod shape;

pub(crate) use names::check_names;
pub use parse::Statement;
pub(crate) use parse::{fold, table_name};
pub(crate) use prepare::{prepare, prepare_with_parameters};
pub use result::StatementResult;
pub(crate) use shape::column_count;
