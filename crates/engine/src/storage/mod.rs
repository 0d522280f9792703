//! Storage: what the engine knows of its drive.

pub(crate) mod clock;
pub(crate) mod columns;
pub(crate) mod pool;
pub(crate) mod read_ahead;
pub(crate) mod store;
