//! Statements as text, as a tree, and what they answer.
//!
//! ```text
//!   script ─► parse (dialect, depth) ─► Statement ─► prepare (literals, rows) ─► tree to run ─► StatementResult
//! ```

mod depth;
mod dialect;
mod literals;
mod parse;
mod prepare;
mod result;
mod rows;

pub use parse::Statement;
pub(crate) use parse::{fold, table_name};
pub(crate) use prepare::prepare;
pub use result::StatementResult;
