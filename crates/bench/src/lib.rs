//! Workloads and measurements on Lode.
//!
//! ```text
//!   tpch: generate ─► load ─► 22 queries ─► compare with shipped answers, with another offload level, with Parquet
//! ```

pub mod error;
pub mod tpch;

pub use error::BenchError;
