//! lode-bench
