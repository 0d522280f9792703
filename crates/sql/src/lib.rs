//! lode-sql
