//! Pages of trees that are no nodes.

pub(crate) mod allocation;
pub(crate) mod value;
