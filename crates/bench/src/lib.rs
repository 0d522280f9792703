//! Workloads and measurements on Lode.
//!
//! ```text
//!   tpch: generate ─► load ─► 22 queries ─► compare with shipped answers, with another offload level, with Parquet
//!   gc:   fill ─► overwrite many times ─► write amplification: measured, modelled, by theory
//!   raw:  the drive and plain file I/O in alternation
//!   paper: what papers published ─► beside what their equations give ─► table, CSV, JSON, SVG
//! ```

pub mod drive_host;
pub mod error;
pub mod gc;
pub mod paper;
pub mod random;
pub mod raw;
pub mod tpch;

pub use error::BenchError;
