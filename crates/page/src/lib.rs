//! The bytes that host and drive both understand: schemas, values, columns and table pages. Pure.
//!
//! ```text
//!   rows ─► Column (per column) ── encode ─► table page (PAX) ── decode one column ─► Column
//! ```

pub mod column;
mod column_check;
mod error;
pub mod schema;
pub mod value;

pub use column::{Column, Values};
pub use error::PageError;
pub use schema::{ColumnType, DataType, Schema};
pub use value::Value;
