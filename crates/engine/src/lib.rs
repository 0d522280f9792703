//! lode-engine
