//! Statements: from text to a checked tree, and their results.
//!
//! ```text
//!   script ─► parse (dialect, depth) ─► Statement ─► prepare (shape, literals, rows) ─► check_names ─► tree to plan
//! ```

mod assignments;
mod conflict_targets;
mod cursor;
mod depth;
mod dialect;
mod flow;
mod identifiers;
mod inline;
mod likes;
mod literals;
mod names;
mod output_names;
mod parse;
mod prepare;
mod refused;
mod relations;
mod result;
mod rows;
mod sequences;
mod shape;
mod short_shape;
mod windows;

pub(crate) use crate::names::fold;
pub(crate) use conflict_targets::target_text;
pub(crate) use identifiers::{Overriding, overriding, parse_expression, parts, table_name};
pub(crate) use likes::Like;
pub(crate) use names::check_names;
pub(crate) use output_names::{OutputNames, column_name};
pub use parse::Statement;
pub(crate) use prepare::{has_subquery, prepare, prepare_with_parameters};
pub(crate) use relations::{FillingChange, RelationAction, RelationStatement};
pub use result::StatementResult;
pub(crate) use sequences::{SequenceOption, SequenceStatement};
pub(crate) use shape::column_count;
pub(crate) use short_shape::{Shape as ShortShape, is_default, literal_value, number};
