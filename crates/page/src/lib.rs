//! The formats that host and drive share: schemas, values, columns, table pages and tree nodes. Pure.
//!
//! ```text
//!   rows ─► Column (per column) ── encode ─► table page (PAX) ── decode one column ─► Column
//! ```

mod bits;
pub mod builder;
pub mod column;
mod column_check;
mod constant_column;
pub mod data_type;
pub mod encoding;
mod error;
pub mod matchable;
pub mod node;
pub mod ops;
pub mod packed;
pub mod row;
pub mod schema;
pub mod symbols;
pub mod table_page;
pub mod value;
pub mod wire;

pub use builder::ColumnBuilder;
pub use column::{Column, Values};
pub use data_type::DataType;
pub use encoding::EncodingChoice;
pub use error::PageError;
pub use node::{Node, NodeMut, NodeValue};
pub use schema::{ABSENT_BYTES_MAX, ColumnType, Constant, Schema};
pub use table_page::{PageKind, PageMeta, TablePage, decode_page, encode, encode_as};
pub use value::Value;

const _: () = assert!(cfg!(target_endian = "little"), "pages are little-endian and read as arrays in place");
