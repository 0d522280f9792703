//! What writes trees.

pub(crate) mod spaces;
pub(crate) mod state;
pub(crate) mod work;
