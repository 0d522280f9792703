//! lode-flash
