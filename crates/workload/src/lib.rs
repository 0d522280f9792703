//! Transactional workloads over small traits, so that the same work runs on Lode, on other stores, and on a reference
//! store in memory.
//!
//! ```text
//!   tpcc: five transactions, twelve conditions ─► TpccStore ◄─ trees of bytes ─► Transactional ◄─ Lode, memory
//!   ycsb: six mixes                            ─► Transactional
//!   sql:  statements by key, TPC-B, TPC-C, CH   ─► SqlConnection ◄─ Lode's SQL, SQLite
//!   kv:   page batches, zipf, reads, scans, commits ─► KeyValue ◄─ one tree of a Transactional, other stores
//!   random, zipf, choose: random choices that depend only on a seed, the same on every machine
//!   harness, measure, disk: threads, latencies, rates over time, bytes by cause, bytes at the device
//! ```
//!
//! As benchmarks do, this crate reads clocks and starts threads.

pub mod choose;
pub mod disk;
pub mod harness;
pub mod kv;
pub mod lode;
pub mod measure;
pub mod memory;
pub mod random;
pub mod sql;
pub mod store;
pub mod tpcc;
pub mod upkeep;
pub mod ycsb;
pub mod zipf;
