//! The catalog.
