//! Pages of trees: nodes, values that are pages of their own, and bitmaps of extents.

pub(super) mod allocation;
pub(super) mod body;
pub(super) mod value;
