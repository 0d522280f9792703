//! Lode's SQL: DataFusion over a drive that filters, projects and skips.
//!
//! ```text
//!   SQL ─► plan ─► LodeScanExec ─► program ─► drive ─► columns ─► Arrow ─► DataFusion's operators ─► rows
//! ```

pub mod arrow_convert;
pub mod counts;
pub mod offload;
pub mod translate;

pub use counts::{QueryCounts, StatementCounts};
pub use offload::Offload;
