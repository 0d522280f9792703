//! Tables, and transactions over them.

pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod edit;
pub(crate) mod index;
pub(crate) mod index_order;
pub(crate) mod key;
pub(crate) mod own;
pub(crate) mod scan;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod write;
