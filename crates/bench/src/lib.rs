//! Workloads and measurements on Lode.
//!
//! ```text
//!   tpch:  generate ─► load ─► 22 queries ─► compare with shipped answers, with another offload level, with Parquet;
//!          rounds of refresh functions
//!   sql:   Lode's SQL behind the trait of workloads: statements by key, TPC-B, TPC-C, CH-benCHmark
//!   gc:    fill ─► overwrite many times ─► write amplification: measured, modelled, by theory
//!   raw:   the drive and plain file I/O in alternation
//!   micro: operators over TPC-H in memory ─► what the host of this machine takes for a row
//!   levels: 22 queries x offload levels x modelled devices ─► what the choice of a level costs
//!   paper: published figures ─► beside the papers' equations and an executing drive ─► table, CSV, JSON, SVG, one page
//!   trace: a trace in one of four formats, or a seed ─► replay in virtual time ─► rates, latencies, all accounted for
//! ```

pub mod drive_host;
pub mod error;
pub mod gc;
pub mod joins;
pub mod levels;
pub mod micro;
mod modelled;
pub mod paper;
pub mod raw;
pub mod replay;
pub mod sql;
pub mod text_table;
pub mod tpch;
pub mod trace;

pub use error::BenchError;
pub use lode_workload::{disk, random, zipf};
